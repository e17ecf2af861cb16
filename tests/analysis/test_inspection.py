import json

import pytest

from keras_bert2d.analysis.inspection import inspect_text
from keras_bert2d.errors import InputError
from keras_bert2d.text.tokenizer import Bert2DTokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, casing="turkish", max_words=16)


def test_every_piece_has_its_ids_and_its_place_in_the_text(tokenizer, tiny_vocabulary):
    inspection = inspect_text(tokenizer, "Göremediklerimizden misiniz?")
    pieces = "[CLS] gör ##em ##edik ##leri ##miz ##den mi ##siniz ? [SEP]".split()
    assert [column["piece"] for column in inspection.columns] == pieces
    assert [tiny_vocabulary[column["id"]] for column in inspection.columns] == pieces
    assert [column["word"] for column in inspection.columns] == [0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4]
    # M = 3 and four pieces between the first and the last: 2 + floor(j * 3 / 4).
    assert [column["subword"] for column in inspection.columns] == [0, 0, 2, 2, 3, 4, 1, 0, 1, 0, 0]
    texts = "Gör em edik leri miz den mi siniz ?".split()
    assert [column["source"] for column in inspection.columns[1:-1]] == texts
    assert "bytes" not in inspection.columns[0] and "source" not in inspection.columns[-1]
    assert inspection.columns[1]["bytes"] == [0, 4] and inspection.columns[1]["characters"] == [0, 3]


@pytest.mark.parametrize(
    "text", ["İstanbul'da evler", "go\u0308r e\u0308v", "a\x00b", "\ufeffev 😀 שלום", "kI\u0307tap"]
)
def test_offsets_point_into_the_text_as_it_was_given(tokenizer, text):
    data = text.encode("utf-8")
    for column in inspect_text(tokenizer, text).columns[1:-1]:
        first, last = column["bytes"]
        assert data[first:last].decode("utf-8") == column["source"]
        assert text[slice(*column["characters"])] == column["source"]


def test_bytes_that_are_no_utf8_are_replaced(tokenizer):
    # What the shell hands over as an argument of bytes that are no UTF-8.
    inspection = inspect_text(tokenizer, b"ev \xff kitap".decode("utf-8", "surrogateescape"))
    assert inspection.text == "ev \ufffd kitap"
    assert [column["source"] for column in inspection.columns[1:-1]][0] == "ev"
    json.dumps(inspection.to_dict()).encode("utf-8")


def test_the_masked_text_hides_what_is_to_be_found_and_nothing_else(tokenizer):
    text = "Göremediklerimizden misiniz? Bir kitap, bir ev."
    seen = set()
    for seed in range(12):
        inspection = inspect_text(tokenizer, text, 0.3, seed)
        pieces = [column["piece"] for column in inspection.columns]
        restored = [inspection.labels.get(i, piece) for i, piece in enumerate(inspection.masked)]
        assert restored == pieces
        assert len(inspection.labels) <= round(0.3 * (len(pieces) - 2)) or len(inspection.labels) <= 6
        words = {inspection.columns[i]["word"] for i in inspection.labels}
        whole = {i for i, column in enumerate(inspection.columns) if column["word"] in words}
        assert set(inspection.labels) == whole
        seen.add(tuple(inspection.labels))
    assert len(seen) > 3
    again = inspect_text(tokenizer, text, 0.3, 11)
    assert again == inspection


@pytest.mark.parametrize("text", ["", "  \t", "\x00", "\u0301"])
def test_a_text_without_words_has_a_row_of_two_columns(tokenizer, text):
    inspection = inspect_text(tokenizer, text)
    assert inspection.columns[0]["piece"] == "[CLS]" and inspection.columns[-1]["piece"] == "[SEP]"
    assert inspection.to_text().splitlines()


def test_the_table_has_a_line_for_each_piece_and_the_masked_text(tokenizer):
    inspection = inspect_text(tokenizer, "Evler bir.", 0.5)
    lines = inspection.to_text().splitlines()
    assert lines[0].split() == "piece id word subword bytes characters text".split()
    assert [line.split()[0] for line in lines[1:7]] == "[CLS] ev ##ler bir . [SEP]".split()
    assert lines[2].split()[1:] == [str(inspection.columns[1]["id"]), "1", "0", "0–2", "0–2", "Ev"]
    assert lines[-2].split()[1:] == inspection.masked
    assert all(piece in lines[-1] for piece in inspection.labels.values())


def test_more_words_than_the_tokenizer_numbers_are_refused(tokenizer):
    inspect_text(tokenizer, "ev " * 14)
    with pytest.raises(InputError, match="15 words, a row has room for 14"):
        inspect_text(tokenizer, "ev " * 15)


def test_a_rate_outside_0_and_1_is_refused(tokenizer):
    with pytest.raises(InputError, match="rate=1.5"):
        inspect_text(tokenizer, "ev", 1.5)
