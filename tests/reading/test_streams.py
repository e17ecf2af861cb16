import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile

import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.reading.streams import read_text
from keras_bert2d.reading.texts import input_size, read_text_blocks

TEXT = "Ev büyük.\nİstanbul'da kar\n".encode() * 2000
PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
}


def archive(kind):
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("a.txt", TEXT)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz" if kind == "tar.gz" else "w") as file:
            info = tarfile.TarInfo("a.txt")
            info.size = len(TEXT)
            file.addfile(info, io.BytesIO(TEXT))
    return buffer.getvalue()


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("ending", ["{}", "txt", "gz"])
def test_packed_text_is_told_by_its_content(tmp_path, packer, ending):
    path = tmp_path / f"a.{ending.format(packer)}"
    path.write_bytes(PACKERS[packer](TEXT))
    blocks = list(read_text_blocks([path], block_bytes=1000))
    assert b"\n".join(line for block in blocks for line in block.lines) + b"\n" == TEXT
    assert sum(block.bytes_read for block in blocks) == input_size([path])
    assert read_text(path).encode() == TEXT


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_standard_input_is_read(monkeypatch, packer):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PACKERS[packer](TEXT))))
    lines = [line for block in read_text_blocks(["-"]) for line in block.lines]
    assert b"\n".join(lines) + b"\n" == TEXT


def test_plain_text_may_be_called_gz(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(b"ev\n")
    assert next(read_text_blocks([tmp_path / "a.txt.gz"])).lines == [b"ev"]


@pytest.mark.parametrize("ending", ["jsonl.xz", "json.bz2", "JSONL.GZ", "jsonl"])
def test_packed_json_lines_are_json_lines(tmp_path, ending):
    pack = PACKERS.get(ending.rpartition(".")[2].lower(), bytes)
    (tmp_path / f"a.{ending}").write_bytes(pack(b'{"text": "ev"}\n'))
    assert next(read_text_blocks([tmp_path / f"a.{ending}"])).lines == [b"ev"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (archive("zip"), "zip archive"),
        (archive("tar"), "tar archive"),
        (archive("tar.gz"), "tar archive"),
        (b"\x28\xb5\x2f\xfd" + os.urandom(99), "zstd"),
        (b"PAR1" + bytes(99), "parquet"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "PDF"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "7z"),
        (gzip.compress(gzip.compress(TEXT)), "packed twice"),
        (bytes(5000), "bytes are zero"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line_before_anything_is_read(tmp_path, data, kind):
    (tmp_path / "a.txt").write_bytes(b"ev\n")
    (tmp_path / "b.txt").write_bytes(data)
    with pytest.raises(InputError, match=rf"b\.txt is .*{kind}") as refused:
        read_text_blocks([tmp_path])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_text_that_is_cut_or_damaged_is_named(tmp_path, packer):
    whole = PACKERS[packer](os.urandom(100_000).hex().encode())
    damaged = whole[:5000] + bytes(byte ^ 0xFF for byte in whole[5000:5200]) + whole[5200:]
    for data in (whole[:-2000], damaged):
        (tmp_path / "a.txt").write_bytes(data)
        with pytest.raises(InputError, match=r"a\.txt is damaged"):
            list(read_text_blocks([tmp_path / "a.txt"]))
