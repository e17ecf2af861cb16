import pytest
import tensorflow as tf

from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.reference import SPECIAL
from tests.text.pieces import QUESTION, TEXTS, pieces_of, slices, strings

# === Words and pieces ===


def test_pieces_stay_together_as_words(cased):
    assert pieces_of(cased, QUESTION) == [
        ["Gör", "##em", "##edik", "##leri", "##miz", "##den"],
        ["mi", "##siniz"],
        ["?"],
    ]
    ragged = cased.tokenize([QUESTION, "", "ev"])
    assert ragged.dtype == tf.int32
    assert ragged.ragged_rank == 2
    assert [len(words) for words in ragged.to_list()] == [3, 0, 1]


@pytest.mark.parametrize(("casing", "first"), [("cased", "Gör"), ("uncased", "gor"), ("turkish", "gör")])
def test_casing_is_part_of_the_tokenizer(tokenizers_by_casing, casing, first):
    assert pieces_of(tokenizers_by_casing[casing], QUESTION)[0][0] == first


@pytest.mark.parametrize(
    ("casing", "expected"),
    [("cased", ["İ", "I", "ı"]), ("uncased", ["i", "i", "ı"]), ("turkish", ["i", "ı", "ı"])],
)
@pytest.mark.parametrize("text", ["İ I ı", "I\u0307 I ı"])
def test_each_casing_has_its_own_turkish_i(tokenizers_by_casing, casing, expected, text):
    assert pieces_of(tokenizers_by_casing[casing], text) == [[piece] for piece in expected]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("İstanbul'da", ["İstanbul", "'", "da"]),
        ("a-b_c", ["a", "-", "b", "_", "c"]),
        ("a$b+c", ["a", "$", "b", "+", "c"]),
        ("ev\u00a0ev\tev\nev", ["ev", "ev", "ev", "ev"]),
        ("漢字kanji", ["漢", "字", "kanji"]),
        ("##ler", ["#", "#", "ler"]),
    ],
)
def test_words_are_split_as_bert_splits_them(cased, text, words):
    _, starts, ends = cased.tokenize_with_offsets([text], "character")
    got = [
        text[start[0] : end[-1]] for start, end in zip(starts[0].to_list(), ends[0].to_list(), strict=True)
    ]
    assert got == words


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\x00", "\u00ad", b"\xff", "\ufeff"])
def test_a_text_without_a_letter_has_no_word(tokenizers_by_casing, text):
    for tokenizer in tokenizers_by_casing.values():
        for unit in ("byte", "character", None):
            results = tokenizer.tokenize_with_offsets([text], unit)
            assert [ragged.to_list() for ragged in results] == [[[]]] * 3


def test_no_texts_have_no_rows(tokenizers_by_casing):
    for tokenizer in tokenizers_by_casing.values():
        for unit in ("byte", "character", None):
            assert [x.to_list() for x in tokenizer.tokenize_with_offsets([], unit)] == [[]] * 3


@pytest.mark.parametrize("text", ["\u0307", "😀👩🏽‍💻", "שלום مرحبا", "漢字", "aб"])
def test_what_the_vocabulary_cannot_spell_is_unknown_and_keeps_its_place(cased, text):
    found = slices(cased, text, "character")
    assert {piece for piece, _ in found} == {"[UNK]"}
    assert "".join(part for _, part in found) == text.replace(" ", "")


def test_special_pieces_in_a_text_are_letters_and_brackets(cased):
    assert pieces_of(cased, "[MASK][UNK]")[0] == ["["]
    ids = cased.tokenize([" ".join(SPECIAL), "[CLS]", "\ue000\ue001\ue002\ue003\ue004"])
    assert not set(ids.flat_values.numpy()) & set(cased.special_token_ids)


# === Words over 100 characters ===


@pytest.mark.parametrize("letter", ["a", "ş", "s\u0327", "s\u00ad", "😀"])
def test_a_word_of_100_characters_is_spelled_and_one_of_101_is_unknown(tiny_vocabulary, letter):
    tokenizer = Bert2DTokenizer([*tiny_vocabulary, "😀", "##😀"])
    texts = [f"ev {letter * 100} ev", f"ev {letter * 101} ev"]
    pieces, starts, ends = tokenizer.tokenize_with_offsets(texts, "character")
    short, long = strings(tokenizer, pieces)
    assert [len(word) for word in short] == [1, 100, 1]
    assert long == [["ev"], ["[UNK]"], ["ev"]]
    start, end = starts[1, 1, 0].numpy(), ends[1, 1, 0].numpy()
    # A soft hyphen behind the last letter is no part of the word.
    assert texts[1][start:end].rstrip("\u00ad") == (letter * 101).rstrip("\u00ad")


