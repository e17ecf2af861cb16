import errno
import json
import os
import resource

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert2d.errors import InputError
from keras_bert2d.training import checkpoints
from keras_bert2d.training.checkpoints import Checkpoints


def variables_of(value, shapes=((2, 3), (4,))):
    return [keras.Variable(np.full(shape, value, "float32")) for shape in shapes]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_n_are_kept_and_the_best_beside_them(tmp_path):
    kept = Checkpoints(tmp_path / "c", keep=2)
    kept.save_best(1, variables_of(1.0), {"score": 0.5})
    for step in (1, 2, 3, 10):
        kept.save(step, variables_of(float(step)), {})
    assert names(tmp_path / "c") == ["best", "step-00000003", "step-00000010"]


def test_variables_and_state_come_back_from_the_last(tmp_path):
    kept = Checkpoints(tmp_path)
    random = np.random.default_rng(0)
    values = [random.normal(size=(2, 3)), random.integers(0, 2**32, 2).astype("uint32"), np.int64(7)]
    saved = [keras.Variable(value, dtype=np.asarray(value).dtype.name) for value in values]
    kept.save(99_999_999, variables_of(0.0), {})
    kept.save(100_000_000, saved, {"place": {"row": 3}, "best": None})
    fresh = [keras.Variable(np.zeros_like(v), dtype=v.dtype) for v in saved]
    assert kept.load_last(fresh) == {"step": 100_000_000, "place": {"row": 3}, "best": None}
    for new, old in zip(fresh, saved, strict=True):
        np.testing.assert_array_equal(new.numpy(), old.numpy())


def test_bfloat16_comes_back(tmp_path):
    variable = keras.Variable(np.linspace(0, 1, 5), dtype="bfloat16")
    Checkpoints(tmp_path).save(1, [variable], {})
    fresh = keras.Variable(np.zeros(5), dtype="bfloat16")
    Checkpoints(tmp_path).load_last([fresh])
    np.testing.assert_array_equal(fresh.numpy(), variable.numpy())


def test_the_best_is_replaced_and_comes_back(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save_best(1, variables_of(1.0), {"f1": 0.1})
    kept.save_best(2, variables_of(2.0), {"f1": 0.2})
    fresh = variables_of(0.0)
    assert kept.load_best(fresh) == {"f1": 0.2, "step": 2}
    assert fresh[0].numpy().max() == 2
    assert names(tmp_path) == ["best"]


def test_without_checkpoints_there_is_nothing_to_load(tmp_path):
    kept = Checkpoints(tmp_path / "none")
    assert kept.load_last(variables_of(1.0)) is None
    assert kept.load_best(variables_of(1.0)) is None


def test_files_are_safetensors_and_json(tmp_path):
    Checkpoints(tmp_path).save(3, variables_of(3.0), {"last": {}})
    folder = tmp_path / "step-00000003"
    assert names(folder) == ["state.json", "state.safetensors"]
    assert json.loads((folder / "state.json").read_text()) == {"last": {}, "step": 3}
    assert {array.shape for array in load_file(folder / "state.safetensors").values()} == {(2, 3), (4,)}


def write_full(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("method", ["save", "save_best"])
def test_a_full_disk_leaves_the_checkpoint_before_and_no_temporary_folder(tmp_path, monkeypatch, method):
    kept = Checkpoints(tmp_path, keep=1)
    getattr(kept, method)(1, variables_of(1.0), {})
    before = names(tmp_path)
    monkeypatch.setattr(checkpoints, "save_file", write_full)
    with pytest.raises(InputError, match="No space left"):
        getattr(kept, method)(2, variables_of(2.0), {})
    assert names(tmp_path) == before
    fresh = variables_of(0.0)
    load = kept.load_last if method == "save" else kept.load_best
    assert load(fresh) == {"step": 1}
    assert fresh[1].numpy().tolist() == [1, 1, 1, 1]


def test_a_file_system_that_takes_no_more_bytes_leaves_the_checkpoint_before(tmp_path):
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, variables_of(1.0, [(100, 100)]), {})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(InputError, match="step-00000002 could not be written"):
            kept.save(2, variables_of(2.0, [(100, 100)]), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == ["step-00000001"]
    fresh = variables_of(0.0, [(100, 100)])
    kept.load_last(fresh)
    assert fresh[0].numpy().min() == 1


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"\xff" * 20, None])
def test_a_damaged_checkpoint_is_named(tmp_path, file, damage):
    kept = Checkpoints(tmp_path)
    kept.save(1, variables_of(1.0), {})
    path = tmp_path / "step-00000001" / file
    data = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(data))
    with pytest.raises(InputError, match="step-00000001 cannot be read"):
        kept.load_last(variables_of(0.0))


