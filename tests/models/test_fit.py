"""`fit` as Keras users call it, on raw text."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from tests.models.small import KINDS, LABELS, TAGS, TEXTS, WORDS, make_backbone, make_model, raw_data

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


@pytest.fixture(scope="module")
def models(tiny_vocabulary):
    """A model of each kind that does not learn: `fit` tells its loss."""
    return {
        kind: make_model(kind, tiny_vocabulary, optimizer=keras.optimizers.SGD(0.0), run_eagerly=True)
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def tagger(models):
    return models["tagger"]


def word_losses(model, words, tags):
    """Cross-entropy and label of each word, in float64."""
    features, labels, weights = (tf.nest.map_structure(np.array, x) for x in model.preprocessor(words, tags))
    logits = np.array(model(features), "float64")
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log, labels[..., None], -1)[..., 0]
    return losses[weights > 0], labels[weights > 0]


def fitted(model, *args, **kwargs):
    return model.fit(*args, verbose=0, **kwargs).history


# === Class weights ===


def test_class_weights_count_in_each_word_s_loss(tagger):
    losses, labels = word_losses(tagger, WORDS, TAGS)
    by_class = np.array([1.0, 0.25, 4.0])[labels]
    expected = pytest.approx((losses * by_class).sum() / by_class.sum(), rel=1e-5)
    rows = tf.ragged.constant(WORDS), tf.ragged.constant(TAGS)
    features, ids, weights = tagger.preprocessor(WORDS, TAGS)
    named = {"NOUN": 0.25, "PUNCT": 4.0}
    assert fitted(tagger, WORDS, TAGS, class_weight=named)["loss"] == [expected]
    dataset = tf.data.Dataset.from_tensors(rows)
    assert fitted(tagger, dataset, class_weight=named)["loss"] == [expected]
    by_id = {1: 0.25, 2: 4}
    assert fitted(tagger, features, ids, sample_weight=weights, class_weight=by_id)["loss"] == [expected]


def test_class_weights_multiply_sample_weights(tagger):
    losses, labels = word_losses(tagger, WORDS, TAGS)
    by_row = np.repeat([1, 0, 2, 0.5, 1], [len(row) for row in WORDS])
    total = np.array([1.0, 0.25, 4.0])[labels] * by_row
    got = fitted(
        tagger, WORDS, TAGS, sample_weight=[1, 0, 2, 0.5, 1], class_weight={"NOUN": 0.25, "PUNCT": 4.0}
    )
    assert got["loss"] == [pytest.approx((losses * total).sum() / total.sum(), rel=1e-5)]


def test_class_weights_are_not_those_of_validation(tagger):
    losses, _ = word_losses(tagger, WORDS, TAGS)
    got = fitted(tagger, WORDS, TAGS, validation_data=(WORDS, TAGS), class_weight={"NOUN": 9.0})
    assert got["val_loss"] == [pytest.approx(losses.mean(), rel=1e-5)]


def test_a_class_weight_of_no_label_is_named(models):
    with pytest.raises(InputError, match="Received: 'ADV'"):
        models["tagger"].fit(WORDS, TAGS, class_weight={"ADV": 2.0})
    with pytest.raises(InputError, match="Bert2DMaskedLM has none"):
        models["masked_lm"].fit(TEXTS, class_weight={0: 2.0})


# === Words without a label ===


GAPS = [[None, "PUNCT"], ["DET", None], [None], ["NOUN", "NOUN", None], ["DET", None, "PUNCT"]]


def test_words_without_a_label_do_not_count(tagger):
    known = np.array([tag is not None for row in GAPS for tag in row])
    losses, _ = word_losses(tagger, WORDS, TAGS)
    by_row = np.repeat([1, 2, 3, 4, 5], [len(row) for row in WORDS])[known]
    got = fitted(tagger, WORDS, GAPS, sample_weight=[1, 2, 3, 4, 5], validation_data=(TEXTS, GAPS))
    assert got["loss"] == [pytest.approx((losses[known] * by_row).sum() / by_row.sum(), rel=1e-5)]
    assert got["val_loss"] == [pytest.approx(losses[known].mean(), rel=1e-5)]


def test_gaps_among_labels_and_among_ids_are_the_same(tagger):
    ids = [[tag and LABELS.index(tag) for tag in row] for row in GAPS]
    known = [[float(tag is not None) for tag in row] for row in GAPS]
    expected = tagger.preprocessor(WORDS, TAGS, known)[2]
    for y in (GAPS, ids, np.array([np.array(row, object) for row in GAPS], object)):
        np.testing.assert_array_equal(tagger.preprocessor(WORDS, y)[2], expected)


def test_rows_without_any_label_are_read(tagger):
    features, labels, weights = tagger.preprocessor([["ev", "bir"], ["ev"]], [[None, None], [None]])
    assert labels.shape == weights.shape == features["token_ids"].shape
    assert float(tf.reduce_sum(weights)) == 0


# === Validation ===


@pytest.mark.parametrize("kind", ["tagger", "next_sentence"])
def test_the_last_rows_validate(models, kind):
    model, data = models[kind], raw_data(kind)
    got = fitted(model, **data, validation_split=0.3, batch_size=2)
    assert np.isfinite(got["loss"]).all()

    def last(values):
        return tuple(map(last, values)) if isinstance(values, tuple) else values[3:]

    data = {name: last(value) for name, value in data.items()}
    expected = model.evaluate(**data, batch_size=2, verbose=0, return_dict=True)
    assert {name: got[f"val_{name}"][0] for name in expected} == expected


def test_ready_features_are_split_too(tagger):
    features, labels, weights = (tf.nest.map_structure(np.array, x) for x in tagger.preprocessor(WORDS, TAGS))
    got = fitted(tagger, features, labels, sample_weight=weights, validation_split=0.3)
    assert got["val_loss"][0] == pytest.approx(tagger.evaluate(WORDS[3:], TAGS[3:], verbose=0)[0], rel=1e-5)
    assert got["loss"][0] == pytest.approx(tagger.evaluate(WORDS[:3], TAGS[:3], verbose=0)[0], rel=1e-5)


@pytest.mark.parametrize("kind", ["tagger", "masked_lm"])
def test_a_dataset_cannot_be_split(models, kind):
    with pytest.raises(InputError, match="`validation_split`"):
        models[kind].fit(tf.data.Dataset.from_tensors(tf.constant(TEXTS)), validation_split=0.2)


# === Steps, epochs, callbacks ===


def test_data_in_memory_does_not_run_out(tagger):
    ends, before = [], int(tagger.optimizer.iterations)
    # A single callback, as Keras takes it, beside a list of them.
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(epoch))
    arguments = {"x": WORDS, "y": TAGS, "batch_size": 2, "steps_per_epoch": 4, "verbose": 0}
    history = tagger.fit(**arguments, epochs=4, initial_epoch=1, callbacks=callback)
    assert history.epoch == ends == [1, 2, 3]
    assert int(tagger.optimizer.iterations) == before + 12
    ready = keras.callbacks.CallbackList([callback], add_history=True, model=tagger)
    tagger.fit(**arguments, epochs=1, callbacks=ready)
    assert ends[-1] == 0


def test_verbose_shows_the_number_of_steps(tagger, capsys):
    tagger.fit(WORDS, TAGS, batch_size=2, verbose=2)
    assert "3/3" in capsys.readouterr().out


def test_masks_are_drawn_anew_each_epoch_and_validate_the_same_each_time(models):
    model, seen = models["masked_lm"], []
    data = ["evler kitap bir ev " * 3] * 4

    def note(epoch, logs):
        seen.append((logs["loss"], logs["val_loss"]))

    fitted(
        model,
        data,
        validation_data=(data,),
        epochs=2,
        callbacks=keras.callbacks.LambdaCallback(on_epoch_end=note),
    )
    losses, val_losses = zip(*seen, strict=True)
    again = fitted(model, data)["loss"]
    assert len({*losses, *again}) == 3 and len(set(val_losses)) == 1


# === What is trained ===


@pytest.mark.parametrize("kind", KINDS)
def test_the_pooler_is_trained_where_the_outputs_need_it(models, kind):
    model = models[kind]
    pooler = {id(variable) for variable in model.backbone.pooler.variables}
    trained = {id(variable) for variable in model.trainable_variables}
    if kind == "next_sentence":
        assert pooler <= trained and len(trained) == len(model.weights)
    else:
        assert not pooler & trained and len(trained) == len(model.weights) - 2
    assert [id(v) for v in model.trainable_weights] == [id(v) for v in model.trainable_variables]
    for all_of, some, rest in (
        (model.variables, model.trainable_variables, model.non_trainable_variables),
        (model.weights, model.trainable_weights, model.non_trainable_weights),
    ):
        assert len(some) + len(rest) == len(all_of) and {*map(id, some), *map(id, rest)} == {*map(id, all_of)}
    assert model.count_params() == sum(int(np.prod(weight.shape)) for weight in model.weights)
    # Another task on the same backbone may train it.
    assert all(variable.trainable for variable in model.backbone.pooler.variables)


def test_a_backbone_that_was_frozen_before_stays_as_it_is(tiny_vocabulary):
    backbone = make_backbone(tiny_vocabulary)
    backbone.trainable = False
    model = make_model("tagger", tiny_vocabulary, backbone, run_eagerly=True)
    frozen = [weight.numpy() for weight in backbone.weights]
    head = [weight.numpy() for weight in model.trainable_weights]
    fitted(model, WORDS, TAGS)
    for weight, value in zip(backbone.weights, frozen, strict=True):
        np.testing.assert_array_equal(weight, value)
    moved = zip(model.trainable_weights, head, strict=True)
    assert len(head) == 2 and all((weight.numpy() != value).any() for weight, value in moved)


def test_a_frozen_masked_lm_learns_from_datasets_with_more_features_than_it_takes(models):
    model = models["masked_lm"]
    features, labels, weights = model.preprocessor(TEXTS)
    place = tf.zeros([len(TEXTS), 3], tf.int32)
    dataset = tf.data.Dataset.from_tensors(({**features, "place": place}, labels, weights)).repeat()
    model.backbone.trainable = False
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    try:
        got = fitted(model, dataset, steps_per_epoch=2, epochs=2, validation_data=dataset, validation_steps=1)
        expected = model.evaluate(features, labels, sample_weight=weights, verbose=0)[0]
        assert got["loss"] == got["val_loss"] == [pytest.approx(expected, rel=1e-5)] * 2
    finally:
        model.backbone.trainable = True
        model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
