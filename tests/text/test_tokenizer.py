import unicodedata
from itertools import groupby

import keras
import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.text.casing import CASINGS, normalize
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.reference import SPECIAL
from tests.text.strategies import raw_texts

QUESTION = "Göremediklerimizden misiniz?"


@pytest.fixture(scope="module")
def tokenizers_by_casing(tiny_vocabulary):
    return {casing: Bert2DTokenizer(tiny_vocabulary, casing=casing) for casing in CASINGS}


@pytest.fixture(scope="module")
def cased(tokenizers_by_casing):
    return tokenizers_by_casing["cased"]


def strings(tokenizer, ragged):
    """Ids, nested in lists, as piece strings."""
    if isinstance(ragged, int):
        return tokenizer.vocabulary[ragged]
    return [strings(tokenizer, item) for item in (ragged if isinstance(ragged, list) else ragged.to_list())]


def pieces_of(tokenizer, text):
    return strings(tokenizer, tokenizer.tokenize([text]))[0]


def slices(tokenizer, text, unit):
    """The piece strings of one text with the part of the text that each stands for."""
    source = text if isinstance(text, bytes) else text.encode("utf-8")
    if unit == "character":
        source = source.decode("utf-8", "replace")
    pieces, starts, ends = (x.flat_values.numpy() for x in tokenizer.tokenize_with_offsets([text], unit))
    return [
        (tokenizer.vocabulary[piece], source[start:end])
        for piece, start, end in zip(pieces, starts, ends, strict=True)
    ]


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


# === Offsets ===


@pytest.mark.parametrize("unit", ["byte", "character"])
@pytest.mark.parametrize(
    ("casing", "text", "parts"),
    [
        ("turkish", "İ ev", ["İ", "ev"]),
        ("uncased", "İ ev", ["İ", "ev"]),
        ("turkish", "I\u0307 ev", ["I\u0307", "ev"]),
        ("uncased", "hâl ev", ["h", "â", "l", "ev"]),
        ("uncased", "â", ["â"]),
        ("cased", "s\u0327u ev", ["s\u0327", "u", "ev"]),
        ("cased", "\ufeffk\u00adi\u200btap ev", ["k\u00adi\u200btap", "ev"]),
        ("cased", "a\u0000.\u2028ev", ["a", ".", "ev"]),
    ],
)
def test_offsets_point_into_the_text_as_given(tokenizers_by_casing, casing, text, parts, unit):
    got = [part for _, part in slices(tokenizers_by_casing[casing], text, unit)]
    assert got == (parts if unit == "character" else [part.encode() for part in parts])


def test_byte_offsets_point_into_invalid_bytes_and_character_offsets_into_their_decoding(cased):
    text = b"\xff\xfeev \xc5kitap\xc4\x9f \xed\xa0\x80bir"
    assert text.decode("utf-8", "replace") == "\ufffd\ufffdev \ufffdkitapğ \ufffd\ufffd\ufffdbir"
    for unit in ("byte", "character"):
        found = slices(cased, text, unit)
        whole = text if unit == "byte" else text.decode("utf-8", "replace")
        expected = [("ev", "ev"), ("kitap", "kitap"), ("##ğ", "ğ"), ("bir", "bir")]
        assert found == [(p, s.encode() if isinstance(whole, bytes) else s) for p, s in expected]


@pytest.fixture(scope="module")
def graphs_by_casing(tokenizers_by_casing):
    def graph(tokenizer):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def tokenize_in_all_units(texts):
            return [tokenizer.tokenize_with_offsets(texts, unit) for unit in ("byte", "character", None)]

        return tokenize_in_all_units

    return {casing: graph(tokenizer) for casing, tokenizer in tokenizers_by_casing.items()}


@settings(max_examples=100, deadline=None)
@given(raws=st.lists(raw_texts, max_size=5), casing=st.sampled_from(CASINGS))
def test_offsets_of_any_text(tokenizers_by_casing, graphs_by_casing, raws, casing):
    tokenizer = tokenizers_by_casing[casing]
    texts = tf.constant(raws, tf.string, shape=[len(raws)])
    by_byte, by_character, plain = graphs_by_casing[casing](texts)
    (pieces, byte_starts, byte_ends), (others, starts, ends) = by_byte, by_character
    assert pieces.to_list() == others.to_list() == plain[0].to_list()
    ragged = (pieces, byte_starts, byte_ends, starts, ends)
    parts, expected = [], []
    for raw, ids, *offsets in zip(raws, *(x.merge_dims(1, 2).to_list() for x in ragged), strict=True):
        text = raw.decode("utf-8", "replace")
        for values in offsets:
            assert values == sorted(values)
        for piece, byte_start, byte_end, start, end in zip(ids, *offsets, strict=True):
            assert 0 <= start < end <= len(text)
            assert len(raw[:byte_start].decode("utf-8", "replace")) == start
            assert len(raw[:byte_end].decode("utf-8", "replace")) == end
            if piece != tokenizer.unk_token_id:
                parts.append(text[start:end])
                expected.append(tokenizer.vocabulary[piece].removeprefix("##"))
    normal = normalize(tf.constant(parts, tf.string, shape=[len(parts)]), casing).numpy()
    assert [part.decode("utf-8") for part in normal] == expected


