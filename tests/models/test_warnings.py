"""A session that fits, scores, predicts, saves and loads prints nothing that a user cannot act on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, tempfile
import keras, tensorflow as tf, keras_bert2d
from tests.models.small import KINDS, TEXTS, WORDS, make_model, raw_data
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ev", "##ler", "bir", "kitap", "."]
folder = tempfile.mkdtemp()
print("BEGIN", file=sys.stderr, flush=True)
for kind in KINDS:
    model, data = make_model(kind, vocabulary), raw_data(kind)
    model.fit(**data, batch_size=1, epochs=4, validation_split=0.4, verbose=2)
    model.evaluate(**data, verbose=0)
    if kind == "tagger":
        for count in (1, 2, 3):
            model.predict(WORDS[:count], verbose=0)
            model.predict(TEXTS[:count], verbose=0)
            model.compile()
    else:
        model.predict(data["x"], verbose=0)
        model.fill_masks(["ev [MASK]", "bir [MASK] [MASK]"])
    model.save(f"{folder}/{kind}.keras")
    loaded = keras.saving.load_model(f"{folder}/{kind}.keras")
    model.save_to_preset(f"{folder}/{kind}")
    type(model).from_preset(f"{folder}/{kind}")
    keras.backend.clear_session()
print("END", file=sys.stderr)
"""


@pytest.mark.slow
def test_fitting_scoring_predicting_and_saving_are_quiet():
    root = Path(__file__).resolve().parents[2]
    strict = [f"-Werror::{kind}" for kind in ("UserWarning", "RuntimeWarning", "FutureWarning")]
    done = subprocess.run(
        [sys.executable, *strict, "-c", PROGRAM], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stderr.split("BEGIN\n")[1].split("END\n")[0]
    # TensorFlow's own log, from C++.
    lines = [line for line in said.splitlines() if not re.match(r"[IWE]\d{4} |WARNING: All log", line)]
    assert lines == []
