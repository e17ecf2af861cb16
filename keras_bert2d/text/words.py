"""From flat pieces with offsets to words: grouping, the limit on a word's length, the way to the source."""

import tensorflow as tf

from keras_bert2d.text.casing import character_at_byte
from keras_bert2d.text.ragged import repeat, rows_of

MAX_CHARACTERS_PER_WORD = 100


def group_words(
    texts: tf.Tensor,
    ids: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    continues: tf.Tensor,
    unknown_id: int,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Groups the pieces of each text by words; words of more than 100 characters become `[UNK]`.

    Args:
        texts: string tensor `[row]`, the normalised texts.
        ids, starts, ends: ragged tensors `[row, (pieces)]`: piece ids and byte offsets.
        continues: bool tensor `[vocabulary]`, whether a piece continues a word.
        unknown_id: int, the id of `[UNK]`.

    Returns:
        `ids`, `starts` and `ends` as ragged tensors `[row, (words), (pieces)]`; offsets are int64.
    """
    flat_ids = ids.values
    flat_starts, flat_ends = tf.cast(starts.values, tf.int64), tf.cast(ends.values, tf.int64)
    opens = ~tf.gather(continues, flat_ids)
    opened = tf.concat([[0], tf.cumsum(tf.cast(opens, tf.int64))], 0)
    row_splits = tf.gather(opened, ids.row_splits)
    count = tf.size(flat_ids, tf.int64)
    piece_splits = tf.concat([tf.where(opens)[:, 0], [count]], 0)

    # A character has one byte at least, so words of 100 bytes need no counting: nearly all.
    word_starts = tf.gather(flat_starts, piece_splits[:-1])
    word_bytes = tf.gather(flat_ends, piece_splits[1:] - 1) - word_starts
    candidates = tf.where(word_bytes > MAX_CHARACTERS_PER_WORD)[:, 0]

    def shorten():
        rows = tf.searchsorted(row_splits, candidates, side="right") - 1
        characters = tf.strings.length(
            tf.strings.substr(
                tf.gather(texts, rows),
                tf.gather(word_starts, candidates),
                tf.gather(word_bytes, candidates),
            ),
            unit="UTF8_CHAR",
        )
        long = tf.boolean_mask(candidates, characters > MAX_CHARACTERS_PER_WORD)
        is_long = tf.scatter_nd(long[:, None], tf.ones_like(long), tf.shape(word_bytes, tf.int64)) > 0
        lengths = piece_splits[1:] - piece_splits[:-1]
        drop = repeat(is_long, lengths) & ~opens
        unknown = repeat(is_long, lengths) & opens
        word_ends = repeat(word_starts + word_bytes, lengths)
        return (
            tf.boolean_mask(tf.where(unknown, unknown_id, flat_ids), ~drop),
            tf.boolean_mask(flat_starts, ~drop),
            tf.boolean_mask(tf.where(unknown, word_ends, flat_ends), ~drop),
            tf.concat([[0], tf.cumsum(tf.where(is_long, tf.ones_like(lengths), lengths))], 0),
        )

    *flats, piece_splits = tf.cond(
        tf.size(candidates) > 0, shorten, lambda: (flat_ids, flat_starts, flat_ends, piece_splits)
    )
    return tuple(
        tf.RaggedTensor.from_nested_row_splits(flat, [row_splits, piece_splits], validate=False)
        for flat in flats
    )


def offsets_in_source(
    texts: tf.Tensor,
    normal: tf.Tensor,
    source_starts: tf.RaggedTensor,
    source_ends: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    unit: str,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Carries byte offsets into normalised texts back to the texts as the user gave them.

    Args:
        texts: string tensor `[row]`, as given.
        normal: string tensor `[row]`, normalised.
        source_starts, source_ends: int64 ragged `[row, (characters of normal)]`, see
            `normalize_with_sources`.
        starts, ends: int64 ragged `[row, (words), (pieces)]`, bytes in `normal`.
        unit: `"byte"` or `"character"`.

    Returns:
        `starts` and `ends` in `texts`, of the shape given.
    """
    rows = repeat(rows_of(starts), starts.values.row_lengths())
    character = character_at_byte(normal)

    def at(ragged: tf.RaggedTensor, index: tf.Tensor) -> tf.Tensor:
        return tf.gather(ragged.values, index + tf.gather(ragged.row_starts(), rows))

    first = at(source_starts, at(character, starts.flat_values))
    after = at(source_ends, at(character, ends.flat_values - 1))
    if unit == "byte":
        _, byte_offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
        lengths = tf.cast(tf.strings.length(texts), tf.int64)
        byte_offsets = tf.concat([byte_offsets, lengths[:, None]], 1)
        first, after = at(byte_offsets, first), at(byte_offsets, after)
    return starts.with_flat_values(first), ends.with_flat_values(after)
