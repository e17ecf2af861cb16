"""Rows: words with `[CLS]` and `[SEP]` around them, their ids, dense.

A *text* is what stands behind one `[CLS]`: a text or a pair of texts. Everything here takes ragged
`[text, (words), (pieces)]` and gives the batch that every model takes:

    token_ids              [CLS] gör ##em ##edik . [SEP] [CLS] ev [SEP] [PAD]
    segment_ids              0    0    0    0    0   0     0    0   0     0
    padding_mask             1    1    1    1    1   1     2    2   2     0
    word_position_ids        0    1    1    1    2   3     0    1   2     0
    subword_position_ids     0    0    2    1    0   0     0    0   0     0
"""

import dataclasses

import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.text.positions import IdRules, subword_positions
from keras_bert2d.text.ragged import keep_items, row_and_place

# The keys of every batch, in the order of the picture above.
ROW_KEYS = ("token_ids", "segment_ids", "padding_mask", "word_position_ids", "subword_position_ids")


@dataclasses.dataclass(frozen=True)
class RowRules:
    """What a row is made by: its length, the id rules and the ids of the special pieces.

    Attributes:
        sequence_length: int. Columns of a row.
        id_rules: `IdRules`.
        cls_id, sep_id, pad_id: int. Ids of `[CLS]`, `[SEP]` and `[PAD]`.
    """

    sequence_length: int
    id_rules: IdRules
    cls_id: int
    sep_id: int
    pad_id: int

    @classmethod
    def of(cls, tokenizer, sequence_length: int) -> "RowRules":
        """Reads the rules from a tokenizer; `InputError` where the row is too short."""
        if isinstance(sequence_length, bool) or not isinstance(sequence_length, int) or sequence_length < 4:
            raise InputError(
                "`sequence_length` must be an integer of at least 4, room for [CLS], two pieces and [SEP]. "
                f"Received: sequence_length={sequence_length!r}"
            )
        return cls(
            sequence_length,
            tokenizer.id_rules,
            tokenizer.cls_token_id,
            tokenizer.sep_token_id,
            tokenizer.pad_token_id,
        )

    def room(self, specials: int) -> tuple[int, int]:
        """Pieces and words that a row has room for beside so many special pieces."""
        return self.sequence_length - specials, self.id_rules.max_words - specials


def cut(
    texts: tf.RaggedTensor,
    max_pieces: tf.Tensor | int,
    max_words: tf.Tensor | int,
    row_pieces: int | None = None,
) -> tf.RaggedTensor:
    """Cuts texts at whole words; only a first word that is longer than a row is cut inside.

    Args:
        texts: ragged tensor `[text, (words), (pieces)]`.
        max_pieces, max_words: int or integer tensor `[text]`. What each text may keep.
        row_pieces: int. Room for pieces in a row, where that is not `max_pieces`.

    Returns:
        `texts` without the words from the first that no longer fits.
    """
    row, index = row_and_place(texts.row_lengths())
    count = tf.shape(texts.row_lengths())
    room = tf.gather(tf.broadcast_to(tf.maximum(tf.cast(max_pieces, tf.int64), 0), count), row)
    words_room = tf.gather(tf.broadcast_to(tf.cast(max_words, tf.int64), count), row)
    lengths = texts.values.row_lengths()
    too_long = (index == 0) & (lengths > (room if row_pieces is None else row_pieces))
    shortened = tf.where(too_long, tf.minimum(lengths, room), lengths)
    ends = tf.cumsum(shortened)
    before = tf.gather(tf.concat([[0], ends], 0), tf.gather(texts.row_starts(), row))
    fits = (ends - before <= room) & (index < words_room) & (shortened > 0)

    def drop():
        words = _shorten_words(texts.values, shortened)
        kept = keep_items(texts.with_values(words), fits)
        return kept.flat_values, kept.values.row_splits, kept.row_splits

    def keep():
        return texts.flat_values, texts.values.row_splits, texts.row_splits

    flat, word_splits, text_splits = tf.cond(tf.reduce_all(fits & ~too_long), keep, drop)
    return tf.RaggedTensor.from_nested_row_splits(flat, [text_splits, word_splits], validate=False)


