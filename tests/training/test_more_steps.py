"""Pretraining runs that go on with more steps than they were started with."""

import json
import os
import random
import signal
import time

import h5py
import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.training.checkpoints import Checkpoints
from keras_bert2d.training.loop import Loop
from keras_bert2d.training.pretrain import PretrainConfig, pretrain
from tests.training.test_loop import Killed, _same_lines, kill_behind, lines
from tests.training.test_pretrain import finish, start, start_workers

LAST = "checkpoints/step-00000020/state.safetensors"
WARMUP = 2  # what the run of 20 steps has, a tenth; a run that goes on keeps its own


def config_of(tiny_options, folder, **options):
    return PretrainConfig.load(**tiny_options | options, output=str(folder))


def preset_weights(folder):
    """The bytes of each weight of a run's preset by its place in the files."""
    weights = {}
    for path in (folder / "preset").glob("*.weights.h5"):
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, path=path: (
                    weights.update({(path.name, name): item[()].tobytes()})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    return weights


def assert_same_run(folder, long):
    """The folder holds what the run that was started with 20 steps left, to the bit."""
    assert (folder / LAST).read_bytes() == (long / LAST).read_bytes()
    _same_lines(lines(folder), lines(long))
    ours, theirs = (json.loads((path / "config.json").read_text()) for path in (folder, long))
    assert ours | {"output": ""} == theirs | {"output": ""}
    ours, theirs = (preset_weights(path) for path in (folder, long))
    assert ours == theirs and len(ours) > 10


@pytest.fixture(scope="module", params=["constant", "wsd"])
def long(request, tmp_path_factory, tiny_options):
    """A run that was started with 20 steps, and its options."""
    folder = tmp_path_factory.mktemp("long") / "run"
    options = dict(decay=request.param, warmup_steps=WARMUP)
    options |= dict(decay_steps=5) if request.param == "wsd" else {}
    pretrain(config_of(tiny_options, folder, steps=20, **options))
    return folder, options


@pytest.fixture(scope="module")
def short(long, tmp_path_factory, tiny_options):
    """A finished run of 13 steps."""
    folder = tmp_path_factory.mktemp("short") / "run"
    options = long[1] | (dict(decay_steps=2) if long[1]["decay"] == "wsd" else {})
    pretrain(config_of(tiny_options, folder, steps=13, **options))
    return folder


def kill_calls(monkeypatch, owner, name):
    """Kills the run where it would call a function."""

    def killed(*args, **options):
        raise Killed

    monkeypatch.setattr(owner, name, killed)


def kill_training(monkeypatch, calls):
    run = Loop.run

    def killed(self):
        kill_behind(self.step, calls)
        return run(self)

    monkeypatch.setattr(Loop, "run", killed)


def test_a_run_goes_on_as_if_started_with_more_steps_however_often_it_is_killed(
    long, short, tiny_options, monkeypatch
):
    folder, options = long
    # The warm-up is left out: it is that of the run in the folder.
    config = config_of(tiny_options, short, steps=20, **{**options, "warmup_steps": None})
    stable = short / "checkpoints" / "stable" / "state.json"
    assert not stable.exists() or json.loads(stable.read_text())["step"] == 11
    kills = [
        lambda patch: kill_calls(patch, PretrainConfig, "write"),
        lambda patch: kill_calls(patch, Loop, "run"),
        lambda patch: kill_training(patch, 2),
    ]
    for kill in kills:
        with monkeypatch.context() as patch:
            kill(patch)
            with pytest.raises(Killed):
                pretrain(config)
    pretrain(config)
    assert_same_run(short, folder)
    if options["decay"] == "wsd":
        assert json.loads(stable.read_text())["step"] == 15


@pytest.mark.slow
@pytest.mark.parametrize("calls", [2, 5, 7])
def test_a_run_that_was_never_finished_goes_on_with_more_steps(
    tmp_path, long, tiny_options, monkeypatch, calls
):
    folder, options = long
    shorter = options | (dict(decay_steps=4) if options["decay"] == "wsd" else {})
    with monkeypatch.context() as patch:
        kill_training(patch, calls)
        with pytest.raises(Killed):
            pretrain(config_of(tiny_options, tmp_path / "run", steps=14, **shorter))
    pretrain(config_of(tiny_options, tmp_path / "run", steps=20, **options))
    assert_same_run(tmp_path / "run", folder)


def test_a_decay_that_would_begin_before_all_checkpoints_is_refused(tmp_path, tiny_options):
    there = config_of(tiny_options, tmp_path, steps=14, decay="wsd").settled(None)
    there.write(tmp_path)
    Checkpoints(tmp_path / "checkpoints").save(12, [], {})
    before = (tmp_path / "config.json").read_bytes()
    config = config_of(tiny_options, tmp_path, steps=16, decay="wsd", decay_steps=10)
    with pytest.raises(InputError, match="no checkpoint at or before step 6.*smaller decay_steps"):
        pretrain(config)
    assert (tmp_path / "config.json").read_bytes() == before
    assert (tmp_path / "checkpoints" / "step-00000012").exists()


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_run_whose_rate_was_set_to_fall_is_refused_and_left_as_it_was(tmp_path, tiny_options, decay):
    config_of(tiny_options, tmp_path, decay=decay).settled(None).write(tmp_path)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(InputError, match="set to fall to 0 at step 14 .*--decay wsd or constant"):
        pretrain(config_of(tiny_options, tmp_path, decay=decay, steps=20))
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("decay", ["constant", "wsd"])
def test_a_run_killed_by_sigkill_while_it_goes_on_ends_as_one_that_was_not(tmp_path, tiny_options, decay):
    options = {**tiny_options, "decay": decay, "warmup_steps": 9, "checkpoint_every": 7, "log_every": 5}
    options |= {"evaluate_every": 90, "keep": 1}
    long = finish(start(tmp_path, options | {"steps": 250}, "long"))
    finish(start(tmp_path, options | {"steps": 120}, "run"))
    for wanted in (130, 190):
        process = start(tmp_path, options | {"steps": 250}, "run")
        path, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 200
        while process.poll() is None and time.monotonic() < deadline:
            if f'"step": {wanted},' in path.read_text():
                break
            time.sleep(0.01)
        time.sleep(random.random() / 10)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    result = finish(start(tmp_path, options | {"steps": 250}, "run"))
    last = "checkpoints/step-00000250/state.safetensors"
    assert (tmp_path / "run" / last).read_bytes() == (tmp_path / "long" / last).read_bytes()
    _same_lines(lines(tmp_path / "run"), lines(tmp_path / "long"))
    assert result["loss"] == pytest.approx(long["loss"], rel=1e-6)


@pytest.mark.slow
def test_two_workers_go_on_as_one_process_does(tmp_path, tiny_options):
    options = {**tiny_options, "dropout": 0.0, "strategy": "auto", "decay": "wsd", "warmup_steps": 2}
    finish(start(tmp_path, options | {"steps": 20}, "one", TF_CONFIG=""))
    for steps in (14, 20):
        for worker in start_workers(tmp_path, options | {"steps": steps}, "two"):
            finish(worker)
    rows, expected = lines(tmp_path / "two"), lines(tmp_path / "one")
    assert [(row["step"], row["kind"]) for row in rows] == [(row["step"], row["kind"]) for row in expected]
    for row, other in zip(rows, expected, strict=True):
        for name in row.keys() - {"kind"}:
            assert row[name] == pytest.approx(other[name], abs=1e-5), (row["step"], name)
