import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.text.masking import mask_rows
from keras_bert2d.text.rows import ROW_KEYS
from tests.text.masked_rows import (
    CLS,
    MASK,
    PAD,
    SEP,
    SIZE,
    mask_rules,
    packed,
    random_texts,
)


def test_position_ids_segments_and_texts_stay_as_they_were():
    rows = packed(random_texts(50))
    features, _, _ = mask_rows({**rows, "pair_positions": tf.zeros([3, 1])}, mask_rules(), 1, 1)
    assert set(features) == {*ROW_KEYS, "mask_positions", "pair_positions"}
    for name in set(ROW_KEYS) - {"token_ids"}:
        assert features[name] is rows[name]


@pytest.fixture(scope="module")
def many():
    """The original and the shown piece of some 16,000 predictions, replacements by unigram counts."""
    counts = np.r_[np.full(5, 1000.0), np.arange(SIZE - 5.0)]
    counts[:5] = 0
    rows = packed([[[piece] for piece in range(5, SIZE)] * 2] * 1000, length=112, max_words=112)
    features, labels, weights = mask_rows(rows, mask_rules(weights=counts), 11, 12)
    real = weights > 0
    shown = tf.gather(features["token_ids"], features["mask_positions"], batch_dims=1)
    return tf.boolean_mask(labels, real).numpy(), tf.boolean_mask(shown, real).numpy(), counts


def test_80_10_10_drawn_for_each_piece(many):
    labels, shown, counts = many
    n = len(labels)
    assert n > 15_000
    same_by_chance = 0.1 * (counts / counts.sum())[labels].mean()
    for share, expected in [
        ((shown == MASK).mean(), 0.8),
        ((shown == labels).mean(), 0.1 + same_by_chance),
        (((shown != MASK) & (shown != labels)).mean(), 0.1 - same_by_chance),
    ]:
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / n)


def test_the_pieces_of_a_word_are_drawn_one_by_one():
    rows = packed([[[10, 11, 12, 13]] * 6] * 500)
    features, labels, weights = mask_rows(rows, mask_rules(4), 1, 1)
    shown = tf.gather(features["token_ids"], features["mask_positions"], batch_dims=1)
    masked = tf.boolean_mask(shown == MASK, weights[:, 0] > 0).numpy()
    mixed = (masked.any(1) & ~masked.all(1)).mean()
    assert abs(mixed - (1 - 0.8**4 - 0.2**4)) < 0.1


def test_replacements_are_never_special_and_follow_the_counts(many):
    labels, shown, counts = many
    replaced = shown[(shown != MASK) & (shown != labels)]
    assert replaced.min() >= 5
    assert 5 not in replaced  # Its count is 0.
    found = np.bincount(replaced, minlength=SIZE)[5:]
    chances = counts[5:] / counts.sum() * (1 - 1 / (SIZE - 5))
    expected = chances / chances.sum() * len(replaced)
    chi_square = ((found - expected)[1:] ** 2 / expected[1:]).sum()
    # 53 degrees of freedom: mean 53, standard deviation about 10.
    assert chi_square < 53 + 4 * np.sqrt(2 * 53)


def test_uniform_replacements_are_all_pieces_but_the_special_ones():
    rows = packed([[[10]] * 100] * 1000, length=112, max_words=112)
    features, _, _ = mask_rows(rows, mask_rules(), 2, 2)
    shown = set(np.unique(features["token_ids"])) - {PAD, CLS, SEP, MASK}
    assert shown == set(range(5, SIZE))


# === The same again ===


def masks_of(rows, seed, step, **kwargs):
    features, labels, weights = mask_rows(rows, mask_rules(), seed, step, **kwargs)
    return [x.numpy().tolist() for x in (features["token_ids"], features["mask_positions"], labels, weights)]


def test_masks_hang_on_seed_step_and_row_alone():
    rows = packed(random_texts(60))
    first = masks_of(rows, 7, 3)
    assert first == masks_of(rows, 7, 3)
    assert first != masks_of(rows, 8, 3)
    assert first != masks_of(rows, 7, 4)
    # The first rows of a batch get the masks that they get in a smaller one.
    few = {name: value[:5] for name, value in rows.items()}
    assert masks_of(few, 7, 3) == [x[:5] for x in first]
    graph = tf.function(lambda rows, seed, step: mask_rows(rows, mask_rules(), seed, step))
    features, labels, weights = graph(rows, tf.constant(7, tf.int64), tf.constant(3, tf.int64))
    assert [labels.numpy().tolist(), weights.numpy().tolist()] == first[2:]
    assert features["token_ids"].numpy().tolist() == first[0]


def test_several_steps_at_once_give_what_they_give_one_by_one():
    rows = packed(random_texts(60))
    count = rows["token_ids"].shape[0] // 3
    rows = {name: value[: 3 * count] for name, value in rows.items()}
    together = masks_of(rows, 7, 40, steps=3)
    for i in range(3):
        part = {name: value[i * count : (i + 1) * count] for name, value in rows.items()}
        assert masks_of(part, 7, 40 + i) == [x[i * count : (i + 1) * count] for x in together]
