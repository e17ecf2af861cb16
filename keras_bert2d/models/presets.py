"""Where a model lies: a preset folder, a run folder, or a hub's name."""

import json
from pathlib import Path

from keras_bert2d.errors import InputError


def preset_folder(model: str) -> str:
    """Finds the preset that a user names.

    Args:
        model: string. A preset folder, a run folder with a finished preset, or a name that KerasHub
            resolves (`kaggle://…`, `hf://…`).

    Returns:
        What `from_preset` takes.

    Raises:
        InputError: There is no preset.
    """
    if "://" in model:
        return model
    folder = Path(model)
    for candidate in (folder, folder / "preset"):
        if (candidate / "tokenizer.json").is_file():
            return str(candidate)
    reason = "its run is not finished yet" if (folder / "checkpoints").is_dir() else "it holds no preset"
    raise InputError(
        f"{model} cannot be used as a model: {reason if folder.exists() else 'there is no such folder'}."
    )


def task_name(preset: str) -> str | None:
    """Returns the class name of a local preset's task, or `None` where it holds a backbone only."""
    path = Path(preset) / "task.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["class_name"]
