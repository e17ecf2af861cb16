import importlib.metadata
import re
from collections import Counter, defaultdict

import pytest

from keras_bert2d.data import treebanks
from keras_bert2d.data.conll import Sentence, read_tagged, write_tagged
from keras_bert2d.data.treebanks import split_sentences, turkish_treebank_sentences
from keras_bert2d.errors import InputError

GROUPS = """\
# text = Açıklanmayan ev.
1\tAçık\taçık\tNOUN\tNN\tCase=Bare\t2\tig\t_\tSpaceAfter=No
2\tla\t_\tVERB\tVB\t_\t3\tig\t_\tSpaceAfter=No
3\tnma\t_\tVERB\tVB\t_\t4\tig\t_\tSpaceAfter=No
4\tyan\t_\tADJ\tVJ\t_\t5\trcmod\t_\t_
5\tev\tev\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t5\tp\t_\t_
"""


@pytest.fixture(scope="module")
def sentences():
    try:
        importlib.metadata.distribution("turkish-treebanks")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package turkish-treebanks is not installed")
    return turkish_treebank_sentences()


def test_groups_are_joined_and_the_last_one_gives_the_tag(tmp_path, monkeypatch):
    path = tmp_path / "groups.conllu"
    path.write_text(GROUPS, encoding="utf-8")
    monkeypatch.setattr(treebanks, "_paths", lambda: [path])
    (sentence,) = turkish_treebank_sentences()
    assert sentence.words == ["Açıklanmayan", "ev", "."]
    assert sentence.labels == ["ADJ", "NOUN", "PUNCT"]
    assert sentence.text == "Açıklanmayan ev."
    assert sentence.lines[1] == "1\tAçıklanmayan\taçık\tADJ\tVJ\t_\t_\t_\t_\t_"


def test_the_treebank_has_4851_sentences_and_fourteen_tags(sentences):
    assert len(sentences) == 4851
    assert {label for sentence in sentences for label in sentence.labels} == set(
        "ADJ ADP ADV AFFIX CONJ DET NOUN NUM ONOM PRON PRT PUNCT VERB X".split()
    )


def test_joined_words_give_the_text_of_each_sentence(sentences):
    for sentence in sentences:
        assert "".join(sentence.words) == "".join(sentence.text.split())
        gaps = ["" if sentence.lines[row].endswith("SpaceAfter=No") else " " for row in sentence.rows]
        parts = [word + gap for word, gap in zip(sentence.words, gaps, strict=True)]
        assert "".join(parts).strip() == sentence.text


def test_no_word_is_left_that_the_relation_ig_ties_to_the_next(sentences):
    lines = [line for path in treebanks._paths() for line in path.read_text("utf-8").split("\n")]
    rows = [line.split("\t") for line in lines if re.match("[0-9]", line)]
    untied = sum(row[7] != "ig" for row in rows)
    assert sum(len(sentence.words) for sentence in sentences) == untied == 66_466


def test_the_joined_treebank_is_written_and_read_as_conllu(sentences, tmp_path):
    path = tmp_path / "treebank.conllu"
    write_tagged(path, sentences, [sentence.labels for sentence in sentences])
    again = read_tagged(path)
    assert [(s.words, s.labels, s.text) for s in again] == [(s.words, s.labels, s.text) for s in sentences]


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(treebanks, "_PACKAGE", "turkish-treebanks-that-is-not-there")
    with pytest.raises(InputError, match="is not installed: run `pip install turkish-treebanks"):
        turkish_treebank_sentences()


def test_a_package_without_its_files_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    with pytest.raises(InputError, match=r"lacks its file data/web\.conllu: run `pip install"):
        turkish_treebank_sentences()


def numbered(words):
    return [Sentence([word, "."], ["NOUN", "PUNCT"]) for word in words]


def test_a_split_has_every_sentence_once_and_is_the_same_each_time():
    sentences = numbered(f"söz{number}" for number in range(200))
    train, dev, test = split_sentences(sentences, held_out=0.1, seed=3)
    assert [len(part) for part in (train, dev, test)] == [160, 20, 20]
    assert sorted(s.words[0] for s in train + dev + test) == sorted(s.words[0] for s in sentences)
    assert split_sentences(sentences, held_out=0.1, seed=3) == (train, dev, test)
    assert split_sentences(sentences, held_out=0.1, seed=4)[2] != test
    again = split_sentences(sentences[::-1], held_out=0.1, seed=3)
    assert [part[::-1] for part in again] == [train, dev, test]


def test_the_same_words_never_are_in_two_parts():
    parts = split_sentences(numbered(f"söz{number % 20}" for number in range(100)), held_out=0.25)
    words = [{sentence.words[0] for sentence in part} for part in parts]
    assert [len(part) for part in words] == [10, 5, 5]
    assert not words[0] & words[1] and not words[0] & words[2] and not words[1] & words[2]


@pytest.mark.parametrize("held_out", [0, 0.5, -0.1, 2])
def test_an_impossible_share_is_refused(held_out):
    with pytest.raises(InputError, match=f"Received: held_out={held_out}"):
        split_sentences(numbered("ab"), held_out=held_out)


def test_the_majority_tag_of_each_word_is_right_in_87_of_100_held_out_words(sentences):
    train, _, test = split_sentences(sentences)
    tags = defaultdict(Counter)
    for sentence in train:
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            tags[word][label] += 1
    pairs = [pair for s in test for pair in zip(s.words, s.labels, strict=True)]
    right = sum(
        (tags[word].most_common(1)[0][0] if word in tags else "NOUN") == label for word, label in pairs
    )
    assert right / len(pairs) == pytest.approx(0.87, abs=0.01)
