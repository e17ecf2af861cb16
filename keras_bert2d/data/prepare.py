"""From corpora to shards: streamed, resumable, in parts that give the same shards as one run.

A shard holds the lines of about `shard_bytes` of one corpus. Where shards begin and end follows from
the input and that size alone, so every part finds the same borders and makes the shards whose number
is its own modulo the parts. Beside each finished shard lies a small `.json` until all are there; then
they become the manifest.
"""

import base64
import contextlib
import itertools
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert2d.data.shards import (
    MANIFEST,
    VOCABULARY,
    FlatTexts,
    Manifest,
    Shard,
    read_manifest,
    write_records,
)
from keras_bert2d.errors import InputError
from keras_bert2d.files import atomic_file, sha256_of
from keras_bert2d.progress import progress
from keras_bert2d.reading.encoding import check_encoding
from keras_bert2d.reading.texts import input_size, read_text_blocks
from keras_bert2d.text.special_tokens import UNK
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.text.vocabulary import (
    read_vocabulary,
    rules_file,
    vocabulary_digest,
    warn_if_unknown,
    write_vocabulary,
)

# What lies in a folder until its manifest is written, beside the notes of the shards.
_SETTINGS = "prepare.json"
_TOTAL = "total.json"
# Text that is tokenised in one go.
_BATCH_BYTES = 128 << 10


