"""Data words in rows: against the rules as plain Python, one row at a time."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.data.conll import read_tagged
from keras_bert2d.errors import InputError
from keras_bert2d.text.labels import label_pieces, split_sentences_into_words, word_rows
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import RowRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.text.strategies import raw_texts

PAD, UNK, CLS, SEP = 0, 1, 2, 3


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary)


def rules(sequence_length, max_words=512):
    return RowRules(sequence_length, IdRules(max_words=max_words), CLS, SEP, PAD)


def ragged(rows):
    """Rows of data words of words of pieces, as nested lists, to a ragged tensor."""
    words = [data_word for row in rows for data_word in row]
    pieces = [word for data_word in words for word in data_word]
    return tf.RaggedTensor.from_nested_row_lengths(
        tf.constant([piece for word in pieces for piece in word], tf.int32),
        [[len(part) for part in parts] for parts in (rows, words, pieces)],
    )


def row_by_hand(data_words, sequence_length, max_words):
    """The words of the row with the columns and pieces of the data words that are in it."""
    room, words_room = sequence_length - 2, max_words - 2
    words, columns, counts, used = [], [], [], 0
    for number, data_word in enumerate(data_words):
        data_word = data_word or [[UNK]]
        size = sum(map(len, data_word))
        fits = used + size <= room and len(words) + len(data_word) <= words_room
        if not fits and number > 0:
            break
        if not fits:
            taken = []
            for word in data_word[:words_room]:
                if sum(map(len, taken)) + len(word) > room:
                    break
                taken.append(word)
            data_word = taken or [data_word[0][:room]]
            size = sum(map(len, data_word))
        words += data_word
        columns.append(1 + used)
        counts.append(size)
        used += size
        if not fits:
            break
    return words, columns, counts


@st.composite
def rows_of_data_words(draw):
    lengths = draw(st.lists(st.lists(st.lists(st.integers(1, 7), max_size=4), max_size=9), max_size=4))
    ids = iter(range(100, 10_000))
    return [[[[next(ids) for _ in range(n)] for n in data_word] for data_word in row] for row in lengths]


@settings(max_examples=60, deadline=None)
@given(rows_of_data_words(), st.integers(4, 24), st.integers(3, 14), st.sampled_from(["first", "all"]))
def test_rows_and_labels_are_those_of_the_rules(data, sequence_length, max_words, which):
    rows, columns, counts = word_rows(ragged(data), rules(sequence_length, max_words), UNK)
    labels = tf.ragged.constant([[n + 1 for n in range(len(row))] for row in data], tf.int32, ragged_rank=1)
    y, weights = label_pieces(labels, columns, counts, sequence_length, which)
    assert y.shape == weights.shape == (len(data), sequence_length)
    for i, row in enumerate(data):
        words, starts, sizes = row_by_hand(row, sequence_length, max_words)
        pieces = [CLS, *(piece for word in words for piece in word), SEP]
        ids = [0, *(n + 1 for n, word in enumerate(words) for _ in word), len(words) + 1]
        padding = [0] * (sequence_length - len(pieces))
        assert rows["token_ids"][i].numpy().tolist() == pieces + padding
        assert rows["word_position_ids"][i].numpy().tolist() == ids + padding
        assert rows["padding_mask"][i].numpy().tolist() == [1] * len(pieces) + padding
        assert max(ids) < max_words
        assert columns[i].numpy().tolist() == starts
        assert counts[i].numpy().tolist() == sizes
        expected = np.zeros(sequence_length)
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            expected[start : start + (size if which == "all" else 1)] = number + 1
        assert y[i].numpy().tolist() == expected.tolist()
        assert weights[i].numpy().tolist() == (expected > 0).tolist()


def test_a_word_of_the_data_may_hold_several_of_bert_s(tokenizer):
    words = tokenizer.tokenize_words(tf.ragged.constant([["bir'ev", "kitap", "."]]))
    rows, columns, counts = word_rows(words, RowRules.of(tokenizer, 8), tokenizer.unk_token_id)
    pieces = [tokenizer.id_to_token(int(i)) for i in rows["token_ids"][0]]
    assert pieces == ["[CLS]", "bir", "'", "ev", "kitap", ".", "[SEP]", "[PAD]"]
    assert rows["word_position_ids"].numpy().tolist() == [[0, 1, 2, 3, 4, 5, 6, 0]]
    assert (columns.to_list(), counts.to_list()) == ([[1, 4, 5]], [[3, 1, 1]])


@pytest.mark.parametrize("word", ["", " ", "\u00a0", "\u200b", "\x00", "\u00ad"])
def test_a_word_without_pieces_is_unknown_and_keeps_its_place(tokenizer, word):
    words = tokenizer.tokenize_words(tf.ragged.constant([["ev", word, "bir"]]))
    rows, columns, _ = word_rows(words, RowRules.of(tokenizer, 6), tokenizer.unk_token_id)
    pieces = [tokenizer.id_to_token(int(i)) for i in rows["token_ids"][0]]
    assert pieces == ["[CLS]", "ev", "[UNK]", "bir", "[SEP]", "[PAD]"]
    assert columns.to_list() == [[1, 2, 3]]


def test_word_weights_stand_where_the_labels_stand():
    columns, counts = tf.ragged.constant([[1, 3], [1]]), tf.ragged.constant([[2, 1], [1]])
    labels = tf.ragged.constant([[4, 5, 6], [7]])
    word_weights = tf.ragged.constant([[0.5, 2.0, 9.0], [3.0]])
    y, weights = label_pieces(labels, columns, counts, 5, "all", word_weights)
    assert y.numpy().tolist() == [[0, 4, 4, 5, 0], [0, 7, 0, 0, 0]]
    assert weights.numpy().tolist() == [[0, 0.5, 0.5, 2, 0], [0, 3, 0, 0, 0]]


def test_an_unknown_choice_of_pieces_is_refused():
    one = tf.ragged.constant([[1]])
    with pytest.raises(InputError, match="first, all.*label_pieces='last'"):
        label_pieces(one, one, one, 4, "last")


def split(tokenizer, texts):
    """The data words of texts, cut out of them by their offsets."""
    pieces, starts, ends = split_sentences_into_words(tf.constant(texts, tf.string), tokenizer)
    assert pieces.row_lengths().numpy().tolist() == starts.row_lengths().numpy().tolist()
    texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in texts]
    return [
        [text[start:end] for start, end in zip(*row, strict=True)]
        for text, *row in zip(texts, starts.to_list(), ends.to_list(), strict=True)
    ]


@pytest.mark.parametrize(
    "text, words",
    [
        ("İstanbul'da 3,5 TL.", ["İstanbul'da", "3,5", "TL", "."]),
        ("Ankara’nın 1.000.000,50'ye", ["Ankara’nın", "1.000.000,50'ye"]),
        ("anne-baba -x a- x", ["anne-baba", "-", "x", "a", "-", "x"]),
        ("'ev' ev 'de ev' de", ["'", "ev", "'", "ev", "'", "de", "ev", "'", "de"]),
        (
            "3, 5 a.b 3.a a,3 3 .5",
            ["3", ",", "5", "a", ".", "b", "3", ".", "a", "a", ",", "3", "3", ".", "5"],
        ),
        ("Bir... ev..", ["Bir", "...", "ev", ".."]),
        (". . ev", [".", ".", "ev"]),
        ("“ev”(bir)!?", ["“", "ev", "”", "(", "bir", ")", "!", "?"]),
        ("i\u0307'de s\u0327\u00ad'a", ["i\u0307'de", "s\u0327\u00ad'a"]),
        ("ev\u200b'\u200bde ev\u00a0'de", ["ev\u200b'\u200bde", "ev", "'", "de"]),
        ("", []),
        (" \u00a0\t", []),
        ("\x00\u200b", []),
        ("'", ["'"]),
        ("😀'da", ["😀", "'", "da"]),
    ],
)
def test_sentences_are_split_as_treebanks_split_turkish(tokenizer, text, words):
    assert split(tokenizer, [text]) == [words]
    assert split(tokenizer, ["", "a'", text, "'b"]) == [[], ["a", "'"], words, ["'", "b"]]


def test_offsets_count_the_characters_of_the_text_as_given(tokenizer):
    assert split(tokenizer, [b"\xff ev'\xffde \xc5", "😀 ev".encode()]) == [["ev'\ufffdde"], ["😀", "ev"]]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text("aş3İ'’.,-! \n_"), max_size=4))
def test_words_are_those_of_the_rules_as_plain_python(tokenizer, texts):
    def by_hand(text):
        # Words of BERT's, then the joining ones between letters or digits, then runs of full stops.
        joined = r"(?:(?<=[aşİ3])['’-](?=[aşİ3])|(?<=3)[.,](?=3)|[aşİ3])+"
        return re.findall(rf"{joined}|\.+|[^\s]", text)

    assert split(tokenizer, texts) == [by_hand(text) for text in texts]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(raw_texts, max_size=3))
def test_words_of_any_text_follow_one_another_inside_it(tokenizer, texts):
    pieces, starts, ends = split_sentences_into_words(tf.constant(texts, tf.string), tokenizer)
    for text, words, *bounds in zip(texts, pieces.to_list(), starts.to_list(), ends.to_list(), strict=True):
        assert all(word and all(word) for word in words)
        places = [place for word in zip(*bounds, strict=True) for place in word]
        assert places == sorted(places)
        assert all(start < end for start, end in zip(*bounds, strict=True))
        assert not places or places[-1] <= len(text.decode("utf-8", "replace"))


@pytest.mark.parametrize("treebank", ["tr_imst-test", "tr_boun-dev"])
def test_words_are_the_tokens_of_a_treebank_but_for_one_in_fifty(shared_data, tokenizer, treebank):
    sentences = read_tagged(shared_data / "pos" / f"{treebank}.conllu")
    spans = 0
    tokens = 0
    for sentence, words in zip(sentences, split(tokenizer, [s.text for s in sentences]), strict=True):
        surface = list(surface_tokens(sentence))
        tokens += len(surface)
        remaining = list(words)
        for token in surface:
            if token in remaining:
                remaining.remove(token)
                spans += 1
    assert spans / tokens > 0.98


def surface_tokens(sentence):
    """The words as they are written: a multiword token's line stands before its parts'."""
    last = 0
    for line in sentence.lines:
        if line and not line.startswith("#"):
            number, form = line.split("\t")[:2]
            first, _, end = number.partition("-")
            if "." not in number and int(first) > last:
                last = int(end or first)
                yield form


def test_splitting_is_the_same_in_a_dataset(tokenizer):
    texts = ["Bir'de 3,5...", "", "ev"]
    dataset = tf.data.Dataset.from_tensors(tf.constant(texts))
    for eager, graph in zip(
        split_sentences_into_words(tf.constant(texts), tokenizer),
        next(iter(dataset.map(lambda batch: split_sentences_into_words(batch, tokenizer)))),
        strict=True,
    ):
        assert eager.to_list() == graph.to_list()
