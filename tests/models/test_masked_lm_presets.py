import keras
import pytest

from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.models.masked_lms import PAIRS, RULES, TEXTS, as_numpy, make_model, same


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, casing="turkish", **RULES)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "bfloat16"])
def test_a_preset_brings_back_outputs_tokenizer_and_id_rules(tokenizer, tmp_path, dtype):
    model = make_model(tokenizer, dtype=dtype, sequence_length=18, mask_rate=0.2, masking="token")
    features, _, _ = model.preprocessor(TEXTS)
    expected = as_numpy(model(features))
    model.save_to_preset(tmp_path)
    again = Bert2DMaskedLM.from_preset(tmp_path)
    assert again.backbone.dtype_policy.name == model.backbone.dtype_policy.name == dtype
    assert same(as_numpy(again(features)), expected)
    ours = again.preprocessor
    assert (ours.sequence_length, ours.mask_rate, ours.masking) == (18, 0.2, "token")
    assert ours.tokenizer.id_rules == IdRules(**RULES)
    assert ours.tokenizer.get_vocabulary() == tokenizer.get_vocabulary()
    assert ours.tokenizer.casing == "turkish"
    assert ours.tokenizer.tokenize(TEXTS).to_list() == tokenizer.tokenize(TEXTS).to_list()
    assert not list(tmp_path.rglob("*.pkl")) + list(tmp_path.rglob("*.py"))


def test_a_preset_brings_back_the_next_sentence_head(tokenizer, tmp_path):
    model = make_model(tokenizer, next_sentence=True)
    features, _, _ = model.preprocessor.for_next_sentence(PAIRS)
    model.save_to_preset(tmp_path)
    again = Bert2DMaskedLM.from_preset(tmp_path)
    assert again.next_sentence
    assert same(as_numpy(again(features)), as_numpy(model(features)))


def test_the_parts_of_a_preset_load_alone(tokenizer, tmp_path):
    model = make_model(tokenizer)
    model.save_to_preset(tmp_path)
    assert Bert2DTokenizer.from_preset(tmp_path).id_rules == IdRules(**RULES)
    preprocessor = Bert2DMaskedLMPreprocessor.from_preset(str(tmp_path))
    assert preprocessor.tokenizer.id_rules == IdRules(**RULES)
    backbone = Bert2DBackbone.from_preset(tmp_path)
    features, _, _ = model.preprocessor(TEXTS)
    rows = {name: features[name] for name in backbone.input}
    assert same(as_numpy(backbone(rows)), as_numpy(model.backbone(rows)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_change_of_task_keeps_id_rules_and_encoder(tokenizer, tmp_path, dtype):
    model = make_model(tokenizer, dtype=dtype)
    model.save_to_preset(tmp_path / "lm")
    tagger = Bert2DTokenClassifier.from_preset(tmp_path / "lm", labels=["A", "B"])
    tagger.save_to_preset(tmp_path / "tagger")
    back = Bert2DMaskedLM.from_preset(tmp_path / "tagger")
    features, _, _ = model.preprocessor(TEXTS)
    rows = {name: features[name] for name in model.backbone.input}
    for task in (tagger, back):
        assert task.preprocessor.tokenizer.id_rules == IdRules(**RULES)
        assert task.preprocessor.tokenizer.casing == "turkish"
        assert task.backbone.dtype_policy.name == dtype
        assert same(as_numpy(task.backbone(rows)), as_numpy(model.backbone(rows)))


def test_a_keras_file_brings_back_model_and_preprocessor(tokenizer, tmp_path):
    model = make_model(tokenizer)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    features, _, _ = model.preprocessor(TEXTS)
    assert same(as_numpy(again(features)), as_numpy(model(features)))
    assert again.preprocessor.tokenizer.id_rules == IdRules(**RULES)
    assert again.fill_masks(["ev [MASK]"]) == model.fill_masks(["ev [MASK]"])
