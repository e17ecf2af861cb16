"""One optimiser step and one evaluation step, for any number of replicas."""

import tensorflow as tf


class HeadStep:
    """Trains and evaluates a model whose outputs are class logits, one head or a dict of heads.

    The loss is the sum over heads of Σ w · cross-entropy / Σ w, where both sums run over all replicas and
    all micro-batches of the step: so it does not hang on how the batch is cut.

    Args:
        strategy: The strategy in whose scope model and optimizer were made.
        model: Keras model: features in, logits or a dict of logits out.
        optimizer: See `make_optimizer`; `None` for evaluation only.
        accumulation: int. Micro-batches of a step on each replica.
        clip_norm: float or `None`. Largest global norm of the gradients.
        jit_compile: bool. Compile the step with XLA.
    """

    def __init__(
        self, strategy, model, optimizer=None, accumulation=1, clip_norm=None, jit_compile=False
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.optimizer = optimizer
        self.accumulation = accumulation
        self.clip_norm = clip_norm
        self._step = tf.function(self._replica_step, jit_compile=True) if jit_compile else self._replica_step
        self.train = tf.function(self._train)
        self.evaluate = tf.function(self._evaluate)

    def _train(self, iterator, steps):
        """Runs `steps` optimiser steps; returns sums over them and the place behind the last."""
        zero = tf.constant(0.0)
        sums = {
            name: dict.fromkeys(("loss", "right", "weight"), zero) for name in as_heads(self.model.output)
        }
        sums |= dict.fromkeys(("real", "slots", "gradient_norm"), zero)
        place = tf.zeros([3], tf.int32)
        for _ in tf.range(steps):
            more, place = self._one(iterator)
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums, place

    def _one(self, iterator):
        sums, place = self.strategy.run(self._step, args=next(iterator))
        local = self.strategy.experimental_local_results
        return tf.nest.map_structure(lambda x: local(x)[0], sums), local(place)[0]

    def _evaluate(self, batch):
        """Sums over one batch: losses, right answers and weights of each head."""

        def evaluate(features, labels, weights):
            features = {name: features[name] for name in self.model.input}
            return self._all_reduce(head_sums(self.model(features, training=False), labels, weights))

        sums = self.strategy.run(evaluate, args=batch)
        local = self.strategy.experimental_local_results
        return tf.nest.map_structure(lambda x: local(x)[0], sums)

    def _replica_step(self, features, labels, weights):
        place = features["place"][0]
        real = tf.math.count_nonzero(features["padding_mask"], dtype=tf.float32)
        slots = tf.cast(tf.size(features["padding_mask"]), tf.float32)
        features = {name: features[name] for name in self.model.input}
        labels, weights = as_heads(labels), as_heads(weights)
        totals = self._all_reduce({name: tf.reduce_sum(weight) for name, weight in weights.items()})
        variables = self.model.trainable_variables

        def micro_batch(i):
            features_i, labels_i, weights_i = tf.nest.map_structure(
                lambda x: self._slice(x, i), (features, labels, weights)
            )
            with tf.GradientTape() as tape:
                sums = head_sums(self.model(features_i, training=True), labels_i, weights_i)
                loss = tf.add_n(
                    [sums[name]["loss"] / tf.maximum(totals[name], 1e-9) for name in sorted(totals)]
                )
            gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients="zero")
            return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

        gradients, sums = micro_batch(0)
        if self.accumulation > 1:
            _, gradients, sums = tf.while_loop(
                lambda i, *_: i < self.accumulation,
                lambda i, *so_far: (i + 1, *tf.nest.map_structure(tf.add, so_far, micro_batch(i))),
                (tf.constant(1), gradients, sums),
                parallel_iterations=1,
            )
        gradients, sums = self._all_reduce((gradients, {**sums, "real": real, "slots": slots}))
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        self.optimizer.apply(gradients, variables)
        return {**sums, "gradient_norm": tf.cast(norm, tf.float32)}, place

    def _slice(self, x, i):
        if self.accumulation == 1:
            return x
        # Several workers' batches come without a static size. Not `x[i * rows : …]`: XLA takes no slice
        # whose size hangs on a tensor.
        rows = (x.shape[0] or tf.shape(x)[0]) // self.accumulation
        return tf.reshape(x, [self.accumulation, rows, *x.shape[1:]])[i]

    def _all_reduce(self, values):
        context = tf.distribute.get_replica_context()
        flat = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.nest.flatten(values))
        return tf.nest.pack_sequence_as(values, flat)


def as_heads(values) -> dict:
    """A model of one output has one head, named `""`."""
    return values if isinstance(values, dict) else {"": values}


def head_sums(outputs, labels, weights) -> dict[str, dict[str, tf.Tensor]]:
    """For each head Σ w · cross-entropy, Σ w over right answers, and Σ w, in float32.

    Args:
        outputs: logits `[…, classes]`, or a dict of them.
        labels: int tensors `[…]`, in the same structure.
        weights: float tensors `[…]`, in the same structure.

    Returns:
        Dict of head to dict of `loss`, `right` and `weight`, scalars.
    """
    outputs, labels, weights = as_heads(outputs), as_heads(labels), as_heads(weights)
    result = {}
    for name, logits in outputs.items():
        logits = tf.cast(logits, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[name], logits)
        right = tf.cast(tf.argmax(logits, -1, labels[name].dtype) == labels[name], tf.float32)
        result[name] = {
            "loss": tf.reduce_sum(losses * weights[name]),
            "right": tf.reduce_sum(right * weights[name]),
            "weight": tf.reduce_sum(weights[name]),
        }
    return result


def head_metrics(sums: dict) -> dict[str, float]:
    """Turns sums into means: `loss` and `accuracy`, with the head's name before them where it has one.

    Args:
        sums: See `head_sums`, as tensors or numbers.

    Returns:
        Dict of metric name to float.
    """
    metrics = {}
    for name, head in sums.items():
        prefix = f"{name}_" if name else ""
        weight = max(float(head["weight"]), 1e-9)
        metrics[f"{prefix}loss"] = float(head["loss"]) / weight
        metrics[f"{prefix}accuracy"] = float(head["right"]) / weight
    if "" not in sums:
        metrics["loss"] = sum(metrics[f"{name}_loss"] for name in sums)
    return metrics
