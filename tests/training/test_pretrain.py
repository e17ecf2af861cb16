import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.data.prepare import prepare
from keras_bert2d.data.pretraining import pretraining_dataset
from keras_bert2d.data.shards import read_tokenizer
from keras_bert2d.errors import InputError
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.training.optimizer import WarmupDecay, make_optimizer
from keras_bert2d.training.pretrain import PretrainConfig, make_model, pretrain, row_settings
from keras_bert2d.training.step import HeadStep

ROOT = Path(__file__).resolve().parents[2]
BOTH_LAST = "checkpoints/step-00000014/state.safetensors"


def lines(folder):
    """The lines of `metrics.jsonl` without what is measured by the clock."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "pieces_per_second"} for row in rows]


def start(tmp_path, options, name, **environment):
    """The command in a process of its own, as a user starts it."""
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(options))
    command = [sys.executable, "-m", "keras_bert2d.cli", "pretrain", "--config", str(path)]
    command += ["--output", str(tmp_path / name), "--json"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def start_workers(tmp_path, options, name):
    """The command on two workers of one run."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    cluster = {"worker": [f"localhost:{each.getsockname()[1]}" for each in sockets]}
    for each in sockets:
        each.close()
    tasks = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}) for i in range(2)]
    return [start(tmp_path, options, name, TF_CONFIG=task) for task in tasks]


