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
        values = {} if path is None else _read_options(path)
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
        there = options_of_run(folder)
        if there is None:
            self.write(folder)
        else:
            self.check_same(folder, there)

    def check_same(self, folder: Path, there: dict, but: tuple[str, ...] = ()) -> None:
        """Refuses the options of another run, the first that differs by name.

        Args:
            folder: The run folder.
            there: Its options, see `options_of_run`.
            but: Names of options that may differ.

        Raises:
            InputError: An option differs.
        """
        for name, value in self.to_dict().items():
            if name not in but and there.get(name) != value:
                raise InputError(
                    f"{folder} holds another run: {name} is {there.get(name)!r} there and {value!r} "
                    "here. Use the same options to go on with it, or another folder."
                )

    def write(self, folder: Path) -> None:
        """Writes `config.json` into a run folder, in place of the one there."""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / "config.json") as file:
            json.dump(self.to_dict(), file, indent=1, ensure_ascii=False)


def options_of_run(folder: Path) -> dict | None:
    """Reads the options of the run in a folder; `None` where there is none.

    Raises:
        InputError: `config.json` is no JSON object.
    """
    path = folder / "config.json"
    return _read_options(path) if path.exists() else None


def _read_options(path: str | os.PathLike) -> dict:
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"The configuration {path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"The configuration {path} must be a JSON object.")
    return values


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


def tenth(steps: int) -> int:
    """How long a `"wsd"` decay lasts where it is not said: a tenth of all steps, at least one."""
    return max(1, steps // 10)


def check_decay_steps(steps: int, warmup_steps: int, decay: str, decay_steps: int | None) -> None:
    """Refuses a length of the decay where the decay has none, or where the run has no room for it.

    Args:
        steps: int. All steps of the run.
        warmup_steps: int.
        decay: string, one of `DECAYS`.
        decay_steps: int, or `None` where it is not given.

    Example:

    >>> check_decay_steps(100, 95, "wsd", 10)
    Traceback (most recent call last):
    keras_bert2d.errors.InputError: Warm-up and decay must fit into the run: ...
    """
    if decay_steps is None:
        return
    if decay != "wsd":
        raise InputError(
            "The option decay_steps is for `--decay wsd` only: leave it out. "
            f"Received: decay={decay!r}, decay_steps={decay_steps}"
        )
    if warmup_steps + decay_steps > steps:
        raise InputError(
            f"Warm-up and decay must fit into the run: make warmup_steps + decay_steps at most {steps}. "
            f"Received: warmup_steps={warmup_steps}, decay_steps={decay_steps}, steps={steps}"
        )
