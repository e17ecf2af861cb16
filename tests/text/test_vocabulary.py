import hashlib
import subprocess

import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.text.vocabulary import check_vocabulary, read_vocabulary, vocabulary_digest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write(tmp_path, data: bytes):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    return path


def test_a_piece_s_id_is_the_number_of_its_line(tmp_path):
    pieces = [*SPECIAL, "ev", "##ler"]
    assert read_vocabulary(write(tmp_path, "\n".join(pieces).encode())) == pieces


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n\n", b"\r\n\r\n"])
def test_line_ends_and_blank_lines_at_the_end_are_no_pieces(tmp_path, end):
    line_end = "\r\n" if b"\r" in end else "\n"
    data = line_end.join([*SPECIAL, "ev"]).encode() + end
    assert read_vocabulary(write(tmp_path, data)) == [*SPECIAL, "ev"]


def test_nothing_but_the_line_end_is_taken_off(tmp_path):
    pieces = [*SPECIAL, "\u2028", " ev", "ev\u00a0", "\x0b", "#"]
    assert read_vocabulary(write(tmp_path, "\n".join(pieces).encode())) == pieces


def test_the_published_vocabulary_is_valid(shared_data):
    path = shared_data / "vocab" / "tr-cased-32k.txt"
    pieces = read_vocabulary(path)
    assert len(pieces) == 32_000
    lines = subprocess.run(["sed", "-n", "1p;32000p", path], capture_output=True, text=True).stdout
    assert [pieces[0], pieces[-1]] == lines.splitlines()


def test_invalid_utf8_is_refused_with_its_line(tmp_path):
    path = write(tmp_path, "\n".join(SPECIAL).encode() + b"\nev\n\xff\n")
    with pytest.raises(InputError, match=r"vocab\.txt, line 7: .*not valid UTF-8"):
        read_vocabulary(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="no.txt: .*No such file"):
        read_vocabulary(tmp_path / "no.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize("token", SPECIAL)
def test_a_vocabulary_without_a_special_piece_is_refused(tmp_path, token):
    pieces = [piece for piece in [*SPECIAL, "ev"] if piece != token]
    path = write(tmp_path, "\n".join(pieces).encode())
    with pytest.raises(InputError) as raised:
        read_vocabulary(path)
    assert f"vocab.txt: the vocabulary lacks {token}." in str(raised.value)


def test_all_missing_special_pieces_are_named_at_once():
    with pytest.raises(InputError, match=r"list: the vocabulary lacks \[PAD\], \[MASK\]"):
        check_vocabulary(["[UNK]", "[CLS]", "[SEP]", "ev"], "list")


def test_a_piece_that_stands_twice_is_named_with_its_lines():
    with pytest.raises(InputError, match=r"list: the piece 'ev' stands on lines 6, 8\. Keep"):
        check_vocabulary([*SPECIAL, "ev", "##ler", "ev"], "list")
    with pytest.raises(InputError, match=r"'ev' stands on lines 6, 7 \(1 more pieces are repeated"):
        check_vocabulary([*SPECIAL, "ev", "ev", "bir", "bir"], "list")


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_line_between_pieces_is_refused_with_its_number(blank):
    with pytest.raises(InputError, match="list: blank line 6 in the vocabulary"):
        check_vocabulary([*SPECIAL, blank, "ev"], "list")


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"lacks \[PAD\]"):
        read_vocabulary(write(tmp_path, b""))


def test_messages_are_one_line():
    for pieces in ([], ["ev"], [*SPECIAL, ""], [*SPECIAL, "a", "a"], [*SPECIAL, *["a\n"] * 20]):
        with pytest.raises(InputError) as raised:
            check_vocabulary(pieces, "list")
        assert "\n" not in str(raised.value)


def test_the_digest_is_that_of_the_lines_joined_by_newlines():
    # printf 'ev\n##ler' | sha256sum
    known = "c93a10d2ee318be82ca33a345677747093db26a535d770871306b13460525d78"
    assert vocabulary_digest(["ev", "##ler"]) == known


def test_the_digest_changes_with_the_order_and_not_with_line_ends(tmp_path):
    pieces = [*SPECIAL, "ş", "##ler"]
    unix = read_vocabulary(write(tmp_path, "\n".join(pieces).encode() + b"\n"))
    windows = read_vocabulary(write(tmp_path, "\r\n".join(pieces).encode()))
    assert vocabulary_digest(unix) == vocabulary_digest(windows) == vocabulary_digest(pieces)
    assert vocabulary_digest(pieces) == hashlib.sha256("\n".join(pieces).encode()).hexdigest()
    assert vocabulary_digest(pieces) != vocabulary_digest(pieces[::-1])
