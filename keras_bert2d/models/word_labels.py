"""Words and their labels, read from the columns of rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class TaggedWord(NamedTuple):
    """A word that was found in a sentence, with its label.

    Attributes:
        word: string. `sentence[start:end]`.
        label: string, or `None` where the row was full before the word.
        start: int. Place of the word's first character in the sentence.
        end: int. Place after its last character.
    """

    word: str
    label: str | None
    start: int
    end: int


class WordPlaces(NamedTuple):
    """Where the words of a batch stand; NumPy arrays, one row behind another.

    Attributes:
        columns: int32 `[kept words]`. The column of the first piece of each word in its row.
        kept: int64 `[row]`. The words that are in the row; a row's kept words are its first.
        given: int64 `[row]`. The words before the row was cut.
        starts: int64 `[given words]`. For sentences, the first character of each word; else empty.
        ends: int64 `[given words]`. For sentences, the place after its last character; else empty.
        sentences: bytes `[row]`, or `None` where words were given.
    """

    columns: np.ndarray
    kept: np.ndarray
    given: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    sentences: np.ndarray | None


def label_words(places: WordPlaces, ids: np.ndarray, names: Sequence[str]) -> list[list]:
    """Names the labels of a batch's words.

    Args:
        places: `WordPlaces`.
        ids: int array `[row, columns]`, the label id of each column.
        names: list of strings, the labels.

    Returns:
        What `Bert2DTokenClassifier.predict` returns for the batch.
    """
    names = np.array(names, object)
    row = np.repeat(np.arange(len(places.given)), places.given)
    ends = np.cumsum(places.given)
    kept = np.arange(len(row)) - (ends - places.given)[row] < places.kept[row]
    labels = np.full(len(row), None, object)
    labels[kept] = names[ids[row[kept], places.columns]]

    def by_row(values: np.ndarray) -> list[list]:
        return [part.tolist() for part in np.split(values, ends[:-1])]

    if places.sentences is None:
        return by_row(labels)
    texts = (sentence.decode("utf-8", "replace") for sentence in places.sentences)
    columns = map(by_row, (labels, places.starts, places.ends))
    return [
        [TaggedWord(text[i:j], label, i, j) for label, i, j in zip(*words, strict=True)]
        for text, *words in zip(texts, *columns, strict=True)
    ]
