"""How weights start."""

import keras


def bert_initializer() -> keras.initializers.Initializer:
    """Truncated normal with standard deviation 0.02 (Devlin et al. 2019, the released code)."""
    return keras.initializers.TruncatedNormal(stddev=0.02)
