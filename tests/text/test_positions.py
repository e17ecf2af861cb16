import json
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.text.positions import IdRules, subword_positions, two_d_position_ids
from tests import reference

GOLDEN = json.loads(Path(__file__).with_name("golden_position_ids.json").read_text("utf-8"))
OVERFLOWS = ("floor", "rounded", "last")
NUMBERINGS = ("continue", "restart")
PIECES = ["[CLS]", "[SEP]", "[UNK]", "[MASK]", "ev", "gör", ".", "#", "##ler", "##de", "##em", "##miz"]


def ids_of(rows, **rules):
    words, places = two_d_position_ids(rows, **rules)
    assert words.dtype == places.dtype == tf.int32
    return words.to_list(), places.to_list()


def with_padding(pieces, count):
    return [*pieces, *["[PAD]"] * count]


rows_of_pieces = st.lists(
    st.builds(with_padding, st.lists(st.sampled_from(PIECES), max_size=12), st.integers(0, 3)),
    max_size=5,
)
words_of_pieces = st.integers(1, 40).map(lambda k: ["gör", *["##em"] * (k - 1)])
rows_of_words = st.lists(
    st.lists(st.one_of(words_of_pieces, st.sampled_from([["[SEP]"], ["[UNK]"], ["."]])), max_size=6).map(
        lambda words: [piece for word in words for piece in word]
    ),
    max_size=4,
)


def test_words_have_the_ids_of_the_published_code_and_formula():
    for case in GOLDEN["words"]:
        word = ["a", *["##b"] * (case["pieces"] - 1)]
        rules = {key: case[key] for key in ("max_intermediate_subwords", "overflow")}
        assert ids_of([word], **rules)[1] == [case["subword_position_ids"]], case
    assert {case["overflow"] for case in GOLDEN["words"]} == set(OVERFLOWS)


def test_rows_have_the_ids_of_the_published_code():
    for case in GOLDEN["rows"]:
        rules = {key: case[key] for key in ("max_intermediate_subwords", "overflow", "word_numbering")}
        expected = [case["word_position_ids"]], [case["subword_position_ids"]]
        assert ids_of([case["pieces"]], **rules) == expected, case
    assert {case["word_numbering"] for case in GOLDEN["rows"]} == set(NUMBERINGS)


def test_the_golden_figures_are_those_of_the_shared_data(shared_data):
    path = shared_data / "golden" / "position_ids.json"
    assert json.loads(path.read_text("utf-8")) == GOLDEN


@settings(max_examples=60, deadline=None)
@given(
    rows=st.one_of(rows_of_pieces, rows_of_words),
    most=st.integers(1, 6),
    overflow=st.sampled_from(OVERFLOWS),
    numbering=st.sampled_from(NUMBERINGS),
)
def test_ids_follow_the_rules(rows, most, overflow, numbering):
    expected = [reference.position_ids(row, most, overflow, numbering) for row in rows]
    words, places = ids_of(rows, max_intermediate_subwords=most, overflow=overflow, word_numbering=numbering)
    assert words == [ids for ids, _ in expected]
    assert places == [ids for _, ids in expected]


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 120), max_size=20),
    most=st.integers(1, 12),
    overflow=st.sampled_from(OVERFLOWS),
)
def test_word_lengths_give_the_ids_that_piece_strings_give(lengths, most, overflow):
    got = subword_positions(tf.constant(lengths, tf.int64), most, overflow).to_list()
    assert got == [reference.subword_ids(k, most, overflow) for k in lengths]
    assert all(0 <= place < most + 2 for word in got for place in word)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.lists(st.sampled_from([*PIECES, "[PAD]"]), max_size=10), max_size=5),
    numbering=st.sampled_from(NUMBERINGS),
)
def test_no_order_of_pieces_gives_an_id_out_of_its_table(rows, numbering):
    words, places = ids_of(rows, word_numbering=numbering)
    for row, word_ids, place_ids in zip(rows, words, places, strict=True):
        assert all(0 <= number < len(row) for number in word_ids)
        assert all(0 <= place < 5 for place in place_ids)
        assert all(
            (number, place) == (0, 0)
            for piece, number, place in zip(row, word_ids, place_ids, strict=True)
            if piece == "[PAD]"
        )


