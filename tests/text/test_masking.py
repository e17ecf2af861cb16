import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.text.masking import MaskRules, choose_words, mask_rows
from keras_bert2d.text.packing import pack_texts
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import ROW_KEYS, RowRules, pair_rows, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests import reference
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


# === Which words ===


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


# === What stands there then ===


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


def test_token_masking_takes_single_pieces_under_the_same_budget():
    rows = {name: value.numpy() for name, value in packed([[[10] * 6] * 4] * 100).items()}
    results = mask_rows(rows, mask_rules(masking="token"), 1, 1)
    columns = picked(rows, *results)
    assert {len(row) for row in columns} == {4}  # ⌊0.15 · 24 + ½⌋
    assert not any(
        row.issuperset(word) for row, words in zip(columns, words_of(rows), strict=True) for word in words
    )
    assert len({frozenset(row) for row in columns}) > 50


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
