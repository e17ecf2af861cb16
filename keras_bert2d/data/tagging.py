"""Labelled sentences to packed training batches for a token classifier."""

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert2d.data.conll import Sentence
from keras_bert2d.data.epochs import Place
from keras_bert2d.text.packing import pack_rows

# Sentences are packed in groups, so that a group's rows follow from its sentences alone.
_GROUP_SENTENCES = 4096


def labels_of(sentences: Sequence[Sentence]) -> list[str]:
    """Returns the labels of sentences, sorted, `O` first where there is one."""
    labels = sorted({label for sentence in sentences for label in sentence.labels})
    return sorted(labels, key=lambda label: label != "O")


def warn_of_unknown(sentences: Sequence[Sentence], labels: Sequence[str], path: str) -> None:
    """Says on stderr which labels of a file to be scored training never saw: their words will be wrong.

    Args:
        sentences: list of `Sentence`.
        labels: The labels of the training data.
        path: string. The file's name.
    """
    counts = Counter(label for sentence in sentences for label in sentence.labels if label not in labels)
    if counts:
        named = ", ".join(f"{label} ({count} times)" for label, count in sorted(counts.items()))
        print(
            f"{path} has labels that the training data lacks, which count as wrong: {named}", file=sys.stderr
        )


class TaggingData:
    """Rows of labelled sentences in memory, and the batches of each epoch.

    Args:
        preprocessor: `Bert2DTokenClassifierPreprocessor`.
        sentences: list of `Sentence`.
    """

    def __init__(self, preprocessor, sentences: Sequence[Sentence]) -> None:
        words = [sentence.words for sentence in sentences]
        labels = [sentence.labels for sentence in sentences]
        features, ids, weights = preprocessor(words, labels)
        self.pad_id = preprocessor.tokenizer.pad_token_id
        self.rows = {**features, "labels": ids, "weights": weights}
        self.count = len(sentences)

    def rows_per_epoch(self) -> int:
        """Returns the packed rows of an epoch, which shuffling changes by very little."""
        return sum(len(group["labels"]) for group in self._epoch(0, tf.constant(0, tf.int64), Place()))

    def dataset(self, batch_size: int, seed: int, place: Place) -> tf.data.Dataset:
        """Makes endless batches, shuffled anew each epoch.

        Args:
            batch_size: int. Packed rows of a batch.
            seed: int.
            place: `Place` behind which to start.

        Returns:
            Dataset of `(features, labels, weights)`; features have `place`, int32 `[row, 3]`.
        """
        epochs = tf.data.Dataset.range(place.epoch, np.iinfo(np.int64).max)

        def finish(rows):
            rows = {
                name: tf.ensure_shape(value, [batch_size, value.shape[1]]) for name, value in rows.items()
            }
            labels, weights = rows.pop("labels"), rows.pop("weights")
            rows["place"] = tf.repeat(rows["place"][-1:], batch_size, 0)
            return rows, labels, weights

        rows = epochs.flat_map(lambda epoch: self._epoch(seed, epoch, place))
        return rows.rebatch(batch_size, drop_remainder=True).map(finish).prefetch(tf.data.AUTOTUNE)

    def _epoch(self, seed: int, epoch: tf.Tensor, start: Place) -> tf.data.Dataset:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(self.count), tf.stack([tf.cast(seed, tf.int64), epoch]), alg="philox"
        )
        groups = tf.data.Dataset.from_tensor_slices(order).batch(_GROUP_SENTENCES).enumerate()
        groups = groups.skip(tf.where(epoch == start.epoch, tf.cast(start.window, tf.int64), 0))

        def make(group, numbers):
            rows = {name: tf.gather(value, numbers) for name, value in self.rows.items()}
            rows = pack_rows(rows, self.pad_id)
            count = tf.shape(rows["labels"], tf.int64)[0]
            place = [tf.fill([count], epoch), tf.fill([count], group), tf.range(count)]
            rows["place"] = tf.cast(tf.stack(place, 1), tf.int32)
            done = tf.where((epoch == start.epoch) & (group == start.window), start.row + 1, 0)
            return {name: value[done:] for name, value in rows.items()}

        return groups.map(make, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
