"""From lists and datasets to batches: their order, their place in training, their weights."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.batches import (
    StepClock,
    as_rows,
    gather_batches,
    keep_inputs,
    map_batches,
    split_rows,
    weigh_classes,
)
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.models.small import LABELS, TAGS, TEXTS, WORDS


def clock_at(epoch=0, updates=0, accumulation=None):
    clock = StepClock()
    optimizer = SimpleNamespace(iterations=np.int64(updates), gradient_accumulation_steps=accumulation)
    clock.set_model(SimpleNamespace(optimizer=optimizer))
    clock.on_epoch_begin(epoch)
    return clock


def rows_of(count):
    return as_rows((list(range(count)),))


def batches_of(*arguments, take=None, **kwargs):
    batches = gather_batches(*arguments, **kwargs)
    return [x.numpy().tolist() for (x,) in batches.take(-1 if take is None else take)]


@pytest.mark.parametrize("x", [WORDS, TEXTS])
def test_batches_hold_what_a_call_gives(tiny_vocabulary, x):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, max_words=24)
    preprocessor = Bert2DTokenClassifierPreprocessor(
        tokenizer, labels=LABELS, sequence_length=12, label_pieces="all"
    )
    clock = StepClock()
    rows = gather_batches(as_rows(preprocessor.in_memory(x, TAGS)), 3, clock)
    batches = list(map_batches(rows, lambda step, *batch: preprocessor.call(*batch), clock))
    assert [len(batch[1]) for batch in batches] == [3, 2]
    joined = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *batches)
    tf.nest.map_structure(np.testing.assert_array_equal, joined, preprocessor(x, TAGS))


def test_an_epoch_has_every_row_once_in_an_order_of_its_own():
    rows, clock = rows_of(20), clock_at(0)
    batches = gather_batches(rows, 8, clock, seed=5)
    orders = []
    for epoch in (0, 1, 2):
        clock.on_epoch_begin(epoch)
        orders.append([x.numpy().tolist() for (x,) in batches])
        assert [len(batch) for batch in orders[-1]] == [8, 8, 4]
        assert sorted(sum(orders[-1], [])) == list(range(20))
    assert len({str(order) for order in orders}) == 3
    # A run that starts at epoch 2 reads what the long one read there.
    assert batches_of(rows, 8, clock_at(2), seed=5) == orders[2]
    assert batches_of(rows, 8, clock_at(2)) == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


def test_parts_of_a_row_stay_together():
    words = tf.ragged.constant([["ev"] * (i + 1) for i in range(20)])
    rows = as_rows((words, list(range(1, 21))))
    for x, y in gather_batches(rows, 7, clock_at(), seed=1):
        assert x.row_lengths().numpy().tolist() == y.numpy().tolist()


def test_steps_per_epoch_go_on_where_the_epoch_before_ended():
    rows = rows_of(5)
    one_run = batches_of(rows, 2, clock_at(0), seed=3, steps_per_epoch=4, take=12)
    assert [len(batch) for batch in one_run] == [2, 2, 1] * 4
    assert sorted(sum(one_run[3:6], [])) == list(range(5))
    resumed = batches_of(rows, 2, clock_at(2), seed=3, steps_per_epoch=4, take=4)
    assert resumed == one_run[8:]


@pytest.mark.parametrize("accumulation", [None, 4])
def test_steps_are_numbered_from_what_the_optimizer_has_done(accumulation):
    clock = clock_at(3, updates=6, accumulation=accumulation)
    batches = tf.data.Dataset.range(3)
    steps = [int(step) for step in map_batches(batches, lambda step, x: step, clock)]
    first = 6 * (accumulation or 1)
    assert steps == [first, first + 1, first + 2]
    assert map_batches(batches, lambda step, x: step, clock).cardinality() == 3


@pytest.mark.parametrize("share", [0.2, 0.25, 0.5, 0.85])
def test_the_last_rows_are_split_off_as_keras_does(share):
    rows = np.arange(10)
    expected = keras.src.trainers.data_adapters.array_slicing.train_validation_split(
        (rows, None, None), share
    )
    first, last = split_rows(as_rows((rows,)), share)
    np.testing.assert_array_equal(first[0], expected[0][0])
    np.testing.assert_array_equal(last[0], expected[1][0])


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, 0.99])
def test_a_split_that_leaves_nothing_is_refused(share):
    with pytest.raises(InputError, match=f"validation_split={share} for 10 rows"):
        split_rows(rows_of(10), share)


def test_rows_must_be_there_and_of_one_number():
    with pytest.raises(InputError, match="same number of rows. Received: 1, 2"):
        as_rows((["a", "b"], [1]))
    with pytest.raises(InputError, match="one row at least"):
        as_rows(([],))


def test_class_weights_multiply_the_weights_of_rows_and_of_columns():
    labels = tf.constant([[0, 1, 2], [2, 2, 0]])
    by_class = np.array([[1.0, 0.5, 3.0], [3.0, 3.0, 1.0]])
    for weights, expected in (
        ((), by_class),
        (([2.0, 0.5],), by_class * [[2.0], [0.5]]),
        (([[1, 0, 1], [0, 1, 1]],), by_class * [[1, 0, 1], [0, 1, 1]]),
    ):
        data = tf.data.Dataset.from_tensors(({"a": labels}, labels, *map(tf.constant, weights)))
        np.testing.assert_allclose(next(iter(weigh_classes(data, [1.0, 0.5, 3.0])))[2], expected)


def test_features_that_the_model_does_not_take_are_left_out():
    data = tf.data.Dataset.from_tensors(({"a": 1, "b": 2, "place": 3}, 4))
    assert keep_inputs(data, ["a", "b", "c"]).element_spec[0].keys() == {"a", "b"}
    assert keep_inputs(data, ["a", "b", "place"]) is data