def test_offsets_into_the_normalised_text(tokenizers_by_casing):
    tokenizer = tokenizers_by_casing["turkish"]
    _, starts, ends = tokenizer.tokenize_with_offsets(["I\u0307 s\u0327"], None)
    assert (starts.to_list(), ends.to_list()) == ([[[0], [2]]], [[[1], [4]]])  # "i ş", ş two bytes.


# === The same everywhere ===

TEXTS = [QUESTION, "", "İ I\u0307 ev\u00adler 漢", b"\xffbir", "a" * 101, "kitap."]


@pytest.mark.parametrize("casing", CASINGS)
@pytest.mark.parametrize("unit", ["byte", None])
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


def test_pieces_words_and_offsets_are_those_of_the_rust_tokenizer(shared_data):
    lines = (shared_data / "corpus" / "tr.txt").read_bytes().decode("utf-8").split("\n")
    sample = lines[:-1:15][:20_000]
    assert len(sample) == 20_000
    ours = Bert2DTokenizer(shared_data / "vocab" / "tr-cased-32k.txt")
    vocabulary = {piece: i for i, piece in enumerate(ours.get_vocabulary())}
    rust = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    rust.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()

    composed = [unicodedata.normalize("NFC", line) for line in sample]
    pieces, starts, ends = ours.tokenize_with_offsets(sample, "character")
    flat = zip(*(x.merge_dims(1, 2).to_list() for x in (pieces, starts, ends)), strict=True)
    lengths = pieces.with_values(pieces.values.row_lengths()).to_list()
    fast = ours.tokenize(sample)
    for values, fast_values in zip(
        (pieces.flat_values, *pieces.nested_row_splits),
        (fast.flat_values, *fast.nested_row_splits),
        strict=True,
    ):
        assert np.array_equal(values, fast_values)
    # No line differs: not in pieces, not in words, and where NFC changes nothing not in offsets.
    for line, text, theirs, row, row_lengths in zip(
        sample, composed, rust.encode_batch(composed), flat, lengths, strict=True
    ):
        assert theirs.ids == row[0], line
        assert [len(list(word)) for _, word in groupby(theirs.word_ids)] == row_lengths, line
        if line == text:
            assert theirs.offsets == list(zip(row[1], row[2], strict=True)), line


# === Special pieces written in a text ===


@pytest.mark.parametrize("casing", CASINGS)
@pytest.mark.parametrize("unit", ["byte", "character"])
def test_special_pieces_written_in_a_text(tiny_vocabulary, casing, unit):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, casing=casing, special_tokens_in_strings=True)
    text = "[CLS]ev İ\u0307[MASK] bir[SEP].[PAD][PAD] ev ["
    found = slices(tokenizer, text, unit)
    parts = [part if unit == "character" else part.decode() for _, part in found]
    special = [piece for piece, _ in found if piece in SPECIAL and piece != "[UNK]"]
    assert special == ["[CLS]", "[MASK]", "[SEP]", "[PAD]", "[PAD]"]
    assert [part for part in parts if part in SPECIAL] == special
    assert (found[1][0], parts[1]) == ("ev", "ev")
    assert [piece for piece, _ in found[-2:]] == parts[-2:] == ["ev", "["]
    assert (
        tokenizer.tokenize([text]).to_list()[0]
        == tokenizer.tokenize_with_offsets([text], unit)[0][0].to_list()
    )


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


# === Configuration ===

RULES = {"max_words": 40, "max_intermediate_subwords": 2, "overflow": "last", "word_numbering": "restart"}


