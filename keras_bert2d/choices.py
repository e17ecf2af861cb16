"""The settings that are chosen by name, without TensorFlow: the command checks them before it starts."""

from collections.abc import Sequence

from keras_bert2d.errors import InputError

CASINGS = ("cased", "uncased", "lower", "turkish")
OVERFLOWS = ("floor", "rounded", "last")
WORD_NUMBERINGS = ("continue", "restart")
DOCUMENT_RULES = ("blank", "line", "file")
LABELLED_PIECES = ("first", "all")

ROWS = ("packed", "full_sentences")
MASKINGS = ("word", "token")
REPLACEMENTS = ("unigram", "uniform")

POSITION_SCHEMES = ("two_d", "learned")
NORM_ORDERS = ("post", "pre")
DTYPES = ("float32", "mixed_bfloat16", "bfloat16")

DECAYS = ("linear", "cosine", "constant", "wsd")
STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Returns `value`, or refuses it where it is none of those allowed.

    Args:
        name: string. What the setting is called in the error.
        value: string. What was received.
        allowed: The values that there are.

    Raises:
        InputError: There is no such value.

    Example:

    >>> check_choice("masking", "words", MASKINGS)
    Traceback (most recent call last):
    keras_bert2d.errors.InputError: `masking` must be one of word, token. Received: masking='words'
    """
    if value not in allowed:
        raise InputError(f"`{name}` must be one of {', '.join(allowed)}. Received: {name}={value!r}")
    return value
