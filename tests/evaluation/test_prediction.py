import functools
import io
import json
import types

import pytest

from keras_bert2d.data.conll import NO_LABEL, read_tagged
from keras_bert2d.errors import InputError
from keras_bert2d.evaluation.prediction import predict_file
from keras_bert2d.evaluation.tagging import evaluate_tagger
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.presets import preset_folder, task_name
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from tests.tagged import conll, conllu, save_masked_lm, save_tagger, tokenizer_and_backbone

LABELS = ["DET", "NOUN", "PUNCT", "VERB"]


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """Every preset is loaded once, as its predictions are traced once then."""
    with pytest.MonkeyPatch.context() as patch:
        for model in (Bert2DTokenClassifier, Bert2DMaskedLM):
            patch.setattr(model, "from_preset", functools.cache(model.from_preset))
        yield


@pytest.fixture(scope="module")
def tagger(tmp_path_factory, tiny_vocabulary):
    return save_tagger(tmp_path_factory.mktemp("tagger") / "preset", tiny_vocabulary, LABELS)


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory, tiny_vocabulary):
    return save_masked_lm(tmp_path_factory.mktemp("masked_lm") / "preset", tiny_vocabulary)


def predict(*args, **kwargs):
    target = io.StringIO()
    predict_file(*args[:2], target, *args[2:], **kwargs)
    return target.getvalue()


def test_conllu_comes_back_with_predicted_tags_and_all_else_as_it_was(tmp_path, tagger):
    path = tmp_path / "in.conllu"
    path.write_text(conllu(1, 5), encoding="utf-8")
    output = predict(tagger, str(path)).splitlines()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(output) == len(lines)
    for got, given in zip(output, lines, strict=True):
        if given[:1].isdigit() and "-" not in given.split("\t")[0]:
            got, given = got.split("\t"), given.split("\t")
            assert got[3] in LABELS
            got[3] = given[3]
        assert got == given
    (tmp_path / "out.conllu").write_text("\n".join(output) + "\n", encoding="utf-8")
    predicted = [s.labels for s in read_tagged(tmp_path / "out.conllu")]
    model = Bert2DTokenClassifier.from_preset(tagger)
    assert predicted == model.predict([s.words for s in read_tagged(path)], verbose=0)


def test_columns_come_back_with_predicted_labels(tmp_path, tagger):
    path = tmp_path / "in.conll"
    path.write_text(conll(1, 4), encoding="utf-8")
    rows = [line.split("\t") for line in predict(tagger, str(path)).splitlines()]
    given = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in rows] == [row[0] for row in given]
    # A row of 16 pieces ends within a sentence of names that are spelt in letters.
    assert {row[1] for row in rows if row[0]} - {"<none>"} <= set(LABELS)
    assert rows[0][1] in LABELS


def test_a_format_that_is_given_wins_over_the_name(tmp_path, tagger):
    path = tmp_path / "in.txt"
    path.write_text("evler NOUN\nkitap NOUN\n", encoding="utf-8")
    words = predict(tagger, str(path), "conll").split()
    assert words[::2] == ["evler", "kitap"]
    # As text the labels are words too.
    assert predict(tagger, str(path)).split()[2::4] == ["NOUN", "NOUN"]


def test_a_word_that_the_row_has_no_room_for_gets_a_mark_of_its_own_and_null(tmp_path, tagger):
    path = tmp_path / "in.conll"
    # A file in which nothing is annotated can be labelled.
    path.write_text("evler\t_\n" * 20, encoding="utf-8")
    columns = predict(tagger, str(path))
    labels = [line.split("\t")[1] for line in columns.splitlines() if line]
    assert labels[0] in LABELS and labels[-1] == NO_LABEL == "<none>"
    assert json.loads(predict(tagger, str(path), as_json=True))["labels"][-1] is None
    path.write_text(columns, encoding="utf-8")
    again = read_tagged(path)[0].labels
    assert again == [None if label == NO_LABEL else label for label in labels]
    words = "".join(f"{i}\tevler\t_\t_" + "\t_" * 6 + "\n" for i in range(1, 21))
    (tmp_path / "in.conllu").write_text(words, encoding="utf-8")
    assert predict(tagger, str(tmp_path / "in.conllu")).splitlines()[19].split("\t")[3] == NO_LABEL
    (tmp_path / "in.txt").write_text("evler " * 20 + "\n", encoding="utf-8")
    text = str(tmp_path / "in.txt")
    assert predict(tagger, text).splitlines()[19] == f"evler\t{NO_LABEL}"
    assert json.loads(predict(tagger, text, as_json=True))["words"][19]["label"] is None


