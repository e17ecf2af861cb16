"""The options of a pretraining run, without TensorFlow: `--help` shows them at once."""

import dataclasses

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
from keras_bert2d.models.sizes import SIZE_NAMES, size_arguments
from keras_bert2d.training.config import Config, check_positive, option


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
    decay: str = option("linear", "how the learning rate falls", DECAYS)
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
            "evaluate_every", "checkpoint_every", "log_every", "keep", "held_out_batches",
        )  # fmt: skip

    def size_arguments(self) -> dict:
        """Returns the options that size the backbone."""
        sizes = size_arguments(self.size)
        return {name: getattr(self, name) or value for name, value in sizes.items()}
