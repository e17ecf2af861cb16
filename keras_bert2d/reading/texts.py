"""Raw text of any size in bounded memory: plain, packed, JSON lines, folders, standard input."""

import functools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from keras_bert2d.choices import DOCUMENT_RULES, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.reading.encoding import BadLines, check_encoding, warn_of_bad_lines
from keras_bert2d.reading.lines import json_chunks, plain_chunks
from keras_bert2d.reading.streams import STANDARD_INPUT, check_start, open_text

_JSON_LINES = re.compile(r"\.jsonl?(\.(gz|bz2|xz))?$", re.IGNORECASE)


@dataclass
class TextBlock:
    """Some lines of one input that follow one another.

    Attributes:
        source: int. The place, in the list of inputs, of the input that the lines come from.
        lines: list of bytes. Lines that are not blank, without their line ends, not decoded.
        documents: int64 array `[len(lines)]`. The document of each line, counted over all inputs
            from 0 without gaps.
        bytes_read: int. Bytes of the files (of packed ones as they lie there) used up since the block
            before: what a progress bar over `input_size` counts.
    """

    source: int
    lines: list[bytes]
    documents: np.ndarray
    bytes_read: int


def read_text_blocks(
    paths: Iterable[str | os.PathLike],
    *,
    field: str | None = None,
    document: str = "blank",
    encoding: str = "utf-8",
    block_bytes: int = 4 << 20,
) -> Iterator[TextBlock]:
    r"""Reads inputs one after the other, a few megabytes at a time.

    A line is blank where it holds ASCII white space only. A line over 1 MiB is cut at white space,
    or between two characters where there is none, into lines of one document. What is in the blocks
    depends on the inputs, `document` and `block_bytes` alone. Names, settings and the start of each
    file are checked at the call, the rest as it is read. At the end a warning counts the lines that are
    not in their encoding, which may be few.

    Args:
        paths: list of paths. A file; a folder (all files in it and in the folders inside, sorted by
            name; links to folders are not followed); `"-"` for standard input. Files packed by gzip, bzip2
            or xz are told by their content. Names that end in `.json` or `.jsonl`, before `.gz`, `.bz2` or
            `.xz`, are JSON lines.
        field: string. The field of each JSON object that holds the text, which may have several
            lines. Where it is given every input is JSON lines; where not, the field is `"text"`.
        document: string. What ends a document: `"blank"` (a blank line; in JSON lines the end of
            the object and nothing else), `"line"` (the end of each line, also inside an object) or
            `"file"`. A new file always starts a document.
        encoding: string. The encoding of all files, `"iso-8859-9"` say.
        block_bytes: int. How much unpacked input is read at once. A block holds about as much.

    Returns:
        An iterator of `TextBlock`s. A block holds lines of one input only, and at least one line.

    Raises:
        InputError: A file that is missing, unreadable, damaged, no text or in another encoding, a
            malformed JSON line, inputs without one line of text, or an unknown `document`.

    Example:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "evler.txt")
    >>> _ = path.write_text("Ev büyük.\nEvler büyük.\n\nKedi uyudu.\n", encoding="utf-8")
    >>> block = next(read_text_blocks([path]))
    >>> len(block.lines), block.documents.tolist()
    (3, [0, 0, 1])
    """
    check_choice("document", document, DOCUMENT_RULES)
    if block_bytes < 1:
        raise InputError(f"block_bytes must be at least 1. Received: block_bytes={block_bytes}")
    encoding, files = check_encoding(encoding), _expand(paths)
    for _, name in files:
        check_start(name, encoding)
    chunks = _numbered_chunks(files, field, document, encoding, block_bytes)
    return _joined(chunks, block_bytes)


def input_size(paths: Iterable[str | os.PathLike]) -> int | None:
    """Returns the bytes of all inputs together, as they lie on disk.

    Args:
        paths: list of paths, as for `read_text_blocks`.

    Returns:
        int, or `None` where an input has no size (standard input, a pipe).

    Raises:
        InputError: A file is missing or unreadable.
    """
    files = [name for _, name in _expand(paths)]
    if not all(os.path.isfile(name) for name in files):
        return None
    return sum(os.path.getsize(name) for name in files)


def _expand(paths: Iterable[str | os.PathLike]) -> list[tuple[int, str]]:
    """Returns every file to read, each with the place of the input that it belongs to."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    files = []
    for source, path in enumerate(map(os.fspath, paths)):
        if path == STANDARD_INPUT:
            found = [path]
        elif os.path.isdir(path):
            found = _files_below(path)
        elif os.path.exists(path):
            found = [path]
        else:
            raise InputError(f"there is no file {path!r}: check the name")
        for name in found:
            if name != STANDARD_INPUT and not os.access(name, os.R_OK):
                raise InputError(f"{name} cannot be read: check its permissions")
        files += [(source, name) for name in found]
    if not files:
        raise InputError("no input: give a file, a folder, or '-' for standard input")
    if [name for _, name in files].count(STANDARD_INPUT) > 1:
        raise InputError("standard input ('-') is given twice, but can be read only once")
    return files


def _files_below(folder: str) -> list[str]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}")

    found = []
    for parent, _, names in os.walk(folder, onerror=refuse):
        found += [os.path.join(parent, name) for name in names]
    found = sorted(filter(os.path.isfile, found))
    if not found:
        raise InputError(f"the folder {folder!r} holds no file: check the name")
    return found


def _joined(
    chunks: Iterable[tuple[int, list[bytes], np.ndarray, int]], block_bytes: int
) -> Iterator[TextBlock]:
    """Joins chunks of one input until they fill a block, so that small files cost little."""
    source, lines, documents, bytes_read, filled = 0, [], [], 0, 0
    for chunk_source, chunk_lines, chunk_documents, used in chunks:
        is_full = filled >= block_bytes and chunk_lines
        if lines and (is_full or chunk_source != source):
            yield TextBlock(source, lines, np.concatenate(documents), bytes_read)
            lines, documents, bytes_read, filled = [], [], 0, 0
        source = chunk_source
        lines += chunk_lines
        documents.append(chunk_documents)
        bytes_read += used
        filled += sum(map(len, chunk_lines)) + len(chunk_lines)
    if lines:
        yield TextBlock(source, lines, np.concatenate(documents), bytes_read)


def _numbered_chunks(
    files: list[tuple[int, str]], field: str | None, document: str, encoding: str, block_bytes: int
) -> Iterator[tuple[int, list[bytes], np.ndarray, int]]:
    """Yields source, lines, their documents and the bytes used up, for each read of each file."""
    last_document = -1
    bad_lines: list[tuple[str, BadLines]] = []
    for source, name in files:
        at_start = True
        with open_text(name, encoding) as stream:
            read = functools.partial(stream.read, block_bytes)
            if field is not None or _JSON_LINES.search(name):
                field_name = "text" if field is None else field
                chunks = json_chunks(read, document, field_name, stream.name)
            else:
                chunks = plain_chunks(read, document)
            for lines, opens in chunks:
                if lines:
                    opens[0] |= at_start
                    at_start = False
                documents = last_document + np.cumsum(opens, dtype=np.int64)
                last_document += int(np.count_nonzero(opens))
                yield source, lines, documents, stream.newly_used()
            if stream.bad_lines.count:
                bad_lines.append((stream.name, stream.bad_lines))
    warn_of_bad_lines(bad_lines)
    if last_document < 0:
        names = ", ".join(name for _, name in files[:3]) + (", …" if len(files) > 3 else "")
        raise InputError(f"the input holds no line of text. Received: {names}")
