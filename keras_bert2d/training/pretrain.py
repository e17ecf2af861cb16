"""Pretraining: shards in, a run folder with checkpoints and a preset out."""

import dataclasses
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert2d.data.epochs import ROWS, Place, RowSettings
from keras_bert2d.data.pretraining import (
    check_documents,
    held_out_dataset,
    held_out_interval,
    pretraining_dataset,
)
from keras_bert2d.data.shards import check_digests, read_manifest, read_tokenizer
from keras_bert2d.files import atomic_folder
from keras_bert2d.layers.encoder_block import NORM_ORDERS
from keras_bert2d.layers.position_embedding import POSITION_SCHEMES
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.sizes import SIZE_NAMES, size_arguments
from keras_bert2d.text.masking import MASKINGS
from keras_bert2d.text.vocabulary import read_vocabulary
from keras_bert2d.training.config import Config, check_positive, option
from keras_bert2d.training.loop import Loop, set_seeds
from keras_bert2d.training.optimizer import DECAYS, WarmupDecay, make_optimizer
from keras_bert2d.training.step import HeadStep, head_metrics
from keras_bert2d.training.strategies import STRATEGIES, check_batch_size, distribute, is_chief, make_strategy

DTYPES = ("float32", "mixed_bfloat16", "bfloat16")


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
    replacement: str = option("unigram", "what random replacements are drawn from", ("unigram", "uniform"))
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

    def row_settings(self) -> RowSettings:
        """Returns the options that make rows."""
        names = [field.name for field in dataclasses.fields(RowSettings)]
        return RowSettings(**{name: getattr(self, name) for name in names})

    def size_arguments(self) -> dict:
        """Returns the options that size the backbone."""
        sizes = size_arguments(self.size)
        return {name: getattr(self, name) or value for name, value in sizes.items()}


def pretrain(config: PretrainConfig) -> dict[str, float]:
    """Pretrains a masked-LM model, from the run folder's last checkpoint where there is one.

    Args:
        config: `PretrainConfig`.

    Returns:
        The last metrics; the run folder holds the preset.

    Raises:
        InputError: Shards that are damaged or of another vocabulary, a folder of another run, sizes that
            do not fit, a loss that is no number, a disk that is full.
    """
    folder = Path(config.output)
    manifest = read_manifest(config.data)
    settings = config.row_settings()
    check_documents(manifest, settings)
    # Before any tensor is made: workers join at the start of a process or not at all.
    strategy = make_strategy(config.strategy)
    tokenizer = read_tokenizer(config.data, read_vocabulary(config.vocab) if config.vocab else None)
    check_batch_size(strategy, config.batch_size, config.accumulation)
    check_digests(config.data, manifest)
    set_seeds(config.seed)
    held_out_every = held_out_interval(manifest, config.held_out)

    def make_dataset(step: int, place: Place) -> tf.data.Dataset:
        return pretraining_dataset(
            config.data,
            settings,
            config.batch_size,
            config.seed,
            step=step,
            place=place,
            with_place=True,
            held_out_every=held_out_every,
        )

    with strategy.scope():
        model = make_model(config, tokenizer)
        warmup = config.steps // 10 if config.warmup_steps is None else config.warmup_steps
        optimizer = make_optimizer(
            WarmupDecay(config.learning_rate, config.steps, warmup, config.decay),
            model.trainable_variables,
            config.weight_decay,
        )
    step = HeadStep(strategy, model, optimizer, config.accumulation, config.clip_norm, config.jit)
    evaluate = None
    if held_out_every is not None:
        held_out = held_out_dataset(
            config.data, settings, config.batch_size, held_out_every, config.held_out_batches
        )

        def evaluate(done: int) -> dict[str, float]:
            return held_out_metrics(step, held_out, config.batch_size)

    if is_chief(strategy):
        config.claim(folder)
    last = Loop(
        folder=folder,
        step=step,
        steps=config.steps,
        batch_size=config.batch_size,
        make_dataset=make_dataset,
        evaluate=evaluate,
        evaluate_every=config.evaluate_every,
        checkpoint_every=config.checkpoint_every,
        log_every=config.log_every,
        steps_per_call=config.steps_per_call,
        keep=config.keep,
    ).run()
    if is_chief(strategy):
        with atomic_folder(folder / "preset") as temporary:
            model.save_to_preset(str(temporary))
    return last


def make_model(config: PretrainConfig, tokenizer) -> Bert2DMaskedLM:
    """Makes the model of a configuration, with the tokenizer's id rules."""
    rules = tokenizer.id_rules
    backbone = Bert2DBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        **config.size_arguments(),
        dropout=config.dropout,
        max_words=rules.max_words,
        max_intermediate_subwords=rules.max_intermediate_subwords,
        position_scheme=config.position_scheme,
        norm_order=config.norm_order,
        dtype=keras.DTypePolicy(config.dtype),
    )
    preprocessor = Bert2DMaskedLMPreprocessor(
        tokenizer,
        config.sequence_length,
        config.mask_rate,
        config.max_predictions_per_row,
        config.masking,
    )
    return Bert2DMaskedLM(backbone, preprocessor, config.next_sentence)


def held_out_metrics(step: HeadStep, dataset: tf.data.Dataset, batch_size: int) -> dict[str, float]:
    """Means over a held-out dataset; empty where it has not one full batch."""
    sums = None
    for batch in distribute(step.strategy, dataset, batch_size):
        more = step.evaluate(batch)
        sums = more if sums is None else tf.nest.map_structure(tf.add, sums, more)
    if sums is None:
        return {}
    return {f"held_out_{name}": value for name, value in head_metrics(sums).items()}
