"""The door of the text: mending, Unicode normalisation, cleaning and casing, with the way back.

The steps, in this order, for every text:

1. invalid UTF-8 is replaced by U+FFFD, as `bytes.decode("utf-8", "replace")` does;
2. NFC;
3. cleaning as BERT does it: control, format and private-use characters and U+FFFD are dropped, every
   white space becomes a space;
4. casing:
   - `"cased"` nothing;
   - `"uncased"` accents stripped and lower case (Devlin et al. 2019, the uncased models);
   - `"lower"` lower case, letters kept, for most alphabets: *Kór* and *kör* stay two words;
   - `"turkish"` the same with I→ı.

In `"lower"` and `"turkish"` İ becomes i, and so does i with a combining dot above (U+0307): that is what
lowering İ by the rules of other languages leaves behind, in much Turkish text.

Nearly all texts are clean already, so one regular expression finds those that are not and only they
take the slow way.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert2d.text.ragged import repeat, rows_of
from keras_bert2d.text.stand_ins import put_stand_ins

# What BERT's cleaning drops (tab, newline and carriage return are white space, not control characters).
_DROPPED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\p{Co}\x{FFFD}"
_ODD_SPACES = r"\t\n\r\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
# Matches valid UTF-8 only: RE2 reads UTF-8, and a byte that is none matches no character class.
_CLEAN = rf"[^{_DROPPED}{_ODD_SPACES}\x{{D800}}-\x{{DFFF}}]*"

# The casings in which i has no dot of its own to lose.
_DOTLESS = ("lower", "turkish")
_DOT_ABOVE = 0x307
_DOTTED = r"i\x{307}"


def normalize(texts: tf.Tensor, casing: str, special_pieces: bool = False) -> tf.Tensor:
    """Normalises texts for tokenising.

    Args:
        texts: string tensor `[n]`, bytes as the user gave them.
        casing: string, one of `CASINGS`.
        special_pieces: bool. Whether special pieces that are spelled in the texts become stand-ins, see
            `keras_bert2d.text.stand_ins`.

    Returns:
        String tensor `[n]`, valid UTF-8 without control characters.

    Example:

    >>> normalize(tf.constant(["IŞIK İZMİR"]), "turkish")[0].numpy().decode()
    'ışık izmir'
    """
    if casing in _DOTLESS:
        texts = tf.strings.regex_replace(texts, _DOTTED, "i")
    dirty = tf.where(~tf.strings.regex_full_match(texts, _CLEAN))
    composed = tf_text.normalize_utf8(texts, "NFC")
    texts = tf.cond(
        tf.size(dirty) > 0,
        lambda: tf.tensor_scatter_nd_update(composed, dirty, _clean(tf.gather_nd(texts, dirty))),
        lambda: composed,
    )
    if special_pieces:
        texts = put_stand_ins(texts)
    if casing == "uncased":
        texts = tf.strings.regex_replace(tf_text.normalize_utf8(texts, "NFD"), r"\p{Mn}+", "")
    return _lower(texts, casing)


def normalize_with_sources(
    texts: tf.Tensor, casing: str, special_pieces: bool = False
) -> tuple[tf.Tensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Normalises texts and tells which characters of the given text each result comes from.

    Args:
        texts, casing, special_pieces: See `normalize`.

    Returns:
        The normalised texts, equal to those of `normalize`, and two int64 ragged tensors
        `[n, (characters of the normalised text)]`: the first character of the source and the one after
        the last, counted in `bytes.decode("utf-8", "replace")`.
    """
    codepoints = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    starts = tf.ragged.range(codepoints.row_lengths())
    ends = starts + 1
    texts = tf.strings.unicode_encode(codepoints, "UTF-8")
    if casing in _DOTLESS:
        texts, starts, ends = _join_dots(texts, codepoints, starts, ends)
    texts, starts, ends = _compose(texts, starts, ends, "NFC")
    texts, starts, ends = _drop(texts, starts, ends, rf"[{_DROPPED}]")
    texts = tf.strings.regex_replace(texts, rf"[{_ODD_SPACES}]", " ")
    if special_pieces:
        texts = put_stand_ins(texts)
    if casing == "uncased":
        texts, starts, ends = _compose(texts, starts, ends, "NFD")
        texts, starts, ends = _drop(texts, starts, ends, r"[\p{Mn}\x{FFFD}]")
    return _lower(texts, casing), starts, ends


