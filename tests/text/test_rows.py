import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.text.positions import (
    OVERFLOWS,
    WORD_NUMBERINGS,
    IdRules,
    two_d_position_ids,
)
from keras_bert2d.text.rows import ROW_KEYS, RowRules, cut, cut_pair, pair_rows, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests import reference

CLS, SEP, PAD = 2, 3, 9

words = st.integers(1, 14).map(lambda count: list(range(20, 20 + count)))
texts_of_words = st.lists(st.lists(words, max_size=7), min_size=1, max_size=10)
rules_of_rows = st.builds(
    lambda length, *ids: RowRules(length, IdRules(*ids), CLS, SEP, PAD),
    st.integers(4, 24),
    st.integers(3, 9),
    st.integers(1, 4),
    st.sampled_from(OVERFLOWS),
    st.sampled_from(WORD_NUMBERINGS),
)


def ragged(texts):
    """Ragged `[text, (words), (pieces)]`, also of texts without words."""
    words = [word for text in texts for word in text]
    return tf.RaggedTensor.from_row_lengths(
        tf.RaggedTensor.from_row_lengths(
            tf.constant([piece for word in words for piece in word], tf.int32),
            tf.constant([len(word) for word in words], tf.int64),
        ),
        tf.constant([len(text) for text in texts], tf.int64),
    )


def as_lists(rows):
    assert list(rows) == list(ROW_KEYS)
    assert {value.dtype for value in rows.values()} == {tf.int32}
    return {name: value.numpy().tolist() for name, value in rows.items()}


def expected_rows(rules, firsts, seconds=None):
    ids = rules.id_rules
    options = (ids.word_numbering, ids.max_intermediate_subwords, ids.overflow, CLS, SEP)
    if seconds is None:
        columns = [reference.make_text(first, None, *options) for first in firsts]
    else:
        columns = [reference.make_text(*pair, *options) for pair in zip(firsts, seconds, strict=True)]
    return reference.lay_out([[column] for column in columns], rules.sequence_length, PAD)


@settings(max_examples=20, deadline=None)
@given(texts=texts_of_words, rules=rules_of_rows)
def test_single_rows_are_cut_at_whole_words_and_numbered(texts, rules):
    room, max_words = rules.sequence_length - 2, rules.id_rules.max_words - 2
    kept = [reference.cut(text, room, max_words) for text in texts]
    assert as_lists(single_rows(ragged(texts), rules)) == expected_rows(rules, kept)


@settings(max_examples=20, deadline=None)
@given(firsts=texts_of_words, seconds=texts_of_words, rules=rules_of_rows)
def test_pair_rows_are_cut_fairly_at_whole_words_and_numbered(firsts, seconds, rules):
    count = min(len(firsts), len(seconds))
    firsts, seconds = firsts[:count], seconds[:count]
    kept = [x.to_list() for x in cut_pair(ragged(firsts), ragged(seconds), rules)]
    assert as_lists(pair_rows(ragged(firsts), ragged(seconds), rules)) == expected_rows(rules, *kept)

    room, max_words = rules.sequence_length - 3, rules.id_rules.max_words - 3
    for first, second, kept_first, kept_second in zip(firsts, seconds, *kept, strict=True):
        sizes = [sum(map(len, text)) for text in (first, second)]
        kept_sizes = [sum(map(len, text)) for text in (kept_first, kept_second)]
        assert sum(kept_sizes) <= room
        if rules.id_rules.word_numbering == "continue":
            word_room = reference.fair_shares(len(first), len(second), max_words)
        else:
            word_room = (max_words + 1, max_words + 2)
        shares = reference.fair_shares(*sizes, room)
        for text, part, own, other, share, most in zip(
            (first, second),
            (kept_first, kept_second),
            kept_sizes,
            reversed(kept_sizes),
            shares,
            word_room,
            strict=True,
        ):
            assert len(part) <= most
            if part and len(text[0]) > room:
                assert part == [text[0][:own]]  # A word longer than a row is cut inside.
                continue
            assert part == text[: len(part)]  # All others stay whole.
            if len(part) < min(len(text), most):
                following = len(text[len(part)])
                # Nothing more would fit, and with its next word the text would exceed its fair share.
                assert own + other + following > room
                assert own + following > share


def test_a_pair_that_fits_is_not_cut_and_the_longer_text_gives_way_first():
    rules = RowRules(13, IdRules(), CLS, SEP, PAD)
    ones = [[i] for i in range(20, 40)]
    for first, second, lengths in [
        (ones[:4], ones[:6], [4, 6]),
        (ones[:20], ones[:3], [7, 3]),
        (ones[:3], ones[:20], [3, 7]),
        (ones[:20], ones[:20], [5, 5]),
        ([], ones, [0, 10]),
    ]:
        kept = cut_pair(ragged([first]), ragged([second]), rules)
        assert [int(text.row_lengths()[0]) for text in kept] == lengths


