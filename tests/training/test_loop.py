import json

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_bert2d.errors import InputError
from keras_bert2d.training.checkpoints import Checkpoints
from keras_bert2d.training.loop import Loop
from tests.training.small import dataset, make_step

STEPS = 14


def make_loop(folder, dropout=0.3, evaluate=None, learning_rate=0.01, steps=STEPS, fall=None, **options):
    decay, decay_steps = fall or ("linear", None)
    if decay == "wsd":
        options["stable_step"] = steps - decay_steps
    # Log lines, checkpoints and calls of steps end at different steps.
    options = dict(log_every=4, checkpoint_every=3, steps_per_call=2, evaluate_every=5) | options
    return Loop(
        folder=folder,
        step=make_step(
            dropout=dropout, steps=steps, learning_rate=learning_rate, decay=decay, decay_steps=decay_steps
        ),
        steps=steps,
        batch_size=8,
        make_dataset=lambda step, place: dataset(8, place),
        evaluate=evaluate,
        **options,
    )


def lines(folder):
    """The lines of `metrics.jsonl` without what is measured by the clock."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "pieces_per_second"} for row in rows]


def scalars(folder):
    """What TensorBoard shows: tag to the steps and values, in their order."""
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        tag: [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was not killed."""
    folder = tmp_path_factory.mktemp("whole")
    loop = make_loop(folder, evaluate=lambda step: {"score": -abs(step - 10.0)}, best_metric="score")
    loop.run()
    return folder, loop


def test_lines_are_logged_at_their_steps_and_at_the_end(whole):
    rows = lines(whole[0])
    assert [row["step"] for row in rows if row["kind"] == "train"] == [4, 8, 12, 14]
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [5, 10, 14]
    assert set(rows[0]) == {
        "step", "kind", "loss", "accuracy", "learning_rate", "gradient_norm", "padding_share",
    }  # fmt: skip


def test_scalars_lie_in_tensorboard(whole):
    events = EventAccumulator(str(whole[0] / "tensorboard")).Reload()
    names = {
        "train/loss", "train/accuracy", "train/learning_rate", "train/gradient_norm",
        "train/pieces_per_second", "train/padding_share", "evaluation/score",
    }  # fmt: skip
    assert names <= set(events.Tags()["tensors"])
    logged = {event.step: tf.make_ndarray(event.tensor_proto) for event in events.Tensors("train/loss")}
    expected = {row["step"]: row["loss"] for row in lines(whole[0]) if row["kind"] == "train"}
    assert {step: float(value) for step, value in logged.items()} == pytest.approx(expected)


def test_the_last_checkpoints_and_the_best_are_kept(whole):
    folder, loop = whole
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["best", "step-00000009", "step-00000012", "step-00000014"]
    weights = [v.numpy() for v in loop.step.model.trainable_variables]
    assert loop.load_best() == {"score": 0.0, "step": 10}
    assert any(
        (v.numpy() != w).any() for v, w in zip(loop.step.model.trainable_variables, weights, strict=True)
    )


def test_a_finished_run_started_again_changes_nothing(whole):
    folder, _ = whole
    before = lines(folder)
    last = make_loop(folder).run()
    assert lines(folder) == before
    assert last["loss"] == [row for row in before if row["kind"] == "train"][-1]["loss"]


class Killed(Exception):
    pass


