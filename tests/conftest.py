"""What every test may use: the shared data, and a small Turkish vocabulary."""

import os
import string
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

_SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
_LETTERS = "abcçdefgğhıijklmnoöpqrsştuüvwxyzâîûABCÇDEFGĞHIİJKLMNOÖPQRSŞTUÜVWXYZÂÎÛ"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout; a test that needs it skips where it is not."""
    if not _SHARED_DATA.is_dir():
        pytest.skip(f"no shared data at {_SHARED_DATA}")
    return _SHARED_DATA


@pytest.fixture(scope="session")
def tiny_vocabulary() -> list[str]:
    """A vocabulary that can spell every Turkish word.

    The special pieces, all letters and digits at the start and inside of words, ASCII punctuation,
    and the pieces of `Göremediklerimizden misiniz?`, `evler`, `kitap` and `bir`. In every casing,
    *göremediklerimizden* is six pieces: gör ##em ##edik ##leri ##miz ##den.
    """
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = list(_LETTERS + string.digits)
    continuing = [f"##{character}" for character in characters]
    words = "gör Gör gor ##em ##edik ##leri ##miz ##den mi ##siniz ev Ev ##ler kitap Kitap bir Bir"
    return [*special, *string.punctuation, *characters, *continuing, *words.split()]
