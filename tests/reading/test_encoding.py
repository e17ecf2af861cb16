import codecs
import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.errors import InputError, InputWarning
from keras_bert2d.reading.encoding import BadLines, check_encoding
from keras_bert2d.reading.streams import read_text
from keras_bert2d.reading.texts import read_text_blocks

TEXT = "Üniversitenin öğrencileri\nİstanbul'da\nkar yağdı\nev\n"
# Lines that are no UTF-8: a letter of a legacy encoding, half a character, bytes that UTF-8 never has.
BAD = ["şu".encode("iso-8859-9"), "ev ş".encode()[:-1], b"\xff\xfe\xfa ev"]


def read(path, **arguments):
    return [line for block in read_text_blocks([path], **arguments) for line in block.lines]


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("encoding", ["iso-8859-9", "cp1254", "latin1", "cp857"])
def test_a_corpus_in_a_legacy_encoding_is_refused_with_its_first_bad_line_and_their_share(tmp_path, encoding):
    text = ("ev\n" + TEXT).replace("İ", "I").replace("ğ", "ö").replace("ı", "i") * 2000
    path = write(tmp_path / "a.txt", text.encode(encoding))
    with pytest.raises(InputError, match=r"a\.txt:2: .*not UTF-8.*100%.*--encoding"):
        read(path)
    short = write(tmp_path / "b.txt", b"\n\nbir\n" + "öğrenci".replace("ğ", "ö").encode(encoding))
    with pytest.raises(InputError, match=r"b\.txt:4: .*100%.*1 lines beyond"):
        read(short)


@pytest.mark.parametrize(
    "encoding", ["iso-8859-9", "cp1254", "utf-16", "utf-16-le", "utf-8-sig", "UTF8", "cp857"]
)
def test_an_encoding_that_is_named_is_read(tmp_path, encoding):
    text = TEXT * 3000
    path = write(tmp_path / "a.txt", text.encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block_bytes in (11, 1 << 20):
            assert b"\n".join(read(path, encoding=encoding, block_bytes=block_bytes)).decode() + "\n" == text


def test_the_encoding_holds_for_json_lines(tmp_path):
    rows = "".join(json.dumps({"text": line}, ensure_ascii=False) + "\n" for line in TEXT.splitlines())
    path = write(tmp_path / "a.jsonl", rows.encode("iso-8859-9"))
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*not UTF-8"):
        read(path)
    assert read(path, encoding="iso-8859-9") == [line.encode() for line in TEXT.splitlines()]


@pytest.mark.parametrize("bad", BAD)
def test_a_few_bad_lines_pass_with_one_warning_that_counts_them(tmp_path, bad):
    good = TEXT.encode() * 400
    write(tmp_path / "a.txt", good + bad + b"\n" + good + bad + b"\n")
    write(tmp_path / "b.txt", TEXT.encode() + bad)
    with pytest.warns(InputWarning, match=r"a\.txt:1601: this line and 2 more in 2 files") as caught:
        lines = read(tmp_path)
    assert len(caught) == 1
    assert lines.count(bad) == 3


def test_one_in_a_hundred_lines_beyond_ascii_may_be_bad_and_no_more(tmp_path):
    good = ["şu göl".encode()] * 99
    passing = write(tmp_path / "a.txt", b"\n".join([*good, BAD[0]] * 50))
    with pytest.warns(InputWarning, match="this line and 49 more"):
        assert len(read(passing)) == 5000
    refused = write(tmp_path / "b.txt", b"\n".join([*good[:89], BAD[0]] * 50))
    with pytest.raises(InputError, match=r"b\.txt:90: .*1%"):
        read(refused)


def test_ascii_lines_do_not_hide_a_legacy_encoding(tmp_path):
    path = write(tmp_path / "a.txt", (b"ev\n" * 999 + "göl\n".encode("iso-8859-9")) * 10)
    with pytest.raises(InputError, match=r"a\.txt:1000: .*100% of the 10 lines"):
        read(path)


def test_a_legacy_file_far_into_the_input_is_refused_at_the_call(tmp_path):
    write(tmp_path / "a.txt", TEXT.encode() * 10)
    write(tmp_path / "b.txt", "göl\n".encode("iso-8859-9") * 10)
    with pytest.raises(InputError, match=r"b\.txt:1"):
        read_text_blocks([tmp_path])


@settings(deadline=None, max_examples=200)
@given(
    lines=st.lists(st.sampled_from([b"", b"ev", "şu".encode(), "👍中".encode(), *BAD]), max_size=30),
    sizes=st.lists(st.integers(1, 9), min_size=1),
)
def test_what_is_counted_does_not_hang_on_the_size_of_the_reads(lines, sizes):
    data = b"\n".join(lines)

    def count(parts):
        counter = BadLines("a.txt", "utf-8")
        try:
            for part in parts:
                counter.feed(part)
            counter.close()
        except InputError as error:
            return str(error)
        return counter.count, counter.first

    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + sizes[len(starts) % len(sizes)])
    result = count(data[i:j] for i, j in zip(starts, starts[1:], strict=False))
    assert result == count([data])
    bad = [i for i, line in enumerate(lines, 1) if line.decode("utf-8", "replace").encode() != line]
    beyond = sum(not line.isascii() for line in lines)
    if len(bad) <= 3 and 2 * len(bad) <= beyond:
        assert result == (len(bad), bad[0] if bad else 0)
    else:
        assert f"a.txt:{bad[0]}:" in result and f" {len(bad) / beyond:.0%} " in result


