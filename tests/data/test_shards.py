import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.data import shards as shards_module
from keras_bert2d.data.prepare import prepare
from keras_bert2d.data.shards import (
    MANIFEST,
    VOCABULARY,
    FlatTexts,
    check_digests,
    decode_records,
    piece_dtype,
    read_manifest,
    read_tokenizer,
    record_splits,
    write_records,
)
from keras_bert2d.errors import InputError
from keras_bert2d.text.tokenizer import Bert2DTokenizer

SIZE = 70_000  # Ids do not fit in two bytes.


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_vocabulary):
    """A shards folder of three shards, with id rules and a casing of its own."""
    root = tmp_path_factory.mktemp("shards")
    (root / "text").write_text("ev\nkitap\n\nbir ev\n", encoding="utf-8")
    tokenizer = Bert2DTokenizer(tiny_vocabulary, casing="turkish", max_words=40, overflow="last")
    prepare([root / "text"], tokenizer, root / "out", shard_bytes=1)
    return root / "out"


@pytest.fixture
def copy(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def write_and_read(path, texts, documents, size):
    ragged = tf.RaggedTensor.from_nested_row_lengths(
        np.array([piece for text in texts for word in text for piece in word], np.int32),
        [[len(text) for text in texts], [len(word) for text in texts for word in text]],
    )
    count = write_records(path, FlatTexts.of(ragged, size), np.array(documents))
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert len(records) == count
    return records


words = st.lists(st.integers(0, 299), min_size=1, max_size=7)
corpora = st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=12)


@pytest.mark.parametrize("size", [300, 1 << 16, (1 << 16) + 1])
def test_what_was_written_is_read_back(tmp_path, monkeypatch, size):
    monkeypatch.setattr(shards_module, "RECORD_PIECES", 9)
    path = tmp_path / "shard"

    @settings(deadline=None, max_examples=25)
    @given(corpora, st.integers(0, 1 << 40))
    def check(texts, document):
        texts[0][0][0] = size - 1  # The largest id.
        documents = [document + i // 3 for i in range(len(texts))]
        records = write_and_read(path, texts, documents, size)
        read, read_documents, per_record = decode_records(tf.constant(records), size)
        assert read.to_list() == texts and read.dtype == tf.int32
        assert read_documents.numpy().tolist() == documents
        assert per_record.numpy().sum() == len(texts) and len(per_record) == len(records)

    check()


def test_records_are_read_back_in_any_selection(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "RECORD_PIECES", 2)
    texts = [[[1], [2]], [[3, 4, 5]], [[6]], [[7]]]
    records = write_and_read(tmp_path / "shard", texts, [4, 4, 9, 9], SIZE)
    read, documents, per_record = decode_records(tf.constant([records[2], records[0]]), SIZE)
    assert read.to_list() == [[[6]], [[7]], [[1], [2]]]
    assert documents.numpy().tolist() == [9, 9, 4]
    assert per_record.numpy().tolist() == [2, 1]


def test_a_record_has_the_same_bytes_in_every_process(tmp_path):
    """The features come in one order, whatever the process, so parts made apart have one digest."""
    (record,) = write_and_read(tmp_path / "shard", [[[1], [2]]], [4], SIZE)
    names = [b"documents", b"pieces", b"text_lengths", b"word_lengths"]
    assert sorted(names, key=record.index) == names


def test_no_records_are_no_texts():
    texts, documents, per_record = decode_records(tf.zeros([0], tf.string), SIZE)
    assert texts.to_list() == [] and len(documents) == len(per_record) == 0


def test_a_word_of_a_hundred_pieces_fits_into_its_byte(tmp_path):
    texts = [[[8] * 100, [9]]]
    read, *_ = decode_records(tf.constant(write_and_read(tmp_path / "shard", texts, [0], 10)), 10)
    assert read.to_list() == texts


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 50))
def test_a_record_ends_with_the_text_that_fills_it(lengths, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "RECORD_PIECES", most)
        splits = record_splits(np.array(lengths, np.int64)).tolist()
    expected, filled = [0], 0
    for i, length in enumerate(lengths, 1):
        filled += length
        if filled >= most:
            expected.append(i)
            filled = 0
    if expected[-1] != len(lengths):
        expected.append(len(lengths))
    assert splits == expected


def test_piece_ids_take_two_bytes_where_they_fit():
    assert piece_dtype(32_000).size == piece_dtype(1 << 16).size == 2
    assert piece_dtype((1 << 16) + 1).size == 4


def test_the_tokenizer_comes_back_with_casing_and_id_rules(folder, tiny_vocabulary):
    tokenizer = read_tokenizer(folder, tiny_vocabulary)
    assert tokenizer.get_vocabulary() == tiny_vocabulary
    assert tokenizer.casing == "turkish"
    assert (tokenizer.id_rules.max_words, tokenizer.id_rules.overflow) == (40, "last")


def test_a_vocabulary_that_the_shards_were_not_made_with_is_refused(folder, tiny_vocabulary):
    with pytest.raises(InputError, match="--vocab is not the one that the shards"):
        read_tokenizer(folder, [*tiny_vocabulary[:-1], "başka"])


def test_a_vocabulary_file_that_was_changed_in_the_folder_is_refused(copy, tiny_vocabulary):
    (copy / VOCABULARY).write_text("\n".join([*tiny_vocabulary, "başka"]), encoding="utf-8")
    with pytest.raises(InputError, match=f"{VOCABULARY} is not the one"):
        read_tokenizer(copy)


def test_whole_shards_pass_the_check(folder):
    check_digests(folder, read_manifest(folder))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_shard_is_named_and_can_be_made_again(copy, folder, tmp_path, tiny_vocabulary, harm):
    path = copy / "shard-00001.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(data if harm == "flip" else data[:-1])
    with pytest.raises(InputError, match=r"shard-00001\.tfrecord is (damaged|missing).*prepare"):
        check_digests(copy, read_manifest(copy))
    # What the message tells the user to do.
    (copy / MANIFEST).unlink()
    tokenizer = read_tokenizer(folder)
    prepare([folder.parent / "text"], tokenizer, copy, shard_bytes=1)
    check_digests(copy, read_manifest(copy))
    assert path.read_bytes() == (folder / path.name).read_bytes()


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(InputError, match=rf"has no {MANIFEST}: make shards with `keras-bert2d prepare"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff", '{"format": 2}', '{"format": 2, "shards": [{}]}'])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="is damaged"):
        read_manifest(tmp_path)


def test_a_manifest_of_another_format_is_refused(copy):
    data = json.loads((copy / MANIFEST).read_text(encoding="utf-8"))
    (copy / MANIFEST).write_text(json.dumps({**data, "format": 3}), encoding="utf-8")
    with pytest.raises(InputError, match="format 3; this version reads 2"):
        read_manifest(copy)
