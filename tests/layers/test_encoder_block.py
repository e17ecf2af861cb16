import keras
import numpy as np
import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.layers import EncoderBlock, TextAttentionBias
from tests import reference

HEADS, WIDTH, INNER = 2, 8, 24
EPSILON = 1e-12


def make_block(order, dtype=None, **kwargs):
    block = EncoderBlock(HEADS, INNER, norm_order=order, dtype=dtype, **kwargs)
    block.build((None, None, WIDTH), (None, 1, None, None))
    # Weights of a size that shows every product, biases and norms that are not 0 and 1.
    rng = np.random.default_rng(0)
    block.set_weights([rng.normal(0.2, 0.5, weight.shape) for weight in block.get_weights()])
    return block


def weights_of(block):
    norms = ("attention_norm", "output_norm")
    products = ("query", "key", "value", "attention_output", "intermediate", "output_dense")
    return {
        **{name: [w.astype("float64") for w in getattr(block, name).get_weights()] for name in products},
        **{name: [w.astype("float64") for w in getattr(block, name).get_weights()] for name in norms},
    }


def run(block, hidden, numbers):
    return np.array(block(hidden, TextAttentionBias(dtype=block.dtype_policy)(np.array(numbers))))


@pytest.mark.parametrize("order", ["post", "pre"])
def test_a_block_computes_attention_and_feed_forward_as_published(order):
    block = make_block(order)
    hidden = np.random.default_rng(1).normal(size=(2, 7, WIDTH)).astype("float32")
    numbers = [[1, 1, 1, 2, 2, 3, 0], [1, 1, 1, 1, 1, 1, 1]]
    got = run(block, hidden, numbers)
    for row in range(2):
        expected = reference.encoder_block(
            hidden[row].astype("float64"), numbers[row], weights_of(block), HEADS, order, EPSILON
        )
        assert np.abs(got[row] - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("order", ["post", "pre"])
def test_a_packed_text_comes_out_as_if_it_stood_alone(order):
    block = make_block(order)
    rng = np.random.default_rng(2)
    texts = [rng.normal(size=(length, WIDTH)).astype("float32") for length in (4, 1, 3)]
    padding = rng.normal(size=(2, WIDTH)).astype("float32")
    packed = run(block, np.concatenate([*texts, padding])[None], [[1, 1, 1, 1, 2, 3, 3, 3, 0, 0]])[0]
    start = 0
    for text in texts:
        end = start + len(text)
        alone = run(block, text[None], [[1] * len(text)])[0]
        padded = run(block, np.concatenate([text, padding])[None], [[1] * len(text) + [0, 0]])[0]
        assert np.abs(packed[start:end] - alone).max() < 1e-5
        assert np.abs(padded[: len(text)] - alone).max() < 1e-5
        start = end


def test_the_attention_bias_is_0_inside_a_text_only():
    bias = np.array(TextAttentionBias()(np.array([[1, 1, 2, 0]])))
    assert bias.shape == (1, 1, 4, 4)
    same = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert ((bias[0, 0] == 0) == np.array(same, bool)).all()
    assert (np.exp(bias[bias < 0]) == 0).all()


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float16"])
def test_low_precision_stays_finite_and_near(order, dtype):
    hidden = np.random.default_rng(3).normal(size=(1, 6, WIDTH)).astype("float32")
    numbers = [[1, 1, 1, 2, 0, 0]]
    block = make_block(order, dtype)
    result = block(
        keras.ops.cast(hidden, block.compute_dtype), TextAttentionBias(dtype=dtype)(np.array(numbers))
    )
    assert keras.backend.standardize_dtype(result.dtype) == block.compute_dtype
    low = np.array(keras.ops.cast(result, "float32"))
    exact = run(make_block(order), hidden, numbers)
    assert np.isfinite(low).all()
    assert np.abs(low - exact).max() < 0.1 * np.abs(exact).max()


def test_dropout_acts_in_training_only():
    block = make_block("post", dropout=0.5)
    hidden = np.random.default_rng(4).normal(size=(1, 6, WIDTH)).astype("float32")
    bias = TextAttentionBias()(np.ones((1, 6), "int32"))
    still = np.array(block(hidden, bias))
    assert np.array_equal(still, np.array(block(hidden, bias, training=False)))
    assert not np.array_equal(still, np.array(block(hidden, bias, training=True)))


def test_weights_start_as_in_bert():
    block = EncoderBlock(4, 512)
    block.build((None, None, 128), (None, 1, None, None))
    for name in ("query", "key", "value", "attention_output", "intermediate", "output_dense"):
        kernel, bias = getattr(block, name).get_weights()
        # Normal with deviation 0.02, cut at two deviations.
        assert abs(kernel.std() / (0.02 * 0.8796) - 1) < 0.03
        assert np.abs(kernel).max() <= 0.04
        assert not bias.any()


def test_a_block_makes_itself_again_from_its_configuration():
    block = EncoderBlock(2, 16, 0.1, "relu", 1e-6, "pre", dtype="mixed_bfloat16", name="block")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(block))
    assert again.get_config() == block.get_config()
    bias = TextAttentionBias(name="bias")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(bias))
    assert again.get_config() == bias.get_config()


def test_impossible_arguments_are_refused_by_name():
    with pytest.raises(InputError, match="norm_order='mid'"):
        EncoderBlock(2, 16, norm_order="mid")
    with pytest.raises(ValueError, match="num_heads=3, hidden_dim=8"):
        EncoderBlock(3, 16)(np.zeros((1, 2, 8), "float32"), np.zeros((1, 1, 2, 2), "float32"))