def character_at_byte(texts: tf.Tensor) -> tf.RaggedTensor:
    """For every byte of valid UTF-8 texts, and one past the end, the index of its character.

    Args:
        texts: string tensor `[n]`.

    Returns:
        int64 ragged tensor `[n, (bytes + 1)]`.
    """
    _, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    lengths = tf.cast(tf.strings.length(texts), tf.int64) + 1
    byte_splits = tf.concat([[0], tf.cumsum(lengths)], 0)
    firsts = offsets.values + tf.gather(byte_splits, rows_of(offsets))
    ends_of_text = byte_splits[1:] - 1
    flags = tf.scatter_nd(
        tf.concat([firsts, ends_of_text], 0)[:, None],
        tf.ones([tf.size(firsts) + tf.size(ends_of_text)], tf.int64),
        byte_splits[-1][None],
    )
    counts = tf.cumsum(flags)
    # Each row has one character more than it has, the end of the text: take the rows' starts away.
    row_starts = offsets.row_starts() + tf.range(tf.size(ends_of_text, tf.int64))
    flat = counts - 1 - repeat(row_starts, lengths)
    return tf.RaggedTensor.from_row_splits(flat, byte_splits)


def _clean(texts: tf.Tensor) -> tf.Tensor:
    texts = tf.strings.unicode_encode(tf.strings.unicode_decode(texts, "UTF-8", errors="replace"), "UTF-8")
    texts = tf_text.normalize_utf8(texts, "NFC")
    texts = tf.strings.regex_replace(texts, rf"[{_DROPPED}]+", "")
    return tf.strings.regex_replace(texts, rf"[{_ODD_SPACES}]", " ")


def _lower(texts: tf.Tensor, casing: str) -> tf.Tensor:
    """Lower case, always one character for one, so that offsets stay true."""
    if casing == "cased":
        return texts
    # Lower case makes two characters of this one.
    texts = tf.strings.regex_replace(texts, "İ", "i")
    # Said outright in all casings: ICU goes by the locale of the process, and a Turkish one would make it ı.
    texts = tf.strings.regex_replace(texts, "I", "ı" if casing == "turkish" else "i")
    # ICU would make the final sigma of a word another letter; BERT does not.
    texts = tf.strings.regex_replace(texts, "Σ", "σ")
    return tf.strings.lower(texts, encoding="utf-8")


def _join_dots(
    texts: tf.Tensor, codepoints: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.Tensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Makes i of i with a combining dot above; the letter's source ends behind the dot."""
    codes, rows = codepoints.values, rows_of(codepoints)
    joins = (codes[1:] == _DOT_ABOVE) & (codes[:-1] == ord("i")) & (rows[1:] == rows[:-1])
    ends = ends.with_values(ends.values + tf.cast(tf.concat([joins, [False]], 0)[: tf.size(codes)], tf.int64))
    is_kept = ~tf.concat([[False], joins], 0)[: tf.size(codes)]
    return tf.strings.regex_replace(texts, _DOTTED, "i"), *_keep(is_kept, starts, ends)


def _compose(
    texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor, form: str
) -> tuple[tf.Tensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Brings valid UTF-8 texts to NFC or NFD and carries the source characters along."""
    result, offsets_map = tf_text.normalize_utf8_with_offsets_map(texts, form)
    _, first_bytes = tf.strings.unicode_decode_with_offsets(result, "UTF-8")
    lengths = tf.cast(tf.strings.length(result), tf.int64)
    # The end of each text as well: the operation refuses an empty row, and crashes without any.
    bounds = tf.concat([first_bytes, lengths[:, None]], 1)
    found = tf.cond(
        tf.size(texts) > 0,
        lambda: tf_text.find_source_offsets(offsets_map, bounds).values,
        lambda: bounds.values,
    )
    character = character_at_byte(texts)
    places = found + tf.gather(character.row_starts(), rows_of(bounds))
    source = bounds.with_values(tf.gather(character.values, places))
    first, after = source[:, :-1], source[:, 1:].values
    # Behind the first character of a changed stretch the map points to the stretch's end: its
    # characters all come from the whole of it.
    opens = after > first.values
    stretch = tf.cumsum(tf.cast(opens, tf.int64)) - 1
    base = tf.gather(starts.row_starts(), rows_of(first))
    firsts = tf.gather(tf.boolean_mask(first.values, opens), stretch) + base
    lasts = tf.gather(tf.boolean_mask(after, opens), stretch) - 1 + base
    return (
        result,
        first.with_values(tf.gather(starts.values, firsts)),
        first.with_values(tf.gather(ends.values, lasts)),
    )


def _drop(
    texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor, pattern: str
) -> tuple[tf.Tensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Removes the characters that match `pattern`, U+FFFD among them, with their sources."""
    marked = tf.strings.regex_replace(texts, pattern, "\ufffd")
    is_kept = tf.strings.unicode_decode(marked, "UTF-8").values != 0xFFFD
    return tf.strings.regex_replace(texts, f"{pattern}+", ""), *_keep(is_kept, starts, ends)


def _keep(
    is_kept: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the sources of the characters that are kept; `is_kept` is flat, a bool for each."""
    before = tf.concat([[0], tf.cumsum(tf.cast(is_kept, tf.int64))], 0)
    splits = tf.gather(before, starts.row_splits)
    return tuple(
        tf.RaggedTensor.from_row_splits(tf.boolean_mask(ragged.values, is_kept), splits, validate=False)
        for ragged in (starts, ends)
    )
