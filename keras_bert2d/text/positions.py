"""The two positions of a piece: its word's place in the text and its own place in the word.

A word of k pieces gives its first piece 0 and its last 1 (0 where k = 1); the m = k − 2 between them
share the places 2 … M + 1. With M = 3 and six pieces, *göremediklerimizden*:

    piece               gör   ##em  ##edik  ##leri  ##miz  ##den
    word position       1     1     1       1       1      1        (0 is [CLS])
    subword position    0     2     2       3       4      1

Four pieces between the first and the last want three places: 2 + ⌊j · 3/4⌋ for j = 0 … 3.
"""

import dataclasses

import tensorflow as tf

from keras_bert2d.choices import OVERFLOWS, WORD_NUMBERINGS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.text.ragged import row_and_place, rows_of
from keras_bert2d.text.special_tokens import CONTINUATION_PREFIX, PAD, SEP


@dataclasses.dataclass(frozen=True)
class IdRules:
    """How position ids are made: the tokenizer's configuration, read by every preprocessor.

    Attributes:
        max_words: int. Rows of the word table: a numbering has at most so many words.
        max_intermediate_subwords: int, M. Places between a word's first piece and its last.
        overflow: string. What happens to more than M intermediate pieces: `"floor"` (the published
            formula), `"rounded"` or `"last"` (the published reference code).
        word_numbering: string. `"continue"` numbers a whole row, `"restart"` starts again at 0 after
            the first `[SEP]` of a pair.
    """

    max_words: int = 512
    max_intermediate_subwords: int = 3
    overflow: str = "floor"
    word_numbering: str = "continue"

    def __post_init__(self) -> None:
        # Three words is the least that a row needs: [CLS], one word, [SEP].
        for name, least in (("max_words", 3), ("max_intermediate_subwords", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}"
                )
        check_choice("overflow", self.overflow, OVERFLOWS)
        check_choice("word_numbering", self.word_numbering, WORD_NUMBERINGS)

    def to_dict(self) -> dict[str, int | str]:
        """Returns the rules as the keyword arguments that make them again."""
        return dataclasses.asdict(self)


def subword_positions(
    word_lengths: tf.Tensor, max_intermediate_subwords: int, overflow: str
) -> tf.RaggedTensor:
    """Subword position ids of words, from the number of their pieces alone.

    Args:
        word_lengths: integer tensor `[words]`, pieces of each word, at least 1.
        max_intermediate_subwords: int, M.
        overflow: string, see `IdRules`.

    Returns:
        int32 ragged tensor `[words, (pieces)]`.

    Example:

    >>> subword_positions(tf.constant([1, 2, 6]), 3, "floor").to_list()
    [[0], [0, 1], [0, 2, 2, 3, 4, 1]]
    """
    # A text has few different word lengths: the rule is worked out once for each.
    distinct, which = tf.unique(tf.cast(word_lengths, tf.int64))
    kind, index = row_and_place(distinct)
    k = tf.gather(distinct, kind)
    j, m, most = index - 1, k - 2, max_intermediate_subwords
    if overflow == "floor":
        crowded = 2 + j * most // tf.maximum(m, 1)
    elif overflow == "rounded":
        # ⌊j (M − 1) / m + ½⌋ in whole numbers.
        crowded = 2 + (2 * j * (most - 1) + m) // tf.maximum(2 * m, 1)
    else:
        crowded = tf.where(j < most, 2 + j, 1)
    between = tf.where(m <= most, 2 + j, crowded)
    table = tf.where(index == 0, tf.zeros_like(k), tf.where(index == k - 1, tf.ones_like(k), between))

    word, place = row_and_place(word_lengths)
    table_starts = tf.cumsum(distinct, exclusive=True)
    flat = tf.gather(tf.cast(table, tf.int32), tf.gather(tf.gather(table_starts, which), word) + place)
    return tf.RaggedTensor.from_row_lengths(flat, tf.cast(word_lengths, tf.int64), validate=False)


def two_d_position_ids(
    pieces: tf.RaggedTensor | list[list[str]],
    max_intermediate_subwords: int = 3,
    overflow: str = "floor",
    word_numbering: str = "continue",
    continuation_prefix: str = CONTINUATION_PREFIX,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Position ids of rows of piece strings, special pieces included.

    A word starts at each piece without the prefix and at the row's first piece; its number is one more
    than the word before. `[CLS]`, `[SEP]`, `[MASK]` and `[UNK]` are words of one piece; `[PAD]` has 0
    and 0 and takes no number.

    Args:
        pieces: string ragged tensor `[row, (pieces)]`, or a list of lists of strings.
        max_intermediate_subwords: int, M. Places between a word's first piece and its last.
        overflow: `"floor"`, `"rounded"` or `"last"`, see `IdRules`.
        word_numbering: `"continue"`, or `"restart"`: 0 again after the first `[SEP]` of each row.
        continuation_prefix: string. The mark of a piece that continues a word.

    Returns:
        Two int32 ragged tensors of the shape of `pieces`: word and subword position ids.

    Raises:
        InputError: `overflow`, `word_numbering` or `max_intermediate_subwords` is none of the rules'.

    Example:

    >>> words, places = two_d_position_ids([["[CLS]", "gör", "##em", "##edik", "[SEP]"]])
    >>> words.to_list(), places.to_list()
    ([[0, 1, 1, 1, 2]], [[0, 0, 2, 1, 0]])
    """
    IdRules(
        max_intermediate_subwords=max_intermediate_subwords,
        overflow=overflow,
        word_numbering=word_numbering,
    )
    if not isinstance(pieces, tf.RaggedTensor):
        pieces = tf.ragged.constant(pieces, dtype=tf.string, ragged_rank=1)
    rows = tf.cast(rows_of(pieces), tf.int32)
    row_starts = tf.cast(pieces.row_starts(), tf.int32)
    count = tf.size(pieces.values)
    is_first = tf.range(count) == tf.gather(row_starts, rows)
    opens = is_first
    if word_numbering == "restart":
        separators = tf.cast(pieces.values == SEP, tf.int32)
        seen = tf.cumsum(separators, exclusive=True)
        seen = seen - tf.gather(seen, tf.gather(row_starts, rows))
        # The second text opens at the piece right behind the row's first [SEP].
        opens = is_first | ((seen == 1) & (tf.roll(separators, 1, 0) == 1))
    is_padding = pieces.values == PAD
    continues = tf.strings.substr(pieces.values, 0, len(continuation_prefix.encode()))
    # No word reaches over the start of a text, nor over padding.
    starts = opens | is_padding | tf.roll(is_padding, 1, 0) | (continues != continuation_prefix)

    # Words of all rows in one numbering, [PAD] left out; what comes before a text is then taken away.
    numbered = starts & ~is_padding
    numbers = tf.cumsum(tf.cast(numbered, tf.int32)) - 1
    before = tf.cumsum(tf.cast(numbered, tf.int32), exclusive=True)
    opener = tf.cumsum(tf.cast(opens, tf.int32)) - 1
    base = tf.gather(before, tf.gather(tf.where(opens)[:, 0], opener))
    word_ids = tf.where(is_padding, 0, numbers - base)

    word_starts = tf.cast(tf.where(starts)[:, 0], tf.int32)
    lengths = tf.concat([word_starts[1:], [count]], 0)[: tf.size(word_starts)] - word_starts
    subword_ids = subword_positions(lengths, max_intermediate_subwords, overflow).values
    return pieces.with_values(word_ids), pieces.with_values(subword_ids)
