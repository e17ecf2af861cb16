"""Scores of taggers, from libraries: accuracy of words, strict F1 of spans."""

from collections.abc import Sequence

from seqeval.metrics.v1 import precision_recall_fscore_support
from seqeval.scheme import IOB2

from keras_bert2d.data.spans import to_iob2
from keras_bert2d.errors import InputError


def tagging_scores(
    gold: Sequence[Sequence[str | None]], predicted: Sequence[Sequence[str | None]], spans: bool
) -> dict[str, float]:
    """Scores predicted labels of words.

    Args:
        gold: for each sentence, a label for each word; `None` for a word that is not annotated, which is
            not scored.
        predicted: the same; `None` for a word that got no label, which is wrong where it is scored.
        spans: bool. Whether labels are IOB2 (or BIOES or BILOU, which become IOB2 by their letters);
            precision, recall and F1 of whole spans are then given, strict IOB2 by `seqeval`.

    Returns:
        `accuracy`, the share of scored words with the right label, `words`, those that are scored,
        `words_not_annotated`, the others, and `words_without_label`; with `spans` also `f1`, `precision` and
        `recall`. Where there is nothing to find and nothing is found, all is right: a score is 1.

    Raises:
        InputError: The numbers of sentences or words differ.

    Example:

    >>> tagging_scores([["NOUN", "VERB", None]], [["NOUN", None, "VERB"]], spans=False)
    {'accuracy': 0.5, 'words': 2, 'words_not_annotated': 1, 'words_without_label': 1}
    """
    if [len(sentence) for sentence in gold] != [len(sentence) for sentence in predicted]:
        raise InputError("The gold and the predicted labels are of different numbers of words.")
    if spans:
        gold, predicted = ([_by_letter(labels) for labels in rows] for rows in (gold, predicted))
    every = [pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True)]
    pairs = [(g, p) for g, p in every if g is not None]
    scores = {
        "accuracy": sum(g == p for g, p in pairs) / len(pairs) if pairs else 1.0,
        "words": len(pairs),
        "words_not_annotated": len(every) - len(pairs),
        "words_without_label": sum(p is None for _, p in pairs),
    }
    return scores | _span_scores(gold, predicted) if spans else scores


def _by_letter(labels: Sequence[str | None]) -> list[str | None]:
    # Both schemes: their letters do not clash.
    return to_iob2(labels, "BIOES")


def _span_scores(gold: list[list[str | None]], predicted: list[list[str | None]]) -> dict[str, float]:
    # A word that is not annotated, or has no label, is outside: a gold span that holds the latter is missed.
    outside = [[label is None for label in sentence] for sentence in gold]
    gold, predicted = (
        [
            [label if label and label[:2] in ("B-", "I-") and not out else "O" for label, out in row]
            for row in (zip(labels, outs, strict=True) for labels, outs in zip(rows, outside, strict=True))
        ]
        for rows in (gold, predicted)
    )
    # A strict span opens with B-.
    is_empty = not any(label.startswith("B-") for rows in (gold, predicted) for row in rows for label in row)
    precision, recall, f1, _ = precision_recall_fscore_support(
        gold, predicted, average="micro", scheme=IOB2, zero_division=int(is_empty)
    )
    return {"f1": float(f1), "precision": float(precision), "recall": float(recall)}
