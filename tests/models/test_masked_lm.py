import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.models.masked_lms import PAIRS, RULES, TEXTS, make_model


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, casing="turkish", **RULES)


# === The model ===


def test_logits_are_the_head_s_over_the_backbone_s_output(tokenizer):
    model = make_model(tokenizer)
    features, _, _ = model.preprocessor(TEXTS)
    hidden = model.backbone({name: features[name] for name in model.backbone.input})["sequence_output"]
    expected = model.masked_lm_head(hidden, features["mask_positions"])
    assert np.allclose(model(features), expected, atol=1e-5)
    assert model(features).shape == (4, 3, tokenizer.vocabulary_size())


def test_the_loss_is_the_mean_over_the_masked_pieces(tokenizer):
    model = make_model(tokenizer)
    features, labels, weights = model.preprocessor(TEXTS)
    logits = np.array(model(features), "float64")
    log_softmax = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_softmax, labels.numpy()[..., None], -1)[..., 0]
    expected = (losses * weights.numpy()).sum() / weights.numpy().sum()
    loss, accuracy = model.evaluate(features, labels, sample_weight=weights, verbose=0)
    assert abs(loss - expected) < 1e-4
    hits = (logits.argmax(-1) == labels.numpy()) * weights.numpy()
    assert abs(accuracy - hits.sum() / weights.numpy().sum()) < 1e-6


def test_a_model_learns_from_raw_text(tokenizer):
    model = make_model(tokenizer)
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    model.fit(["ev kitap bir"] * 24 * 40, batch_size=24, verbose=0)
    # Chance is ln(pieces of the vocabulary).
    loss, accuracy = model.evaluate(["ev kitap bir"] * 24, verbose=0)
    assert loss < 0.1 * np.log(tokenizer.vocabulary_size())
    assert accuracy > 0.9
    assert [c[0][0] for c in model.fill_masks(["ev [MASK] bir"])[0]] == ["kitap"]
    assert [c[0][0] for c in model.fill_masks(["[MASK] kitap bir"])[0]] == ["ev"]


def test_predict_takes_raw_texts(tokenizer):
    model = make_model(tokenizer)
    assert model.predict(TEXTS, verbose=0).shape == (4, 3, tokenizer.vocabulary_size())


def test_a_tokenizer_of_other_rules_is_refused(tokenizer, tiny_vocabulary):
    other = Bert2DTokenizer(tiny_vocabulary, **{**RULES, "max_words": 25})
    with pytest.raises(InputError, match="`max_words` is 24 in the backbone and 25"):
        Bert2DMaskedLM(make_model(tokenizer).backbone, Bert2DMaskedLMPreprocessor(other))


# === Next-sentence prediction ===


def test_next_sentence_outputs_are_a_dict_and_read_each_pair_s_cls(tokenizer):
    model = make_model(tokenizer, next_sentence=True)
    features, _, _ = model.preprocessor.for_next_sentence(PAIRS)
    places = tf.constant([[0, 2]] * 12)
    outputs = model({**features, "pair_positions": places})
    assert set(outputs) == {"masked_lm", "next_sentence"}
    assert outputs["next_sentence"].shape == (12, 2, 2)
    # Column 0 is the backbone's pooled output.
    pooled = model.backbone({name: features[name] for name in model.backbone.input})["pooled_output"]
    expected = model.next_sentence_head.classifier(pooled)
    assert np.allclose(outputs["next_sentence"][:, 0], expected, atol=1e-5)
    assert not np.allclose(outputs["next_sentence"][:, 1], expected, atol=1e-5)


def test_raw_pairs_with_labels_train_both_heads_of_the_baseline(tokenizer):
    baseline = {"position_scheme": "learned", "norm_order": "pre"}
    model = make_model(tokenizer, next_sentence=True, backbone_kwargs=baseline)
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    follows = [0, 1, 1] * 4
    features, labels, weights = model.preprocess_samples(PAIRS, follows)
    assert set(labels) == set(weights) == {"masked_lm", "next_sentence"}
    assert labels["next_sentence"].numpy().tolist() == [[label] for label in follows]
    assert weights["next_sentence"].numpy().tolist() == [[1.0]] * 12

    model.fit(tuple(texts * 30 for texts in PAIRS), np.tile(follows, 30), batch_size=12, verbose=0)
    ready = model.evaluate(features, labels, sample_weight=weights, verbose=0, return_dict=True)
    assert ready["next_sentence_accuracy"] == 1
    assert ready["next_sentence_loss"] < 0.5 * np.log(2)
    assert ready["masked_lm_loss"] < np.log(tokenizer.vocabulary_size())
    assert model.predict(PAIRS, verbose=0)["next_sentence"].shape == (12, 1, 2)


def test_next_sentence_prediction_takes_pairs_alone(tokenizer):
    with pytest.raises(InputError, match="pairs"):
        make_model(tokenizer, next_sentence=True).preprocess_samples(PAIRS[0])


# === Filling masks ===


@pytest.mark.parametrize("next_sentence", [False, True])
def test_fill_masks_gives_pieces_with_probabilities(tokenizer, next_sentence):
    model = make_model(tokenizer, next_sentence=next_sentence)
    filled = model.fill_masks(["bir [MASK] [MASK].", "[MASK]"], top_k=4)
    assert [len(text) for text in filled] == [2, 1]
    for text in filled:
        for candidates in text:
            pieces, chances = zip(*candidates, strict=True)
            assert len(set(pieces)) == 4 and set(pieces) <= set(tokenizer.vocabulary)
            assert list(chances) == sorted(chances, reverse=True)
            assert 0 < chances[-1] <= chances[0] <= 1
    every = model.fill_masks(["[MASK]"], top_k=tokenizer.vocabulary_size())[0][0]
    assert abs(sum(chance for _, chance in every) - 1) < 1e-4


@pytest.mark.parametrize("text", ["bir ev", "bir [mask] ev", "", "ev " * 30 + "[MASK]"])
def test_a_text_without_a_mask_in_its_row_is_refused(tokenizer, text):
    with pytest.raises(InputError, match=r"\[MASK\]"):
        make_model(tokenizer).fill_masks(["[MASK]", text])


def test_a_model_without_preprocessor_fills_no_masks(tokenizer):
    with pytest.raises(InputError, match="preprocessor"):
        Bert2DMaskedLM(make_model(tokenizer).backbone).fill_masks(["[MASK]"])
