"""Labelled words or raw sentences to rows, for `Bert2DTokenClassifier`."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_bert2d.choices import LABELLED_PIECES, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.text.inputs import (
    DEFAULT_BATCH_SIZE,
    as_tensor,
    as_texts,
    check_lengths,
    gather_batches,
    require,
)
from keras_bert2d.text.labels import (
    label_pieces,
    split_sentences_into_words,
    word_rows,
)
from keras_bert2d.text.ragged import repeat
from keras_bert2d.text.rows import RowRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer


class WordPlaces(NamedTuple):
    """Where the words of a batch stand; NumPy arrays, one row behind another.

    Attributes:
        columns: int32 `[kept words]`. The column of the first piece of each word in its row.
        kept: int64 `[row]`. The words that are in the row; a row's kept words are its first.
        given: int64 `[row]`. The words before the row was cut.
        starts: int64 `[given words]`. For sentences, the first character of each word; else empty.
        ends: int64 `[given words]`. For sentences, the place after its last character; else empty.
        sentences: bytes `[row]`, or `None` where words were given.
    """

    columns: np.ndarray
    kept: np.ndarray
    given: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    sentences: np.ndarray | None


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DTokenClassifierPreprocessor(keras_hub.models.Preprocessor):
    """Turns words, or sentences, and their labels into rows with a label at each word's pieces.

    Rows are cut at whole words of the data to `sequence_length` pieces and the tokenizer's
    `max_words` (see `keras_bert2d.text.labels.word_rows`).

    Args:
        tokenizer: `Bert2DTokenizer`.
        labels: list of strings, all different. A label's id is its place.
        sequence_length: int. Columns of a row.
        label_pieces: string. What is trained on a word's label: its `"first"` piece or `"all"`.

    Call arguments:
        x: words, a string ragged tensor `[row, (words)]` or list of lists, or sentences, a string
            tensor `[row]` or list; those are split by `split_sentences_into_words`.
        y: labels or their ids, ragged `[row, (words)]` or list of lists, or `None`.
        sample_weight: float, of the shape of `y` or `[row]`, or `None`.

    Returns:
        The backbone's dict, int32 `[row, sequence_length]`; with `y` a tuple of it, the label ids,
        int32 of that shape, and float32 weights, 0 where there is no label.

    Raises:
        InputError: The labels are empty or repeated, an argument is unknown or, in eager mode, a
            label is unknown or a row has not as many labels as words. In `tf.data` the latter two
            are `tf.errors.InvalidArgumentError`.

    Example:

    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ev", "##ler", "güzel"]
    >>> preprocessor = Bert2DTokenClassifierPreprocessor(
    ...     Bert2DTokenizer(pieces), labels=["ADJ", "NOUN"], sequence_length=6
    ... )
    >>> features, labels, weights = preprocessor([["güzel", "evler"]], [["ADJ", "NOUN"]])
    >>> features["token_ids"].numpy().tolist(), labels.numpy().tolist(), weights.numpy().tolist()
    ([[2, 7, 5, 6, 3, 0]], [[0, 0, 1, 0, 0, 0]], [[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    """

    backbone_cls = Bert2DBackbone
    tokenizer_cls = Bert2DTokenizer

    def __init__(
        self,
        tokenizer: Bert2DTokenizer,
        labels: Sequence[str] = (),
        sequence_length: int = 128,
        label_pieces: str = "first",
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.labels = _check_labels(labels)
        self.sequence_length = sequence_length
        self.label_pieces = check_choice("label_pieces", label_pieces, LABELLED_PIECES)
        # A tokenizer without a vocabulary is about to be loaded from a preset.
        if tokenizer.vocabulary is not None:
            RowRules.of(tokenizer, sequence_length)
        with tf.device("cpu"):
            self._label_ids = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(tf.constant(self.labels), tf.range(len(self.labels))),
                default_value=-1,
            )

    def build(self, input_shape) -> None:
        self.built = True

    def call(self, x, y=None, sample_weight=None):
        return self._pack(x, y, sample_weight, self.label_pieces)

    def for_scoring(self, x, y=None, sample_weight=None):
        """As a call, with labels at first pieces only, so that each word counts once."""
        return self._pack(x, y, sample_weight, "first")

    def batches(
        self,
        x,
        y=None,
        sample_weight=None,
        batch_size: int | None = None,
        shuffle: bool = False,
        scoring: bool = False,
    ) -> tf.data.Dataset:
        """Makes batches for the model of whatever `fit`, `evaluate` and `predict` are given.

        Args:
            x: words or sentences as in a call, or a batched dataset of them, with labels and
                weights where there are any. Features, see `holds_features`, are left as they are.
            y: see the class.
            sample_weight: see the class.
            batch_size: int. Rows of a batch, 32 by default; not for datasets.
            shuffle: bool. Whether rows come in another order each time; datasets keep theirs.
            scoring: bool. Whether labels stand at first pieces only, whatever `label_pieces` is.

        Returns:
            A dataset of features, labels and weights.
        """
        prepare = self.for_scoring if scoring else self.call
        if not isinstance(x, tf.data.Dataset):
            x = self._batches_in_memory(x, y, sample_weight, batch_size, shuffle)
        else:
            _check_dataset_arguments(y, sample_weight, batch_size)
        if self.holds_features(x):
            return x
        return x.map(prepare, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    @staticmethod
    def holds_features(x) -> bool:
        """Tells whether `x`, or each batch of it, is a dict: ready for the model."""
        if isinstance(x, tf.data.Dataset):
            x = x.element_spec
            x = x[0] if isinstance(x, tuple) else x
        return isinstance(x, dict)

    def text_batches(self, x, batch_size: int | None, steps: int | None) -> list[tf.Tensor]:
        """Cuts words or sentences, or a dataset of them, into batches; `steps` of them or all."""
        if isinstance(x, tf.data.Dataset):
            _check_dataset_arguments(batch_size)
            batches = (part[0] if isinstance(part, tuple) else part for part in x)
        else:
            x, size = as_texts(x), batch_size or DEFAULT_BATCH_SIZE
            batches = (x[i : i + size] for i in range(0, x.shape[0], size))
        return [as_texts(batch) for batch in itertools.islice(batches, steps)]

    def read(self, texts: tf.Tensor) -> tuple[dict[str, np.ndarray], WordPlaces]:
        """Makes the rows of a batch and tells where their words stand.

        Args:
            texts: string tensor `[row]` or string ragged tensor `[row, (words)]`.

        Returns:
            The backbone's dict as NumPy arrays, and the `WordPlaces` of its rows.
        """
        rows, columns, _, *words = self._rows(texts)
        lengths, flat_columns = columns.row_lengths(), columns.values
        given, starts, ends = (values.numpy() for values in words)
        sentences = None if isinstance(texts, tf.RaggedTensor) else texts.numpy()
        places = WordPlaces(flat_columns.numpy(), lengths.numpy(), given, starts, ends, sentences)
        return {name: row.numpy() for name, row in rows.items()}, places

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "labels": list(self.labels),
            "sequence_length": self.sequence_length,
            "label_pieces": self.label_pieces,
        }

    def _batches_in_memory(self, x, y, sample_weight, batch_size, shuffle) -> tf.data.Dataset:
        if not isinstance(x, dict):
            x = as_texts(x)
            if y is not None:
                # Here, where the labels still are as the user gave them, errors can be told well.
                y = self._to_ids(as_tensor(y, "y"))
                if isinstance(x, tf.RaggedTensor):
                    check_lengths(x.row_lengths(), y, "y")
                if sample_weight is not None:
                    sample_weight = as_tensor(sample_weight, "sample_weight", tf.float32)
        data = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        return gather_batches(data, batch_size, shuffle)

    def _pack(self, x, y, sample_weight, which: str):
        with tf.device("cpu"):
            rows, columns, counts, given, *_ = self._rows(as_texts(x))
            if y is None:
                return rows
            labels = self._to_ids(as_tensor(y, "y"))
            check_lengths(given, labels, "y")
            weights = None
            if sample_weight is not None:
                weights = as_tensor(sample_weight, "sample_weight", tf.float32)
                if not isinstance(weights, tf.RaggedTensor):
                    weights = labels.with_values(repeat(weights, labels.row_lengths()))
                check_lengths(given, weights, "sample_weight")
            return rows, *label_pieces(labels, columns, counts, self.sequence_length, which, weights)

    def _rows(self, texts: tf.Tensor | tf.RaggedTensor) -> tuple:
        """Calls `_read_rows`, traced once for words and once for sentences of any number."""
        if isinstance(texts, tf.RaggedTensor):
            texts = texts.with_row_splits_dtype(tf.int64)
            spec = tf.RaggedTensorSpec([None, None], tf.string, ragged_rank=1)
        else:
            spec = tf.TensorSpec([None], tf.string)
        arguments = self.tokenizer, self.sequence_length
        return _read_rows.get_concrete_function(spec, *arguments)(texts, *arguments)

    def _to_ids(self, labels: tf.RaggedTensor) -> tf.RaggedTensor:
        """Label ids, int32, of label strings or ids."""
        if labels.shape.rank != 2 or not (labels.dtype == tf.string or labels.dtype.is_integer):
            raise InputError(
                "`y` must hold a list of labels or of their ids for each row, one for each word. "
                f"Received: y of shape {labels.shape} and dtype {labels.dtype.name}"
            )
        if not isinstance(labels, tf.RaggedTensor):
            labels = tf.RaggedTensor.from_tensor(labels)
        flat = labels.values
        if flat.dtype == tf.string:
            ids = self._label_ids.lookup(flat)
        else:
            ids = tf.cast(flat, tf.int32)
        wrong = (ids < 0) | (ids >= len(self.labels))
        known = f"{', '.join(self.labels[:40])}{' …' if len(self.labels) > 40 else ''}"
        require(
            ~tf.reduce_any(wrong),
            f"`y` must hold labels of the preprocessor, that is {known}, or their places from 0. Received:",
            tf.boolean_mask(flat, wrong)[:1],
        )
        return labels.with_values(ids)


@tf.function(autograph=False)
def _read_rows(texts, tokenizer: Bert2DTokenizer, sequence_length: int) -> tuple:
    """Rows, columns and counts of `word_rows`; words of each row; words' starts and ends."""
    with tf.device("cpu"):
        if isinstance(texts, tf.RaggedTensor):
            words = tokenizer.tokenize_words(texts)
            starts = ends = tf.zeros([0], tf.int64)
        else:
            words, starts, ends = split_sentences_into_words(texts, tokenizer)
            starts, ends = starts.values, ends.values
        rules = RowRules.of(tokenizer, sequence_length)
        rows = word_rows(words, rules, tokenizer.unk_token_id)
        return *rows, words.row_lengths(), starts, ends


def _check_dataset_arguments(*arguments) -> None:
    if any(argument is not None for argument in arguments):
        raise InputError(
            "A dataset brings its labels, weights and batches itself: leave out `y`, "
            "`sample_weight` and `batch_size`, or pass lists instead."
        )


def _check_labels(labels: Sequence[str]) -> list[str]:
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"`labels` must be a list of strings. Received: labels={labels!r}")
    labels = list(labels)
    if not labels:
        raise InputError("`labels` needs one label at least: pass `labels=[...]`. Received: none")
    if len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InputError(f"`labels` must all be different. Received twice: {twice!r}")
    return labels
