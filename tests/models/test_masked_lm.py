import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer

RULES = {"max_words": 24, "max_intermediate_subwords": 2, "overflow": "last", "word_numbering": "restart"}
TEXTS = ["Göremediklerimizden misiniz?", "evler kitap bir", "bir ev", ""]


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, casing="turkish", **RULES)


def make_model(tokenizer, dtype=None, next_sentence=False, backbone_kwargs=None, **kwargs):
    keras.utils.set_random_seed(1)
    backbone = Bert2DBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        dropout=0.0,
        max_words=tokenizer.id_rules.max_words,
        max_intermediate_subwords=tokenizer.id_rules.max_intermediate_subwords,
        dtype=dtype,
        **(backbone_kwargs or {}),
    )
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, **{"sequence_length": 20, **kwargs})
    return Bert2DMaskedLM(backbone, preprocessor, next_sentence=next_sentence)


def as_numpy(structure):
    return keras.tree.map_structure(
        lambda x: np.array(keras.ops.cast(x, "float32") if x.dtype == "bfloat16" else x), structure
    )


def same(first, second):
    return all(
        np.array_equal(a, b)
        for a, b in zip(keras.tree.flatten(first), keras.tree.flatten(second), strict=True)
    )


# === Rows of raw text ===


def test_a_batch_of_texts(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20)
    features, labels, weights = preprocessor(TEXTS)
    assert features["token_ids"].shape == (4, 20)
    assert features["mask_positions"].shape == labels.shape == weights.shape == (4, 3)  # ⌊3.0 + ½⌋
    assert weights.numpy().sum(1).tolist() == [1, 1, 1, 0]
    assert features["word_position_ids"][0].numpy().tolist()[:11] == [0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4]
    assert features["subword_position_ids"][0].numpy().tolist()[:7] == [0, 0, 2, 3, 1, 1, 1]


LONG = ["evler kitap bir ev kitaplar evler bir"] * 8


@pytest.mark.parametrize("seed", [None, 3])
def test_masks_are_drawn_anew_each_time_whatever_is_seeded(tokenizer, seed):
    # As `keras.utils.set_random_seed` does at the top of many notebooks.
    tf.random.set_seed(0)
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20, seed=seed)
    data = tf.data.Dataset.from_tensors(LONG).map(preprocessor)
    first, second = (next(iter(data))[0]["mask_positions"].numpy() for _ in range(2))
    assert not np.array_equal(first, second)


def test_a_seed_fixes_the_masks_of_a_pass(tokenizer):
    def two_batches(seed):
        tf.random.set_seed(5)
        preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20, seed=seed)
        return [preprocessor(LONG)[0]["mask_positions"].numpy().tolist() for _ in range(2)]

    first, second = two_batches(3)
    assert first != second
    assert two_batches(3) == [first, second]
    assert two_batches(4) != [first, second]


def test_pairs_are_rows_of_two_segments(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=12)
    features, _, _ = preprocessor(x=(["bir ev", "ev"], ["evler", ""]))
    assert features["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert features["word_position_ids"].numpy().tolist() == [
        [0, 1, 2, 3, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_long_texts_are_cut_to_the_row_and_to_max_words(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=64)
    features, _, _ = preprocessor(["ev " * 100])
    assert int(tf.reduce_sum(features["padding_mask"])) == 24
    assert int(tf.reduce_max(features["word_position_ids"])) == 23


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sequence_length": 3}, "sequence_length=3"),
        ({"mask_rate": 0}, "rate=0"),
        ({"masking": "span"}, "masking='span'"),
        ({"max_predictions_per_row": 0}, "max_predictions_per_row=0"),
    ],
)
def test_impossible_settings_are_refused_at_once(tokenizer, arguments, named):
    with pytest.raises(InputError, match=named):
        Bert2DMaskedLMPreprocessor(tokenizer, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": "one text"},
        {"x": [["bir", "ev"], ["ev", "bir"]]},
        {"x": ["bir"], "y": [1]},
        {"x": ["bir"], "y": ["ev"]},  # A pair that was not passed as x=(first, second).
        {"x": ["bir"], "sample_weight": [1.0]},
    ],
)
def test_what_is_no_batch_of_texts_is_refused(tokenizer, arguments):
    with pytest.raises(InputError):
        Bert2DMaskedLMPreprocessor(tokenizer)(**arguments)


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


@pytest.mark.parametrize(("scheme", "order"), [("two_d", "post"), ("learned", "pre")])
def test_a_model_learns_from_raw_text(tokenizer, scheme, order):
    model = make_model(tokenizer, backbone_kwargs={"position_scheme": scheme, "norm_order": order})
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

PAIRS = (["bir ev", "evler", "kitap"] * 4, ["kitap", "bir", "ev ev"] * 4)


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


def test_raw_pairs_with_labels_train_both_heads(tokenizer):
    model = make_model(tokenizer, next_sentence=True)
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


@pytest.mark.parametrize("text", ["bir ev", "", "ev " * 30 + "[MASK]"])
def test_a_text_without_a_mask_in_its_row_is_refused(tokenizer, text):
    with pytest.raises(InputError, match=r"\[MASK\]"):
        make_model(tokenizer).fill_masks(["[MASK]", text])


def test_a_model_without_preprocessor_fills_no_masks(tokenizer):
    with pytest.raises(InputError, match="preprocessor"):
        Bert2DMaskedLM(make_model(tokenizer).backbone).fill_masks(["[MASK]"])


# === Presets ===


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