@pytest.mark.parametrize("shapes", [((2, 3), (5,)), ((2, 3),), ((2, 3), (4,), (1,))])
def test_a_checkpoint_of_another_model_is_refused_and_nothing_is_assigned(tmp_path, shapes):
    kept = Checkpoints(tmp_path)
    kept.save(1, variables_of(1.0), {})
    fresh = variables_of(0.0, shapes)
    with pytest.raises(InputError, match="step-00000001 is of another model"):
        kept.load_last(fresh)
    assert all(variable.numpy().max() == 0 for variable in fresh)


def test_what_a_killed_process_left_is_deleted(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(1, variables_of(1.0), {})
    (tmp_path / ".step-00000002.abc.tmp").mkdir()
    (tmp_path / ".step-00000002.abc.tmp" / "state.safetensors").write_bytes(b"half")
    kept.clean()
    assert names(tmp_path) == ["step-00000001"]
    Checkpoints(tmp_path / "none").clean()


def run_of(folder, steps, stable=None, keep=3):
    """Checkpoints whose variables hold their steps."""
    kept = Checkpoints(folder, keep)
    if stable is not None:
        kept.save_stable(stable, variables_of(float(stable)), {"of": "stable"})
    for step in steps:
        kept.save(step, variables_of(float(step)), {})
    return kept


@pytest.mark.parametrize(
    "steps, stable, back, last",
    [
        ([3, 6, 9], None, 9, 9),
        ([3, 6, 9], None, 8, 6),
        ([3, 6, 9, 12], 10, 10, 10),
        ([12, 14], 10, 11, 10),
        ([6, 9, 12], 9, 9, 9),
        ([3, 6], 7, 5, 3),
    ],
)
def test_going_back_ends_at_the_latest_checkpoint_up_to_a_step(tmp_path, steps, stable, back, last):
    kept = run_of(tmp_path, steps, stable)
    assert kept.can_go_back(back)
    for _ in range(2):
        kept.go_back(back)
        fresh = variables_of(0.0)
        assert kept.load_last(fresh)["step"] == last
        assert fresh[0].numpy().max() == last
    assert (tmp_path / "stable").exists() == (stable is not None and stable <= back)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("steps, stable, can", [([], None, True), ([6, 9], None, False), ([6], 4, True)])
def test_it_is_known_whether_there_is_a_checkpoint_to_go_back_to(tmp_path, steps, stable, can):
    assert run_of(tmp_path, steps, stable).can_go_back(5) == can


@pytest.mark.parametrize("place", ["shutil.copytree", "os.replace", "shutil.rmtree"])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_going_back_may_be_killed_and_done_again(tmp_path, monkeypatch, place, calls):
    kept = run_of(tmp_path, [9, 12, 14], 11)
    module, name = place.split(".")
    real, left = getattr(getattr(checkpoints, module), name), [calls]

    def killed(*args, **options):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(f"keras_bert2d.training.checkpoints.{place}", killed)
        try:
            kept.go_back(11)
        except KeyboardInterrupt:
            pass
    for name in names(tmp_path):
        assert name.startswith(".") or len(names(tmp_path / name)) == 2
    kept.go_back(11)
    kept.clean()
    assert names(tmp_path) == ["stable", "step-00000009", "step-00000011"]