def test_a_word_that_fits_a_row_is_not_cut_for_the_other_text():
    rules = RowRules(13, IdRules(), CLS, SEP, PAD)
    six = [list(range(6))]
    kept = [x.to_list() for x in cut_pair(ragged([six]), ragged([six]), rules)]
    assert kept == [[six], [[]]]


def test_max_words_counts_the_ids_of_one_numbering():
    ones = [[[i] for i in range(20, 40)]]
    continued = pair_rows(ragged(ones), ragged(ones), RowRules(64, IdRules(9), CLS, SEP, PAD))
    restarted = pair_rows(
        ragged(ones), ragged(ones), RowRules(64, IdRules(9, word_numbering="restart"), CLS, SEP, PAD)
    )
    used = [int(tf.reduce_sum(rows["padding_mask"])) for rows in (continued, restarted)]
    assert used == [9, 18]  # [CLS] 3 [SEP] 3 [SEP]; [CLS] 7 [SEP] and 8 [SEP].
    assert [int(tf.reduce_max(r["word_position_ids"])) for r in (continued, restarted)] == [8, 8]


def test_the_worked_example_of_the_module():
    rules = RowRules(10, IdRules(), CLS, SEP, PAD)
    rows = as_lists(single_rows(ragged([[[20, 21, 22], [23]], []]), rules))
    assert rows["token_ids"] == [[2, 20, 21, 22, 23, 3, 9, 9, 9, 9], [2, 3, *[9] * 8]]
    assert rows["word_position_ids"] == [[0, 1, 1, 1, 2, 3, 0, 0, 0, 0], [0, 1, *[0] * 8]]
    assert rows["subword_position_ids"] == [[0, 0, 2, 1, 0, 0, 0, 0, 0, 0], [0] * 10]
    assert rows["padding_mask"] == [[1] * 6 + [0] * 4, [1, 1, *[0] * 8]]


def test_the_ids_of_a_word_that_is_cut_inside_are_those_of_what_remains():
    rules = RowRules(6, IdRules(), CLS, SEP, PAD)
    rows = as_lists(single_rows(ragged([[list(range(20, 40)), [50]]]), rules))
    assert rows["token_ids"] == [[2, 20, 21, 22, 23, 3]]
    assert rows["subword_position_ids"] == [[0, 0, 2, 3, 1, 0]]


def test_cut_takes_a_limit_for_each_text():
    texts = [[[1], [2, 3], [4]]] * 3
    kept = cut(ragged(texts), tf.constant([4, 2, 0]), tf.constant([2, 9, 9])).to_list()
    assert kept == [[[1], [2, 3]], [[1]], []]


def test_a_graph_makes_the_rows_that_eager_mode_makes():
    rules = RowRules(9, IdRules(5), CLS, SEP, PAD)
    spec = tf.RaggedTensorSpec([None, None, None], tf.int32, 2)

    @tf.function(input_signature=[spec, spec], autograph=False)
    def graph(texts, others):
        return single_rows(texts, rules), pair_rows(texts, others, rules)

    for texts in ([[[1] * 20, [2]], [], [[3], [4], [5], [6]]], []):
        others = texts[::-1]
        for rows, eager in zip(
            graph(ragged(texts), ragged(others)),
            (single_rows(ragged(texts), rules), pair_rows(ragged(texts), ragged(others), rules)),
            strict=True,
        ):
            assert {value.shape[1] for value in rows.values()} == {9}
            assert {name: rows[name].numpy().tolist() for name in ROW_KEYS} == as_lists(eager)


def test_rows_agree_with_the_ids_of_piece_strings(tiny_vocabulary):
    for numbering in WORD_NUMBERINGS:
        tokenizer = Bert2DTokenizer(tiny_vocabulary, word_numbering=numbering)
        texts = tokenizer.tokenize(["Göremediklerimizden misiniz?", "evler", ""])
        others = tokenizer.tokenize(["Bir kitap.", "", "漢"])
        rules = RowRules.of(tokenizer, 24)
        for rows in (single_rows(texts, rules), pair_rows(texts, others, rules)):
            pieces = tf.gather(tf.constant(tiny_vocabulary), rows["token_ids"])
            ids = two_d_position_ids(tf.RaggedTensor.from_tensor(pieces), word_numbering=numbering)
            assert [x.to_tensor().numpy().tolist() for x in ids] == [
                rows[name].numpy().tolist() for name in ("word_position_ids", "subword_position_ids")
            ]


@pytest.mark.parametrize("length", [0, 3, -1, True, 12.0, None])
def test_a_row_without_room_is_refused(tiny_vocabulary, length):
    with pytest.raises(InputError, match="Received: sequence_length="):
        RowRules.of(Bert2DTokenizer(tiny_vocabulary), length)
