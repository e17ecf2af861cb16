"""Position embeddings: two-dimensional, and BERT's one-dimensional baseline."""

import keras
import numpy as np
from keras import ops

from keras_bert2d.errors import InputError
from keras_bert2d.layers.initializers import bert_initializer

# What every position embedding is called with, as keyword arguments.


@keras.saving.register_keras_serializable(package="keras_bert2d")
class TwoDPositionEmbedding(keras.layers.Layer):
    """Sum of a learned table over words and a learned table over places in a word.

    The table of words has `max_words` rows; the other has `max_intermediate_subwords + 2`: place 0 for
    a word's first piece, 1 for its last, 2 and up for those between.

    Args:
        max_words: int. Rows of the word table.
        max_intermediate_subwords: int. Places between a word's first piece and its last.
        hidden_dim: int. Columns of both tables.
        initializer: Keras initializer of both tables.

    Call arguments:
        word_position_ids: int tensor of any shape.
        subword_position_ids: int tensor of the same shape.

    Returns:
        Float tensor, that shape with `hidden_dim` behind it.

    Raises:
        ValueError: In eager mode, an id that is in no table.

    Example:

    >>> layer = TwoDPositionEmbedding(max_words=8, max_intermediate_subwords=3, hidden_dim=4)
    >>> tuple(layer(np.array([[0, 1, 1, 2]]), np.array([[0, 0, 1, 0]])).shape)
    (1, 4, 4)
    """

    def __init__(
        self,
        max_words: int,
        max_intermediate_subwords: int,
        hidden_dim: int,
        initializer="bert",
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        _check_sizes(
            max_words=max_words,
            max_intermediate_subwords=max_intermediate_subwords,
            hidden_dim=hidden_dim,
        )
        self.max_words = max_words
        self.max_intermediate_subwords = max_intermediate_subwords
        self.hidden_dim = hidden_dim
        self.initializer = (
            bert_initializer() if initializer == "bert" else keras.initializers.get(initializer)
        )

    def build(self, word_position_ids_shape, subword_position_ids_shape) -> None:
        self.word_table = self.add_weight(
            name="word_table", shape=(self.max_words, self.hidden_dim), initializer=_copy(self.initializer)
        )
        self.subword_table = self.add_weight(
            name="subword_table",
            shape=(self.max_intermediate_subwords + 2, self.hidden_dim),
            initializer=_copy(self.initializer),
        )
        self.built = True

    def call(self, word_position_ids, subword_position_ids):
        _check_ids("word_position_ids", word_position_ids, self.max_words)
        _check_ids("subword_position_ids", subword_position_ids, self.max_intermediate_subwords + 2)
        words = ops.take(ops.cast(self.word_table, self.compute_dtype), word_position_ids, axis=0)
        places = ops.take(ops.cast(self.subword_table, self.compute_dtype), subword_position_ids, axis=0)
        return words + places

    def compute_output_shape(self, word_position_ids_shape, subword_position_ids_shape):
        return (*word_position_ids_shape, self.hidden_dim)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "max_words": self.max_words,
            "max_intermediate_subwords": self.max_intermediate_subwords,
            "hidden_dim": self.hidden_dim,
            "initializer": keras.initializers.serialize(self.initializer),
        }


@keras.saving.register_keras_serializable(package="keras_bert2d")
class LearnedPositionEmbedding(keras.layers.Layer):
    """BERT's learned table over piece positions, the one-dimensional baseline.

    Positions start again at 0 with every packed text, as if each stood alone in its row.

    Args:
        max_positions: int. Rows of the table.
        hidden_dim: int. Columns of the table.
        initializer: Keras initializer of the table.

    Call arguments:
        padding_mask: int tensor `[row, columns]`: the number of the packed text, 0 at padding.

    Returns:
        Float tensor `[row, columns, hidden_dim]`.

    Example:

    >>> layer = LearnedPositionEmbedding(max_positions=8, hidden_dim=4)
    >>> rows = layer(np.array([[1, 1, 2, 2]]))
    >>> bool(np.all(np.array(rows[0, 0]) == np.array(rows[0, 2])))
    True
    """

    def __init__(self, max_positions: int, hidden_dim: int, initializer="bert", **kwargs) -> None:
        super().__init__(**kwargs)
        _check_sizes(max_positions=max_positions, hidden_dim=hidden_dim)
        self.max_positions = max_positions
        self.hidden_dim = hidden_dim
        self.initializer = (
            bert_initializer() if initializer == "bert" else keras.initializers.get(initializer)
        )

    def build(self, padding_mask_shape) -> None:
        self.table = self.add_weight(
            name="table", shape=(self.max_positions, self.hidden_dim), initializer=self.initializer
        )
        self.built = True

    def call(self, padding_mask):
        numbers = ops.cast(padding_mask, "int32")
        columns = ops.shape(numbers)[1]
        # Texts follow one another, so a text starts where all pieces of smaller numbers end.
        before = ops.logical_and(numbers[:, None, :] > 0, numbers[:, None, :] < numbers[:, :, None])
        positions = ops.arange(columns, dtype="int32") - ops.sum(ops.cast(before, "int32"), axis=2)
        positions = ops.where(numbers > 0, positions, 0)
        _check_ids("positions", positions, self.max_positions)
        return ops.take(ops.cast(self.table, self.compute_dtype), positions, axis=0)

    def compute_output_shape(self, padding_mask_shape):
        return (*padding_mask_shape, self.hidden_dim)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "max_positions": self.max_positions,
            "hidden_dim": self.hidden_dim,
            "initializer": keras.initializers.serialize(self.initializer),
        }


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"`{name}` must be an integer of at least 1. Received: {name}={value!r}")


def _copy(initializer):
    """Two weights of one initializer object with a seed would start equal."""
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _check_ids(name: str, ids, rows: int) -> None:
    """Refuses ids outside their table where their values are known, that is, in eager mode."""
    try:
        values = np.asarray(ops.convert_to_numpy(ids))
    except Exception:  # A symbolic tensor: each backend has an error of its own for it.
        return
    if values.size and (values.min() < 0 or values.max() >= rows):
        wrong = values[(values < 0) | (values >= rows)].flat[0]
        raise InputError(f"`{name}` must lie in [0, {rows}), the rows of its table. Received: {wrong}")