def test_the_id_rules_are_the_tokenizer_s_configuration(tiny_vocabulary):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, casing="turkish", special_tokens_in_strings=True, **RULES)
    assert tokenizer.id_rules == IdRules(**RULES)
    again = Bert2DTokenizer.from_config(tokenizer.get_config())
    again.set_vocabulary(tiny_vocabulary)
    assert again.get_config() == tokenizer.get_config()
    assert again.id_rules == tokenizer.id_rules
    assert again.tokenize(["İ [MASK]"]).to_list() == tokenizer.tokenize(["İ [MASK]"]).to_list()
    serial = keras.saving.serialize_keras_object(tokenizer)
    assert keras.saving.deserialize_keras_object(serial).id_rules == tokenizer.id_rules


@pytest.mark.parametrize("dtype", ["int32", "string"])
def test_a_preset_brings_back_pieces_casing_and_id_rules(tiny_vocabulary, tmp_path, dtype):
    # Pieces that a careless file would lose.
    pieces = [*tiny_vocabulary, "\u2028", "\u00a0ev", "##\x0b"]
    tokenizer = Bert2DTokenizer(pieces, casing="turkish", dtype=dtype, **RULES)
    tokenizer.save_to_preset(tmp_path)
    again = Bert2DTokenizer.from_preset(str(tmp_path))
    assert again.get_vocabulary() == pieces
    assert again.get_config() == {**tokenizer.get_config(), "name": again.name}
    assert again.tokenize(TEXTS).to_list() == tokenizer.tokenize(TEXTS).to_list()


def test_a_vocabulary_may_come_from_a_file(tiny_vocabulary, tmp_path, cased):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tiny_vocabulary), encoding="utf-8")
    for name in (path, str(path)):
        assert Bert2DTokenizer(name).tokenize(TEXTS).to_list() == cased.tokenize(TEXTS).to_list()


def test_special_ids_are_wherever_the_vocabulary_has_them(tiny_vocabulary):
    tokenizer = Bert2DTokenizer(["ev", *reversed(SPECIAL), "##ler"])
    ids = (tokenizer.mask_token_id, tokenizer.sep_token_id, tokenizer.cls_token_id)
    assert (*ids, tokenizer.unk_token_id, tokenizer.pad_token_id) == (1, 2, 3, 4, 5)
    assert tokenizer.tokenize(["evler x"]).to_list() == [[[0, 6], [4]]]
    assert tokenizer.detokenize([[5, 0, 6, 5]]).numpy().tolist() == [b"evler"]


def test_pieces_and_ids_name_each_other(cased, tiny_vocabulary):
    assert cased.vocabulary_size() == len(tiny_vocabulary)
    assert [cased.token_to_id(cased.id_to_token(i)) for i in (0, 4, 50)] == [0, 4, 50]
    with pytest.raises(InputError, match="token='ağaç'"):
        cased.token_to_id("ağaç")
    for wrong in (-1, len(tiny_vocabulary)):
        with pytest.raises(InputError, match=f"id={wrong}"):
            cased.id_to_token(wrong)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"casing": "upper"}, "casing='upper'"),
        ({"dtype": "int64"}, "dtype='int64'"),
        ({"max_words": 0}, "max_words=0"),
        ({"max_intermediate_subwords": 0}, "max_intermediate_subwords=0"),
        ({"overflow": "no"}, "overflow='no'"),
        ({"word_numbering": "no"}, "word_numbering='no'"),
    ],
)
def test_unknown_arguments_are_refused_by_name(tiny_vocabulary, arguments, named):
    with pytest.raises(InputError, match=named):
        Bert2DTokenizer(tiny_vocabulary, **arguments)


def test_an_impossible_vocabulary_is_refused(tiny_vocabulary):
    with pytest.raises(InputError, match=r"\[MASK\]"):
        Bert2DTokenizer([piece for piece in tiny_vocabulary if piece != "[MASK]"])
    with pytest.raises(InputError, match="'ev'"):
        Bert2DTokenizer([*tiny_vocabulary, "ev"])
    with pytest.raises(InputError, match="vocabulary"):
        Bert2DTokenizer().tokenize(["ev"])


def test_an_unknown_unit_is_refused(cased):
    with pytest.raises(InputError, match="unit='word'"):
        cased.tokenize_with_offsets(["ev"], "word")


def test_texts_in_more_than_one_dimension_are_refused(cased):
    with pytest.raises(InputError, match=r"shape \(1, 2\)"):
        cased.tokenize([["ev", "bir"]])


def test_numpy_texts_are_texts(cased):
    assert cased.tokenize(np.array(["ev bir"], object)).to_list() == cased.tokenize(["ev bir"]).to_list()
