import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone, check_fits
from keras_bert2d.models.masked_lm_preprocessor import Bert2DMaskedLMPreprocessor
from keras_bert2d.models.sizes import SIZE_NAMES, size_arguments
from keras_bert2d.text.packing import pack_texts
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.rows import ROW_KEYS, RowRules, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests import reference
from tests.text.test_rows import ragged

SIZES = dict(vocabulary_size=30, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, max_words=16)
# (BERT's parameters, embeddings and pooler included, layers, hidden size), vocabulary of 30,522 pieces
# and 512 positions: counted in the released checkpoints.
PUBLISHED = {
    "tiny": (4_385_920, 2, 128),
    "mini": (11_170_560, 4, 256),
    "small": (28_763_648, 4, 512),
    "medium": (41_373_184, 8, 512),
    "base": (109_482_240, 12, 768),
    "large": (335_141_888, 24, 1024),
}


def parameters(vocabulary, positions, layers, hidden, intermediate, segments=2):
    embeddings = (vocabulary + positions + segments + 2) * hidden
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = 2 * hidden * intermediate + intermediate + hidden
    return embeddings + layers * (attention + feed_forward + 4 * hidden) + hidden * hidden + hidden


def make_backbone(**kwargs):
    """A small backbone with weights far from their start, so that every part shows."""
    backbone = Bert2DBackbone(**{**SIZES, **kwargs})
    rng = np.random.default_rng(0)
    backbone.set_weights([rng.normal(0.1, 0.4, weight.shape) for weight in backbone.get_weights()])
    return backbone


def rows_of(texts, length=16, packed=True):
    rules = RowRules(length, IdRules(16), 2, 3, 0)
    return (pack_texts if packed else single_rows)(ragged(texts), rules)


TEXTS = [[[10, 11, 12], [13]], [[14]], [[15, 16], [17], [18]]]

# === Sizes ===


@pytest.mark.parametrize("name", SIZE_NAMES)
def test_named_sizes_are_bert_s(name):
    count, layers, hidden = PUBLISHED[name]
    assert size_arguments(name) == {
        "num_layers": layers,
        "num_heads": hidden // 64,
        "hidden_dim": hidden,
        "intermediate_dim": 4 * hidden,
    }
    assert parameters(30_522, 512, layers, hidden, 4 * hidden) == count
    assert set(PUBLISHED) == set(SIZE_NAMES)


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_a_backbone_has_bert_s_parameters_and_two_d_positions_add_five_rows(name):
    count, _, hidden = PUBLISHED[name]
    bert = Bert2DBackbone.of_size(name, vocabulary_size=30_522, position_scheme="learned")
    assert bert.count_params() == count
    two_d = Bert2DBackbone.of_size(name, vocabulary_size=30_522)
    assert two_d.count_params() == count + 5 * hidden


def test_arguments_win_over_those_of_a_size():
    backbone = Bert2DBackbone.of_size("tiny", 50, num_layers=1, max_words=9, norm_order="pre")
    assert (backbone.num_layers, backbone.max_words, backbone.hidden_dim) == (1, 9, 128)
    # Pre-norm has one normalisation more, behind the last block.
    expected = parameters(50, 9 + 5, 1, 128, 512) + 2 * 128
    assert backbone.count_params() == expected


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size=0"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"num_heads": -2}, "num_heads=-2"),
        ({"hidden_dim": 8.0}, "hidden_dim=8.0"),
        ({"intermediate_dim": True}, "intermediate_dim=True"),
        ({"num_segments": 0}, "num_segments=0"),
        ({"max_words": 0}, "max_words=0"),
        ({"max_intermediate_subwords": 0}, "max_intermediate_subwords=0"),
        ({"num_heads": 3}, "num_heads=3, hidden_dim=8"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"position_scheme": "rotary"}, "position_scheme='rotary'"),
        ({"norm_order": "mid"}, "norm_order='mid'"),
    ],
)
def test_an_impossible_size_is_refused_by_name(arguments, named):
    with pytest.raises(InputError, match=named):
        Bert2DBackbone(**{**SIZES, **arguments})


def test_an_unknown_size_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match="tiny, mini, small, medium, base, large.*size='huge'"):
        Bert2DBackbone.of_size("huge", 100)


# === What it computes ===


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("scheme", ["two_d", "learned"])
def test_the_outputs_are_those_of_a_plain_statement(order, scheme):
    backbone = make_backbone(norm_order=order, position_scheme=scheme)
    rows = {name: value.numpy() for name, value in rows_of(TEXTS).items()}
    outputs = {name: np.array(value) for name, value in backbone(rows).items()}
    weights = {weight.path: weight.numpy().astype("float64") for weight in backbone.weights}

    def of(layer, *names):
        return [weights[f"{layer}/{name}"] for name in names]

    for i in range(len(rows["token_ids"])):
        row = {name: value[i] for name, value in rows.items()}
        x = of("token_embedding", "embeddings")[0][row["token_ids"]]
        x = x + of("segment_embedding", "embeddings")[0][row["segment_ids"]]
        if scheme == "two_d":
            words, places = of("position_embedding", "word_table", "subword_table")
            x = x + words[row["word_position_ids"]] + places[row["subword_position_ids"]]
        else:
            numbers = row["padding_mask"]
            place = [int((numbers[:j] == n).sum()) if n else 0 for j, n in enumerate(numbers)]
            x = x + of("position_embedding", "table")[0][place]
        x = reference.layer_norm(x, *of("embedding_norm", "gamma", "beta"), 1e-12)
        for block in backbone.transformer_layers:
            names = ("query", "key", "value", "attention_output", "intermediate", "output_dense")
            parts = {n: [w.numpy().astype("float64") for w in getattr(block, n).weights] for n in names}
            for norm in ("attention_norm", "output_norm"):
                parts[norm] = [w.numpy().astype("float64") for w in getattr(block, norm).weights]
            x = reference.encoder_block(x, row["padding_mask"], parts, 2, order, 1e-12)
        if order == "pre":
            x = reference.layer_norm(x, *of("final_norm", "gamma", "beta"), 1e-12)
        kernel, bias = of("pooler", "kernel", "bias")
        assert np.abs(outputs["sequence_output"][i] - x).max() < 1e-3
        assert np.abs(outputs["pooled_output"][i] - np.tanh(x[0] @ kernel + bias)).max() < 1e-3


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("scheme", ["two_d", "learned"])
def test_packed_texts_come_out_as_if_each_stood_alone(order, scheme):
    backbone = make_backbone(norm_order=order, position_scheme=scheme)
    packed, single = rows_of(TEXTS, 24), rows_of(TEXTS, 12, packed=False)
    assert packed["token_ids"].shape[0] == 1
    together = np.array(backbone(packed)["sequence_output"])[0]
    alone = np.array(backbone(single)["sequence_output"])
    start = 0
    for i, length in enumerate(tf.math.count_nonzero(single["padding_mask"], 1).numpy()):
        assert np.abs(together[start : start + length] - alone[i, :length]).max() < 1e-5
        start += length


