import collections
import itertools

import numpy as np
import pytest

from keras_bert2d.data import tagging
from keras_bert2d.data.conll import Sentence
from keras_bert2d.data.tagging import TaggingData, labels_of, read_labelled, warn_of_unknown
from keras_bert2d.data.windows import Place
from keras_bert2d.errors import InputError, InputWarning
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.text.rows import ROW_KEYS
from keras_bert2d.text.tokenizer import Bert2DTokenizer

LENGTH = 16
COLUMNS = ("token_ids", "segment_ids", "word_position_ids", "subword_position_ids", "labels", "weights")
LABELS = ["NOUN", "NUM", "VERB"]
# Every sentence holds a number of its own; one is longer than a row.
SENTENCES = [
    Sentence(["evler", str(100 + i), *["gör"] * (i % 5)], ["NOUN", "NUM", *["VERB"] * (i % 5)])
    for i in range(30)
]
SENTENCES.append(Sentence(["900"] * 9, ["NUM"] * 9))


@pytest.fixture(scope="module", autouse=True)
def small_groups():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagging, "_GROUP_SENTENCES", 8)
        yield


@pytest.fixture(scope="module")
def preprocessor(tiny_vocabulary):
    # [PAD] is not piece 0.
    vocabulary = [*tiny_vocabulary[1:], tiny_vocabulary[0]]
    return Bert2DTokenClassifierPreprocessor(Bert2DTokenizer(vocabulary), LABELS, LENGTH, "all")


@pytest.fixture(scope="module")
def data(preprocessor):
    return TaggingData(preprocessor, SENTENCES)


def rows_of(dataset):
    """Yields each row of the batches as a dict."""
    for features, labels, weights in dataset.as_numpy_iterator():
        batch = {**features, "labels": labels, "weights": weights}
        for i in range(len(labels)):
            yield {name: value[i] for name, value in batch.items()}


def sentences_of(rows):
    """What stands in the columns of each packed sentence."""
    for row in rows:
        for number in range(1, row["padding_mask"].max() + 1):
            yield tuple(tuple(row[name][row["padding_mask"] == number].tolist()) for name in COLUMNS)


@pytest.fixture(scope="module")
def rows(data):
    """Two epochs, read in batches of one row."""
    stream = rows_of(data.dataset(1, 3, Place()))
    return list(itertools.takewhile(lambda row: row["place"][0] < 2, stream))


def epoch_of(rows, number):
    return [row for row in rows if row["place"][0] == number]


def test_each_epoch_holds_each_sentence_once_with_its_pieces_labels_and_weights(rows, preprocessor):
    words = [sentence.words for sentence in SENTENCES]
    features, labels, weights = preprocessor(words, [sentence.labels for sentence in SENTENCES])
    unpacked = {**features, "labels": labels, "weights": weights}
    unpacked = [{name: value[i].numpy() for name, value in unpacked.items()} for i in range(len(SENTENCES))]
    expected = collections.Counter(sentences_of(unpacked))
    assert len(expected) == len(SENTENCES)
    for epoch in (0, 1):
        assert collections.Counter(sentences_of(epoch_of(rows, epoch))) == expected


def test_rows_are_packed_and_padding_is_empty(rows, preprocessor):
    assert max(row["padding_mask"].max() for row in rows) >= 2
    assert len(rows) < 2 * len(SENTENCES)
    for row in rows:
        padding = row["padding_mask"] == 0
        numbers = row["padding_mask"][~padding]
        assert (np.diff(numbers) >= 0).all() and not padding[: len(numbers)].any()
        assert (row["token_ids"][padding] == preprocessor.tokenizer.pad_token_id).all()
        assert not any(row[name][padding].any() for name in COLUMNS if name != "token_ids")


def test_the_order_hangs_on_seed_and_epoch(data, rows):
    first = list(sentences_of(epoch_of(rows, 0)))
    assert list(sentences_of(epoch_of(rows, 1))) != first
    other = itertools.islice(rows_of(data.dataset(1, 4, Place())), 8)
    assert list(sentences_of(other)) != list(sentences_of(rows[:8]))


