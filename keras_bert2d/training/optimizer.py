"""AdamW with warm-up and decay, for gradients that are already summed over the replicas."""

import keras
import tensorflow as tf

from keras_bert2d.choices import DECAYS, check_choice
from keras_bert2d.training.config import check_decay_steps, tenth


@keras.saving.register_keras_serializable(package="keras_bert2d")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then linear or cosine decay to 0, or none, or one at the end only (`"wsd"`).

    With s the step from 0, w the warm-up and n all steps: peak · (s + 1) / w below w, so that the first
    step already moves; then peak · (1 − p) or peak · ½ (1 + cos πp) with p = (s − w) / (n − w).
    `"wsd"` is warm-up, stable, decay (Hu et al. 2024, MiniCPM, section 4), here with a linear decay of d
    steps: peak · min(1, (n − s) / d). What is trained before step n − d does not hang on n.

    Args:
        peak: float. The highest rate.
        steps: int. All steps of the run.
        warmup_steps: int.
        decay: string, one of `DECAYS`.
        decay_steps: int or `None`. For `"wsd"` only: steps of the decay; `None` for a tenth of all.

    Raises:
        InputError: There is no such decay, `decay_steps` is given with another, or warm-up and decay are
            longer than the run.

    Example:

    >>> [round(float(WarmupDecay(1.0, 10, 2, "linear")(step)), 3) for step in (0, 1, 2, 6, 10)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    >>> [round(float(WarmupDecay(1.0, 10, 2, "wsd", 4)(step)), 3) for step in (0, 1, 6, 7, 8, 10)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.0]
    """

    def __init__(
        self,
        peak: float,
        steps: int,
        warmup_steps: int,
        decay: str = "linear",
        decay_steps: int | None = None,
    ) -> None:
        super().__init__()
        check_choice("decay", decay, DECAYS)
        if decay == "wsd" and decay_steps is None:
            decay_steps = tenth(steps)
        check_decay_steps(steps, warmup_steps, decay, decay_steps)
        self.peak, self.steps, self.warmup_steps = peak, steps, warmup_steps
        self.decay, self.decay_steps = decay, decay_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        warm = (step + 1.0) / max(self.warmup_steps, 1)
        done = (step - self.warmup_steps) / max(self.steps - self.warmup_steps, 1)
        done = tf.clip_by_value(done, 0.0, 1.0)
        if self.decay == "linear":
            after = 1.0 - done
        elif self.decay == "cosine":
            after = 0.5 * (1.0 + tf.cos(3.141592653589793 * done))
        elif self.decay == "wsd":
            after = tf.clip_by_value((self.steps - step) / self.decay_steps, 0.0, 1.0)
        else:
            after = tf.ones_like(done)
        return self.peak * tf.where(step < self.warmup_steps, warm, after)

    def get_config(self) -> dict:
        return {
            "peak": self.peak,
            "steps": self.steps,
            "warmup_steps": self.warmup_steps,
            "decay": self.decay,
            "decay_steps": self.decay_steps,
        }


class SummedAdamW(keras.optimizers.AdamW):
    """AdamW (Loshchilov and Hutter 2019) that takes gradients as they are.

    The loop sums gradients over the replicas before it clips them; Keras would sum them once more.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return grads_and_vars


def make_optimizer(
    schedule: WarmupDecay,
    variables: list,
    weight_decay: float = 0.01,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
) -> SummedAdamW:
    """Makes the optimizer of a run.

    Args:
        schedule: The learning rate by step.
        variables: Trainable variables. Those of one dimension, biases and norms, are not decayed.
        weight_decay: float.
        beta_2, epsilon: float. See `keras.optimizers.AdamW`; 1e-6 is BERT's.

    Returns:
        The optimizer, built.
    """
    optimizer = SummedAdamW(learning_rate=schedule, weight_decay=weight_decay, beta_2=beta_2, epsilon=epsilon)
    optimizer.exclude_from_weight_decay(var_list=[v for v in variables if len(v.shape) < 2])
    optimizer.build(variables)
    # Keras tells the rate of the step to come; a log wants that of a step that was made.
    optimizer.schedule = schedule
    return optimizer
