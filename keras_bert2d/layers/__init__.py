"""What models are built of. `keras.ops` only: every Keras backend runs it."""

from keras_bert2d.layers.encoder_block import EncoderBlock, TextAttentionBias
from keras_bert2d.layers.masked_lm_head import MaskedLMHead
from keras_bert2d.layers.position_embedding import LearnedPositionEmbedding, TwoDPositionEmbedding

__all__ = [
    "EncoderBlock",
    "LearnedPositionEmbedding",
    "MaskedLMHead",
    "TextAttentionBias",
    "TwoDPositionEmbedding",
]
