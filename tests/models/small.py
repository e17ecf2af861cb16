"""Small models of each kind without dropout, and raw text to fit them on."""

import keras

from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer

LABELS = ["DET", "NOUN", "PUNCT"]
WORDS = [["evler", "."], ["bir", "ev"], ["kitap"], ["ev", "kitap", "."], ["bir", "evler", "."]]
TAGS = [["NOUN", "PUNCT"], ["DET", "NOUN"], ["NOUN"], ["NOUN", "NOUN", "PUNCT"], ["DET", "NOUN", "PUNCT"]]
TEXTS = [" ".join(words) for words in WORDS]

KINDS = ("tagger", "masked_lm", "next_sentence")


def make_backbone(vocabulary, **kwargs):
    sizes = dict(num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, dropout=0.0)
    return Bert2DBackbone(len(vocabulary), max_words=24, **{**sizes, **kwargs})


def make_model(kind, vocabulary, backbone=None, optimizer=None, run_eagerly=False):
    """A model of a kind, the same each time. Eager steps spare a test seconds of tracing."""
    keras.utils.set_random_seed(7)
    backbone = backbone or make_backbone(vocabulary)
    tokenizer = Bert2DTokenizer(vocabulary, max_words=24)
    if kind == "tagger":
        preprocessor = Bert2DTokenClassifierPreprocessor(tokenizer, labels=LABELS, sequence_length=12)
        model = Bert2DTokenClassifier(backbone, preprocessor=preprocessor, dropout=0.0)
    else:
        preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=12, seed=3)
        model = Bert2DMaskedLM(backbone, preprocessor, next_sentence=kind == "next_sentence")
    model.compile(optimizer or keras.optimizers.Adam(0.01), run_eagerly=run_eagerly)
    return model


def raw_data(kind) -> dict:
    """Arguments of `fit` and `evaluate`."""
    if kind == "tagger":
        return {"x": WORDS, "y": TAGS}
    if kind == "masked_lm":
        return {"x": TEXTS}
    return {"x": (TEXTS, TEXTS[::-1]), "y": [0, 1, 1, 0, 1]}
