"""The one training loop: pretraining and fine-tuning, on any strategy, killed and resumed at will."""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert2d.data.windows import Place
from keras_bert2d.errors import InputError
from keras_bert2d.progress import progress
from keras_bert2d.training.checkpoints import Checkpoints
from keras_bert2d.training.cut_logs import cut_logs
from keras_bert2d.training.step import HeadStep, head_metrics
from keras_bert2d.training.strategies import distribute, is_chief


@dataclasses.dataclass
class Loop:
    """Runs a model over a dataset, with checkpoints, logs and evaluations.

    Attributes:
        folder: The run folder; `checkpoints/`, `metrics.jsonl` and `tensorboard/` are written in it.
        step: `HeadStep`.
        steps: int. Optimiser steps of the whole run.
        batch_size: int. Rows of a step over all replicas.
        make_dataset: `(step, place) → dataset` of global batches from there on, with places.
        evaluate: `step → metrics`, or `None`.
        evaluate_every, checkpoint_every, log_every, steps_per_call: int, in steps.
        best_metric: string or `None`. The metric of `evaluate` whose best value is kept.
        best_is_high: bool. Whether a high value is better.
        keep: int. Checkpoints kept.
        stable_step: int or `None`. The step before which a checkpoint `stable` is kept: a longer run goes
            back to it.
    """

    folder: Path
    step: HeadStep
    steps: int
    batch_size: int
    make_dataset: Callable[[int, Place], tf.data.Dataset]
    evaluate: Callable[[int], dict[str, float]] | None = None
    evaluate_every: int = 1000
    checkpoint_every: int = 1000
    log_every: int = 50
    steps_per_call: int = 10
    best_metric: str | None = None
    best_is_high: bool = True
    keep: int = 3
    stable_step: int | None = None

    def run(self) -> dict[str, float]:
        """Trains to the end, from the last checkpoint where there is one.

        Returns:
            The metrics of the last log and evaluation.

        Raises:
            InputError: The loss is no number (the last checkpoint is kept), or a checkpoint could not be
                written or is of another model.
        """
        strategy, optimizer = self.step.strategy, self.step.optimizer
        self._chief = is_chief(strategy)
        self._checkpoints = Checkpoints(self.folder / "checkpoints", self.keep)
        self._variables = [*self.step.model.variables, *optimizer.variables]
        with strategy.scope():
            state = self._checkpoints.load_last(self._variables) or {}
        done = state.get("step", 0)
        place = Place(**state["place"]) if "place" in state else Place()
        self._best = state.get("best")
        last = state.get("last", {})
        writer = None
        if self._chief:
            self._checkpoints.clean()
            cut_logs(self.folder, lambda step, kind: step < done or (step == done and self._logs(step, kind)))
            writer = tf.summary.create_file_writer(str(self.folder / "tensorboard"))
        iterator = None
        # A checkpoint may lie between two log lines: what was summed since the first goes with it.
        sums, since = _as_tensors(state.get("sums")), state.get("since", 0)
        started = time.monotonic()
        with progress(self.steps, "training", "steps", initial=done) as bar:
            while done < self.steps:
                if self._chief and done == self.stable_step:
                    state = self._state(place, last, sums, since)
                    self._checkpoints.save_stable(done, self._variables, state)
                if iterator is None:
                    iterator = iter(distribute(strategy, self.make_dataset(done, place), self.batch_size))
                count = min(self._until_next(done), self.steps_per_call)
                more, at = self.step.train(iterator, tf.constant(count))
                sums = more if sums is None else tf.nest.map_structure(tf.add, sums, more)
                done += count
                _check_finite(done, more)
                place = Place(*(int(x) for x in at.numpy()))
                bar.update(count)
                ended = done == self.steps
                if ended or done % self.log_every == 0:
                    last = last | self._log(done, sums, done - since, time.monotonic() - started, writer)
                    bar.set_postfix(
                        loss=f"{last['loss']:.3f}",
                        pieces_s=f"{last['pieces_per_second']:.0f}",
                        refresh=False,
                    )
                    # The end of a run is no place where a longer one logs: its sums go on.
                    if done % self.log_every == 0:
                        sums, since, started = None, done, time.monotonic()
                if self.evaluate and (ended or done % self.evaluate_every == 0):
                    last = last | self._evaluate(done, writer)
                    started = time.monotonic()
                if self._chief and (ended or done % self.checkpoint_every == 0):
                    self._checkpoints.save(done, self._variables, self._state(place, last, sums, since))
        if writer:
            writer.close()
        return last

    def load_best(self) -> dict | None:
        """Brings the best weights back; returns the state saved with them."""
        strategy = self.step.strategy
        # No worker reads the best weights before the chief has written them.
        wait_for_all(strategy)
        with strategy.scope():
            return self._checkpoints.load_best(self.step.model.variables)

    def _until_next(self, done: int) -> int:
        """Steps to the next place where something is written."""
        stops = [self.log_every, self.checkpoint_every, self.steps]
        if self.evaluate:
            stops.append(self.evaluate_every)
        counts = [stop - done % stop for stop in stops if stop > 0]
        if self.stable_step is not None and done < self.stable_step:
            counts.append(self.stable_step - done)
        return min(counts)

    def _state(self, place: Place, last: dict, sums: dict | None, since: int) -> dict:
        return {
            "place": dataclasses.asdict(place),
            "best": self._best,
            "last": last,
            "sums": None if sums is None else tf.nest.map_structure(float, sums),
            "since": since,
        }

    def _log(self, done, sums, steps, seconds, writer) -> dict[str, float]:
        sums = tf.nest.map_structure(float, sums)
        real, slots, norm = sums.pop("real"), sums.pop("slots"), sums.pop("gradient_norm")
        metrics = {
            **head_metrics(sums),
            "learning_rate": float(self.step.optimizer.schedule(done - 1)),
            "gradient_norm": norm / steps,
            "padding_share": 1 - real / slots,
            "pieces_per_second": real / max(seconds, 1e-9),
        }
        self._write(done, metrics, writer, "train")
        return metrics

    def _evaluate(self, done, writer) -> dict[str, float]:
        metrics = self.evaluate(done)
        self._write(done, metrics, writer, "evaluation")
        if self.best_metric:
            value = metrics[self.best_metric]
            sign = 1 if self.best_is_high else -1
            if self._best is None or sign * value > sign * self._best:
                self._best = value
                if self._chief:
                    self._checkpoints.save_best(done, self.step.model.variables, metrics)
        return metrics

    def _write(self, done, metrics, writer, kind) -> None:
        if not self._chief:
            return
        with writer.as_default(step=done):
            for name, value in metrics.items():
                tf.summary.scalar(f"{kind}/{name}", value)
        with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": done, "kind": kind, **metrics}) + "\n")

    def _logs(self, step: int, kind: str) -> bool:
        """Whether this run logs a line at a step; a shorter one ended with lines of its own."""
        every = self.log_every if kind == "train" else self.evaluate_every
        return step == self.steps or step % every == 0


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns when every worker has come here."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)


def _as_tensors(sums: dict | None) -> dict | None:
    return None if sums is None else tf.nest.map_structure(tf.constant, sums)


def _check_finite(done: int, sums: dict) -> None:
    """Refuses to go on, or to save, where the loss or a gradient is no number."""
    if not all(math.isfinite(float(x)) for x in tf.nest.flatten(sums)):
        raise InputError(
            f"The loss or the gradients are no numbers at step {done}; the last checkpoint is kept. Lower "
            "the learning rate or clip the gradients, in a new run folder."
        )


def set_seeds(seed: int) -> None:
    """Seeds Python, NumPy and TensorFlow, and makes every operation deterministic."""
    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()
