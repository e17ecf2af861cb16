"""Fine-tuning: a preset and labelled files in, a run folder with the best model out."""

import math
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert2d.data.conll import Sentence
from keras_bert2d.data.spans import spans_are_scored
from keras_bert2d.data.tagging import TaggingData, labels_of, read_labelled, warn_of_unknown
from keras_bert2d.data.windows import Place
from keras_bert2d.evaluation.metrics import tagging_scores
from keras_bert2d.files import atomic_folder
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.presets import preset_folder
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier, label_words
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.training.finetune_config import FinetuneConfig
from keras_bert2d.training.loop import Loop, set_seeds
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer
from keras_bert2d.training.step import HeadStep
from keras_bert2d.training.strategies import check_batch_size, is_chief, make_strategy


def finetune_tagger(config: FinetuneConfig) -> dict[str, float]:
    """Fine-tunes a tagger, from the run folder's last checkpoint where there is one.

    The weights that score best on the dev file are kept and saved as the run's preset.

    Args:
        config: `FinetuneConfig`.

    Returns:
        The scores of the best epoch on the dev file, `dev_…`, and of its weights on the test file, `test_…`.

    Raises:
        InputError: Files that cannot be read or have no labels, a folder of another run, a loss that is no
            number.
    """
    folder = Path(config.output)
    preset = preset_folder(config.model)
    parts = {
        name: read_labelled(path, config.format, config.encoding)[0]
        for name, path in (("train", config.train), ("dev", config.dev), ("test", config.test))
        if path is not None
    }
    labels = labels_of(parts["train"])
    for name in parts:
        warn_of_unknown(parts[name], labels, getattr(config, name))
    spans = all(spans_are_scored(labels, labels_of(sentences)) for sentences in parts.values())
    strategy = make_strategy(config.strategy)
    check_batch_size(strategy, config.batch_size, config.accumulation)
    set_seeds(config.seed)

    with strategy.scope():
        model = make_tagger(config, preset, labels)
        data = TaggingData(model.preprocessor, parts["train"])
        steps_per_epoch = max(1, round(data.rows_per_epoch() / config.batch_size))
        steps = config.epochs * steps_per_epoch
        schedule = WarmupDecay(
            config.learning_rate, steps, math.ceil(config.warmup_share * steps), config.decay
        )
        optimizer = make_optimizer(schedule, model.trainable_variables, config.weight_decay)
    step = HeadStep(strategy, model, optimizer, config.accumulation, config.clip_norm)
    predict = Predictor(strategy, model)

    def score(name: str) -> dict[str, float]:
        gold = [sentence.labels for sentence in parts[name]]
        return tagging_scores(gold, predict(parts[name]), spans)

    def make_dataset(_: int, place: Place) -> tf.data.Dataset:
        return data.dataset(config.batch_size, config.seed, place)

    loop = Loop(
        folder=folder,
        step=step,
        steps=steps,
        batch_size=config.batch_size,
        make_dataset=make_dataset,
        evaluate=lambda _: {f"dev_{name}": value for name, value in score("dev").items()},
        evaluate_every=steps_per_epoch,
        checkpoint_every=config.checkpoint_every,
        log_every=config.log_every,
        steps_per_call=config.steps_per_call,
        best_metric="dev_f1" if spans else "dev_accuracy",
        keep=config.keep,
    )
    if is_chief(strategy):
        config.claim(folder)
    loop.run()
    best = loop.load_best()
    scores = {name: value for name, value in best.items() if name.startswith("dev_") or name == "step"}
    if "test" in parts:
        scores |= {f"test_{name}": value for name, value in score("test").items()}
    if is_chief(strategy):
        with atomic_folder(folder / "preset") as temporary:
            model.save_to_preset(str(temporary))
    return scores


def make_tagger(config: FinetuneConfig, preset: str, labels: list[str]) -> Bert2DTokenClassifier:
    """Makes a tagger on a preset's encoder, with the configuration's dropout in all of it."""
    dtype = {} if config.dtype is None else {"dtype": keras.DTypePolicy(config.dtype)}
    backbone = Bert2DBackbone.from_preset(
        preset, load_weights=not config.random_weights, dropout=config.dropout, **dtype
    )
    preprocessor = Bert2DTokenClassifierPreprocessor.from_preset(
        preset,
        labels=labels,
        sequence_length=config.sequence_length,
        label_pieces=config.label_pieces,
    )
    return Bert2DTokenClassifier(backbone, preprocessor=preprocessor, dropout=config.dropout)


class Predictor:
    """Labels sentences under a strategy, every replica the same ones.

    Args:
        strategy: The strategy in whose scope the model was made.
        model: `Bert2DTokenClassifier`.
        batch_size: int. Sentences of a batch.
    """

    def __init__(self, strategy, model: Bert2DTokenClassifier, batch_size: int = 64) -> None:
        self._model = model
        self._batch_size = batch_size
        self._strategy = strategy
        self._forward = tf.function(self._run, reduce_retracing=True)

    def __call__(self, sentences: list[Sentence]) -> list[list[str | None]]:
        """Returns a label for each word; `None` for words that the row has no room for."""
        preprocessor = self._model.preprocessor
        labelled = []
        words = [sentence.words for sentence in sentences]
        for batch in preprocessor.text_batches(words, self._batch_size, None):
            rows, places = preprocessor.read(batch)
            # Columns that no row uses are left out, in steps that keep the traced shapes few.
            width = -(-int((rows["padding_mask"] > 0).sum(1).max()) // 16) * 16
            ids = self._forward({name: tf.constant(row[:, :width]) for name, row in rows.items()})
            labelled += label_words(places, ids.numpy(), preprocessor.labels)
        return labelled

    def _run(self, features):
        outputs = self._strategy.run(
            lambda f: tf.argmax(self._model(f, training=False), -1), args=(features,)
        )
        return self._strategy.experimental_local_results(outputs)[0]