def finish(process):
    try:
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, stderr[-3000:]
    return json.loads(stdout)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_options):
    """A run that was not killed, with what it returned."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, pretrain(PretrainConfig.load(**tiny_options, output=str(folder)))


def test_a_run_folder_holds_what_the_design_says(whole, tiny_options):
    folder, result = whole
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "metrics.jsonl", "tensorboard", "checkpoints", "preset"}
    assert result.keys() >= {"loss", "accuracy", "held_out_loss", "held_out_accuracy"}
    config = PretrainConfig.load(folder / "config.json")
    assert config == PretrainConfig.load(**tiny_options, warmup_steps=1, output=str(folder))
    rows = lines(folder)
    assert [row["step"] for row in rows if row["kind"] == "train"] == [4, 8, 12, 14]
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [7, 14]
    assert 0 < rows[0]["padding_share"] < 0.9


def test_it_learns(whole):
    train = [row["loss"] for row in lines(whole[0]) if row["kind"] == "train"]
    held_out = [row["held_out_loss"] for row in lines(whole[0]) if row["kind"] == "evaluation"]
    assert train[-1] < train[0] and held_out[1] < held_out[0]


def test_the_preset_brings_back_weights_vocabulary_and_id_rules(whole, shards):
    model = Bert2DMaskedLM.from_preset(str(whole[0] / "preset"))
    tokenizer = read_tokenizer(shards)
    assert model.preprocessor.tokenizer.get_vocabulary() == tokenizer.get_vocabulary()
    assert model.preprocessor.tokenizer.id_rules == tokenizer.id_rules
    assert model.preprocessor.sequence_length == 16
    (filled,) = model.fill_masks(["bir [MASK] kitap"], 3)
    assert len(filled) == 1 and len(filled[0]) == 3


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_as_if_it_had_never_stopped(tmp_path, whole, tiny_options, monkeypatch):
    make, calls = tf.function, []

    def killing(function, **options):
        traced = make(function, **options)
        if getattr(function, "__name__", "") != "_train":
            return traced

        def train(*args):
            calls.append(1)
            # The steps up to 3 are saved, those up to 4 are logged; this is the call from 6 to 7.
            if len(calls) == 5:
                raise Killed
            return traced(*args)

        return train

    config = PretrainConfig.load(**tiny_options, output=str(tmp_path / "run"))
    monkeypatch.setattr("keras_bert2d.training.step.tf.function", killing)
    with pytest.raises(Killed):
        pretrain(config)
    monkeypatch.undo()
    assert len(lines(tmp_path / "run")) == 1 and not (tmp_path / "run" / "preset").exists()
    pretrain(config)
    assert lines(tmp_path / "run") == lines(whole[0])
    assert (tmp_path / "run" / BOTH_LAST).read_bytes() == (whole[0] / BOTH_LAST).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{}, {"next_sentence": True, "accumulation": 2, "rows": "full_sentences"}])
def test_a_run_killed_by_sigkill_at_a_random_moment_ends_as_one_that_was_not(tmp_path, tiny_options, extra):
    options = {**tiny_options, **extra, "steps": 400, "checkpoint_every": 7, "log_every": 5, "keep": 1}
    options |= {"evaluate_every": 90}
    expected = finish(start(tmp_path, options, "whole"))
    kills, deadline = 0, time.monotonic() + 400
    while kills < 3 and time.monotonic() < deadline:
        process = start(tmp_path, options, "killed")
        path, wanted = tmp_path / "killed" / "metrics.jsonl", random.randint(30, 120) * (kills + 1)
        while process.poll() is None and time.monotonic() < deadline:
            if path.exists() and f'"step": {wanted - wanted % 5},' in path.read_text():
                break
            time.sleep(0.01)
        time.sleep(random.random() / 10)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    result = finish(start(tmp_path, options, "killed"))
    assert kills >= 1
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")
    assert result["loss"] == expected["loss"]
    last = "checkpoints/step-00000400/state.safetensors"
    assert (tmp_path / "killed" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
    assert not list((tmp_path / "killed" / "checkpoints").glob(".*"))


@pytest.mark.slow
def test_two_workers_give_the_losses_of_one_process(tmp_path, tiny_options):
    options = {**tiny_options, "dropout": 0.0, "strategy": "auto", "accumulation": 2}
    finish(start(tmp_path, options, "one", TF_CONFIG=""))
    for worker in start_workers(tmp_path, options, "two"):
        finish(worker)
    for row, expected in zip(lines(tmp_path / "two"), lines(tmp_path / "one"), strict=True):
        assert row.keys() == expected.keys()
        for name in row.keys() - {"kind"}:
            assert row[name] == pytest.approx(expected[name], abs=1e-5), (row["step"], name)


@pytest.mark.parametrize("accumulation", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_compiled_step_gives_the_loss_of_one_that_is_not(tiny_options, accumulation):
    config = PretrainConfig.load(**tiny_options | {"dropout": 0.0}, output="unused")
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model(config, read_tokenizer(config.data))
        optimizer = make_optimizer(WarmupDecay(1e-2, 4, 1), model.trainable_variables)
    step = HeadStep(strategy, model, optimizer, accumulation, clip_norm=1.0, jit_compile=True)
    data = pretraining_dataset(config.data, row_settings(config), 8, with_place=True).take(2).cache()
    batches = iter(strategy.experimental_distribute_dataset(data))
    for batch in data:
        expected = step.evaluate(batch)
        sums, _ = step.train(batches, tf.constant(1))
        assert float(sums[""]["loss"]) == pytest.approx(float(expected[""]["loss"]), rel=1e-5)
    assert int(optimizer.iterations) == 2


def test_mixed_bfloat16_and_next_sentences_train_and_come_back(tmp_path, tiny_options):
    options = tiny_options | dict(dtype="mixed_bfloat16", next_sentence=True, steps=4, evaluate_every=4)
    folder = tmp_path / "run"
    result = pretrain(PretrainConfig.load(**options, output=str(folder)))
    assert result.keys() >= {"masked_lm_loss", "next_sentence_accuracy", "held_out_next_sentence_loss"}
    assert result["loss"] == pytest.approx(result["masked_lm_loss"] + result["next_sentence_loss"])
    assert result["next_sentence_loss"] == pytest.approx(np.log(2), abs=0.3)
    model = Bert2DMaskedLM.from_preset(str(folder / "preset"))
    assert model.next_sentence
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    assert model.backbone.compute_dtype == "bfloat16"


def test_another_configuration_in_the_same_folder_is_refused_by_name(tmp_path, whole, tiny_options):
    before = lines(whole[0])
    with pytest.raises(InputError, match="holds another run: seed is 0 there and 1 here"):
        pretrain(PretrainConfig.load(**tiny_options, seed=1, output=str(whole[0])))
    assert lines(whole[0]) == before


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 3}, "num_heads"),
        ({"mask_rate": 1.5}, "rate=1.5"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"held_out": 0.7}, "held-out.*0.7"),
        ({"accumulation": 3}, "batch_size=8"),
        ({"sequence_length": 2}, "sequence_length"),
        ({"sequence_length": 100, "position_scheme": "learned"}, "sequence_length=100, max_words=64"),
        ({"max_predictions_per_row": 0}, "max_predictions_per_row=0"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_leaves_no_folder(tmp_path, tiny_options, options, message):
    with pytest.raises(InputError, match=message):
        pretrain(PretrainConfig.load(**tiny_options | options, output=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def damage(shards):
    path = next(shards.glob("*.tfrecord"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path.name


def remove(shards):
    path = next(shards.glob("*.tfrecord"))
    path.unlink()
    return path.name


def cut_manifest(shards):
    path = shards / "manifest.json"
    path.write_text(path.read_text()[:-20])
    return "manifest.json"


def other_vocabulary(shards):
    path = shards / "vocabulary.txt"
    path.write_text(path.read_text(encoding="utf-8") + "##xyz\n", encoding="utf-8")
    return "vocabulary"


@pytest.mark.parametrize("spoil", [damage, remove, cut_manifest, other_vocabulary])
def test_shards_that_are_not_what_was_written_stop_the_run_before_the_first_step(
    tmp_path, shards, tiny_options, spoil
):
    shutil.copytree(shards, tmp_path / "shards")
    name = spoil(tmp_path / "shards")
    options = tiny_options | {"data": str(tmp_path / "shards"), "output": str(tmp_path / "run")}
    with pytest.raises(InputError, match=name):
        pretrain(PretrainConfig.load(**options))
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_the_shards_were_not_made_with_is_refused(tmp_path, shards, tiny_options):
    pieces = (shards / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "mine.txt"
    path.write_text("\n".join([*pieces[:-2], pieces[-1], pieces[-2]]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="vocabulary of --vocab is not the one"):
        pretrain(PretrainConfig.load(**tiny_options, vocab=str(path), output=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_next_sentences_of_one_document_are_refused(tmp_path, tiny_options, tiny_vocabulary):
    (tmp_path / "one.txt").write_text("Bir kitap.\nBir ev.\n", encoding="utf-8")
    prepare([tmp_path / "one.txt"], Bert2DTokenizer(tiny_vocabulary), tmp_path / "shards")
    options = tiny_options | {"data": str(tmp_path / "shards"), "next_sentence": True}
    with pytest.raises(InputError, match="at least two documents"):
        pretrain(PretrainConfig.load(**options, output=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
