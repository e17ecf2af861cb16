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
