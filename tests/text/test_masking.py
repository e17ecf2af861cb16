import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.text.masking import MaskRules, choose_words, mask_rows
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import RowRules, pair_rows, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests import reference
from tests.text.masked_rows import (
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    mask_rules,
    packed,
    picked,
    random_texts,
    words_of,
)
from tests.text.test_rows import ragged


@st.composite
def rows_of_words(draw):
    """Rows as lists of `(pieces, maskable)`, all of one length, and a key for each word."""
    columns = draw(st.integers(1, 30))
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        words, left = [], columns
        while left:
            size = min(left, draw(st.integers(1, 7)))
            words.append((size, draw(st.booleans())))
            left -= size
        rows.append(words)
    # Float32 numbers that all differ: in what order equal keys come is no rule.
    keys = [draw(st.permutations(range(columns))) for _ in rows]
    return rows, np.array(keys, np.float32) / columns


@settings(max_examples=80, deadline=None)
@given(
    drawn=rows_of_words(),
    rate=st.sampled_from([0.1, 0.15, 0.2, 0.4, 0.9]),
    most=st.integers(1, 12),
)
def test_words_are_chosen_greedily_in_random_order_under_the_budget(drawn, rate, most):
    rows, keys = drawn
    columns = keys.shape[1]
    opens = np.zeros((len(rows), columns), bool)
    maskable = np.zeros_like(opens)
    expected = np.zeros_like(opens)
    for i, words in enumerate(rows):
        starts = np.cumsum([0, *(size for size, _ in words)])
        opens[i, starts[:-1]] = True
        chosen = reference.masked_words(
            [size if good else 0 for size, good in words], keys[i].tolist(), rate, most
        )
        for number, (size, good) in enumerate(words):
            maskable[i, starts[number] : starts[number] + size] = good
            expected[i, starts[number] : starts[number] + size] = number in chosen
    got = choose_words(tf.constant(opens), tf.constant(maskable), mask_rules(most, rate), tf.constant(keys))
    assert got.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("pieces", "rate", "most", "budget"),
    [
        (14, 0.15, 20, 2),  # ⌊2.1 + ½⌋
        (10, 0.15, 20, 2),  # ⌊1.5 + ½⌋
        (9, 0.15, 20, 1),
        (1, 0.15, 20, 1),  # At least one.
        (100, 0.15, 10, 10),  # At most `max_predictions_per_row`.
        (30, 0.5, 20, 15),
    ],
)
def test_the_budget_of_a_row(pieces, rate, most, budget):
    rows = packed([[[10]] * pieces], length=pieces + 4, max_words=pieces + 4)
    _, _, weights = mask_rows(rows, mask_rules(most, rate), 1, 2)
    assert weights.shape == (1, most)
    assert float(tf.reduce_sum(weights)) == budget


@pytest.mark.parametrize(
    ("lengths", "most", "masked"),
    [
        ([5], 5, 5),  # ⌊0.75 + ½⌋ = 1 fits no word: the shortest is masked …
        ([5, 4, 6], 5, 4),
        ([5], 4, 0),  # … where a row may have so many predictions, else none.
        ([5, 1, 5], 5, 1),
    ],
)
def test_where_no_word_fits_the_shortest_is_masked(lengths, most, masked):
    rows = packed([[[10] * length for length in lengths]])
    _, _, weights = mask_rows(rows, mask_rules(most), 1, 2)
    assert float(tf.reduce_sum(weights)) == masked


@pytest.mark.parametrize("most", [2, 5, 20])
def test_masks_are_whole_words_within_the_budget_and_never_special(most):
    rows = {name: value.numpy() for name, value in packed(random_texts(400)).items()}
    results = mask_rows(rows, mask_rules(most), 3, 4)
    unknown = 0
    for i, (columns, words) in enumerate(zip(picked(rows, *results), words_of(rows), strict=True)):
        tokens = rows["token_ids"][i]
        assert not {PAD, CLS, SEP, MASK} & set(tokens[list(columns)])
        for word in words:
            assert columns.issuperset(word) or columns.isdisjoint(word)
        pieces = int(np.isin(tokens, [PAD, CLS, SEP], invert=True).sum())
        budget = min(most, max(1, int(np.floor(0.15 * pieces + 0.5))))
        sizes = [len(word) for word in words if tokens[word[0]] not in (PAD, CLS, SEP)]
        assert len(columns) <= budget or min(sizes) == len(columns) <= most
        assert columns or min(sizes) > most
        unknown += (tokens[list(columns)] == UNK).sum()
    assert unknown > 0  # [UNK] may be masked.


