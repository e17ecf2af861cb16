"""Whole models in `.keras` files and callbacks that save: training goes on as if nothing had happened."""

import contextlib
import shutil

import keras
import numpy as np
import pytest

from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from tests.models.small import KINDS, LABELS, TEXTS, WORDS, make_backbone, make_model, raw_data

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def fit(model, kind, **kwargs):
    """Three shuffled epochs after a seed is set; those of next-sentence prediction are two batches."""
    keras.utils.set_random_seed(3)
    steps = 2 if kind == "next_sentence" else None
    arguments = raw_data(kind) | dict(batch_size=2, epochs=3, steps_per_epoch=steps, verbose=0)
    return model.fit(**arguments | kwargs).history


def check_same_weights(first, second):
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.path)
    for a, b in zip(first.optimizer.variables, second.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.path)


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise InterruptedError


class CopyBackup(keras.callbacks.Callback):
    """Leaves behind what a run that ends before epoch 2 would leave."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            shutil.copytree(self.folder / "backup", self.folder / "backup2")


# What masked LM does, the other two do between them.
_IN_TURN = [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "masked_lm")) for kind in KINDS]


@pytest.fixture(scope="module", params=_IN_TURN)
def run(request, tiny_vocabulary, tmp_path_factory):
    """A run of three epochs: its model, its losses, and what callbacks saved on the way."""
    kind, folder = request.param, tmp_path_factory.mktemp("run")
    callbacks = [
        keras.callbacks.BackupAndRestore(folder / "backup"),
        CopyBackup(folder),
        keras.callbacks.ModelCheckpoint(folder / "epoch{epoch}.keras"),
        keras.callbacks.ModelCheckpoint(folder / "last.weights.h5", save_weights_only=True),
        keras.callbacks.ModelCheckpoint(folder / "best.keras", monitor="loss", save_best_only=True),
    ]
    model = make_model(kind, tiny_vocabulary, run_eagerly=kind != "tagger")
    return kind, model, fit(model, kind, callbacks=callbacks), folder


def test_a_run_resumes_in_a_new_model(run, tiny_vocabulary):
    kind, model, history, folder = run
    resumed = make_model(kind, tiny_vocabulary, run_eagerly=kind != "tagger")
    rest = fit(resumed, kind, callbacks=[keras.callbacks.BackupAndRestore(folder / "backup2")])
    assert rest == {name: values[2:] for name, values in history.items()}
    check_same_weights(resumed, model)


def test_an_exception_leaves_a_backup_to_resume_from(tiny_vocabulary, tmp_path):
    epochs = []
    for stops in ([Stop()], []):
        model = make_model("tagger", tiny_vocabulary, run_eagerly=True)
        backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
        with pytest.raises(InterruptedError) if stops else contextlib.nullcontext():
            fit(model, "tagger", callbacks=[backup, *stops])
        epochs.append(model.history.epoch)
    assert epochs == [[0, 1], [2]] and int(model.optimizer.iterations) == 9


def test_saved_weights_are_those_of_model_and_optimizer(run, tiny_vocabulary):
    kind, model, _, folder = run
    again = make_model(kind, tiny_vocabulary)
    again.optimizer.build(again.trainable_variables)
    again.load_weights(folder / "last.weights.h5")
    check_same_weights(again, model)


def test_a_saved_model_learns_on_as_if_it_had_not_been_saved(run):
    kind, model, history, folder = run
    loaded = keras.saving.load_model(folder / "epoch2.keras")
    assert type(loaded) is type(model)
    rest = fit(loaded, kind, initial_epoch=2)
    assert rest == {name: values[2:] for name, values in history.items()}
    check_same_weights(loaded, model)


def test_a_saved_model_reads_and_predicts_as_it_did(run, tmp_path):
    kind, model, _, folder = run
    assert keras.saving.load_model(folder / "best.keras").optimizer.built
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    features = model.preprocessor(WORDS if kind == "tagger" else TEXTS)
    features = features if kind == "tagger" else features[0]
    if kind == "next_sentence":
        features["pair_positions"] = keras.ops.zeros((len(TEXTS), 1), "int32")
    for a, b in zip(*(keras.tree.flatten(m(features)) for m in (loaded, model)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.preprocessor.tokenizer.id_rules == model.preprocessor.tokenizer.id_rules
    assert loaded.preprocessor.get_config() == model.preprocessor.get_config()
    if kind == "tagger":
        assert loaded.preprocessor.labels == LABELS
        assert loaded.predict(WORDS, verbose=0) == model.predict(WORDS, verbose=0)


def test_what_was_frozen_comes_back_frozen_with_the_optimizer_s_state(tiny_vocabulary, tmp_path):
    model = make_model("tagger", tiny_vocabulary, make_backbone(tiny_vocabulary))
    model.backbone.token_embedding.trainable = False
    model.compile(keras.optimizers.Adam(0.01))
    # A model that has made no step has no state to save.
    model.save(tmp_path / "new.keras")
    assert not keras.saving.load_model(tmp_path / "new.keras").optimizer.built
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert [v.path for v in loaded.trainable_variables] == [v.path for v in model.trainable_variables]
    check_same_weights(loaded, model)


def test_a_preset_holds_no_optimizer_state(run, tmp_path):
    kind, model, *_ = run
    state = [variable.numpy() for variable in model.optimizer.variables]
    model.save_to_preset(tmp_path)
    for variable, value in zip(model.optimizer.variables, state, strict=True):
        np.testing.assert_array_equal(variable, value)
    loaded = type(model).from_preset(tmp_path)
    for a, b in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (tmp_path / "task.weights.h5").stat().st_size < 100_000
    if kind == "tagger":
        assert isinstance(loaded, Bert2DTokenClassifier) and loaded.preprocessor.labels == LABELS
