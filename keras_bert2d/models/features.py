"""Ready features pass by the preprocessor."""

import keras


class TakesFeatures:
    """Lets a KerasHub task take dicts of features beside raw text, as our datasets give them."""

    def preprocess_samples(self, x, y=None, sample_weight=None):
        if isinstance(x, dict):
            return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        return super().preprocess_samples(x, y, sample_weight)
