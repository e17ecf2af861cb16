"""The tokenizers of the tests' small vocabulary."""

import pytest

from keras_bert2d.choices import CASINGS
from keras_bert2d.text.tokenizer import Bert2DTokenizer


@pytest.fixture(scope="session")
def tokenizers_by_casing(tiny_vocabulary):
    return {casing: Bert2DTokenizer(tiny_vocabulary, casing=casing) for casing in CASINGS}


@pytest.fixture(scope="session")
def cased(tokenizers_by_casing):
    return tokenizers_by_casing["cased"]