def test_files_in_another_encoding_are_read_with_its_name(tmp_path, tagger):
    for name, text in (("a.conll", "ışık\tNOUN\n"), ("a.txt", "ışık\n")):
        (tmp_path / name).write_bytes(text.encode("iso-8859-9"))
        found = predict(tagger, str(tmp_path / name), encoding="iso-8859-9")
        assert found.split("\t")[0] == "ışık"
    (tmp_path / "gold.conll").write_bytes("ışık\tNOUN\n".encode("iso-8859-9"))
    assert evaluate_tagger(tagger, str(tmp_path / "gold.conll"), encoding="iso-8859-9")["words"] == 1


@pytest.mark.filterwarnings("ignore:.*cannot be decoded")
def test_texts_are_split_into_words_with_their_places(tmp_path, tagger):
    path = tmp_path / "in.txt"
    # Some lines in UTF-8 beside a bad one, or the file is taken for one in another encoding.
    path.write_bytes("Evler, kitap.\n\nbir \xff".encode() + b"\xff\n" + "ışık\nöğle\n".encode())
    blocks = predict(tagger, str(path)).strip("\n").split("\n\n")
    assert [[line.split("\t")[0] for line in block.splitlines()] for block in blocks][0] == [
        "Evler", ",", "kitap", ".",
    ]  # fmt: skip
    rows = [json.loads(line) for line in predict(tagger, str(path), as_json=True).splitlines()]
    assert rows[0]["text"] == "Evler, kitap." and rows[1]["text"] == "bir ÿ\ufffd"
    for row in rows:
        for word in row["words"]:
            assert row["text"][word["start"] : word["end"]] == word["word"]
            assert word["label"] in LABELS


def test_masks_are_filled_with_the_models_best_pieces(tmp_path, masked_lm):
    path = tmp_path / "in.txt"
    texts = ["Bir [MASK] kitap.", "[MASK] ev [MASK]"]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    expected = Bert2DMaskedLM.from_preset(masked_lm).fill_masks(texts, 3)
    rows = [json.loads(line) for line in predict(masked_lm, str(path), top_k=3, as_json=True).splitlines()]
    assert [row["text"] for row in rows] == texts
    found = [[[(c["piece"], c["probability"]) for c in mask] for mask in row["masks"]] for row in rows]
    assert found == expected and [len(masks) for masks in found] == [1, 2]
    lines = predict(masked_lm, str(path), top_k=2).splitlines()
    assert len(lines) == 5 and lines[0] == texts[0] and expected[0][0][0][0] in lines[1]


def test_more_candidates_than_pieces_are_all_pieces(tmp_path, masked_lm, tiny_vocabulary):
    path = tmp_path / "in.txt"
    path.write_text("[MASK]\n", encoding="utf-8")
    (mask,) = json.loads(predict(masked_lm, str(path), top_k=10**6, as_json=True))["masks"]
    assert len(mask) == len(tiny_vocabulary)
    assert sum(candidate["probability"] for candidate in mask) == pytest.approx(1, abs=1e-4)


