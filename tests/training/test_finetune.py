import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_bert2d.data.conll import read_tagged
from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.tagging import evaluate_tagger
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.training.finetune import FinetuneConfig, Predictor, finetune_tagger
from keras_bert2d.training.loop import Loop
from keras_bert2d.training.strategies import make_strategy
from tests.tagged import conll, conllu, save_masked_lm

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"train": 60, "dev": 12, "test": 12}


def lines(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "pieces_per_second"} for row in rows]


@pytest.fixture(scope="module")
def options(tmp_path_factory, tiny_vocabulary):
    """Options of a short fine-tuning for parts of speech."""
    folder = tmp_path_factory.mktemp("tagging")
    for i, (name, count) in enumerate(PARTS.items()):
        (folder / f"{name}.conllu").write_text(conllu(i, count), encoding="utf-8")
        (folder / f"{name}.conll").write_text(conll(i, count), encoding="utf-8")
    return dict(
        model=save_masked_lm(folder / "encoder", tiny_vocabulary),
        **{name: str(folder / f"{name}.conllu") for name in PARTS},
        sequence_length=32, epochs=3, batch_size=8, learning_rate=0.03, steps_per_call=3, log_every=4,
        checkpoint_every=3, strategy="one",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory, options):
    """A run that was not killed, with its scores."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, finetune_tagger(FinetuneConfig.load(**options, output=str(folder)))


def test_a_run_folder_holds_what_the_design_says(whole):
    names = {path.name for path in whole[0].iterdir()}
    assert names == {"config.json", "metrics.jsonl", "tensorboard", "checkpoints", "preset"}


def test_it_learns_the_tags(whole):
    scores = whole[1]
    assert scores["dev_accuracy"] > 0.8 and scores["test_accuracy"] > 0.8
    assert scores["dev_words_without_label"] == 0
    assert scores["dev_words"] == sum(len(s.words) for s in read_tagged(_config(whole).dev))


def _config(whole):
    return FinetuneConfig.load(whole[0] / "config.json")


def test_the_best_epoch_on_dev_is_scored_and_saved(whole):
    folder, scores = whole
    dev = [row for row in lines(folder) if row["kind"] == "evaluation"]
    assert len(dev) == 3
    best = max(dev, key=lambda row: row["dev_accuracy"])
    assert scores["dev_accuracy"] == best["dev_accuracy"] and scores["step"] == best["step"]


def test_the_saved_preset_scores_what_the_run_said(whole):
    saved = evaluate_tagger(str(whole[0]), _config(whole).test)
    assert {f"test_{name}": value for name, value in saved.items()} == {
        name: value for name, value in whole[1].items() if name.startswith("test_")
    }


def test_predictions_under_a_strategy_are_those_of_the_model(whole):
    model = Bert2DTokenClassifier.from_preset(str(whole[0] / "preset"))
    sentences = read_tagged(_config(whole).test)
    sentences[0].words, sentences[0].labels = sentences[0].words * 20, sentences[0].labels * 20
    predicted = Predictor(make_strategy("one"), model, batch_size=5)(sentences)
    assert predicted == model.predict([sentence.words for sentence in sentences], verbose=0)
    assert predicted[0][-1] is None


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_as_if_it_had_never_stopped(tmp_path, whole, options, monkeypatch):
    config = FinetuneConfig.load(**options, output=str(tmp_path / "run"))
    evaluate, calls = Loop._evaluate, []

    def killed(*args):
        calls.append(1)
        metrics = evaluate(*args)
        # Behind the line of the second epoch, before any checkpoint has it.
        if len(calls) == 2:
            raise Killed
        return metrics

    monkeypatch.setattr(Loop, "_evaluate", killed)
    with pytest.raises(Killed):
        finetune_tagger(config)
    monkeypatch.undo()
    assert not (tmp_path / "run" / "preset").exists()
    assert finetune_tagger(config) == whole[1]
    assert lines(tmp_path / "run") == lines(whole[0])
    best = "checkpoints/best/state.safetensors"
    assert (tmp_path / "run" / best).read_bytes() == (whole[0] / best).read_bytes()


def test_a_file_of_another_run_and_a_missing_preset_are_refused(tmp_path, whole, options):
    with pytest.raises(InputError, match="holds another run: epochs is 3 there and 4 here"):
        finetune_tagger(FinetuneConfig.load(**options | {"epochs": 4}, output=str(whole[0])))
    with pytest.raises(InputError, match="nowhere cannot be used as a model"):
        finetune_tagger(
            FinetuneConfig.load(
                **options | {"model": str(tmp_path / "nowhere")}, output=str(tmp_path / "run")
            )
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"sequence_length": 2}, "sequence_length"),
        ({"dropout": 1.5}, "option dropout must lie in"),
        ({"accumulation": 3}, "batch_size=8"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_leaves_no_folder(tmp_path, options, changed, message):
    with pytest.raises(InputError, match=message):
        finetune_tagger(FinetuneConfig.load(**options | changed, output=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_line_with_a_missing_column_is_named_by_file_and_number(tmp_path, options):
    lines = conllu(0, 3).splitlines()
    lines[5] = lines[5].rpartition("\t")[0]
    (tmp_path / "bad.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.conllu:6: a word needs 10 columns"):
        finetune_tagger(
            FinetuneConfig.load(
                **options | {"train": str(tmp_path / "bad.conllu")}, output=str(tmp_path / "run")
            )
        )
    assert not (tmp_path / "run").exists()


def test_bio_columns_are_scored_by_spans(tmp_path, options):
    folder = tmp_path / "run"
    files = {name: options[name].replace(".conllu", ".conll") for name in PARTS}
    changed = files | {"random_weights": True, "label_pieces": "all", "dtype": "mixed_bfloat16", "epochs": 8}
    scores = finetune_tagger(FinetuneConfig.load(**options | changed, output=str(folder)))
    dev = [row["dev_f1"] for row in lines(folder) if row["kind"] == "evaluation"]
    assert scores["dev_f1"] == max(dev) > 0.5, dev
    assert {"test_f1", "test_precision", "test_recall", "test_accuracy"} <= scores.keys()
    model = Bert2DTokenClassifier.from_preset(str(folder / "preset"))
    assert model.preprocessor.labels == ["O", "B-LOC", "B-PER", "I-PER"]
    assert np.dtype(model.trainable_variables[0].dtype) == np.float32


BIOES = {"B-PER": "B-PER", "I-PER": "E-PER", "B-LOC": "S-LOC"}
IOB1 = {"B-PER": "I-PER", "I-PER": "I-PER", "B-LOC": "I-LOC"}


def recoded(path, target, labels):
    """Writes a file of two columns with other labels."""
    rows = [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    text = "".join("\t".join([row[0], *(labels.get(x, x) for x in row[1:])]) + "\n" for row in rows)
    target.write_text(text, encoding="utf-8")
    return str(target)


def test_names_in_any_scheme_train_and_score_as_iob2(tmp_path, options, capsys):
    # A word outside between the names, so that IOB1 has no B-.
    files = {}
    for name in PARTS:
        text = Path(options[name].replace(".conllu", ".conll")).read_text(encoding="utf-8")
        text = text.replace("Ankara'da\t", "evler\tO\nAnkara'da\t").replace("Ali\t", "evler\tO\nAli\t")
        files[name] = str(tmp_path / f"{name}.conll")
        Path(files[name]).write_text(text, encoding="utf-8")
    other = {
        "train": recoded(files["train"], tmp_path / "train.bioes", BIOES),
        "dev": recoded(files["dev"], tmp_path / "dev.iob1", IOB1),
        "test": files["test"],
    }
    flags = options | {"random_weights": True, "epochs": 1}
    expected = finetune_tagger(FinetuneConfig.load(**flags | files, output=str(tmp_path / "iob2")))
    capsys.readouterr()
    scores = finetune_tagger(FinetuneConfig.load(**flags | other, output=str(tmp_path / "other")))
    assert scores == expected
    said = capsys.readouterr().err
    assert f"{other['train']}: BIOES labels, read as IOB2" in said
    assert f"{other['dev']}: IOB1 labels, read as IOB2" in said and f"{other['test']}:" not in said


def test_words_that_are_not_annotated_are_counted_and_are_no_class(tmp_path, options):
    files = {}
    for name in PARTS:
        text = Path(options[name]).read_text(encoding="utf-8").replace("\tDET\t", "\t_\t")
        files[name] = str(tmp_path / f"{name}.conllu")
        Path(files[name]).write_text(text, encoding="utf-8")
    flags = options | files | {"random_weights": True, "epochs": 1}
    scores = finetune_tagger(FinetuneConfig.load(**flags, output=str(tmp_path / "run")))
    labels = [label for sentence in read_tagged(files["test"]) for label in sentence.labels]
    assert scores["test_words_not_annotated"] == labels.count(None) > 0
    assert scores["test_words"] == len(labels) - labels.count(None)
    saved = evaluate_tagger(str(tmp_path / "run"), files["test"])
    assert {f"test_{name}": value for name, value in saved.items()}.items() <= scores.items()
    model = Bert2DTokenClassifier.from_preset(str(tmp_path / "run" / "preset"))
    assert model.preprocessor.labels == ["NOUN", "PUNCT", "VERB"]


@pytest.mark.parametrize("name", PARTS)
def test_a_file_in_which_nothing_is_annotated_is_refused(tmp_path, options, name):
    path = tmp_path / "bare.conllu"
    path.write_text("1\tev\t_\t_" + "\t_" * 6 + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bare\.conllu: no word is annotated"):
        finetune_tagger(FinetuneConfig.load(**options | {name: str(path)}, output=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def start(tmp_path, options, name, *flags):
    path = tmp_path / "options.json"
    path.write_text(json.dumps(options))
    command = [sys.executable, "-m", "keras_bert2d.cli", "finetune", "tag", "--config", str(path), "--json"]
    return subprocess.Popen(
        [*command, "-o", str(tmp_path / name), *flags],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_run_killed_by_sigkill_at_a_random_moment_ends_as_one_that_was_not(tmp_path, options):
    options = options | {"epochs": 60, "log_every": 2}
    scores = json.loads(start(tmp_path, options, "whole").communicate(timeout=300)[0])
    process = start(tmp_path, options, "killed")
    path, wanted = tmp_path / "killed" / "metrics.jsonl", random.randint(10, 100)
    while process.poll() is None:
        if path.exists() and f'"step": {wanted - wanted % 2},' in path.read_text():
            break
        time.sleep(0.01)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    again = json.loads(start(tmp_path, options, "killed").communicate(timeout=300)[0])
    assert again | {"run": "", "preset": ""} == scores | {"run": "", "preset": ""}
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")