def test_ten_thousand_words_over_100_characters_are_unknown(cased):
    texts = ["a" * 10_000, " ".join(["ş" * 101] * 10_000)]
    pieces, starts, ends = cased.tokenize_with_offsets(texts, "character")
    assert set(pieces.flat_values.numpy()) == {cased.unk_token_id}
    assert pieces.row_lengths().numpy().tolist() == [1, 10_000]
    assert (ends - starts).flat_values.numpy().tolist() == [10_000, *[101] * 10_000]


# === The same everywhere ===


@pytest.mark.parametrize(("casing", "unit"), [("uncased", "byte"), ("turkish", None)])
def test_eager_mode_a_graph_and_tf_data_give_the_same(tokenizers_by_casing, casing, unit):
    tokenizer = tokenizers_by_casing[casing]
    texts = tf.constant(TEXTS)
    expected = [x.to_list() for x in tokenizer.tokenize_with_offsets(texts, unit)]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def graph(texts):
        return tokenizer.tokenize_with_offsets(texts, unit)

    assert [x.to_list() for x in graph(texts)] == expected
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(4).map(graph)
    in_batches = zip(*([x.to_list() for x in batch] for batch in dataset), strict=True)
    assert [sum(batches, []) for batches in in_batches] == expected
    one_by_one = tf.data.Dataset.from_tensor_slices(texts).map(tokenizer.tokenize)
    assert [row.to_list() for row in one_by_one] == expected[0]


def test_one_string_has_no_row_dimension(cased):
    pieces, starts, ends = cased.tokenize_with_offsets("ev bir")
    assert (starts.to_list(), ends.to_list()) == ([[0], [3]], [[2], [6]])
    assert pieces.to_list() == cased.tokenize(["ev bir"])[0].to_list()
    assert cased("ev bir").to_list() == pieces.to_list()


def test_pieces_as_strings(tiny_vocabulary, cased):
    by_name = Bert2DTokenizer(tiny_vocabulary, dtype="string")
    ragged = by_name.tokenize([QUESTION, "漢"])
    assert ragged.dtype == tf.string
    got = [[[p.decode() for p in word] for word in words] for words in ragged.to_list()]
    assert got == strings(cased, cased.tokenize([QUESTION, "漢"]))


def test_words_of_a_data_set_may_hold_several_words(cased):
    words = tf.ragged.constant([["ev'de", "", "bir"], [], ["?"]])
    assert strings(cased, cased.tokenize_words(words)) == [
        [[["ev"], ["'"], ["d", "##e"]], [], [["bir"]]],
        [],
        [[["?"]]],
    ]


# === Back to text ===


def test_detokenize_takes_words_and_flat_pieces(cased):
    texts = ["Göremediklerimizden misiniz ?", "", "evler bir"]
    words = cased.tokenize(texts)
    flat = words.merge_dims(1, 2)
    dense = flat.to_tensor(cased.pad_token_id)
    for pieces in (words, flat, dense, dense.numpy(), words.to_list(), flat.to_list()):
        assert [text.decode() for text in cased.detokenize(pieces).numpy()] == texts


def test_detokenize_takes_piece_strings_and_one_row(cased):
    assert cased.detokenize([["gör", "##em", "##edik"], ["ev"]]).numpy().tolist() == [
        "göremedik".encode(),
        b"ev",
    ]
    one = cased.detokenize(cased.tokenize(["evler bir"])[0].merge_dims(0, 1))
    assert one.numpy() == b"evler bir"
    assert cased.detokenize(["ev", "##ler"]).numpy() == b"evler"


@pytest.mark.parametrize("nothing", [[[]], [[], []], [[[]]], [[[], []]]])
def test_detokenize_of_rows_without_pieces_is_empty_text(cased, nothing):
    assert cased.detokenize(nothing).numpy().tolist() == [b""] * len(nothing)


def test_detokenize_keeps_a_prefix_that_is_no_continuation(cased):
    assert cased.detokenize([["##", "ev"], ["##ler", "ev"]]).numpy().tolist() == [b"## ev", b"ler ev"]
