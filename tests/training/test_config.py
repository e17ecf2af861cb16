import dataclasses
import json

import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.training.config import Config, check_positive, option
from keras_bert2d.training.finetune_config import FinetuneConfig
from keras_bert2d.training.pretrain_config import PretrainConfig


@dataclasses.dataclass(frozen=True)
class Recipe(Config):
    name: str = option(dataclasses.MISSING, "what it is called")
    rate: float = option(0.5, "a share")
    size: int | None = option(None, "how large")
    kind: str = option("plain", "which", ("plain", "fancy"))
    quick: bool = option(False, "whether in haste")


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"name": "börek", "rate": 0.25, "kind": "fancy"}), encoding="utf-8")
    recipe = Recipe.load(path, rate=0.75, kind=None)
    assert recipe == Recipe(name="börek", rate=0.75, size=None, kind="fancy", quick=False)


def test_whole_numbers_pass_for_fractions():
    rate = Recipe.load(name="a", rate=1).rate
    assert rate == 1.0 and isinstance(rate, float)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"name": "a", "colour": 1}, "no option 'colour'"),
        ({}, "--name is missing"),
        ({"name": 3}, "option name must be str"),
        ({"name": "a", "size": "3"}, "option size must be int"),
        ({"name": "a", "size": True}, "option size must be int"),
        ({"name": "a", "size": 1.0}, "option size must be int"),
        ({"name": "a", "rate": "half"}, "option rate must be float"),
        ({"name": "a", "quick": 1}, "option quick must be bool"),
        ({"name": "a", "kind": "odd"}, "option kind must be one of plain, fancy"),
    ],
)
def test_an_option_that_is_unknown_missing_or_of_another_type_is_named(tmp_path, values, message):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        Recipe.load(path)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b'"name"'])
def test_a_file_that_is_no_json_object_is_named(tmp_path, content):
    path = tmp_path / "recipe.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="recipe.json"):
        Recipe.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere.json"):
        Recipe.load(tmp_path / "nowhere.json")


def test_a_run_folder_takes_the_same_options_only(tmp_path):
    folder = tmp_path / "run"
    Recipe(name="a").claim(folder)
    Recipe(name="a").claim(folder)
    assert Recipe.load(folder / "config.json") == Recipe(name="a")
    with pytest.raises(InputError, match=r"run holds another run: rate is 0\.5 there and 0\.25 here"):
        Recipe(name="a", rate=0.25).claim(folder)
    assert Recipe.load(folder / "config.json") == Recipe(name="a")
    assert [path.name for path in folder.iterdir()] == ["config.json"]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_what_is_not_above_0_is_refused_by_name(value):
    with pytest.raises(InputError, match="option rate must be above 0"):
        check_positive(Recipe(name="a", rate=value), "rate")


@pytest.mark.parametrize(
    "name", ["steps", "batch_size", "accumulation", "log_every", "checkpoint_every", "keep"]
)
def test_pretraining_refuses_impossible_numbers_by_name(name):
    with pytest.raises(InputError, match=name):
        PretrainConfig.load(data="shards", output="run", **{name: 0})


def test_pretraining_refuses_an_unknown_size_by_name():
    with pytest.raises(InputError, match="size must be one of tiny, mini, .*'huge'"):
        PretrainConfig.load(data="shards", output="run", size="huge")


def test_fine_tuning_refuses_impossible_numbers_by_name():
    files = dict(model="m", train="t", dev="d", output="o")
    with pytest.raises(InputError, match="warmup_share"):
        FinetuneConfig.load(**files, warmup_share=1.0)
    with pytest.raises(InputError, match="epochs"):
        FinetuneConfig.load(**files, epochs=0)


def test_sizes_give_way_to_options_of_their_own():
    config = PretrainConfig.load(data="shards", output="run", size="tiny", num_layers=1)
    assert config.size_arguments() == dict(num_layers=1, num_heads=2, hidden_dim=128, intermediate_dim=512)


def test_a_run_folder_whose_configuration_is_damaged_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="config.json cannot be read"):
        Recipe(name="a").claim(tmp_path)


