"""Pretraining: shards in, a run folder with checkpoints and a preset out."""

import dataclasses
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert2d.data.epochs import RowSettings
from keras_bert2d.data.pretraining import (
    check_documents,
    held_out_dataset,
    held_out_interval,
    pretraining_dataset,
)
from keras_bert2d.data.shards import check_digests, read_manifest, read_tokenizer
from keras_bert2d.data.windows import Place
from keras_bert2d.errors import InputError
from keras_bert2d.files import atomic_folder
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.text.vocabulary import read_vocabulary
from keras_bert2d.training.checkpoints import Checkpoints
from keras_bert2d.training.config import options_of_run
from keras_bert2d.training.loop import Loop, set_seeds, wait_for_all
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer
from keras_bert2d.training.pretrain_config import PretrainConfig
from keras_bert2d.training.step import HeadStep, head_metrics
from keras_bert2d.training.strategies import check_batch_size, distribute, is_chief, make_strategy


def pretrain(config: PretrainConfig) -> dict[str, float]:
    """Pretrains a masked-LM model, from the run folder's last checkpoint where there is one.

    With more steps than the run in the folder, `decay="constant"` goes on from the last checkpoint and
    `"wsd"` from the one before the learning rate fell: the result is that of a run that was started with
    as many steps and the same warm-up.

    Args:
        config: `PretrainConfig`.

    Returns:
        The last metrics; the run folder holds the preset.

    Raises:
        InputError: Shards that are damaged or of another vocabulary, a folder of another run or of one
            that cannot go on, sizes that do not fit, a loss that is no number, a disk that is full.
    """
    folder = Path(config.output)
    there = options_of_run(folder)
    config = config.settled(there)
    same_until = config.same_until(there)
    _check_goes_back(config, same_until)
    manifest = read_manifest(config.data)
    settings = row_settings(config)
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
            check=False,
        )

    with strategy.scope():
        model = make_model(config, tokenizer)
        schedule = WarmupDecay(
            config.learning_rate, config.steps, config.warmup_steps, config.decay, config.decay_steps
        )
        optimizer = make_optimizer(schedule, model.trainable_variables, config.weight_decay)
    step = HeadStep(strategy, model, optimizer, config.accumulation, config.clip_norm, config.jit)
    evaluate = None
    if held_out_every is not None:
        held_out = held_out_dataset(
            config.data, settings, config.batch_size, held_out_every, config.held_out_batches, check=False
        )

        def evaluate(done: int) -> dict[str, float]:
            return held_out_metrics(step, held_out, config.batch_size)

    # Every worker has read what the folder holds before it changes, and goes on when it has changed.
    wait_for_all(strategy)
    if is_chief(strategy):
        if same_until is not None:
            # Before the new configuration is there: a kill between the two is made good by going back again.
            Checkpoints(folder / "checkpoints").go_back(same_until)
        if config.to_dict() != there:
            config.write(folder)
    wait_for_all(strategy)
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
        stable_step=config.decay_start(),
    ).run()
    if is_chief(strategy):
        with atomic_folder(folder / "preset") as temporary:
            model.save_to_preset(str(temporary))
    return last


def _check_goes_back(config: PretrainConfig, same_until: int | None) -> None:
    """Refuses a decay that would have begun before any checkpoint that is left."""
    checkpoints = Checkpoints(Path(config.output) / "checkpoints")
    if same_until is None or checkpoints.can_go_back(same_until):
        return
    raise InputError(
        f"{config.output} has no checkpoint at or before step {same_until}, from where the run would go on. "
        "Use a smaller decay_steps, or a new folder."
    )


def row_settings(config: PretrainConfig) -> RowSettings:
    """Returns the options that make rows."""
    return RowSettings(**{f.name: getattr(config, f.name) for f in dataclasses.fields(RowSettings)})


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
