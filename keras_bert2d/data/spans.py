"""Labels that mark spans, such as names: which scheme they are in, and how they read in IOB2.

The same two names, *Ali Veli* of type PER and, right behind it, *Van* of type LOC, then one more LOC, *Muş*:

    words    Ali    Veli   Van    Muş    dedi
    IOB2     B-PER  I-PER  B-LOC  B-LOC  O      B- opens every name
    IOB1     I-PER  I-PER  I-LOC  B-LOC  O      B- opens a name only right behind one of its type
    BIOES    B-PER  E-PER  S-LOC  S-LOC  O      E- ends a name, S- is a name of one word
    BILOU    B-PER  L-PER  U-LOC  U-LOC  O      the same with L- and U-
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from keras_bert2d.data.conll import NO_LABEL, NOT_ANNOTATED, Sentence
from keras_bert2d.errors import InputError
from keras_bert2d.progress import say

_SPAN = re.compile(r"([A-Z])-(.+)", re.DOTALL)
_PREFIXES = {"IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_SCHEMES = "IOB2, IOB1, BIOES and BILOU"
_AS_IOB2 = {"S": "B", "U": "B", "E": "I", "L": "I"}
_OUTSIDE = ("O", "")


def scheme_of_labels(labels: Iterable[str | None]) -> str | None:
    """Tells from a set of labels, without their order, what scheme they are of.

    Labels mark spans where all but `O` and those of words that are not annotated are one of the letters
    B, I, E, S, L and U, a hyphen and a type, and where `O`, `B-…` or `I-…` is among them or the letter is
    S in all, or U.

    Args:
        labels: strings; `None` is passed over.

    Returns:
        `"IOB2"`, `"IOB1"` (there is an `I-…` without the `B-…` of its type, which IOB2 cannot do without),
        `"BIOES"`, `"BILOU"`, or `None` for plain classes and where there is nothing but `O`.

    Example:

    >>> [scheme_of_labels(labels) for labels in (["O", "B-PER"], ["O", "S-PER"], ["NOUN", "VERB"], ["O"])]
    ['IOB2', 'BIOES', None, None]
    """
    labels = set(labels) - {None, NOT_ANNOTATED, NO_LABEL}
    spans = [_split(label) for label in labels - {"O"}]
    prefixes = {prefix for prefix, _ in spans}
    if not spans or not ("O" in labels or prefixes & {"B", "I"} or prefixes in ({"S"}, {"U"})):
        return None
    scheme = next((name for name, known in _PREFIXES.items() if prefixes <= set(known)), None)
    if scheme == "IOB2" and any(prefix == "I" and ("B", kind) not in spans for prefix, kind in spans):
        return "IOB1"
    return scheme


def spans_are_scored(known: Iterable[str], gold: Iterable[str | None]) -> bool:
    """Tells whether names can be scored: the labels known mark spans, and the gold ones do or are all `O`.

    Example:

    >>> spans_are_scored(["O", "B-PER"], ["O", None]), spans_are_scored(["O", "B-PER"], ["NOUN"])
    (True, False)
    """
    gold = set(gold) - {None}
    return scheme_of_labels(known) is not None and (gold <= {"O"} or scheme_of_labels(gold) is not None)


def to_iob2(labels: Sequence[str | None], scheme: str | None) -> list[str | None]:
    """Brings the labels of a sentence to IOB2.

    Args:
        labels: strings, `None` for a word that has no label.
        scheme: `"IOB1"`: an `I-` that opens a name becomes `B-`. `"BIOES"`, `"BILOU"`: by letter, S and U to
            B, E and L to I. `"IOB2"`, `None`: the labels as they are.

    Example:

    >>> to_iob2(["I-PER", "I-PER", "I-LOC", "B-LOC", "O"], "IOB1")
    ['B-PER', 'I-PER', 'B-LOC', 'B-LOC', 'O']
    >>> to_iob2(["B-PER", "L-PER", "U-LOC", "U-LOC", "O"], "BILOU")
    ['B-PER', 'I-PER', 'B-LOC', 'B-LOC', 'O']
    """
    if scheme in ("BIOES", "BILOU"):
        return [_by_letter(label) for label in labels]
    if scheme == "IOB1":
        opening = {place for place, _ in _faults([labels], "IOB2")}
        return [f"B{label[1:]}" if (0, i) in opening else label for i, label in enumerate(labels)]
    return list(labels)


def as_iob2(sentences: Sequence[Sentence], path: str) -> tuple[list[Sentence], str | None]:
    """Recognises the scheme of a file's labels and brings them to IOB2; says so on stderr.

    All sentences are looked at. Plain classes, such as UPOS tags, are left alone. A word that is not
    annotated is as the end of a sentence to the names around it.

    Args:
        sentences: list of `Sentence`, as `read_tagged` returns them.
        path: string. The file's name.

    Returns:
        The sentences, and the scheme that they were in; `None` where the labels mark no spans.

    Raises:
        InputError: The labels mark spans, but in none of the four schemes: the message begins with
            `path:line:`, the first line that is wrong in the scheme that fits best.

    Example:

    >>> sentence = Sentence(["Van", "dedi"], ["U-LOC", "O"], line_numbers=[1, 2])
    >>> sentences, scheme = as_iob2([sentence], "van.conll")
    >>> sentences[0].labels, scheme
    (['B-LOC', 'O'], 'BILOU')
    """
    scheme = _scheme_of_file(sentences, path)
    if scheme in (None, "IOB2"):
        return list(sentences), scheme
    say(f"{path}: {scheme} labels, read as IOB2")
    return [dataclasses.replace(s, labels=to_iob2(s.labels, scheme)) for s in sentences], scheme


def predictions_as_iob2(
    predicted: Sequence[Sequence[str | None]], known: Sequence[str], file_scheme: str | None
) -> tuple[list[list[str | None]], str]:
    """Brings a tagger's predictions to IOB2.

    Where the tagger knows `B-` and `I-` of each type it may have learnt either IOB1 or IOB2. To score it on a
    file in IOB1, its predictions are taken for IOB1 where fewer of them break that than break IOB2.

    Args:
        predicted: for each sentence the labels of its words, `None` for a word that got none.
        known: The tagger's labels, which mark spans.
        file_scheme: The scheme that the gold labels were in.

    Returns:
        The predictions, and the scheme that they were in.

    Example:

    >>> predictions_as_iob2([["I-PER", None]], ["O", "I-PER"], "IOB2")
    ([['B-PER', None]], 'IOB1')
    """
    scheme = scheme_of_labels(known)
    if scheme == "IOB2" and file_scheme == "IOB1":
        faults = {name: sum(1 for _ in _faults(predicted, name)) for name in ("IOB1", "IOB2")}
        scheme = min(faults, key=lambda name: (faults[name], name == "IOB1"))
    return [to_iob2(labels, scheme) for labels in predicted], scheme


def labels_in_iob2(known: Iterable[str]) -> set[str]:
    """Returns what a tagger's labels may read as in IOB2; plain classes as they are.

    Example:

    >>> sorted(labels_in_iob2(["O", "I-PER", "S-LOC"])), sorted(labels_in_iob2(["ADJ", "NOUN"]))
    (['B-LOC', 'B-PER', 'I-PER', 'O'], ['ADJ', 'NOUN'])
    """
    known = set(known)
    if scheme_of_labels(known) is None:
        return known
    labels = {_by_letter(label) for label in known}
    return labels | {f"B{label[1:]}" for label in labels if label.startswith("I-")}


def _split(label: str | None) -> tuple[str, str]:
    """A label's letter and type: `("", label)` where it marks no span, `("O", "")` outside."""
    if label in (None, "O"):
        return _OUTSIDE
    match = _SPAN.fullmatch(label)
    return match.groups() if match else ("", label)


