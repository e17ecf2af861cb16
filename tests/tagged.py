"""A little labelled text, and presets of tiny models that have seen nothing."""

import random

import keras

from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer

TAGS = {
    "evler": "NOUN",
    "kitap": "NOUN",
    "bir": "DET",
    "gör": "VERB",
    "Göremediklerimizden": "VERB",
    ".": "PUNCT",
}
SPANS = {"Ankara'da": ["B-LOC"], "Ali Bey": ["B-PER", "I-PER"], "evler": ["O"], "kitap": ["O"]}


def conllu(seed: int, sentences: int) -> str:
    """CoNLL-U text with comments and a multiword token in each sentence."""
    draw, text = random.Random(seed), ""
    for number in range(sentences):
        words = [*draw.choices([w for w in TAGS if w != "."], k=draw.randint(1, 5)), "."]
        text += f"# sent_id = {number}\n1-2\t{words[0]}{words[1]}" + "\t_" * 8 + "\n"
        for i, word in enumerate(words, 1):
            text += f"{i}\t{word}\t_\t{TAGS[word]}" + "\t_" * 6 + "\n"
        text += "\n"
    return text


def conll(seed: int, sentences: int) -> str:
    """Two columns, BIO labels."""
    draw, text = random.Random(seed), ""
    for _ in range(sentences):
        for phrase in draw.choices(list(SPANS), k=draw.randint(1, 4)):
            pairs = zip(phrase.split(), SPANS[phrase], strict=True)
            text += "".join(f"{word}\t{label}\n" for word, label in pairs)
        text += "\n"
    return text


def tokenizer_and_backbone(vocabulary: list[str]) -> tuple[Bert2DTokenizer, Bert2DBackbone]:
    keras.utils.set_random_seed(0)
    sizes = dict(num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32)
    tokenizer = Bert2DTokenizer(vocabulary, max_words=64)
    return tokenizer, Bert2DBackbone(len(vocabulary), **sizes, max_words=64, norm_order="pre")


def save_masked_lm(folder, vocabulary: list[str]) -> str:
    """Saves a masked-LM preset of rows of 16 pieces; returns its folder."""
    tokenizer, backbone = tokenizer_and_backbone(vocabulary)
    Bert2DMaskedLM(backbone, Bert2DMaskedLMPreprocessor(tokenizer, 16)).save_to_preset(str(folder))
    return str(folder)


def save_tagger(folder, vocabulary: list[str], labels: list[str]) -> str:
    """Saves a tagger preset of rows of 16 pieces; returns its folder."""
    tokenizer, backbone = tokenizer_and_backbone(vocabulary)
    preprocessor = Bert2DTokenClassifierPreprocessor(tokenizer, labels=labels, sequence_length=16)
    Bert2DTokenClassifier(backbone, preprocessor=preprocessor).save_to_preset(str(folder))
    return str(folder)
