"""Labels of a data set's words: which columns of a row belong to which word.

A *data word* is what a data set labels. It may hold several of BERT's words: labels follow the
data's words, position ids follow BERT's. *İstanbul'da* is one data word and three words of BERT's:

    data word                      İstanbul'da           kar    .
    label                          B-LOC                 O      O
    piece                  [CLS]   İstanbul  '    da     kar    .      [SEP]
    word_position_ids      0       1         2    3      4      5      6
    label, "first"                 B-LOC                 O      O
    label, "all"                   B-LOC     B-LOC B-LOC O      O

The label of a data word is read at its first piece.
"""

import tensorflow as tf

from keras_bert2d.choices import LABELLED_PIECES, check_choice
from keras_bert2d.text.ragged import row_and_place
from keras_bert2d.text.rows import RowRules, cut, make_rows, pieces_of
from keras_bert2d.text.tokenizer import Bert2DTokenizer

_LETTER = r"[\p{L}\p{M}\p{N}]"
# Between two words without white space stand at the most characters that cleaning dropped.
_GAP = r"[^\t\n\r\p{Z}]*"
_JOINED = rf"{_LETTER}{_GAP}['’\-]{_GAP}{_LETTER}|\p{{Nd}}{_GAP}[.,]{_GAP}\p{{Nd}}"
_JOINERS = "'’-.,"


