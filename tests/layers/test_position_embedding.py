import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.layers import LearnedPositionEmbedding, TwoDPositionEmbedding

WORDS = np.array([[0, 1, 1, 1, 2, 0], [0, 5, 5, 6, 7, 0]])
PLACES = np.array([[0, 0, 2, 1, 0, 0], [0, 0, 1, 0, 0, 0]])


def two_d(**kwargs):
    return TwoDPositionEmbedding(max_words=8, max_intermediate_subwords=3, hidden_dim=4, **kwargs)


def test_an_embedding_is_the_sum_of_its_two_rows():
    layer = two_d()
    result = np.array(layer(WORDS, PLACES))
    words, places = layer.word_table.numpy(), layer.subword_table.numpy()
    assert (words.shape, places.shape) == ((8, 4), (5, 4))
    assert np.array_equal(result, words[WORDS] + places[PLACES])
    assert layer.compute_output_shape((2, 6), (2, 6)) == (2, 6, 4)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
def test_ids_may_have_any_shape(shape):
    ids = np.zeros(shape, "int32")
    assert tuple(two_d()(ids, ids).shape) == (*shape, 4)


def test_both_tables_start_on_one_scale():
    layer = TwoDPositionEmbedding(max_words=512, max_intermediate_subwords=510, hidden_dim=256)
    layer.build((None, None), (None, None))
    # Normal with deviation 0.02 cut at two deviations, which leaves 0.8796 of the deviation.
    for table in (layer.word_table.numpy(), layer.subword_table.numpy()):
        assert abs(table.std() / (0.02 * 0.8796) - 1) < 0.01
        assert np.abs(table).max() <= 0.04
    assert not np.array_equal(layer.word_table.numpy(), layer.subword_table.numpy())


@pytest.mark.parametrize(
    ("words", "places", "message"),
    [
        ([[0, 8]], [[0, 0]], r"`word_position_ids`.*\[0, 8\).*Received: 8"),
        ([[0, -1]], [[0, 0]], r"`word_position_ids`.*\[0, 8\).*Received: -1"),
        ([[0, 1]], [[0, 5]], r"`subword_position_ids`.*\[0, 5\).*Received: 5"),
    ],
)
def test_an_id_out_of_its_table_is_named_with_the_size_of_the_table(words, places, message):
    layer = two_d()
    with pytest.raises(ValueError, match=message):
        layer(np.array(words), np.array(places))
    with pytest.raises(InputError):
        layer(tf.constant(words), tf.constant(places))


def test_a_graph_embeds_as_eager_mode_does():
    layer = two_d()
    expected = np.array(layer(WORDS, PLACES))
    graph = tf.function(lambda words, places: layer(words, places))
    assert np.array_equal(graph(tf.constant(WORDS), tf.constant(PLACES)), expected)


@pytest.mark.parametrize("name", ["max_words", "max_intermediate_subwords", "hidden_dim"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "8"])
def test_an_impossible_size_is_refused_by_name(name, value):
    sizes = {"max_words": 8, "max_intermediate_subwords": 3, "hidden_dim": 4, name: value}
    with pytest.raises(InputError, match=f"{name}={value!r}"):
        TwoDPositionEmbedding(**sizes)


@pytest.mark.parametrize("name", ["max_positions", "hidden_dim"])
def test_an_impossible_size_of_learned_positions_is_refused_by_name(name):
    with pytest.raises(InputError, match=f"{name}=0"):
        LearnedPositionEmbedding(**{"max_positions": 8, "hidden_dim": 4, name: 0})


@pytest.mark.parametrize(
    "layer",
    [
        TwoDPositionEmbedding(8, 2, 4, name="a"),
        TwoDPositionEmbedding(8, 2, 4, initializer="zeros", dtype="mixed_bfloat16"),
        LearnedPositionEmbedding(8, 4, name="b"),
    ],
)
def test_a_layer_makes_itself_again_from_its_configuration(layer):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float16"])
def test_low_precision_gives_its_own_dtype(dtype):
    layer = two_d(dtype=dtype)
    result = layer(WORDS, PLACES)
    assert keras.backend.standardize_dtype(result.dtype) == layer.compute_dtype


def test_learned_positions_start_again_with_every_packed_text():
    layer = LearnedPositionEmbedding(max_positions=5, hidden_dim=3)
    result = np.array(layer(np.array([[1, 1, 1, 2, 2, 3, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0]])))
    table = layer.table.numpy()
    expected = [[0, 1, 2, 0, 1, 0, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0]]
    assert np.array_equal(result, table[np.array(expected)])
    assert layer.compute_output_shape((2, 8)) == (2, 8, 3)


def test_a_text_longer_than_the_learned_table_is_refused():
    layer = LearnedPositionEmbedding(max_positions=3, hidden_dim=2)
    layer(np.array([[1, 1, 1, 2, 2, 2, 0]]))
    with pytest.raises(ValueError, match=r"\[0, 3\).*Received: 3"):
        layer(np.array([[1, 1, 1, 1]]))
