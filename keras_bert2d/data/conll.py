"""Tagged words in files: CoNLL-U with its UPOS column, and CoNLL columns with the label last."""

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO

from keras_bert2d.errors import InputError
from keras_bert2d.files import atomic_file
from keras_bert2d.reading.streams import read_text

FORMATS = ("conllu", "conll")
# In the place of a label: the word is not annotated; a tagger gave the word no label, as its row was full.
NOT_ANNOTATED = "_"
NO_LABEL = "<none>"

_UPOS = 3
_COLUMNS = 10
_WORD_ID = re.compile(r"[1-9][0-9]*")
_RANGE_ID = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)")
_EMPTY_NODE_ID = re.compile(r"[0-9]+\.[1-9][0-9]*")
_TEXT_COMMENT = "# text = "


@dataclass
class Sentence:
    """A sentence's words with a label each, and the lines that they were read from.

    Attributes:
        words: list of strings. In CoNLL-U the syntactic words: no multiword token, no empty node.
        labels: list of strings, as many. The UPOS tag in CoNLL-U, else the last column; `None` for a word
            that is not annotated.
        lines: list of strings. What `write_tagged` gives back, comments included; empty for a
            sentence that was not read from a file.
        rows: list of ints. The place in `lines` of each word.
        line_numbers: list of ints. The line of each word in the file, counted from 1.
        format: string. `"conllu"` or `"conll"`: how `lines` are written.
    """

    words: list[str]
    labels: list[str | None]
    lines: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    line_numbers: list[int] = field(default_factory=list)
    format: str = "conll"

    @property
    def text(self) -> str:
        """The sentence as it was written (CoNLL-U's `# text`), else its words with spaces."""
        if self.format == "conllu":
            for line in self.lines:
                if line.startswith(_TEXT_COMMENT):
                    return line.removeprefix(_TEXT_COMMENT)
        return " ".join(self.words)


def read_tagged(
    path: str | os.PathLike, format: str | None = None, encoding: str = "utf-8"
) -> list[Sentence]:
    r"""Reads a file of labelled words.

    CoNLL-U: ten columns between tabs, `#` begins a comment. CoNLL columns: the word first, the
    label last, between tabs where the line has a tab, else between spaces (ASCII ones only: a word
    may hold other white space); all lines have the same number of columns; `-DOCSTART-` lines are
    passed over. In both a blank line ends a sentence. The label `_` says that a word is not annotated, and so
    does `<none>`, which `keras-bert2d predict` writes. A few lines of invalid UTF-8 are read with U+FFFD.

    Args:
        path: path. The file.
        format: string. `"conllu"` or `"conll"`; by default `"conllu"` where the name ends in
            `.conllu`, else `"conll"`.
        encoding: string. The encoding of the file.

    Returns:
        A list of `Sentence`s, at least one.

    Raises:
        InputError: The file is missing, no text, in another encoding, holds no sentence, or has a line with a
            missing column, an empty word or label, a wrong word id or a multiword token that is not of the
            words right behind it: the message begins with `path:line:`.

    Example:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "yer.conll")
    >>> _ = path.write_text("Ankara'da B-LOC\nkar O\n", encoding="utf-8")
    >>> read_tagged(path)[0].labels
    ['B-LOC', 'O']
    """
    path = os.fspath(path)
    if format is None:
        format = "conllu" if path.lower().endswith(".conllu") else "conll"
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}. Received: format={format!r}")
    lines = read_text(path, encoding).split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    sentences = _parse_conllu(lines, path) if format == "conllu" else _parse_columns(lines, path)
    if not sentences:
        raise InputError(f"{path} holds no sentence: give a file with a word and its label a line")
    return sentences


def write_tagged(
    target: str | os.PathLike | IO[str],
    sentences: Iterable[Sentence],
    predictions: Iterable[Sequence[str | None]],
) -> None:
    """Writes sentences as they were read, with predicted labels in place of their own.

    UPOS (CoNLL-U) or the last column is replaced; comments, multiword tokens and the other columns
    stay. A sentence without `lines` is written as two columns between a tab.

    Args:
        target: path or open text file. A path is written whole or not at all.
        sentences: sentences as `read_tagged` returns them.
        predictions: for each sentence the labels of its words; `None` is written as `_`.

    Raises:
        ValueError: There are more or fewer predictions than sentences, or than words in one.
    """
    with contextlib.ExitStack() as stack:
        file = target if hasattr(target, "write") else stack.enter_context(atomic_file(target))
        for sentence, labels in zip(sentences, predictions, strict=True):
            file.writelines(f"{line}\n" for line in _relabelled(sentence, labels))
            file.write("\n")


