"""Checkpoints: whole or not there, safetensors and JSON only."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from keras_bert2d.errors import InputError
from keras_bert2d.files import atomic_folder

_WEIGHTS = "state.safetensors"
_STATE = "state.json"


class Checkpoints:
    """The checkpoints of a run: the last few by step, and the best.

    Args:
        folder: Where they lie; each is a folder `step-00001000`, or `best`.
        keep: int. How many of the last to keep.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 3) -> None:
        self.folder = Path(folder)
        self.keep = keep

    def save(self, step: int, variables: list, state: dict) -> None:
        """Writes a checkpoint, then deletes those that are too old.

        A full disk or a kill leaves the checkpoints before as they were.

        Args:
            step: int.
            variables: Keras variables, in a fixed order.
            state: dict that JSON can hold.
        """
        self._write(f"step-{step:08d}", variables, {**state, "step": step})
        for old in self._steps()[: -self.keep]:
            shutil.rmtree(old)

    def save_best(self, step: int, variables: list, state: dict) -> None:
        """Writes the best checkpoint in place of the one before."""
        self._write("best", variables, {**state, "step": step})

    def load_last(self, variables: list) -> dict | None:
        """Brings variables back from the last checkpoint; returns its state, `None` where there is none."""
        steps = self._steps()
        return self._read(steps[-1], variables) if steps else None

    def load_best(self, variables: list) -> dict | None:
        """Brings variables back from the best checkpoint; returns its state, `None` where there is none."""
        best = self.folder / "best"
        return self._read(best, variables) if best.exists() else None

    def clean(self) -> None:
        """Deletes what a process that was killed while it wrote has left."""
        for path in self.folder.glob(".*"):
            shutil.rmtree(path)

    def _steps(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        steps = (path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{8,}", path.name))
        return sorted(steps, key=lambda path: int(path.name.removeprefix("step-")))

    def _write(self, name: str, variables: list, state: dict) -> None:
        arrays = {_key(i): np.asarray(v.numpy(), order="C") for i, v in enumerate(variables)}
        try:
            with atomic_folder(self.folder / name) as temporary:
                save_file(arrays, temporary / _WEIGHTS)
                # Shapes in the names would be lost to a reader; the state is small and readable.
                (temporary / _STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
                for path in temporary.iterdir():
                    with open(path, "rb") as file:
                        os.fsync(file.fileno())
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"The checkpoint {self.folder / name} could not be written ({error}); those before it "
                "are whole. Make room and start the same command again."
            ) from error

    def _read(self, path: Path, variables: list) -> dict:
        try:
            arrays = load_file(path / _WEIGHTS)
            state = json.loads((path / _STATE).read_text(encoding="utf-8"))
        except (OSError, SafetensorError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(
                f"The checkpoint {path} cannot be read ({error}): delete it to use an older one."
            ) from None
        wanted = {_key(i): tuple(v.shape) for i, v in enumerate(variables)}
        found = {name: array.shape for name, array in arrays.items()}
        if wanted != found:
            name = next(iter(sorted(set(wanted.items()) ^ set(found.items()))))[0]
            raise InputError(f"The checkpoint {path} is of another model: {name} differs.")
        for i, variable in enumerate(variables):
            variable.assign(arrays[_key(i)])
        return state


def _key(index: int) -> str:
    # Keras numbers the names of a process's layers and optimizers, so a name may differ the next time.
    return f"variable-{index:05d}"
