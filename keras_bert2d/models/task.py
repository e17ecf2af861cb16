"""What our tasks have in common: `fit`, `evaluate`, `predict` on what Keras users pass, and saving."""

import contextlib
from collections.abc import Mapping

import keras
import numpy as np

from keras_bert2d.errors import InputError
from keras_bert2d.models.batches import (
    StepClock,
    as_rows,
    check_dataset_arguments,
    gather_batches,
    holds_features,
    is_dataset,
    is_in_memory,
    keep_inputs,
    map_batches,
    split_rows,
    weigh_classes,
)
from keras_bert2d.models.saved_dtype import KeepsDtype


class Bert2DTask(KeepsDtype):
    """Stands before `keras_hub.models.Task` among a task's bases.

    Text in memory or in a `tf.data.Dataset` goes through the preprocessor, dicts of features pass by it, and
    anything else is left to Keras. A task says how it makes rows of a batch: `make_rows`.
    """

    def make_rows(self, step, x, y=None, sample_weight=None, *, scoring: bool = False):
        """Makes features, labels and weights of a batch of text, in `tf.data`.

        Args:
            step: int64 scalar. The batches before this one, in training or in this pass.
            x: text, see the class.
            y: labels, or `None`.
            sample_weight: weights, or `None`.
            scoring: bool. Whether nothing is learned from the batch.
        """
        raise NotImplementedError

    def idle_layers(self) -> list[keras.layers.Layer]:
        """Layers of the backbone that the task's outputs do not depend on: they are not trained."""
        return []

    def class_weights(self, class_weight: Mapping) -> list[float]:
        """Returns the weight of each label id.

        Raises:
            InputError: The task has no classes.
        """
        raise InputError(
            f"`class_weight` is for classes of words, which {type(self).__name__} has none of: leave it out."
        )

    def preprocess_samples(self, x, y=None, sample_weight=None):
        if isinstance(x, dict):
            return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        return super().preprocess_samples(x, y, sample_weight)

    # === Training and evaluation ===

    def fit(
        self,
        x=None,
        y=None,
        batch_size: int | None = None,
        sample_weight=None,
        validation_data=None,
        validation_split: float | None = None,
        shuffle: bool = True,
        class_weight: Mapping | None = None,
        callbacks=None,
        steps_per_epoch: int | None = None,
        validation_batch_size: int | None = None,
        **kwargs,
    ) -> keras.callbacks.History:
        """Trains as `keras.Model.fit`.

        In memory, epochs of `steps_per_epoch` batches follow one another through the rows again and again.

        Raises:
            InputError: Labels, weights, a batch size or a share for validation beside a dataset; parts of
                different length; class weights for what is no class.
        """
        if not is_dataset(x) and not is_in_memory(x):
            if class_weight is not None:
                raise InputError("`class_weight` needs lists, arrays or a tf.data.Dataset as `x`.")
            return super().fit(
                x,
                y,
                batch_size,
                sample_weight,
                validation_data,
                validation_split,
                callbacks=callbacks,
                steps_per_epoch=steps_per_epoch,
                **kwargs,
            )
        by_class = None if class_weight is None else self.class_weights(class_weight)
        data = self._data(x, y, sample_weight)
        if validation_split and validation_data is None:
            check_dataset_arguments(validation_split if is_dataset(data) else None)
            data, validation_data = split_rows(data, validation_split)
        elif validation_data is not None and (is_dataset(validation_data) or is_in_memory(validation_data)):
            validation_data = self._data(*keras.utils.unpack_x_y_sample_weight(validation_data))
        if validation_data is not None and (is_dataset(validation_data) or is_in_memory(validation_data)):
            # A dataset has its own batches.
            size = None if is_dataset(validation_data) else validation_batch_size or batch_size
            validation_data = self._batches(validation_data, size, scoring=True)
        clock = StepClock()
        clock.set_model(self)
        seed = np.random.randint(2**31) if shuffle else None
        batches = self._batches(data, batch_size, clock=clock, seed=seed, steps_per_epoch=steps_per_epoch)
        if by_class is not None:
            batches = weigh_classes(batches, by_class)
        return super().fit(
            batches,
            validation_data=validation_data,
            shuffle=False,  # It is done, or the dataset's own matter.
            callbacks=_with(callbacks, clock),
            steps_per_epoch=steps_per_epoch,
            **kwargs,
        )

    def evaluate(self, x=None, y=None, batch_size: int | None = None, sample_weight=None, **kwargs):
        """Evaluates as `keras.Model.evaluate`."""
        if is_dataset(x) or is_in_memory(x):
            x = self._batches(self._data(x, y, sample_weight), batch_size, scoring=True)
            y = batch_size = sample_weight = None
        return super().evaluate(x, y, batch_size, sample_weight, **kwargs)

    def predict(self, x=None, batch_size: int | None = None, **kwargs):
        """Predicts as `keras.Model.predict`."""
        if is_dataset(x) or is_in_memory(x):
            x, batch_size = self._batches(self._data(x), batch_size, scoring=True), None
        return super().predict(x, batch_size=batch_size, **kwargs)

    def _data(self, x, y=None, sample_weight=None):
        """A dataset as it is, or what lies in memory as `as_rows` gives it, checked by the preprocessor."""
        if is_dataset(x):
            check_dataset_arguments(y, sample_weight)
            return x
        if self.preprocessor is None or isinstance(x, dict):
            parts = (x, y, sample_weight)
            return as_rows(parts[: 3 if sample_weight is not None else 2 if y is not None else 1])
        return as_rows(self.preprocessor.in_memory(x, y, sample_weight))

    def _batches(self, data, batch_size=None, *, scoring=False, clock=None, seed=None, steps_per_epoch=None):
        """A dataset of features, labels and weights."""
        clock = clock or StepClock()
        if is_dataset(data):
            check_dataset_arguments(batch_size)
        else:
            data = gather_batches(data, batch_size, clock, seed, steps_per_epoch)
        if self.preprocessor is None or holds_features(data):
            return keep_inputs(data, self.input)

        def make(step, *parts):
            return self.make_rows(step, *parts, scoring=scoring)

        return map_batches(data, make, clock)

    # === What is trained ===

    @property
    def trainable_variables(self) -> list:
        return self._in_use(super().trainable_variables)

    @property
    def non_trainable_variables(self) -> list:
        return _others(self.variables, self.trainable_variables)

    @property
    def trainable_weights(self) -> list:
        return self._in_use(super().trainable_weights)

    @property
    def non_trainable_weights(self) -> list:
        return _others(self.weights, self.trainable_weights)

    def _in_use(self, variables: list) -> list:
        idle = [] if self.backbone is None else self.idle_layers()
        return _others(variables, [variable for layer in idle for variable in layer.variables])

    # === Saving ===

    def get_compile_config(self) -> dict:
        config = super().get_compile_config()
        if not config:
            return config
        # The optimizer has state for what is not frozen, once it has made a step.
        trainable = [variable.trainable for variable in self.variables]
        return {**config, "trainable": trainable, "optimizer_built": self.optimizer.built}

    def compile_from_config(self, config: dict) -> None:
        """Compiles as the saved model was, with the optimizer's variables ready to be loaded."""
        config = keras.saving.deserialize_keras_object(config)
        for variable, trainable in zip(self.variables, config.pop("trainable"), strict=True):
            variable.trainable = trainable
        optimizer_built = config.pop("optimizer_built")
        self.compile(**config)
        if optimizer_built:
            self.optimizer.build(self.trainable_variables)

    def save_task_weights(self, filepath) -> None:
        """Saves the weights that are not the backbone's, for a preset: without the optimizer's state."""
        with self._without_optimizer():
            super().save_task_weights(filepath)

    def load_task_weights(self, filepath) -> None:
        """Loads what `save_task_weights` saved."""
        with self._without_optimizer():
            super().load_task_weights(filepath)

    @contextlib.contextmanager
    def _without_optimizer(self):
        optimizer, self.optimizer = self.optimizer, None
        try:
            yield
        finally:
            self.optimizer = optimizer


def _with(callbacks, clock: StepClock):
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.callbacks.append(clock)
        return callbacks
    return [*(keras.tree.flatten(callbacks) if callbacks else ()), clock]


def _others(variables: list, these: list) -> list:
    """The variables that are not among these; equal ones are told apart, as `in` would not."""
    ids = {id(variable) for variable in these}
    return [variable for variable in variables if id(variable) not in ids]
