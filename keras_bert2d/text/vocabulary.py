"""A vocabulary: its file, the rules beside it, what makes it valid, and the digest that tells it from others.

A vocabulary is good for texts of its own casing only, so the casing travels with it, and with it the
id rules that were chosen: `vocabulary.txt` has them in `vocabulary.txt.json`.
"""

import hashlib
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_bert2d.errors import InputError, InputWarning
from keras_bert2d.files import atomic_file
from keras_bert2d.text.special_tokens import SPECIAL_TOKENS

# What `Bert2DTokenizer` takes beside the pieces, and what saves with them.
RULES = ("casing", "max_words", "max_intermediate_subwords", "overflow", "word_numbering")
_DIGEST = "vocabulary_digest"
_MOST_UNKNOWN = 0.01


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Reads a vocabulary file: UTF-8, one piece a line, in the order of their ids.

    Only the line's end is taken off (`\n` or `\r\n`); blank lines at the file's end are ignored.

    Args:
        path: The file.

    Returns:
        The pieces in the order of their ids.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or fails `check_vocabulary`.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the vocabulary cannot be read ({error.strerror}). Name a file with one piece a line."
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: the vocabulary is not valid UTF-8. Save the file as UTF-8."
        ) from error
    # Not `splitlines`: that would also split at U+2028 and others, which may be pieces.
    pieces = [line.removesuffix("\r") for line in text.split("\n")]
    while pieces and not pieces[-1]:
        pieces.pop()
    check_vocabulary(pieces, str(path))
    return pieces


def write_vocabulary(path: str | os.PathLike, pieces: Sequence[str], rules: Mapping[str, str | int]) -> None:
    """Writes a vocabulary file and its rules beside it.

    Args:
        path: The file.
        pieces: The pieces in the order of their ids.
        rules: dict. `casing` and id rules by name, as `Bert2DTokenizer` takes them; those that are not
            there are left to whoever reads the vocabulary.
    """
    with atomic_file(path) as file:
        file.writelines(f"{piece}\n" for piece in pieces)
    with atomic_file(rules_file(path)) as file:
        json.dump({**rules, _DIGEST: vocabulary_digest(pieces)}, file, indent=1)
        file.write("\n")


def read_rules(path: str | os.PathLike, pieces: Sequence[str]) -> dict[str, str | int]:
    """Reads the rules beside a vocabulary file.

    Args:
        path: The vocabulary file.
        pieces: The pieces in it.

    Returns:
        What `write_vocabulary` was given; nothing where there is no such file.

    Raises:
        InputError: The file cannot be read, or it is that of another vocabulary.
    """
    file = rules_file(path)
    if not file.exists():
        return {}
    try:
        rules = json.loads(file.read_text(encoding="utf-8"))
        digest = rules.pop(_DIGEST)
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{file}: the rules of the vocabulary cannot be read: {error!r}") from None
    unknown = [name for name in rules if name not in RULES]
    if unknown:
        raise InputError(f"{file}: there is no rule {unknown[0]!r}; the rules are {', '.join(RULES)}.")
    if digest != vocabulary_digest(pieces):
        raise InputError(
            f"{file} holds the rules of another vocabulary than {path}: delete it and name the casing."
        )
    return rules


def rules_file(path: str | os.PathLike) -> Path:
    """Returns where the rules of a vocabulary file lie."""
    return Path(f"{os.fspath(path)}.json")


def agreed_rules(saved: Mapping, given: Mapping, source: str) -> dict:
    """Joins saved rules and given ones, which must not contradict them.

    Args:
        saved: dict of rules.
        given: dict of rules; `None` is not given.
        source: string. Where the saved ones come from, for the message.

    Raises:
        InputError: Names the rule and both values.

    Example:

    >>> agreed_rules({"casing": "turkish"}, {"casing": None, "max_words": 64}, "v.txt.json")
    {'casing': 'turkish', 'max_words': 64}
    >>> agreed_rules({"casing": "turkish"}, {"casing": "cased"}, "v.txt.json")
    Traceback (most recent call last):
    keras_bert2d.errors.InputError: v.txt.json says casing='turkish': leave it out. Received: casing='cased'
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if saved.get(name, value) != value:
            raise InputError(
                f"{source} says {name}={saved[name]!r}: leave it out. Received: {name}={value!r}"
            )
    return {**saved, **given}


def check_vocabulary(pieces: Sequence[str], source: str) -> None:
    """Checks that a vocabulary has all special pieces, no blank piece and no piece twice.

    Args:
        pieces: The pieces in the order of their ids.
        source: string. Where they come from, for the message.

    Raises:
        InputError: Says what is wrong and on which lines, counted from 1.

    Example:

    >>> check_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ev"], "my.txt")
    Traceback (most recent call last):
    keras_bert2d.errors.InputError: my.txt: the vocabulary lacks [MASK]. Add a line for each.
    """
    lines_of = defaultdict(list)
    for line, piece in enumerate(pieces, start=1):
        lines_of[piece].append(line)
    missing = [token for token in SPECIAL_TOKENS if token not in lines_of]
    if missing:
        raise InputError(f"{source}: the vocabulary lacks {', '.join(missing)}. Add a line for each.")
    blank = [line for piece, lines in lines_of.items() if not piece.strip(" \t") for line in lines]
    if blank:
        raise InputError(
            f"{source}: blank {_name_lines(blank)} in the vocabulary. Every line needs a piece: "
            "take the blank ones out."
        )
    twice = [(piece, lines) for piece, lines in lines_of.items() if len(lines) > 1]
    if twice:
        piece, lines = twice[0]
        more = f" ({len(twice) - 1} more pieces are repeated too)" if len(twice) > 1 else ""
        raise InputError(
            f"{source}: the piece {piece!r} stands on {_name_lines(lines)}{more}. Keep one line for each."
        )


def vocabulary_digest(pieces: Sequence[str]) -> str:
    """Returns the SHA-256 digest of the pieces in their order, 64 hexadecimal digits.

    It depends on the pieces alone, not on line ends or on the name of the file.
    """
    return hashlib.sha256("\n".join(pieces).encode("utf-8")).hexdigest()


def warn_if_unknown(unknown: int, words: int, casing: str, source: str) -> None:
    """Warns where more than one word in a hundred is `[UNK]`, as in a text of another casing.

    Args:
        unknown: int. The words that are `[UNK]`.
        words: int. All words.
        casing: string. The tokenizer's.
        source: string. Where the words are from.
    """
    if unknown > _MOST_UNKNOWN * words:
        warnings.warn(
            f"{unknown / words:.1%} of the words of {source} are [UNK]: is the vocabulary one of this "
            f"language, trained with casing={casing!r}?",
            InputWarning,
            stacklevel=3,
        )


def _name_lines(lines: Sequence[int], at_most: int = 5) -> str:
    shown = ", ".join(str(line) for line in lines[:at_most])
    word = "line" if len(lines) == 1 else "lines"
    return f"{word} {shown}{' …' if len(lines) > at_most else ''}"