def _shorten_words(words: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Keeps the first `lengths[i]` pieces of word i."""
    word, place = row_and_place(words.row_lengths())
    kept = place < tf.gather(lengths, word)
    return tf.RaggedTensor.from_row_lengths(tf.boolean_mask(words.values, kept), lengths, validate=False)


def make_rows(
    rules: RowRules,
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    texts_per_row: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Puts special pieces around texts, numbers them and lays them out densely.

    Args:
        rules: `RowRules`.
        first: int32 ragged tensor `[text, (words), (pieces)]`, short enough for a row.
        second: the same for the second text of each pair, or `None`.
        texts_per_row: int64 tensor `[row]`: so many texts, one after another, fill each row. `None`:
            one text a row.

    Returns:
        The five int32 tensors `[row, sequence_length]`.
    """
    count = first.nrows()
    ones = tf.ones([count, 1], tf.int64)

    def special(piece: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([count, 1], tf.constant(piece, first.dtype)))

    parts = [special(rules.cls_id), first.merge_dims(1, 2), special(rules.sep_id)]
    lengths = [ones, first.with_values(first.values.row_lengths()), ones]
    if second is not None:
        parts += [second.merge_dims(1, 2), special(rules.sep_id)]
        lengths += [second.with_values(second.values.row_lengths()), ones]
    pieces, word_lengths = tf.concat(parts, 1), tf.concat(lengths, 1)

    flat_lengths = word_lengths.values
    text, word_ids = row_and_place(word_lengths.row_lengths())
    word, _ = row_and_place(flat_lengths)
    segments = tf.zeros_like(word_ids)
    if second is not None:
        opening = tf.gather(first.row_lengths() + 2, text)
        segments = tf.cast(word_ids >= opening, tf.int64)
        if rules.id_rules.word_numbering == "restart":
            word_ids -= segments * opening
    subword_ids = subword_positions(
        flat_lengths, rules.id_rules.max_intermediate_subwords, rules.id_rules.overflow
    ).values

    if texts_per_row is None:
        texts_per_row = tf.ones([count], tf.int64)
    _, number = row_and_place(texts_per_row)
    text_splits = tf.concat([[0], tf.cumsum(texts_per_row)], 0)
    row_splits = tf.gather(pieces.row_splits, text_splits)

    def dense(flat: tf.Tensor, padding: int = 0) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_splits(tf.cast(flat, tf.int32), row_splits, validate=False)
        return ragged.to_tensor(padding, shape=[None, rules.sequence_length])

    return {
        "token_ids": dense(pieces.values, rules.pad_id),
        "segment_ids": dense(tf.gather(segments, word)),
        "padding_mask": dense(tf.gather(tf.gather(number + 1, text), word)),
        "word_position_ids": dense(tf.gather(word_ids, word)),
        "subword_position_ids": dense(subword_ids),
    }


def single_rows(texts: tf.RaggedTensor, rules: RowRules) -> dict[str, tf.Tensor]:
    """Rows of one text each, `[CLS] text [SEP]`, cut at whole words.

    Args:
        texts: int32 ragged tensor `[text, (words), (pieces)]`.
        rules: `RowRules`.

    Returns:
        The five int32 tensors `[text, sequence_length]`.
    """
    return make_rows(rules, cut(texts, *rules.room(2)))


def pair_rows(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor,
    rules: RowRules,
    texts_per_row: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Rows of pairs, `[CLS] first [SEP] second [SEP]`, cut fairly (see `cut_pair`)."""
    return make_rows(rules, *cut_pair(first, second, rules), texts_per_row)


def cut_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, rules: RowRules
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Cuts pairs at whole words to fit a row: the longer text gives way first, then both alike.

    What whole words leave over of one text's share goes to the other.

    Args:
        first, second: ragged tensors `[pair, (words), (pieces)]`.
        rules: `RowRules`. Where they number the second text anew, each text has `max_words` of its own.

    Returns:
        Both, cut.
    """
    room, words_room = rules.room(3)
    if rules.id_rules.word_numbering == "restart":
        # [CLS] first [SEP], and second [SEP].
        words = words_room + 1, words_room + 2
    else:
        words = _shares(first.row_lengths(), second.row_lengths(), words_room)
    _, share = _shares(pieces_of(first), pieces_of(second), room)
    kept = cut(second, share, words[1], room)
    first = cut(first, room - pieces_of(kept), words[0], room)
    return first, cut(second, room - pieces_of(first), words[1], room)


def _shares(a: tf.Tensor, b: tf.Tensor, room: int) -> tuple[tf.Tensor, tf.Tensor]:
    share_a = tf.minimum(a, tf.maximum(room - b, (room + 1) // 2))
    return share_a, tf.minimum(b, room - share_a)


def pieces_of(texts: tf.RaggedTensor) -> tf.Tensor:
    """Returns the number of pieces of each text, int64 `[text]`."""
    splits = tf.gather(texts.values.row_splits, texts.row_splits)
    return splits[1:] - splits[:-1]
