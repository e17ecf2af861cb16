import pytest

from keras_bert2d.data.conll import Sentence
from keras_bert2d.demo import majority_scores
from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.metrics import tagging_scores


def test_accuracy_is_that_of_words_and_a_word_without_label_is_wrong():
    gold = [["NOUN", "VERB"], [], ["NOUN"]]
    scores = tagging_scores(gold, [["NOUN", None], [], ["VERB"]], spans=False)
    assert scores == {
        "accuracy": pytest.approx(1 / 3), "words": 3, "words_not_annotated": 0, "words_without_label": 1,
    }  # fmt: skip


def test_words_that_are_not_annotated_are_counted_and_not_scored():
    gold = [["NOUN", None, None], ["VERB"]]
    scores = tagging_scores(gold, [["NOUN", "VERB", None], ["X"]], spans=False)
    assert scores == {"accuracy": 0.5, "words": 2, "words_not_annotated": 2, "words_without_label": 0}


def test_a_name_is_scored_without_what_is_predicted_at_words_that_are_not_annotated():
    gold = [["B-PER", "I-PER", None, "O", None]]
    predicted = [["B-PER", "I-PER", "I-PER", "O", "B-LOC"]]
    scores = tagging_scores(gold, predicted, spans=True)
    assert {scores[name] for name in ("accuracy", "f1", "precision", "recall")} == {1.0}


SCHEMES = {
    "IOB2": ["B-PER", "I-PER", "B-PER", "O", "B-LOC"],
    "IOB1": ["I-PER", "I-PER", "B-PER", "O", "I-LOC"],
    "BIOES": ["B-PER", "E-PER", "S-PER", "O", "S-LOC"],
    "BILOU": ["B-PER", "L-PER", "U-PER", "O", "U-LOC"],
    "no name": ["O", "O", None],
    "one IOB1 name": ["I-PER", "O"],
    "nothing annotated": [None],
    "nothing": [],
}


@pytest.mark.parametrize("labels", SCHEMES.values(), ids=SCHEMES)
def test_what_is_perfect_scores_1(labels):
    for gold in ([labels], [labels, ["O"]]):
        scores = tagging_scores(gold, gold, spans=True)
        assert {scores[name] for name in ("accuracy", "f1", "precision", "recall")} == {1.0}


@pytest.mark.parametrize("scheme", ["BIOES", "BILOU"])
def test_labels_of_other_letters_score_as_iob2(scheme):
    predicted = [["B-PER", "I-PER", "O", "O", "B-ORG"]]
    expected = tagging_scores([SCHEMES["IOB2"]], predicted, spans=True)
    assert tagging_scores([SCHEMES[scheme]], predicted, spans=True) == expected
    # One name of three is found, and two are said.
    assert (expected["precision"], expected["recall"]) == (0.5, pytest.approx(1 / 3))


def test_names_where_there_are_none_and_none_where_there_are_some_score_0():
    for gold, predicted in (([["O"]], [["B-PER"]]), ([["B-PER"]], [["O"]])):
        assert tagging_scores(gold, predicted, spans=True)["f1"] == 0.0


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


def test_the_baseline_of_the_demo_passes_over_words_that_are_not_annotated():
    train = [Sentence(["ev", "ev", "gör", "bir"], [None, "NOUN", "VERB", None]), Sentence(["gör"], ["VERB"])]
    test = [Sentence(["ev", "gör", "bir"], ["NOUN", None, "VERB"])]
    # `bir` was never annotated: it gets the most frequent label of all words.
    assert majority_scores(train, test) == {
        "accuracy": 1.0, "words": 2, "words_not_annotated": 1, "words_without_label": 0,
    }  # fmt: skip
    nothing = [Sentence(["ev"], [None])]
    assert majority_scores(nothing, test)["words_without_label"] == 2
