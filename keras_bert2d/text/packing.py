"""Packing: texts into rows, without a loop over texts.

Next-fit packing takes texts in order and opens a new row where the next text does not fit. Whether a
text opens a row depends on the row before, which looks like a loop; but *if* text i opens a row, the
text that opens the next one follows from the cumulative lengths alone. So every text knows its
successor, and doubling the jumps marks all openers that the first one reaches in log₂ n steps.
"""

import tensorflow as tf

from keras_bert2d.text.ragged import keep_rows, repeat, row_and_place
from keras_bert2d.text.rows import RowRules, make_rows, pieces_of


def next_fit_openers(group_splits: tf.Tensor, *limits: tuple[tf.Tensor, int]) -> tf.Tensor:
    """Marks the items that open a new bin in next-fit packing.

    Args:
        group_splits: int64 tensor `[groups + 1]`, row splits of the items: a bin never holds items of
            two groups.
        *limits: pairs of an int64 tensor `[items]`, the items' sizes, and the capacity of a bin. No
            item is larger than a bin.

    Returns:
        bool tensor `[items]`.

    Example:

    >>> sizes = tf.constant([3, 3, 2, 4, 1], tf.int64)
    >>> next_fit_openers(tf.constant([0, 5], tf.int64), (sizes, 6)).numpy().tolist()
    [True, False, True, False, True]
    """
    count = group_splits[-1]
    following = repeat(group_splits[1:], group_splits[1:] - group_splits[:-1])
    for sizes, capacity in limits:
        ends = tf.concat([[0], tf.cumsum(tf.cast(sizes, tf.int64))], 0)
        following = tf.minimum(
            following, tf.searchsorted(ends, ends[:-1] + capacity, side="right", out_type=tf.int64) - 1
        )
    # One place past the end, where all jumps come to rest. A jump of less than one item would never
    # arrive: an item larger than its bin gets a bin of its own.
    jumps = tf.concat([tf.maximum(following, tf.range(count) + 1), [count]], 0)
    marks = tf.scatter_nd(group_splits[:, None], tf.ones_like(group_splits), [count + 1]) > 0

    def double(done, marks, jumps):
        reached = tf.gather(jumps, tf.where(marks)[:, 0])
        more = tf.scatter_nd(reached[:, None], tf.ones_like(reached), [count + 1]) > 0
        marks_now = marks | more
        return tf.reduce_all(marks_now == marks), marks_now, tf.gather(jumps, jumps)

    _, marks, _ = tf.while_loop(
        lambda done, *_: ~done,
        double,
        (tf.constant(False), marks, jumps),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None])),
        maximum_iterations=64,
    )
    return marks[:-1]


