"""Stand-ins: what the special pieces are called inside the matcher.

They are private-use characters. Cleaning drops those from every text, so no text can spell a special
piece by accident; where a text may spell them, stand-ins are written into it after cleaning.
"""

import re

import tensorflow as tf

from keras_bert2d.text.special_tokens import CLS, MASK, PAD, SEP, SPECIAL_TOKENS

STAND_INS = {token: chr(0xE000 + i) for i, token in enumerate(SPECIAL_TOKENS)}
_WRITABLE = (PAD, CLS, SEP, MASK)


def put_stand_ins(texts: tf.Tensor) -> tf.Tensor:
    """Writes stand-ins for special pieces, spaces around them, with as many characters as before.

    Args:
        texts: string tensor `[row]`, clean texts before casing: `[mask]` is text in all casings.

    Returns:
        String tensor `[row]`.
    """
    for token in _WRITABLE:
        stand_in = f" {STAND_INS[token]}{' ' * (len(token) - 2)}"
        texts = tf.strings.regex_replace(texts, re.escape(token), stand_in)
    return texts


def widen_stand_ins(
    ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor, id_of: dict[str, int]
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Gives special pieces the offsets of their whole spelling.

    Args:
        ids, starts, ends: ragged tensors `[row, (words), (pieces)]`: piece ids and byte offsets into
            the result of `put_stand_ins`.
        id_of: dict of the pieces' ids.

    Returns:
        `starts` and `ends`, widened.
    """
    for token in _WRITABLE:
        here = tf.cast(ids.flat_values == id_of[token], tf.int64)
        starts = starts.with_flat_values(starts.flat_values - here)
        ends = ends.with_flat_values(ends.flat_values + here * (len(token) - 2))
    return starts, ends