def test_padding_does_not_matter():
    backbone = make_backbone()
    short, long = (backbone(rows_of(TEXTS[:1], length)) for length in (6, 20))
    assert np.abs(np.array(short["sequence_output"]) - np.array(long["sequence_output"])[:, :6]).max() < 1e-5
    assert np.abs(np.array(short["pooled_output"]) - np.array(long["pooled_output"])).max() < 1e-5


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16"])
@pytest.mark.parametrize("order", ["post", "pre"])
def test_bfloat16_is_finite_and_near(dtype, order):
    rows = rows_of(TEXTS)
    exact = make_backbone(norm_order=order)(rows)["sequence_output"]
    low = make_backbone(norm_order=order, dtype=dtype)(rows)["sequence_output"]
    assert keras.backend.standardize_dtype(low.dtype) == "bfloat16"
    low = np.array(keras.ops.cast(low, "float32"))
    assert np.isfinite(low).all()
    assert np.abs(low - np.array(exact)).max() < 0.15 * np.abs(np.array(exact)).max()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("word_position_ids", 16, r"`word_position_ids`.*\[0, 16\).*Received: 16"),
        ("subword_position_ids", 5, r"`subword_position_ids`.*\[0, 5\).*Received: 5"),
    ],
)
def test_an_id_given_by_hand_out_of_its_table_is_refused(name, value, message):
    backbone = make_backbone()
    rows = rows_of(TEXTS)
    with pytest.raises(ValueError, match=message):
        backbone({**rows, name: rows[name] + value})


# === Saving ===


def test_a_backbone_makes_itself_again_from_its_configuration():
    backbone = Bert2DBackbone(
        **SIZES,
        dropout=0.2,
        num_segments=3,
        max_intermediate_subwords=2,
        position_scheme="learned",
        activation="relu",
        layer_norm_epsilon=1e-6,
        norm_order="pre",
        dtype="mixed_bfloat16",
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(backbone))
    assert again.get_config() == backbone.get_config()
    assert again.count_params() == backbone.count_params()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "bfloat16"])
def test_a_preset_brings_back_outputs_and_dtype(tmp_path, dtype):
    backbone = make_backbone(dtype=dtype, max_intermediate_subwords=2, norm_order="pre")
    backbone.save_to_preset(tmp_path)
    again = Bert2DBackbone.from_preset(tmp_path)
    rows = rows_of([[[10, 11], [12]]])
    assert again.dtype_policy.name == dtype
    assert again.get_config() == backbone.get_config()
    for name, value in backbone(rows).items():
        other = again(rows)[name]
        assert value.dtype == other.dtype
        assert np.array_equal(keras.ops.cast(value, "float32"), keras.ops.cast(other, "float32"))
    assert Bert2DBackbone.from_preset(tmp_path, dtype="float32").dtype_policy.name == "float32"


# === Fitting a tokenizer ===


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_words", 15), ("max_intermediate_subwords", 2), ("vocabulary_size", 31)],
)
def test_a_tokenizer_for_tables_of_other_sizes_is_refused(name, value):
    pieces = [*reference.SPECIAL, *"abcdefghijklmnopqrstuvwxy"]
    rules = {"max_words": 16, "max_intermediate_subwords": 3}
    preprocessor = Bert2DMaskedLMPreprocessor(Bert2DTokenizer(pieces, **rules), sequence_length=16)
    check_fits(Bert2DBackbone(**SIZES), preprocessor)
    check_fits(Bert2DBackbone(**SIZES), None)
    with pytest.raises(InputError, match=f"`{name}` is {value} in the backbone and"):
        check_fits(Bert2DBackbone(**{**SIZES, name: value}), preprocessor)


def test_learned_positions_do_not_care_for_places_in_words_but_for_the_row_s_length():
    pieces = [*reference.SPECIAL, *"abcdefghijklmnopqrstuvwxy"]
    tokenizer = Bert2DTokenizer(pieces, max_words=16, max_intermediate_subwords=9)
    backbone = Bert2DBackbone(**SIZES, position_scheme="learned")
    check_fits(backbone, Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=16))
    with pytest.raises(InputError, match="sequence_length=17, max_words=16"):
        check_fits(backbone, Bert2DMaskedLMPreprocessor(tokenizer, sequence_length=17))


def test_the_batch_has_the_five_keys_of_the_design():
    assert set(make_backbone().input) == set(ROW_KEYS)
