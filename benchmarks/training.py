"""Training steps of `mini`: ours beside KerasHub's BertMaskedLM, and 2D beside 1D, in turns."""

import argparse
import json
import statistics
import time

import keras
import keras_hub
import tensorflow as tf

from keras_bert2d import Bert2DBackbone, Bert2DMaskedLM, Bert2DTokenizer, RowSettings
from keras_bert2d.data.pretraining import raw_text_dataset
from keras_bert2d.models.sizes import size_arguments
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer
from keras_bert2d.training.step import HeadStep
from keras_bert2d.training.strategies import distribute, make_strategy

SEQUENCE_LENGTH, BATCH, PREDICTIONS = 128, 32, 20
SLOTS = SEQUENCE_LENGTH * BATCH


class Ours:
    """Our model in our loop, on packed rows from raw text."""

    def __init__(self, corpus: str, tokenizer: Bert2DTokenizer, position_scheme: str) -> None:
        strategy = make_strategy("one")
        with strategy.scope():
            backbone = Bert2DBackbone.of_size(
                "mini", tokenizer.vocabulary_size(), position_scheme=position_scheme
            )
            model = Bert2DMaskedLM(backbone)
            optimizer = make_optimizer(WarmupDecay(1e-4, 10_000, 100), model.trainable_variables)
        self._step = HeadStep(strategy, model, optimizer, clip_norm=1.0)
        dataset = packed_rows(corpus, tokenizer).repeat()

        def place(features, labels, weights):
            return {**features, "place": tf.zeros([BATCH, 3], tf.int32)}, labels, weights

        self._iterator = iter(distribute(strategy, dataset.map(place), BATCH))
        self._step.train(self._iterator, tf.constant(2))

    def run(self, steps: int) -> tuple[float, float]:
        """Seconds of a step, and real pieces a second, `[CLS]` and `[SEP]` counted on all sides."""
        started = time.perf_counter()
        sums, _ = self._step.train(self._iterator, tf.constant(steps))
        real = float(sums["real"])
        seconds = time.perf_counter() - started
        return seconds / steps, real / seconds


class KerasHub:
    """KerasHub's BertMaskedLM with Keras's own train step, on its own rows or on ours."""

    def __init__(self, dataset: tf.data.Dataset, vocabulary_size: int) -> None:
        backbone = keras_hub.models.BertBackbone(
            vocabulary_size=vocabulary_size, max_sequence_length=512, **size_arguments("mini")
        )
        self._model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
        self._model.compile(
            optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        dataset = dataset.repeat()
        sample = list(dataset.take(200).map(lambda x, y, w: tf.math.count_nonzero(x["padding_mask"])))
        self._real = sum(int(n) for n in sample) / len(sample)
        # `fit` builds the train step and starts its data anew each time; the turns go on with one iterator.
        self._model.fit(dataset, steps_per_epoch=2, verbose=0)
        self._batches = iter(dataset)
        self.run(2)

    def run(self, steps: int) -> tuple[float, float]:
        """Seconds of a step, and real pieces a second (their mean a batch over 200 batches)."""
        started = time.perf_counter()
        for _ in range(steps):
            logs = self._model.train_function(self._batches)
        float(logs["loss"])
        seconds = time.perf_counter() - started
        return seconds / steps, self._real * steps / seconds


def packed_rows(corpus: str, tokenizer: Bert2DTokenizer) -> tf.data.Dataset:
    """Our masked batches from raw text."""
    settings = RowSettings(SEQUENCE_LENGTH, max_predictions_per_row=PREDICTIONS)
    return raw_text_dataset(corpus, tokenizer, settings, BATCH)


def keras_hub_rows(corpus: str, vocabulary: str) -> tf.data.Dataset:
    """KerasHub's masked batches from the same lines."""
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=vocabulary, lowercase=False)
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        tokenizer, sequence_length=SEQUENCE_LENGTH, mask_selection_length=PREDICTIONS
    )
    lines = tf.data.TextLineDataset(corpus).batch(BATCH, drop_remainder=True)
    return lines.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def as_keras_hub(features, labels, weights):
    """Our rows in KerasHub's terms: one text a row, since it keeps packed texts not apart."""
    names = ("token_ids", "segment_ids", "mask_positions")
    return (
        {**{name: features[name] for name in names}, "padding_mask": features["padding_mask"] > 0},
        labels,
        weights,
    )


def main() -> None:
    """Prints one JSON object a round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("vocabulary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    tokenizer = Bert2DTokenizer(options.vocabulary)
    size = tokenizer.vocabulary_size()
    sides = {
        "ours": Ours(options.corpus, tokenizer, "two_d"),
        "ours_learned": Ours(options.corpus, tokenizer, "learned"),
        "keras_hub": KerasHub(keras_hub_rows(options.corpus, options.vocabulary), size),
        "keras_hub_packed": KerasHub(packed_rows(options.corpus, tokenizer).map(as_keras_hub), size),
    }
    rounds = []
    for turn in range(options.rounds):
        figures = {name: side.run(options.steps) for name, side in sides.items()}
        rounds.append(figures)
        seconds = {name: round(value[0], 4) for name, value in figures.items()}
        print(json.dumps({"round": turn, "seconds_a_step": seconds}), flush=True)

    def median(of) -> float:
        return statistics.median(of(figures) for figures in rounds)

    print(
        json.dumps(
            {
                "real_pieces_a_second": {n: round(median(lambda f, n=n: f[n][1])) for n in sides},
                "slots_a_second": {n: round(median(lambda f, n=n: SLOTS / f[n][0])) for n in sides},
                "ours / keras_hub, real pieces": median(lambda f: f["ours"][1] / f["keras_hub"][1]),
                "ours / keras_hub_packed, slots": median(lambda f: f["keras_hub_packed"][0] / f["ours"][0]),
                "two_d / learned, step time": median(lambda f: f["ours"][0] / f["ours_learned"][0]),
            }
        )
    )


if __name__ == "__main__":
    main()