@pytest.mark.parametrize("where", ["in-a-group", "group-end", "epoch-end"])
def test_a_run_goes_on_behind_any_row(data, rows, where):
    groups = [row["place"].tolist()[:2] for row in rows]
    last = {
        "in-a-group": 1,
        "group-end": max(i for i, group in enumerate(groups) if group == [0, 1]),
        "epoch-end": len(epoch_of(rows, 0)) - 1,
    }[where]
    resumed = data.dataset(1, 3, Place(*rows[last]["place"].tolist()))
    for row, expected in zip(itertools.islice(rows_of(resumed), 8), rows[last + 1 :], strict=False):
        assert row.keys() == expected.keys()
        for name, value in row.items():
            np.testing.assert_array_equal(value, expected[name])


def test_batches_have_a_static_shape_and_the_place_of_their_last_row(data, rows):
    dataset = data.dataset(4, 3, Place())
    features, labels, weights = dataset.element_spec
    assert {name: tuple(spec.shape) for name, spec in features.items()} == {
        **{name: (4, LENGTH) for name in ROW_KEYS},
        "place": (4, 3),
    }
    assert tuple(labels.shape) == tuple(weights.shape) == (4, LENGTH)
    for i, row in enumerate(itertools.islice(rows_of(dataset), 8)):
        np.testing.assert_array_equal(row["token_ids"], rows[i]["token_ids"])
        np.testing.assert_array_equal(row["place"], rows[i // 4 * 4 + 3]["place"])


def test_the_rows_of_an_epoch_are_counted(data, rows):
    assert abs(data.rows_per_epoch() - len(epoch_of(rows, 0))) <= 3


def test_labels_are_sorted_and_o_comes_first():
    sentences = [Sentence(["ev", "Ali"], ["O", "B-PER"]), Sentence(["Van"], ["B-LOC"])]
    assert labels_of(sentences) == ["O", "B-LOC", "B-PER"]
    assert labels_of(SENTENCES) == LABELS


def test_labels_that_training_never_saw_are_named_on_stderr(capsys):
    sentences = [Sentence(["ev", "bir"], ["NOUN", "X"]), Sentence(["gör"], ["X"])]
    warn_of_unknown(sentences, LABELS, "dev.conllu")
    out, err = capsys.readouterr()
    assert out == "" and "dev.conllu" in err and "X (2 times)" in err
    warn_of_unknown([*SENTENCES, Sentence(["ev"], [None])], LABELS, "dev.conllu")
    assert capsys.readouterr().err == ""


def test_words_that_are_not_annotated_are_no_class_and_have_no_weight(preprocessor):
    sentences = [
        Sentence(["evler", "101", "gör"], ["NOUN", None, "VERB"]),
        Sentence(["102", "evler"], [None, None]),
        Sentence(["103"], ["NUM"]),
    ]
    assert labels_of(sentences) == ["NOUN", "NUM", "VERB"]
    data = TaggingData(preprocessor, sentences)
    words = [sentences[0].words, sentences[2].words]
    features, _, all_weights = preprocessor(words, [["NOUN", "NUM", "VERB"], ["NUM"]])
    assert data.count == 2
    np.testing.assert_array_equal(data.rows["token_ids"], features["token_ids"])
    word, weights = features["word_position_ids"].numpy(), data.rows["weights"].numpy()
    # [CLS] is word 0, so 101, a piece each digit, is word 2 of the first row.
    expected = all_weights.numpy()
    assert expected[0][word[0] == 2].all()
    expected[0][word[0] == 2] = 0
    np.testing.assert_array_equal(weights, expected)
    assert not any(name == "_" for name in preprocessor.labels)


def test_a_file_without_one_label_is_refused_and_labels_of_names_are_read_as_iob2(tmp_path, capsys):
    path = tmp_path / "a.conll"
    path.write_text("ev\t_\nkar\t<none>\n")
    with pytest.raises(InputError, match=r"a\.conll: no word is annotated") as refused:
        read_labelled(str(path))
    assert "\n" not in str(refused.value)
    path.write_text("Ali\tB-PER\nBey\tE-PER\nkar\t_\n")
    sentences, scheme = read_labelled(str(path))
    assert (sentences[0].labels, scheme) == (["B-PER", "I-PER", None], "BIOES")
    assert capsys.readouterr().err == f"{path}: BIOES labels, read as IOB2\n"


def test_unknown_words_are_warned_of(preprocessor):
    # Of five words one; [CLS] and [SEP] do not count.
    sentences = [Sentence(["ev", "evler", "gör"], ["NOUN"] * 3), Sentence(["ev", "מים"], ["NOUN"] * 2)]
    with pytest.warns(InputWarning, match=r"20\.0% of the words of the training data are \[UNK\]"):
        TaggingData(preprocessor, sentences)
