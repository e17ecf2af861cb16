"""Words and labels in, word labels out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier, TaggedWord
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer

LABELS = ["NOUN", "PROPN", "PUNCT", "VERB"]
SENTENCES = ["İstanbul'da evler...", "Göremedik.", "", "Ev kitap 3,5"]
WORDS = [["İstanbul'da", "evler", "..."], ["Göremedik", "."], [], ["Ev", "kitap", "3,5"]]
TAGS = [["PROPN", "NOUN", "PUNCT"], ["VERB", "PUNCT"], [], ["NOUN", "NOUN", "PUNCT"]]


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, max_words=32, max_intermediate_subwords=4, overflow="last")


def make_preprocessor(tokenizer, **kwargs):
    return Bert2DTokenClassifierPreprocessor(tokenizer, **{"labels": LABELS, "sequence_length": 24, **kwargs})


def make_backbone(tokenizer, **kwargs):
    return Bert2DBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_words=tokenizer.id_rules.max_words,
        max_intermediate_subwords=tokenizer.id_rules.max_intermediate_subwords,
        **kwargs,
    )


def make_model(tokenizer, dtype=None, **kwargs):
    backbone = make_backbone(tokenizer, dtype=dtype)
    return Bert2DTokenClassifier(backbone, preprocessor=make_preprocessor(tokenizer, **kwargs))


@pytest.fixture(scope="module")
def model(tokenizer):
    keras.utils.set_random_seed(1)
    return make_model(tokenizer)


@pytest.fixture(scope="module")
def trained(tokenizer):
    """A model that has learned `TAGS` by heart, from a dataset of words."""
    keras.utils.set_random_seed(1)
    model = make_model(tokenizer, label_pieces="all")
    model.compile(keras.optimizers.Adam(3e-3))
    rows = tf.ragged.constant(WORDS, ragged_rank=1), tf.ragged.constant(TAGS, ragged_rank=1)
    model.fit(tf.data.Dataset.from_tensor_slices(rows).batch(4).repeat(80), verbose=0)
    return model


# === The preprocessor ===


def test_labels_stand_at_first_pieces(tokenizer):
    features, labels, weights = make_preprocessor(tokenizer)([["bir'ev", "evler"]], [["PROPN", "NOUN"]])
    pieces = [tokenizer.id_to_token(int(i)) for i in features["token_ids"][0, :7]]
    assert pieces == ["[CLS]", "bir", "'", "ev", "ev", "##ler", "[SEP]"]
    assert labels.numpy()[0].tolist() == [0, 1] + [0] * 22
    assert weights.numpy()[0].tolist() == [0, 1, 0, 0, 1] + [0] * 19
    assert labels.dtype == tf.int32 and weights.dtype == tf.float32


def test_labels_may_stand_at_all_pieces(tokenizer):
    preprocessor = make_preprocessor(tokenizer, label_pieces="all")
    _, labels, weights = preprocessor([["bir'ev", "evler"]], [["PROPN", "NOUN"]])
    assert labels.numpy()[0].tolist() == [0, 1, 1, 1] + [0] * 20
    assert weights.numpy()[0].tolist() == [0, 1, 1, 1, 1, 1] + [0] * 18


def test_words_and_sentences_with_strings_and_ids_give_the_same(tokenizer):
    preprocessor = make_preprocessor(tokenizer)
    ids = [[LABELS.index(tag) for tag in row] for row in TAGS]
    expected = preprocessor(WORDS, TAGS)
    for x, y in [(SENTENCES, TAGS), (WORDS, ids), (np.array(SENTENCES), tf.ragged.constant(TAGS))]:
        tf.nest.map_structure(np.testing.assert_array_equal, preprocessor(x, y), expected)


def test_sample_weights_go_by_row_or_by_word(tokenizer):
    preprocessor = make_preprocessor(tokenizer)
    by_row = preprocessor([["ev", "ev"], ["bir"]], [[0, 0], [0]], [0.5, 2.0])[2].numpy()
    assert by_row[:, :4].tolist() == [[0, 0.5, 0.5, 0], [0, 2, 0, 0]]
    by_word = preprocessor([["ev", "ev"], ["bir"]], [[0, 0], [0]], [[0.5, 0.0], [3.0]])[2].numpy()
    assert by_word[:, :4].tolist() == [[0, 0.5, 0, 0], [0, 3, 0, 0]]


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"labels": []}, "one label at least"),
        ({"labels": ["A", "B", "A"]}, "Received twice: 'A'"),
        ({"labels": "NOUN"}, "list of strings.*'NOUN'"),
        ({"labels": ["A", 1]}, "list of strings"),
        ({"label_pieces": "last"}, "label_pieces='last'"),
        ({"sequence_length": 3}, "sequence_length=3"),
    ],
)
def test_an_impossible_configuration_is_refused(tokenizer, kwargs, message):
    with pytest.raises(InputError, match=message):
        make_preprocessor(tokenizer, **kwargs)


@pytest.mark.parametrize(
    "x, y, message",
    [
        ([["ev", "bir"]], [["NOUN", "ADV"]], "NOUN, PROPN, PUNCT, VERB.*Received: ADV"),
        ([["ev", "bir"]], [[0, 4]], "Received: 4"),
        ([["ev", "bir"]], [[0, -1]], "Received: -1"),
        ([["ev"], ["ev", "bir"]], [[0], [0]], "row, words, values: 1, 2, 1"),
        (["ev", "ev bir"], [[0], [0]], "row, words, values: 1, 2, 1"),
        ([["ev"]], [[0], [0]], "same number of rows"),
        ([["ev"]], [0], "list of labels"),
        ([["ev"]], [[0.5]], "list of labels"),
        ("ev", None, "list of sentences"),
        ([["ev"], "bir"], None, "not a mixture"),
        ([[1, 2]], None, "values of one kind"),
        (["ev", None], None, "values of one kind"),
        ([[["ev"]]], None, "strings"),
    ],
)
def test_bad_words_and_labels_are_refused_by_name(tokenizer, x, y, message):
    with pytest.raises(InputError, match=message):
        make_preprocessor(tokenizer)(x, y)


def test_fit_names_an_unknown_label_before_the_first_step(model):
    with pytest.raises(InputError, match="Received: ADV$"):
        model.fit([["ev"]] * 100, [["NOUN"]] * 99 + [["ADV"]], verbose=0)


def test_an_unknown_label_in_a_dataset_is_named(tokenizer):
    rows = tf.ragged.constant([["ev"]]), tf.ragged.constant([["ADV"]])
    batches = tf.data.Dataset.from_tensors(rows).map(make_preprocessor(tokenizer).call)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ADV"):
        list(batches)


def test_a_dataset_beside_labels_is_refused(model):
    dataset = tf.data.Dataset.from_tensors(tf.ragged.constant([["ev"]]))
    with pytest.raises(InputError, match="leave out `y`"):
        model.fit(dataset, [["NOUN"]])


# === The model ===


def test_what_was_learned_comes_back_from_words_and_from_sentences(trained):
    assert trained.predict(WORDS, verbose=0) == TAGS
    tagged = trained.predict(SENTENCES, verbose=0)
    assert tagged[0] == [
        TaggedWord("İstanbul'da", "PROPN", 0, 11),
        TaggedWord("evler", "NOUN", 12, 17),
        TaggedWord("...", "PUNCT", 17, 20),
    ]
    assert [[word.word for word in row] for row in tagged] == WORDS
    assert [[word.label for word in row] for row in tagged] == TAGS


def test_predict_reads_batches_datasets_and_tensors(trained):
    ragged = tf.ragged.constant(WORDS, ragged_rank=1)
    dataset = tf.data.Dataset.from_tensor_slices((ragged, ragged)).batch(3)
    assert trained.predict(ragged, batch_size=1, verbose=0) == TAGS
    assert trained.predict(dataset, verbose=0) == TAGS
    assert trained.predict(dataset, steps=1, verbose=0) == TAGS[:3]
    assert trained.predict(tf.constant(SENTENCES), verbose=0) == trained.predict(SENTENCES, verbose=0)
    assert trained.predict([], verbose=0) == []


def test_evaluate_counts_words_though_all_pieces_are_trained(trained):
    # One of eight words has another label now; it is by far the longest.
    tags = [["NOUN", *TAGS[0][1:]], *TAGS[1:]]
    scores = trained.evaluate(WORDS, tags, batch_size=2, verbose=0, return_dict=True)
    assert scores["accuracy"] == pytest.approx(7 / 8)
    assert trained.evaluate(SENTENCES, tags, verbose=0)[1] == pytest.approx(7 / 8)
    assert float(trained.test_on_batch(WORDS, tags)[1]) == pytest.approx(7 / 8)


def test_validation_counts_words_as_evaluate_does(trained):
    tags = [["NOUN", *TAGS[0][1:]], *TAGS[1:]]
    rows = tf.ragged.constant(WORDS, ragged_rank=1), tf.ragged.constant(tags, ragged_rank=1)
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(2)
    features, labels, weights = trained.preprocessor(WORDS, TAGS)
    trained.optimizer.learning_rate = 0.0
    for validation_data in ((WORDS, tags), dataset):
        history = trained.fit(
            features, labels, sample_weight=weights, validation_data=validation_data, verbose=0
        ).history
        assert history["val_accuracy"] == [pytest.approx(7 / 8)]
        assert history["accuracy"] == [1.0]


def test_each_word_has_a_label_and_those_cut_off_have_none(model):
    words = [["evler"] * 15, ["\u200b", "ev"], ["göremediklerimizden" * 5, "ev"], [], ["ev'ev'ev"] * 7]
    labels = model.predict(words, verbose=0)
    assert [len(row) for row in labels] == [15, 2, 2, 0, 7]
    # 22 pieces of room: 11 words of 2 pieces; a word longer than the row; 4 words of 5 pieces.
    assert [sum(label is not None for label in row) for row in labels] == [11, 2, 1, 0, 4]
    assert all(label in LABELS for label in (labels[0][0], *labels[1], labels[2][0]))
    tagged = model.predict(["ev " * 30], verbose=0)[0]
    assert [word.label is None for word in tagged] == [False] * 22 + [True] * 8
    assert tagged[29] == TaggedWord("ev", None, 87, 89)


def test_a_label_is_read_at_the_word_s_first_piece(model):
    words = [["bir'ev", "evler", "ev"]]
    logits = keras.ops.convert_to_numpy(model(model.preprocessor(words)))
    best = logits[0, [1, 4, 6]].argmax(-1)
    assert model.predict(words, verbose=0) == [[LABELS[i] for i in best]]


def test_features_pass_through(model):
    features = {name: np.array(value) for name, value in model.preprocessor(WORDS).items()}
    logits = model.predict(features, verbose=0)
    assert logits.shape == (4, 24, 4)
    np.testing.assert_allclose(logits, model(features), atol=1e-5)


def test_one_batch_of_words_trains(tokenizer):
    model = make_model(tokenizer)
    before = model.output_dense.kernel.numpy()
    model.train_on_batch(WORDS, TAGS)
    assert not np.array_equal(before, model.output_dense.kernel.numpy())


def test_without_a_preprocessor_arrays_go_in_and_logits_come_out(tokenizer):
    model = Bert2DTokenClassifier(make_backbone(tokenizer), num_classes=3)
    features = {name: np.ones((4, 6), "int32") for name in model.backbone.input}
    labels, weights = np.ones((4, 6), "int32"), np.ones((4, 6), "float32")
    model.fit(features, labels, sample_weight=weights, batch_size=2, validation_split=0.5, verbose=0)
    assert len(model.evaluate(features, labels, sample_weight=weights, verbose=0)) == 2
    assert model.predict(features, verbose=0).shape == (4, 6, 3)


@pytest.mark.parametrize(
    "num_classes, with_labels, message",
    [(3, True, "labels, 4. Received: num_classes=3"), (None, False, "num_classes=None"), (0, False, "=0")],
)
def test_a_wrong_number_of_classes_is_refused(tokenizer, num_classes, with_labels, message):
    preprocessor = make_preprocessor(tokenizer) if with_labels else None
    with pytest.raises(InputError, match=message):
        Bert2DTokenClassifier(make_backbone(tokenizer), num_classes, preprocessor)


def test_the_loss_is_the_mean_over_words(model):
    features, labels, weights = model.preprocessor(WORDS, TAGS)
    logits = keras.ops.convert_to_numpy(model(features)).astype("float64")
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(logits, labels.numpy()[..., None], -1)[..., 0]
    expected = -chosen[weights.numpy() > 0].mean()
    assert model.evaluate(WORDS, TAGS, batch_size=4, verbose=0)[0] == pytest.approx(expected, rel=1e-4)


# === Presets ===


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16"])
def test_a_preset_brings_everything_back(tokenizer, tmp_path, dtype):
    model = make_model(tokenizer, dtype=dtype, label_pieces="all", sequence_length=20)
    model.save_to_preset(tmp_path)
    loaded = Bert2DTokenClassifier.from_preset(tmp_path, dtype=dtype)
    logits = [keras.ops.cast(m(m.preprocessor(WORDS)), "float32") for m in (model, loaded)]
    np.testing.assert_array_equal(*logits)
    assert loaded.preprocessor.labels == LABELS
    assert loaded.preprocessor.label_pieces == "all"
    assert loaded.preprocessor.sequence_length == 20
    assert loaded.preprocessor.tokenizer.id_rules == tokenizer.id_rules
    assert loaded.preprocessor.tokenizer.vocabulary == tokenizer.vocabulary
    assert loaded.compute_dtype == model.compute_dtype
    assert loaded.output_dense.kernel.dtype == model.output_dense.kernel.dtype


def test_a_masked_lm_s_preset_starts_a_token_classifier(tokenizer, tmp_path):
    masked_lm = Bert2DMaskedLM(make_backbone(tokenizer), Bert2DMaskedLMPreprocessor(tokenizer, 16))
    masked_lm.save_to_preset(tmp_path)
    model = Bert2DTokenClassifier.from_preset(tmp_path, labels=["A", "B"], sequence_length=12, dropout=0.2)
    assert (model.num_classes, model.dropout) == (2, 0.2)
    assert model.preprocessor.sequence_length == 12
    assert model.preprocessor.tokenizer.id_rules == tokenizer.id_rules
    for old, new in zip(masked_lm.backbone.weights, model.backbone.weights, strict=True):
        np.testing.assert_array_equal(old, new)
    assert set(model.predict([["ev", "bir"]], verbose=0)[0]) <= {"A", "B"}
    with pytest.raises(InputError, match=r"labels=\[\.\.\.\]"):
        Bert2DTokenClassifier.from_preset(tmp_path)


def test_other_labels_start_a_new_head_and_another_length_keeps_it(trained, tmp_path):
    trained.save_to_preset(tmp_path)
    longer = Bert2DTokenClassifier.from_preset(tmp_path, sequence_length=32)
    assert longer.preprocessor.sequence_length == 32
    assert longer.predict(WORDS, verbose=0) == TAGS
    other = Bert2DTokenClassifier.from_preset(tmp_path, labels=LABELS[::-1])
    assert other.preprocessor.labels == LABELS[::-1]
    assert not np.array_equal(other.output_dense.kernel, trained.output_dense.kernel)
    with pytest.raises(InputError, match="Received: both"):
        Bert2DTokenClassifier.from_preset(tmp_path, labels=["A"], preprocessor=None)
