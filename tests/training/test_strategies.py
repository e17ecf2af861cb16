import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.training.strategies import check_batch_size, distribute, is_chief, make_strategy

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def start(folder, *names, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.devices", str(folder), *names],
        cwd=ROOT,
        env={**os.environ, **QUIET, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process):
    try:
        stdout, stderr = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, stderr[-3000:]
    return json.loads(stdout.splitlines()[-1])


def train_lines(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "train"]


def assert_same_run(folder, results, name, other="one"):
    for row, expected in zip(train_lines(folder / name), train_lines(folder / other), strict=True):
        for metric in ("loss", "accuracy", "gradient_norm", "padding_share", "learning_rate"):
            assert row[metric] == pytest.approx(expected[metric], abs=1e-5), (row["step"], metric)
    for weights in ("weights", "best_weights"):
        for got, wanted in zip(results[name][weights], results[other][weights], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    assert results[name]["best"] == 4


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirrored")
    return folder, result_of(start(folder, "one", "mirrored", "accumulated"))


def test_two_devices_give_the_losses_and_weights_of_one(mirrored):
    folder, results = mirrored
    assert [results[name]["replicas"] for name in ("one", "mirrored")] == [1, 2]
    assert_same_run(folder, results, "mirrored")


def test_micro_batches_on_two_devices_give_the_losses_and_weights_of_one(mirrored):
    assert_same_run(*mirrored, "accumulated")


def test_a_batch_that_replicas_and_micro_batches_cannot_share_is_refused(mirrored):
    fits, odd, six = mirrored[1]["refused"]
    assert fits is None
    assert "batch_size=7" in odd and "a multiple of 2," in odd
    assert "batch_size=6" in six and "a multiple of 4," in six


@pytest.mark.slow
def test_two_workers_give_the_losses_and_weights_of_one_device_and_the_first_one_writes(tmp_path):
    results = result_of(start(tmp_path, "one"))
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    cluster = {"worker": [f"localhost:{each.getsockname()[1]}" for each in sockets]}
    for each in sockets:
        each.close()
    workers = [
        start(
            tmp_path,
            "multiworker",
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    both = [result_of(worker)["multiworker"] for worker in workers]
    assert [worker["replicas"] for worker in both] == [2, 2]
    assert [worker["chief"] for worker in both] == [True, False]
    for worker in both:
        assert_same_run(tmp_path, results | {"multiworker": worker}, "multiworker")


def test_auto_is_one_device_without_gpus_and_without_a_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if tf.config.list_logical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    strategy = make_strategy("auto")
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy) and is_chief(strategy)


@pytest.mark.parametrize(
    "name, config, message",
    [
        ("cloud", None, "strategy='cloud'"),
        ("multiworker", None, "needs TF_CONFIG"),
        ("auto", "{", "TF_CONFIG is no JSON object"),
        ("auto", "[1]", "TF_CONFIG is no JSON object"),
    ],
)
def test_a_strategy_that_cannot_be_made_is_refused(monkeypatch, name, config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(InputError, match=message):
        make_strategy(name)


def test_micro_batches_of_one_device_must_be_equal():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    check_batch_size(strategy, 8, 4)
    with pytest.raises(InputError, match="batch_size=8"):
        check_batch_size(strategy, 8, 3)


def test_one_device_gets_the_batches_as_they_are():
    data = tf.data.Dataset.range(6).batch(2)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert [batch.numpy().tolist() for batch in distribute(strategy, data, 2)] == [[0, 1], [2, 3], [4, 5]]