def test_bytes_that_an_encoding_lacks_are_counted_too(tmp_path):
    good = "öğrenci\n".encode("cp1254")
    with pytest.warns(InputWarning, match=r"a\.txt:11: this line"):
        lines = read(write(tmp_path / "a.txt", good * 10 + b"\x81\x8d\n"), encoding="cp1254")
    assert lines[10] == "\ufffd\ufffd".encode()
    # EUC-KR has few of these.
    with pytest.raises(InputError, match="not EUC_KR"):
        read(write(tmp_path / "b.txt", "göl\n".encode("cp1254") * 2000), encoding="euc-kr")


def test_utf8_that_is_read_as_something_else_is_warned_of(tmp_path):
    path = write(tmp_path / "a.txt", TEXT.encode())
    with pytest.warns(InputWarning, match=r"a\.txt looks like UTF-8 but is read as iso8859-9"):
        read(path, encoding="iso-8859-9")


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b""])
def test_utf16_is_refused_by_name(tmp_path, mark):
    encoding = "utf-16-be" if mark == codecs.BOM_UTF16_BE else "utf-16-le"
    path = write(tmp_path / "a.txt", mark + TEXT.encode(encoding))
    with pytest.raises(InputError, match=r"a\.txt is .*UTF-16.*--encoding utf-16"):
        read(path)


def test_some_zero_bytes_pass(tmp_path):
    assert read(write(tmp_path / "a.txt", b"bir\0ev daha var\n")) == [b"bir\0ev daha var"]


@pytest.mark.parametrize("encoding", ["turkish", "base64", "", "utf-8\0"])
def test_an_unknown_encoding_is_refused_by_name(encoding):
    with pytest.raises(InputError, match="Received: encoding="):
        check_encoding(encoding)


def test_a_file_is_read_whole_by_the_same_rules(tmp_path):
    assert read_text(write(tmp_path / "a.txt", TEXT.encode("utf-8-sig"))) == TEXT
    assert read_text(write(tmp_path / "b.txt", TEXT.encode("iso-8859-9")), "iso-8859-9") == TEXT
    with pytest.raises(InputError, match=r"b\.txt:1: .*not UTF-8"):
        read_text(tmp_path / "b.txt")
    with pytest.warns(InputWarning, match=r"c\.txt:5"):
        text = read_text(write(tmp_path / "c.txt", TEXT.encode() + BAD[0]))
    assert text == TEXT + BAD[0].decode("utf-8", "replace")


def test_real_text_passes_without_a_warning_and_its_legacy_form_does_not(shared_data, tmp_path):
    for name in ("tr", "fi", "hu", "zh"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_text_blocks([shared_data / "corpus" / f"{name}.txt"])
    legacy = (shared_data / "corpus" / "tr.txt").read_bytes()[: 8 << 20].decode("utf-8", "ignore")
    path = write(tmp_path / "tr.txt", legacy.encode("iso-8859-9", "replace"))
    with pytest.raises(InputError, match=r"tr\.txt:\d+: .*(9\d|100)% of the 1,"):
        read_text_blocks([path])
