import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.models.masked_lms import RULES, TEXTS


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary, casing="turkish", **RULES)


def test_a_batch_of_texts(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20)
    features, labels, weights = preprocessor(TEXTS)
    assert features["token_ids"].shape == (4, 20)
    assert features["mask_positions"].shape == labels.shape == weights.shape == (4, 3)  # ⌊3.0 + ½⌋
    assert weights.numpy().sum(1).tolist() == [1, 1, 1, 0]
    assert features["word_position_ids"][0].numpy().tolist()[:11] == [0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4]
    assert features["subword_position_ids"][0].numpy().tolist()[:7] == [0, 0, 2, 3, 1, 1, 1]


LONG = ["evler kitap bir ev kitaplar evler bir"] * 8


@pytest.mark.parametrize("seed", [None, 3])
def test_masks_are_drawn_anew_each_time_whatever_is_seeded(tokenizer, seed):
    # As `keras.utils.set_random_seed` does at the top of many notebooks.
    tf.random.set_seed(0)
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20, seed=seed)
    data = tf.data.Dataset.from_tensors(LONG).map(preprocessor)
    first, second = (next(iter(data))[0]["mask_positions"].numpy() for _ in range(2))
    assert not np.array_equal(first, second)


def test_a_seed_fixes_the_masks_of_a_pass(tokenizer):
    def two_batches(seed):
        tf.random.set_seed(5)
        preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=20, seed=seed)
        return [preprocessor(LONG)[0]["mask_positions"].numpy().tolist() for _ in range(2)]

    first, second = two_batches(3)
    assert first != second
    assert two_batches(3) == [first, second]
    assert two_batches(4) != [first, second]


def test_pairs_are_rows_of_two_segments(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=12)
    features, _, _ = preprocessor(x=(["bir ev", "ev"], ["evler", ""]))
    assert features["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert features["word_position_ids"].numpy().tolist() == [
        [0, 1, 2, 3, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_long_texts_are_cut_to_the_row_and_to_max_words(tokenizer):
    preprocessor = Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=64)
    features, _, _ = preprocessor(["ev " * 100])
    assert int(tf.reduce_sum(features["padding_mask"])) == 24
    assert int(tf.reduce_max(features["word_position_ids"])) == 23


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sequence_length": 3}, "sequence_length=3"),
        ({"mask_rate": 0}, "rate=0"),
        ({"masking": "span"}, "masking='span'"),
        ({"max_predictions_per_row": 0}, "max_predictions_per_row=0"),
    ],
)
def test_impossible_settings_are_refused_at_once(tokenizer, arguments, named):
    with pytest.raises(InputError, match=named):
        Bert2DMaskedLMPreprocessor(tokenizer, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": "one text"},
        {"x": [["bir", "ev"], ["ev", "bir"]]},
        {"x": ["bir"], "y": [1]},
        {"x": ["bir"], "y": ["ev"]},  # A pair that was not passed as x=(first, second).
        {"x": ["bir"], "sample_weight": [1.0]},
    ],
)
def test_what_is_no_batch_of_texts_is_refused(tokenizer, arguments):
    with pytest.raises(InputError):
        Bert2DMaskedLMPreprocessor(tokenizer)(**arguments)
