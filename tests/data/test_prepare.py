import collections
import gzip
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert2d.data import prepare as prepare_module
from keras_bert2d.data import shards as shards_module
from keras_bert2d.data.prepare import merge, prepare
from keras_bert2d.data.shards import MANIFEST, VOCABULARY, check_digests, decode_records
from keras_bert2d.errors import InputError
from keras_bert2d.files import sha256_of
from keras_bert2d.text.tokenizer import Bert2DTokenizer

SHARD_BYTES = 30
# Documents of lines; a word of control characters alone is no word.
FIRST = [
    ["ev 1", "evler 2", "kitap 3 bir"],
    ["gör 4"],
    ["\x01\x02", "kitap 5", "göremediklerimizden misiniz? 6"],
]
SECOND = [[f"ev {i}", f"bir {i}"] for i in range(20, 28)]


def as_text(documents):
    return "\n\n\n".join("\n".join(lines) for lines in documents) + "\n"


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return Bert2DTokenizer(tiny_vocabulary)


@pytest.fixture(autouse=True)
def small_records(monkeypatch):
    monkeypatch.setattr(shards_module, "RECORD_PIECES", 12)


@pytest.fixture
def corpora(tmp_path):
    paths = [tmp_path / "first.txt", tmp_path / "second.txt"]
    for path, documents in zip(paths, (FIRST, SECOND), strict=True):
        path.write_text(as_text(documents), encoding="utf-8")
    return paths


def make(corpora, tokenizer, output, **arguments):
    return prepare(corpora, tokenizer, output, **{"shard_bytes": SHARD_BYTES, **arguments})


