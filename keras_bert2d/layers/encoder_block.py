"""One layer of the encoder, and the attention bias that keeps packed texts apart."""

import keras
from keras import ops

from keras_bert2d.choices import NORM_ORDERS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.layers.initializers import bert_initializer


@keras.saving.register_keras_serializable(package="keras_bert2d")
class TextAttentionBias(keras.layers.Layer):
    """Attention bias from the numbers of packed texts: 0 inside a text, far below elsewhere.

    Call arguments:
        padding_mask: int tensor `[row, columns]`: the number of the packed text, 0 at padding. Padding
            attends to padding, so no row of the attention is empty.

    Returns:
        Float tensor `[row, 1, columns, columns]`.
    """

    def call(self, padding_mask):
        same = ops.equal(padding_mask[:, :, None], padding_mask[:, None, :])
        # exp(−10⁴) is 0 in every float dtype, and −10⁴ itself is finite in all of them.
        return (1.0 - ops.cast(same, self.compute_dtype))[:, None] * -1e4

    def compute_output_shape(self, padding_mask_shape):
        return (padding_mask_shape[0], 1, padding_mask_shape[1], padding_mask_shape[1])


@keras.saving.register_keras_serializable(package="keras_bert2d")
class EncoderBlock(keras.layers.Layer):
    """Self-attention and feed-forward network with residuals (Vaswani et al. 2017, section 3).

    All products over features are plain two-dimensional matrix products on `[row · columns, features]`,
    which is what CPU and TPU libraries run fastest.

    Args:
        num_heads: int. Attention heads; must divide the hidden size.
        intermediate_dim: int. Width of the feed-forward network.
        dropout: float. Rate at the attention weights and behind both halves.
        activation: string or callable of the feed-forward network; `"gelu"` is the exact one.
        layer_norm_epsilon: float.
        norm_order: string. `"post"`: normalisation behind each residual, as BERT; `"pre"`: before each
            half (Xiong et al. 2020).

    Call arguments:
        hidden: float tensor `[row, columns, hidden_dim]`.
        attention_bias: float tensor `[row, 1, columns, columns]`, see `TextAttentionBias`.

    Returns:
        Float tensor of the shape of `hidden`.

    Example:

    >>> block = EncoderBlock(num_heads=2, intermediate_dim=16)
    >>> bias = TextAttentionBias()(ops.array([[1, 1, 2]]))
    >>> tuple(block(ops.ones((1, 3, 8)), bias).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        dropout: float = 0.0,
        activation="gelu",
        layer_norm_epsilon: float = 1e-12,
        norm_order: str = "post",
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm_order = check_choice("norm_order", norm_order, NORM_ORDERS)

    def build(self, hidden_shape, attention_bias_shape) -> None:
        width = hidden_shape[-1]
        if width % self.num_heads:
            raise InputError(
                f"`num_heads` must divide the hidden size. Received: num_heads={self.num_heads}, "
                f"hidden_dim={width}"
            )

        def dense(units: int, inputs: int, name: str, activation=None) -> keras.layers.Dense:
            layer = keras.layers.Dense(
                units,
                activation=activation,
                kernel_initializer=bert_initializer(),
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, inputs))
            return layer

        def norm(name: str) -> keras.layers.LayerNormalization:
            layer = keras.layers.LayerNormalization(
                epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
            )
            layer.build((None, width))
            return layer

        # The names are those that Keras's LoRA looks for.
        self.query = dense(width, width, "query")
        self.key = dense(width, width, "key")
        self.value = dense(width, width, "value")
        self.attention_output = dense(width, width, "attention_output")
        self.attention_norm = norm("attention_norm")
        self.intermediate = dense(self.intermediate_dim, width, "intermediate", self.activation)
        self.output_dense = dense(width, self.intermediate_dim, "output")
        self.output_norm = norm("output_norm")
        self.attention_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.hidden_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.built = True

    def call(self, hidden, attention_bias, training=None):
        shape = ops.shape(hidden)
        flat = ops.reshape(hidden, (-1, hidden.shape[-1]))
        if self.norm_order == "post":
            attended = self._attend(flat, attention_bias, shape, training)
            flat = self.attention_norm(flat + attended)
            flat = self.output_norm(flat + self._feed_forward(flat, training))
        else:
            flat = flat + self._attend(self.attention_norm(flat), attention_bias, shape, training)
            flat = flat + self._feed_forward(self.output_norm(flat), training)
        return ops.reshape(flat, shape)

    def _attend(self, flat, attention_bias, shape, training):
        width = flat.shape[-1]
        size = width // self.num_heads

        def heads(x):
            return ops.transpose(ops.reshape(x, (-1, shape[1], self.num_heads, size)), (0, 2, 1, 3))

        query = heads(self.query(flat) * (size**-0.5))
        key, value = heads(self.key(flat)), heads(self.value(flat))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) + attention_bias
        weights = self.attention_dropout(ops.softmax(scores, axis=-1), training=training)
        joined = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return self.hidden_dropout(self.attention_output(ops.reshape(joined, (-1, width))), training=training)

    def _feed_forward(self, flat, training):
        return self.hidden_dropout(self.output_dense(self.intermediate(flat)), training=training)

    def compute_output_shape(self, hidden_shape, attention_bias_shape):
        return hidden_shape

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "norm_order": self.norm_order,
        }
