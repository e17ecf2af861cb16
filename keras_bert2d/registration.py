"""Our classes in Keras's registry, so that a saved model opens after `import keras, keras_bert2d`.

Keras finds a saved class by its registered name, and a class is registered when its module is imported.
Those modules need TensorFlow, which takes seconds to start. So they are imported at once where Keras
is there already, and where it is not as soon as it comes.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable

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


def _imports_keras(name: str) -> bool:
    """Whether a module may import Keras: while it does, nothing that needs it can be imported."""
    return name in ("keras", "keras_hub") or name.startswith("keras_bert2d.")


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


class _Awaiting(importlib.abc.MetaPathFinder):
    """Stands before Python's own finders, and acts when Keras and all that was importing it are there."""

    def find_spec(self, fullname, path=None, target=None):
        if not _imports_keras(fullname) or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, self._imported)
        return spec

    def _imported(self, name: str) -> None:
        if self not in sys.meta_path or "keras" not in sys.modules:
            return
        others = set(filter(_imports_keras, list(sys.modules))) - {name}
        if not any(map(_is_being_imported, others)):
            sys.meta_path.remove(self)
            register()


class _Announcing(importlib.abc.Loader):
    """Another loader that calls a function with the name of a module that has been executed."""

    def __init__(self, loader, announce: Callable[[str], None]) -> None:
        self._loader = loader
        self._announce = announce

    def __getattr__(self, name):
        # `python -m` asks the loader for the code and runs it itself.
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._announce(module.__name__)