def word_rows(
    data_words: tf.RaggedTensor, rules: RowRules, unknown_id: int
) -> tuple[dict[str, tf.Tensor], tf.RaggedTensor, tf.RaggedTensor]:
    """Rows of labelled words, `[CLS] data words [SEP]`, cut at whole data words.

    A row ends before the first data word that would exceed its pieces or its words; a first data
    word that is longer than a row is cut inside, at whole words of BERT's. A data word without any
    piece (nothing but control characters, say) becomes `[UNK]`: no word is lost on the way.

    Args:
        data_words: int32 ragged tensor `[row, (data words), (words), (pieces)]`.
        rules: `RowRules`.
        unknown_id: int. Id of `[UNK]`.

    Returns:
        The five int32 tensors `[row, sequence_length]`, and two int32 ragged tensors
        `[row, (kept data words)]`: the column of each data word's first piece, and the number of
        its pieces. A row's kept data words are its first.
    """
    data_words = _fill_empty(data_words, unknown_id)
    texts = data_words.merge_dims(1, 2)
    max_pieces, max_words = rules.room(2)
    row, place = row_and_place(data_words.row_lengths())
    row_starts = tf.gather(data_words.row_starts(), row)

    def ends_in_row(sizes: tf.Tensor) -> tf.Tensor:
        sums = tf.concat([[0], tf.cumsum(sizes)], 0)
        return sums[1:] - tf.gather(sums, row_starts)

    words, pieces = data_words.values.row_lengths(), pieces_of(data_words.values)
    ends = ends_in_row(pieces)
    fits = (ends <= max_pieces) & (ends_in_row(words) <= max_words) | (place == 0)

    def total(sizes: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(tf.where(fits, sizes, 0), row, data_words.nrows())

    kept_words, kept_lengths = total(words), total(tf.ones_like(words))
    texts = cut(texts, max_pieces, tf.minimum(kept_words, max_words))
    counts = tf.minimum(ends, tf.gather(pieces_of(texts), row)) - (ends - pieces)

    def kept(values: tf.Tensor) -> tf.RaggedTensor:
        flat = tf.cast(tf.boolean_mask(values, fits), tf.int32)
        return tf.RaggedTensor.from_row_lengths(flat, kept_lengths, validate=False)

    return make_rows(rules, texts), kept(1 + ends - pieces), kept(counts)


def label_pieces(
    labels: tf.RaggedTensor,
    columns: tf.RaggedTensor,
    counts: tf.RaggedTensor,
    sequence_length: int,
    which: str = "first",
    word_weights: tf.RaggedTensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts the labels of data words at their pieces.

    Args:
        labels: int32 ragged tensor `[row, (data words)]`, those that were cut off included.
        columns: int32 ragged tensor `[row, (kept data words)]`, see `word_rows`.
        counts: int32 ragged tensor of the same shape, see `word_rows`.
        sequence_length: int. Columns of a row.
        which: string. `"first"`: the label stands at a data word's first piece; `"all"`: at each.
        word_weights: float32 ragged tensor of the shape of `labels`, or `None` for 1 everywhere.

    Returns:
        int32 labels and float32 weights `[row, sequence_length]`, 0 where there is no label.

    Example:

    >>> columns, counts = tf.ragged.constant([[1, 4]]), tf.ragged.constant([[3, 1]])
    >>> labels, weights = label_pieces(tf.ragged.constant([[7, 9]]), columns, counts, 6, "all")
    >>> labels.numpy().tolist(), weights.numpy().tolist()
    ([[0, 7, 7, 7, 9, 0]], [[0.0, 1.0, 1.0, 1.0, 1.0, 0.0]])
    """
    check_choice("label_pieces", which, LABELLED_PIECES)
    row, place = row_and_place(columns.row_lengths())
    widths = counts.values if which == "all" else tf.ones_like(counts.values)
    word, step = row_and_place(widths)
    slots = tf.gather(row * sequence_length + tf.cast(columns.values, tf.int64), word) + step
    source = tf.gather(tf.gather(labels.row_starts(), row) + place, word)
    rows = columns.nrows()

    def spread(values: tf.Tensor) -> tf.Tensor:
        flat = tf.scatter_nd(slots[:, None], tf.gather(values, source), [rows * sequence_length])
        return tf.reshape(flat, [rows, sequence_length])

    if word_weights is None:
        weights = tf.ones_like(labels.values, tf.float32)
    else:
        weights = word_weights.values
    return spread(labels.values), spread(weights)


def split_sentences_into_words(
    texts: tf.Tensor, tokenizer: Bert2DTokenizer
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits sentences into data words, as treebanks split Turkish text.

    Data words are BERT's words, but some punctuation that stands between two of them without white
    space joins them: an apostrophe (' or ’) or a hyphen between letters or digits, a full stop or a
    comma between digits. Full stops without white space between them are one data word.
    `İstanbul'da 3,5 TL...` has four: `İstanbul'da`, `3,5`, `TL` and `...`.

    Args:
        texts: string tensor `[row]`.
        tokenizer: `Bert2DTokenizer`.

    Returns:
        The pieces, ragged `[row, (data words), (words), (pieces)]`, and two int64 ragged tensors
        `[row, (data words)]`: where each data word starts and the place after its end, counted in
        characters of `bytes.decode("utf-8", "replace")`.
    """
    pieces, starts, ends = tokenizer.tokenize_with_offsets(texts, unit="character")
    piece_splits = pieces.values.row_splits
    starts = tf.gather(starts.flat_values, piece_splits[:-1])
    ends = tf.gather(ends.flat_values, piece_splits[1:] - 1)
    opens = _opens_data_word(texts, pieces, starts, ends)
    opened = tf.concat([[0], tf.cumsum(tf.cast(opens, tf.int64))], 0)
    word_splits = tf.concat([tf.where(opens)[:, 0], [tf.size(opens, tf.int64)]], 0)
    row_splits = tf.gather(opened, pieces.row_splits)

    def by_row(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    data_words = tf.RaggedTensor.from_nested_row_splits(
        pieces.flat_values, [row_splits, word_splits, piece_splits], validate=False
    )
    return (
        data_words,
        by_row(tf.gather(starts, word_splits[:-1])),
        by_row(tf.gather(ends, word_splits[1:] - 1)),
    )


def _opens_data_word(
    texts: tf.Tensor, pieces: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Marks the words of BERT's that open a data word, bool `[words]`."""
    codes = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    row, place = row_and_place(pieces.row_lengths())
    text_starts = tf.gather(codes.row_starts(), row)
    code = tf.gather(codes.values, text_starts + starts)

    def before(values: tf.Tensor) -> tf.Tensor:
        return tf.roll(values, 1, 0)

    both_stops = (code == ord(".")) & (before(code) == ord("."))
    repeats = (place > 0) & both_stops & (starts == before(ends))

    joiners = tf.constant([ord(joiner) for joiner in _JOINERS])
    inside = (place > 0) & (place < tf.gather(pieces.row_lengths(), row) - 1)
    # Few words are candidates: only their surroundings, from letter to letter, are looked at.
    word = tf.where(inside & tf.reduce_any(code[:, None] == joiners, 1))[:, 0]
    text_start = tf.gather(text_starts, word)
    around = tf.ragged.range(
        text_start + tf.gather(ends, word - 1) - 1, text_start + tf.gather(starts, word + 1) + 1
    )
    around = tf.strings.unicode_encode(around.with_values(tf.gather(codes.values, around.values)), "UTF-8")
    joining = tf.boolean_mask(word, tf.strings.regex_full_match(around, _JOINED))
    # A joining word is never the last of its row: what follows it is in the same row.
    continuing = tf.concat([joining, joining + 1], 0)[:, None]
    joined = tf.scatter_nd(continuing, tf.ones_like(continuing[:, 0]), tf.shape(starts, tf.int64))
    return ~(repeats | (joined > 0))


def _fill_empty(data_words: tf.RaggedTensor, unknown_id: int) -> tf.RaggedTensor:
    """Gives data words without pieces one word of one piece, `[UNK]`."""
    words = data_words.values
    empty = tf.cast(words.row_lengths() == 0, tf.int64)

    def fill() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        ones = tf.ones([tf.reduce_sum(empty)], tf.int64)
        unknown = tf.RaggedTensor.from_nested_row_lengths(
            tf.cast(ones * unknown_id, words.dtype), [empty, ones], validate=False
        )
        filled = tf.concat([words, unknown], 1)
        return filled.flat_values, filled.values.row_splits, filled.row_splits

    def keep() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return words.flat_values, words.values.row_splits, words.row_splits

    flat, piece_splits, word_splits = tf.cond(tf.reduce_any(empty > 0), fill, keep)
    return tf.RaggedTensor.from_nested_row_splits(
        flat, [data_words.row_splits, word_splits, piece_splits], validate=False
    )
