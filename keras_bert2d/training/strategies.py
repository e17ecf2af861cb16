"""Where a run computes: one device, several, several machines, a TPU."""

import json
import os

import tensorflow as tf

from keras_bert2d.choices import STRATEGIES, check_choice
from keras_bert2d.errors import InputError


def make_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Makes a distribution strategy.

    Args:
        name: string. `"one"`: one device; `"mirrored"`: all devices of this machine (the GPUs, else the
            logical CPUs); `"multiworker"`: the machines that `TF_CONFIG` names; `"tpu"`: the TPU that is
            found; `"auto"`: `multiworker` where `TF_CONFIG` has a cluster, else `mirrored` where there
            are several GPUs, else `one`.

    Returns:
        A `tf.distribute.Strategy`.

    Raises:
        InputError: No such strategy, a `TF_CONFIG` that cannot be read, or no TPU.
    """
    check_choice("strategy", name, STRATEGIES)
    if name == "auto":
        if _cluster():
            name = "multiworker"
        else:
            name = "mirrored" if len(tf.config.list_logical_devices("GPU")) > 1 else "one"
    if name == "one":
        gpus = tf.config.list_logical_devices("GPU")
        return tf.distribute.OneDeviceStrategy(gpus[0].name if gpus else "/cpu:0")
    if name == "mirrored":
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices(kind)]
        )
    if name == "multiworker":
        if not _cluster():
            raise InputError("`--strategy multiworker` needs TF_CONFIG with a cluster and a task.")
        return tf.distribute.MultiWorkerMirroredStrategy()
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"No TPU was found that TensorFlow can use ({str(error).splitlines()[0]})."
        ) from None


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or resolver is None:
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_id == 0 and "chief" not in resolver.cluster_spec().as_dict()
    )


def check_batch_size(strategy: tf.distribute.Strategy, batch_size: int, accumulation: int) -> None:
    """Refuses a batch that cannot be cut into equal micro-batches on equal replicas.

    Args:
        strategy: The strategy.
        batch_size: int. Rows of a step.
        accumulation: int. Micro-batches of a step.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * accumulation):
        raise InputError(
            f"The batch size must be a multiple of {replicas * accumulation}, replicas times micro-batches. "
            f"Received: batch_size={batch_size}"
        )


def distribute(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset, batch_size: int
) -> tf.distribute.DistributedDataset:
    """Deals the rows of global batches out to the replicas.

    Every worker runs the same input and takes its own rows of each batch, so that order and masks are
    those of a run on one device.

    Args:
        strategy: The strategy.
        dataset: Global batches of `batch_size` rows.
        batch_size: int. A multiple of the replicas, see `check_batch_size`.

    Returns:
        A distributed dataset of per-replica batches.
    """

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        share = batch_size // context.num_input_pipelines
        first = context.input_pipeline_id * share

        def take(*batch):
            return tf.nest.map_structure(lambda x: x[first : first + share], batch)

        mine = dataset if context.num_input_pipelines == 1 else dataset.map(take)
        per_replica = batch_size // strategy.num_replicas_in_sync
        return mine if per_replica == share else mine.rebatch(per_replica, drop_remainder=True)

    return strategy.distribute_datasets_from_function(of_worker)


def _cluster() -> dict:
    text = os.environ.get("TF_CONFIG")
    if not text:
        return {}
    try:
        return json.loads(text).get("cluster", {})
    except (json.JSONDecodeError, AttributeError) as error:
        raise InputError(f"TF_CONFIG is no JSON object ({error}). Received: {text[:80]!r}") from None
