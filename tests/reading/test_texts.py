import gzip
import io
import itertools
import json
import os
import threading
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError
from keras_bert2d.reading import lines as lines_module
from keras_bert2d.reading.texts import input_size, read_text_blocks

TEXT = "Ev büyük.\nEvler büyük.\n\nKedi uyudu.\n\n\n \t\nİstanbul'da kar\n".encode()
TEXT_LINES = [line.encode() for line in ("Ev büyük.", "Evler büyük.", "Kedi uyudu.", "İstanbul'da kar")]


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def read(paths, **arguments):
    blocks = list(read_text_blocks(paths, **arguments))
    lines = [line for block in blocks for line in block.lines]
    return lines, np.concatenate([block.documents for block in blocks]).tolist()


def stated(texts, document):
    """The rules of `read_text_blocks` for plain text in plain Python: one line, one look."""
    lines, documents, number = [], [], -1
    for text in texts:
        opens = True
        for line in text.split(b"\n"):
            line = line.removesuffix(b"\r")
            if not line.strip():
                opens = opens or document == "blank"
                continue
            number += opens
            opens = document == "line"
            lines.append(line)
            documents.append(number)
    return lines, documents


file_texts = st.lists(
    st.lists(st.sampled_from(["", " ", "\t", "ev", "şu göl", "a\rb", "\r", "\x0b", "👍🏽"]), max_size=8),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=200)
@given(
    texts=file_texts,
    newline=st.sampled_from(["\n", "\r\n"]),
    ends=st.booleans(),
    document=st.sampled_from(["blank", "line", "file"]),
    block_bytes=st.integers(1, 40),
    ending=st.sampled_from([".txt", ".txt.gz"]),
)
def test_any_lines_come_back_in_any_block_size(
    tmp_path_factory, texts, newline, ends, document, block_bytes, ending
):
    folder = tmp_path_factory.mktemp("texts")
    data = [(newline.join(lines) + newline * ends).encode() for lines in texts]
    paths = [write(folder / f"{place}{ending}", text) for place, text in enumerate(data)]
    expected = stated(data, document)
    if not expected[0]:
        with pytest.raises(InputError, match="no line of text"):
            read(paths, document=document, block_bytes=block_bytes)
        return
    assert read(paths, document=document, block_bytes=block_bytes) == expected


@settings(deadline=None, max_examples=300)
@given(
    text=st.text("ab şğ中👍 \t\r\n", max_size=80),
    block_bytes=st.integers(1, 90),
    document=st.sampled_from(["blank", "line"]),
)
@example(text="a" * 12 + "\r\n", block_bytes=1, document="line")
@example(text=" " * 40 + "\na", block_bytes=7, document="blank")
def test_long_lines_are_cut_alike_in_any_block_size(tmp_path_factory, text, block_bytes, document):
    path = write(tmp_path_factory.mktemp("long") / "a.txt", b"x\n" + text.encode())
    with mock.patch.object(lines_module, "MAX_LINE_BYTES", 12):
        lines, documents = read([path], block_bytes=block_bytes, document=document)
        assert (lines, documents) == read([path], document=document)
    uncut, uncut_documents = read([path], document=document)
    assert max(map(len, lines)) <= 12
    assert all(line.decode("utf-8") for line in lines)
    assert b"".join(b"".join(lines).split()) == b"".join(b"".join(uncut).split())
    if document == "line":
        assert sorted(set(documents)) == uncut_documents


def test_lines_over_one_mebibyte_are_cut_at_white_space_or_between_characters(tmp_path):
    words = b"kelime " * 300_000
    characters = "ş".encode() * 1_200_000
    lines, documents = read([write(tmp_path / "a.txt", words + b"\n" + characters)], document="line")
    assert documents == [0, 0, 0, 1, 1, 1]
    assert all(len(line) <= 1 << 20 for line in lines)
    assert set(b" ".join(lines[:3]).split()) == {b"kelime"}
    assert b"".join(lines[3:]) == characters
    assert [line.decode().strip("ş") for line in lines[3:]] == ["", "", ""]


@pytest.mark.filterwarnings("ignore::keras_bert2d.errors.InputWarning")
def test_invalid_bytes_come_through_even_where_a_line_of_them_is_cut(tmp_path):
    data = "ş\n".encode() * 10 + b"\x80" * (3 << 20)
    lines, _ = read([write(tmp_path / "a.txt", data)])
    assert b"".join(lines[10:]) == b"\x80" * (3 << 20)


