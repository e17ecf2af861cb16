import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from keras_bert2d.analysis import fertility as fertility_module
from keras_bert2d.analysis.fertility import Fertility, measure_fertility
from keras_bert2d.errors import InputError
from keras_bert2d.text.tokenizer import Bert2DTokenizer

distributions = st.dictionaries(st.integers(1, 12), st.integers(1, 50), min_size=1, max_size=8)


@pytest.fixture
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary)


def write(tmp_path, text: str, name: str = "text.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_words_are_counted_by_their_pieces(tmp_path, tokenizer):
    # gör ##em ##edik ##leri ##miz ##den | mi ##siniz | ? | ev ##ler | bir
    path = write(tmp_path, "Göremediklerimizden misiniz?\n\nevler bir\n")
    measured = measure_fertility(tokenizer, [path])
    assert measured == Fertility({1: 2, 2: 2, 6: 1}, unknown=0)
    assert (measured.words, measured.pieces, measured.pieces_per_word) == (5, 12, 2.4)
    assert measured.covering_subwords == 4


def test_unknown_words_count_as_one_piece_each(tmp_path, tokenizer):
    measured = measure_fertility(tokenizer, [write(tmp_path, "evler жук 漢字\n" + "a" * 101)])
    assert measured == Fertility({1: 4, 2: 1}, unknown=4)
    assert measured.unknown_share_of_words == 4 / 5
    assert measured.unknown_share_of_pieces == 4 / 6


def test_where_no_word_has_intermediate_pieces_the_smallest_m_is_enough():
    measured = Fertility({1: 3, 2: 5}, unknown=0)
    assert measured.covering_subwords == 1
    assert measured.covered_share(1) == 1.0


def test_m_covers_exactly_95_percent_of_the_intermediate_pieces():
    # 95 words with one intermediate piece, one word with five: 95 of 100 pieces.
    assert Fertility({3: 95, 7: 1}, unknown=0).covering_subwords == 1
    assert Fertility({3: 94, 7: 1}, unknown=0).covering_subwords == 5


@settings(deadline=None)
@given(distributions)
def test_m_is_the_smallest_that_covers_a_plain_list_of_pieces(distribution):
    intermediate = []  # One entry a piece: the number of intermediate pieces in its word.
    for length, count in distribution.items():
        intermediate += [length - 2] * (max(0, length - 2) * count)
    n = len(intermediate)
    smallest = next(m for m in range(1, 100) if 100 * sum(k <= m for k in intermediate) >= 95 * n)
    assert Fertility(distribution, unknown=0).covering_subwords == smallest


@settings(deadline=None)
@given(distributions)
def test_the_covered_share_rises_to_one(distribution):
    measured = Fertility(distribution, unknown=0)
    shares = [measured.covered_share(m) for m in range(1, 30)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_figures_do_not_depend_on_how_the_text_is_cut(tmp_path, tokenizer, monkeypatch):
    lines = [f"evler {'bir ' * i}Göremediklerimizden" for i in range(20)]
    whole = measure_fertility(tokenizer, [write(tmp_path, "\n".join(lines))])
    monkeypatch.setattr(fertility_module, "_LINES_AT_ONCE", 3)
    files = [write(tmp_path, line, f"{i}.txt") for i, line in enumerate(lines)]
    assert measure_fertility(tokenizer, files) == whole


def test_the_dictionary_survives_json_and_holds_every_figure(tmp_path, tokenizer):
    measured = measure_fertility(tokenizer, [write(tmp_path, "Göremediklerimizden evler ж")])
    figures = measured.to_dict()
    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        "words": 3,
        "pieces": 9,
        "pieces_per_word": 3.0,
        "unknown_share_of_words": 1 / 3,
        "unknown_share_of_pieces": 1 / 9,
        "covering_subwords": 4,
        "coverage": 0.95,
        "pieces_per_word_distribution": {"1": 1, "2": 1, "6": 1},
    }


def test_the_table_shows_figures_and_a_histogram():
    text = Fertility({1: 6000, 2: 3000, 5: 1000}, unknown=10).to_text()
    lines = text.splitlines()
    assert "10,000" in lines[0]
    assert "1.700 pieces a word" in text
    assert "0.100% of the words" in text
    assert "3 covers 100.0%" in text
    histogram = [line.split() for line in lines[-3:]]
    assert [row[:3] for row in histogram] == [
        ["1", "6,000", "60.00%"],
        ["2", "3,000", "30.00%"],
        ["5", "1,000", "10.00%"],
    ]
    assert [len(row[3]) for row in histogram] == [30, 15, 5]


def test_the_table_joins_the_long_rare_words():
    text = Fertility({1: 1_000_000, 4: 9, 6: 2, 9: 1}, unknown=0).to_text()
    assert text.splitlines()[-1].split()[:4] == ["4", "or", "more", "12"]


def test_text_without_a_word_is_refused(tmp_path, tokenizer):
    with pytest.raises(InputError, match="the text has no word"):
        measure_fertility(tokenizer, [write(tmp_path, "\u00ad\u200b\n")])
    with pytest.raises(InputError, match="no.txt"):
        measure_fertility(tokenizer, [tmp_path / "no.txt"])


def test_real_turkish_counts_equal_those_of_another_library(shared_data, tmp_path):
    lines = (shared_data / "corpus" / "tr.txt").read_text(encoding="utf-8").split("\n")[:3000]
    vocabulary = shared_data / "vocab" / "tr-cased-32k.txt"
    other = BertWordPieceTokenizer(str(vocabulary), lowercase=False, strip_accents=False)
    distribution, unknown = Counter(), 0
    for encoding in other.encode_batch(lines, add_special_tokens=False):
        distribution.update(Counter(encoding.word_ids).values())
        unknown += encoding.tokens.count("[UNK]")
    measured = measure_fertility(Bert2DTokenizer(vocabulary), [write(tmp_path, "\n".join(lines))])
    assert measured == Fertility(dict(sorted(distribution.items())), unknown)
