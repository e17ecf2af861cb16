import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.text.packing import (
    fill_rows,
    join_sentences,
    next_fit_openers,
    pack_rows,
    pack_texts,
    pieces_of,
    split_long_texts,
    without_empty,
)
from keras_bert2d.text.positions import OVERFLOWS, IdRules
from keras_bert2d.text.rows import RowRules, single_rows
from tests import reference
from tests.text.test_rows import CLS, PAD, SEP, as_lists, ragged, rules_of_rows, words

full_texts = st.lists(st.lists(words, min_size=1, max_size=9), max_size=12)
any_texts = st.lists(st.lists(words, max_size=9), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=12), max_size=5),
    capacities=st.tuples(st.integers(9, 20), st.integers(3, 6)),
)
def test_next_fit_opens_bins_where_a_plain_loop_does(groups, capacities):
    items = [item for group in groups for item in group]
    splits = np.cumsum([0, *map(len, groups)])
    limits = [
        (tf.constant([item[i] for item in items], tf.int64), capacity)
        for i, capacity in enumerate(capacities)
    ]
    openers = next_fit_openers(tf.constant(splits, tf.int64), *limits)
    assert openers.numpy().tolist() == reference.next_fit(groups, capacities)


def test_next_fit_takes_many_items():
    sizes = np.random.default_rng(0).integers(1, 40, 50_000)
    openers = next_fit_openers(tf.constant([0, len(sizes)], tf.int64), (tf.constant(sizes), 128))
    expected = reference.next_fit([[(int(size),) for size in sizes]], (128,))
    assert openers.numpy().tolist() == expected


@settings(max_examples=20, deadline=None)
@given(texts=any_texts, rules=rules_of_rows)
def test_packed_rows_are_those_of_a_plain_loop(texts, rules):
    ids = rules.id_rules
    room, max_words = rules.sequence_length - 2, ids.max_words - 2
    parts = [part for text in texts for part in reference.split_text(text, room, max_words)]
    columns = [
        reference.make_text(part, None, "continue", ids.max_intermediate_subwords, ids.overflow, CLS, SEP)
        for part in parts
    ]
    openers = reference.next_fit([[(len(text),) for text in columns]], (rules.sequence_length,))
    rows = []
    for text, opens in zip(columns, openers, strict=True):
        if opens:
            rows.append([])
        rows[-1].append(text)
    assert as_lists(pack_texts(ragged(texts), rules)) == reference.lay_out(rows, rules.sequence_length, PAD)


@settings(max_examples=20, deadline=None)
@given(texts=any_texts, rules=rules_of_rows)
def test_packing_drops_nothing_and_keeps_the_order(texts, rules):
    rows = pack_texts(ragged(texts), rules)
    kept = tf.boolean_mask(
        rows["token_ids"],
        (rows["padding_mask"] > 0) & (rows["token_ids"] != CLS) & (rows["token_ids"] != SEP),
    )
    assert kept.numpy().tolist() == [piece for text in texts for word in text for piece in word]
    assert np.all(rows["word_position_ids"] < rules.id_rules.max_words)
    # Texts are numbered from 1 in each row, one after another, padding behind them.
    for numbers in rows["padding_mask"].numpy():
        real = numbers[numbers > 0]
        assert numbers[: len(real)].tolist() == real.tolist() == sorted(real)
        assert set(real) == set(range(1, real.max() + 1))


@settings(max_examples=20, deadline=None)
@given(texts=full_texts, max_pieces=st.integers(2, 12), max_words=st.integers(1, 5))
def test_long_texts_are_split_at_whole_words(texts, max_pieces, max_words):
    parts, origin = split_long_texts(ragged(texts), max_pieces, max_words)
    expected = [reference.split_text(text, max_pieces, max_words) for text in texts]
    assert parts.to_list() == [part for parts in expected for part in parts]
    assert origin.numpy().tolist() == [i for i, parts in enumerate(expected) for _ in parts]


def test_a_word_longer_than_a_row_goes_on_in_the_next_text():
    word = list(range(20, 31))
    rows = as_lists(pack_texts(ragged([[[50], word, [51]]]), RowRules(6, IdRules(), CLS, SEP, PAD)))
    assert rows["token_ids"] == [
        [CLS, 50, SEP, PAD, PAD, PAD],
        [CLS, 20, 21, 22, 23, SEP],
        [CLS, 24, 25, 26, 27, SEP],
        [CLS, 28, 29, 30, 51, SEP],
    ]
    assert rows["word_position_ids"][3] == [0, 1, 1, 1, 2, 3]
    assert rows["subword_position_ids"][3] == [0, 0, 2, 1, 0, 0]


