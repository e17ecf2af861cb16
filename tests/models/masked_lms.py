"""A small masked language model and texts for it."""

import keras
import numpy as np

from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor

RULES = {"max_words": 24, "max_intermediate_subwords": 2, "overflow": "last", "word_numbering": "restart"}
TEXTS = ["Göremediklerimizden misiniz?", "evler kitap bir", "bir ev", ""]
PAIRS = (["bir ev", "evler", "kitap"] * 4, ["kitap", "bir", "ev ev"] * 4)


def make_model(tokenizer, dtype=None, next_sentence=False, backbone_kwargs=None, **kwargs):
    keras.utils.set_random_seed(1)
    backbone = Bert2DBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        dropout=0.0,
        max_words=tokenizer.id_rules.max_words,
        max_intermediate_subwords=tokenizer.id_rules.max_intermediate_subwords,
        dtype=dtype,
        **(backbone_kwargs or {}),
    )
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, **{"sequence_length": 20, **kwargs})
    return Bert2DMaskedLM(backbone, preprocessor, next_sentence=next_sentence)


def as_numpy(structure):
    return keras.tree.map_structure(
        lambda x: np.array(keras.ops.cast(x, "float32") if x.dtype == "bfloat16" else x), structure
    )


def same(first, second):
    return all(
        np.array_equal(a, b)
        for a, b in zip(keras.tree.flatten(first), keras.tree.flatten(second), strict=True)
    )
