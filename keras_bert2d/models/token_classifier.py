"""`Bert2DTokenClassifier`: a label for each word, as in part-of-speech tagging."""

import itertools
from collections.abc import Sequence

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_bert2d.errors import InputError
from keras_bert2d.layers.initializers import bert_initializer
from keras_bert2d.models.backbone import Bert2DBackbone, check_fits
from keras_bert2d.models.batches import holds_features
from keras_bert2d.models.class_weights import weights_by_id
from keras_bert2d.models.task import Bert2DTask
from keras_bert2d.models.token_classifier_preprocessor import Bert2DTokenClassifierPreprocessor
from keras_bert2d.models.word_labels import TaggedWord, label_words

__all__ = ["Bert2DTokenClassifier", "TaggedWord", "label_words"]


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DTokenClassifier(Bert2DTask, keras_hub.models.Task):
    """Labels words: parts of speech, names, anything that is said of a word.

    A dense layer on the backbone's columns (Devlin et al. 2019, section 5.3); a word's label is read at its
    first piece. With a preprocessor, `fit`, `evaluate` and `predict` take words (a list of lists of strings,
    a ragged tensor `[row, (words)]`), sentences (a list of strings, a tensor `[row]`) or a dataset of batches
    of either, with labels as strings or ids; dicts of features pass through. Without one, they take arrays.

    Args:
        backbone: `Bert2DBackbone`.
        num_classes: int. Labels; by default those of the preprocessor.
        preprocessor: `Bert2DTokenClassifierPreprocessor`, or `None`.
        dropout: float. Rate between the backbone and the dense layer.

    Call arguments:
        inputs: the backbone's dict.

    Returns:
        Logits, float `[row, columns, num_classes]`.

    Raises:
        InputError: `num_classes` is missing or not the number of the preprocessor's labels, or the
            preprocessor's id rules are not those of the backbone's tables.

    Example:

    >>> from keras_bert2d.text.tokenizer import Bert2DTokenizer
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ev", "##ler", "güzel"]
    >>> preprocessor = Bert2DTokenClassifierPreprocessor(
    ...     Bert2DTokenizer(pieces), labels=["ADJ", "NOUN"], sequence_length=8
    ... )
    >>> backbone = Bert2DBackbone.of_size("tiny", vocabulary_size=len(pieces))
    >>> model = Bert2DTokenClassifier(backbone, preprocessor=preprocessor)
    >>> history = model.fit([["güzel", "evler"]], [["ADJ", "NOUN"]], verbose=0)
    >>> len(model.predict([["güzel", "evler"]], verbose=0)[0])
    2
    >>> model.predict(["güzel evler"], verbose=0)[0][1]
    TaggedWord(word='evler', label=..., start=6, end=11)
    """

    backbone_cls = Bert2DBackbone
    preprocessor_cls = Bert2DTokenClassifierPreprocessor

    def __init__(
        self,
        backbone: Bert2DBackbone,
        num_classes: int | None = None,
        preprocessor: Bert2DTokenClassifierPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ) -> None:
        check_fits(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.num_classes = _check_classes(num_classes, preprocessor)
        self.dropout = dropout
        dtype = backbone.dtype_policy
        self.output_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="output_dropout")
        self.output_dense = keras.layers.Dense(
            self.num_classes, kernel_initializer=bert_initializer(), dtype=dtype, name="logits"
        )

        # === Functional model ===
        inputs = backbone.input
        hidden = self.output_dropout(backbone(inputs)["sequence_output"])
        outputs = self.output_dense(hidden)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self._make_predict_ids()

    def compile(self, optimizer="auto", loss="auto", *, weighted_metrics="auto", **kwargs) -> None:
        """Compiles with cross-entropy (mean over weights) and the accuracy of words."""
        if optimizer == "auto":
            optimizer = keras.optimizers.Adam(5e-5)
        if loss == "auto":
            loss = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            )
        if weighted_metrics == "auto":
            weighted_metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        super().compile(optimizer=optimizer, loss=loss, weighted_metrics=weighted_metrics, **kwargs)
        self._make_predict_ids()

    def _make_predict_ids(self) -> None:
        """Makes what `predict` calls, anew where layers have changed: quantised ones, or LoRA."""
        made_of = tuple(f"{variable.path} {variable.dtype}" for variable in self.variables)
        if made_of == getattr(self, "_predict_ids_of", None):
            return  # To compile again for training need not trace `predict` again.
        self._predict_ids_of = made_of
        # It keeps one label a column, not all logits. Only the method of this second model is an
        # attribute: the model itself would be saved with the task's weights.
        self._predict_ids = keras.Model(self.input, ops.argmax(self.output, axis=-1)).predict

    def make_rows(self, step, x, y=None, sample_weight=None, *, scoring: bool = False):
        make = self.preprocessor.for_scoring if scoring else self.preprocessor.call
        return make(x, y, sample_weight)

    def idle_layers(self) -> list[keras.layers.Layer]:
        return [self.backbone.pooler]

    def class_weights(self, class_weight) -> list[float]:
        return weights_by_id(class_weight, getattr(self.preprocessor, "labels", None), self.num_classes)

    def fit(self, *args, class_weight=None, **kwargs) -> keras.callbacks.History:
        """Trains as `keras.Model.fit`; validation counts each word once, see `evaluate`.

        Args:
            *args: see the class and `keras.Model.fit`. In lists, words without a label have `None`.
            class_weight: dict of label, or label id, to float: how much the words of a label count; 1 where
                it is not named. It multiplies `sample_weight`.
            **kwargs: see `keras.Model.fit`.
        """
        return super().fit(*args, class_weight=class_weight, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """Evaluates as `keras.Model.evaluate`, each word counted once: at its first piece.

        Words that a row has no room for, and those without a label, are not counted.
        """
        return super().evaluate(x, y, batch_size, sample_weight, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """Evaluates one batch, each word counted once, see `evaluate`."""
        if self.preprocessor is not None and not isinstance(x, dict):
            data = self.preprocessor.for_scoring(x, y, sample_weight)
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        return super().test_on_batch(x, y, sample_weight, **kwargs)

    def predict(self, x=None, batch_size: int | None = None, steps: int | None = None, **kwargs):
        """Labels words.

        Args:
            x: words or sentences, see the class.
            batch_size: int. Rows of a batch, 32 by default.
            steps: int. Batches to read, or `None` for all.
            **kwargs: see `keras.Model.predict`.

        Returns:
            For words, a list for each row with a label string for each word; for sentences, a list for each
            with `TaggedWord`s. Words that the row has no room for have `None`. For features, logits.
        """
        if self.preprocessor is None or holds_features(x):
            return super().predict(x, batch_size=batch_size, steps=steps, **kwargs)
        batches = self.preprocessor.text_batches(x, batch_size, steps)
        if not batches:
            return []
        places = []

        def features():
            for texts in batches:
                rows, place = self.preprocessor.read(texts)
                places.append(place)
                yield (rows,)

        ids = self._predict_ids(features(), steps=len(batches), **kwargs)
        by_batch = np.split(ids, np.cumsum([len(place.given) for place in places])[:-1])
        labelled = map(label_words, places, by_batch, itertools.repeat(self.preprocessor.labels))
        return list(itertools.chain.from_iterable(labelled))

    @classmethod
    def from_preset(
        cls,
        preset,
        load_weights: bool = True,
        labels: Sequence[str] | None = None,
        sequence_length: int | None = None,
        label_pieces: str | None = None,
        **kwargs,
    ) -> "Bert2DTokenClassifier":
        """Loads a token classifier, or starts one on the encoder of another model's preset.

        Args:
            preset: string or path. See `keras_hub.models.Task.from_preset`.
            load_weights: bool. Whether to load weights, or to start from random ones.
            labels: list of strings, needed for a preset of another task. They start the dense layer anew.
            sequence_length: int. In place of the saved one, see the preprocessor.
            label_pieces: string. In place of the saved one, see the preprocessor.
            **kwargs: Further arguments of the class, and `dtype`.

        Raises:
            InputError: The preset has no labels and none are given, or a preprocessor is given
                beside arguments for one.

        Example:

        >>> import tempfile
        >>> from keras_bert2d.models.masked_lm import Bert2DMaskedLM, Bert2DMaskedLMPreprocessor
        >>> from keras_bert2d.text.tokenizer import Bert2DTokenizer
        >>> tokenizer = Bert2DTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ev"])
        >>> backbone = Bert2DBackbone.of_size("tiny", vocabulary_size=6)
        >>> folder = tempfile.mkdtemp()
        >>> Bert2DMaskedLM(backbone, Bert2DMaskedLMPreprocessor(tokenizer)).save_to_preset(folder)
        >>> Bert2DTokenClassifier.from_preset(folder, labels=["NOUN", "VERB"]).num_classes
        2
        """
        preset = str(preset)
        given = dict(labels=labels, sequence_length=sequence_length, label_pieces=label_pieces)
        given = {name: value for name, value in given.items() if value is not None}
        if given and "preprocessor" in kwargs:
            raise InputError(f"Pass either `preprocessor` or {', '.join(given)}. Received: both")
        if given:
            kwargs["preprocessor"] = cls.preprocessor_cls.from_preset(preset, **given)
        if labels is not None:
            # KerasHub leaves saved task weights out where the number of classes is given.
            kwargs.setdefault("num_classes", len(labels))
        return super().from_preset(preset, load_weights, **kwargs)

    def get_config(self) -> dict:
        return {**super().get_config(), "num_classes": self.num_classes, "dropout": self.dropout}


def _check_classes(num_classes: int | None, preprocessor) -> int:
    labels = getattr(preprocessor, "labels", None)
    if num_classes is None and labels is not None:
        return len(labels)
    if not isinstance(num_classes, int) or isinstance(num_classes, bool) or num_classes < 1:
        raise InputError(
            "`num_classes` must be an integer of at least 1, or left out where a preprocessor has "
            f"the labels. Received: num_classes={num_classes!r}"
        )
    if labels is not None and num_classes != len(labels):
        raise InputError(
            f"`num_classes` must be the number of the preprocessor's labels, {len(labels)}. "
            f"Received: num_classes={num_classes}"
        )
    return num_classes
