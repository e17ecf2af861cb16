"""Shards: tokenised text on disk, in TFRecord files with a manifest.

A record holds texts that follow one another, about `RECORD_PIECES` pieces: their piece ids, the pieces
of each word, the words of each text and the document of each text, as raw little-endian arrays. There
are no rows, ids, pairs or masks in it: those are made while training.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.files import sha256_of
from keras_bert2d.progress import progress
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.text.vocabulary import read_vocabulary, vocabulary_digest

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.txt"
RECORD_PIECES = 2048
FORMAT = 2

_FEATURES = {
    "pieces": tf.io.FixedLenFeature([], tf.string),
    "word_lengths": tf.io.FixedLenFeature([], tf.string),
    "text_lengths": tf.io.FixedLenFeature([], tf.string),
    "documents": tf.io.FixedLenFeature([], tf.string),
}


@dataclass
class Shard:
    """One file of a shards folder: its name, SHA-256 digest, corpus and counts."""

    file: str
    digest: str
    corpus: int
    records: int
    texts: int
    words: int
    pieces: int
    first_document: int
    last_document: int


@dataclass
class Manifest:
    """What is in a shards folder.

    Attributes:
        tokenizer: dict. The tokenizer's casing and id rules.
        vocabulary_digest: string. SHA-256 of the vocabulary.
        document: string. The rule that ended documents.
        corpora: list of dicts with `name` and `weight`, how often an epoch reads the corpus.
        shards: list of `Shard`.
        piece_counts: list of int. How often each piece stands in the corpora.
        unknown: int. The words that are `[UNK]`.
        format: int. The version of this layout.
    """

    tokenizer: dict
    vocabulary_digest: str
    document: str
    corpora: list[dict]
    shards: list[Shard]
    piece_counts: list[int] = field(repr=False)
    unknown: int
    format: int = FORMAT

    @property
    def texts(self) -> int:
        return sum(shard.texts for shard in self.shards)

    @property
    def words(self) -> int:
        return sum(shard.words for shard in self.shards)

    @property
    def records(self) -> int:
        return sum(shard.records for shard in self.shards)

    @property
    def pieces(self) -> int:
        return sum(shard.pieces for shard in self.shards)

    @property
    def documents(self) -> int:
        return max(shard.last_document for shard in self.shards) + 1

    def to_json(self) -> str:
        """Returns the text of `manifest.json`."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_manifest(folder: str | Path) -> Manifest:
    """Reads the manifest of a shards folder.

    Raises:
        InputError: There is none (the folder is unfinished or no shards folder), or it is damaged.
    """
    path = Path(folder) / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("format") != FORMAT:
            raise InputError(f"{path}: shards of format {data.get('format')!r}; this version reads {FORMAT}.")
        return Manifest(**{**data, "shards": [Shard(**shard) for shard in data["shards"]]})
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no {MANIFEST}: make shards with `keras-bert2d prepare … -o {folder}`, "
            "all parts of them."
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): make the shards again.") from None


def read_tokenizer(folder: str | Path, vocabulary: list[str] | None = None) -> Bert2DTokenizer:
    """Makes the tokenizer that a shards folder was made with.

    Args:
        folder: A shards folder.
        vocabulary: list of strings or `None`. A vocabulary that the user names: it must be the same.

    Raises:
        InputError: The vocabulary is not the one that the shards were made with.
    """
    manifest = read_manifest(folder)
    tokenizer = Bert2DTokenizer(read_vocabulary(Path(folder) / VOCABULARY), **manifest.tokenizer)
    for pieces, source in ((tokenizer.get_vocabulary(), f"{folder}/{VOCABULARY}"), (vocabulary, "--vocab")):
        if pieces is not None and vocabulary_digest(pieces) != manifest.vocabulary_digest:
            raise InputError(
                f"The vocabulary of {source} is not the one that the shards in {folder} were made with: "
                f"digest {vocabulary_digest(pieces)[:12]}…, the manifest says "
                f"{manifest.vocabulary_digest[:12]}…."
            )
    return tokenizer


def check_digests(folder: str | Path, manifest: Manifest) -> None:
    """Compares every shard with its digest.

    Raises:
        InputError: A shard is missing or is not what was written; it is named.
    """
    total = sum(shard.records for shard in manifest.shards)
    with progress(total, "checking shards", "records") as bar:
        for shard in manifest.shards:
            path = Path(folder) / shard.file
            if not path.is_file():
                fault = "is missing"
            elif sha256_of(path) != shard.digest:
                fault = "is damaged (its digest is not the manifest's)"
            else:
                bar.update(shard.records)
                continue
            raise InputError(
                f"The shard {path} {fault}: delete the folder's {MANIFEST}, then run `keras-bert2d prepare` "
                "again."
            )


