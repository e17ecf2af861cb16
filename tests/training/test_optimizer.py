import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.choices import DECAYS
from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer


def rate_of(step, peak, steps, warmup, decay):
    """The schedule as its formula says it."""
    if step < warmup:
        return peak * (step + 1) / warmup
    share = min(1.0, (step - warmup) / max(steps - warmup, 1))
    fall = min(1.0, max(0.0, (steps - step) / max(1, steps // 10)))
    shapes = {
        "linear": 1 - share,
        "cosine": (1 + math.cos(math.pi * share)) / 2,
        "constant": 1.0,
        "wsd": fall,
    }
    return peak * shapes[decay]


@pytest.mark.parametrize(
    "decay, steps, warmup",
    [
        *((d, *s) for d in DECAYS for s in [(10, 3), (7, 0), (1, 0), (1000, 100)]),
        *((d, 5, 5) for d in ("linear", "cosine", "constant")),
    ],
)
def test_the_rate_follows_its_formula(decay, steps, warmup):
    schedule = WarmupDecay(2e-3, steps, warmup, decay)
    for step in [*range(min(steps, 12)), steps - steps // 20, steps, steps + 5]:
        expected = rate_of(step, 2e-3, steps, warmup, decay)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_the_first_step_moves_and_the_peak_is_reached():
    rates = [float(WarmupDecay(1.0, 10, 4)(step)) for step in range(11)]
    assert rates[0] > 0 and max(rates) == 1.0 and rates[3] == rates[4] == 1.0 and rates[10] == 0


def test_what_wsd_trains_before_its_decay_does_not_hang_on_the_number_of_steps():
    short, long = WarmupDecay(3e-4, 50, 7, "wsd", 10), WarmupDecay(3e-4, 90, 7, "wsd", 30)
    # The step at which the decay begins is still at the peak.
    assert [float(short(step)) for step in range(41)] == [float(long(step)) for step in range(41)]
    assert float(short(41)) < float(short(40)) == float(long(60))


def test_a_decay_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="at most 10. Received: warmup_steps=8, decay_steps=3, steps=10"):
        WarmupDecay(1.0, 10, 8, "wsd", 3)
    with pytest.raises(InputError, match="for `--decay wsd` only: leave it out. Received: decay='cosine'"):
        WarmupDecay(1.0, 10, 1, "cosine", 3)


def test_an_unknown_decay_is_named():
    with pytest.raises(InputError, match="decay='square'"):
        WarmupDecay(1.0, 10, 1, "square")


@pytest.mark.parametrize("decay, decay_steps", [("cosine", None), ("wsd", 5)])
def test_a_schedule_comes_back_from_its_configuration(decay, decay_steps):
    schedule = WarmupDecay(0.5, 10, 2, decay, decay_steps)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert [float(again(i)) for i in range(10)] == [float(schedule(i)) for i in range(10)]


def test_steps_are_those_of_loshchilov_and_hutter_without_decay_of_vectors():
    random = np.random.default_rng(0)
    start = [random.normal(size=shape).astype("float32") for shape in ((3, 4), (4,), ())]
    variables = [keras.Variable(value, name=f"v{i}") for i, value in enumerate(start)]
    schedule = WarmupDecay(0.1, 8, 2, "linear")
    decay, beta_1, beta_2, epsilon = 0.05, 0.9, 0.98, 1e-6
    optimizer = make_optimizer(schedule, variables, decay, beta_2, epsilon)
    assert optimizer.built

    theta = [value.astype(np.float64) for value in start]
    first = [np.zeros_like(value) for value in theta]
    second = [np.zeros_like(value) for value in theta]
    for step in range(5):
        gradients = [random.normal(size=value.shape).astype("float32") for value in theta]
        optimizer.apply([tf.constant(gradient) for gradient in gradients], variables)
        rate = rate_of(step, 0.1, 8, 2, "linear")
        for i, gradient in enumerate(gradients):
            # Algorithm 2 of the paper with its schedule multiplier and step size in one rate.
            first[i] = beta_1 * first[i] + (1 - beta_1) * gradient
            second[i] = beta_2 * second[i] + (1 - beta_2) * gradient.astype(np.float64) ** 2
            mean = first[i] / (1 - beta_1 ** (step + 1))
            spread = second[i] / (1 - beta_2 ** (step + 1))
            own = decay if theta[i].ndim > 1 else 0.0
            theta[i] = theta[i] - rate * (mean / (np.sqrt(spread) + epsilon) + own * theta[i])
        for variable, expected in zip(variables, theta, strict=True):
            np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5, atol=2e-6)


def test_biases_and_norms_of_a_model_are_not_decayed_and_tables_and_kernels_are():
    backbone = Bert2DBackbone(20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = Bert2DMaskedLM(backbone, next_sentence=True)
    variables = model.trainable_variables
    for variable in variables:
        variable.assign(keras.ops.ones_like(variable))
    optimizer = make_optimizer(WarmupDecay(0.1, 10, 0, "constant"), variables, weight_decay=0.5)
    optimizer.apply([tf.zeros_like(variable.value) for variable in variables], variables)
    for variable in variables:
        is_decayed = float(keras.ops.max(variable)) < 1
        assert is_decayed != variable.path.endswith(("bias", "gamma", "beta")), variable.path