def test_a_packed_row_has_one_budget():
    rows = packed([[[10]] * 8, [[11]] * 8])
    assert rows["token_ids"].shape[0] == 1
    _, _, weights = mask_rows(rows, mask_rules(), 0, 0)
    assert float(tf.reduce_sum(weights)) == 2  # ⌊0.15 · 16 + ½⌋, not one for each text and a rest.


def test_a_row_without_words_has_no_predictions():
    rows = single_rows(ragged([[], [[10]]]), RowRules(8, IdRules(), CLS, SEP, PAD))
    features, labels, weights = mask_rows(rows, mask_rules(3), 0, 0)
    assert weights.numpy().tolist() == [[0, 0, 0], [1, 0, 0]]
    assert labels.numpy().tolist() == [[0, 0, 0], [10, 0, 0]]
    assert features["mask_positions"].numpy().tolist() == [[0, 0, 0], [1, 0, 0]]


def test_no_rows_give_no_masks():
    features, labels, weights = mask_rows(packed([]), mask_rules(3), 0, 0)
    assert features["token_ids"].shape == (0, 32)
    assert labels.shape == weights.shape == features["mask_positions"].shape == (0, 3)


@pytest.mark.parametrize("numbering", ["continue", "restart"])
def test_words_side_by_side_in_pairs_are_masked_apart(numbering):
    ids = IdRules(word_numbering=numbering)
    texts = random_texts(200)
    rows = pair_rows(ragged(texts), ragged(texts[::-1]), RowRules(48, ids, CLS, SEP, PAD))
    rows = {name: value.numpy() for name, value in rows.items()}
    for columns, words in zip(
        picked(rows, *mask_rows(rows, mask_rules(), 5, 6)), words_of(rows), strict=True
    ):
        assert all(columns.issuperset(word) or columns.isdisjoint(word) for word in words)


def test_token_masking_takes_single_pieces_under_the_same_budget():
    rows = {name: value.numpy() for name, value in packed([[[10] * 6] * 4] * 100).items()}
    results = mask_rows(rows, mask_rules(masking="token"), 1, 1)
    columns = picked(rows, *results)
    assert {len(row) for row in columns} == {4}  # ⌊0.15 · 24 + ½⌋
    assert not any(
        row.issuperset(word) for row, words in zip(columns, words_of(rows), strict=True) for word in words
    )
    assert len({frozenset(row) for row in columns}) > 50


# === From a tokenizer ===


def test_rules_of_a_tokenizer(tiny_vocabulary):
    tokenizer = Bert2DTokenizer(tiny_vocabulary)
    rules = MaskRules.of(tokenizer, 128)
    assert rules.max_predictions_per_row == 19  # ⌊0.15 · 128 + ½⌋
    assert set(rules.unmaskable_ids) == {PAD, CLS, SEP, MASK}
    assert np.flatnonzero(rules.replacement_weights == 0).tolist() == [*range(5)]
    counts = np.arange(len(tiny_vocabulary))
    weights = MaskRules.of(tokenizer, 128, counts=counts).replacement_weights
    assert weights.tolist() == [0.0] * 5 + counts[5:].tolist()
    assert counts[1] == 1  # The caller's counts stay as they were.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"masking": "span"}, "masking='span'"),
        ({"rate": 0.0}, "rate=0.0"),
        ({"rate": 1.5}, "rate=1.5"),
        ({"max_predictions_per_row": 0}, "max_predictions_per_row=0"),
        ({"counts": [1, 2, 3]}, r"counts of shape \(3,\)"),
    ],
)
def test_impossible_rules_are_refused_by_name(tiny_vocabulary, arguments, named):
    with pytest.raises(InputError, match=named):
        MaskRules.of(Bert2DTokenizer(tiny_vocabulary), 128, **arguments)


def test_a_vocabulary_without_pieces_to_replace_by_is_refused():
    with pytest.raises(InputError, match="beside the special ones"):
        MaskRules.of(Bert2DTokenizer(list(reference.SPECIAL)), 128)
