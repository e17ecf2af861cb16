"""What users pass for texts, words and labels: lists to tensors, and checks."""

import numpy as np
import tensorflow as tf

from keras_bert2d.errors import InputError

DEFAULT_BATCH_SIZE = 32


def as_texts(x) -> tf.Tensor | tf.RaggedTensor:
    """Reads sentences or words.

    Args:
        x: sentences, a list of strings or a string tensor `[row]`; or words, a list of lists of
            strings or a string tensor `[row, (words)]`.

    Returns:
        Sentences as a string tensor `[row]`, words as a string ragged tensor `[row, (words)]`.

    Raises:
        InputError: `x` is neither.

    Example:

    >>> as_texts([["bir", "ev"], ["evler"]]).row_lengths().numpy().tolist()
    [2, 1]
    """
    if isinstance(x, (str, bytes)):
        raise InputError(f"`x` must be a list of sentences or of lists of words. Received: x={x!r}")
    x = as_tensor(x, "x", tf.string)
    if x.dtype != tf.string or x.shape.rank not in (1, 2):
        raise InputError(
            "`x` must hold sentences, strings [row], or words, strings [row, (words)], in batches. "
            f"Received: x of shape {x.shape} and dtype {x.dtype.name}"
        )
    if x.shape.rank == 2 and not isinstance(x, tf.RaggedTensor):
        return tf.RaggedTensor.from_tensor(x)
    return x


def as_tensor(values, name: str, dtype=None) -> tf.Tensor | tf.RaggedTensor:
    """Makes a tensor of a list; of a list of lists a ragged one, also where all have one length.

    Args:
        values: list, list of lists or array. Tensors come back as they are.
        name: string. What they are called in errors.
        dtype: dtype, or `None`: that of the values; int32 where there are none.

    Raises:
        InputError: The values are not of one kind.
    """
    if isinstance(values, (tf.Tensor, tf.RaggedTensor)):
        return values
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    nested = [isinstance(row, (list, tuple, np.ndarray)) for row in values]
    if any(nested) and not all(nested):
        raise InputError(
            f"`{name}` must be a list, or a list of lists, not a mixture. "
            f"Received: {values[nested.index(False)]!r} beside {values[nested.index(True)]!r}"
        )
    try:
        if not any(nested):
            return tf.constant(values, dtype)
        flat = [value for row in values for value in row]
        flat = tf.constant(flat, dtype if flat or dtype else tf.int32)
        return tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in values])
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"`{name}` must hold values of one kind: {reason}") from error


def fill_gaps(values, filler: str) -> tuple:
    """Fills labels that are not there, `None` in lists.

    Args:
        values: labels or label ids of words, list of lists; tensors come back as they are.
        filler: string, a label to put in where there are labels and not ids; there it is id 0.

    Returns:
        The values, and for each word 1, or 0 where it had none, in one list; `None` where all have one.

    Example:

    >>> fill_gaps([["NOUN", None], [None]], "ADJ")
    ([['NOUN', 'ADJ'], ['ADJ']], [1, 0, 0])
    """

    def as_list(x):
        return x.tolist() if isinstance(x, np.ndarray) and x.dtype == object else x

    rows = as_list(values)
    rows = [as_list(row) for row in rows] if isinstance(rows, (list, tuple)) else []
    if not all(isinstance(row, (list, tuple)) for row in rows):
        return values, None
    if not any(None in row for row in rows):
        return values, None
    labels = [label for row in rows for label in row]
    if not any(isinstance(label, str) for label in labels):
        filler = 0
    filled = [[filler if label is None else label for label in row] for row in rows]
    return filled, [int(label is not None) for label in labels]


def check_lengths(wanted: tf.Tensor, values: tf.RaggedTensor, name: str) -> None:
    """Refuses rows that have not as many values, labels say, as words.

    Args:
        wanted: int64 tensor `[row]`, the words of each row.
        values: ragged tensor `[row, (values)]`.
        name: string. What the values are called in errors.

    Raises:
        InputError: Eagerly; in a graph it is a `tf.errors.InvalidArgumentError`.
    """
    have = values.row_lengths()
    check_rows(wanted, have, name)
    wrong = tf.where(have != wanted)[:1, 0]
    require(
        tf.equal(tf.size(wrong), 0),
        f"`{name}` must have a value for each word of a row. Received: row, words, values:",
        wrong,
        tf.gather(wanted, wrong),
        tf.gather(have, wrong),
    )


def check_rows(wanted, values, name: str) -> None:
    """Refuses values, labels say, of more or fewer rows than there are.

    Args:
        wanted: tensor or ragged tensor `[row, …]`.
        values: tensor or ragged tensor `[row, …]`.
        name: string. What the values are called in errors.

    Raises:
        InputError: Eagerly; in a graph it is a `tf.errors.InvalidArgumentError`.
    """
    rows = [
        part.nrows() if isinstance(part, tf.RaggedTensor) else tf.shape(part)[0] for part in (wanted, values)
    ]
    rows = [tf.cast(count, tf.int64) for count in rows]
    require(tf.equal(*rows), f"`x` and `{name}` must have the same number of rows. Received:", *rows)


def require(holds: tf.Tensor, message: str, *received: tf.Tensor) -> None:
    """Raises where a condition does not hold, with a message and what was received.

    Raises:
        InputError: Eagerly; in a graph it is a `tf.errors.InvalidArgumentError`.
    """
    if not tf.executing_eagerly():
        tf.debugging.Assert(holds, [message, *received], summarize=10)
    elif not holds:
        flat = [value for tensor in received for value in tensor.numpy().ravel().tolist()]
        shown = (v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat)
        raise InputError(f"{message} {', '.join(shown)}")