def test_memory_does_not_grow_with_a_file_without_newlines(tmp_path):
    def peak_of(words):
        path = write(tmp_path / "a.txt.gz", (b"kelime " * words)[:-1])
        tracemalloc.start()
        try:
            total = sum(len(line) + 1 for block in read_text_blocks([path]) for line in block.lines)
            return total, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    short, short_peak = peak_of(5 << 20)
    long, long_peak = peak_of(15 << 20)
    assert (short, long) == (35 << 20, 105 << 20)
    assert long_peak < 1.1 * short_peak


@pytest.mark.parametrize(
    ("document", "expected"),
    [("blank", [0, 0, 1, 2, 3]), ("line", [0, 1, 2, 3, 4]), ("file", [0, 0, 0, 0, 1])],
)
def test_document_rules(tmp_path, document, expected):
    paths = [write(tmp_path / "a.txt", TEXT), write(tmp_path / "b.txt", b"Son.")]
    assert read(paths, document=document) == ([*TEXT_LINES, b"Son."], expected)


def test_gzip_gives_the_same_blocks_as_plain_text(tmp_path):
    text = TEXT * 500
    plain = list(read_text_blocks([write(tmp_path / "a.txt", text)], block_bytes=1000))
    zipped = list(read_text_blocks([write(tmp_path / "a.txt.gz", text)], block_bytes=1000))
    assert len(plain) > 10
    for one, other in zip(plain, zipped, strict=True):
        assert one.lines == other.lines
        np.testing.assert_array_equal(one.documents, other.documents)
        assert one.documents.dtype == other.documents.dtype == np.int64


def test_blocks_do_not_span_sources_and_small_files_of_a_folder_share_one(tmp_path):
    for name in ("b.txt", "a/z.txt", "a/y.txt.gz", "empty.txt"):
        write(tmp_path / "folder" / name, b"" if "empty" in name else name.encode())
    single = write(tmp_path / "single.txt", b"tek")
    blocks = list(read_text_blocks([tmp_path / "folder", single]))
    assert [block.source for block in blocks] == [0, 1]
    assert blocks[0].lines == [b"a/y.txt.gz", b"a/z.txt", b"b.txt"]
    assert blocks[0].documents.tolist() == [0, 1, 2]
    assert blocks[1].documents.tolist() == [3]


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".jsonl", ".json.gz"])
def test_bytes_read_add_up_to_the_input_size(tmp_path, ending):
    rows = [f'{{"text": "satır {number}"}}' for number in range(5000)]
    path = write(tmp_path / f"a{ending}", "\n".join(rows).encode())
    blocks = list(read_text_blocks([path], block_bytes=9000))
    assert len(blocks) > 3
    assert sum(block.bytes_read for block in blocks) == input_size([path]) == path.stat().st_size


def test_json_lines_hold_a_document_each(tmp_path):
    texts = ["Ev büyük.\n\nEvler büyük.", "", "Kedi\r\nuyudu. 👍"]
    data = "\n\n".join(json.dumps({"id": 1, "text": text}) for text in texts).encode()
    path = write(tmp_path / "a.jsonl", data)
    expected = [line.encode() for line in ("Ev büyük.", "Evler büyük.", "Kedi", "uyudu. 👍")]
    for block_bytes, (document, numbers) in itertools.product(
        (1, 7, 1 << 20), {"blank": [0, 0, 1, 1], "line": [0, 1, 2, 3], "file": [0] * 4}.items()
    ):
        assert read([path], document=document, block_bytes=block_bytes) == (expected, numbers)


def test_a_field_makes_every_input_json_lines(tmp_path):
    path = write(tmp_path / "a.txt", '{"text": "hayır", "body": "evet"}'.encode())
    assert read([path], field="body")[0] == [b"evet"]


def test_half_a_surrogate_pair_in_json_is_replaced(tmp_path):
    path = write(tmp_path / "a.jsonl", rb'{"text": "ev \ud83d!"}')
    assert read([path])[0] == ["ev \ufffd!".encode()]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'{"text": "a"', r"a\.jsonl:3: not JSON"),
        (b"[" * 100_000, r"a\.jsonl:3: not JSON"),
        (b'["a"]', r"a\.jsonl:3: a JSON object is needed\. Received: list"),
        (b'{"body": "a"}', r"a\.jsonl:3: the object has no field 'text'.*'body'"),
        (b'{"text": null}', r"a\.jsonl:3: field 'text' must hold a string\. Received: NoneType"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path, row, message):
    path = write(tmp_path / "a.jsonl", b'{"text": "iyi"}\n\n' + row + b'\n{"text": "iyi"}\n')
    for block_bytes in (5, 1 << 20):
        with pytest.raises(InputError, match=message):
            read([path], block_bytes=block_bytes)