def contents(folder):
    """The bytes of what a finished folder holds."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_texts(folder, manifest, tokenizer):
    """All texts with the corpus and the document of each, in order."""
    texts = []
    for shard in manifest.shards:
        records = list(tf.data.TFRecordDataset(str(folder / shard.file)).as_numpy_iterator())
        read, documents, _ = decode_records(tf.constant(records, tf.string), tokenizer.vocabulary_size())
        texts += [
            (shard.corpus, document, text)
            for text, document in zip(read.to_list(), documents.numpy().tolist(), strict=True)
        ]
    return texts


def stated_texts(corpora, tokenizer):
    """The same from the documents themselves."""
    texts, number = [], -1
    for corpus, documents in enumerate(corpora):
        for lines in documents:
            number += 1
            pieces = tokenizer.tokenize(lines).to_list()
            texts += [(corpus, number, text) for text in pieces if text]
    return texts


def test_shards_hold_all_texts_in_order_with_corpus_and_document(corpora, tokenizer, tmp_path):
    manifest = make(corpora, tokenizer, tmp_path / "out")
    assert len(manifest.shards) > 4
    assert read_texts(tmp_path / "out", manifest, tokenizer) == stated_texts([FIRST, SECOND], tokenizer)


def test_counts_in_the_manifest_equal_plain_python(corpora, tokenizer, tmp_path):
    manifest = make(corpora, tokenizer, tmp_path / "out", weights=[2, 0.5])
    texts = stated_texts([FIRST, SECOND], tokenizer)
    words = [word for *_, text in texts for word in text]
    pieces = [piece for word in words for piece in word]
    shards = manifest.shards
    assert sum(shard.texts for shard in shards) == len(texts)
    assert sum(shard.words for shard in shards) == len(words)
    assert manifest.pieces == sum(shard.pieces for shard in shards) == len(pieces)
    assert manifest.documents == len(FIRST) + len(SECOND)
    counted = collections.Counter(pieces)
    assert manifest.piece_counts == [counted[i] for i in range(tokenizer.vocabulary_size())]
    for shard in shards:
        path = tmp_path / "out" / shard.file
        assert shard.digest == sha256_of(path)
        records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        assert shard.records == len(records)
        _, documents, _ = decode_records(tf.constant(records), tokenizer.vocabulary_size())
        assert (shard.first_document, shard.last_document) == (documents[0], documents[-1])
    assert [corpus["weight"] for corpus in manifest.corpora] == [2, 0.5]
    assert manifest.document == "blank"
    assert manifest.tokenizer == {"casing": "cased", **tokenizer.id_rules.to_dict()}


def test_a_shard_ends_with_the_line_that_fills_it_and_with_its_corpus(corpora, tokenizer, tmp_path):
    manifest = make(corpora, tokenizer, tmp_path / "out")
    expected = []
    for corpus, documents in enumerate((FIRST, SECOND)):
        size = 0
        for line in itertools.chain(*documents):
            if size == 0:
                expected.append([corpus, 0])
            expected[-1][1] += line.strip("\x01\x02") != ""
            size += len(line.encode()) + 1
            size = 0 if size >= SHARD_BYTES else size
    assert [[shard.corpus, shard.texts] for shard in manifest.shards] == expected


def test_a_finished_folder_holds_shards_vocabulary_and_manifest_alone(corpora, tokenizer, tmp_path):
    manifest = make(corpora, tokenizer, tmp_path / "out")
    names = {
        MANIFEST,
        VOCABULARY,
        f"{VOCABULARY}.json",
        "prepare.json",
        *(shard.file for shard in manifest.shards),
    }
    assert set(contents(tmp_path / "out")) == names
    lines = (tmp_path / "out" / VOCABULARY).read_text(encoding="utf-8").splitlines()
    assert lines == tokenizer.get_vocabulary()


def test_a_second_run_makes_nothing_again(corpora, tokenizer, tmp_path, monkeypatch):
    first = make(corpora, tokenizer, tmp_path / "out")
    monkeypatch.setattr(prepare_module, "write_records", None)
    assert make(corpora, tokenizer, tmp_path / "out") == first


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_parts_in_any_order_give_the_bytes_of_one_run(corpora, tokenizer, tmp_path, order):
    make(corpora, tokenizer, tmp_path / "one")
    made = [make(corpora, tokenizer, tmp_path / "parts", part=(number, 3)) for number in order]
    assert made[:2] == [None, None] and made[2] is not None
    assert contents(tmp_path / "parts") == contents(tmp_path / "one")


def test_parts_made_apart_and_merged_give_the_bytes_of_one_run(corpora, tokenizer, tmp_path):
    one = make(corpora, tokenizer, tmp_path / "one")
    folders = [tmp_path / f"part{number}" for number in (3, 1, 2)]
    for folder, number in zip(folders, (3, 1, 2), strict=True):
        make(corpora, tokenizer, folder, part=(number, 3))
    before = [contents(folder) for folder in folders]
    assert merge(folders, tmp_path / "merged") == one
    assert contents(tmp_path / "merged") == contents(tmp_path / "one")
    # Merged again: nothing new; and the parts are as they were.
    assert merge(folders, tmp_path / "merged") == one
    assert contents(tmp_path / "merged") == contents(tmp_path / "one")
    assert [contents(folder) for folder in folders] == before
    # Also into the folder of a part.
    assert merge(folders, folders[0]) == one
    assert contents(folders[0]) == contents(tmp_path / "one")


def test_more_parts_than_shards_are_fine(corpora, tokenizer, tmp_path):
    whole = make(corpora[:1], tokenizer, tmp_path / "one", shard_bytes=10_000)
    assert len(whole.shards) == 1
    assert make(corpora[:1], tokenizer, tmp_path / "out", shard_bytes=10_000, part=(2, 2)) is None
    assert make(corpora[:1], tokenizer, tmp_path / "out", shard_bytes=10_000, part=(1, 2)) == whole


def test_merging_names_a_shard_that_no_part_has(corpora, tokenizer, tmp_path):
    for number in (1, 3):
        make(corpora, tokenizer, tmp_path / str(number), part=(number, 3))
    with pytest.raises(InputError, match=r"Shard 1 of \d+ is in none of the folders: prepare its part"):
        merge([tmp_path / "1", tmp_path / "3"], tmp_path / "merged")
    assert not (tmp_path / "merged" / MANIFEST).exists()


def test_merging_refuses_parts_of_different_runs(corpora, tokenizer, tmp_path):
    make(corpora, tokenizer, tmp_path / "a", part=(1, 2))
    make(corpora, tokenizer, tmp_path / "b", part=(2, 2), document="line")
    with pytest.raises(InputError, match="b holds shards of another run: document is 'line' there"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_merging_refuses_a_folder_with_shards_of_another_run(corpora, tokenizer, tmp_path):
    for number in (1, 2):
        make(corpora, tokenizer, tmp_path / str(number), part=(number, 2))
    make(corpora, tokenizer, tmp_path / "out", document="line")
    before = contents(tmp_path / "out")
    with pytest.raises(InputError, match="out holds shards of another run: document is 'line'"):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "out")
    assert contents(tmp_path / "out") == before


def interrupt(monkeypatch, after):
    """Ends the process, as it were, while it writes the shard after so many."""
    written = []

    def write(path, *arguments):
        if len(written) == after:
            path.write_bytes(b"half of a shard")
            raise KeyboardInterrupt
        written.append(path)
        return shards_module.write_records(path, *arguments)

    monkeypatch.setattr(prepare_module, "write_records", write)
    return written


def test_an_interrupted_run_goes_on_and_makes_no_finished_shard_again(
    corpora, tokenizer, tmp_path, monkeypatch
):
    whole = make(corpora, tokenizer, tmp_path / "one")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt(patch, 2)
        make(corpora, tokenizer, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST).exists()
    finished = sorted((tmp_path / "out").glob("*.tfrecord"))
    assert [path.name for path in finished] == ["shard-00000.tfrecord", "shard-00001.tfrecord"]
    stamps = [path.stat().st_mtime_ns for path in finished]
    with monkeypatch.context() as patch:
        written = interrupt(patch, 1000)
        assert make(corpora, tokenizer, tmp_path / "out") == whole
    assert len(written) == len(whole.shards) - 2
    assert [path.stat().st_mtime_ns for path in finished] == stamps
    assert contents(tmp_path / "out") == contents(tmp_path / "one")


def test_an_interrupted_part_is_not_merged(corpora, tokenizer, tmp_path, monkeypatch):
    make(corpora, tokenizer, tmp_path / "1", part=(1, 2))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt(patch, 1)
        make(corpora, tokenizer, tmp_path / "2", part=(2, 2))
    with pytest.raises(InputError, match="2 is no finished part: run `keras-bert2d prepare`"):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "merged")


def test_a_part_that_ends_while_another_merges_reads_the_manifest(corpora, tokenizer, tmp_path, monkeypatch):
    """Both parts see all shards; one writes the manifest and takes the notes away first."""
    whole = make(corpora, tokenizer, tmp_path / "one")
    make(corpora, tokenizer, tmp_path / "out", part=(1, 2))
    settings = json.loads((tmp_path / "out" / "prepare.json").read_text(encoding="utf-8"))
    merged = []

    def other_part_first(output, *arguments):
        monkeypatch.undo()
        monkeypatch.setattr(shards_module, "RECORD_PIECES", 12)
        merged.append(prepare_module._merge(output, *arguments))
        return prepare_module._merge(output, *arguments)

    monkeypatch.setattr(prepare_module, "_merge", other_part_first)
    assert make(corpora, tokenizer, tmp_path / "out", part=(2, 2)) == merged[0] == whole
    assert settings["input_bytes"] == sum(path.stat().st_size for path in corpora)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")


@pytest.mark.parametrize(
    "key, arguments",
    [
        ("document", {"document": "line"}),
        ("shard_bytes", {"shard_bytes": 80}),
        ("corpora", {"weights": [1, 3]}),
        ("field", {"field": "text"}),
    ],
)
def test_other_settings_in_the_same_folder_are_refused_by_name(corpora, tokenizer, tmp_path, key, arguments):
    make(corpora, tokenizer, tmp_path / "finished")
    make(corpora, tokenizer, tmp_path / "part", part=(1, 2))
    for folder in (tmp_path / "finished", tmp_path / "part"):
        before = contents(folder)
        with pytest.raises(InputError, match=f"another run: {key} is .* there and .* here"):
            make(corpora, tokenizer, folder, **arguments)
        assert contents(folder) == before


def test_another_tokenizer_or_grown_input_is_refused_by_name(corpora, tokenizer, tmp_path, tiny_vocabulary):
    make(corpora, tokenizer, tmp_path / "out")
    others = {
        "tokenizer": Bert2DTokenizer(tiny_vocabulary, casing="turkish"),
        "vocabulary_digest": Bert2DTokenizer([*tiny_vocabulary, "başka"]),
    }
    for key, other in others.items():
        with pytest.raises(InputError, match=f"another run: {key} is"):
            make(corpora, other, tmp_path / "out")
    with corpora[0].open("a", encoding="utf-8") as file:
        file.write("ev\n")
    with pytest.raises(InputError, match="another run: input_bytes is"):
        make(corpora, tokenizer, tmp_path / "out")


def shard_bytes_of(folder):
    return [path.read_bytes() for path in sorted(folder.glob("*.tfrecord"))]


def test_gzip_json_lines_and_folders_give_the_shards_of_the_plain_text(tokenizer, tmp_path, corpora):
    make([corpora[1]], tokenizer, tmp_path / "plain")
    text = as_text(SECOND)
    objects = "".join(
        json.dumps({"id": i, "body": "\n".join(lines)}) + "\n" for i, lines in enumerate(SECOND)
    )
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "text.jsonl").write_text(objects, encoding="utf-8")
    (tmp_path / "text.json.gz").write_bytes(gzip.compress(objects.encode()))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text(as_text(SECOND[:3]), encoding="utf-8")
    (tmp_path / "folder" / "b.gz").write_bytes(gzip.compress(as_text(SECOND[3:]).encode()))
    for name in ("text.gz", "text.jsonl", "text.json.gz", "folder"):
        field = "body" if "json" in name else None
        make([tmp_path / name], tokenizer, tmp_path / f"out-{name}", field=field)
        assert shard_bytes_of(tmp_path / f"out-{name}") == shard_bytes_of(tmp_path / "plain"), name


@pytest.mark.parametrize(
    "document, numbers",
    [("blank", [0, 0, 1, 2, 3]), ("line", [0, 1, 2, 3, 4]), ("file", [0, 0, 0, 1, 1])],
)
def test_documents_end_at_blank_lines_lines_or_files(tokenizer, tmp_path, document, numbers):
    (tmp_path / "a").write_text("ev 1\nev 2\n\nev 3\n", encoding="utf-8")
    (tmp_path / "b").write_text("\nev 4\n \nev 5", encoding="utf-8")
    manifest = make([tmp_path / "a", tmp_path / "b"], tokenizer, tmp_path / "out", document=document)
    texts = read_texts(tmp_path / "out", manifest, tokenizer)
    assert [number for _, number, _ in texts] == numbers
    assert manifest.documents == numbers[-1] + 1


def test_one_path_is_one_corpus(corpora, tokenizer, tmp_path):
    manifest = make(str(corpora[0]), tokenizer, tmp_path / "out")
    assert manifest.corpora == [{"name": str(corpora[0]), "weight": 1.0}]


@pytest.mark.filterwarnings("ignore::keras_bert2d.errors.InputWarning")
def test_damaged_utf8_and_a_word_of_ten_thousand_letters_pass_through(tokenizer, tmp_path):
    (tmp_path / "text").write_bytes("şu\n".encode() + b"ev \xff\xfe bir\n" + b"a" * 10_000 + b"\n\x00\n")
    manifest = make([tmp_path / "text"], tokenizer, tmp_path / "out", shard_bytes=1 << 20)
    _, (_, _, first), (_, _, second) = read_texts(tmp_path / "out", manifest, tokenizer)
    assert first[0] == [tokenizer.token_to_id("ev")] and first[-1] == [tokenizer.token_to_id("bir")]
    assert second == [[tokenizer.unk_token_id]]
    check_digests(tmp_path / "out", manifest)


@pytest.mark.parametrize("text", ["", " \n\n\t\n"])
def test_an_input_without_text_is_refused_and_leaves_no_folder(tokenizer, tmp_path, text):
    (tmp_path / "text").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="holds no line of text"):
        make([tmp_path / "text"], tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_input_of_control_characters_is_refused(tokenizer, tmp_path):
    (tmp_path / "text").write_text("\x01\n\x02\n", encoding="utf-8")
    with pytest.raises(InputError, match="no word"):
        make([tmp_path / "text"], tokenizer, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_a_malformed_line_is_named_and_leaves_no_manifest(tokenizer, tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": "ev"}\n{"text": 7}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"text\.jsonl:2: field 'text' must hold a string"):
        make([tmp_path / "text.jsonl"], tokenizer, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST).exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"part": (0, 2)}, "Received: 0/2"),
        ({"part": (3, 2)}, "Received: 3/2"),
        ({"part": (1, 0)}, "Received: 1/0"),
        ({"weights": [1]}, "each of the 2 corpora"),
        ({"weights": [1, 0]}, "weight above 0"),
        ({"weights": [1, float("nan")]}, "weight above 0"),
        ({"shard_bytes": 0}, "shard_bytes=0"),
        ({"document": "page"}, "document='page'"),
    ],
)
def test_impossible_arguments_are_refused_and_leave_no_folder(
    corpora, tokenizer, tmp_path, arguments, message
):
    with pytest.raises(InputError, match=message):
        make(corpora, tokenizer, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_pieces_of_a_long_corpus_are_the_same_in_many_batches(tokenizer, tmp_path, monkeypatch):
    """Batches of lines are tokenised side by side and come back in order."""
    (tmp_path / "text").write_text("".join(f"ev {i}\n" for i in range(50)), encoding="utf-8")
    monkeypatch.setattr(prepare_module, "_BATCH_BYTES", 40)
    manifest = make([tmp_path / "text"], tokenizer, tmp_path / "out", shard_bytes=1 << 20)
    expected = tokenizer.tokenize([f"ev {i}" for i in range(50)]).to_list()
    assert [text for *_, text in read_texts(tmp_path / "out", manifest, tokenizer)] == expected
    assert np.sum(manifest.piece_counts) == manifest.pieces