def piece_dtype(vocabulary_size: int) -> tf.DType:
    """The type of the piece ids in records: two bytes where they fit."""
    return tf.uint16 if vocabulary_size <= 1 << 16 else tf.int32


def record_splits(pieces_of_texts: np.ndarray) -> np.ndarray:
    """Cuts texts into records of at least `RECORD_PIECES` pieces (but the last).

    Args:
        pieces_of_texts: int array `[text]`.

    Returns:
        int array `[records + 1]`, row splits of the texts.
    """
    ends = np.cumsum(pieces_of_texts)
    splits = [0]
    while splits[-1] < len(ends):
        before = ends[splits[-1] - 1] if splits[-1] else 0
        splits.append(min(int(np.searchsorted(ends, before + RECORD_PIECES)) + 1, len(ends)))
    return np.array(splits)


@dataclass
class FlatTexts:
    """Texts as records hold them, several times smaller than the ragged tensor they come from.

    Attributes:
        pieces: uint16 or int32 array `[all pieces]`, see `piece_dtype`.
        word_lengths: uint8 array `[all words]`. A word has 100 characters at the most, so one byte counts
            its pieces.
        text_lengths: int32 array `[texts]`. Words of each text.
    """

    pieces: np.ndarray
    word_lengths: np.ndarray
    text_lengths: np.ndarray

    @classmethod
    def of(cls, texts: tf.RaggedTensor, vocabulary_size: int) -> "FlatTexts":
        """Flattens an int32 ragged tensor `[text, (words), (pieces)]`."""
        return cls(
            texts.flat_values.numpy().astype(piece_dtype(vocabulary_size).as_numpy_dtype),
            texts.values.row_lengths().numpy().astype(np.uint8),
            texts.row_lengths().numpy().astype(np.int32),
        )

    @classmethod
    def joined(cls, parts: "list[FlatTexts]") -> "FlatTexts":
        """Returns the texts of all parts, one part after another."""
        return cls(
            np.concatenate([part.pieces for part in parts]),
            np.concatenate([part.word_lengths for part in parts]),
            np.concatenate([part.text_lengths for part in parts]),
        )


def write_records(path: Path, texts: FlatTexts, documents: np.ndarray) -> int:
    """Writes texts into a TFRecord file.

    Args:
        path: The file.
        texts: `FlatTexts`, each text of one word at least.
        documents: int64 array `[texts]`.

    Returns:
        The number of records.
    """
    word_splits = np.concatenate([[0], np.cumsum(texts.word_lengths, dtype=np.int64)])
    text_splits = np.concatenate([[0], np.cumsum(texts.text_lengths, dtype=np.int64)])
    splits = record_splits(np.diff(word_splits[text_splits]))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for first, last in zip(splits[:-1], splits[1:], strict=True):
            words = slice(text_splits[first], text_splits[last])
            arrays = {
                "pieces": texts.pieces[word_splits[words.start] : word_splits[words.stop]],
                "word_lengths": texts.word_lengths[words],
                "text_lengths": texts.text_lengths[first:last],
                "documents": documents[first:last].astype(np.int64),
            }
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[array.tobytes()]))
                for name, array in arrays.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            # Else the order of the features, and so the digest, hangs on the process.
            writer.write(example.SerializeToString(deterministic=True))
    return len(splits) - 1


def decode_records(records: tf.Tensor, vocabulary_size: int) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
    """Reads records back, all at once.

    Args:
        records: string tensor `[record]`.
        vocabulary_size: int.

    Returns:
        Texts, int32 ragged tensor `[text, (words), (pieces)]`; the document of each, int64 `[text]`;
        and the number of texts of each record, int64 `[record]`.
    """
    parsed = tf.io.parse_example(records, _FEATURES)

    def flat(name: str, dtype: tf.DType) -> tf.Tensor:
        return tf.io.decode_raw(tf.strings.reduce_join(parsed[name]), dtype)

    pieces = tf.cast(flat("pieces", piece_dtype(vocabulary_size)), tf.int32)
    words = tf.RaggedTensor.from_row_lengths(
        pieces, tf.cast(flat("word_lengths", tf.uint8), tf.int64), validate=False
    )
    texts = tf.RaggedTensor.from_row_lengths(
        words, tf.cast(flat("text_lengths", tf.int32), tf.int64), validate=False
    )
    per_record = tf.cast(tf.strings.length(parsed["documents"]) // 8, tf.int64)
    return texts, flat("documents", tf.int64), per_record
