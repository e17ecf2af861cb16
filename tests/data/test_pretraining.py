import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.data import pretraining, shards, windows
from keras_bert2d.data.epochs import RowSettings
from keras_bert2d.data.prepare import prepare
from keras_bert2d.data.pretraining import (
    held_out_dataset,
    held_out_interval,
    pretraining_dataset,
    raw_text_dataset,
)
from keras_bert2d.data.shards import read_manifest
from keras_bert2d.errors import InputError
from keras_bert2d.models.backbone import Bert2DBackbone
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.text.masking import mask_rows
from keras_bert2d.text.packing import pack_texts
from keras_bert2d.text.rows import ROW_KEYS, RowRules
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from tests.data.pretraining_rows import Corpus, assert_equal, read_epochs, rows_of
from tests.reference import lay_out, make_text, split_text

# A budget of one word at least.
MASKS = {"mask_rate": 0.3, "max_predictions_per_row": 6}
KINDS = {
    "packed": RowSettings(16, **MASKS),
    "full_sentences": RowSettings(16, rows="full_sentences", **MASKS),
    "pairs": RowSettings(48, next_sentence=True, **MASKS),
    "full_pairs": RowSettings(16, rows="full_sentences", next_sentence=True, **MASKS),
}
# Every word is a number of its own, of three pieces: so pieces tell their place in the corpus.
_NUMBERS = iter(range(100, 1000))
_LONG_WORD = "2718281828459045235360287471352662497757"


def numbers(count):
    return " ".join(str(next(_NUMBERS)) for _ in range(count))


# Documents of one to five texts of one to four words; a text and a word that are longer than a row.
DOCUMENTS = [[numbers((i + j) % 4 + 1) for j in range(i % 5 + 1)] for i in range(24)]
DOCUMENTS[8].insert(1, numbers(12))
DOCUMENTS[13].insert(2, f"{numbers(1)} {_LONG_WORD} {numbers(1)}")


@pytest.fixture(scope="module", autouse=True)
def small_constants():
    """Many records, windows, blocks and runs in little text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "RECORD_PIECES", 20)
        for name, value in {"WINDOW_RECORDS": 4, "GROUP_RECORDS": 10, "RUN_RECORDS": 2}.items():
            patch.setattr(windows, name, value)
        patch.setattr(pretraining, "MASKED_STEPS", 2)
        yield


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary)


def make_shards(folder, corpora, tokenizer, **arguments):
    paths = []
    for i, documents in enumerate(corpora):
        paths.append(folder / f"corpus{i}.txt")
        paths[-1].write_text("\n\n".join("\n".join(lines) for lines in documents), encoding="utf-8")
    prepare(paths, tokenizer, folder / "shards", shard_bytes=200, **arguments)
    return folder / "shards"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer, small_constants):
    return make_shards(tmp_path_factory.mktemp("corpus"), [DOCUMENTS], tokenizer)


@pytest.fixture(scope="module")
def corpus(tokenizer):
    return Corpus(DOCUMENTS, tokenizer)


@pytest.fixture(scope="module")
def streams(folder):
    """Two epochs of each kind of rows, read once; and the specification of their batches."""
    made = {}

    def stream(kind):
        if kind not in made:
            dataset = pretraining_dataset(folder, KINDS[kind], 1, seed=7, with_place=True)
            made[kind] = read_epochs(dataset, 2), dataset.element_spec
        return made[kind]

    return stream


def epoch_of(rows, number):
    return [row for row in rows if row.place.epoch == number]


def split_words(pieces, tokenizer):
    words = []
    for piece in pieces:
        if not words or not tokenizer.id_to_token(piece).startswith("##"):
            words.append([])
        words[-1].append(piece)
    return words


@pytest.mark.parametrize("kind", ["packed", "full_sentences"])
def test_an_epoch_holds_every_piece_of_every_text_once(streams, corpus, kind):
    rows, _ = streams(kind)
    for epoch in (0, 1):
        assert {row.place.window for row in epoch_of(rows, epoch)} >= {0, 1, 2, 3}
        assert (corpus.times_read(epoch_of(rows, epoch)) == 1).all()


def test_packed_texts_are_the_corpus_with_long_texts_split_at_words(streams, corpus):
    rows, _ = streams("packed")
    expected = collections.Counter(
        str(sum(part, [])) for texts in corpus.texts for text in texts for part in split_text(text, 14, 510)
    )
    for epoch in (0, 1):
        read = [str(first) for row in epoch_of(rows, epoch) for (first,) in row.texts()]
        assert collections.Counter(read) == expected


def test_packed_rows_hold_texts_of_several_documents_and_more_than_one(streams, corpus):
    rows, _ = streams("packed")
    counts = [len(row.texts()) for row in rows]
    assert max(counts) >= 2
    mixed = [{corpus.document[corpus.find(first)[0]] for (first,) in row.texts()} for row in rows]
    assert max(map(len, mixed)) >= 2


def test_full_sentence_rows_are_runs_of_one_document_that_fill_the_row(streams, corpus):
    rows, _ = streams("full_sentences")
    sentences = []
    for row in rows:
        ((run,),) = row.texts()
        sentences.append(len({corpus.text[i] for i in corpus.find(run)}))
    assert max(sentences) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_ids_of_the_rules(streams, tokenizer, kind):
    rows, _ = streams(kind)
    for row in rows[:40]:
        texts = [make_text(*(split_words(part, tokenizer) for part in text)) for text in row.texts()]
        expected = lay_out([texts], KINDS[kind].sequence_length)
        assert {name: [array.tolist()] for name, array in row.unmasked().items()} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_static(streams, kind):
    _, (features, labels, weights) = streams(kind)
    settings = KINDS[kind]
    columns, predictions = settings.sequence_length, settings.max_predictions_per_row
    shapes = {name: (1, columns) for name in ROW_KEYS}
    shapes |= {"mask_positions": (1, predictions), "place": (1, 3)}
    if settings.next_sentence:
        pairs = 3 if kind == "pairs" else 1
        shapes["pair_positions"] = (1, pairs)
        heads = {"masked_lm": (1, predictions), "next_sentence": (1, pairs)}
    else:
        heads = (1, predictions)
    found = tf.nest.map_structure(lambda spec: tuple(spec.shape), (features, labels, weights))
    assert found == (shapes, heads, heads)


@pytest.mark.parametrize("kind", KINDS)
def test_each_epoch_has_an_order_of_its_own(streams, kind):
    rows, _ = streams(kind)
    first, second = ([row.texts() for row in epoch_of(rows, epoch)] for epoch in (0, 1))
    assert first[:8] != second[:8]


def test_order_and_masks_hang_on_the_seed(streams, folder):
    rows, _ = streams("packed")
    other = pretraining_dataset(folder, KINDS["packed"], 1, seed=8, with_place=True)
    other = list(rows_of(other.take(20)))
    assert [row.texts() for row in other] != [row.texts() for row in rows[:20]]
    positions = [row.features["mask_positions"].tolist() for row in other]
    assert positions != [row.features["mask_positions"].tolist() for row in rows[:20]]


def last_of_window(rows):
    """The last row of epoch 0's second window."""
    return max(i for i, row in enumerate(rows) if (row.place.epoch, row.place.window) == (0, 1))


