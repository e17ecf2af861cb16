"""Files opened as text, whatever they are packed in: told by their content, not by their name."""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import sys
import warnings
import zlib
from collections.abc import Iterator
from typing import IO

from keras_bert2d.errors import InputError, InputWarning
from keras_bert2d.reading.encoding import BadLines, check_encoding, warn_of_bad_lines

STANDARD_INPUT = "-"

_PACKED = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x5d\x00\x00": lzma.LZMAFile,
}
# What begins like this is no text, with what is to be done about it.
_REFUSED = {
    b"PK\x03\x04": ("a zip archive (or an office document)", "unpack it, or save it as text"),
    b"PK\x05\x06": ("a zip archive", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it with `zstd -d`"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unpack it with `lz4 -d`"),
    b"\x1f\x9d": ("compressed with compress (.Z)", "unpack it with `uncompress`"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it"),
    b"Rar!\x1a\x07": ("a rar archive", "unpack it"),
    b"PAR1": ("a parquet table", "write its text as JSON lines"),
    b"ARROW1": ("an Arrow table", "write its text as JSON lines"),
    b"%PDF-": ("a PDF document", "save it as text, for example with `pdftotext`"),
    b"\xd0\xcf\x11\xe0\xa1\xb1": ("an office document", "save it as text"),
    b"{\\rtf": ("a rich text document", "save it as text"),
    b"SQLite format 3\x00": ("an SQLite database", "write its text as JSON lines"),
    b"\x89PNG": ("a picture", "give text"),
    b"\xff\xd8\xff": ("a picture", "give text"),
    b"\x7fELF": ("a program", "give text"),
}
_TAR_PLACE, _TAR_MARK = 257, b"ustar"
_HEAD_BYTES = 512
# Text has no zero bytes; UTF-16 has one in nearly every letter of a Latin alphabet.
_MOST_ZERO_BYTES = 0.1
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CHECKED_BYTES = 1 << 20


class TextStream:
    """A file's text in UTF-8, in reads of any size, without its byte order mark.

    Attributes:
        name: string. The file's name.
        bad_lines: `BadLines`. The lines so far that are not in the file's encoding.
    """

    def __init__(self, name: str, file: IO[bytes], on_disk: IO[bytes] | None, encoding: str) -> None:
        self.name = name
        self.bad_lines = BadLines(name, encoding)
        self._file = file
        self._on_disk = on_disk
        self._encoding = encoding
        self._decoder = None
        if encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._bytes_read = self._bytes_reported = 0

    def read(self, size: int) -> bytes:
        """Returns the next bytes of text, about `size`; `b""` at the end.

        Raises:
            InputError: Too many lines are not in the file's encoding, or the file is no text.
        """
        # Four bytes at least: the mark is not torn apart, and what follows it shows the file's end.
        while True:
            data = self._file.read(max(size, 4))
            is_first, at_end = self._bytes_read == 0, not data
            self._bytes_read += len(data)
            if is_first:
                self._check_start(data)
            if self._decoder is not None:
                data = self._decoder.decode(data, at_end).encode("utf-8", "replace")
            if is_first:
                data = data.removeprefix(_BYTE_ORDER_MARK)
            self.bad_lines.feed(data)
            if at_end:
                self.bad_lines.close()
            if data or at_end or (is_first and self._decoder is None):
                return data

    def newly_used(self) -> int:
        """Returns the bytes of the file on disk that were used up since the last call."""
        total = self._bytes_read if self._on_disk is None else self._on_disk.tell()
        used, self._bytes_reported = total - self._bytes_reported, total
        return used

    def _check_start(self, data: bytes) -> None:
        if self._decoder is None:
            if data.startswith(_UTF16_MARKS):
                raise InputError(
                    f"{self.name} is UTF-16 or UTF-32: read it with `--encoding utf-16` or utf-32, or "
                    "convert it to UTF-8"
                )
            if data.count(0) > _MOST_ZERO_BYTES * len(data):
                raise InputError(
                    f"{self.name} is no text: many of its bytes are zero. Where it is UTF-16, read it with "
                    "`--encoding utf-16-le` or utf-16-be"
                )
        elif not data.isascii():
            with contextlib.suppress(UnicodeDecodeError):
                codecs.getincrementaldecoder("utf-8")().decode(data)
                warnings.warn(
                    f"{self.name} looks like UTF-8 but is read as {self._encoding}: leave the encoding out "
                    "where letters come out wrong",
                    InputWarning,
                    stacklevel=2,
                )


@contextlib.contextmanager
def open_text(name: str, encoding: str = "utf-8") -> Iterator[TextStream]:
    """Opens a file, plain or packed by gzip, bzip2 or xz, or standard input.

    Args:
        name: string. The file, or `"-"` for standard input.
        encoding: string. The encoding of the text in it.

    Yields:
        A `TextStream`.

    Raises:
        InputError: The file cannot be read, is damaged, or is something else than text, by name.
    """
    encoding = check_encoding(encoding)
    shown = "standard input" if name == STANDARD_INPUT else name
    try:
        with contextlib.ExitStack() as stack:
            if name != STANDARD_INPUT:
                raw = stack.enter_context(open(name, "rb"))
            elif sys.stdin is None:
                raise InputError("standard input ('-') is closed: pipe text into the command")
            else:
                raw = sys.stdin.buffer
                if not hasattr(raw, "peek"):
                    raw = io.BufferedReader(raw)
                    stack.callback(raw.detach)
            file = raw
            packing = _packing(raw, shown)
            if packing is not None:
                file = stack.enter_context(packing(raw))
                if _packing(file, shown) is not None:
                    raise InputError(f"{shown} is packed twice: unpack it once")
            yield TextStream(shown, file, None if file is raw else raw, encoding)
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{shown} is damaged ({error}): get it again") from error
    except OSError as error:
        # bzip2 says in an error of the system's kind, without a number, that data are damaged.
        fault = "cannot be read" if error.errno else "is damaged"
        raise InputError(f"{shown} {fault}: {error.strerror or error}") from error


def read_text(name: str | os.PathLike, encoding: str = "utf-8") -> str:
    """Reads a file whole, as `open_text` does, and warns of a few lines that are not in its encoding.

    Args:
        name: path. The file.
        encoding: string. The encoding of the text in it.

    Returns:
        The text; bytes that are not in the encoding are U+FFFD.

    Raises:
        InputError: As `open_text`, or too many lines are not in the encoding.
    """
    with open_text(os.fspath(name), encoding) as stream:
        parts = []
        while data := stream.read(_CHECKED_BYTES):
            parts.append(data)
    warn_of_bad_lines([(stream.name, stream.bad_lines)])
    return b"".join(parts).decode("utf-8", "replace")


def check_start(name: str, encoding: str) -> None:
    """Reads the start of a file, to refuse at once what would be refused later.

    Args:
        name: string. The file; standard input and pipes, which can be read only once, are passed over.
        encoding: string. The encoding of the text in it.

    Raises:
        InputError: As `open_text` and `TextStream.read`.
    """
    if os.path.isfile(name):
        with open_text(name, encoding) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            if stream.read(_CHECKED_BYTES):
                # At the end of a short file its last lines are counted too.
                stream.read(1)


def _packing(file: IO[bytes], name: str):
    """Returns what unpacks a file, `None` where it is not packed; refuses what is no text."""
    head = file.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    for mark, (kind, mend) in _REFUSED.items():
        if head.startswith(mark):
            raise InputError(f"{name} is {kind}, no text: {mend}")
    if head[_TAR_PLACE:].startswith(_TAR_MARK):
        raise InputError(f"{name} is a tar archive, no text: unpack it and give its files or its folder")
    return next((opener for mark, opener in _PACKED.items() if head.startswith(mark)), None)
