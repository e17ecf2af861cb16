"""From bytes, read in pieces of any size, to lines of text and the documents that they open."""

import itertools
import json
from collections.abc import Callable, Iterator

import numpy as np

from keras_bert2d.errors import InputError

MAX_LINE_BYTES = 1 << 20
MAX_JSON_BYTES = 256 << 20

_WHITE_SPACE = (b" ", b"\t", b"\r", b"\v", b"\f")

# Lines with text, and for each whether it opens a document.
Chunk = tuple[list[bytes], np.ndarray]


def plain_chunks(read: Callable[[], bytes], document: str) -> Iterator[Chunk]:
    """Splits plain text into lines.

    Args:
        read: function. Returns the next bytes of the text, and `b""` at its end.
        document: string. `"blank"`, `"line"` or `"file"`: what opens a document. The text's first
            line may be marked or not: it is the caller who knows that a file begins.

    Yields:
        For each read, the lines that it completes, without blank ones.
    """
    splitter, after_blank = _LineSplitter(), False
    while data := read():
        chunk, after_blank = _without_blank_lines(*splitter.feed(data), document, after_blank)
        yield chunk
    yield _without_blank_lines(*splitter.feed(b"\n"), document, after_blank)[0]


def json_chunks(read: Callable[[], bytes], document: str, field: str, name: str) -> Iterator[Chunk]:
    """Takes the lines of one field out of JSON lines.

    Args:
        read: function. Returns the next bytes of the file, and `b""` at its end.
        document: string. `"blank"` (each object is a document), `"line"` or `"file"`.
        field: string. The field of each object that holds its text.
        name: string. The file's name, for errors.

    Yields:
        For each read, the lines of the objects that it completes, without blank ones.

    Raises:
        InputError: A line is no JSON object, is too long, or lacks the field or a string in it.
    """
    number, unfinished, size, at_end = 0, [], 0, False
    while not at_end:
        data = read()
        at_end = not data
        *rows, rest = [b"", b""] if at_end else data.split(b"\n")
        if rows:
            rows[0] = b"".join([*unfinished, rows[0]])
            unfinished, size = [], 0
        lines, opens = [], []
        for row in rows:
            number += 1
            if row.strip():
                begins_text = True
                for line, begins_line in _text_lines(_json_text(row, field, f"{name}:{number}")):
                    opens.append(begins_text if document == "blank" else begins_line)
                    lines.append(line)
                    begins_text = False
        yield lines, np.array(opens, bool) & (document != "file")
        unfinished.append(rest)
        size += len(rest)
        if size > MAX_JSON_BYTES:
            raise InputError(
                f"{name}:{number + 1}: the line is over {MAX_JSON_BYTES >> 20} MiB long: "
                "JSON lines have one object a line"
            )


def _without_blank_lines(
    lines: list[bytes], continued: list[int], document: str, after_blank: bool
) -> tuple[Chunk, bool]:
    """Returns the lines with text and their openings, and whether a blank line came last."""
    is_text = [bool(line.strip()) for line in lines]
    has_text = np.array(is_text, bool)
    if document == "blank":
        opens = np.concatenate([[after_blank], ~has_text])[:-1]
    else:
        opens = np.full(len(lines), document == "line")
        opens[continued] = False
    after_blank = not is_text[-1] if lines else after_blank
    return (list(itertools.compress(lines, is_text)), opens[has_text]), after_blank


class _LineSplitter:
    """Splits text that comes in reads into lines, and cuts lines over `MAX_LINE_BYTES`.

    A line that was cut counts as text; pieces of it that are white space alone are dropped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._was_cut = False
        self._was_given = False

    def feed(self, data: bytes) -> tuple[list[bytes], list[int]]:
        """Returns the lines that end in `data`, and which of them continue the one before."""
        *lines, rest = (self._rest + data).split(b"\n")
        if b"\r" in data or self._rest.endswith(b"\r"):
            lines = [line.removesuffix(b"\r") for line in lines]
        given, continued = lines, []
        if self._was_cut or max(map(len, lines), default=0) > MAX_LINE_BYTES:
            given = []
            for line in lines:
                self._end_line(line, given, continued)
        # The one byte more may still turn out to be the \r of the line's end.
        *pieces, self._rest = _cut(rest, MAX_LINE_BYTES + 1)
        for piece in pieces:
            self._give_piece(piece, given, continued)
        return given, continued

    def _end_line(self, line: bytes, given: list[bytes], continued: list[int]) -> None:
        pieces = _cut(line, MAX_LINE_BYTES)
        if self._was_cut or len(pieces) > 1:
            for piece in pieces:
                self._give_piece(piece, given, continued)
        else:
            given.append(line)
        self._was_cut = self._was_given = False

    def _give_piece(self, piece: bytes, given: list[bytes], continued: list[int]) -> None:
        self._was_cut = True
        if piece.strip():
            if self._was_given:
                continued.append(len(given))
            given.append(piece)
            self._was_given = True


def _cut(line: bytes, longest_rest: int) -> list[bytes]:
    """Cuts pieces of at most `MAX_LINE_BYTES` off a line until at most `longest_rest` is left.

    Where a piece ends depends only on the `MAX_LINE_BYTES + 1` bytes from its start, so a line is
    cut alike in whatever reads it comes.
    """
    pieces, start = [], 0
    while len(line) - start > longest_rest:
        limit = start + MAX_LINE_BYTES
        end = max(line.rfind(white, start + 1, limit + 1) for white in _WHITE_SPACE)
        following = end + 1
        if end < 0:
            # A character has at most three continuation bytes; more of them are no UTF-8.
            inside = 0
            while inside < 4 and line[limit - inside] & 0xC0 == 0x80:
                inside += 1
            following = end = limit - inside if inside < 4 else limit
        pieces.append(line[start:end])
        start = following
    return [*pieces, line[start:]]


def _text_lines(text: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yields a text's lines, cut where they are too long, and whether each begins a line."""
    for line in text.split(b"\n"):
        begins_line = True
        for piece in _cut(line.removesuffix(b"\r"), MAX_LINE_BYTES):
            if piece.strip():
                yield piece, begins_line
                begins_line = False


def _json_text(row: bytes, field: str, place: str) -> bytes:
    try:
        found = json.loads(row.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}): JSON lines have one whole object a line") from error
    if not isinstance(found, dict):
        raise InputError(f"{place}: a JSON object is needed. Received: {type(found).__name__}")
    if field not in found:
        names = ", ".join(map(repr, found)) or "none"
        raise InputError(f"{place}: the object has no field {field!r}. Its fields: {names}")
    text = found[field]
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InputError(f"{place}: field {field!r} must hold a string. Received: {kind}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Escapes can spell half of a surrogate pair, which UTF-8 cannot.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
