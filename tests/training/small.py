"""A small model and endless batches for it: what the loop and its step are tried on."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert2d.data.windows import Place
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer
from keras_bert2d.training.step import HeadStep

ROWS, COLUMNS, PIECES, CLASSES = 40, 4, 11, 5


def rows(seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of pieces with labels and weights; some weights are 0, and rows weigh differently."""
    random = np.random.default_rng(seed)
    shape = (ROWS, COLUMNS)
    return {
        "token_ids": random.integers(1, PIECES, shape).astype("int32"),
        "padding_mask": (np.arange(COLUMNS) < random.integers(1, COLUMNS + 1, (ROWS, 1))).astype("int32"),
        "labels": random.integers(0, CLASSES, shape).astype("int32"),
        "weights": (random.random(shape) < random.random((ROWS, 1))).astype("float32"),
    }


def dataset(batch_size: int, place: Place | None = None) -> tf.data.Dataset:
    """Endless batches behind a place; the rows come again and again in their order."""
    data = rows()
    first = (place or Place()).row + 1

    def batch(numbers):
        taken = {name: tf.gather(value, numbers % ROWS) for name, value in data.items()}
        taken = {name: tf.ensure_shape(value, [batch_size, COLUMNS]) for name, value in taken.items()}
        labels, weights = taken.pop("labels"), taken.pop("weights")
        last = tf.stack([0, 0, tf.cast(numbers[-1], tf.int32)])
        return {**taken, "place": tf.tile(last[None], [batch_size, 1])}, labels, weights

    return tf.data.Dataset.range(first, 1 << 40).batch(batch_size, drop_remainder=True).map(batch)


def make_step(
    strategy=None, dropout=0.0, steps=20, learning_rate=0.01, accumulation=1, clip_norm=1.0, dtype=None,
    decay="linear", decay_steps=None,
) -> HeadStep:  # fmt: skip
    """A step over an embedding, dropout and a dense layer, always of the same weights."""
    strategy = strategy or tf.distribute.OneDeviceStrategy("/cpu:0")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name) for name in ("padding_mask", "token_ids")
        }
        hidden = keras.layers.Embedding(PIECES, 6, dtype=dtype)(inputs["token_ids"])
        hidden = hidden * keras.ops.cast(inputs["padding_mask"], hidden.dtype)[:, :, None]
        hidden = keras.layers.Dropout(dropout, dtype=dtype)(hidden)
        model = keras.Model(inputs, keras.layers.Dense(CLASSES, dtype=dtype)(hidden))
        schedule = WarmupDecay(learning_rate, steps, 2, decay, decay_steps)
        optimizer = make_optimizer(schedule, model.trainable_variables)
    return HeadStep(strategy, model, optimizer, accumulation, clip_norm)