def kill_behind(step, calls):
    train = step.train

    def killed(*args):
        nonlocal calls
        if calls == 0:
            raise Killed
        calls -= 1
        return train(*args)

    step.train = killed


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8])
def test_a_run_killed_at_any_step_ends_as_one_that_was_not(tmp_path, whole, calls):
    loop = make_loop(tmp_path, evaluate=lambda step: {"score": -abs(step - 10.0)}, best_metric="score")
    kill_behind(loop.step, calls)
    with pytest.raises(Killed):
        loop.run()
    with open(tmp_path / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 13, "kind": "tra')
    again = make_loop(tmp_path, evaluate=lambda step: {"score": -abs(step - 10.0)}, best_metric="score")
    again.run()
    assert lines(tmp_path) == lines(whole[0])
    for file in ("best", "step-00000014"):
        path = f"checkpoints/{file}/state.safetensors"
        assert (tmp_path / path).read_bytes() == (whole[0] / path).read_bytes()


def test_a_low_value_is_best_where_it_is_asked_for(tmp_path):
    values = {5: 3.0, 10: 1.0, 14: 2.0}
    loop = make_loop(tmp_path, evaluate=lambda s: {"loss": values[s]}, best_metric="loss", best_is_high=False)
    loop.run()
    assert loop.load_best()["step"] == 10


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    loop = make_loop(tmp_path, learning_rate=0.01, steps_per_call=1)
    train, variables = loop.step.train, loop.step.model.trainable_variables

    def spoiled(*args):
        if int(loop.step.optimizer.iterations) == 7:
            variables[0].assign(variables[0] * float("nan"))
        return train(*args)

    loop.step.train = spoiled
    with pytest.raises(InputError, match="at step 8; the last checkpoint is kept"):
        loop.run()
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000003", "step-00000006"]
    assert [row["step"] for row in lines(tmp_path)] == [4]


def test_a_full_disk_stops_the_run_which_then_goes_on(tmp_path, whole, monkeypatch):
    loop = make_loop(tmp_path, evaluate=lambda step: {"score": -abs(step - 10.0)}, best_metric="score")
    save, calls = loop.step.train, []

    def fill(*args):
        calls.append(1)
        if len(calls) == 4:
            monkeypatch.setattr("keras_bert2d.training.checkpoints.save_file", _no_space)
        return save(*args)

    loop.step.train = fill
    with pytest.raises(InputError, match="could not be written"):
        loop.run()
    monkeypatch.undo()
    assert not list((tmp_path / "checkpoints").glob(".*"))
    make_loop(tmp_path, evaluate=lambda step: {"score": -abs(step - 10.0)}, best_metric="score").run()
    assert lines(tmp_path) == lines(whole[0])


def _no_space(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "stable, calls", [(9, [2, 3, 4, 6, 8, 9, 11, 12, 14]), (11, [2, 3, 4, 6, 8, 9, 11, 12, 14])]
)
def test_a_checkpoint_is_kept_at_the_step_where_the_decay_begins(tmp_path, stable, calls):
    loop = make_loop(tmp_path, fall=("wsd", STEPS - stable), checkpoint_every=3, keep=1)
    train, done = loop.step.train, []

    def counted(iterator, count):
        done.append((done or [0])[-1] + int(count))
        return train(iterator, count)

    loop.step.train = counted
    loop.run()
    assert done == calls
    kept = tmp_path / "checkpoints"
    assert sorted(path.name for path in kept.iterdir()) == ["stable", "step-00000014"]
    assert json.loads((kept / "stable" / "state.json").read_text())["step"] == stable


def test_the_logged_rate_is_that_of_the_step_that_was_made(tmp_path):
    make_loop(tmp_path, fall=("wsd", 4), log_every=1).run()
    rates = [row["learning_rate"] for row in lines(tmp_path)]
    assert rates == pytest.approx([0.01 * x for x in [0.5, *[1] * 10, 0.75, 0.5, 0.25]], abs=1e-9)


SCORE = dict(evaluate=lambda step: {"score": 1.0 * step})


@pytest.fixture(scope="module", params=[("constant", None), ("wsd", 3)], ids=["constant", "wsd"])
def long(request, tmp_path_factory):
    """A run of 20 steps, and what its learning rate does."""
    folder = tmp_path_factory.mktemp("long")
    make_loop(folder, steps=20, fall=request.param, **SCORE).run()
    return folder, request.param


@pytest.mark.parametrize("steps", [12, 13, 15])
def test_a_run_with_more_steps_ends_as_one_that_was_started_with_them(tmp_path, long, steps):
    folder, fall = long
    make_loop(tmp_path, steps=steps, fall=fall, **SCORE).run()
    assert lines(tmp_path)[-1]["step"] == steps
    Checkpoints(tmp_path / "checkpoints").go_back(steps - (fall[1] or 0))
    make_loop(tmp_path, steps=20, fall=fall, **SCORE).run()
    last = "checkpoints/step-00000020/state.safetensors"
    assert (tmp_path / last).read_bytes() == (folder / last).read_bytes()
    _same_lines(lines(tmp_path), lines(folder))
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        path.name for path in sorted((folder / "checkpoints").iterdir())
    ]


@pytest.mark.parametrize("steps", [13, 15])
def test_tensorboard_shows_the_lines_of_a_run_that_went_on(tmp_path, long, steps):
    _, fall = long
    make_loop(tmp_path, steps=steps, fall=fall, **SCORE).run()
    Checkpoints(tmp_path / "checkpoints").go_back(steps - (fall[1] or 0))
    loop = make_loop(tmp_path, steps=20, fall=fall, **SCORE)
    kill_behind(loop.step, 1)
    with pytest.raises(Killed):
        loop.run()
    make_loop(tmp_path, steps=20, fall=fall, **SCORE).run()
    shown = scalars(tmp_path)
    for kind, name in (("train", "loss"), ("train", "learning_rate"), ("evaluation", "score")):
        rows = [(row["step"], row[name]) for row in lines(tmp_path) if row["kind"] == kind]
        assert shown[f"{kind}/{name}"] == [(step, pytest.approx(value)) for step, value in rows]


def _same_lines(rows, expected):
    """The sums behind a mean may be cut elsewhere, so that it differs in its last bits."""
    assert [(row["step"], row["kind"]) for row in rows] == [(row["step"], row["kind"]) for row in expected]
    for row, other in zip(rows, expected, strict=True):
        assert row.keys() == other.keys()
        values = {name: value for name, value in row.items() if name != "kind"}
        assert values == pytest.approx({name: other[name] for name in values}, rel=1e-6, abs=1e-9)
