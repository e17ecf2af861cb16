import numpy as np
import pytest

from keras_bert2d.errors import InputError
from keras_bert2d.models.class_weights import weights_by_id

LABELS = ["DET", "NOUN", "VERB"]


def test_labels_and_ids_name_a_class_and_others_weigh_1():
    assert weights_by_id({"NOUN": 0.5}, LABELS, 3) == [1, 0.5, 1]
    assert weights_by_id({np.int64(2): np.float32(2), "DET": 0}, LABELS, 3) == [0, 1, 2]
    assert weights_by_id({0: 3}, None, 2) == [3, 1]


@pytest.mark.parametrize(
    "class_weight, labels, message",
    [
        ({"ADV": 1.0}, LABELS, "DET, NOUN, VERB.*0 to 2. Received: 'ADV'"),
        ({3: 1.0}, LABELS, "Received: 3"),
        ({-1: 1.0}, LABELS, "Received: -1"),
        ({"NOUN": 1.0}, None, "ids from 0 to 2. Received: 'NOUN'"),
        ({"NOUN": 1.0, 1: 2.0}, LABELS, "Received twice: 'NOUN'"),
        ({"NOUN": -1.0}, LABELS, "Received: -1.0 for 'NOUN'"),
        ({"NOUN": float("nan")}, LABELS, "Received: nan for 'NOUN'"),
        ({"NOUN": "2"}, LABELS, "Received: '2' for 'NOUN'"),
        ([1.0, 2.0, 3.0], LABELS, "must be a dict"),
    ],
)
def test_what_weighs_no_class_is_refused_by_name(class_weight, labels, message):
    with pytest.raises(InputError, match=message):
        weights_by_id(class_weight, labels, 3)
