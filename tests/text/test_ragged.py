import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.text.ragged import keep_items, keep_rows, repeat, row_and_place, rows_of

lengths = st.lists(st.integers(0, 5), max_size=8)


@settings(deadline=None)
@given(st.lists(lengths, max_size=6), st.randoms(use_true_random=False))
def test_what_is_kept_is_what_tensorflow_keeps(texts, random):
    """Against the operations of TensorFlow that take rows × longest row."""
    words = [length for text in texts for length in text]
    ragged = tf.RaggedTensor.from_nested_row_lengths(
        tf.range(sum(words)),
        [tf.constant([len(text) for text in texts], tf.int64), tf.constant(words, tf.int64)],
    )
    rows = tf.constant([random.random() < 0.5 for _ in texts], tf.bool)
    assert keep_rows(ragged, rows).to_list() == tf.ragged.boolean_mask(ragged, rows).to_list()
    items = tf.constant([random.random() < 0.5 for _ in words], tf.bool)
    expected = tf.ragged.boolean_mask(ragged, ragged.with_values(items))
    assert keep_items(ragged, items).to_list() == expected.to_list()
    assert rows_of(ragged).numpy().tolist() == ragged.value_rowids().numpy().tolist()


@given(lengths)
def test_rows_and_places_are_those_of_numpy(counts):
    row, place = row_and_place(tf.constant(counts, tf.int64))
    assert row.numpy().tolist() == np.repeat(np.arange(len(counts)), counts).tolist()
    assert place.numpy().tolist() == [i for count in counts for i in range(count)]
    values = np.arange(len(counts)) * 7
    assert (
        repeat(tf.constant(values), tf.constant(counts)).numpy().tolist()
        == np.repeat(values, counts).tolist()
    )