@pytest.mark.parametrize(
    ("overflow", "places"),
    [
        ("floor", [0, 2, 2, 3, 4, 1]),  # 2 + ⌊j · 3/4⌋
        ("rounded", [0, 2, 3, 3, 4, 1]),  # 2 + ⌊j · 2/4 + ½⌋
        ("last", [0, 2, 3, 4, 1, 1]),
    ],
)
def test_four_pieces_between_share_three_places(overflow, places):
    word = ["gör", "##em", "##edik", "##leri", "##miz", "##den"]
    assert ids_of([word], overflow=overflow) == ([[0] * 6], [places])


def test_a_row_that_starts_inside_a_word_starts_a_word():
    assert ids_of([["##ler", "##de", "ev"]]) == ([[0, 0, 1]], [[0, 1, 0]])


def test_padding_takes_no_number():
    rows = [["ev", "[PAD]"], ["[PAD]", "[PAD]"], ["[PAD]", "ev", "##ler"]]
    assert ids_of(rows) == ([[0, 0], [0, 0], [0, 0, 0]], [[0, 0], [0, 0], [0, 0, 1]])


def test_restart_numbers_anew_behind_the_first_separator_only():
    pair = ["[CLS]", "ev", "[SEP]", "gör", "##em", "[SEP]", "ev", "[SEP]"]
    assert ids_of([pair, ["[SEP]", "ev"]], word_numbering="restart")[0] == [
        [0, 1, 2, 0, 0, 1, 2, 3],
        [0, 0],
    ]


def test_restart_gives_a_second_text_that_starts_inside_a_word_the_number_0():
    pair = ["[CLS]", "ev", "[SEP]", "##ler", "##de", "ev", "[SEP]"]
    words, places = ids_of([pair], word_numbering="restart")
    assert (words, places) == ([[0, 1, 2, 0, 0, 1, 2]], [[0, 0, 0, 0, 1, 0, 0]])


def test_an_empty_second_text_restarts_at_its_separator():
    assert ids_of([["[CLS]", "ev", "[SEP]", "[SEP]"]], word_numbering="restart")[0] == [[0, 1, 2, 0]]


def test_one_row_s_separator_does_not_restart_the_next_row():
    rows = [["ev", "[SEP]"], ["gör", "ev"]]
    assert ids_of(rows, word_numbering="restart")[0] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("prefix", ["@@", "_", "→"])
def test_another_prefix_marks_continuation(prefix):
    row = ["gör", f"{prefix}em", f"{prefix}edik", "##ler"]
    assert ids_of([row], continuation_prefix=prefix) == ([[0, 0, 0, 1]], [[0, 2, 1, 0]])


@pytest.mark.parametrize("rows", [[], [[]], [[], []], [[], ["ev"], []]])
def test_empty_rows_stay_empty(rows):
    expected = [[0] * len(row) for row in rows]
    assert ids_of(rows) == (expected, expected)


def test_ragged_input_and_a_graph_give_what_lists_give():
    rows = [["[CLS]", "gör", "##em", "##edik", "[SEP]", "ev", "##ler", "[SEP]", "[PAD]"], ["ev"]]
    expected = ids_of(rows, word_numbering="restart")
    ragged = tf.ragged.constant(rows)
    assert ids_of(ragged, word_numbering="restart") == expected

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.string)])
    def graph(pieces):
        return two_d_position_ids(pieces, word_numbering="restart")

    words, places = graph(ragged)
    assert (words.to_list(), places.to_list()) == expected


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"max_intermediate_subwords": 0}, "max_intermediate_subwords=0"),
        ({"max_intermediate_subwords": 2.0}, "max_intermediate_subwords=2.0"),
        ({"overflow": "ceil"}, "overflow='ceil'"),
        ({"word_numbering": "again"}, "word_numbering='again'"),
    ],
)
def test_unknown_rules_are_refused_by_name(rules, named):
    with pytest.raises(InputError, match=named):
        two_d_position_ids([["ev"]], **rules)


@pytest.mark.parametrize("value", [0, -1, 2, True, 512.0, "512", None])
def test_a_table_without_room_for_a_row_is_refused(value):
    with pytest.raises(InputError, match=r"`max_words`.*Received: max_words="):
        IdRules(max_words=value)


def test_rules_make_themselves_again_from_their_dict():
    rules = IdRules(max_words=9, max_intermediate_subwords=1, overflow="last", word_numbering="restart")
    assert IdRules(**rules.to_dict()) == rules
    assert IdRules() == IdRules(512, 3, "floor", "continue")
