"""Our classes in Keras's registry, so that a saved model opens after `import keras, keras_bert2d`.

Keras finds a saved class by its registered name, and a class is registered when its module is imported.
Those modules need TensorFlow, which takes seconds to start. So they are imported at once where Keras
is there already, and where it is not as soon as it comes.
"""

import importlib
import importlib.abc
import importlib.util
import sys

# All modules whose classes are in saved models.
_MODULES = (
    "keras_bert2d.models.masked_lm",
    "keras_bert2d.models.token_classifier",
    "keras_bert2d.training.optimizer",
)


def register_when_keras_comes() -> None:
    """Registers our classes with Keras, now or as soon as it is imported."""
    if "keras" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Awaiting())


def register() -> None:
    """Registers our classes with Keras."""
    for name in _MODULES:
        importlib.import_module(name)


class _Awaiting(importlib.abc.MetaPathFinder):
    """Stands before Python's finders, and registers when Keras and all that was importing it are there."""

    def __init__(self) -> None:
        # Modules that are being executed and may import Keras: what needs them cannot be imported yet.
        self.unfinished: list[str] = []

    def find_spec(self, fullname, path=None, target=None):
        is_awaited = fullname in ("keras", "keras_hub") or fullname.startswith("keras_bert2d.")
        if not is_awaited or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Watched(spec.loader, self)
        return spec

    def register_if_ready(self) -> None:
        """Registers our classes, once."""
        if self in sys.meta_path and "keras" in sys.modules and not self.unfinished:
            sys.meta_path.remove(self)
            register()


class _Watched(importlib.abc.Loader):
    """Another loader that tells when a module begins and ends."""

    def __init__(self, loader, awaiting: _Awaiting) -> None:
        self._loader = loader
        self._awaiting = awaiting

    def __getattr__(self, name):
        # `python -m` asks the loader for the code and runs it itself.
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._awaiting.unfinished.append(module.__name__)
        try:
            self._loader.exec_module(module)
        finally:
            self._awaiting.unfinished.remove(module.__name__)
        self._awaiting.register_if_ready()
