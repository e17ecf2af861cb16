import keras
import numpy as np
import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.reference import SPECIAL
from tests.text.pieces import TEXTS

RULES = {"max_words": 40, "max_intermediate_subwords": 2, "overflow": "last", "word_numbering": "restart"}


def test_the_id_rules_are_the_tokenizer_s_configuration(tiny_vocabulary):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, casing="turkish", special_tokens_in_strings=True, **RULES)
    assert tokenizer.id_rules == IdRules(**RULES)
    again = Bert2DTokenizer.from_config(tokenizer.get_config())
    again.set_vocabulary(tiny_vocabulary)
    assert again.get_config() == tokenizer.get_config()
    assert again.id_rules == tokenizer.id_rules
    assert again.tokenize(["İ [MASK]"]).to_list() == tokenizer.tokenize(["İ [MASK]"]).to_list()
    serial = keras.saving.serialize_keras_object(tokenizer)
    assert keras.saving.deserialize_keras_object(serial).id_rules == tokenizer.id_rules


@pytest.mark.parametrize("dtype", ["int32", "string"])
def test_a_preset_brings_back_pieces_casing_and_id_rules(tiny_vocabulary, tmp_path, dtype):
    # Pieces that a careless file would lose.
    pieces = [*tiny_vocabulary, "\u2028", "\u00a0ev", "##\x0b"]
    tokenizer = Bert2DTokenizer(pieces, casing="turkish", dtype=dtype, **RULES)
    tokenizer.save_to_preset(tmp_path)
    again = Bert2DTokenizer.from_preset(str(tmp_path))
    assert again.get_vocabulary() == pieces
    assert again.get_config() == {**tokenizer.get_config(), "name": again.name}
    assert again.tokenize(TEXTS).to_list() == tokenizer.tokenize(TEXTS).to_list()


def test_a_vocabulary_may_come_from_a_file(tiny_vocabulary, tmp_path, cased):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tiny_vocabulary), encoding="utf-8")
    for name in (path, str(path)):
        assert Bert2DTokenizer(name).tokenize(TEXTS).to_list() == cased.tokenize(TEXTS).to_list()


def test_special_ids_are_wherever_the_vocabulary_has_them(tiny_vocabulary):
    tokenizer = Bert2DTokenizer(["ev", *reversed(SPECIAL), "##ler"])
    ids = (tokenizer.mask_token_id, tokenizer.sep_token_id, tokenizer.cls_token_id)
    assert (*ids, tokenizer.unk_token_id, tokenizer.pad_token_id) == (1, 2, 3, 4, 5)
    assert tokenizer.tokenize(["evler x"]).to_list() == [[[0, 6], [4]]]
    assert tokenizer.detokenize([[5, 0, 6, 5]]).numpy().tolist() == [b"evler"]


def test_pieces_and_ids_name_each_other(cased, tiny_vocabulary):
    assert cased.vocabulary_size() == len(tiny_vocabulary)
    assert [cased.token_to_id(cased.id_to_token(i)) for i in (0, 4, 50)] == [0, 4, 50]
    with pytest.raises(InputError, match="token='ağaç'"):
        cased.token_to_id("ağaç")
    for wrong in (-1, len(tiny_vocabulary)):
        with pytest.raises(InputError, match=f"id={wrong}"):
            cased.id_to_token(wrong)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"casing": "upper"}, "casing='upper'"),
        ({"dtype": "int64"}, "dtype='int64'"),
        ({"max_words": 0}, "max_words=0"),
        ({"max_intermediate_subwords": 0}, "max_intermediate_subwords=0"),
        ({"overflow": "no"}, "overflow='no'"),
        ({"word_numbering": "no"}, "word_numbering='no'"),
    ],
)
def test_unknown_arguments_are_refused_by_name(tiny_vocabulary, arguments, named):
    with pytest.raises(InputError, match=named):
        Bert2DTokenizer(tiny_vocabulary, **arguments)


def test_an_impossible_vocabulary_is_refused(tiny_vocabulary):
    with pytest.raises(InputError, match=r"\[MASK\]"):
        Bert2DTokenizer([piece for piece in tiny_vocabulary if piece != "[MASK]"])
    with pytest.raises(InputError, match="'ev'"):
        Bert2DTokenizer([*tiny_vocabulary, "ev"])
    with pytest.raises(InputError, match="vocabulary"):
        Bert2DTokenizer().tokenize(["ev"])


def test_an_unknown_unit_is_refused(cased):
    with pytest.raises(InputError, match="unit='word'"):
        cased.tokenize_with_offsets(["ev"], "word")


def test_texts_in_more_than_one_dimension_are_refused(cased):
    with pytest.raises(InputError, match=r"shape \(1, 2\)"):
        cased.tokenize([["ev", "bir"]])


def test_numpy_texts_are_texts(cased):
    assert cased.tokenize(np.array(["ev bir"], object)).to_list() == cased.tokenize(["ev bir"]).to_list()
