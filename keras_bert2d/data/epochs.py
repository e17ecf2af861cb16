"""The rows of an epoch: windows of records unpacked, their texts shuffled and packed.

The order of the data is a function of the seed alone. Every row knows its place (epoch, window, row), so
a run goes on behind any row without reading from the start, see `windows`.
"""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert2d.choices import REPLACEMENTS, ROWS, check_choice
from keras_bert2d.data.shards import Manifest, decode_records
from keras_bert2d.data.windows import HeldOut, Place, epoch_windows, most_windows
from keras_bert2d.text.masking import MaskRules
from keras_bert2d.text.packing import join_sentences, pack_texts
from keras_bert2d.text.pairs import choose_pairs, pack_pairs
from keras_bert2d.text.rows import RowRules, make_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer


@dataclasses.dataclass(frozen=True)
class RowSettings:
    """How texts become masked rows.

    Attributes:
        sequence_length: int. Columns of a row.
        rows: string. `"packed"`: many short texts in a row; `"full_sentences"`: runs of sentences of
            one document (Liu et al. 2019, section 4.2).
        next_sentence: bool. Rows hold pairs of texts, half of which follow each other.
        masking: string. `"word"` or `"token"`.
        mask_rate: float. Share of the pieces to mask.
        max_predictions_per_row: int or `None`: the budget of a full row.
        replacement: string. Random replacements from the corpus's `"unigram"` counts or `"uniform"`.
    """

    sequence_length: int = 128
    rows: str = "packed"
    next_sentence: bool = False
    masking: str = "word"
    mask_rate: float = 0.15
    max_predictions_per_row: int | None = None
    replacement: str = "unigram"

    def __post_init__(self) -> None:
        check_choice("rows", self.rows, ROWS)
        check_choice("replacement", self.replacement, REPLACEMENTS)

    @property
    def max_pairs_per_row(self) -> int:
        """Places for pairs in a packed row; one in a row that a pair fills."""
        return 1 if self.rows == "full_sentences" else max(1, self.sequence_length // 16)

    def mask_rules(self, tokenizer: Bert2DTokenizer, piece_counts: list[int] | None) -> MaskRules:
        """Returns the rules of masking for a tokenizer and the counts of its pieces."""
        return MaskRules.of(
            tokenizer,
            self.sequence_length,
            self.mask_rate,
            self.masking,
            self.max_predictions_per_row,
            np.array(piece_counts) if self.replacement == "unigram" and piece_counts else None,
        )


def epoch_rows(
    folder: Path,
    manifest: Manifest,
    rules: RowRules,
    settings: RowSettings,
    seed: int,
    epoch: tf.Tensor,
    start: Place,
    held_out: HeldOut | None = None,
) -> tf.data.Dataset:
    """The rows of one epoch, from `start` on where it is the start's epoch, a window at a time.

    Returns:
        Dataset of dicts of int32 tensors `[row, …]`; `place`, `[row, 3]`, is each row's `Place`.
    """
    is_start = epoch == start.epoch
    # Where sentences must follow one another, records stay together in runs.
    keep_runs = settings.rows == "full_sentences" or settings.next_sentence
    first_window = tf.where(is_start, tf.cast(start.window, tf.int64), 0)
    windows = epoch_windows(folder, manifest, seed, epoch, first_window, held_out, keep_runs)
    row_seed = -(tf.cast(seed, tf.int64) * 1_000_003 + epoch + 1)

    def make(window, indices_and_records):
        indices, serialized = indices_and_records
        texts = decode_records(serialized, len(manifest.piece_counts))
        rows = _window_rows(*texts, indices, rules, settings, tf.stack([row_seed, window]))
        count = tf.shape(rows["token_ids"], tf.int64)[0]
        numbers = tf.range(count)
        rows["place"] = tf.cast(
            tf.stack([tf.fill([count], epoch), tf.fill([count], window), numbers], 1), tf.int32
        )
        done = tf.where(is_start & (window == start.window), start.row + 1, 0)
        return {name: value[done:] for name, value in rows.items()}

    return windows.map(make, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def without_endless_search(rows: tf.data.Dataset, manifest: Manifest) -> tf.data.Dataset:
    """Raises where window after window has no row, of one epoch and the next, as it would be without end."""
    # An epoch of few pairs may miss them all by chance, but not so many.
    limit = most_windows(manifest) + 64

    def count_empty(empty, window):
        empty = tf.where(tf.shape(window["token_ids"])[0] > 0, 0, empty + 1)
        tf.debugging.assert_less(empty, limit, "The shards give no row: documents are too short for pairs.")
        return empty, window

    return rows.scan(tf.constant(0), count_empty)


def _window_rows(texts, documents, per_record, indices, rules, settings, seed) -> dict[str, tf.Tensor]:
    """Rows of one window: texts shuffled and packed, or runs of sentences, or pairs."""
    seeds = tf.unstack(tf.random.split(seed, 2, alg="philox"))
    if settings.rows == "packed" and not settings.next_sentence:
        order = tf.random.experimental.stateless_shuffle(tf.range(texts.nrows()), seeds[0], alg="philox")
        return pack_texts(tf.gather(texts, order), rules)

    group_splits = _group_splits(documents, indices, per_record)
    if settings.rows == "full_sentences":
        room = rules.room(2)
        if settings.next_sentence:
            room = tuple(limit // 2 for limit in rules.room(3))
        texts, groups = join_sentences(texts, group_splits, *room)
        documents = tf.gather(documents, tf.gather(group_splits, groups))
        group_splits = tf.searchsorted(groups, tf.range(tf.size(group_splits, tf.int64)), out_type=tf.int64)
    if settings.next_sentence:
        first, second, labels = choose_pairs(group_splits, documents, seeds[1])
        order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(first)), seeds[0], alg="philox")
        first, second, labels = (tf.gather(part, order) for part in (first, second, labels))
        return pack_pairs(
            tf.gather(texts, first), tf.gather(texts, second), labels, rules, settings.max_pairs_per_row
        )
    order = tf.random.experimental.stateless_shuffle(tf.range(texts.nrows()), seeds[0], alg="philox")
    return make_rows(rules, tf.gather(texts, order))


def _group_splits(documents: tf.Tensor, indices: tf.Tensor, per_record: tf.Tensor) -> tf.Tensor:
    """Row splits of texts that follow one another in one document."""
    follows = tf.concat([[False], indices[1:] == indices[:-1] + 1], 0)
    starts = tf.cumsum(per_record, exclusive=True)
    breaks = tf.boolean_mask(starts, ~follows)
    changes = tf.where(documents[1:] != documents[:-1])[:, 0] + 1
    splits, _ = tf.unique(tf.sort(tf.concat([breaks, changes], 0)))
    return tf.concat([splits, [tf.size(documents, tf.int64)]], 0)
