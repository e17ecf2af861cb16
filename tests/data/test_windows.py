"""The order of an epoch, its memory, and going on in the middle of it."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.data import windows
from keras_bert2d.data.shards import Manifest, Shard
from keras_bert2d.data.windows import HeldOut, epoch_windows, most_windows

SIZES = [5, 1, 12, 3, 30, 4, 2, 7]


@pytest.fixture(autouse=True)
def small_constants(monkeypatch):
    for name, value in {"WINDOW_RECORDS": 4, "GROUP_RECORDS": 10, "RUN_RECORDS": 3}.items():
        monkeypatch.setattr(windows, name, value)


def write(folder, sizes):
    """Shards whose records are the numbers of a corpus."""
    numbers = itertools.count()
    for i, size in enumerate(sizes):
        with tf.io.TFRecordWriter(str(folder / f"{i}.tfrecord")) as writer:
            for number in itertools.islice(numbers, size):
                writer.write(str(number).encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write(folder, SIZES)
    return folder


def manifest_of(weights=(1.0,), sizes=SIZES):
    shards = [
        Shard(f"{i}.tfrecord", "", i % len(weights), size, size, size, size, 0, 0)
        for i, size in enumerate(sizes)
    ]
    corpora = [{"name": "", "weight": weight} for weight in weights]
    return Manifest({}, "", "blank", corpora, shards, [1], 0)


def read(folder, manifest, first=0, epoch=0, seed=3, **arguments):
    dataset = epoch_windows(
        folder, manifest, seed, tf.constant(epoch, tf.int64), tf.constant(first, tf.int64), **arguments
    )
    found = []
    for number, (indices, records) in dataset.as_numpy_iterator():
        assert [int(record) for record in records] == indices.tolist()
        found.append((int(number), indices.tolist()))
    return found


def records_of(found):
    return [index for _, indices in found for index in indices]


@pytest.mark.parametrize("held_out", [None, HeldOut(3), HeldOut(3, read=True), HeldOut(60), HeldOut(7, True)])
def test_an_epoch_reads_the_records_that_are_due_once(folder, held_out):
    found = read(folder, manifest_of(), held_out=held_out)
    due = range(sum(SIZES))
    if held_out is not None:
        due = [i for i in due if (i % held_out.every == held_out.every // 2) == held_out.read]
    assert sorted(records_of(found)) == list(due)
    assert [number for number, _ in found] == list(range(len(found)))
    assert len(found) <= most_windows(manifest_of())
    assert all(1 <= len(indices) <= 4 for _, indices in found)


@pytest.mark.parametrize("held_out", [None, HeldOut(3), HeldOut(4, read=True)])
@pytest.mark.parametrize("weights", [(1.0,), (2.5, 0.4)])
def test_reading_goes_on_at_any_window(folder, held_out, weights):
    manifest = manifest_of(weights)
    whole = read(folder, manifest, held_out=held_out)
    for first in range(len(whole) + 1):
        assert read(folder, manifest, first, held_out=held_out) == whole[first:]


def test_shards_of_earlier_groups_are_not_opened(tmp_path):
    write(tmp_path, [10, 10, 10, 10])
    manifest = manifest_of(sizes=[10, 10, 10, 10])
    whole = read(tmp_path, manifest)
    last = records_of(whole[-3:])[0] // 10
    for i in {0, 1, 2, 3} - {last}:
        (tmp_path / f"{i}.tfrecord").unlink()
    # A shard of ten records is a group of three windows.
    for first in (9, 10, 11):
        assert read(tmp_path, manifest, first) == whole[first:]
    with pytest.raises(tf.errors.NotFoundError):
        read(tmp_path, manifest, 8)


def test_order_hangs_on_seed_and_epoch_and_mixes_the_shards_of_a_group(folder):
    first = read(folder, manifest_of())
    assert first == read(folder, manifest_of())
    assert records_of(first) != records_of(read(folder, manifest_of(), seed=4))
    assert records_of(first) != records_of(read(folder, manifest_of(), epoch=1))
    shard_of = np.repeat(np.arange(len(SIZES)), SIZES)
    assert max(len(set(shard_of[indices])) for _, indices in first) > 1


def test_records_that_must_follow_one_another_stay_together(folder):
    records = records_of(read(folder, manifest_of(sizes=[5, 1, 12]), keep_runs=True))
    together = sum(b == a + 1 for a, b in itertools.pairwise(records))
    # Runs of three: two of their three borders lie inside; shards may end in the middle of a run.
    assert together >= len(records) * 2 // 3 - 3
    assert records != sorted(records)


_EPOCH = """
import sys
from keras_bert2d import RowSettings
from keras_bert2d.data.pretraining import pretraining_dataset
from keras_bert2d.data.prepare import prepare
from keras_bert2d.text.tokenizer import Bert2DTokenizer

def peak():
    # Not `getrusage`: its peak begins with that of the process that started this one.
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024

folder, vocabulary = sys.argv[1:]
tokenizer = Bert2DTokenizer(open(vocabulary, encoding="utf-8").read().split("\\n"))
with open(f"{folder}/text", "w", encoding="utf-8") as file:
    for i in range(8000):
        file.write("ev kitap bir ev\\n" if i != 3000 else "ev " * 75_000 + "\\n")
prepare([f"{folder}/text"], tokenizer, f"{folder}/shards")
read = iter(pretraining_dataset(f"{folder}/shards", RowSettings(64), 32))
before = peak()
for _ in range(200):
    next(read)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_one_long_text_among_short_ones_takes_little_memory(tmp_path, tiny_vocabulary):
    """A table of 75,000 words in one line took gigabytes: a mask of texts × its length."""
    (tmp_path / "vocabulary").write_text("\n".join(tiny_vocabulary), encoding="utf-8")
    command = [sys.executable, "-c", _EPOCH, str(tmp_path), str(tmp_path / "vocabulary")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(run.stdout.split()[-1]) < 400
