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
_STABLE = "stable"


class Checkpoints:
    """The checkpoints of a run: the last few by step, the best, and the last before the rate decays.

    Args:
        folder: Where they lie; each is a folder `step-00001000`, or `best`, or `stable`.
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
        self._write(self._path(step).name, variables, {**state, "step": step})
        for old in self._steps()[: -self.keep]:
            shutil.rmtree(old)

    def save_best(self, step: int, variables: list, state: dict) -> None:
        """Writes the best checkpoint in place of the one before."""
        self._write("best", variables, {**state, "step": step})

    def save_stable(self, step: int, variables: list, state: dict) -> None:
        """Writes the checkpoint that a longer run goes back to, in place of the one before."""
        self._write(_STABLE, variables, {**state, "step": step})

    def load_last(self, variables: list) -> dict | None:
        """Brings variables back from the last checkpoint; returns its state, `None` where there is none."""
        steps = self._steps()
        return self._read(steps[-1], variables) if steps else None

    def load_best(self, variables: list) -> dict | None:
        """Brings variables back from the best checkpoint; returns its state, `None` where there is none."""
        best = self.folder / "best"
        return self._read(best, variables) if best.exists() else None

    def can_go_back(self, step: int) -> bool:
        """Whether `go_back` finds a checkpoint at or before a step, or has nothing to go back from."""
        steps, stable = self._steps(), self._stable_step()
        kept = [_step_of(path) for path in steps] + ([] if stable is None else [stable])
        return not kept or min(kept) <= step

    def go_back(self, step: int) -> None:
        """Makes the latest checkpoint at or before a step the last; drops those beyond.

        Killed on the way, it may be called again.

        Args:
            step: int. See `can_go_back`.
        """
        stable = self._stable_step()
        if stable is not None and stable <= step and not self._path(stable).exists():
            with atomic_folder(self._path(stable)) as temporary:
                shutil.copytree(self.folder / _STABLE, temporary, dirs_exist_ok=True)
        beyond = [path for path in self._steps() if _step_of(path) > step]
        if stable is not None and stable > step:
            beyond.append(self.folder / _STABLE)
        for path in beyond:
            # A kill in the midst of deleting would leave half a checkpoint under a whole one's name.
            hidden = path.with_name(f".{path.name}.old")
            shutil.rmtree(hidden, ignore_errors=True)
            os.replace(path, hidden)
            shutil.rmtree(hidden)

    def clean(self) -> None:
        """Deletes what a process that was killed while it wrote has left."""
        for path in self.folder.glob(".*"):
            shutil.rmtree(path)

    def _steps(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        steps = (path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{8,}", path.name))
        return sorted(steps, key=_step_of)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _stable_step(self) -> int | None:
        path = self.folder / _STABLE
        return _read_state(path)["step"] if path.exists() else None

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
        except (OSError, SafetensorError) as error:
            raise _unreadable(path, error) from None
        state = _read_state(path)
        wanted = {_key(i): tuple(v.shape) for i, v in enumerate(variables)}
        found = {name: array.shape for name, array in arrays.items()}
        if wanted != found:
            name = next(iter(sorted(set(wanted.items()) ^ set(found.items()))))[0]
            raise InputError(f"The checkpoint {path} is of another model: {name} differs.")
        for i, variable in enumerate(variables):
            variable.assign(arrays[_key(i)])
        return state


def _read_state(path: Path) -> dict:
    try:
        return json.loads((path / _STATE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"The checkpoint {path} cannot be read ({error}): delete it to use an older one.")


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _key(index: int) -> str:
    # Keras numbers the names of a process's layers and optimizers, so a name may differ the next time.
    return f"variable-{index:05d}"