def prepare(
    corpora: Sequence[str | os.PathLike],
    tokenizer: Bert2DTokenizer,
    output: str | os.PathLike,
    *,
    weights: Sequence[float] | None = None,
    field: str | None = None,
    document: str = "blank",
    encoding: str = "utf-8",
    shard_bytes: int = 4 << 20,
    part: tuple[int, int] = (1, 1),
) -> Manifest | None:
    """Tokenises corpora into a shards folder.

    Started again with the same arguments, it goes on where it stopped. Several processes with parts
    `(1, n)` to `(n, n)` may fill one folder; the one that finishes last writes the manifest.

    Args:
        corpora: Paths as `read_text_blocks` takes them, each a corpus.
        tokenizer: `Bert2DTokenizer`.
        output: The shards folder.
        weights: How often an epoch reads each corpus, for example 0.5 or 2; `None`: once.
        field, document, encoding: See `read_text_blocks`.
        shard_bytes: int. Bytes of text in a shard.
        part: `(k, n)`: make the k-th of n parts of the shards.

    Returns:
        The manifest, or `None` where other parts are not finished yet.

    Raises:
        InputError: The input is unreadable or empty, or the folder holds shards of other settings.
    """
    if isinstance(corpora, (str, os.PathLike)):
        corpora = [corpora]
    number, parts = part
    if not 1 <= number <= parts:
        raise InputError(f"`--part k/n` needs 1 ≤ k ≤ n. Received: {number}/{parts}")
    weights = [1.0] * len(corpora) if weights is None else [float(weight) for weight in weights]
    if len(weights) != len(corpora) or not all(0 < weight < 1000 for weight in weights):
        raise InputError(
            f"One weight above 0 for each of the {len(corpora)} corpora is needed. Received: {weights}"
        )
    if shard_bytes < 1:
        raise InputError(f"`shard_bytes` must be at least 1. Received: shard_bytes={shard_bytes}")
    settings = {
        "tokenizer": tokenizer.rules,
        "vocabulary_digest": vocabulary_digest(tokenizer.get_vocabulary()),
        "document": document,
        "corpora": [
            {"name": os.fspath(corpus), "weight": weight}
            for corpus, weight in zip(corpora, weights, strict=True)
        ],
        "field": field,
        "encoding": check_encoding(encoding),
        "shard_bytes": shard_bytes,
        "input_bytes": input_size(corpora),
    }
    blocks = read_text_blocks(corpora, field=field, document=document, encoding=encoding)
    output = Path(output)
    _check_folder(output, settings)
    if (output / MANIFEST).exists():
        return read_manifest(output)
    # An input without text is refused before there is a folder.
    blocks = itertools.chain([next(blocks)], blocks)
    _claim(output, settings, tokenizer)

    total = 0
    with (
        progress(settings["input_bytes"], f"preparing {output}", "B") as bar,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for index, source, lines, documents, read in _shards_of(blocks, shard_bytes):
            total = index + 1
            if index % parts == number - 1 and not _note(output, index).exists():
                _write_shard(output, index, source, lines, documents, tokenizer, pool)
            bar.update(read)
    with atomic_file(output / _TOTAL) as file:
        json.dump(total, file)
    return _merge(output, settings, total)


def merge(folders: Sequence[str | os.PathLike], output: str | os.PathLike) -> Manifest:
    """Merges the folders of parts that were made apart, on several machines, into one shards folder.

    Args:
        folders: Folders that `prepare` filled with different parts of one run.
        output: The shards folder. Files are linked where the file system allows it, else copied.

    Raises:
        InputError: The parts are not of one run or not finished, shards are missing (the first one is
            named), or `output` holds shards of another run.
    """
    output = Path(output)
    folders = [Path(folder) for folder in folders]
    settings = _read_json(folders[0] / _SETTINGS)
    for folder in folders[1:]:
        _same_settings(folder, _read_json(folder / _SETTINGS), settings)
    _check_folder(output, settings)
    if (output / MANIFEST).exists():
        return read_manifest(output)
    for folder in folders:
        if not (folder / _TOTAL).exists():
            raise InputError(f"{folder} is no finished part: run `keras-bert2d prepare` for it again.")
    total = _read_json(folders[0] / _TOTAL)
    output.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        vocabulary = folder / VOCABULARY
        for path in [*sorted(folder.glob("shard-*")), vocabulary, rules_file(vocabulary), folder / _SETTINGS]:
            if not (output / path.name).exists():
                try:
                    os.link(path, output / path.name)
                except OSError:
                    shutil.copy2(path, output / path.name)
    manifest = _merge(output, settings, total)
    if manifest is None:
        missing = next(i for i in range(total) if not _note(output, i).exists())
        raise InputError(f"Shard {missing} of {total} is in none of the folders: prepare its part first.")
    return manifest


def _shards_of(blocks: Iterator, shard_bytes: int) -> Iterator[tuple[int, int, list[bytes], np.ndarray, int]]:
    """Gathers lines to shards: `(number, corpus, lines, documents, bytes read)`."""
    index, source, lines, documents, size, read = 0, None, [], [], 0, 0

    def shard():
        return index, source, lines, np.concatenate(documents), read

    for block in blocks:
        if lines and block.source != source:
            yield shard()
            index, lines, documents, size, read = index + 1, [], [], 0, 0
        source = block.source
        read += block.bytes_read
        sizes = np.fromiter(map(len, block.lines), np.int64, len(block.lines)) + 1
        start = 0
        while start < len(sizes):
            ends = size + np.cumsum(sizes[start:])
            stop = start + int(np.searchsorted(ends, shard_bytes)) + 1
            lines = lines + block.lines[start:stop]
            documents.append(block.documents[start:stop])
            size = int(ends[min(stop, len(sizes)) - start - 1])
            start = stop
            if size >= shard_bytes:
                yield shard()
                index, lines, documents, size, read = index + 1, [], [], 0, 0
    if lines:
        yield shard()


def _write_shard(output, index, source, lines, documents, tokenizer, pool) -> None:
    tokenize = _tokenize(tokenizer)
    texts = FlatTexts.joined(list(pool.map(tokenize, _batches(lines))))
    has_words = texts.text_lengths > 0
    documents, texts.text_lengths = documents[has_words], texts.text_lengths[has_words]
    path = output / f"shard-{index:05d}.tfrecord"
    temporary = output / f".{path.name}.{os.getpid()}.tmp"
    try:
        records = write_records(temporary, texts, documents)
        digest = sha256_of(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    shard = Shard(
        file=path.name,
        digest=digest,
        corpus=source,
        records=records,
        texts=len(texts.text_lengths),
        words=len(texts.word_lengths),
        pieces=len(texts.pieces),
        first_document=int(documents[0]) if len(documents) else 0,
        last_document=int(documents[-1]) if len(documents) else 0,
    )
    counts = np.bincount(texts.pieces, minlength=tokenizer.vocabulary_size()).astype("<u8")
    packed = base64.b64encode(zlib.compress(counts.tobytes())).decode()
    with atomic_file(_note(output, index)) as file:
        json.dump({"shard": asdict(shard), "counts": packed}, file)


def _batches(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Cuts lines into batches of about `_BATCH_BYTES`: lines may be short or have a megabyte."""
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)
    start = 0
    while start < len(lines):
        read = ends[start - 1] if start else 0
        stop = start + int(np.searchsorted(ends[start:], read + _BATCH_BYTES)) + 1
        yield lines[start:stop]
        start = stop


def _tokenize(tokenizer: Bert2DTokenizer):
    """One traced function for all batches: a thread of its own runs outside Python's lock."""
    if not hasattr(tokenizer, "_traced_tokenize"):
        tokenizer._traced_tokenize = tf.function(
            tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
        )

    def tokenize(lines: list[bytes]) -> FlatTexts:
        return FlatTexts.of(
            tokenizer._traced_tokenize(tf.constant(lines, tf.string)), tokenizer.vocabulary_size()
        )

    return tokenize


def _claim(output: Path, settings: dict, tokenizer: Bert2DTokenizer) -> None:
    """Marks a folder as that of these settings."""
    output.mkdir(parents=True, exist_ok=True)
    if (output / _SETTINGS).exists():
        return
    write_vocabulary(output / VOCABULARY, tokenizer.get_vocabulary(), tokenizer.rules)
    with atomic_file(output / _SETTINGS) as file:
        json.dump(settings, file, indent=1, ensure_ascii=False)


def _check_folder(output: Path, settings: dict) -> None:
    """Refuses a folder that is marked with other settings."""
    if (output / _SETTINGS).exists() or (output / MANIFEST).exists():
        _same_settings(output, _read_json(output / _SETTINGS), settings)


def _same_settings(output: Path, there: dict, wanted: dict) -> None:
    for key, value in wanted.items():
        if there.get(key) != value:
            raise InputError(
                f"{output} holds shards of another run: {key} is {there.get(key)!r} there and {value!r} "
                "here. Choose another folder, or delete this one."
            )


def _note(output: Path, index: int) -> Path:
    return output / f"shard-{index:05d}.json"


def _read_json(path: Path) -> dict | int:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _merge(output: Path, settings: dict, total: int) -> Manifest | None:
    """Makes the manifest where all shards are there."""
    notes = []
    for path in (_note(output, i) for i in range(total)):
        with contextlib.suppress(FileNotFoundError):
            notes.append(json.loads(path.read_text(encoding="utf-8")))
    # Another part may have merged meanwhile: it writes the manifest before it takes notes away.
    if (output / MANIFEST).exists():
        (output / _TOTAL).unlink(missing_ok=True)
        return read_manifest(output)
    if len(notes) < total:
        return None
    counts = sum(
        np.frombuffer(zlib.decompress(base64.b64decode(note["counts"])), "<u8").astype(np.int64)
        for note in notes
    )
    manifest = Manifest(
        tokenizer=settings["tokenizer"],
        vocabulary_digest=settings["vocabulary_digest"],
        document=settings["document"],
        corpora=settings["corpora"],
        shards=[Shard(**note["shard"]) for note in notes],
        piece_counts=counts.tolist(),
        # An unknown word is one piece.
        unknown=int(counts[read_vocabulary(output / VOCABULARY).index(UNK)]),
    )
    if not manifest.pieces:
        raise InputError("The input has no word: it holds control characters only.")
    source = ", ".join(corpus["name"] for corpus in settings["corpora"])
    warn_if_unknown(manifest.unknown, manifest.words, settings["tokenizer"]["casing"], source)
    with atomic_file(output / MANIFEST) as file:
        file.write(manifest.to_json())
    for i in range(total):
        _note(output, i).unlink(missing_ok=True)
    (output / _TOTAL).unlink(missing_ok=True)
    return manifest
