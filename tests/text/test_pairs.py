import collections

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.text.pairs import FOLLOWS, RANDOM, choose_pairs, pack_pairs
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import ROW_KEYS, RowRules, cut_pair
from tests import reference
from tests.text.test_rows import CLS, PAD, SEP, ragged, rules_of_rows, words

# Groups of texts that follow one another, each with its document; a document may have several groups.
groups = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=9)


def choose(groups, seed):
    """Pairs as lists, of `(texts, document)` groups."""
    splits = np.cumsum([0] + [texts for texts, _ in groups])
    documents = [document for texts, document in groups for _ in range(texts)]
    pairs = choose_pairs(
        tf.constant(splits, tf.int64), tf.constant(documents, tf.int64), tf.constant([seed, 5], tf.int64)
    )
    return splits.tolist(), documents, [part.numpy().tolist() for part in pairs]


@settings(deadline=None, max_examples=100)
@given(groups, st.integers(0, 1 << 30))
def test_groups_are_paired_as_they_stand_from_the_first_or_second_text(groups, seed):
    splits, _, (firsts, _, _) = choose(groups, seed)
    for start, end in zip(splits[:-1], splits[1:], strict=True):
        found = [first for first in firsts if start <= first < end]
        possible = [list(range(start + offset, end - 1, 2)) for offset in (0, 1)]
        # The only pair of two texts is never left out.
        assert found in (possible if end - start > 2 else possible[:1])


@settings(deadline=None, max_examples=100)
@given(groups, st.integers(0, 1 << 30))
def test_labels_tell_whether_the_second_text_follows_or_is_of_another_document(groups, seed):
    splits, documents, (firsts, seconds, labels) = choose(groups, seed)
    for first, second, label in zip(firsts, seconds, labels, strict=True):
        if label == FOLLOWS:
            assert second == first + 1 and second not in splits
        else:
            assert label == RANDOM and documents[first] != documents[second]


def test_half_of_the_pairs_are_random_and_strangers_are_drawn_alike():
    # Document 1 stands in two groups; its texts are drawn for it from neither.
    groups = [(3000, 1), (2, 2), (3, 4), (3001, 1), (5, 3)]
    splits, documents, (firsts, seconds, labels) = choose(groups, 0)
    assert len(firsts) > 2990
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / len(labels) ** 0.5
    drawn = collections.Counter(
        second
        for first, second, label in zip(firsts, seconds, labels, strict=True)
        if label == RANDOM and documents[first] == 1
    )
    # The ten texts of other documents, each about as often as the others.
    assert sorted(drawn) == [i for i, document in enumerate(documents) if document != 1]
    expected = sum(drawn.values()) / 10
    assert all(abs(count - expected) < 5 * expected**0.5 for count in drawn.values())


def test_both_ways_to_pair_a_group_come_up():
    starts = {choose([(3, 0), (2, 1)], seed)[2][0][0] for seed in range(12)}
    assert starts == {0, 1}


def test_the_same_seed_chooses_the_same_pairs_and_another_seed_other_ones():
    groups = [(40, 0), (40, 1)]
    assert choose(groups, 3) == choose(groups, 3)
    assert choose(groups, 3) != choose(groups, 4)


def test_texts_of_one_document_follow_each_other():
    _, _, (firsts, seconds, labels) = choose([(6, 3), (4, 3)], 1)
    assert labels and set(labels) == {FOLLOWS}
    assert seconds == [first + 1 for first in firsts]


@pytest.mark.parametrize("groups", [[], [(0, 0)], [(1, 0), (1, 1)]])
def test_texts_that_nothing_follows_give_no_pair(groups):
    assert choose(groups, 0)[2] == [[], [], []]


@settings(deadline=None, max_examples=40)
@given(
    rules=rules_of_rows,
    pairs=st.lists(
        st.tuples(
            st.lists(words, min_size=1, max_size=5),
            st.lists(words, min_size=1, max_size=5),
            st.integers(0, 1),
        ),
        max_size=9,
    ),
    max_pairs=st.integers(1, 4),
)
def test_pairs_are_packed_as_a_plain_loop_packs_them(rules, pairs, max_pairs):
    firsts, seconds = ragged([first for first, _, _ in pairs]), ragged([second for _, second, _ in pairs])
    labels = tf.constant([label for *_, label in pairs], tf.int32)
    packed = {
        name: value.numpy().tolist()
        for name, value in pack_pairs(firsts, seconds, labels, rules, max_pairs).items()
    }
    ids = rules.id_rules
    options = (ids.word_numbering, ids.max_intermediate_subwords, ids.overflow, CLS, SEP)
    cut = (part.to_list() for part in cut_pair(firsts, seconds, rules))
    texts = [reference.make_text(*pair, *options) for pair in zip(*cut, strict=True)]
    openers = reference.next_fit([[(len(text), 1) for text in texts]], (rules.sequence_length, max_pairs))
    rows = []
    for text, label, opens in zip(texts, labels.numpy().tolist(), openers, strict=True):
        rows += [[]] if opens else []
        rows[-1].append((text, label))
    expected = reference.lay_out([[text for text, _ in row] for row in rows], rules.sequence_length, PAD)
    for row in rows:
        starts = np.cumsum([0] + [len(text) for text, _ in row[:-1]]).tolist()
        empty = [0] * (max_pairs - len(row))
        expected.setdefault("pair_positions", []).append(starts + empty)
        expected.setdefault("pair_labels", []).append([label for _, label in row] + empty)
        expected.setdefault("pair_weights", []).append([1.0] * len(row) + empty)
    none = dict.fromkeys(["pair_positions", "pair_labels", "pair_weights"], [])
    assert packed == {**none, **expected}


def test_a_turkish_example_of_two_pairs_in_a_row():
    """`[CLS] ev ##ler [SEP] gör [SEP] [CLS] ev [SEP] bir [SEP]`."""
    rules = RowRules(12, IdRules(), CLS, SEP, PAD)
    first, second = ragged([[[20, 21]], [[20]]]), ragged([[[22]], [[23]]])
    rows = pack_pairs(first, second, tf.constant([FOLLOWS, RANDOM]), rules, 3)
    assert {name: rows[name].numpy().tolist()[0] for name in rows} == {
        "token_ids": [CLS, 20, 21, SEP, 22, SEP, CLS, 20, SEP, 23, SEP, PAD],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0],
        "padding_mask": [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0],
        "word_position_ids": [0, 1, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0],
        "subword_position_ids": [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "pair_positions": [0, 6, 0],
        "pair_labels": [FOLLOWS, RANDOM, 0],
        "pair_weights": [1.0, 1.0, 0.0],
    }
    assert list(rows)[:5] == list(ROW_KEYS)
    assert rows["pair_positions"].dtype == rows["pair_labels"].dtype == tf.int32
    assert rows["pair_weights"].dtype == tf.float32
