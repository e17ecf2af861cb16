import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.metrics import is_bio, tagging_scores


@pytest.mark.parametrize(
    "labels, expected",
    [
        (["O", "B-PER", "I-PER"], True),
        (["B-PER"], True),
        (["I-LOC", "O"], True),
        (["O"], False),
        ([], False),
        (["O", "B-"], False),
        (["O", "E-PER"], False),
        (["NOUN", "B-PER"], False),
        (["O", "B"], False),
    ],
)
def test_labels_mark_spans_where_all_are_bio(labels, expected):
    assert is_bio(labels) is expected


def test_accuracy_is_that_of_words_and_a_word_without_label_is_wrong():
    gold = [["NOUN", "VERB"], [], ["NOUN"]]
    scores = tagging_scores(gold, [["NOUN", None], [], ["VERB"]], spans=False)
    assert scores == {"accuracy": pytest.approx(1 / 3), "words": 3, "words_without_label": 1}


def test_nothing_scored_is_0():
    assert tagging_scores([], [], spans=False) == {"accuracy": 0.0, "words": 0, "words_without_label": 0}


def test_spans_are_scored_strictly():
    # Three gold spans. Found: the first; the second cut short; the third as another type; one that is none.
    gold = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC"], ["B-ORG", "O", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["B-LOC", "O", "B-PER"]]
    scores = tagging_scores(gold, predicted, spans=True)
    assert scores["precision"] == pytest.approx(1 / 4)
    assert scores["recall"] == pytest.approx(1 / 3)
    assert scores["f1"] == pytest.approx(2 / 7)
    assert scores["accuracy"] == pytest.approx(5 / 8)


def test_a_span_that_does_not_begin_with_b_is_no_span():
    # IOB2: the loose scheme would take I-PER at the start for a span.
    scores = tagging_scores([["B-PER", "I-PER"]], [["I-PER", "I-PER"]], spans=True)
    assert scores["f1"] == 0.0


def test_a_span_with_a_word_without_label_is_missed():
    scores = tagging_scores([["B-PER", "I-PER"], ["B-LOC"]], [["B-PER", None], ["B-LOC"]], spans=True)
    assert scores["recall"] == 0.5 and scores["words_without_label"] == 1


@pytest.mark.parametrize("predicted", [[["NOUN"]], [["NOUN", "VERB"], ["NOUN"]], [["NOUN", "VERB", "X"]]])
def test_other_numbers_of_sentences_or_words_are_refused(predicted):
    with pytest.raises(InputError, match="different numbers of words"):
        tagging_scores([["NOUN", "VERB"]], predicted, spans=False)
