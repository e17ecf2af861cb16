"""The options of a pretraining run, without TensorFlow: `--help` shows them at once."""

import dataclasses
import typing
from pathlib import Path

from keras_bert2d.choices import (
    DECAYS,
    DTYPES,
    MASKINGS,
    NORM_ORDERS,
    POSITION_SCHEMES,
    REPLACEMENTS,
    ROWS,
    STRATEGIES,
)
from keras_bert2d.errors import InputError
from keras_bert2d.models.sizes import SIZE_NAMES, size_arguments
from keras_bert2d.training.config import Config, check_decay_steps, check_positive, option, tenth


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Config):
    """All options of `keras-bert2d pretrain`."""

    data: str = option(dataclasses.MISSING, "shards folder made by `prepare`")
    output: str = option(dataclasses.MISSING, "run folder")
    vocab: str | None = option(None, "vocabulary that the shards must have been made with")
    size: str = option("mini", "size of the encoder by name", SIZE_NAMES)
    num_layers: int | None = option(None, "encoder blocks, instead of the size's")
    num_heads: int | None = option(None, "attention heads, instead of the size's")
    hidden_dim: int | None = option(None, "features of a column, instead of the size's")
    intermediate_dim: int | None = option(None, "width of the feed-forward networks, instead of the size's")
    position_scheme: str = option("two_d", "positions: two_d, or learned for BERT's", POSITION_SCHEMES)
    norm_order: str = option("post", "normalisation behind each half (post) or before it (pre)", NORM_ORDERS)
    dropout: float = option(0.1, "dropout rate")
    dtype: str = option("float32", "numbers to compute in", DTYPES)
    sequence_length: int = option(128, "columns of a row")
    rows: str = option("packed", "how texts fill rows", ROWS)
    next_sentence: bool = option(False, "predict next sentences too")
    masking: str = option("word", "mask whole words or single pieces (token)", MASKINGS)
    mask_rate: float = option(0.15, "share of the pieces to mask")
    max_predictions_per_row: int | None = option(None, "most masked pieces of a row")
    replacement: str = option("unigram", "what random replacements are drawn from", REPLACEMENTS)
    steps: int = option(10_000, "optimiser steps")
    batch_size: int = option(32, "rows of a step, over all replicas and micro-batches")
    accumulation: int = option(1, "micro-batches of a step")
    steps_per_call: int = option(10, "steps between two returns to Python")
    learning_rate: float = option(1e-3, "peak learning rate")
    warmup_steps: int | None = option(None, "steps of warm-up (default: a tenth of all)")
    decay: str = option(
        "linear", "how the learning rate falls; constant and wsd (at the end only) can go on", DECAYS
    )
    decay_steps: int | None = option(None, "steps of the fall at the end of wsd (default: a tenth of all)")
    weight_decay: float = option(0.01, "weight decay, off for biases and norms")
    clip_norm: float = option(1.0, "largest global norm of the gradients")
    held_out: float = option(0.005, "share of the records held out to measure the loss on")
    held_out_batches: int = option(50, "most batches of the held-out loss")
    evaluate_every: int = option(1000, "steps between held-out losses")
    checkpoint_every: int = option(1000, "steps between checkpoints")
    keep: int = option(3, "checkpoints kept")
    log_every: int = option(50, "steps between log lines")
    seed: int = option(0, "seed of data order, masks, weights and dropout")
    strategy: str = option("auto", "devices to run on", STRATEGIES)
    jit: bool = option(False, "compile the step with XLA")

    def __post_init__(self) -> None:
        check_positive(
            self, "steps", "batch_size", "accumulation", "steps_per_call", "learning_rate", "clip_norm",
            "evaluate_every", "checkpoint_every", "log_every", "keep", "held_out_batches", "decay_steps",
        )  # fmt: skip
        if self.warmup_steps is not None and self.warmup_steps < 0:
            raise InputError(f"The option warmup_steps must not be below 0. Received: {self.warmup_steps!r}")
        check_decay_steps(self.steps, self.warmup_steps or 0, self.decay, self.decay_steps)

    def size_arguments(self) -> dict:
        """Returns the options that size the backbone."""
        sizes = size_arguments(self.size)
        return {name: getattr(self, name) or value for name, value in sizes.items()}

    def settled(self, there: dict | None) -> typing.Self:
        """Returns the options with `warmup_steps` and `decay_steps` filled in, where they go with a run.

        Left out, the warm-up is that of the run in the folder, else a tenth of the steps. The decay of
        `"wsd"` is a tenth of the steps, or that of the run in the folder where it has as many steps.

        Args:
            there: The options of the run in the folder, see `options_of_run`; `None` where there is none.

        Raises:
            InputError: The folder holds another run, one of more steps, or one whose learning rate has a
                fixed end; or warm-up and decay are longer than the run.

        Example:

        >>> config = PretrainConfig.load(data="shards", output="run", steps=200, decay="wsd")
        >>> settled = config.settled({**config.to_dict(), "steps": 100, "warmup_steps": 10})
        >>> settled.warmup_steps, settled.decay_steps
        (10, 20)
        """
        if there is None:
            warmup, decay = self.steps // 10, tenth(self.steps)
        else:
            there = _settled_values(there)
            self._check_goes_on(there)
            warmup = there["warmup_steps"]
            decay = there["decay_steps"] if there["steps"] == self.steps else tenth(self.steps)
        new = {"warmup_steps": warmup} if self.warmup_steps is None else {}
        if self.decay == "wsd" and self.decay_steps is None:
            new["decay_steps"] = decay
        settled = dataclasses.replace(self, **new)
        if there is not None and there["steps"] == self.steps:
            settled.check_same(Path(self.output), there)
        return settled

    def same_until(self, there: dict | None) -> int | None:
        """Up to which step the run in the folder is this one, where this one, settled, has more steps.

        Returns:
            int, a step at which the learning rate has not begun to fall in either; `None` where there is
            no run or one of as many steps.
        """
        if there is None or there["steps"] == self.steps:
            return None
        there = _settled_values(there)
        return min(there["steps"] - (there["decay_steps"] or 0), self.steps - (self.decay_steps or 0))

    def decay_start(self) -> int | None:
        """Returns the step at which the decay of `"wsd"` begins, once settled; else `None`."""
        return self.steps - self.decay_steps if self.decay == "wsd" else None

    def _check_goes_on(self, there: dict) -> None:
        """Refuses the run in the folder where it cannot become this one with more steps."""
        steps = there.get("steps")
        free = ("steps", "decay_steps") if isinstance(steps, int) else ()
        free += ("warmup_steps",) if self.warmup_steps is None else ()
        self.check_same(Path(self.output), there, but=free)
        if self.steps < steps:
            raise InputError(
                f"{self.output} holds another run: steps is {steps} there and {self.steps} here, and a run "
                "cannot become shorter. Use the same options to go on with it, or another folder."
            )
        if self.steps > steps and self.decay in ("linear", "cosine"):
            raise InputError(
                f"{self.output} holds a run that cannot go on to {self.steps} steps: its learning rate was "
                f"set to fall to 0 at step {steps} (--decay {self.decay}). Use a new folder, and --decay wsd "
                "or constant for a run that is to go on."
            )


def _settled_values(there: dict) -> dict:
    """Fills in what runs of older versions left to be worked out from their steps."""
    there = {"decay_steps": None, **there}
    if there.get("warmup_steps") is None and isinstance(there.get("steps"), int):
        there["warmup_steps"] = there["steps"] // 10
    return there
