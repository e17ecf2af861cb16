"""Labelled sentences to packed training batches for a token classifier."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import tensorflow as tf

from keras_bert2d.data.conll import Sentence, read_tagged
from keras_bert2d.data.spans import as_iob2
from keras_bert2d.data.windows import Place
from keras_bert2d.errors import InputError
from keras_bert2d.progress import say
from keras_bert2d.text.packing import pack_rows
from keras_bert2d.text.vocabulary import warn_if_unknown

# Sentences are packed in groups, so that a group's rows follow from its sentences alone.
_GROUP_SENTENCES = 4096


def read_labelled(
    path: str, format: str | None = None, encoding: str = "utf-8"
) -> tuple[list[Sentence], str | None]:
    """Reads a file to train on or to score: labels of names as IOB2, some of its words annotated.

    Args:
        path: string. The file.
        format: string. See `read_tagged`.
        encoding: string. The encoding of the file.

    Returns:
        A list of `Sentence`, and the scheme that their labels were in, see `as_iob2`.

    Raises:
        InputError: A file that cannot be read, no word of it is annotated, or its labels mark spans in no
            known scheme.
    """
    sentences = read_tagged(path, format, encoding)
    if not labels_of(sentences):
        raise InputError(
            f"{path}: no word is annotated (every label is `_`): give a file with labels, only `predict` "
            "works without"
        )
    return as_iob2(sentences, path)


def labels_of(sentences: Sequence[Sentence]) -> list[str]:
    """Returns the labels of sentences, sorted, `O` first where there is one."""
    labels = sorted({label for sentence in sentences for label in sentence.labels} - {None})
    return sorted(labels, key=lambda label: label != "O")


def warn_of_unknown(sentences: Sequence[Sentence], labels: Collection[str], path: str) -> None:
    """Says on stderr which labels of a file to be scored training never saw: their words will be wrong.

    Args:
        sentences: list of `Sentence`.
        labels: The labels of the training data, in IOB2 where they mark spans.
        path: string. The file's name.
    """
    known = {*labels, None}
    counts = Counter(label for sentence in sentences for label in sentence.labels if label not in known)
    if counts:
        named = ", ".join(f"{label} ({count} times)" for label, count in sorted(counts.items()))
        say(f"{path} has labels that the training data lacks, which count as wrong: {named}")


class TaggingData:
    """Rows of labelled sentences in memory, and the batches of each epoch.

    Args:
        preprocessor: `Bert2DTokenClassifierPreprocessor`.
        sentences: list of `Sentence`. Words that are not annotated have weight 0; a sentence of nothing
            else is left out.
    """

    def __init__(self, preprocessor, sentences: Sequence[Sentence]) -> None:
        sentences = [s for s in sentences if any(label is not None for label in s.labels)]
        words = [sentence.words for sentence in sentences]
        # Any label will do where the weight is 0.
        blank = preprocessor.labels[0]
        labels = [[blank if label is None else label for label in s.labels] for s in sentences]
        is_annotated = [[float(label is not None) for label in s.labels] for s in sentences]
        features, ids, weights = preprocessor(words, labels, is_annotated)
        self.pad_id = preprocessor.tokenizer.pad_token_id
        self.rows = {**features, "labels": ids, "weights": weights}
        self.count = len(sentences)
        tokenizer = preprocessor.tokenizer
        unknown = tf.math.count_nonzero(features["token_ids"] == tokenizer.unk_token_id)
        opens = (features["subword_position_ids"] == 0) & (features["padding_mask"] > 0)
        # [CLS] and [SEP] are words too.
        words = int(tf.math.count_nonzero(opens)) - 2 * self.count
        warn_if_unknown(int(unknown), words, tokenizer.casing, "the training data")

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