def _parse_conllu(lines: Sequence[str], name: str) -> list[Sentence]:
    """Reads sentences from the lines of a CoNLL-U file; `name` is the file's name in errors."""
    sentences, sentence = [], Sentence([], [], format="conllu")
    # The last multiword token: its line and the id of its last word.
    range_line, range_end = 0, 0
    for number, line in enumerate([*lines, ""], 1):
        if not line.strip(" "):
            if range_end > len(sentence.words):
                raise InputError(
                    f"{name}:{range_line}: the multiword token ends with word {range_end}, but the sentence "
                    f"has {len(sentence.words)} words: mend the range"
                )
            range_end = 0
            if sentence.words:
                sentences.append(sentence)
                sentence = Sentence([], [], format="conllu")
            continue
        sentence.lines.append(line)
        if line.startswith("#"):
            continue
        place = f"{name}:{number}"
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise InputError(
                f"{place}: a word needs {_COLUMNS} columns between tabs. Received: {len(columns)}"
            )
        expected = len(sentence.words) + 1
        if words := _RANGE_ID.fullmatch(columns[0]):
            range_line, range_end = (
                number,
                _end_of_range(*map(int, words.groups()), expected, range_end, place),
            )
            continue
        if _EMPTY_NODE_ID.fullmatch(columns[0]):
            continue
        if not _WORD_ID.fullmatch(columns[0]) or int(columns[0]) != expected:
            raise InputError(f"{place}: word id {expected} is due. Received: {columns[0]!r}")
        _add_word(sentence, columns[1], columns[_UPOS], name, number)
    if sentences and sentence.lines:
        sentences[-1].lines += ["", *sentence.lines]
    return sentences


def _end_of_range(start: int, end: int, expected: int, previous: int, place: str) -> int:
    """Checks the range of a multiword token; `previous` is the end of the one before."""
    if end < start:
        raise InputError(f"{place}: a multiword token must not run backwards. Received: {start}-{end}")
    if start <= previous:
        raise InputError(
            f"{place}: a multiword token must not overlap with the one before, which ends with word "
            f"{previous}. Received: {start}-{end}"
        )
    if start != expected:
        raise InputError(
            f"{place}: a multiword token must stand right before its first word; word {expected} is due. "
            f"Received: {start}-{end}"
        )
    return end


def _parse_columns(lines: Sequence[str], name: str) -> list[Sentence]:
    sentences, sentence = [], Sentence([], [])
    width = 0
    for number, line in enumerate([*lines, ""], 1):
        columns = _columns(line)
        is_mark = columns[:1] == ["-DOCSTART-"]
        if (not columns or is_mark) and sentence.words:
            sentences.append(sentence)
            sentence = Sentence([], [])
        if is_mark:
            sentence.lines += [line, ""]
        if not columns or is_mark:
            continue
        place = f"{name}:{number}"
        if len(columns) < 2:
            raise InputError(f"{place}: no label. A word and its label are needed: {line!r}")
        width = width or len(columns)
        if len(columns) != width:
            raise InputError(f"{place}: {width} columns are due, as in the lines before. Received: {line!r}")
        sentence.lines.append(line)
        _add_word(sentence, columns[0], columns[-1], name, number)
    return sentences


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]


def _add_word(sentence: Sentence, word: str, label: str, name: str, number: int) -> None:
    if not word.strip(" "):
        raise InputError(f"{name}:{number}: the word is empty. Its label is {label!r}")
    if not label.strip(" "):
        raise InputError(f"{name}:{number}: the label is empty. The word is {word!r}")
    sentence.line_numbers.append(number)
    sentence.rows.append(len(sentence.lines) - 1)
    sentence.words.append(word)
    sentence.labels.append(None if label in (NOT_ANNOTATED, NO_LABEL) else label)


def _relabelled(sentence: Sentence, labels: Sequence[str | None]) -> list[str]:
    if len(labels) != len(sentence.words):
        raise ValueError(f"{len(sentence.words)} words need as many labels. Received: {len(labels)} labels")
    labels = [NOT_ANNOTATED if label is None else label for label in labels]
    if not sentence.lines:
        return [f"{word}\t{label}" for word, label in zip(sentence.words, labels, strict=True)]
    lines = list(sentence.lines)
    for row, label in zip(sentence.rows, labels, strict=True):
        if sentence.format == "conllu":
            columns = lines[row].split("\t")
            columns[_UPOS] = label
            lines[row] = "\t".join(columns)
        else:
            gap = "\t" if "\t" in lines[row] else " "
            before, gap, _ = lines[row].rstrip(" ").rpartition(gap)
            lines[row] = f"{before}{gap}{label}"
    return lines
