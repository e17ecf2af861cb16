import json

import pytest
import tensorflow as tf

from keras_bert2d.training.cut_logs import cut_logs


def write_run(folder, steps=(2, 4, 5, 6)):
    """A run folder with a line of each kind at each step."""
    writer = tf.summary.create_file_writer(str(folder / "tensorboard"))
    with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
        for step in steps:
            for kind in ("train", "evaluation"):
                file.write(json.dumps({"step": step, "kind": kind, "loss": 0.5}) + "\n")
                with writer.as_default(step=step):
                    tf.summary.scalar(f"{kind}/loss", 0.5)
    writer.close()


def read_run(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    logged = []
    for path in sorted((folder / "tensorboard").iterdir()):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            logged += [(event.step, value.tag.split("/")[0]) for value in event.summary.value]
    return [(row["step"], row["kind"]) for row in rows], logged


def test_both_logs_keep_the_same_lines(tmp_path):
    write_run(tmp_path)
    cut_logs(tmp_path, lambda step, kind: step < 5 or (step == 5 and kind == "train"))
    expected = [(2, "train"), (2, "evaluation"), (4, "train"), (4, "evaluation"), (5, "train")]
    assert read_run(tmp_path) == (expected, expected)


def test_what_a_kill_left_half_written_goes(tmp_path):
    write_run(tmp_path)
    expected = read_run(tmp_path)
    with open(tmp_path / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 7, "ki')
    (path,) = (tmp_path / "tensorboard").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:5])
    (tmp_path / "tensorboard" / f".{path.name}.x.tmp").write_bytes(b"half")
    cut_logs(tmp_path, lambda step, kind: True)
    assert read_run(tmp_path) == expected and path.read_bytes() == whole


@pytest.mark.parametrize("half", [8, 20, 60])
def test_half_a_record_goes_and_those_before_it_stay(tmp_path, half):
    write_run(tmp_path, [2])
    (path,) = (tmp_path / "tensorboard").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-half])
    cut_logs(tmp_path, lambda step, kind: True)
    assert whole.startswith(path.read_bytes())
    assert read_run(tmp_path)[1] == [(2, "train")]


def test_a_file_that_loses_nothing_is_not_written_anew(tmp_path):
    write_run(tmp_path)
    (path,) = (tmp_path / "tensorboard").iterdir()
    before = path.stat().st_ino
    cut_logs(tmp_path, lambda step, kind: True)
    assert path.stat().st_ino == before


def test_a_folder_without_logs_is_left_alone(tmp_path):
    cut_logs(tmp_path, lambda step, kind: False)
    assert not list(tmp_path.iterdir())
