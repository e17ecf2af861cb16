"""Trains the small model in a process of its own: `python -m tests.training.devices FOLDER RUN…`.

Prints a JSON object with the lines of `metrics.jsonl` and the weights of each run: `one`, `mirrored` (two
logical CPU devices), `accumulated` (two micro-batches on each of them), or `multiworker` (of `TF_CONFIG`).
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.training.loop import Loop
from keras_bert2d.training.strategies import check_batch_size, is_chief, make_strategy
from tests.training.small import dataset, make_step

STEPS = 6


def run(name: str, folder: Path) -> dict:
    strategy = make_strategy("mirrored" if name == "accumulated" else name)
    step = make_step(strategy, steps=STEPS, accumulation=2 if name == "accumulated" else 1)
    loop = Loop(
        folder=folder / name,
        step=step,
        steps=STEPS,
        batch_size=8,
        make_dataset=lambda _, place: dataset(8, place),
        evaluate=lambda done: {"score": float(done == 4)},
        evaluate_every=2,
        checkpoint_every=3,
        log_every=1,
        best_metric="score",
    )
    loop.run()
    weights = [v.numpy().tolist() for v in step.model.trainable_variables]
    best = loop.load_best()["step"]
    return {
        "replicas": strategy.num_replicas_in_sync,
        "chief": is_chief(strategy),
        "weights": weights,
        "best": best,
        "best_weights": [v.numpy().tolist() for v in step.model.trainable_variables],
    }


def refused(batch_size: int, accumulation: int) -> str | None:
    try:
        check_batch_size(make_strategy("mirrored"), batch_size, accumulation)
    except InputError as error:
        return str(error)


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    if "mirrored" in names:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
        )
    results = {name: run(name, Path(folder)) for name in names}
    if "mirrored" in names:
        results["refused"] = [refused(*case) for case in ((8, 2), (7, 1), (6, 2))]
    print(json.dumps(results))
