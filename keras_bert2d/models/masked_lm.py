"""`Bert2DMaskedLM`: pretraining by masked pieces, and next-sentence prediction beside it."""

import keras
import keras_hub
from keras import ops

from keras_bert2d.errors import InputError
from keras_bert2d.layers.initializers import bert_initializer
from keras_bert2d.layers.masked_lm_head import MaskedLMHead, gather_columns
from keras_bert2d.models.backbone import Bert2DBackbone, check_fits
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.task import Bert2DTask


@keras.saving.register_keras_serializable(package="keras_bert2d")
class NextSentenceHead(keras.layers.Layer):
    """Tells for each pair of a row whether its second text follows the first.

    Call arguments:
        hidden: float tensor `[row, columns, hidden_dim]`.
        pair_positions: int tensor `[row, pairs]`: the column of each pair's `[CLS]`.

    Returns:
        Logits, float tensor `[row, pairs, 2]`: follows, does not follow (as BERT numbers them).
    """

    def __init__(self, pooler, **kwargs) -> None:
        super().__init__(**kwargs)
        self.pooler = pooler

    def build(self, hidden_shape, pair_positions_shape) -> None:
        self.classifier = keras.layers.Dense(
            2, kernel_initializer=bert_initializer(), dtype=self.dtype_policy, name="classifier"
        )
        self.classifier.build((None, hidden_shape[-1]))
        self.built = True

    def call(self, hidden, pair_positions):
        logits = self.classifier(self.pooler(gather_columns(hidden, pair_positions)))
        return ops.reshape(logits, (-1, pair_positions.shape[1] or ops.shape(pair_positions)[1], 2))

    def compute_output_shape(self, hidden_shape, pair_positions_shape):
        return (*pair_positions_shape, 2)


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DMaskedLM(Bert2DTask, keras_hub.models.MaskedLM):
    """Predicts masked pieces; with `next_sentence=True` also whether a pair's texts follow each other.

    Args:
        backbone: `Bert2DBackbone`.
        preprocessor: `Bert2DMaskedLMPreprocessor`, or `None` where batches come ready made, as from
            `keras_bert2d.data.pretraining_dataset`.
        next_sentence: bool. Outputs, labels and weights are then dicts with `masked_lm` and
            `next_sentence`, and batches have `pair_positions`. Raw text is then pairs, with labels: 0
            where the second text follows the first, 1 where not.

    Call arguments:
        inputs: the backbone's dict with `mask_positions`, int `[row, places]`.

    Returns:
        Logits, float `[row, places, vocabulary]`.

    Raises:
        InputError: The preprocessor's id rules are not those of the backbone's tables.

    Example:

    >>> import numpy as np
    >>> backbone = Bert2DBackbone.of_size("tiny", vocabulary_size=50)
    >>> model = Bert2DMaskedLM(backbone)
    >>> batch = {name: np.ones((2, 8), "int32") for name in backbone.input}
    >>> tuple(model({**batch, "mask_positions": np.array([[3, 4], [1, 0]])}).shape)
    (2, 2, 50)
    """

    backbone_cls = Bert2DBackbone
    preprocessor_cls = Bert2DMaskedLMPreprocessor

    def __init__(self, backbone, preprocessor=None, next_sentence: bool = False, **kwargs) -> None:
        check_fits(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = MaskedLMHead(
            backbone.token_embedding,
            backbone.activation,
            backbone.layer_norm_epsilon,
            dtype=backbone.dtype_policy,
            name="masked_lm_head",
        )
        self.next_sentence_head = None
        if next_sentence:
            self.next_sentence_head = NextSentenceHead(
                backbone.pooler, dtype=backbone.dtype_policy, name="next_sentence_head"
            )

        # === Functional model ===
        inputs = {
            **backbone.input,
            "mask_positions": keras.Input((None,), dtype="int32", name="mask_positions"),
        }
        hidden = backbone(backbone.input)["sequence_output"]
        outputs = self.masked_lm_head(hidden, inputs["mask_positions"])
        if next_sentence:
            inputs["pair_positions"] = keras.Input((None,), dtype="int32", name="pair_positions")
            outputs = {
                "masked_lm": outputs,
                "next_sentence": self.next_sentence_head(hidden, inputs["pair_positions"]),
            }
        self.next_sentence = next_sentence
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def compile(self, optimizer="auto", loss="auto", *, weighted_metrics="auto", **kwargs) -> None:
        """Compiles with cross-entropy over the predictions (mean over those of weight 1) and accuracy."""
        heads = ("masked_lm", "next_sentence")

        def for_heads(make):
            return {head: make() for head in heads} if self.next_sentence else make()

        if loss == "auto":
            loss = for_heads(
                lambda: keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction="mean_with_sample_weight"
                )
            )
        if weighted_metrics == "auto":
            weighted_metrics = for_heads(lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")])
        super().compile(optimizer=optimizer, loss=loss, weighted_metrics=weighted_metrics, **kwargs)

    def preprocess_samples(self, x, y=None, sample_weight=None):
        if self.next_sentence and not isinstance(x, dict):
            return self.preprocessor.for_next_sentence(x, y, sample_weight)
        return super().preprocess_samples(x, y, sample_weight)

    def make_rows(self, step, x, y=None, sample_weight=None, *, scoring: bool = False):
        # The masks of a pass that nothing is learned from are the same each time, and not those of training.
        step = -1 - step if scoring else step
        if self.next_sentence:
            return self.preprocessor.for_next_sentence(x, y, sample_weight, step)
        return self.preprocessor.for_step(step, x, y, sample_weight)

    def idle_layers(self) -> list[keras.layers.Layer]:
        return [] if self.next_sentence else [self.backbone.pooler]

    def fill_masks(self, texts: list[str], top_k: int = 5) -> list[list[list[tuple[str, float]]]]:
        """Fills the `[MASK]`s of texts.

        Args:
            texts: list of strings. Every `[MASK]` in them is one piece to fill.
            top_k: int. Candidates for each.

        Returns:
            For each text and each of its `[MASK]`s the best pieces with their probabilities.

        Raises:
            InputError: The model has no preprocessor, or a text has no `[MASK]` inside its row.
        """
        if self.preprocessor is None:
            raise InputError("The model has no preprocessor to read texts with: pass `preprocessor=`.")
        features, counts = self.preprocessor.for_filling(texts)
        if self.next_sentence:
            features["pair_positions"] = ops.zeros((len(texts), 1), dtype="int32")
        logits = self(features)
        logits = ops.cast(logits["masked_lm"] if self.next_sentence else logits, "float32")
        values, ids = ops.top_k(ops.softmax(logits, axis=-1), top_k)
        values, ids = ops.convert_to_numpy(values), ops.convert_to_numpy(ids)
        piece = self.preprocessor.tokenizer.id_to_token
        return [
            [
                [(piece(int(i)), float(v)) for i, v in zip(ids[row, place], values[row, place], strict=True)]
                for place in range(count)
            ]
            for row, count in enumerate(counts)
        ]

    def get_config(self) -> dict:
        return {**super().get_config(), "next_sentence": self.next_sentence}
