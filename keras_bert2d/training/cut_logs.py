"""Takes lines out of a run's logs that a process wrote whose steps are run again."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from keras_bert2d.files import atomic_file

Keeps = Callable[[int, str], bool]


def cut_logs(folder: Path, keeps: Keeps) -> None:
    """Cuts `metrics.jsonl` and `tensorboard/` of a run folder, where they are, to the same lines.

    What a kill left half written goes too.

    Args:
        folder: The run folder.
        keeps: `(step, kind) → bool`, whether a line stays; its kind is `"train"` or `"evaluation"`, in
            TensorBoard the first part of the tag.
    """
    if (folder / "metrics.jsonl").exists():
        _cut_metrics(folder / "metrics.jsonl", keeps)
    for path in sorted((folder / "tensorboard").glob(".*tfevents*")):
        path.unlink()
    for path in sorted((folder / "tensorboard").glob("*tfevents*")):
        _cut_scalars(path, keeps)


def _cut_metrics(path: Path, keeps: Keeps) -> None:
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break
        if keeps(row["step"], row["kind"]):
            kept.append(line + "\n")
    with atomic_file(path) as file:
        file.writelines(kept)


def _cut_scalars(path: Path, keeps: Keeps) -> None:
    data = path.read_bytes()
    kept = b"".join(
        record
        for record, event in _events(data)
        if all(keeps(event.step, value.tag.split("/")[0]) for value in event.summary.value)
    )
    # A TensorBoard that is open keeps its place in a file as long as it is the same.
    if kept != data:
        with atomic_file(path, "wb") as file:
            file.write(kept)


def _events(data: bytes) -> Iterator[tuple[bytes, tf.compat.v1.Event]]:
    """The whole records of an event file: length (8 bytes), its checksum (4), an event, its checksum (4)."""
    start = 0
    while start + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, start)
        end = start + size + 16
        if end > len(data):
            return
        yield data[start:end], tf.compat.v1.Event.FromString(data[start + 12 : end - 4])
        start = end
