import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.training.step import head_metrics, head_sums
from keras_bert2d.training.strategies import distribute
from tests.training.small import CLASSES, dataset, make_step


def train(step, steps, batch_size=8):
    """Trains; returns the sums of every step and the weights at the end."""
    iterator = iter(distribute(step.strategy, dataset(batch_size), batch_size))
    sums = [step.train(iterator, tf.constant(1))[0] for _ in range(steps)]
    return tf.nest.map_structure(float, sums), [v.numpy() for v in step.model.trainable_variables]


def one_batch(batch_size=8):
    return tf.nest.map_structure(lambda x: x.numpy(), next(iter(dataset(batch_size))))


def softmax_losses(logits, labels):
    logits = logits.astype(np.float64)
    logits = logits - logits.max(-1, keepdims=True)
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log, labels[..., None], -1)[..., 0]


def test_sums_are_weighted_cross_entropy_right_answers_and_weights():
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 4, CLASSES)).astype("float32")
    labels, weights = random.integers(0, CLASSES, (3, 4)), random.random((3, 4)).astype("float32")
    sums = head_sums({"a": logits}, {"a": labels}, {"a": weights})["a"]
    assert float(sums["loss"]) == pytest.approx((softmax_losses(logits, labels) * weights).sum(), rel=1e-5)
    assert float(sums["right"]) == pytest.approx(((logits.argmax(-1) == labels) * weights).sum(), rel=1e-5)
    assert float(sums["weight"]) == pytest.approx(weights.sum(), rel=1e-5)


def test_metrics_are_means_named_by_their_head_and_the_loss_is_their_sum():
    sums = {"a": dict(loss=6.0, right=1.0, weight=4.0), "b": dict(loss=1.0, right=2.0, weight=2.0)}
    assert head_metrics(sums) == dict(a_loss=1.5, a_accuracy=0.25, b_loss=0.5, b_accuracy=1.0, loss=2.0)
    assert head_metrics({"": sums["a"]}) == dict(loss=1.5, accuracy=0.25)
    assert head_metrics({"": dict(loss=0.0, right=0.0, weight=0.0)}) == dict(loss=0.0, accuracy=0.0)


def caught_gradients(monkeypatch, clip_norm):
    """The gradients of one batch as the optimizer gets them, and the step's sums."""
    step, caught = make_step(clip_norm=clip_norm), []
    monkeypatch.setattr(
        type(step.optimizer), "apply", lambda _, gradients, variables: caught.extend(gradients)
    )
    batch = tf.nest.map_structure(tf.constant, one_batch())
    sums, _ = step.strategy.run(step._replica_step, args=batch)
    return [gradient.numpy() for gradient in caught], tf.nest.map_structure(float, sums)


def test_the_gradient_is_that_of_the_loss_over_the_sum_of_weights_and_its_norm_is_given(monkeypatch):
    features, labels, weights = one_batch()
    model = make_step().model
    logits = model({name: features[name] for name in model.input}).numpy()
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    error = shifted / shifted.sum(-1, keepdims=True) - np.eye(CLASSES)[labels]
    of_bias = (error * weights[..., None]).sum((0, 1)) / weights.sum()

    gradients, sums = caught_gradients(monkeypatch, None)
    np.testing.assert_allclose(gradients[-1], of_bias, rtol=1e-4, atol=1e-7)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    assert sums["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    assert sums[""]["weight"] == pytest.approx(weights.sum())
    assert sums["real"] == features["padding_mask"].sum()
    assert sums["slots"] == features["padding_mask"].size


def test_accumulation_changes_neither_losses_nor_weights():
    expected_sums, expected = train(make_step(), 6)
    for accumulation in (2, 4):
        sums, weights = train(make_step(accumulation=accumulation), 6)
        for got, wanted in zip(weights, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
        for got, wanted in zip(sums, expected_sums, strict=True):
            for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
                assert a == pytest.approx(b, rel=1e-5)


def test_gradients_are_clipped_by_their_norm_over_all_variables(monkeypatch):
    free, sums = caught_gradients(monkeypatch, None)
    clipped, clipped_sums = caught_gradients(monkeypatch, 0.01)
    assert clipped_sums["gradient_norm"] == sums["gradient_norm"] > 0.01
    for a, b in zip(free, clipped, strict=True):
        np.testing.assert_allclose(a * 0.01 / sums["gradient_norm"], b, rtol=1e-5, atol=1e-9)
    for a, b in zip(free, caught_gradients(monkeypatch, 100.0)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_several_steps_a_call_are_the_same_steps():
    one, several = make_step(dropout=0.3), make_step(dropout=0.3)
    sums, weights = train(one, 5)
    iterator = iter(distribute(several.strategy, dataset(8), 8))
    total, place = several.train(iterator, tf.constant(5))
    assert place.numpy().tolist() == [0, 0, 39]
    for got, wanted in zip(several.model.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)
    assert float(total[""]["loss"]) == pytest.approx(sum(s[""]["loss"] for s in sums), rel=1e-5)


def test_evaluation_leaves_dropout_and_weights_alone():
    step = make_step(dropout=0.9)
    before = [v.numpy() for v in step.model.variables]
    batch = next(iter(distribute(step.strategy, dataset(8), 8)))
    first, second = step.evaluate(batch), step.evaluate(batch)
    features, labels, weights = one_batch()
    logits = step.model({name: features[name] for name in step.model.input}).numpy()
    assert float(first[""]["loss"]) == pytest.approx(
        (softmax_losses(logits, labels) * weights).sum(), rel=1e-5
    )
    assert float(first[""]["loss"]) == float(second[""]["loss"])
    for variable, value in zip(step.model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_batch_without_weight_gives_loss_0_and_numbers():
    step = make_step()
    features, labels, weights = tf.nest.map_structure(tf.constant, one_batch())
    batches = tf.data.Dataset.from_tensors((features, labels, tf.zeros_like(weights))).repeat()
    sums, _ = step.train(iter(step.strategy.experimental_distribute_dataset(batches)), tf.constant(2))
    assert float(sums[""]["loss"]) == 0 and float(sums["gradient_norm"]) == 0
    assert all(np.isfinite(v.numpy()).all() for v in step.model.trainable_variables)


def test_mixed_bfloat16_learns_as_float32_does_with_float32_weights():
    sums, weights = train(make_step(dtype="mixed_bfloat16", learning_rate=0.05), 10)
    expected, _ = train(make_step(learning_rate=0.05), 10)
    assert all(weight.dtype == np.float32 for weight in weights)
    for got, wanted in zip(sums, expected, strict=True):
        assert got[""]["loss"] == pytest.approx(wanted[""]["loss"], rel=0.02)
