"""From what `fit`, `evaluate` and `predict` are given to the batches that Keras reads; in TensorFlow."""

import math
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.text.inputs import DEFAULT_BATCH_SIZE


class StepClock(keras.callbacks.Callback):
    """Tells datasets where training stands when they are started, also after it was interrupted.

    What an epoch draws, the order of rows and masks, hangs on the epoch and the step alone: so a run that
    `keras.callbacks.BackupAndRestore` resumes draws what the uninterrupted one would have drawn.
    """

    def __init__(self) -> None:
        super().__init__()
        # The epoch, and the batches that the model has learned from so far.
        with tf.device("cpu"):
            self._place = tf.Variable([0, 0], dtype=tf.int64, trainable=False)

    def on_epoch_begin(self, epoch: int, logs=None) -> None:
        optimizer = self.model.optimizer
        updates = int(keras.ops.convert_to_numpy(optimizer.iterations))
        self._place.assign([epoch, updates * (optimizer.gradient_accumulation_steps or 1)])

    def start(self) -> tf.data.Dataset:
        """A dataset of one `(epoch, step)`, int64 scalars, read when a pass over it starts."""
        return tf.data.Dataset.from_tensors(0).map(lambda _: tuple(tf.unstack(self._place)))

    def number(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Puts its step before each batch: `(step, (parts of the batch))`."""
        steps = self.start().flat_map(lambda _, step: tf.data.Dataset.counter(step, dtype=tf.int64))
        return tf.data.Dataset.zip(steps, batches)


def is_dataset(x) -> bool:
    """Tells whether `x` is a `tf.data.Dataset`."""
    return isinstance(x, tf.data.Dataset)


def is_in_memory(x) -> bool:
    """Tells whether `x` is lists, tensors or arrays, or a structure of them: no generator, no `PyDataset`."""
    return isinstance(x, (str, list, tuple, dict, tf.RaggedTensor)) or hasattr(x, "__array__")


def holds_features(x) -> bool:
    """Tells whether `x`, or each batch of it, is a dict: ready for the model."""
    return isinstance(_first_part(x), dict)


def check_dataset_arguments(*arguments) -> None:
    """Refuses what a dataset brings itself.

    Raises:
        InputError: One of the arguments is given.
    """
    if any(argument is not None for argument in arguments):
        raise InputError(
            "A dataset brings its labels, weights and batches itself: leave out `y`, `sample_weight`, "
            "`batch_size` and `validation_split`, or pass lists instead."
        )


def as_rows(parts: tuple) -> tuple:
    """Makes tensors of what lies in memory.

    Args:
        parts: tuple of inputs, labels and weights `[row, …]`, or structures of them.

    Raises:
        InputError: The parts have different numbers of rows, or none.
    """

    def convert(part):
        # A list is a tensor here; `tf.nest` would take it for a structure.
        if isinstance(part, tuple):
            return tuple(map(convert, part))
        if isinstance(part, dict):
            return {name: convert(value) for name, value in part.items()}
        return part if isinstance(part, tf.RaggedTensor) else tf.convert_to_tensor(part)

    rows = convert(parts)
    counts = sorted({int(tf.shape(part)[0]) for part in tf.nest.flatten(rows)})
    if len(counts) > 1:
        raise InputError(
            "The inputs, labels and weights must have the same number of rows. "
            f"Received: {', '.join(map(str, counts))}"
        )
    if counts == [0]:
        raise InputError("`x` must have one row at least. Received: none")
    return rows


def split_rows(rows: tuple, share: float) -> tuple[tuple, tuple]:
    """Cuts the last rows off, as Keras does for `validation_split`.

    Args:
        rows: See `as_rows`.
        share: float. Share of the rows to cut off.

    Returns:
        The first rows and the last.

    Raises:
        InputError: The share does not lie in (0, 1), or one of the two would have no rows.

    Example:

    >>> first, last = split_rows(as_rows((["a", "b", "c"],)), 0.3)
    >>> first[0].numpy().tolist(), last[0].numpy().tolist()
    ([b'a', b'b'], [b'c'])
    """
    count = _count(rows)
    at = math.floor(count * (1 - share)) if 0 < share < 1 else 0
    if not 0 < at < count:
        raise InputError(
            "`validation_split` must lie between 0 and 1 and leave rows to train on and to validate with. "
            f"Received: validation_split={share!r} for {count} rows"
        )
    first, last = (tf.nest.map_structure(lambda part, s=s: part[s], rows) for s in (np.s_[:at], np.s_[at:]))
    return first, last


def gather_batches(
    rows: tuple,
    batch_size: int | None,
    clock: StepClock,
    seed: int | None = None,
    steps_per_epoch: int | None = None,
) -> tf.data.Dataset:
    """Makes batches of what lies in memory: rows are gathered by their numbers, a batch at a time.

    Args:
        rows: See `as_rows`.
        batch_size: int or `None` for 32.
        clock: `StepClock`.
        seed: int, for another order in each pass over the rows, or `None` to keep theirs.
        steps_per_epoch: int, for an endless dataset that goes on where the epoch before ended, or `None` for
            a pass each epoch.

    Returns:
        Dataset of tuples.
    """
    count, size = _count(rows), batch_size or DEFAULT_BATCH_SIZE
    batches_per_pass = math.ceil(count / size)

    def one_pass(number: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.range(count, dtype=tf.int64)
        if seed is not None:
            numbers = tf.random.experimental.stateless_shuffle(numbers, tf.stack([seed, number]))
        return tf.data.Dataset.from_tensor_slices(numbers).batch(size)

    def from_epoch(epoch: tf.Tensor, _) -> tf.data.Dataset:
        if steps_per_epoch is None:
            return one_pass(epoch)
        first = epoch * steps_per_epoch
        passes = tf.data.Dataset.range(first // batches_per_pass, np.iinfo(np.int64).max)
        return passes.flat_map(one_pass).skip(first % batches_per_pass)

    length = batches_per_pass if steps_per_epoch is None else tf.data.INFINITE_CARDINALITY
    numbers = clock.start().flat_map(from_epoch).apply(tf.data.experimental.assert_cardinality(length))
    return numbers.map(
        lambda batch: tf.nest.map_structure(lambda part: tf.gather(part, batch), rows), tf.data.AUTOTUNE
    )


def map_batches(batches: tf.data.Dataset, make: Callable, clock: StepClock) -> tf.data.Dataset:
    """Calls `make(step, x, y, sample_weight)`, as far as there are those, on each batch."""

    # Autograph takes seconds to rewrite the tokenizer, which has nothing for it to do.
    @tf.autograph.experimental.do_not_convert
    def call(step, batch):
        return make(step, *(batch if isinstance(batch, tuple) else (batch,)))

    made = clock.number(batches).map(call, tf.data.AUTOTUNE)
    # Numbering hides how many there are.
    return made.apply(tf.data.experimental.assert_cardinality(batches.cardinality())).prefetch(
        tf.data.AUTOTUNE
    )


def keep_inputs(batches: tf.data.Dataset, names: Iterable[str]) -> tf.data.Dataset:
    """Leaves out features that the model does not take, such as the `place` of the pretraining loop.

    Args:
        batches: dataset of dicts, or of tuples that begin with one.
        names: The model's inputs.
    """
    names = set(names)
    have = _first_part(batches)
    if not isinstance(have, dict) or have.keys() <= names:
        return batches

    def keep(x, *others):
        return {name: value for name, value in x.items() if name in names}, *others

    return batches.map(keep)


def weigh_classes(batches: tf.data.Dataset, weights: Sequence[float]) -> tf.data.Dataset:
    """Multiplies the weights of labels by those of their classes.

    Args:
        batches: dataset of features, int labels `[row, …]` and, where there are any, weights of that shape
            or `[row]`.
        weights: The weight of each label id.
    """

    def weigh(x, y, sample_weight=None):
        by_class = tf.gather(tf.constant(weights, tf.float32), y)
        if sample_weight is None:
            return x, y, by_class
        sample_weight = tf.cast(sample_weight, tf.float32)
        for _ in range(y.shape.rank - sample_weight.shape.rank):
            sample_weight = sample_weight[..., None]
        return x, y, by_class * sample_weight

    return batches.map(weigh)


def _first_part(x):
    x = x.element_spec if is_dataset(x) else x
    return x[0] if isinstance(x, tuple) else x


def _count(rows: tuple) -> int:
    return int(tf.shape(tf.nest.flatten(rows)[0])[0])
