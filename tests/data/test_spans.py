import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Entities

from keras_bert2d.data.conll import Sentence, read_tagged
from keras_bert2d.data.spans import (
    as_iob2,
    labels_in_iob2,
    predictions_as_iob2,
    scheme_of_labels,
    spans_are_scored,
    to_iob2,
)
from keras_bert2d.errors import InputError

SEQEVAL = {"IOB2": IOB2, "IOB1": IOB1, "BIOES": IOBES, "BILOU": BILOU}
KINDS = ["PER", "LOC", "ORG-X"]


# === The schemes, each written down from its definition ===


def encode(spans, scheme):
    """Labels of a sentence of `spans`: (type or None for words outside, words)."""
    labels, last = [], None
    for kind, length in spans:
        if kind is None:
            labels += ["O"] * length
        elif scheme == "IOB2":
            labels += [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
        elif scheme == "IOB1":
            labels += [f"B-{kind}" if kind == last else f"I-{kind}"] + [f"I-{kind}"] * (length - 1)
        else:
            single, end = ("S", "E") if scheme == "BIOES" else ("U", "L")
            inner = [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{end}-{kind}"]
            labels += inner if length > 1 else [f"{single}-{kind}"]
        last = kind
    return labels


def entities(spans):
    starts = itertools.accumulate((length for _, length in spans), initial=0)
    return {
        (kind, start, start + length)
        for (kind, length), start in zip(spans, starts, strict=False)
        if kind is not None
    }


def sentences_of(rows):
    """Sentences with a word for each label, a word a line and a blank line between sentences."""
    line, sentences = 1, []
    for labels in rows:
        numbers = list(range(line, line + len(labels)))
        sentences.append(Sentence(["ev"] * len(labels), list(labels), line_numbers=numbers))
        line += len(labels) + 1
    return sentences


def read(rows, path="a.conll"):
    sentences, scheme = as_iob2(sentences_of(rows), path)
    return [s.labels for s in sentences], scheme


SPANS = st.lists(st.tuples(st.sampled_from([None, *KINDS]), st.integers(1, 4)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=200)
@given(st.lists(SPANS, min_size=1, max_size=5), st.sampled_from(sorted(SEQEVAL)))
def test_every_scheme_becomes_iob2_and_seqeval_reads_the_same_names(rows, scheme):
    encoded, iob2 = ([encode(spans, name) for spans in rows] for name in (scheme, "IOB2"))
    converted, found = read(encoded)
    if any(kind for spans in rows for kind, _ in spans):
        assert converted == iob2
        assert found == scheme
    else:
        assert (converted, found) == (encoded, None)
    assert [to_iob2(labels, scheme) for labels in encoded] == iob2
    for spans, labels, as_read in zip(rows, encoded, converted, strict=True):
        for sequence, reading in ((labels, SEQEVAL[scheme]), (as_read, IOB2)):
            names = {entity.to_tuple()[1:] for entity in Entities([sequence], reading).entities[0]}
            assert names == entities(spans)


@settings(deadline=None)
@given(st.lists(SPANS, min_size=1, max_size=5), st.sampled_from(sorted(SEQEVAL)))
def test_perfect_predictions_of_a_tagger_of_any_scheme_become_the_gold_labels(rows, scheme):
    encoded = [encode(spans, scheme) for spans in rows]
    known = {label for labels in encoded for label in labels}
    gold, file_scheme = read(encoded)
    if scheme_of_labels(known) is None:
        assert gold == encoded
        return
    assert predictions_as_iob2(encoded, sorted(known), file_scheme)[0] == gold
    assert {label for labels in gold for label in labels} <= labels_in_iob2(known)


# === Recognition ===


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-PER", "I-PER"], "IOB2"),
        (["B-PER"], "IOB2"),
        (["I-LOC", "O"], "IOB1"),
        (["B-PER", "I-PER", "I-LOC"], "IOB1"),
        (["O", "B-PER", "E-PER", "S-PER", "_", None, "<none>"], "BIOES"),
        (["O", "S-PER"], "BIOES"),
        (["B-PER", "L-PER"], "BILOU"),
        (["O", "U-PER"], "BILOU"),
        (["O"], None),
        ([], None),
        (["U-PER", "U-LOC"], "BILOU"),
        (["S-1", "L-2"], None),
        (["O", "B-"], None),
        (["NOUN", "B-PER"], None),
        (["O", "B"], None),
        (["NOUN", "VERB", "X"], None),
        (["B-PER", "M-PER", "E-PER"], None),
    ],
)
def test_the_scheme_of_a_set_of_labels(labels, scheme):
    assert scheme_of_labels(labels) == scheme


def test_a_conversion_is_said_in_one_line_and_iob2_and_plain_classes_in_none(capsys):
    read([["B-PER", "L-PER", "O"]], "train.conll")
    assert capsys.readouterr() == ("", "train.conll: BILOU labels, read as IOB2\n")
    read([["I-PER", "O"]], "dev.conll")
    assert capsys.readouterr() == ("", "dev.conll: IOB1 labels, read as IOB2\n")
    for rows in ([["B-PER", "I-PER", "O"]], [["NOUN", "X"]], [["O", None]], [["A-x", "C-y"]]):
        assert read(rows)[0] == rows
    assert capsys.readouterr() == ("", "")


def test_a_scheme_is_that_of_all_sentences():
    # The first sentence alone is IOB2.
    assert read([["B-PER", "I-PER"], ["I-PER"]][1:])[1] == "IOB1"
    with pytest.raises(InputError, match=r"^a\.conll:4:"):
        read([["B-PER", "I-PER"], ["I-PER"]])
    assert read([["S-PER"], ["B-LOC", "E-LOC"], ["O"]])[1] == "BIOES"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        # Most of it is IOB2.
        ([["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-LOC"]], r"a\.conll:7: in IOB2 'I-LOC' must follow"),
        ([["B-PER"], ["B-LOC", "I-PER"]], r"a\.conll:4: in IOB2 'I-PER' must follow 'B-PER' or 'I-PER'"),
        # Most of it is IOB1.
        ([["I-PER", "B-PER"], ["I-LOC"], ["B-LOC"]], r"a\.conll:6: in IOB1 'B-LOC' must follow a name of"),
        (
            [["B-PER", "E-PER"], ["B-PER", "I-PER"]],
            r"a\.conll:5: in BIOES 'E-PER' must end the name .*'I-PER'",
        ),
        ([["B-PER", "O", "S-PER"]], r"a\.conll:1: in BIOES 'E-PER' must end the name that has 'B-PER' here"),
        ([["S-PER", "E-PER", "O"]], r"a\.conll:2: in BIOES 'E-PER' must follow"),
        ([["U-PER", "B-LOC", "L-PER"]], r"a\.conll:2: in BILOU 'L-LOC' must end .*, and 1 more such words"),
        ([["B-PER", None, "L-PER"]], r"a\.conll:1: in BILOU 'L-PER' must end the name"),
        # IOE: names end, but never begin.
        ([["O", "I-PER", "E-PER"]], r"a\.conll:2: in BIOES 'I-PER' must follow"),
        (
            [["B-PER", "E-PER"], ["O", "L-PER"]],
            r"a\.conll:5: the labels 'L-PER' and 'E-PER' are in no one scheme",
        ),
        ([["B-PER", "M-PER", "E-PER"]], r"a\.conll:2: the labels 'M-PER' and 'B-PER' are in no one scheme"),
        ([["W-PER", "O"], ["B-PER", "I-PER"]], r"a\.conll:1: the labels 'W-PER' and 'B-PER'"),
    ],
)
def test_labels_of_names_in_no_scheme_are_refused_by_line(rows, message):
    with pytest.raises(InputError, match=f"^{message}") as refused:
        read(rows)
    assert "\n" not in str(refused.value) and "IOB2, IOB1, BIOES and BILOU" in str(refused.value)


