"""Rows to mask, and what was masked in them."""

import numpy as np

from keras_bert2d.text.masking import MaskRules
from keras_bert2d.text.packing import pack_texts
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import RowRules
from tests.text.test_rows import ragged

PAD, UNK, CLS, SEP, MASK = range(5)
SIZE = 60  # Pieces of the vocabulary that these rows are made of.


def mask_rules(most=20, rate=0.15, masking="word", weights=None):
    if weights is None:
        weights = np.r_[np.zeros(5), np.ones(SIZE - 5)]
    return MaskRules(MASK, (PAD, CLS, SEP, MASK), weights, most, rate, masking)


def packed(texts, length=32, max_words=64):
    return pack_texts(ragged(texts), RowRules(length, IdRules(max_words), CLS, SEP, PAD))


def random_texts(count, seed=0):
    """Texts of 1 to 12 words of 1 to 6 pieces, `[UNK]` among them."""
    rng = np.random.default_rng(seed)
    return [
        [
            [UNK] if rng.random() < 0.1 else rng.integers(5, SIZE, rng.choice(6) + 1).tolist()
            for _ in range(rng.integers(1, 13))
        ]
        for _ in range(count)
    ]


def words_of(rows):
    """For each row the columns of each word, as lists of columns, special pieces and padding too."""
    words = np.stack([rows["padding_mask"], rows["word_position_ids"]], -1)
    return [np.split(np.arange(len(row)), np.flatnonzero((row[1:] != row[:-1]).any(-1)) + 1) for row in words]


def picked(rows, features, labels, weights):
    """For each row the masked columns, after checking places, labels and weights."""
    result = []
    for before, after, places, row_labels, row_weights in zip(
        *(np.asarray(x) for x in (rows["token_ids"], features["token_ids"])),
        *(np.asarray(x) for x in (features["mask_positions"], labels, weights)),
        strict=True,
    ):
        count = int(row_weights.sum())
        assert row_weights.tolist() == [1.0] * count + [0.0] * (len(row_weights) - count)
        columns = places[:count].tolist()
        assert columns == sorted(set(columns))
        assert row_labels.tolist() == [*before[columns], *[0] * (len(row_weights) - count)]
        assert places[count:].tolist() == [0] * (len(row_weights) - count)
        others = np.delete(np.arange(len(before)), columns)
        assert (before[others] == after[others]).all()
        result.append(set(columns))
    return result