def split_long_texts(
    texts: tf.RaggedTensor, max_pieces: int, max_words: int
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Splits texts that are longer than a row at whole words; nothing is dropped.

    Only a word longer than a row is split inside; what is left of it is a word of the next text.

    Args:
        texts: ragged tensor `[text, (words), (pieces)]`, each of one word at least.
        max_pieces, max_words: int. Room in a row.

    Returns:
        Ragged tensor `[part, (words), (pieces)]`, parts in the order of the texts, and an int64 tensor
        `[part]`: the text that each comes from.
    """
    is_long = (pieces_of(texts) > max_pieces) | (texts.row_lengths() > max_words)

    def split():
        short = _split_long_words(texts, max_pieces)
        # Long texts are few: only their words are looked at.
        long = keep_rows(short, is_long)
        lengths = long.values.row_lengths()
        openers = next_fit_openers(long.row_splits, (lengths, max_pieces), (tf.ones_like(lengths), max_words))
        _, place = row_and_place(long.row_lengths())
        first_words = repeat(tf.boolean_mask(short.row_starts(), is_long), long.row_lengths())
        opened = tf.boolean_mask(first_words + place, openers)
        starts = tf.sort(tf.concat([tf.boolean_mask(short.row_starts(), ~is_long), opened], 0))
        splits = tf.concat([starts, short.row_splits[-1:]], 0)
        origin = tf.searchsorted(short.row_splits, starts, side="right", out_type=tf.int64) - 1
        return short.flat_values, short.values.row_splits, splits, origin

    def keep():
        return texts.flat_values, texts.values.row_splits, texts.row_splits, tf.range(texts.nrows())

    flat, word_splits, text_splits, origin = tf.cond(tf.reduce_any(is_long), split, keep)
    parts = tf.RaggedTensor.from_nested_row_splits(flat, [text_splits, word_splits], validate=False)
    return parts, origin


def pack_texts(texts: tf.RaggedTensor, rules: RowRules) -> dict[str, tf.Tensor]:
    """Packs many texts into rows, each with its own `[CLS] … [SEP]`, numbering and attention.

    Args:
        texts: int32 ragged tensor `[text, (words), (pieces)]`. Longer ones are split at whole words
            into texts that follow one another; texts without words are left out.
        rules: `RowRules`.

    Returns:
        The five int32 tensors `[row, sequence_length]`.
    """
    texts = without_empty(texts)
    parts, _ = split_long_texts(texts, *rules.room(2))
    return make_rows(rules, parts, texts_per_row=fill_rows(pieces_of(parts) + 2, rules.sequence_length))


def pack_rows(rows: dict[str, tf.Tensor], pad_id: int) -> dict[str, tf.Tensor]:
    """Packs rows of one text each into full rows: nothing is computed for padding.

    Args:
        rows: dict of tensors `[text, sequence_length]`, `padding_mask` among them: the five of
            `make_rows`, and whatever else stands beside the pieces, labels say.
        pad_id: int. Id of `[PAD]`.

    Returns:
        The same for fewer rows; `padding_mask` numbers the texts of each. At padding `token_ids` are
        `pad_id` and all else 0.
    """
    sequence_length = rows["padding_mask"].shape[1]
    real = rows["padding_mask"] > 0
    lengths = tf.math.count_nonzero(real, 1)
    per_row = fill_rows(lengths, sequence_length)
    _, number = row_and_place(per_row)
    text_splits = tf.concat([[0], tf.cumsum(per_row)], 0)
    row_splits = tf.gather(tf.concat([[0], tf.cumsum(lengths)], 0), text_splits)

    def dense(flat: tf.Tensor, padding: int = 0) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_splits(flat, row_splits, validate=False)
        return ragged.to_tensor(padding, shape=[None, sequence_length])

    paddings = {"token_ids": pad_id}
    packed = {
        name: dense(tf.boolean_mask(value, real), paddings.get(name, 0)) for name, value in rows.items()
    }
    packed["padding_mask"] = dense(repeat(tf.cast(number + 1, tf.int32), lengths))
    return packed


def fill_rows(lengths: tf.Tensor, sequence_length: int, max_texts: int | None = None) -> tf.Tensor:
    """Next-fit of texts into rows.

    Args:
        lengths: int64 tensor `[text]`, columns that each text takes, special pieces included.
        sequence_length: int. Columns of a row.
        max_texts: int or `None`. Most texts of a row.

    Returns:
        int64 tensor `[row]`, texts in each row.
    """
    count = tf.size(lengths, tf.int64)
    limits = [(lengths, sequence_length)]
    if max_texts is not None:
        limits.append((tf.ones_like(lengths), max_texts))
    starts = tf.where(next_fit_openers(tf.stack([0, count]), *limits))[:, 0]
    return tf.concat([starts[1:], [count]], 0)[: tf.size(starts)] - starts


def join_sentences(
    texts: tf.RaggedTensor, group_splits: tf.Tensor, max_pieces: int, max_words: int
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Joins sentences that follow one another into runs that fill a row (RoBERTa's full sentences).

    Liu et al. 2019, section 4.2; here a run also ends where its document ends.

    Args:
        texts: ragged tensor `[text, (words), (pieces)]`, each of one word at least, in the order of
            their documents.
        group_splits: int64 tensor `[groups + 1]`, row splits of the texts by document.
        max_pieces, max_words: int. Room in a row.

    Returns:
        Ragged tensor `[run, (words), (pieces)]` and an int64 tensor `[run]`, each run's group.
    """
    parts, origin = split_long_texts(texts, max_pieces, max_words)
    part_splits = tf.searchsorted(origin, group_splits, out_type=tf.int64)
    openers = next_fit_openers(part_splits, (pieces_of(parts), max_pieces), (parts.row_lengths(), max_words))
    starts = tf.where(openers)[:, 0]
    splits = tf.gather(parts.row_splits, tf.concat([starts, [parts.nrows()]], 0))
    runs = tf.RaggedTensor.from_row_splits(parts.values, splits, validate=False)
    return runs, tf.searchsorted(part_splits, starts, side="right", out_type=tf.int64) - 1


def without_empty(texts: tf.RaggedTensor) -> tf.RaggedTensor:
    """Leaves out texts without words."""
    filled = texts.row_lengths() > 0
    # Words stay as they are; only the empty texts' splits go.
    splits = tf.concat([texts.row_splits[:1], tf.boolean_mask(texts.row_splits[1:], filled)], 0)
    return tf.RaggedTensor.from_row_splits(texts.values, splits, validate=False)


def _split_long_words(texts: tf.RaggedTensor, max_pieces: int) -> tf.RaggedTensor:
    """Makes several words of a word longer than a row: each fills one, the last has what is left."""
    words = texts.values
    counts = (words.row_lengths() + max_pieces - 1) // max_pieces
    word, place = row_and_place(counts)
    starts = tf.gather(words.row_starts(), word) + place * max_pieces
    return tf.RaggedTensor.from_nested_row_splits(
        words.values,
        [
            tf.gather(tf.concat([[0], tf.cumsum(counts)], 0), texts.row_splits),
            tf.concat([starts, words.row_splits[-1:]], 0),
        ],
        validate=False,
    )
