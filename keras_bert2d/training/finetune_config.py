"""The options of a fine-tuning run, without TensorFlow: `--help` shows them at once."""

import dataclasses

from keras_bert2d.choices import DECAYS, DTYPES, LABELLED_PIECES, STRATEGIES
from keras_bert2d.errors import InputError
from keras_bert2d.training.config import Config, check_positive, option


@dataclasses.dataclass(frozen=True)
class FinetuneConfig(Config):
    """All options of `keras-bert2d finetune tag`."""

    model: str = option(dataclasses.MISSING, "preset or run folder to start from")
    train: str = option(dataclasses.MISSING, "labelled file: CoNLL-U (.conllu) or CoNLL columns")
    dev: str = option(dataclasses.MISSING, "labelled file that chooses the best epoch")
    output: str = option(dataclasses.MISSING, "run folder")
    test: str | None = option(None, "labelled file that is scored once, at the end")
    format: str | None = option(
        None, "format of the files, where their names do not tell", ("conllu", "conll")
    )
    encoding: str = option("utf-8", "encoding of the files")
    random_weights: bool = option(False, "start from random weights of the model's sizes")
    label_pieces: str = option("first", "pieces of a word that are trained on its label", LABELLED_PIECES)
    sequence_length: int = option(128, "columns of a row; short sentences are packed")
    dropout: float = option(0.1, "dropout rate in the encoder and in front of the labels")
    dtype: str | None = option(None, "numbers to compute in (default: the preset's)", DTYPES)
    epochs: int = option(10, "times that the training data is seen")
    batch_size: int = option(8, "packed rows of a step, over all replicas and micro-batches")
    accumulation: int = option(1, "micro-batches of a step")
    steps_per_call: int = option(10, "steps between two returns to Python")
    learning_rate: float = option(1e-3, "peak learning rate")
    warmup_share: float = option(0.1, "share of the steps that warm up")
    decay: str = option("linear", "how the learning rate falls", DECAYS)
    weight_decay: float = option(0.01, "weight decay, off for biases and norms")
    clip_norm: float = option(1.0, "largest global norm of the gradients")
    checkpoint_every: int = option(200, "steps between checkpoints")
    keep: int = option(1, "checkpoints kept, beside the best")
    log_every: int = option(50, "steps between log lines")
    seed: int = option(0, "seed of data order, new weights and dropout")
    strategy: str = option("auto", "devices to run on", STRATEGIES)

    def __post_init__(self) -> None:
        check_positive(
            self, "epochs", "batch_size", "accumulation", "steps_per_call", "learning_rate", "clip_norm",
            "checkpoint_every", "log_every", "keep", "sequence_length",
        )  # fmt: skip
        for name in ("warmup_share", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"The option {name} must lie in [0, 1). Received: {getattr(self, name)}")
