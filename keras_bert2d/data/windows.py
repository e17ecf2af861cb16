"""The records of an epoch in windows, in an order that the seed alone fixes.

An epoch shuffles the shards and takes them a *group* at a time, about `GROUP_RECORDS` records: what is
in memory does not grow with the corpus. The records of a group are shuffled and cut into *windows*. How
many windows each group has follows from the manifest, so a run that goes on in the middle of an epoch
reads the group that it stands in and no shard before.
"""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert2d.data.shards import Manifest

# Records of a window (about 2,048 pieces each), and of a group: some 60 MB.
WINDOW_RECORDS = 64
GROUP_RECORDS = 8192
# Records that stay together where sentences must follow one another.
RUN_RECORDS = 8

_ALL = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in the data a run stands: behind this row of this window of this epoch."""

    epoch: int = 0
    window: int = 0
    row: int = -1


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Which records are held out: every n-th of the corpus; and whether those are read or the others."""

    every: int
    read: bool = False

    def chosen(self, index: tf.Tensor) -> tf.Tensor:
        """Whether records are read, from their numbers in the corpus."""
        return (index % self.every == self.every // 2) == self.read

    def count(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many records from `start` to before `stop` are read."""
        shift = self.every - 1 - self.every // 2
        held_out = (stop + shift) // self.every - (start + shift) // self.every
        return held_out if self.read else stop - start - held_out


def epoch_windows(
    folder: Path,
    manifest: Manifest,
    seed: int,
    epoch: tf.Tensor,
    first_window: tf.Tensor,
    held_out: HeldOut | None = None,
    keep_runs: bool = False,
) -> tf.data.Dataset:
    """Reads the records of one epoch.

    Args:
        folder: A shards folder.
        manifest: Its `Manifest`.
        seed: int. Fixes the order of shards and records, with the epoch.
        epoch: int64 tensor `[]`.
        first_window: int64 tensor `[]`. The window to start with; shards before its group are not opened.
        held_out: `HeldOut`, or `None` for all records. Where the held-out ones are read, each is read once,
            whatever its corpus weighs.
        keep_runs: bool. Whether `RUN_RECORDS` records that follow one another stay together.

    Returns:
        Dataset of `(window, (indices, records))`: the number of the window in the epoch, int64 `[]`; the
        numbers of its records in the corpus, int64 `[record]`; the serialized records, string `[record]`.
    """
    counts = np.array([shard.records for shard in manifest.shards], np.int64)
    offsets = np.cumsum(counts) - counts
    kept = counts if held_out is None else held_out.count(offsets, offsets + counts)
    order = _shards_of_epoch(manifest, seed, epoch, once=held_out is not None and held_out.read)
    files = tf.gather([str(folder / shard.file) for shard in manifest.shards], order)
    offsets = tf.gather(offsets, order)

    # A group ends with the shard that fills it; behind a shard of several groups' size, groups are empty.
    filled = tf.cumsum(tf.gather(kept, order))
    group_of_shard = (filled - tf.gather(kept, order)) // GROUP_RECORDS
    groups = tf.concat([group_of_shard[-1:] + 1, [0]], 0)[0]
    in_group = tf.math.unsorted_segment_sum(tf.gather(kept, order), group_of_shard, groups)
    windows = (in_group + WINDOW_RECORDS - 1) // WINDOW_RECORDS
    windows_before = tf.cumsum(windows, exclusive=True)
    # The last group that begins at this window or before: it holds the window.
    first_group = tf.reduce_sum(tf.cast(windows_before + windows <= first_window, tf.int64))

    def records(file, offset):
        dataset = tf.data.Dataset.zip(tf.data.Dataset.range(offset, _ALL), tf.data.TFRecordDataset(file))
        if held_out is not None:
            dataset = dataset.filter(lambda index, _: held_out.chosen(index))
        return dataset

    def read(group):
        mine = tf.where(group_of_shard == group)[:, 0]
        shards = tf.data.Dataset.from_tensor_slices((tf.gather(files, mine), tf.gather(offsets, mine)))
        whole = shards.flat_map(records).batch(_ALL)
        return whole.map(lambda indices, serialized: (group, indices, serialized))

    def cut(group, indices, serialized):
        order = _shuffled(
            tf.size(indices, tf.int64),
            RUN_RECORDS if keep_runs else 1,
            tf.stack([tf.cast(seed, tf.int64) * 1_000_003 + epoch + 1, group]),
        )
        parts = tf.data.Dataset.from_tensor_slices((tf.gather(indices, order), tf.gather(serialized, order)))
        parts = parts.batch(WINDOW_RECORDS).enumerate(tf.gather(windows_before, group))
        return parts.skip(tf.maximum(first_window - tf.gather(windows_before, group), 0))

    # While one group is used up, the next is read.
    return tf.data.Dataset.range(first_group, groups).flat_map(read).prefetch(1).flat_map(cut)


def most_windows(manifest: Manifest) -> int:
    """Returns a number that the windows of an epoch never exceed."""
    copies = int(np.ceil(max(corpus["weight"] for corpus in manifest.corpora)))
    return copies * (manifest.records // WINDOW_RECORDS + len(manifest.shards))


def _shards_of_epoch(manifest: Manifest, seed: int, epoch: tf.Tensor, once: bool) -> tf.Tensor:
    """The shards of an epoch in its order, int64, each as often as its corpus weighs."""
    weights = np.array([manifest.corpora[shard.corpus]["weight"] for shard in manifest.shards])
    if once:
        weights = np.ones_like(weights)
    # A weight of 2.5 is two copies in one epoch and three in the next; golden steps spread the thirds.
    phases = np.modf(np.arange(len(weights)) * 0.6180339887498949)[0]
    time = tf.cast(epoch, tf.float64)
    copies = tf.cast(tf.floor((time + 1) * weights + phases) - tf.floor(time * weights + phases), tf.int64)
    return tf.random.experimental.stateless_shuffle(
        tf.repeat(tf.range(len(weights), dtype=tf.int64), copies),
        seed=tf.stack([tf.cast(seed, tf.int64), epoch]),
        alg="philox",
    )


def _shuffled(count: tf.Tensor, run: int, seed: tf.Tensor) -> tf.Tensor:
    """The numbers up to `count` in random order, runs of so many together."""
    runs = tf.random.experimental.stateless_shuffle(tf.range((count + run - 1) // run), seed, alg="philox")
    places = tf.reshape(runs[:, None] * run + tf.range(run, dtype=tf.int64), [-1])
    return tf.boolean_mask(places, places < count)
