import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from keras_bert2d import demo
from keras_bert2d.cli import main
from keras_bert2d.data.conll import Sentence, read_tagged
from keras_bert2d.version import __version__
from tests.tagged import conllu, save_masked_lm, save_tagger

CORPUS = "Göremediklerimizden misiniz? Bir kitap, bir ev.\nEvler büyük; kitaplar küçük.\n\nBir ev gör.\n" * 60
TINY = (
    "--num-layers 1 --num-heads 2 --hidden-dim 16 --intermediate-dim 32 --sequence-length 16 --batch-size 8 "
    "--steps 4 --log-every 2 --evaluate-every 4 --checkpoint-every 2 --held-out-batches 1 --strategy one"
).split()


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """A folder with the input of all commands, in which they are run one after the other."""
    folder = tmp_path_factory.mktemp("road")
    (folder / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    with gzip.open(folder / "more.txt.gz", "wt", encoding="utf-8") as file:
        file.write(CORPUS)
    for i, name in enumerate(("train", "dev", "test")):
        (folder / f"{name}.conllu").write_text(conllu(i, 24), encoding="utf-8")
    return folder


def run(capsys, *arguments, code=0):
    """Runs the command; returns its stdout and stderr."""
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def run_json(capsys, *arguments):
    """Runs the command with `--json`; returns what it printed, which must be one object."""
    output, _ = run(capsys, *arguments, "--json")
    assert output.count("\n") == 1
    return json.loads(output)


# === The road, in the order of the commands ===


def test_vocab_writes_a_vocabulary_and_its_figures(road, capsys):
    arguments = ("vocab", road / "corpus.txt", road / "more.txt.gz", "-o", road / "v.txt", "--size", 90)
    result = run_json(capsys, *arguments)
    pieces = (road / "v.txt").read_text(encoding="utf-8").splitlines()
    assert len(pieces) == result["size"] <= 90
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    text, _ = run(capsys, *arguments[:2], *arguments[3:])
    assert f"{road / 'v.txt'}" in text and "M" in text


def test_inspect_prints_a_table_or_json(road, capsys):
    text, errors = run(capsys, "inspect", "Bir ev.", "--vocab", road / "v.txt")
    assert text.splitlines()[0].split()[:2] == ["piece", "id"] and errors == ""
    result = run_json(capsys, "inspect", "Bir ev.", "--vocab", road / "v.txt", "--max-words", 9)
    assert [column["word"] for column in result["columns"]][-1] == 4


def test_prepare_makes_shards_at_once_or_in_parts(road, capsys):
    arguments = ("prepare", road / "corpus.txt", road / "more.txt.gz", "--vocab", road / "v.txt")
    arguments += ("--weights", "1,0.5", "--shard-bytes", 4000, "--max-words", 64)
    whole = run_json(capsys, *arguments, "-o", road / "shards")
    assert whole["texts"] == 360 and whole["files"] > 2
    first = run_json(capsys, *arguments, "-o", road / "part1", "--part", "1/2")
    assert first == {"shards": str(road / "part1"), "finished": False}
    run(capsys, *arguments, "-o", road / "part2", "--part", "2/2")
    merged = run_json(capsys, "prepare", "--merge", road / "part1", road / "part2", "-o", road / "merged")
    assert merged == whole | {"shards": str(road / "merged")}
    assert (road / "merged/manifest.json").read_bytes() == (road / "shards/manifest.json").read_bytes()


def test_pretrain_takes_flags_and_a_file_and_flags_win(road, capsys):
    (road / "run.json").write_text(json.dumps({"size": "tiny", "seed": 3, "steps": 9, "dropout": 0}))
    result = run_json(
        capsys,
        "pretrain",
        "--config",
        road / "run.json",
        "--data",
        road / "shards",
        "-o",
        road / "run",
        *TINY,
    )
    assert result["preset"] == str(road / "run/preset") and result["loss"] > 0
    config = json.loads((road / "run/config.json").read_text())
    assert (config["seed"], config["steps"], config["dropout"]) == (3, 4, 0.0)
    again = run_json(capsys, "pretrain", "--config", road / "run/config.json")
    assert again == result


def test_a_pretrained_model_fills_masks(road, capsys):
    (road / "masked.txt").write_text("Bir [MASK] gör.\n", encoding="utf-8")
    arguments = ("predict", "--model", road / "run", "--input", road / "masked.txt", "--top-k", 2)
    assert len(run_json(capsys, *arguments)["masks"][0]) == 2
    text, _ = run(capsys, *arguments)
    assert text.splitlines()[0] == "Bir [MASK] gör." and len(text.splitlines()) == 2


def test_finetune_trains_a_tagger_which_evaluate_scores_and_predict_runs(road, capsys):
    files = [item for name in ("train", "dev", "test") for item in (f"--{name}", road / f"{name}.conllu")]
    result = run_json(
        capsys, "finetune", "tag", "--model", road / "run", *files, "-o", road / "tagger", "--epochs", 1,
        "--sequence-length", 32, "--strategy", "one",
    )  # fmt: skip
    scores = run_json(capsys, "evaluate", "--model", road / "tagger", "--test", road / "test.conllu")
    assert scores["accuracy"] == result["test_accuracy"] and scores["words"] == result["test_words"]

    output, _ = run(
        capsys,
        "predict",
        "--model",
        road / "tagger",
        "--input",
        road / "test.conllu",
        "-o",
        road / "out.conllu",
    )
    assert output == ""
    predicted, gold = read_tagged(road / "out.conllu"), read_tagged(road / "test.conllu")
    assert [sentence.words for sentence in predicted] == [sentence.words for sentence in gold]


def test_predict_reads_standard_input_in_words_and_in_columns(road, capsys, monkeypatch):
    (road / "in.conll").write_text("Bir DET\nev NOUN\n\n", encoding="utf-8")
    columns, _ = run(capsys, "predict", "--model", road / "tagger", "--input", road / "in.conll")
    assert [line.split(" ")[0] for line in columns.splitlines()] == ["Bir", "ev", ""]
    given = io.TextIOWrapper(io.BytesIO(b"Bir ev.\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", given)
    result = run_json(capsys, "predict", "--model", road / "tagger", "--input", "-")
    assert [word["word"] for word in result["words"]] == ["Bir", "ev", "."]


# === Bad input ===


@pytest.fixture(scope="module")
def presets(tmp_path_factory, tiny_vocabulary):
    folder = tmp_path_factory.mktemp("presets")
    save_masked_lm(folder / "masked_lm", tiny_vocabulary)
    save_tagger(folder / "tagger", tiny_vocabulary, ["NOUN", "VERB"])
    return folder


@pytest.fixture
def place(tmp_path, tiny_vocabulary):
    """A folder with a vocabulary and broken files of every kind."""
    text = "\n".join(tiny_vocabulary) + "\n"
    files = {
        "v.txt": text,
        "no_mask.txt": text.replace("[MASK]\n", ""),
        "twice.txt": text + "kitap\n",
        "corpus.txt": "Bir kitap.\n",
        "empty.txt": "",
        "blank.txt": " \n\n\t\n",
        "bad.conllu": conllu(0, 1).rstrip("\n").rpartition("\t")[0] + "\n\n",
        "bad.conll": "kitap NOUN\nev\n",
        "broken.jsonl": '{"text": "bir"}\n{"text": \n',
        "list.json": "[1]",
        "unknown.json": '{"colour": 1}',
        "typed.json": '{"steps": "many"}',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"bir ev\n" * 1000)[:40])
    return tmp_path


@pytest.mark.parametrize(
    "command, named",
    [
        ("vocab {0}/empty.txt -o {0}/out", "empty.txt"),
        ("vocab {0}/blank.txt -o {0}/out", "blank.txt"),
        ("vocab {0}/nowhere.txt -o {0}/out", "nowhere.txt"),
        ("vocab {0}/half.gz -o {0}/out", "half.gz"),
        ("vocab {0}/broken.jsonl -o {0}/out", "broken.jsonl:2"),
        ("vocab - -o {0}/out", "standard input"),
        ("vocab {0}/corpus.txt -o {0}/out --casing loud", "casing='loud'"),
        ("vocab {0}/corpus.txt -o {0}/out --size 3", "3"),
        ("vocab {0}/corpus.txt", "-o/--output"),
        ("inspect ev --vocab {0}/v.txt --max-words 0", "max_words=0"),
        ("inspect ev --vocab {0}/v.txt --max-intermediate-subwords 0", "max_intermediate_subwords=0"),
        ("inspect ev --vocab {0}/v.txt --overflow up", "overflow='up'"),
        ("inspect ev --vocab {0}/no_mask.txt", "no_mask.txt: the vocabulary lacks [MASK]"),
        ("inspect ev --vocab {0}/twice.txt", "twice.txt: the piece 'kitap'"),
        ("inspect ev --vocab {0}/nowhere.txt", "nowhere.txt"),
        ("inspect ev", "--vocab"),
        ("inspect ev --model {0}/nowhere", "nowhere"),
        ("inspect ev --vocab {0}/v.txt --mask-rate 2", "rate=2.0"),
        ("prepare {0}/empty.txt --vocab {0}/v.txt -o {0}/out", "empty.txt"),
        ("prepare {0}/blank.txt --vocab {0}/v.txt -o {0}/out", "blank.txt"),
        ("prepare {0}/corpus.txt --vocab {0}/no_mask.txt -o {0}/out", "[MASK]"),
        ("prepare {0}/corpus.txt --vocab {0}/v.txt --max-words 0 -o {0}/out", "max_words=0"),
        ("prepare {0}/corpus.txt --vocab {0}/v.txt -o {0}/out --part 3/2", "3/2"),
        ("prepare {0}/corpus.txt --vocab {0}/v.txt -o {0}/out --part two", "--part two"),
        ("prepare {0}/corpus.txt --vocab {0}/v.txt -o {0}/out --weights 1,2", "2.0"),
        ("prepare {0}/corpus.txt --vocab {0}/v.txt -o {0}/out --document page", "document='page'"),
        ("prepare --merge {0} -o {0}/out", "prepare.json"),
        ("pretrain --data {0} -o {0}/out", "manifest.json"),
        ("pretrain --data {0} -o {0}/out --size huge", "huge"),
        ("pretrain --data {0} -o {0}/out --steps 0", "steps"),
        ("pretrain --data {0} -o {0}/out --steps many", "--steps"),
        ("pretrain --data {0} -o {0}/out --colour red", "--colour"),
        ("pretrain --data {0}", "--output"),
        ("pretrain --config {0}/unknown.json --data {0} -o {0}/out", "'colour'"),
        ("pretrain --config {0}/typed.json --data {0} -o {0}/out", "steps must be int"),
        ("pretrain --config {0}/list.json", "list.json"),
        ("pretrain --config {0}/nowhere.json", "nowhere.json"),
        (
            "finetune tag --model {1}/masked_lm --train {0}/bad.conllu --dev {0}/bad.conllu -o {0}/out",
            "bad.conllu:",
        ),
        (
            "finetune tag --model {1}/masked_lm --train {0}/bad.conll --dev {0}/bad.conll -o {0}/out",
            "bad.conll:2",
        ),
        (
            "finetune tag --model {1}/masked_lm --train {0}/empty.txt --dev {0}/empty.txt -o {0}/out",
            "empty.txt",
        ),
        (
            "finetune tag --model {0} --train {0}/bad.conll --dev {0}/bad.conll -o {0}/out",
            "it holds no preset",
        ),
        ("finetune cook --model {0}", "cook"),
        ("evaluate --model {1}/tagger --test {0}/bad.conllu", "bad.conllu:"),
        ("evaluate --model {1}/masked_lm --test {0}/bad.conllu", "is no tagger"),
        ("predict --model {1}/tagger --input {0}/bad.conll -o {0}/out", "bad.conll:2"),
        ("predict --model {1}/tagger --input {0}/nowhere.txt -o {0}/out", "nowhere.txt"),
        ("predict --model {1}/masked_lm --input {0}/corpus.txt -o {0}/out", "needs a [MASK]"),
        ("predict --model {1}/masked_lm --input {0}/corpus.txt -o {0}/out --top-k 0", "--top-k"),
        ("predict --model {0}/nowhere --input {0}/corpus.txt -o {0}/out", "nowhere"),
        ("cook", "cook"),
        ("", "command"),
    ],
)
def test_bad_input_ends_with_one_line_that_names_it_and_nothing_half_written(
    place, presets, capsys, command, named
):
    before = sorted(place.rglob("*"))
    output, errors = run(capsys, *command.format(place, presets).split(), code=2)
    assert output == ""
    # A step that has begun shows its progress before.
    lines = [
        line for line in errors.splitlines() if line and not re.search(r"\[\d+:\d+.*/s\]$", line.rstrip())
    ]
    assert len(lines) == 1 and lines[0].startswith("keras-bert2d: "), errors
    assert named in lines[0]
    assert sorted(place.rglob("*")) == before


def test_shards_that_are_damaged_or_of_another_vocabulary_are_named(place, capsys):
    run(capsys, "prepare", place / "corpus.txt", "--vocab", place / "v.txt", "-o", place / "shards")
    pieces = (place / "v.txt").read_text(encoding="utf-8")
    (place / "other.txt").write_text(pieces + "##xyz\n", encoding="utf-8")
    arguments = ("pretrain", "--data", place / "shards", "-o", place / "out", *TINY)
    _, errors = run(capsys, *arguments, "--vocab", place / "other.txt", code=2)
    assert "vocabulary of --vocab is not the one" in errors.splitlines()[-1]
    shard = next((place / "shards").glob("*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    _, errors = run(capsys, *arguments, code=2)
    assert str(shard) in errors.splitlines()[-1] and "damaged" in errors.splitlines()[-1]
    assert not (place / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(place, capsys):
    arguments = ("prepare", place / "corpus.txt", "--vocab", place / "v.txt")
    _, errors = run(capsys, *arguments, "-o", place / "v.txt" / "shards", code=2)
    assert errors.splitlines()[-1].startswith("keras-bert2d: ") and "v.txt" in errors.splitlines()[-1]


def test_a_reader_that_leaves_early_is_no_error(place):
    command = (
        f"{sys.executable} -m keras_bert2d.cli inspect '{'ev ' * 400}' --vocab {place / 'v.txt'} | head -1"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    finished = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], env=environment, capture_output=True, text=True
    )
    assert finished.stdout.split()[:2] == ["piece", "id"]
    assert finished.stderr == "" and finished.returncode == 0


def test_help_and_version_need_no_model(capsys):
    for arguments, text in ((["--version"], __version__), (["pretrain", "--help"], "--sequence-length")):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        assert text in capsys.readouterr().out


# === The demo, without its training ===


def test_the_baseline_of_the_demo_gives_each_word_its_most_frequent_tag():
    train = [Sentence(["ev", "ev", "ev", "gör"], ["NOUN", "VERB", "NOUN", "VERB"]), Sentence(["a"], ["NOUN"])]
    test = [Sentence(["ev", "gör"], ["NOUN", "NOUN"]), Sentence(["yeni"], ["NOUN"])]
    scores = demo.majority_scores(train, test)
    assert scores == {
        "accuracy": pytest.approx(2 / 3),
        "words": 3,
        "words_without_label": 0,
        "words_not_annotated": 0,
    }


def test_the_demo_tags_the_sentence_given_or_those_that_are_typed(monkeypatch, capsys):
    assert list(demo._sentences("Bir ev.")) == ["Bir ev."]
    assert list(demo._sentences(None)) == [demo.EXAMPLE]
    lines = iter(["Ev.", "  Kitap. ", ""])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda *prompt: next(lines))
    assert list(demo._sentences(None)) == ["Ev.", "Kitap."]
    assert capsys.readouterr().out == ""


def test_the_demo_goes_the_whole_road_once_and_keeps_what_is_there(tmp_path, monkeypatch, capsys, presets):
    sentences = [Sentence(["Bir", "ev", "."], ["DET", "NOUN", "PUNCT"]) for _ in range(30)]
    calls = []
    monkeypatch.setattr(demo, "turkish_treebank_sentences", lambda: sentences)
    monkeypatch.setattr(demo, "split_sentences", lambda all: (all[:20], all[20:25], all[25:]))
    monkeypatch.setattr(demo, "VOCABULARY_SIZE", 60)
    monkeypatch.setattr(demo, "pretrain", lambda c: calls.append(c) or {"loss": 1.0, "accuracy": 0.5})

    def finetune(config):
        shutil.copytree(presets / "tagger", f"{config.output}/preset", dirs_exist_ok=True)
        return {"test_accuracy": 0.75}

    monkeypatch.setattr(demo, "finetune_tagger", finetune)
    result = run_json(capsys, "demo", "-o", tmp_path / "demo", "--sentence", "Bir ev.")
    assert result["accuracy"] == 0.75 and result["majority_accuracy"] == 1.0 and result["words"] == 15
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"train.conllu", "dev.conllu", "test.conllu", "corpus.txt", "vocabulary.txt", "shards"} <= names
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "demo").glob("*.*")}
    output, errors = run(capsys, "demo", "-o", tmp_path / "demo", "--sentence", "Bir ev.")
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert "75.0%" in output and "100.0%" in output
    assert errors.rstrip().splitlines()[-1].startswith("Bir/")
    assert calls[0] == calls[1] and calls[0].masking == "word" and calls[0].position_scheme == "two_d"
