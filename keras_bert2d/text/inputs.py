"""What users pass for texts, words and labels: lists to tensors, checks, batches."""

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


def gather_batches(data, batch_size: int | None = None, shuffle: bool = False) -> tf.data.Dataset:
    """Makes batches of what lies in memory: rows are gathered by their numbers, a batch at a time.

    Args:
        data: tensor, ragged tensor or array `[row, …]`, or a structure of them.
        batch_size: int or `None` for 32.
        shuffle: bool. Whether rows come in another order each time.

    Raises:
        InputError: The parts have different numbers of rows.
    """

    def keep_ragged(part):
        return part if isinstance(part, tf.RaggedTensor) else tf.convert_to_tensor(part)

    data = tf.nest.map_structure(keep_ragged, data)
    rows = {int(tf.shape(part)[0]) for part in tf.nest.flatten(data)}
    if len(rows) > 1:
        raise InputError(
            "The inputs, labels and weights must have the same number of rows. "
            f"Received: {', '.join(map(str, sorted(rows)))}"
        )
    count = rows.pop()
    numbers = tf.data.Dataset.range(count)
    if shuffle:
        numbers = numbers.shuffle(max(count, 1))
    return numbers.batch(batch_size or DEFAULT_BATCH_SIZE).map(
        lambda batch: tf.nest.map_structure(lambda part: tf.gather(part, batch), data)
    )


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
    require(
        tf.equal(tf.size(have), tf.size(wanted)),
        f"`x` and `{name}` must have the same number of rows. Received:",
        tf.size(wanted),
        tf.size(have),
    )
    wrong = tf.where(have != wanted)[:1, 0]
    require(
        tf.equal(tf.size(wrong), 0),
        f"`{name}` must have a value for each word of a row. Received: row, words, values:",
        wrong,
        tf.gather(wanted, wrong),
        tf.gather(have, wrong),
    )


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