def _by_letter(label: str | None) -> str | None:
    prefix, kind = _split(label)
    return f"{_AS_IOB2[prefix]}-{kind}" if prefix in _AS_IOB2 else label


def _scheme_of_file(sentences: Sequence[Sentence], path: str) -> str | None:
    lines = {}
    for sentence in sentences:
        for label, line in zip(sentence.labels, sentence.line_numbers, strict=True):
            lines.setdefault(label, line)
    scheme = scheme_of_labels(lines)
    known = {label: _split(label)[0] for label in lines if label not in (None, "O")}
    if scheme is None:
        _refuse_unknown(known, lines, path)
        return None
    tried = ("IOB2", "IOB1") if scheme in ("IOB2", "IOB1") else (scheme,)
    faults = {name: list(_faults([s.labels for s in sentences], name)) for name in tried}
    best = min(tried, key=lambda name: len(faults[name]))
    if faults[best]:
        (row, place), what = faults[best][0]
        count = len(faults[best])
        more = f", and {count - 1} more such words" if count > 1 else ""
        raise InputError(
            f"{path}:{sentences[row].line_numbers[place]}: {what}{more}: mend the labels, which must be "
            f"in one of {_SCHEMES} in the whole file"
        )
    return best


def _refuse_unknown(prefixes: dict[str, str], lines: dict[str | None, int], path: str) -> None:
    """Refuses labels that are spans to all appearance but in no scheme; tells of some that are not."""

    def first(letters: str) -> str | None:
        return next((label for label, prefix in prefixes.items() if prefix and prefix in letters), None)

    span = first("BI")
    if span is None:
        return
    unknown = next((label for label, prefix in prefixes.items() if prefix and prefix not in "BIESLU"), None)
    if unknown or all(prefixes.values()):
        label, other = (unknown, span) if unknown else (first("LU"), first("ES"))
        raise InputError(
            f"{path}:{lines[label]}: the labels {label!r} and {other!r} are in no one scheme of {_SCHEMES}: "
            "write all labels of the file in one of them"
        )
    label = next(label for label, prefix in prefixes.items() if not prefix)
    say(
        f"{path}:{lines[label]}: the label {label!r} marks no span as {span!r} does, so all labels are taken "
        "for plain classes"
    )


def _faults(rows: Iterable[Sequence[str | None]], scheme: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yields row and place of each label that a scheme does not allow there, and what is wrong."""
    end = {"BIOES": "E", "BILOU": "L"}.get(scheme)
    for row, labels in enumerate(rows):
        spans = [_OUTSIDE, *map(_split, labels), _OUTSIDE]
        for place, label in enumerate(labels):
            (before, kind_before), (prefix, kind), (after, kind_after) = spans[place : place + 3]
            follows = before in ("B", "I") and kind_before == kind
            if scheme == "IOB1":
                if prefix == "B" and not follows:
                    yield (row, place), f"in IOB1 {label!r} must follow a name of its type"
            elif prefix in ("I", end) and not follows:
                yield (row, place), f"in {scheme} {label!r} must follow 'B-{kind}' or 'I-{kind}'"
            elif end and prefix in ("B", "I") and not (after in ("I", end) and kind_after == kind):
                yield (row, place), f"in {scheme} '{end}-{kind}' must end the name that has {label!r} here"
