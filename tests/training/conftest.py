"""A small corpus in shards, and the options of runs on it."""

import random

import pytest

from keras_bert2d.data import shards as shard_format
from keras_bert2d.data.prepare import prepare
from keras_bert2d.text.tokenizer import Bert2DTokenizer

WORDS = "Göremediklerimizden misiniz evler kitap bir gör evlerden kitaplar ev, Bir Kitap".split()


@pytest.fixture(scope="session")
def shards(tmp_path_factory, tiny_vocabulary):
    """Shards of two files with several records and documents each."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(0)
    for name in ("a.txt", "b.txt"):
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) + "." for _ in range(250)]
        lines = [line + "\n" * draw.randint(0, 1) for line in lines]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_format, "RECORD_PIECES", 256)
        prepare(
            [folder / "a.txt", folder / "b.txt"], Bert2DTokenizer(tiny_vocabulary, max_words=64), folder / "s"
        )
    return folder / "s"


@pytest.fixture(scope="session")
def tiny_options(shards) -> dict:
    """Options of a pretraining run of a few steps; log lines and checkpoints do not coincide."""
    return dict(
        data=str(shards), size="tiny", num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32,
        dropout=0.1, sequence_length=16, batch_size=8, steps=14, steps_per_call=2, learning_rate=1e-2,
        log_every=4, checkpoint_every=3, evaluate_every=7, held_out=0.2, held_out_batches=2, strategy="one",
    )  # fmt: skip