@pytest.mark.parametrize(
    "kind, where",
    [
        ("packed", lambda rows: 4),
        ("packed", last_of_window),
        ("packed", lambda rows: len(epoch_of(rows, 0)) - 4),
        ("full_sentences", lambda rows: len(epoch_of(rows, 0)) - 1),
        ("pairs", lambda rows: len(epoch_of(rows, 0)) - 3),
        ("full_pairs", lambda rows: len(epoch_of(rows, 0)) - 2),
    ],
    ids=["in-a-window", "window-end", "epoch-end", "epoch-last", "pairs", "full-pairs"],
)
def test_a_run_goes_on_behind_any_row_bit_for_bit(streams, folder, kind, where):
    """Also where steps are masked in other groups than before, and over an epoch's end."""
    rows, _ = streams(kind)
    last = where(rows)
    resumed = pretraining_dataset(
        folder, KINDS[kind], 1, seed=7, step=last + 1, place=rows[last].place, with_place=True
    )
    assert_equal(list(rows_of(resumed.take(12))), rows[last + 1 : last + 13])


def test_larger_batches_hold_the_same_rows_and_the_place_of_their_last(streams, folder):
    rows, _ = streams("packed")
    batches = pretraining_dataset(folder, KINDS["packed"], 4, seed=7, with_place=True).take(6)
    grouped = list(rows_of(batches))
    for i, (row, other) in enumerate(zip(grouped, rows[:24], strict=True)):
        assert row.texts() == other.texts()
        assert row.place == rows[i // 4 * 4 + 3].place


def test_masks_hang_on_seed_and_step_alone(streams, folder, tokenizer):
    rows, _ = streams("packed")
    rules = KINDS["packed"].mask_rules(tokenizer, read_manifest(folder).piece_counts)
    for step in (0, 1, 6, 7):
        unmasked = {name: tf.constant(array[None]) for name, array in rows[step].unmasked().items()}
        features, labels, weights = mask_rows(unmasked, rules, 7, step)
        for name, value in features.items():
            np.testing.assert_array_equal(value[0], rows[step].features[name])
        np.testing.assert_array_equal(labels[0], rows[step].labels)
        np.testing.assert_array_equal(weights[0], rows[step].weights)
        assert weights.numpy().sum() > 0


def read_pairs(rows, corpus):
    """Yields for each pair where its texts stand and its label."""
    for row in rows:
        texts = row.texts()
        columns = np.flatnonzero(row.unmasked()["token_ids"] == 2).tolist()
        weights = row.weights["next_sentence"].tolist()
        assert weights == [1.0] * len(texts) + [0.0] * (len(weights) - len(texts))
        assert row.features["pair_positions"].tolist()[: len(texts)] == columns
        for (first, second), label in zip(texts, row.labels["next_sentence"].tolist(), strict=False):
            yield corpus.find(first), corpus.find(second), label


@pytest.mark.parametrize("kind", ["pairs", "full_pairs"])
def test_half_of_the_pairs_follow_each_other_and_half_are_of_two_documents(streams, corpus, kind):
    labels = []
    for first, second, label in read_pairs(streams(kind)[0], corpus):
        documents = corpus.document[first[0]], corpus.document[second[0]]
        assert (documents[0] == documents[1]) == (label == 0)
        if kind == "pairs":
            # Whole texts from their start, cut at their end.
            assert {first[0], second[0]} <= corpus.starts
            if label == 0:
                assert corpus.text[second[0]] == corpus.text[first[0]] + 1
        elif label == 0:
            assert second[0] == first[-1] + 1
        labels.append(label)
    # Of n fair coins, four standard deviations.
    assert len(labels) > 40
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / len(labels) ** 0.5


def test_several_pairs_share_a_row(streams):
    assert max(len(row.texts()) for row in streams("pairs")[0]) == 3


def test_held_out_records_are_never_trained_on_and_the_same_each_time(folder, corpus):
    settings = KINDS["packed"]
    training = pretraining_dataset(folder, settings, 1, with_place=True, held_out_every=3)
    trained = corpus.times_read(read_epochs(training, 1))
    held_out = held_out_dataset(folder, settings, 1, 3, max_batches=1000)
    rows = list(rows_of(held_out))
    # An odd number of batches, where masks are made for two steps at once.
    held = corpus.times_read(rows)
    assert (trained + held == 1).all()
    assert 0 < held.sum() < trained.sum()
    assert_equal(list(rows_of(held_out)), rows)
    assert_equal(list(rows_of(held_out_dataset(folder, settings, 1, 3, max_batches=5))), rows[:5])


@pytest.mark.parametrize(
    "share, records, every", [(0, 50, None), (0.1, 1, None), (0.1, 50, 10), (0.01, 50, 50), (0.49, 50, 2)]
)
def test_one_record_at_least_and_half_of_them_at_most_are_held_out(folder, share, records, every):
    manifest = read_manifest(folder)
    first = dataclasses.replace(manifest.shards[0], records=records)
    assert held_out_interval(dataclasses.replace(manifest, shards=[first]), share) == every


def test_an_epoch_reads_a_corpus_as_often_as_it_weighs(tmp_path, tokenizer):
    corpora = [[[f"{letter} {i}" for i in range(60)]] for letter in "abc"]
    folder = make_shards(tmp_path, corpora, tokenizer, weights=[2, 0.5, 1])
    assert len({shard.file for shard in read_manifest(folder).shards if shard.corpus == 1}) > 1
    rows = read_epochs(pretraining_dataset(folder, KINDS["packed"], 1, with_place=True), 2)
    times = [collections.Counter(), collections.Counter()]
    for row in rows:
        times[row.place.epoch].update(str(first) for (first,) in row.texts())
    texts = [str(sum(text, [])) for text in tokenizer.tokenize(sum(sum(corpora, []), [])).to_list()]
    for first, half, once in zip(texts[:60], texts[60:120], texts[120:], strict=True):
        assert times[0][first] == times[1][first] == 2
        assert times[0][half] + times[1][half] == 1
        assert times[0][once] == times[1][once] == 1
    assert all(sum(time[half] for half in texts[60:120]) for time in times)


def test_max_words_smaller_than_a_row_is_kept_to(tmp_path, tiny_vocabulary):
    tokenizer = Bert2DTokenizer(tiny_vocabulary, max_words=4)
    folder = make_shards(tmp_path, [[["1 2 3 4 5", "6 7"], ["8"]]], tokenizer)
    rows = read_epochs(pretraining_dataset(folder, KINDS["packed"], 1, with_place=True), 1)
    read = sorted(tokenizer.detokenize([first]).numpy()[0] for row in rows for (first,) in row.texts())
    assert read == [b"1 2", b"3 4", b"5", b"6 7", b"8"]
    assert max(row.features["word_position_ids"].max() for row in rows) == 3


@pytest.mark.parametrize("kind", ["packed", "pairs"])
def test_keras_fits_on_the_dataset(folder, tokenizer, kind):
    backbone = Bert2DBackbone(tokenizer.vocabulary_size(), 1, 2, 16, 32)
    model = Bert2DMaskedLM(backbone, next_sentence=KINDS[kind].next_sentence)
    model.compile(optimizer="adam")
    dataset = pretraining_dataset(folder, KINDS[kind], 4)
    history = model.fit(dataset, epochs=2, steps_per_epoch=2, verbose=0).history
    assert np.isfinite(history["loss"]).all() and len(history["loss"]) == 2


@pytest.mark.parametrize(
    "documents, counts",
    [
        ([["1", "2", "3"]], "3 lines in 1 documents"),
        ([["1"], ["2"], ["3"]], "3 lines in 3 documents"),
    ],
    ids=["one-document", "documents-of-a-line"],
)
def test_next_sentence_prediction_needs_two_documents_of_lines(tmp_path, tokenizer, documents, counts):
    folder = make_shards(tmp_path, [documents], tokenizer)
    for kind in ("pairs", "full_pairs"):
        with pytest.raises(InputError, match=f"at least two documents.*{counts}"):
            pretraining_dataset(folder, KINDS[kind], 4)


@pytest.mark.parametrize("harm", ["cut", "empty", "removed"])
def test_a_damaged_shard_is_named_with_the_mend_before_the_first_batch(tmp_path, tokenizer, harm):
    folder = make_shards(tmp_path, [DOCUMENTS[:4], DOCUMENTS[4:9]], tokenizer)
    path = folder / read_manifest(folder).shards[1].file
    path.write_bytes(path.read_bytes()[: -40 if harm == "cut" else 0])
    if harm == "removed":
        path.unlink()
    for make in (
        lambda: pretraining_dataset(folder, KINDS["packed"], 2),
        lambda: held_out_dataset(folder, KINDS["packed"], 2, 2, 1),
    ):
        with pytest.raises(InputError, match=rf"{path.name} is (damaged|missing).*keras-bert2d prepare"):
            make()


def test_shards_that_never_give_a_pair_end_with_an_error(tmp_path, tokenizer):
    """Every document fits into half a row: no run of sentences follows another."""
    folder = make_shards(tmp_path, [[["1", "2"], ["3"]]], tokenizer)
    with pytest.raises(tf.errors.InvalidArgumentError, match="documents are too short for pairs"):
        next(iter(pretraining_dataset(folder, KINDS["full_pairs"], 1)))


def test_raw_text_goes_through_once_and_loses_no_full_batch(tmp_path, tokenizer):
    lines = [text for document in DOCUMENTS for text in document]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    settings = KINDS["packed"]
    dataset = raw_text_dataset(str(tmp_path / "text"), tokenizer, settings, 3)
    expected = pack_texts(tokenizer.tokenize(lines), RowRules.of(tokenizer, 16))["token_ids"].numpy()
    read = [row.unmasked()["token_ids"].tolist() for row in rows_of(dataset)]
    assert read == expected[: len(expected) // 3 * 3].tolist()
    (tmp_path / "legacy").write_bytes("göl\n".encode("iso-8859-9") * 9)
    with pytest.raises(InputError, match="legacy:1: .*not UTF-8"):
        raw_text_dataset(str(tmp_path / "legacy"), tokenizer, settings, 3)
    raw_text_dataset(str(tmp_path / "legacy"), tokenizer, settings, 3, encoding="iso-8859-9")
    with pytest.raises(InputError, match="make shards with `prepare`"):
        raw_text_dataset(str(tmp_path / "text"), tokenizer, KINDS["pairs"], 3)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda _: RowSettings(rows="padded"), "rows='padded'"),
        (lambda _: RowSettings(replacement="zipf"), "replacement='zipf'"),
        (lambda f: pretraining_dataset(f, RowSettings(16), 4, held_out_every=1), "held_out_every=1"),
        (lambda f: held_out_dataset(f, RowSettings(16), 4, 1, 4), "held_out_every=1"),
        (lambda f: held_out_interval(read_manifest(f), 0.5), "Received: 0.5"),
        (lambda f: pretraining_dataset(f, RowSettings(3), 4), "sequence_length=3"),
        (lambda f: pretraining_dataset(f, RowSettings(4, next_sentence=True), 4), "at least 5.*length=4"),
        (lambda f: pretraining_dataset(f, RowSettings(16, masking="char"), 4), "masking='char'"),
        (lambda f: pretraining_dataset(f, RowSettings(16, mask_rate=0), 4), "rate=0"),
        (lambda f: pretraining_dataset(f / "none", RowSettings(16), 4), "keras-bert2d prepare"),
    ],
)
def test_impossible_settings_are_refused(folder, make, message):
    with pytest.raises(InputError, match=message):
        make(folder)
