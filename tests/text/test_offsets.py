import unicodedata
from itertools import groupby

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.choices import CASINGS
from keras_bert2d.text.casing import normalize
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.reference import SPECIAL
from tests.text.pieces import slices
from tests.text.strategies import raw_texts


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
        def tokenize_in_both_units(texts):
            return [tokenizer.tokenize_with_offsets(texts, unit) for unit in ("byte", "character")]

        return tokenize_in_both_units

    return {casing: graph(tokenizer) for casing, tokenizer in tokenizers_by_casing.items()}


@settings(max_examples=60, deadline=None)
@given(raws=st.lists(raw_texts, max_size=6), casing=st.sampled_from(CASINGS))
def test_offsets_of_any_text(tokenizers_by_casing, graphs_by_casing, raws, casing):
    tokenizer = tokenizers_by_casing[casing]
    texts = tf.constant(raws, tf.string, shape=[len(raws)])
    (pieces, byte_starts, byte_ends), (others, starts, ends) = graphs_by_casing[casing](texts)
    assert pieces.to_list() == others.to_list() == tokenizer.tokenize(texts).to_list()
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


@pytest.mark.parametrize("casing", ["lower", "turkish"])
def test_a_dot_that_lower_case_left_behind_belongs_to_its_letter(tokenizers_by_casing, casing):
    tokenizer = tokenizers_by_casing[casing]
    text = "bi\u0307r i\u0307"
    pieces, starts, ends = tokenizer.tokenize_with_offsets([text], "character")
    assert pieces.to_list() == tokenizer.tokenize(["bir i"]).to_list()
    assert tokenizer.unk_token_id not in pieces.flat_values.numpy()
    assert (starts[0, -1, 0].numpy(), ends[0, -1, 0].numpy()) == (5, 7)
    assert text[starts[0, 0, 0].numpy() : ends[0, 0, -1].numpy()] == "bi\u0307r"


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


@pytest.mark.parametrize("casing", CASINGS)
def test_special_pieces_spelled_otherwise_are_text_in_all_casings(tiny_vocabulary, casing):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, casing=casing, special_tokens_in_strings=True)
    text = "bir [mask] [Cls] [MÁSK] [PAD ] [MASK]"
    pieces = tokenizer.tokenize([text]).flat_values.numpy().tolist()
    assert [pieces.count(tokenizer.token_to_id(piece)) for piece in ("[MASK]", "[CLS]", "[PAD]")] == [1, 0, 0]
    assert pieces[-1] == tokenizer.mask_token_id
