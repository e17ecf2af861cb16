import keras
import numpy as np
import pytest

from keras_bert2d.layers import MaskedLMHead
from keras_bert2d.layers.masked_lm_head import gather_columns
from tests import reference

VOCABULARY, WIDTH = 11, 6


@pytest.fixture
def embedding():
    layer = keras.layers.Embedding(VOCABULARY, WIDTH)
    layer.build()
    return layer


def make_head(embedding, **kwargs):
    head = MaskedLMHead(embedding, name="head", **kwargs)
    head.build((None, None, WIDTH), (None, None))
    rng = np.random.default_rng(0)
    head.set_weights([rng.normal(size=weight.shape) for weight in head.get_weights()])
    return head


HIDDEN = np.random.default_rng(1).normal(size=(3, 5, WIDTH)).astype("float32")
POSITIONS = np.array([[0, 4], [3, 3], [2, 0]])


def test_columns_are_gathered_row_by_row():
    got = np.array(gather_columns(HIDDEN, POSITIONS))
    assert np.array_equal(got, np.take_along_axis(HIDDEN, POSITIONS[..., None], 1).reshape(6, WIDTH))


def test_gathering_first_equals_projecting_every_column_and_gathering_then(embedding):
    head = make_head(embedding)
    (kernel, bias), (gamma, beta) = head.transform.get_weights(), head.norm.get_weights()
    every = reference.gelu(HIDDEN.astype("float64") @ kernel + bias)
    every = reference.layer_norm(every, gamma, beta, 1e-12)
    every = every @ embedding.embeddings.numpy().T + head.output_bias.numpy()
    expected = np.take_along_axis(every, POSITIONS[..., None], 1)
    got = np.array(head(HIDDEN, POSITIONS))
    assert got.shape == (3, 2, VOCABULARY)
    assert np.abs(got - expected).max() < 1e-4


def test_the_output_weights_are_the_token_embedding(embedding):
    head = make_head(embedding)
    before = np.array(head(HIDDEN, POSITIONS))
    embedding.embeddings.assign(embedding.embeddings * 2)
    bias = head.output_bias.numpy()
    assert np.allclose(np.array(head(HIDDEN, POSITIONS)) - bias, 2 * (before - bias), atol=1e-4)
    assert sum(w.shape == (VOCABULARY, WIDTH) for w in head.weights) <= 1


def test_the_number_of_places_may_be_unknown(embedding):
    head = make_head(embedding)
    hidden = keras.Input((None, WIDTH))
    positions = keras.Input((None,), dtype="int32")
    logits = head(hidden, positions)
    assert logits.shape == (None, None, VOCABULARY)
    model = keras.Model([hidden, positions], logits)
    got = model.predict([HIDDEN, POSITIONS], verbose=0)
    assert np.allclose(got, np.array(head(HIDDEN, POSITIONS)), atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16"])
def test_low_precision_stays_finite(embedding, dtype):
    head = make_head(embedding, dtype=dtype)
    logits = head(keras.ops.cast(HIDDEN, "bfloat16"), POSITIONS)
    assert keras.backend.standardize_dtype(logits.dtype) == "bfloat16"
    assert np.isfinite(np.array(keras.ops.cast(logits, "float32"))).all()
