"""Ragged arithmetic for hot paths.

`tf.repeat`, `tf.ragged.boolean_mask` and `RaggedTensor.value_rowids` build a mask of rows × longest row:
8,000 texts, one of them a table of 75,000 pieces, took 5 GB and two seconds. What is here takes time and
memory in proportion to the items. One ragged range that counts rows in its high bits and places in its
low bits gives the row and the place of each.
"""

import tensorflow as tf

_LOW_BITS = 32


def row_and_place(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For each item of a ragged tensor, its row and its place in the row.

    Args:
        lengths: integer tensor `[rows]`, items in each row.

    Returns:
        Two int64 tensors `[items]`.

    Example:

    >>> row, place = row_and_place(tf.constant([2, 0, 3]))
    >>> row.numpy().tolist(), place.numpy().tolist()
    ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])
    """
    lengths = tf.cast(lengths, tf.int64)
    starts = tf.bitwise.left_shift(tf.range(tf.size(lengths, tf.int64)), tf.constant(_LOW_BITS, tf.int64))
    both = tf.ragged.range(starts, starts + lengths).values
    return (
        tf.bitwise.right_shift(both, tf.constant(_LOW_BITS, tf.int64)),
        tf.bitwise.bitwise_and(both, tf.constant((1 << _LOW_BITS) - 1, tf.int64)),
    )


def repeat(values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns `tf.repeat(values, lengths)` for one-dimensional tensors."""
    return tf.gather(values, row_and_place(lengths)[0])


def rows_of(ragged: tf.RaggedTensor) -> tf.Tensor:
    """Returns `ragged.value_rowids()`, int64."""
    return row_and_place(ragged.row_lengths())[0]


def keep_rows(ragged: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Returns `tf.ragged.boolean_mask(ragged, mask)` for a mask `[rows]`."""
    return tf.gather(ragged, tf.where(mask)[:, 0])


def keep_items(ragged: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Leaves items out of rows.

    Args:
        ragged: ragged tensor `[row, (items), …]`.
        mask: bool tensor `[all items]`: the items of all rows that stay.

    Returns:
        Ragged tensor of the same rank.

    Example:

    >>> words = tf.ragged.constant([["ev", "ve"], [], ["kitap"]])
    >>> keep_items(words, tf.constant([True, False, True])).to_list()
    [[b'ev'], [], [b'kitap']]
    """
    before = tf.cumsum(tf.cast(tf.concat([[False], mask], 0), tf.int64))
    splits = tf.gather(before, ragged.row_splits)
    values = tf.gather(ragged.values, tf.where(mask)[:, 0])
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
