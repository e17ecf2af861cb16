"""Scores of a saved tagger on a labelled file."""

from keras_bert2d.data.spans import labels_in_iob2, predictions_as_iob2, spans_are_scored
from keras_bert2d.data.tagging import labels_of, read_labelled, warn_of_unknown
from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.metrics import tagging_scores
from keras_bert2d.models.presets import preset_folder, task_name
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.progress import say


def evaluate_tagger(
    model: str, path: str, format: str | None = None, encoding: str = "utf-8"
) -> dict[str, float]:
    """Scores a tagger on a labelled file.

    Labels that mark names are scored as IOB2, whichever of the four schemes (see `keras_bert2d.data.spans`)
    the file is in and the tagger was trained on.

    Args:
        model: A preset or run folder of a `Bert2DTokenClassifier`.
        path: The file, CoNLL-U or CoNLL columns.
        format: `"conllu"` or `"conll"`, where the name does not tell.
        encoding: The encoding of the file.

    Returns:
        See `tagging_scores`.

    Raises:
        InputError: No tagger, or a file that cannot be read, in which no word is annotated, or whose labels
            mark names in no known scheme.
    """
    preset = preset_folder(model)
    if task_name(preset) != "Bert2DTokenClassifier":
        raise InputError(f"{model} is no tagger: fine-tune one with `keras-bert2d finetune tag`.")
    sentences, scheme = read_labelled(path, format, encoding)
    tagger = Bert2DTokenClassifier.from_preset(preset)
    known = tagger.preprocessor.labels
    warn_of_unknown(sentences, labels_in_iob2(known), path)
    predicted = tagger.predict([sentence.words for sentence in sentences], verbose=0)
    spans = spans_are_scored(known, labels_of(sentences))
    if spans:
        predicted, model_scheme = predictions_as_iob2(predicted, known, scheme)
        if model_scheme != "IOB2":
            say(f"{model}: predicts {model_scheme} labels, read as IOB2")
    return tagging_scores([sentence.labels for sentence in sentences], predicted, spans)