def test_labels_of_which_some_mark_no_span_are_plain_classes_and_that_is_said(capsys):
    rows = [["B-PER", "I-PER", "O"], ["MISC"]]
    assert read(rows) == (rows, None)
    assert capsys.readouterr().err.startswith("a.conll:5: the label 'MISC' marks no span as 'B-PER' does")


def test_a_name_does_not_reach_over_a_word_that_is_not_annotated():
    assert read([["I-PER", None, "I-PER"]]) == ([["B-PER", None, "B-PER"]], "IOB1")


def test_sentences_are_not_changed_in_place():
    sentences = sentences_of([["S-PER"], ["O"]])
    as_iob2(sentences, "a.conll")
    assert [s.labels for s in sentences] == [["S-PER"], ["O"]]


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_wikiner_is_iob2(shared_data, part, capsys):
    path = shared_data / "ner" / f"tr_wikiner-{part}.conll"
    sentences = read_tagged(path)
    found, scheme = as_iob2(sentences, str(path))
    assert scheme == "IOB2" and found == sentences and capsys.readouterr().err == ""


# === Taggers ===


def test_a_tagger_that_knows_both_letters_is_read_as_iob1_only_on_such_a_file_and_where_that_fits_better():
    known = ["O", "B-PER", "I-PER"]
    iob1, iob2 = [["I-PER", "I-PER", "B-PER", "O"]], [["B-PER", "I-PER", "B-PER", "O"]]
    assert predictions_as_iob2(iob1, known, "IOB1") == (iob2, "IOB1")
    assert predictions_as_iob2(iob2, known, "IOB1") == (iob2, "IOB2")
    # Strict: the first name is lost.
    assert predictions_as_iob2(iob1, known, "IOB2") == (iob1, "IOB2")


def test_what_a_tagger_may_say_is_told_in_iob2():
    assert labels_in_iob2(["O", "B-PER", "I-PER", "L-PER", "U-PER"]) == {"O", "B-PER", "I-PER"}
    assert labels_in_iob2(["O", "I-PER"]) == {"O", "B-PER", "I-PER"}
    assert labels_in_iob2(["S-1", "L-2"]) == {"S-1", "L-2"}


@pytest.mark.parametrize(
    ("known", "gold", "expected"),
    [
        (["O", "B-PER"], ["O", "B-PER", None], True),
        (["O", "S-PER"], ["O"], True),
        (["O", "S-PER"], ["B-PER"], True),
        (["O", "B-PER"], ["NOUN"], False),
        (["NOUN"], ["B-PER"], False),
    ],
)
def test_names_are_scored_where_the_labels_of_both_sides_mark_them(known, gold, expected):
    assert spans_are_scored(known, gold) is expected