def test_input_that_a_model_has_no_prediction_for_is_refused(tmp_path, tagger, masked_lm, tiny_vocabulary):
    path = tmp_path / "in.txt"
    path.write_text("Bir kitap.\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"needs a \[MASK\].*'Bir kitap.'"):
        predict(masked_lm, str(path))
    with pytest.raises(InputError, match="not of labelled words"):
        predict(masked_lm, str(path), "conll")
    with pytest.raises(InputError, match="--top-k must be at least 1. Received: 0"):
        predict(masked_lm, str(path), top_k=0)
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(InputError, match="empty.txt"):
        predict(tagger, str(tmp_path / "empty.txt"))
    with pytest.raises(InputError, match="nowhere.txt"):
        predict(tagger, str(tmp_path / "nowhere.txt"))
    tokenizer, backbone = tokenizer_and_backbone(tiny_vocabulary)
    backbone.save_to_preset(str(tmp_path / "encoder"))
    tokenizer.save_to_preset(str(tmp_path / "encoder"))
    with pytest.raises(InputError, match="an encoder without a task"):
        predict(str(tmp_path / "encoder"), str(path))


def test_evaluation_scores_the_predictions_and_warns_of_unknown_labels(tmp_path, tagger, capsys):
    path = tmp_path / "gold.conllu"
    path.write_text(conllu(2, 6).replace("\tDET\t", "\tNUM\t"), encoding="utf-8")
    scores = evaluate_tagger(tagger, str(path))
    sentences = read_tagged(path)
    model = Bert2DTokenClassifier.from_preset(tagger)
    predicted = model.predict([s.words for s in sentences], verbose=0)
    pairs = [p for s, row in zip(sentences, predicted, strict=True) for p in zip(s.labels, row, strict=True)]
    assert scores["accuracy"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert scores["words"] == len(pairs)
    assert "NUM (" in capsys.readouterr().err


def test_words_that_are_not_annotated_are_not_scored_and_a_file_of_them_is_refused(tmp_path, tagger):
    path = tmp_path / "gold.conllu"
    path.write_text(conllu(2, 6).replace("\tPUNCT\t", "\t_\t"), encoding="utf-8")
    scores = evaluate_tagger(tagger, str(path))
    every = [label for sentence in read_tagged(path) for label in sentence.labels]
    assert scores["words_not_annotated"] == every.count(None) == 6
    assert scores["words"] == len(every) - 6
    path.write_text("1\tev\t_\t_" + "\t_" * 6 + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"gold\.conllu: no word is annotated"):
        evaluate_tagger(tagger, str(path))


# *Ali Bey* and *Veli* of one type side by side, then a name of another.
NAMES = {
    "IOB2": ["B-PER", "I-PER", "B-PER", "O", "B-LOC"],
    "IOB1": ["I-PER", "I-PER", "B-PER", "O", "I-LOC"],
    "BIOES": ["B-PER", "E-PER", "S-PER", "O", "S-LOC"],
    "BILOU": ["B-PER", "L-PER", "U-PER", "O", "U-LOC"],
}


class FakeTagger:
    """Predicts the labels that it was given, whatever the words."""

    def __init__(self, known, predicted):
        self.preprocessor = types.SimpleNamespace(labels=known)
        self.predicted = predicted

    def predict(self, words, verbose):
        assert [len(row) for row in words] == [len(row) for row in self.predicted]
        return self.predicted


@pytest.mark.parametrize("of_file", NAMES)
@pytest.mark.parametrize("of_tagger", NAMES)
def test_a_tagger_of_any_scheme_is_scored_on_a_file_of_any(
    tmp_path, tagger, monkeypatch, capsys, of_tagger, of_file
):
    path = tmp_path / "gold.conll"
    path.write_text("".join(f"söz\t{label}\n" for label in NAMES[of_file]), encoding="utf-8")
    known = sorted(set(NAMES[of_tagger]))

    def score(predicted):
        fake = FakeTagger(known, predicted)
        monkeypatch.setattr(Bert2DTokenClassifier, "from_preset", lambda preset: fake)
        return evaluate_tagger(tagger, str(path))

    scores = score([NAMES[of_tagger]])
    assert {scores[name] for name in ("accuracy", "f1", "precision", "recall")} == {1.0}
    said = capsys.readouterr().err.splitlines()
    assert (f"{path}: {of_file} labels, read as IOB2" in said) == (of_file != "IOB2")
    assert (f"{tagger}: predicts {of_tagger} labels, read as IOB2" in said) == (of_tagger != "IOB2")
    assert len(said) == (of_file != "IOB2") + (of_tagger != "IOB2")
    # The last name is lost: two of three found, nothing else said.
    scores = score([[*NAMES[of_tagger][:-1], None]])
    assert scores["precision"] == 1.0 and scores["recall"] == pytest.approx(2 / 3)
    assert scores["accuracy"] == 0.8 and scores["words_without_label"] == 1


def test_names_are_scored_by_words_alone_where_the_tagger_or_the_file_has_plain_classes(
    tmp_path, tagger, monkeypatch, capsys
):
    path = tmp_path / "gold.conll"
    path.write_text("ev\tNOUN\nAli\tB-PER\n", encoding="utf-8")
    fake = FakeTagger(["O", "B-PER"], [["O", "B-PER"]])
    monkeypatch.setattr(Bert2DTokenClassifier, "from_preset", lambda preset: fake)
    scores = evaluate_tagger(tagger, str(path))
    assert scores["accuracy"] == 0.5 and "f1" not in scores
    assert "NOUN (1 times)" in capsys.readouterr().err


def test_evaluation_of_a_model_that_is_no_tagger_is_refused(tmp_path, masked_lm):
    with pytest.raises(InputError, match="is no tagger"):
        evaluate_tagger(masked_lm, str(tmp_path / "any.conllu"))


def test_a_run_folder_stands_for_its_preset(tmp_path, tagger):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(InputError, match="it holds no preset"):
        preset_folder(str(run))
    (run / "checkpoints").mkdir()
    with pytest.raises(InputError, match="its run is not finished yet"):
        preset_folder(str(run))
    (run / "preset").symlink_to(tagger)
    assert preset_folder(str(run)) == str(run / "preset")
    assert preset_folder(tagger) == tagger
    assert preset_folder("hf://someone/model") == "hf://someone/model"
    with pytest.raises(InputError, match="there is no such folder"):
        preset_folder(str(tmp_path / "nowhere"))


def test_the_task_of_a_preset_is_named(tmp_path, tagger, masked_lm):
    assert task_name(tagger) == "Bert2DTokenClassifier"
    assert task_name(masked_lm) == "Bert2DMaskedLM"
    assert task_name(str(tmp_path)) is None
