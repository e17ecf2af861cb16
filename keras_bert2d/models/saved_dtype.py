"""A preset comes back in the dtype that it was saved in."""

import keras
from keras_hub.src.utils.preset_utils import load_json


class KeepsDtype:
    """Lets `from_preset` bring a model back in its own dtype, `"mixed_bfloat16"` say.

    KerasHub casts to the dtype of the session where none is given, and fails at mixed ones.
    """

    @classmethod
    def from_preset(cls, preset, load_weights: bool = True, **kwargs):
        """Loads a preset.

        Args:
            preset: string or path. See `keras_hub.models.Backbone.from_preset`.
            load_weights: bool. Whether to load weights, or to start from random ones.
            **kwargs: Further arguments of the class, and `dtype` for another than that of the preset.
        """
        preset = str(preset)
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = keras.dtype_policies.deserialize(load_json(preset)["config"]["dtype"])
        return super().from_preset(preset, load_weights, **kwargs)
