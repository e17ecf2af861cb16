"""Scores of taggers, from libraries: accuracy of words, strict F1 of spans."""

from collections.abc import Sequence

from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from keras_bert2d.errors import InputError


def is_bio(labels: Sequence[str]) -> bool:
    """Tells whether labels mark spans: all are `O`, `B-…` or `I-…`, and some are not `O`.

    Example:

    >>> is_bio(["O", "B-PER", "I-PER"]), is_bio(["NOUN", "VERB"])
    (True, False)
    """
    marked = [label for label in labels if label != "O"]
    return bool(marked) and all(label[:2] in ("B-", "I-") and len(label) > 2 for label in marked)


def tagging_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str | None]], spans: bool
) -> dict[str, float]:
    """Scores predicted labels of words.

    Args:
        gold: for each sentence, a label for each word.
        predicted: the same; `None` for a word that got no label, which is always wrong.
        spans: bool. Whether labels are BIO; precision, recall and F1 of whole spans are then given,
            strict IOB2 by `seqeval`.

    Returns:
        `accuracy`, the share of words with the right label, `words` and `words_without_label`; with
        `spans` also `f1`, `precision` and `recall`.

    Raises:
        InputError: The numbers of sentences or words differ.

    Example:

    >>> tagging_scores([["NOUN", "VERB"]], [["NOUN", None]], spans=False)
    {'accuracy': 0.5, 'words': 2, 'words_without_label': 1}
    """
    if [len(sentence) for sentence in gold] != [len(sentence) for sentence in predicted]:
        raise InputError("The gold and the predicted labels are of different numbers of words.")
    pairs = [pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True)]
    scores = {
        "accuracy": sum(g == p for g, p in pairs) / max(len(pairs), 1),
        "words": len(pairs),
        "words_without_label": sum(p is None for _, p in pairs),
    }
    if spans:
        gold = [list(sentence) for sentence in gold]
        # To seqeval a word without a label is outside: a gold span that holds it is missed.
        predicted = [["O" if label is None else label for label in sentence] for sentence in predicted]
        for name, score in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
            scores[name] = float(score(gold, predicted, mode="strict", scheme=IOB2, zero_division=0))
    return scores