def run_config(**options):
    return PretrainConfig.load(data="shards", output="run", **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decay_steps": 5}, "decay_steps is for `--decay wsd` only: leave it out. Received: decay='linear'"),
        ({"decay": "wsd", "decay_steps": 0}, "decay_steps must be above 0"),
        ({"warmup_steps": -1}, "warmup_steps must not be below 0"),
        ({"decay": "wsd", "steps": 10, "warmup_steps": 6, "decay_steps": 5}, "at most 10"),
        ({"decay": "wsd", "steps": 10, "decay_steps": 11}, "at most 10"),
    ],
)
def test_a_warm_up_or_a_decay_that_does_not_fit_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        run_config(**options)


def test_a_warm_up_with_no_room_for_the_default_decay_is_refused():
    with pytest.raises(InputError, match="warmup_steps=95, decay_steps=10, steps=100"):
        run_config(decay="wsd", steps=100, warmup_steps=95).settled(None)


@pytest.mark.parametrize("steps, warmup, decay", [(200, 20, 20), (14, 1, 1), (5, 0, 1)])
def test_warm_up_and_decay_are_a_tenth_of_the_steps(steps, warmup, decay):
    settled = run_config(decay="wsd", steps=steps).settled(None)
    assert (settled.warmup_steps, settled.decay_steps) == (warmup, decay)
    assert settled.decay_start() == steps - decay
    settled = run_config(steps=steps).settled(None)
    assert (settled.warmup_steps, settled.decay_steps, settled.decay_start()) == (warmup, None, None)


@pytest.mark.parametrize(
    "there, here, same_until, expected",
    [
        (dict(decay="constant", steps=100), dict(steps=100), None, (10, None)),
        (dict(decay="constant", steps=100), dict(steps=300), 100, (10, None)),
        (dict(decay="constant", steps=100, warmup_steps=7), dict(steps=300), 100, (7, None)),
        (dict(decay="wsd", steps=100, decay_steps=25), dict(steps=100), None, (10, 25)),
        (dict(decay="wsd", steps=100, decay_steps=25), dict(steps=300), 75, (10, 30)),
        (dict(decay="wsd", steps=100), dict(steps=110, decay_steps=50), 60, (10, 50)),
        (dict(decay="linear", steps=100, warmup_steps=3), dict(), None, (3, None)),
    ],
)
def test_a_run_goes_on_with_its_own_warm_up(there, here, same_until, expected):
    there = run_config(**there).settled(None).to_dict()
    config = run_config(**{"decay": there["decay"], "steps": 100} | here)
    settled = config.settled(there)
    assert (settled.warmup_steps, settled.decay_steps) == expected
    assert settled.same_until(there) == same_until


def test_a_run_of_an_older_version_goes_on():
    there = run_config(decay="constant", steps=100).to_dict()
    del there["decay_steps"]
    settled = run_config(decay="constant", steps=300).settled(there)
    assert settled.warmup_steps == 10 and settled.same_until(there) == 100
    assert run_config(decay="constant", steps=100, warmup_steps=10).settled(there).warmup_steps == 10


@pytest.mark.parametrize(
    "there, here, message",
    [
        (dict(steps=20), dict(steps=30), "to fall to 0 at step 20 .--decay linear.. Use a new folder"),
        (dict(steps=20, decay="cosine"), dict(steps=30, decay="cosine"), "at step 20 .--decay cosine"),
        (dict(steps=20), dict(steps=10), "steps is 20 there and 10 here, and a run cannot become shorter"),
        (dict(steps=20, seed=1), dict(steps=30), "seed is 1 there and 0 here"),
        (dict(steps=20), dict(steps=30, decay="wsd"), "decay is 'linear' there and 'wsd' here"),
        (
            dict(steps=20, decay="constant"),
            dict(steps=30, decay="constant", warmup_steps=3),
            "warmup_steps is 2 there and 3 here",
        ),
        (
            dict(steps=20, decay="wsd"),
            dict(steps=20, decay="wsd", decay_steps=5),
            "decay_steps is 2 there and 5 here",
        ),
    ],
)
def test_a_run_that_cannot_become_another_is_refused_in_one_line(there, here, message):
    there = run_config(**there).settled(None).to_dict()
    with pytest.raises(InputError, match=message) as error:
        run_config(**here).settled(there)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("steps", [None, "many"])
def test_a_run_folder_without_a_number_of_steps_is_refused(steps):
    there = {**run_config().settled(None).to_dict(), "steps": steps}
    with pytest.raises(InputError, match="steps is .* there and 10000 here"):
        run_config().settled(there)
