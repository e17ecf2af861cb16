"""`Bert2DBackbone`: the encoder."""

import keras
import keras_hub

from keras_bert2d.choices import POSITION_SCHEMES, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.layers import (
    EncoderBlock,
    LearnedPositionEmbedding,
    TextAttentionBias,
    TwoDPositionEmbedding,
)
from keras_bert2d.layers.initializers import bert_initializer
from keras_bert2d.models.saved_dtype import KeepsDtype
from keras_bert2d.models.sizes import size_arguments


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DBackbone(KeepsDtype, keras_hub.models.Backbone):
    """A BERT encoder with two-dimensional positions.

    Token, segment and position embeddings are summed and normalised, then go through a stack of
    `EncoderBlock`s (Devlin et al. 2019, section 3).

    Args:
        vocabulary_size: int. Rows of the token embedding.
        num_layers: int. Encoder blocks.
        num_heads: int. Attention heads of a block; must divide `hidden_dim`.
        hidden_dim: int. Features of a column.
        intermediate_dim: int. Width of the feed-forward networks.
        dropout: float. Rate behind the embeddings and inside the blocks.
        num_segments: int. Rows of the segment embedding.
        max_words: int. Words of one numbering; for `"learned"` positions, pieces of one text.
        max_intermediate_subwords: int. Places between a word's first piece and its last.
        position_scheme: string. `"two_d"`, or `"learned"` for BERT's one-dimensional table.
        activation: string or callable; `"gelu"` is the exact one.
        layer_norm_epsilon: float.
        norm_order: string. `"post"` as BERT, or `"pre"`.
        dtype: dtype or policy of all layers, for example `"mixed_bfloat16"`.

    Call arguments:
        inputs: dict of int tensors `[row, columns]`: `token_ids`, `segment_ids`, `padding_mask`,
            `word_position_ids`, `subword_position_ids`.

    Returns:
        Dict of `sequence_output`, float `[row, columns, hidden_dim]`, and `pooled_output`, float
        `[row, hidden_dim]`, made of column 0.

    Raises:
        InputError: An impossible size, by name.

    Example:

    >>> backbone = Bert2DBackbone.of_size("tiny", vocabulary_size=100)
    >>> backbone.count_params()
    492544
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        num_segments: int = 2,
        max_words: int = 512,
        max_intermediate_subwords: int = 3,
        position_scheme: str = "two_d",
        activation="gelu",
        layer_norm_epsilon: float = 1e-12,
        norm_order: str = "post",
        dtype=None,
        **kwargs,
    ) -> None:
        for name, value in (
            ("vocabulary_size", vocabulary_size),
            ("num_layers", num_layers),
            ("num_heads", num_heads),
            ("hidden_dim", hidden_dim),
            ("intermediate_dim", intermediate_dim),
            ("num_segments", num_segments),
            ("max_words", max_words),
            ("max_intermediate_subwords", max_intermediate_subwords),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"`{name}` must be an integer of at least 1. Received: {name}={value!r}")
        check_choice("position_scheme", position_scheme, POSITION_SCHEMES)
        if not 0 <= dropout < 1:
            raise InputError(f"`dropout` must lie in [0, 1). Received: dropout={dropout!r}")

        # === Layers ===
        self.token_embedding = keras.layers.Embedding(
            vocabulary_size,
            hidden_dim,
            embeddings_initializer=bert_initializer(),
            dtype=dtype,
            name="token_embedding",
        )
        self.segment_embedding = keras.layers.Embedding(
            num_segments,
            hidden_dim,
            embeddings_initializer=bert_initializer(),
            dtype=dtype,
            name="segment_embedding",
        )
        if position_scheme == "two_d":
            self.position_embedding = TwoDPositionEmbedding(
                max_words, max_intermediate_subwords, hidden_dim, dtype=dtype, name="position_embedding"
            )
        else:
            self.position_embedding = LearnedPositionEmbedding(
                max_words, hidden_dim, dtype=dtype, name="position_embedding"
            )

        def norm(name: str) -> keras.layers.LayerNormalization:
            return keras.layers.LayerNormalization(epsilon=layer_norm_epsilon, dtype=dtype, name=name)

        self.embedding_norm = norm("embedding_norm")
        self.embedding_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="embedding_dropout")
        self.attention_bias = TextAttentionBias(dtype=dtype, name="attention_bias")
        self.transformer_layers = [
            EncoderBlock(
                num_heads,
                intermediate_dim,
                dropout,
                activation,
                layer_norm_epsilon,
                norm_order,
                dtype=dtype,
                name=f"encoder_block_{i}",
            )
            for i in range(num_layers)
        ]
        self.final_norm = norm("final_norm") if norm_order == "pre" else None
        self.pooler = keras.layers.Dense(
            hidden_dim, activation="tanh", kernel_initializer=bert_initializer(), dtype=dtype, name="pooler"
        )

        # === Functional model ===
        inputs = {
            name: keras.Input(shape=(None,), dtype="int32", name=name)
            for name in (
                "token_ids",
                "segment_ids",
                "padding_mask",
                "word_position_ids",
                "subword_position_ids",
            )
        }
        if position_scheme == "two_d":
            positions = self.position_embedding(inputs["word_position_ids"], inputs["subword_position_ids"])
        else:
            positions = self.position_embedding(inputs["padding_mask"])
        hidden = keras.layers.Add(dtype=dtype, name="embeddings")(
            [
                self.token_embedding(inputs["token_ids"]),
                self.segment_embedding(inputs["segment_ids"]),
                positions,
            ]
        )
        hidden = self.embedding_dropout(self.embedding_norm(hidden))
        bias = self.attention_bias(inputs["padding_mask"])
        for block in self.transformer_layers:
            hidden = block(hidden, bias)
        if self.final_norm is not None:
            hidden = self.final_norm(hidden)
        super().__init__(
            inputs=inputs,
            outputs={"sequence_output": hidden, "pooled_output": self.pooler(hidden[:, 0, :])},
            dtype=dtype,
            **kwargs,
        )

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.num_segments = num_segments
        self.max_words = max_words
        self.max_intermediate_subwords = max_intermediate_subwords
        self.position_scheme = position_scheme
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm_order = norm_order

    @classmethod
    def of_size(cls, size: str, vocabulary_size: int, **kwargs) -> "Bert2DBackbone":
        """Makes a backbone of a named size: `tiny`, `mini`, `small`, `medium`, `base` or `large`.

        Args:
            size: string. See `keras_bert2d.models.sizes`.
            vocabulary_size: int.
            **kwargs: Further arguments of the class; they win over those of the size.

        Raises:
            InputError: There is no such size.
        """
        return cls(vocabulary_size=vocabulary_size, **{**size_arguments(size), **kwargs})

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "num_segments": self.num_segments,
            "max_words": self.max_words,
            "max_intermediate_subwords": self.max_intermediate_subwords,
            "position_scheme": self.position_scheme,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "norm_order": self.norm_order,
        }


def check_fits(backbone: Bert2DBackbone, preprocessor) -> None:
    """Refuses a preprocessor that makes ids for tables of other sizes.

    Args:
        backbone: `Bert2DBackbone`.
        preprocessor: a preprocessor with a tokenizer, or `None`, which fits all.

    Raises:
        InputError: Names the size and both values.
    """
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # A tokenizer without a vocabulary is about to be loaded from a preset.
    if tokenizer is None or tokenizer.vocabulary is None:
        return
    rules = tokenizer.id_rules
    pairs = [("vocabulary_size", tokenizer.vocabulary_size()), ("max_words", rules.max_words)]
    if backbone.position_scheme == "two_d":
        pairs.append(("max_intermediate_subwords", rules.max_intermediate_subwords))
    for name, wanted in pairs:
        if getattr(backbone, name) != wanted:
            raise InputError(
                f"The backbone's tables do not fit the tokenizer: `{name}` is {getattr(backbone, name)} in "
                f"the backbone and {wanted} in the tokenizer."
            )
    # The one-dimensional table counts pieces, not words: rows are not cut to it.
    length = preprocessor.sequence_length
    if backbone.position_scheme == "learned" and length > backbone.max_words:
        raise InputError(
            f"Rows of `sequence_length` pieces need as many positions. Received: sequence_length={length}, "
            f"max_words={backbone.max_words}"
        )
