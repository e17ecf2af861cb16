"""A run's configuration: one dataclass a kind of run, one JSON file, flags that win over it."""

import dataclasses
import json
import os
import typing
from pathlib import Path

from keras_bert2d.errors import InputError
from keras_bert2d.files import atomic_file


def option(default, help: str, choices: tuple | None = None):
    """A field of a configuration with what `--help` says of it."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices})


class Config:
    """What configurations share: reading, checking, writing."""

    @classmethod
    def load(cls, path: str | os.PathLike | None = None, **overrides) -> typing.Self:
        """Makes a configuration from a JSON file and arguments, which win over it.

        Args:
            path: A JSON object of option names and values, or `None`.
            **overrides: Options by name. `None` is no override.

        Raises:
            InputError: The file is no JSON object, or an option is unknown, of the wrong type or missing.
        """
        values = {}
        if path is not None:
            try:
                values = json.loads(Path(path).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
                raise InputError(f"The configuration {path} cannot be read: {error}") from None
            if not isinstance(values, dict):
                raise InputError(f"The configuration {path} must be a JSON object.")
        values |= {name: value for name, value in overrides.items() if value is not None}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in values:
            if name not in fields:
                raise InputError(f"There is no option {name!r}; the options are {', '.join(fields)}.")
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and values.get(name) is None:
                raise InputError(f"The option --{name.replace('_', '-')} is missing.")
        types = typing.get_type_hints(cls)
        return cls(**{name: _typed(name, value, types[name], fields[name]) for name, value in values.items()})

    def to_dict(self) -> dict:
        """Returns all options, JSON types only."""
        return dataclasses.asdict(self)

    def claim(self, folder: Path) -> None:
        """Writes `config.json` into a run folder, or checks that the one there is the same.

        Raises:
            InputError: The folder holds a run of other options; the first that differs is named.
        """
        path = folder / "config.json"
        if path.exists():
            there = json.loads(path.read_text(encoding="utf-8"))
            for name, value in self.to_dict().items():
                if there.get(name) != value:
                    raise InputError(
                        f"{folder} holds another run: {name} is {there.get(name)!r} there and {value!r} "
                        "here. Use the same options to go on with it, or another folder."
                    )
            return
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            json.dump(self.to_dict(), file, indent=1, ensure_ascii=False)


def _typed(name: str, value, wanted, field):
    """Checks one value; whole numbers pass for fractions, as JSON writes both alike."""
    allowed = typing.get_args(wanted) or (wanted,)
    if float in allowed and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    kinds = tuple(kind for kind in allowed if isinstance(kind, type))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"The option {name} must be {names}. Received: {value!r}")
    choices = field.metadata.get("choices")
    if choices and value is not None and value not in choices:
        raise InputError(f"The option {name} must be one of {', '.join(choices)}. Received: {value!r}")
    return value


def check_positive(config: Config, *names: str) -> None:
    """Refuses options that are not above 0, by name."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise InputError(f"The option {name} must be above 0. Received: {value!r}")
