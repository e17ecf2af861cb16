"""Labelled words or raw sentences to rows, for `Bert2DTokenClassifier`."""

import itertools
from collections.abc import Sequence

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_bert2d.choices import LABELLED_PIECES, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.batches import check_dataset_arguments
from keras_bert2d.models.word_labels import WordPlaces
from keras_bert2d.text.inputs import (
    DEFAULT_BATCH_SIZE,
    as_tensor,
    as_texts,
    check_lengths,
    check_rows,
    fill_gaps,
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
        y: labels or their ids, ragged `[row, (words)]` or list of lists, or `None`. In lists, a word
            without a label has `None` and weighs 0.
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

    def in_memory(self, x, y=None, sample_weight=None) -> tuple:
        """Reads what lies in memory, where labels are as the user gave them and errors can be told well.

        Args:
            x, y, sample_weight: as in a call.

        Returns:
            Tuple of texts and, with `y`, label ids and, where there are any, weights.
        """
        x = as_texts(x)
        if y is None:
            return (x,)
        labels, weights = self._read_labels(y, sample_weight)
        if isinstance(x, tf.RaggedTensor):
            check_lengths(x.row_lengths(), labels, "y")
        return (x, labels) if weights is None else (x, labels, weights)

    def text_batches(self, x, batch_size: int | None, steps: int | None) -> list[tf.Tensor]:
        """Cuts words or sentences, or a dataset of them, into batches; `steps` of them or all."""
        if isinstance(x, tf.data.Dataset):
            check_dataset_arguments(batch_size)
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

    def _pack(self, x, y, sample_weight, which: str):
        with tf.device("cpu"):
            rows, columns, counts, given, *_ = self._rows(as_texts(x))
            if y is None:
                return rows
            labels, weights = self._read_labels(y, sample_weight)
            check_lengths(given, labels, "y")
            return rows, *label_pieces(labels, columns, counts, self.sequence_length, which, weights)

    def _read_labels(self, y, sample_weight) -> tuple[tf.RaggedTensor, tf.RaggedTensor | None]:
        """Label ids and weights of words; weights are `None` where all are 1."""
        y, known = fill_gaps(y, self.labels[0])
        labels = self._to_ids(as_tensor(y, "y"))
        if sample_weight is None:
            return labels, None if known is None else labels.with_values(tf.constant(known, tf.float32))
        weights = as_tensor(sample_weight, "sample_weight", tf.float32)
        if weights.shape.rank == 1:
            check_rows(labels, weights, "sample_weight")
            weights = labels.with_values(repeat(weights, labels.row_lengths()))
        elif not isinstance(weights, tf.RaggedTensor):
            weights = tf.RaggedTensor.from_tensor(weights)
        check_lengths(labels.row_lengths(), weights, "sample_weight")
        weights = labels.with_values(tf.cast(weights.values, tf.float32))
        return labels, weights if known is None else weights.with_values(weights.values * known)

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