def test_ids_and_attention_of_a_packed_row():
    rules = RowRules(12, IdRules(word_numbering="restart"), CLS, SEP, PAD)
    rows = as_lists(pack_texts(ragged([[[20, 21], [22]], [], [[23]]]), rules))
    assert rows == {
        "token_ids": [[CLS, 20, 21, 22, SEP, CLS, 23, SEP, PAD, PAD, PAD, PAD]],
        "segment_ids": [[0] * 12],
        "padding_mask": [[1, 1, 1, 1, 1, 2, 2, 2, 0, 0, 0, 0]],
        "word_position_ids": [[0, 1, 1, 2, 3, 0, 1, 2, 0, 0, 0, 0]],
        "subword_position_ids": [[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    }


@settings(max_examples=20, deadline=None)
@given(
    documents=st.lists(st.lists(st.lists(words, min_size=1, max_size=5), max_size=5), max_size=5),
    max_pieces=st.integers(2, 20),
    max_words=st.integers(1, 9),
)
def test_full_sentences_fill_rows_and_end_with_their_document(documents, max_pieces, max_words):
    texts = [text for document in documents for text in document]
    splits = tf.constant(np.cumsum([0, *map(len, documents)]), tf.int64)
    runs, groups = join_sentences(ragged(texts), splits, max_pieces, max_words)
    expected, expected_groups = [], []
    for number, document in enumerate(documents):
        parts = [part for text in document for part in reference.split_text(text, max_pieces, max_words)]
        sizes = [(sum(map(len, part)), len(part)) for part in parts]
        openers = reference.next_fit([sizes], (max_pieces, max_words))
        for part, opens in zip(parts, openers, strict=True):
            if opens:
                expected.append([])
                expected_groups.append(number)
            expected[-1] += part
    assert runs.to_list() == expected
    assert groups.numpy().tolist() == expected_groups


def test_full_sentences_are_one_text_that_numbers_on():
    rules = RowRules(16, IdRules(), CLS, SEP, PAD)
    texts = ragged([[[20], [21, 22]], [[23]], [[24]]])
    runs, _ = join_sentences(texts, tf.constant([0, 2, 3], tf.int64), *rules.room(2))
    rows = as_lists(single_rows(runs, rules))
    assert rows["word_position_ids"] == [[0, 1, 2, 2, 3, 4, *[0] * 10], [0, 1, 2, *[0] * 13]]
    assert rows["padding_mask"] == [[1] * 6 + [0] * 10, [1] * 3 + [0] * 13]


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 8), min_size=1, max_size=20), most=st.none() | st.integers(1, 3))
def test_rows_are_filled_in_order_with_at_most_so_many_texts(lengths, most):
    per_row = fill_rows(tf.constant(lengths, tf.int64), 8, most)
    openers = reference.next_fit([[(length, 1) for length in lengths]], (8, most or 99))
    starts = [i for i, opens in enumerate(openers) if opens]
    assert per_row.numpy().tolist() == np.diff([*starts, len(lengths)]).tolist()


@settings(max_examples=20, deadline=None)
@given(texts=any_texts, rules=rules_of_rows)
def test_packing_ready_rows_gives_what_packing_their_texts_gives(texts, rules):
    short = [reference.cut(text, *rules.room(2)) for text in texts if text]
    rows = single_rows(ragged(short), rules)
    assert as_lists(pack_rows(rows, PAD)) == as_lists(pack_texts(ragged(short), rules))


def test_a_graph_packs_as_eager_mode_does():
    rules = RowRules(9, IdRules(6, 2, OVERFLOWS[0]), CLS, SEP, PAD)
    graph = tf.function(
        lambda texts: pack_texts(texts, rules),
        input_signature=[tf.RaggedTensorSpec([None, None, None], tf.int32, 2)],
        autograph=False,
    )
    for texts in ([[[1] * 20, [5]], [[6]] * 9, []], [], [[]]):
        rows = graph(ragged(texts))
        eager = pack_texts(ragged(texts), rules)
        assert {k: v.numpy().tolist() for k, v in rows.items()} == as_lists(eager)
        assert {value.shape[1] for value in eager.values()} == {9}


def test_texts_without_words_are_left_out():
    texts = ragged([[], [[1, 2]], [], [[3]], []])
    assert without_empty(texts).to_list() == [[[1, 2]], [[3]]]
    assert pieces_of(texts).numpy().tolist() == [0, 2, 0, 1, 0]
