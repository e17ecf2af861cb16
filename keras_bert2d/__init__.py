"""BERT encoders with two-dimensional positions: which word, and which piece of that word."""

import importlib

from keras_bert2d import registration
from keras_bert2d.errors import InputError
from keras_bert2d.version import __version__

# Imported when first asked for: TensorFlow takes seconds, and `keras-bert2d --help` needs none of it.
_HOMES = {
    "Bert2DBackbone": "keras_bert2d.models.backbone",
    "Bert2DMaskedLM": "keras_bert2d.models.masked_lm",
    "Bert2DMaskedLMPreprocessor": "keras_bert2d.models.masked_lm_preprocessor",
    "Bert2DTokenClassifier": "keras_bert2d.models.token_classifier",
    "Bert2DTokenClassifierPreprocessor": "keras_bert2d.models.token_classifier_preprocessor",
    "Bert2DTokenizer": "keras_bert2d.text.tokenizer",
    "RowSettings": "keras_bert2d.data.epochs",
    "TwoDPositionEmbedding": "keras_bert2d.layers.position_embedding",
    "prepare": "keras_bert2d.data.prepare",
    "pretraining_dataset": "keras_bert2d.data.pretraining",
    "train_vocabulary": "keras_bert2d.text.vocabulary_training",
    "two_d_position_ids": "keras_bert2d.text.positions",
}

__all__ = [*_HOMES, "InputError", "__version__"]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert2d' has no attribute {name!r}")
    # With it come all classes that a saved model may hold: whoever opens one may have used only this.
    registration.register()
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


registration.register_when_keras_comes()
