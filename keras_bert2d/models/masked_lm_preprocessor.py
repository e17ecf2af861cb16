"""Raw text to masked rows, for `Bert2DMaskedLM` in a notebook."""

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.text.inputs import as_tensor
from keras_bert2d.text.masking import MaskRules, mask_rows
from keras_bert2d.text.rows import RowRules, pair_rows, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DMaskedLMPreprocessor(keras_hub.models.Preprocessor):
    """Turns texts into masked rows, one text or pair a row, anew each time they are seen.

    For pretraining on much text, `keras_bert2d.pretraining_dataset` packs many texts into a row and is
    the faster way.

    Args:
        tokenizer: `Bert2DTokenizer`.
        sequence_length: int. Columns of a row.
        mask_rate: float. Share of the pieces to mask.
        max_predictions_per_row: int or `None`: the budget of a full row.
        masking: string. `"word"` or `"token"`.
        seed: int or `None`. Fixes the masks of a pass.

    Call arguments:
        x: string tensor `[row]`, or a tuple of two for pairs: `preprocessor(x=(first, second))`.

    Returns:
        `(features, labels, weights)`, see `keras_bert2d.text.masking.mask_rows`.

    Raises:
        InputError: A setting is impossible, or `x` is not of this kind.
    """

    backbone_cls = Bert2DBackbone
    tokenizer_cls = Bert2DTokenizer

    def __init__(
        self,
        tokenizer: Bert2DTokenizer,
        sequence_length: int = 128,
        mask_rate: float = 0.15,
        max_predictions_per_row: int | None = None,
        masking: str = "word",
        seed: int | None = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.mask_rate = mask_rate
        self.max_predictions_per_row = max_predictions_per_row
        self.masking = masking
        self.seed = seed
        # A generator with a state: where Keras's or TensorFlow's global seed is set, `tf.random.uniform` in a
        # dataset draws the same in every epoch.
        with tf.device("cpu"):
            self._first = np.random.randint(2**31) if seed is None else seed
            self._steps = tf.random.Generator.from_seed(self._first, alg="philox")
        # A tokenizer without a vocabulary is about to be loaded from a preset.
        if tokenizer.vocabulary is not None:
            self._rules()

    def build(self, input_shape) -> None:
        self.built = True

    def call(self, x, y=None, sample_weight=None):
        with tf.device("cpu"):
            step = self._steps.uniform([], maxval=tf.int64.max, dtype=tf.int64)
        return self.for_step(step, x, y, sample_weight)

    def for_step(self, step, x, y=None, sample_weight=None):
        """As a call, with masks that hang on `seed`, the step and the row alone.

        Args:
            step: int64 scalar.
            x, y, sample_weight: as in a call.
        """
        if y is not None or sample_weight is not None:
            raise InputError(
                "Masked pieces are their own labels: pass texts alone, pairs as x=(first, second). "
                f"Received: y={y!r}, sample_weight={sample_weight!r}"
            )
        with tf.device("cpu"):
            rules, masks = self._rules()
            if isinstance(x, tuple):
                rows = pair_rows(*(self._tokenize(text) for text in x), rules)
            else:
                rows = single_rows(self._tokenize(x), rules)
            return mask_rows(rows, masks, self._first, step)

    def in_memory(self, x, y=None, sample_weight=None) -> tuple:
        """Reads what lies in memory, where errors can be told well.

        Args:
            x: list of strings or string tensor `[row]`, or a tuple of two for pairs.
            y: list of ints `[row]`, for next-sentence prediction, or `None`.
            sample_weight: list of floats `[row]`, or `None`.

        Returns:
            Tuple of those that are not `None`, as tensors.
        """
        x = tuple(map(_as_texts, x)) if isinstance(x, tuple) else _as_texts(x)
        given = [("y", y, tf.int32), ("sample_weight", sample_weight, tf.float32)]
        return x, *(as_tensor(value, name, dtype) for name, value, dtype in given if value is not None)

    def for_next_sentence(self, x, y=None, sample_weight=None, step=None):
        """As a call on pairs, for a model with `next_sentence=True`.

        Args:
            x: tuple of two string tensors `[row]`.
            y: int tensor `[row]`: 0 where the second text follows the first, 1 where not. `None` where
                nothing is learned from them.
            sample_weight: float tensor `[row]`, weights of `y`, or `None` for 1.
            step: int64 scalar, see `for_step`, or `None` for masks drawn anew.

        Returns:
            `(features, labels, weights)`, with `pair_positions` among the features; with `y`, labels and
            weights are dicts of `masked_lm` and `next_sentence`.
        """
        if not isinstance(x, tuple):
            raise InputError("Next-sentence prediction takes pairs: pass x=(first, second).")
        features, labels, weights = self(x=x) if step is None else self.for_step(step, x)
        with tf.device("cpu"):
            features["pair_positions"] = tf.zeros_like(features["token_ids"][:, :1])
            if y is None:
                return features, labels, weights
            y = tf.reshape(tf.cast(y, tf.int32), [-1, 1])
            if sample_weight is None:
                sample_weight = tf.ones_like(y)
            sample_weight = tf.reshape(tf.cast(sample_weight, tf.float32), [-1, 1])
            return (
                features,
                {"masked_lm": labels, "next_sentence": y},
                {"masked_lm": weights, "next_sentence": sample_weight},
            )

    def _tokenize(self, texts) -> tf.RaggedTensor:
        return self.tokenizer.tokenize(_as_texts(texts))

    def for_filling(self, texts: list[str]) -> tuple[dict[str, tf.Tensor], list[int]]:
        """Rows of texts that hold `[MASK]`, with the columns of those.

        Args:
            texts: list of strings.

        Returns:
            The features of `Bert2DMaskedLM` and the number of `[MASK]`s of each text.

        Raises:
            InputError: A text has no `[MASK]`, or has it beyond the row's end.
        """
        reader = Bert2DTokenizer.from_config(
            {**self.tokenizer.get_config(), "special_tokens_in_strings": True}
        )
        reader.set_vocabulary(self.tokenizer.get_vocabulary())
        with tf.device("cpu"):
            rows = single_rows(reader.tokenize(texts), RowRules.of(reader, self.sequence_length))
            masked = rows["token_ids"] == reader.mask_token_id
            counts = tf.math.count_nonzero(masked, 1).numpy().tolist()
            if not all(counts):
                text = texts[counts.index(0)]
                raise InputError(
                    f"A text to fill needs a [MASK] among its first {self.sequence_length} pieces. "
                    f"Received: {text[:80]!r}"
                )
            positions = tf.RaggedTensor.from_row_lengths(tf.where(masked)[:, 1], counts)
            return {**rows, "mask_positions": tf.cast(positions.to_tensor(), tf.int32)}, counts

    def _rules(self) -> tuple[RowRules, MaskRules]:
        masks = MaskRules.of(
            self.tokenizer,
            self.sequence_length,
            self.mask_rate,
            self.masking,
            self.max_predictions_per_row,
        )
        return RowRules.of(self.tokenizer, self.sequence_length), masks

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "mask_rate": self.mask_rate,
            "max_predictions_per_row": self.max_predictions_per_row,
            "masking": self.masking,
            "seed": self.seed,
        }


def _as_texts(texts) -> tf.Tensor:
    if not isinstance(texts, (str, bytes)):
        texts = as_tensor(texts, "x", tf.string)
    if getattr(texts, "dtype", None) != tf.string or texts.shape.rank != 1:
        received = f"{texts!r}" if isinstance(texts, (str, bytes)) else f"x of shape {texts.shape}"
        raise InputError(f"`x` must hold strings [row], or a tuple of two such. Received: {received}")
    return texts
