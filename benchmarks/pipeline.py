"""Raw text to masked batches: ours beside KerasHub's preprocessor, on the same lines, in turns."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import keras_hub
import tensorflow as tf

from keras_bert2d import Bert2DTokenizer, RowSettings, prepare
from keras_bert2d.data.pretraining import pretraining_dataset, raw_text_dataset

SEQUENCE_LENGTH, BATCH, PREDICTIONS = 128, 32, 20


def ours(corpus: str, vocabulary: str, limit: int) -> float:
    """Pieces a second from raw text, `[CLS]` and `[SEP]` not counted, padding neither."""
    tokenizer = Bert2DTokenizer(vocabulary)
    settings = RowSettings(SEQUENCE_LENGTH, max_predictions_per_row=PREDICTIONS)
    dataset = raw_text_dataset(corpus, tokenizer, settings, BATCH)
    specials = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    return _rate(dataset, lambda batch: batch[0], specials, limit)


def theirs(corpus: str, vocabulary: str, limit: int) -> float:
    """The same for KerasHub's preprocessor, one line a row."""
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=vocabulary, lowercase=False)
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        tokenizer, sequence_length=SEQUENCE_LENGTH, mask_selection_length=PREDICTIONS
    )
    dataset = tf.data.TextLineDataset(corpus).batch(BATCH, drop_remainder=True)
    dataset = dataset.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    specials = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    return _rate(dataset, lambda batch: batch[0], specials, limit)


def _rate(dataset, features_of, specials, limit) -> float:
    """Counts pieces inside the dataset, so that Python does not slow it down."""

    def count(*batch):
        features = features_of(batch)
        tokens = features["token_ids"]
        real = tf.cast(features["padding_mask"], tf.bool)
        for special in specials:
            real &= tokens != special
        return tf.math.count_nonzero(real)

    counts = dataset.map(count, num_parallel_calls=1).take(limit)
    iterator = iter(counts)
    for _ in islice(iterator, 20):  # Tracing, first windows.
        pass
    started, pieces = time.perf_counter(), 0
    for number in iterator:
        pieces += int(number)
    return pieces / (time.perf_counter() - started)


def memory(corpus: str, vocabulary: str, copies: int) -> dict[str, float]:
    """Peak memory in MiB of `prepare` and of one epoch over its shards, in a process of its own."""
    code = "import sys, benchmarks.pipeline as b; b.memory_of_process(*sys.argv[1:])"
    command = [sys.executable, "-c", code, corpus, vocabulary, str(copies)]
    root = Path(__file__).resolve().parent.parent
    run = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def memory_of_process(corpus: str, vocabulary: str, copies: str) -> None:
    """Prepares `copies` of the corpus and reads an epoch's batches; prints the peaks as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = prepare([corpus] * int(copies), Bert2DTokenizer(vocabulary), folder)
        prepared = _peak_mib()
        batches = manifest.pieces // (SEQUENCE_LENGTH * BATCH)
        dataset = pretraining_dataset(folder, RowSettings(SEQUENCE_LENGTH), BATCH)
        for _ in dataset.take(batches):
            pass
        read = _peak_mib()
    print(json.dumps({"prepare": prepared, "epoch": read}))


def _peak_mib() -> float:
    # Not `getrusage`: its peak begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    """Prints one JSON object a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("vocabulary")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    arguments = options.corpus, options.vocabulary
    ratios = []
    for turn in range(options.rounds):
        us, them = ours(*arguments, 1200), theirs(*arguments, 2500)
        ratios.append(us / them)
        print(json.dumps({"round": turn, "ours": us, "keras_hub": them, "ratio": ratios[-1]}), flush=True)
    print(json.dumps({"median ratio": statistics.median(ratios)}), flush=True)
    for copies in (1, 10):
        print(json.dumps({"copies": copies, "peak_mib": memory(*arguments, copies)}), flush=True)


if __name__ == "__main__":
    main()
