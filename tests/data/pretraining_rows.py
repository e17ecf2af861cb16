"""What stands in the rows of pretraining batches, and where in the corpus it stands."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf

from keras_bert2d.data.windows import Place
from keras_bert2d.text.rows import ROW_KEYS


class Corpus:
    """All pieces of a corpus one after another, and where a run of pieces stands in it."""

    def __init__(self, documents, tokenizer):
        self.texts = [tokenizer.tokenize(lines).to_list() for lines in documents]
        self.pieces, self.document, self.text, self.starts = [], [], [], set()
        count = 0
        for number, texts in enumerate(self.texts):
            for text in texts:
                self.starts.add(len(self.pieces))
                flat = [piece for word in text for piece in word]
                self.pieces += flat
                self.document += [number] * len(flat)
                self.text += [count] * len(flat)
                count += 1

    def find(self, pieces):
        """Where the pieces stand: in one place, in one document."""
        size = len(pieces)
        found = [i for i in range(len(self.pieces)) if self.pieces[i : i + size] == pieces]
        assert len(found) == 1 and self.document[found[0]] == self.document[found[0] + size - 1]
        return range(found[0], found[0] + size)

    def times_read(self, rows):
        """How often rows hold each piece."""
        times = np.zeros(len(self.pieces), int)
        for row in rows:
            for text in row.texts():
                for part in text:
                    times[self.find(part)] += 1
        return times


@dataclasses.dataclass
class Row:
    """One row of a batch, with its masked pieces put back."""

    features: dict
    labels: dict | np.ndarray
    weights: dict | np.ndarray

    @property
    def place(self):
        return Place(*self.features["place"].tolist())

    def unmasked(self):
        labels, weights = self.labels, self.weights
        if isinstance(labels, dict):
            labels, weights = labels["masked_lm"], weights["masked_lm"]
        tokens = self.features["token_ids"].copy()
        tokens[self.features["mask_positions"][weights > 0]] = labels[weights > 0]
        return {**{name: self.features[name] for name in ROW_KEYS}, "token_ids": tokens}

    def texts(self, cls=2, sep=3):
        """For each packed text its parts, one or two, as pieces."""
        row = self.unmasked()
        texts = []
        for number in range(1, row["padding_mask"].max() + 1):
            first, *pieces, last = row["token_ids"][row["padding_mask"] == number].tolist()
            assert (first, last) == (cls, sep)
            parts = [list(group) for is_sep, group in itertools.groupby(pieces, sep.__eq__) if not is_sep]
            texts.append(parts)
        return texts


def rows_of(dataset):
    """Yields the rows of batches."""
    for batch in dataset.as_numpy_iterator():
        for i in range(len(batch[0]["token_ids"])):
            yield Row(*tf.nest.map_structure(lambda array, i=i: array[i], batch))


def read_epochs(dataset, epochs):
    """The rows of the first epochs of batches of one row."""
    return list(itertools.takewhile(lambda row: row.place.epoch < epochs, rows_of(dataset)))


def assert_equal(rows, others):
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, vars(row), vars(other))
