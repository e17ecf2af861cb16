"""Scores of a saved tagger on a labelled file."""

from keras_bert2d.data.conll import read_tagged
from keras_bert2d.data.tagging import warn_of_unknown
from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.metrics import is_bio, tagging_scores
from keras_bert2d.models.presets import preset_folder, task_name
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier


def evaluate_tagger(model: str, path: str, format: str | None = None) -> dict[str, float]:
    """Scores a tagger on a labelled file.

    Args:
        model: A preset or run folder of a `Bert2DTokenClassifier`.
        path: The file, CoNLL-U or CoNLL columns.
        format: `"conllu"` or `"conll"`, where the name does not tell.

    Returns:
        See `tagging_scores`.

    Raises:
        InputError: No tagger, or a file that cannot be read.
    """
    preset = preset_folder(model)
    if task_name(preset) != "Bert2DTokenClassifier":
        raise InputError(f"{model} is no tagger: fine-tune one with `keras-bert2d finetune tag`.")
    sentences = read_tagged(path, format)
    tagger = Bert2DTokenClassifier.from_preset(preset)
    warn_of_unknown(sentences, tagger.preprocessor.labels, path)
    predicted = tagger.predict([sentence.words for sentence in sentences], verbose=0)
    spans = is_bio(tagger.preprocessor.labels)
    return tagging_scores([sentence.labels for sentence in sentences], predicted, spans)
