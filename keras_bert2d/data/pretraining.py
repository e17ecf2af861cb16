"""Shards to masked batches: the input of pretraining, the same for `model.fit` and for our own loop.

Rows come from `epochs`; here they are put into batches and masked. Masks hang on seed and step, not on how
the step was reached.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert2d.data.epochs import RowSettings, epoch_rows, without_endless_search
from keras_bert2d.data.shards import Manifest, check_digests, read_manifest, read_tokenizer
from keras_bert2d.data.windows import HeldOut, Place
from keras_bert2d.errors import InputError
from keras_bert2d.reading.texts import read_text_blocks
from keras_bert2d.text.masking import mask_rows
from keras_bert2d.text.packing import pack_texts
from keras_bert2d.text.rows import RowRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer

# Steps whose masks are made in one go, for speed.
MASKED_STEPS = 16


def pretraining_dataset(
    shards: str | Path,
    settings: RowSettings,
    batch_size: int,
    seed: int = 0,
    *,
    step: int = 0,
    place: Place | None = None,
    with_place: bool = False,
    held_out_every: int | None = None,
    check: bool = True,
) -> tf.data.Dataset:
    """Endless masked batches from shards, for `model.fit` or for the pretraining loop.

    Args:
        shards: A shards folder.
        settings: `RowSettings`.
        batch_size: int. Rows of a batch.
        seed: int. Fixes the order, the rows and the masks.
        step: int. The step of the first batch: masks hang on it.
        place: `Place` behind which to start; `None`: at the start.
        with_place: bool. Adds `place` to the features, int32 `[row, 3]`: the batch's last row, in all rows.
        held_out_every: int or `None`. Every n-th record is left out, see `held_out_dataset`.
        check: bool. Whether to compare all shards with their digests first: once in a process is enough.

    Returns:
        Dataset of `(features, labels, weights)`, see `mask_rows`; all shapes are static. With
        `next_sentence` labels and weights are dicts with `masked_lm` and `next_sentence`.

    Raises:
        InputError: The folder is no shards folder, a shard in it is damaged or missing, or it has fewer
            than two documents for next-sentence prediction.
    """
    manifest, tokenizer = _read_shards(shards, check)
    check_documents(manifest, settings)
    _check_held_out(held_out_every)
    rules = RowRules.of(tokenizer, settings.sequence_length)
    if settings.next_sentence and min(rules.room(3)) < 2:
        raise InputError(
            "A pair needs `sequence_length` and `max_words` of at least 5. "
            f"Received: sequence_length={settings.sequence_length}, max_words={rules.id_rules.max_words}"
        )
    start = place or Place()
    held_out = None if held_out_every is None else HeldOut(held_out_every)
    epochs = tf.data.Dataset.range(start.epoch, np.iinfo(np.int64).max)
    rows = epochs.flat_map(
        lambda epoch: epoch_rows(Path(shards), manifest, rules, settings, seed, epoch, start, held_out)
    )
    return _masked_batches(
        without_endless_search(rows, manifest),
        settings,
        settings.mask_rules(tokenizer, manifest.piece_counts),
        batch_size,
        seed,
        step,
        with_place,
    )


def raw_text_dataset(
    files: str | list[str],
    tokenizer: Bert2DTokenizer,
    settings: RowSettings,
    batch_size: int,
    seed: int = 0,
    lines_per_window: int = 2048,
    encoding: str = "utf-8",
) -> tf.data.Dataset:
    """Masked batches straight from text files, one text a line, once through: no shards, no shuffling.

    For a look, for evaluation, and for text that is seen once; `pretraining_dataset` is for training.

    Args:
        files: Text files or folders, see `keras_bert2d.reading.texts.read_text_blocks`.
        tokenizer: `Bert2DTokenizer`.
        settings: `RowSettings` with packed rows and without next-sentence prediction; random
            replacements are uniform.
        batch_size: int. Rows of a batch.
        seed: int. Seed of the masks.
        lines_per_window: int. Lines that are packed together.
        encoding: string. The encoding of the files.

    Returns:
        Finite dataset of `(features, labels, weights)`, see `mask_rows`.

    Raises:
        InputError: The settings ask for more than packed rows, or a file cannot be read.
    """
    if settings.rows != "packed" or settings.next_sentence:
        raise InputError("Rows from raw text are packed rows: make shards with `prepare` for other ones.")
    rules = RowRules.of(tokenizer, settings.sequence_length)
    # What can be refused is refused here; inside the dataset it would be TensorFlow's error.
    read_text_blocks(files, encoding=encoding)
    lines = tf.data.Dataset.from_generator(
        lambda: (block.lines for block in read_text_blocks(files, encoding=encoding)),
        output_signature=tf.TensorSpec([None], tf.string),
    )
    rows = lines.rebatch(lines_per_window).map(
        lambda lines: pack_texts(tokenizer.tokenize(lines), rules),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return _masked_batches(rows, settings, settings.mask_rules(tokenizer, None), batch_size, seed, 0, False)


def held_out_dataset(
    shards: str | Path,
    settings: RowSettings,
    batch_size: int,
    held_out_every: int,
    max_batches: int,
    check: bool = True,
) -> tf.data.Dataset:
    """The records that `pretraining_dataset` leaves out, once, with the same masks every time.

    Args:
        shards, settings, batch_size, check: as for `pretraining_dataset`.
        held_out_every: int. Every n-th record.
        max_batches: int. At most so many batches. A last batch that is not full is left out.

    Returns:
        Finite dataset of `(features, labels, weights)`.
    """
    manifest, tokenizer = _read_shards(shards, check)
    _check_held_out(held_out_every)
    rows = epoch_rows(
        Path(shards),
        manifest,
        RowRules.of(tokenizer, settings.sequence_length),
        settings,
        0,
        tf.constant(0, tf.int64),
        Place(),
        HeldOut(held_out_every, read=True),
    )
    masks = settings.mask_rules(tokenizer, manifest.piece_counts)
    return _masked_batches(rows, settings, masks, batch_size, 0, 0, False).take(max_batches)


def held_out_interval(manifest: Manifest, share: float) -> int | None:
    """Every how many records one is held out: at least one of all, at most one of two.

    Args:
        manifest: `Manifest`.
        share: float. The share of the records to hold out.

    Returns:
        int, or `None` where nothing is held out: no share, or a single record.
    """
    if not 0 <= share < 0.5:
        raise InputError(f"The share of held-out data must lie in [0, 0.5). Received: {share}")
    if share == 0 or manifest.records < 2:
        return None
    return max(2, min(round(1 / share), manifest.records))


def _read_shards(shards: str | Path, check: bool) -> tuple[Manifest, Bert2DTokenizer]:
    manifest = read_manifest(shards)
    if check:
        # While training, a damaged record would only be TensorFlow's DataLossError.
        check_digests(shards, manifest)
    return manifest, read_tokenizer(shards)


def _check_held_out(held_out_every: int | None) -> None:
    if held_out_every is not None and held_out_every < 2:
        raise InputError(f"`held_out_every` must be at least 2. Received: held_out_every={held_out_every}")


def check_documents(manifest: Manifest, settings: RowSettings) -> None:
    """Refuses next-sentence prediction without a second document to draw from."""
    texts = sum(shard.texts for shard in manifest.shards)
    if settings.next_sentence and not 2 <= manifest.documents < texts:
        raise InputError(
            "Next-sentence prediction needs at least two documents, and documents of several lines; the "
            f"shards have {texts} lines in {manifest.documents} documents. Part documents by blank lines, or "
            "prepare with `--document file`."
        )


def _masked_batches(rows, settings, masks, batch_size, seed, step, with_place) -> tf.data.Dataset:
    """Batches of rows, masked by seed and step; a last one that is not full is left out."""

    def mask(number, batch):
        first = step + number * MASKED_STEPS
        # The last of finite data is filled up with empty rows, so that no full batch of it is lost.
        count = tf.shape(batch["token_ids"])[0]
        full = batch_size * MASKED_STEPS
        batch = {
            name: tf.ensure_shape(tf.pad(value, [[0, full - count], [0, 0]]), [full, value.shape[1]])
            for name, value in batch.items()
        }
        masked = _labelled(mask_rows(batch, masks, seed, first, MASKED_STEPS), settings)
        return tf.nest.map_structure(lambda value: value[:count], masked)

    def finish(features, labels, weights):
        columns = {name: settings.sequence_length for name in features}
        columns |= {
            "mask_positions": masks.max_predictions_per_row,
            "pair_positions": settings.max_pairs_per_row,
            "place": 3,
        }
        place = features.pop("place", None)
        if with_place:
            features["place"] = tf.repeat(place[-1:], batch_size, 0)
        features = {
            name: tf.ensure_shape(value, [batch_size, columns[name]]) for name, value in features.items()
        }
        return features, labels, weights

    return (
        rows.rebatch(batch_size * MASKED_STEPS)
        .enumerate()
        .map(mask, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .rebatch(batch_size, drop_remainder=True)
        .map(finish)
        .prefetch(tf.data.AUTOTUNE)
    )


def _labelled(masked, settings):
    """Puts pair labels and weights beside those of the masks."""
    features, labels, weights = masked
    if not settings.next_sentence:
        return features, labels, weights
    features = dict(features)
    pair_labels, pair_weights = features.pop("pair_labels"), features.pop("pair_weights")
    return (
        features,
        {"masked_lm": labels, "next_sentence": pair_labels},
        {"masked_lm": weights, "next_sentence": pair_weights},
    )
