"""Heads that look at a few columns of a row: gather first, project then."""

import keras
from keras import ops

from keras_bert2d.layers.initializers import bert_initializer


def gather_columns(hidden, positions):
    """Takes some columns of each row.

    Args:
        hidden: float tensor `[row, columns, features]`.
        positions: int tensor `[row, places]`.

    Returns:
        Float tensor `[row · places, features]`.
    """
    columns = ops.shape(hidden)[1]
    rows = ops.arange(ops.shape(positions)[0], dtype="int32")
    flat = ops.reshape(hidden, (-1, hidden.shape[-1]))
    places = ops.cast(positions, "int32") + (rows * columns)[:, None]
    return ops.take(flat, ops.reshape(places, (-1,)), axis=0)


@keras.saving.register_keras_serializable(package="keras_bert2d")
class MaskedLMHead(keras.layers.Layer):
    """Scores the vocabulary at the masked columns, with the token embedding as output weights.

    Devlin et al. 2019, the released code: transform, activation, normalisation, then the product with
    the token embedding's table and a bias. Only the columns asked for are projected.

    Args:
        token_embedding: The backbone's `keras.layers.Embedding`, whose table is shared.
        activation: string or callable of the transform.
        layer_norm_epsilon: float.

    Call arguments:
        hidden: float tensor `[row, columns, hidden_dim]`.
        mask_positions: int tensor `[row, places]`.

    Returns:
        Logits, float tensor `[row, places, vocabulary]`.
    """

    def __init__(self, token_embedding, activation="gelu", layer_norm_epsilon=1e-12, **kwargs) -> None:
        super().__init__(**kwargs)
        self.token_embedding = token_embedding
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, hidden_shape, mask_positions_shape) -> None:
        width = hidden_shape[-1]
        self.transform = keras.layers.Dense(
            width,
            activation=self.activation,
            kernel_initializer=bert_initializer(),
            dtype=self.dtype_policy,
            name="transform",
        )
        self.transform.build((None, width))
        self.norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
        )
        self.norm.build((None, width))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.token_embedding.input_dim,), initializer="zeros"
        )
        self.built = True

    def call(self, hidden, mask_positions):
        places = self.norm(self.transform(gather_columns(hidden, mask_positions)))
        table = ops.cast(self.token_embedding.embeddings, self.compute_dtype)
        logits = ops.matmul(places, ops.transpose(table)) + ops.cast(self.output_bias, self.compute_dtype)
        return ops.reshape(
            logits,
            (-1, mask_positions.shape[1] or ops.shape(mask_positions)[1], self.token_embedding.input_dim),
        )

    def compute_output_shape(self, hidden_shape, mask_positions_shape):
        return (*mask_positions_shape, self.token_embedding.input_dim)
