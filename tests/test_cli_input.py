"""The command and what real users' files are like: other encodings, packings, casings."""

import bz2
import json
import lzma
import subprocess
import sys

import pytest

from keras_bert2d.cli import figure, main

TEXT = "Üniversitenin öğrencileri İstanbul'da Işık gördü.\nEvler büyük, IŞIK küçük.\n\nBir ev.\n" * 40


def run(capsys, *arguments, code=0):
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def run_json(capsys, *arguments):
    output, errors = run(capsys, *arguments, "--json")
    return json.loads(output), errors


def last_line(errors):
    return errors.splitlines()[-1]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "corpus.txt"


def test_the_encoding_is_refused_or_named(tmp_path, capsys, corpus):
    legacy = tmp_path / "legacy.txt"
    legacy.write_text(TEXT, encoding="iso-8859-9")
    output = tmp_path / "v.txt"
    _, errors = run(capsys, "vocab", legacy, "-o", output, "--size", 90, code=2)
    assert f"{legacy}:1: the first line that is not UTF-8, as are 100%" in errors
    assert errors.count("\n") == 1
    assert not output.exists()
    run(capsys, "vocab", corpus, "-o", output, "--size", 90)
    expected = output.read_text(encoding="utf-8")
    run(capsys, "vocab", legacy, "-o", output, "--size", 90, "--encoding", "iso-8859-9")
    assert output.read_text(encoding="utf-8") == expected
    _, errors = run(capsys, "prepare", legacy, "--vocab", output, "-o", tmp_path / "s", code=2)
    assert f"{legacy}:1:" in last_line(errors) and not (tmp_path / "s").exists()
    read, _ = run_json(
        capsys, "prepare", legacy, "--vocab", output, "-o", tmp_path / "s", "--encoding", "latin5"
    )
    plain, _ = run_json(capsys, "prepare", corpus, "--vocab", output, "-o", tmp_path / "t")
    assert read | {"shards": ""} == plain | {"shards": ""}
    assert (tmp_path / "s" / "shard-00000.tfrecord").read_bytes() == (
        tmp_path / "t" / "shard-00000.tfrecord"
    ).read_bytes()


def test_a_few_bad_lines_are_counted_in_one_warning(tmp_path, capsys, corpus):
    corpus.write_bytes(TEXT.encode() + b"ev \xff\n" * 2)
    _, errors = run(capsys, "vocab", corpus, "-o", tmp_path / "v.txt", "--size", 90)
    # `vocab` reads its input twice.
    (warning,) = (line for line in errors.splitlines() if "warning" in line)
    assert warning.startswith("keras-bert2d: warning: ") and f"{corpus}:161: this line and 1 more" in warning


def test_packed_corpora_give_the_same_vocabulary(tmp_path, capsys, corpus):
    for name, pack in (("a.txt.xz", lzma.compress), ("b.txt", bz2.compress)):
        (tmp_path / name).write_bytes(pack(TEXT.encode()))
        run(capsys, "vocab", tmp_path / name, "-o", tmp_path / f"{name}.v", "--size", 90)
    run(capsys, "vocab", corpus, "-o", tmp_path / "v", "--size", 90)
    texts = {(tmp_path / name).read_text(encoding="utf-8") for name in ("a.txt.xz.v", "b.txt.v", "v")}
    assert len(texts) == 1
    (tmp_path / "c.zip").write_bytes(b"PK\x03\x04 and more")
    _, errors = run(capsys, "vocab", tmp_path / "c.zip", "-o", tmp_path / "w", "--size", 90, code=2)
    assert "zip archive" in last_line(errors)


def test_casing_and_id_rules_travel_with_the_vocabulary(tmp_path, capsys, corpus):
    vocabulary = tmp_path / "v.txt"
    flags = ("--casing", "turkish", "--max-intermediate-subwords", 5)
    run(capsys, "vocab", corpus, "-o", vocabulary, "--size", 90, *flags)
    result, errors = run_json(capsys, "prepare", corpus, "--vocab", vocabulary, "-o", tmp_path / "s")
    assert result["unknown_share_of_words"] == 0 and "warning" not in errors
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["tokenizer"]["casing"] == "turkish"
    assert manifest["tokenizer"]["max_intermediate_subwords"] == 5
    for flag, value in (("--casing", "cased"), ("--max-intermediate-subwords", 3)):
        arguments = ("--vocab", vocabulary, flag, value)
        _, errors = run(capsys, "prepare", corpus, *arguments, "-o", tmp_path / "t", code=2)
        assert f"{vocabulary}.json says" in last_line(errors) and f"={value!r}" in last_line(errors)
        assert not (tmp_path / "t").exists()
        _, errors = run(capsys, "inspect", "IŞIK", *arguments, code=2)
        assert f"={value!r}" in last_line(errors)
    shown, _ = run_json(capsys, "inspect", "IŞIK", "--vocab", tmp_path / "s" / "vocabulary.txt")
    assert "[UNK]" not in [column["piece"] for column in shown["columns"]]
    _, errors = run(capsys, "inspect", "ev", "--vocab", vocabulary, "--model", tmp_path, code=2)
    assert "--vocab" in last_line(errors)


def test_unknown_words_are_counted_and_warned_of(tmp_path, capsys, corpus):
    vocabulary = tmp_path / "v.txt"
    run(capsys, "vocab", corpus, "-o", vocabulary, "--size", 90, "--casing", "turkish")
    (tmp_path / "v.txt.json").unlink()
    result, errors = run_json(capsys, "prepare", corpus, "--vocab", vocabulary, "-o", tmp_path / "s")
    # Of every 17 words, punctuation too, six have a capital letter.
    assert result["unknown_share_of_words"] == pytest.approx(6 / 17)
    assert f"keras-bert2d: warning: 35.3% of the words of {corpus} are [UNK]" in last_line(errors)
    assert "'cased'" in last_line(errors)


def test_help_version_and_a_missing_argument_do_not_import_tensorflow():
    program = (
        "import sys; from keras_bert2d.cli import main\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print('heavy', sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)), code)"
    )
    for arguments, code in (
        ("--version", 0),
        ("--help", 0),
        ("pretrain --help", 0),
        ("finetune tag --help", 0),
        ("pretrain --data somewhere", 2),
        ("prepare", 2),
        ("", 2),
    ):
        command = [sys.executable, "-c", program, *arguments.split()]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert shown.splitlines()[-1] == f"heavy [] {code}", arguments


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.000"), (0.0012345, "0.001234"), (2e-7, "2.000e-07"), (-0.5, "-0.5000"), (float("nan"), "nan")],
)
def test_figures_keep_their_significant_digits(value, text):
    assert figure(value) == text


def test_nothing_but_the_result_is_on_stdout(tmp_path, corpus):
    arguments = ["vocab", corpus, "-o", tmp_path / "v.txt", "--size", "90", "--json"]
    command = [sys.executable, "-m", "keras_bert2d.cli", *map(str, arguments)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(shown)["size"] <= 90 and shown.count("\n") == 1
