"""The rules that travel with a vocabulary file."""

import json

import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.text.vocabulary import read_rules, rules_file, write_vocabulary

RULES = {"casing": "turkish", "max_words": 40, "max_intermediate_subwords": 5}


@pytest.fixture
def vocabulary(tmp_path, tiny_vocabulary):
    write_vocabulary(tmp_path / "v.txt", tiny_vocabulary, RULES)
    return tmp_path / "v.txt"


def test_the_tokenizer_takes_the_rules_beside_the_file(vocabulary):
    tokenizer = Bert2DTokenizer(vocabulary)
    assert tokenizer.casing == "turkish"
    assert tokenizer.id_rules == IdRules(max_words=40, max_intermediate_subwords=5)
    # What the file leaves open may be chosen, what it says may be said again.
    chosen = Bert2DTokenizer(str(vocabulary), casing="turkish", overflow="last")
    assert chosen.id_rules == IdRules(40, 5, "last")


@pytest.mark.parametrize(
    ("name", "value"), [("casing", "cased"), ("max_words", 512), ("max_intermediate_subwords", 3)]
)
def test_a_rule_that_contradicts_the_file_is_refused_by_name(vocabulary, name, value):
    saved = RULES[name]
    with pytest.raises(InputError, match=rf"v\.txt\.json says {name}={saved!r}.*Received: {name}={value!r}"):
        Bert2DTokenizer(vocabulary, **{name: value})


def test_without_a_file_beside_it_the_defaults_hold(tmp_path, tiny_vocabulary):
    (tmp_path / "v.txt").write_text("\n".join(tiny_vocabulary), encoding="utf-8")
    tokenizer = Bert2DTokenizer(tmp_path / "v.txt")
    assert tokenizer.rules == {"casing": "cased", **IdRules().to_dict()}


def test_the_vocabulary_in_a_preset_has_its_rules_beside_it(vocabulary, tmp_path):
    tokenizer = Bert2DTokenizer(vocabulary, word_numbering="restart")
    tokenizer.save_to_preset(str(tmp_path / "preset"))
    (file,) = (tmp_path / "preset").rglob("vocabulary.txt")
    assert (
        Bert2DTokenizer(file).rules
        == tokenizer.rules
        == {**RULES, "overflow": "floor"} | {"word_numbering": "restart"}
    )


def test_rules_of_another_vocabulary_are_refused(vocabulary, tiny_vocabulary):
    vocabulary.write_text("\n".join([*tiny_vocabulary, "yeni"]), encoding="utf-8")
    with pytest.raises(InputError, match=r"v\.txt\.json holds the rules of another vocabulary"):
        Bert2DTokenizer(vocabulary)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"casing": "turkish"}', "\udcff"])
def test_damaged_rules_are_refused_by_file(vocabulary, tiny_vocabulary, text):
    rules_file(vocabulary).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"v\.txt\.json: the rules .* cannot be read"):
        read_rules(vocabulary, tiny_vocabulary)


def test_an_unknown_rule_is_refused_by_name(vocabulary, tiny_vocabulary):
    rules = json.loads(rules_file(vocabulary).read_text(encoding="utf-8"))
    rules_file(vocabulary).write_text(json.dumps({**rules, "accents": True}), encoding="utf-8")
    with pytest.raises(InputError, match=r"v\.txt\.json: there is no rule 'accents'"):
        read_rules(vocabulary, tiny_vocabulary)