def test_a_json_line_without_end_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", b'{"text": "iyi"}\n' + b" " * 5000)
    with mock.patch.object(lines_module, "MAX_JSON_BYTES", 1000):
        with pytest.raises(InputError, match=r"a\.jsonl:2: the line is over"):
            read([path], block_bytes=100)


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_a_byte_order_mark_is_dropped_at_each_files_start(tmp_path, block_bytes):
    paths = [
        write(tmp_path / "a.txt", b"\xef\xbb\xbfev\n\xef\xbb\xbfgez"),
        write(tmp_path / "b.txt.gz", b"\xef\xbb\xbfkar"),
        write(tmp_path / "c.txt", b"\xef\xbb\xbf"),
        write(tmp_path / "d.json", b'\xef\xbb\xbf{"text": "su"}'),
    ]
    assert read(paths, block_bytes=block_bytes)[0] == [b"ev", b"\xef\xbb\xbfgez", b"kar", b"su"]


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert read(["-"]) == (TEXT_LINES, [0, 0, 1, 2])
    assert input_size(["-"]) is None
    with pytest.raises(InputError, match="twice"):
        read_text_blocks(["-", "-"])


def test_a_pipe_is_read_and_has_no_size(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert input_size([pipe]) is None
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    assert read([pipe])[0] == TEXT_LINES
    writer.join()


def test_damaged_gzip_is_refused_by_name(tmp_path):
    whole = gzip.compress(os.urandom(100_000).hex().encode())
    broken = whole[:5000] + bytes(byte ^ 0xFF for byte in whole[5000:5200]) + whole[5200:]
    for data in (whole[:-2000], broken, whole + b"more"):
        path = tmp_path / "a.txt.gz"
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.txt\.gz is damaged"):
            read([path])


@pytest.mark.parametrize("data", [b"", b"\n \n\t\r\n", b"\xef\xbb\xbf"])
def test_inputs_without_a_line_of_text_are_refused(tmp_path, data):
    paths = [write(tmp_path / "a.txt", data), write(tmp_path / "b.jsonl", b'{"text": " \\n"}')]
    with pytest.raises(InputError, match=r"holds no line of text.*a\.txt"):
        read(paths)


def test_empty_files_among_others_are_fine(tmp_path):
    names = ("a.txt", "b.txt.gz", "c.jsonl", "d.txt", "e.txt")
    paths = [write(tmp_path / name, b"ev" if name == "d.txt" else b"") for name in names]
    blocks = list(read_text_blocks(paths))
    assert [(block.source, block.lines) for block in blocks] == [(3, [b"ev"])]


def test_what_is_missing_is_named_before_anything_is_read(tmp_path):
    good = write(tmp_path / "a.txt", b"ev")
    with pytest.raises(InputError, match=r"there is no file '.*yok\.txt'"):
        read_text_blocks([good, tmp_path / "yok.txt"])
    with pytest.raises(InputError, match=r"there is no file '.*yok\.txt'"):
        input_size([tmp_path / "yok.txt"])
    (tmp_path / "bos").mkdir()
    with pytest.raises(InputError, match=r"the folder '.*bos' holds no file"):
        read_text_blocks([tmp_path / "bos"])
    with pytest.raises(InputError, match="no input"):
        read_text_blocks([])


def test_impossible_settings_are_refused(tmp_path):
    path = write(tmp_path / "a.txt", b"ev")
    with pytest.raises(InputError, match="Received: document='page'"):
        read_text_blocks([path], document="page")
    with pytest.raises(InputError, match="Received: block_bytes=0"):
        read_text_blocks([path], block_bytes=0)


@pytest.mark.parametrize("block_bytes", [100_003, 4 << 20])
def test_the_turkish_corpus_is_read_whole(shared_data, block_bytes):
    path = shared_data / "corpus" / "tr.txt"
    lines, documents = read([path], document="line", block_bytes=block_bytes)
    expected, _ = stated([path.read_bytes()], "line")
    assert len(lines) == 319_693
    assert lines == expected
    assert documents == list(range(319_693))
