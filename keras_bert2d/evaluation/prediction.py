"""Predictions for a file: labels of words, or candidates for `[MASK]`s."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import IO

from keras_bert2d.data.conll import NO_LABEL, Sentence, read_tagged, write_tagged
from keras_bert2d.errors import InputError
from keras_bert2d.models.masked_lm import Bert2DMaskedLM
from keras_bert2d.models.presets import preset_folder, task_name
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.progress import progress
from keras_bert2d.reading.texts import read_text_blocks

_BATCH = 64


def predict_file(
    model: str,
    path: str,
    target: IO[str],
    format: str | None = None,
    top_k: int = 5,
    as_json: bool = False,
    encoding: str = "utf-8",
) -> None:
    """Reads a file, writes it with predictions.

    A word that got no label, as its row was full, has the label `<none>`; in JSON it is null.

    Args:
        model: A preset or run folder of a tagger or a masked-LM model.
        path: Texts, one a line (`-`: standard input); for a tagger also CoNLL-U or CoNLL columns, by the
            file's name.
        target: Open text file.
        format: `"text"`, `"conllu"` or `"conll"`, where the name does not tell.
        top_k: Candidates for each `[MASK]`.
        as_json: One JSON object a text, instead of columns.
        encoding: The encoding of the file; what is written is UTF-8.

    Raises:
        InputError: The model has no predictions to make, or the file cannot be read.
    """
    if top_k < 1:
        raise InputError(f"--top-k must be at least 1. Received: {top_k}")
    # On a terminal the results themselves show how far it is, and a bar would tear them.
    shown = not target.isatty()
    preset = preset_folder(model)
    task = task_name(preset)
    if task == "Bert2DTokenClassifier":
        tagger = Bert2DTokenClassifier.from_preset(preset)
        if format is None and path.lower().endswith((".conllu", ".conll")):
            format = path.lower().rpartition(".")[2]
        if format in ("conllu", "conll"):
            _tag_sentences(tagger, read_tagged(path, format, encoding), target, as_json, shown)
        else:
            with contextlib.closing(_batches(path, encoding, shown)) as batches:
                _tag_texts(tagger, batches, target, as_json)
    elif task == "Bert2DMaskedLM":
        if format in ("conllu", "conll"):
            raise InputError(
                "A masked-LM model fills the [MASK]s of texts, one a line, not of labelled words."
            )
        model = Bert2DMaskedLM.from_preset(preset)
        with contextlib.closing(_batches(path, encoding, shown)) as batches:
            _fill_texts(model, batches, target, top_k, as_json)
    else:
        raise InputError(f"{model} holds {task or 'an encoder without a task'}: there is nothing to predict.")


def _batches(path: str, encoding: str, shown: bool) -> Iterator[list[str]]:
    blocks = read_text_blocks([path], encoding=encoding)
    with progress(None, "predicting", "texts", shown=shown) as bar:
        for block in blocks:
            for start in range(0, len(block.lines), _BATCH):
                batch = block.lines[start : start + _BATCH]
                yield [line.decode("utf-8", "replace") for line in batch]
                bar.update(len(batch))


def _tag_sentences(tagger, sentences: list[Sentence], target: IO[str], as_json: bool, shown: bool) -> None:
    with progress(len(sentences), "predicting", "sentences", shown=shown) as bar:
        for start in range(0, len(sentences), _BATCH):
            batch = sentences[start : start + _BATCH]
            labels = tagger.predict([sentence.words for sentence in batch], verbose=0)
            if as_json:
                for sentence, row in zip(batch, labels, strict=True):
                    target.write(
                        json.dumps({"words": sentence.words, "labels": row}, ensure_ascii=False) + "\n"
                    )
            else:
                write_tagged(target, batch, [[_shown(label) for label in row] for row in labels])
            bar.update(len(batch))


def _tag_texts(tagger, batches: Iterable[list[str]], target: IO[str], as_json: bool) -> None:
    for batch in batches:
        for text, words in zip(batch, tagger.predict(batch, verbose=0), strict=True):
            if as_json:
                tagged = [word._asdict() for word in words]
                target.write(json.dumps({"text": text, "words": tagged}, ensure_ascii=False) + "\n")
            else:
                target.writelines(f"{word.word}\t{_shown(word.label)}\n" for word in words)
                target.write("\n")


def _shown(label: str | None) -> str:
    return NO_LABEL if label is None else label


def _fill_texts(model, batches: Iterable[list[str]], target: IO[str], top_k: int, as_json: bool) -> None:
    top_k = min(top_k, model.backbone.vocabulary_size)
    for batch in batches:
        for text, masks in zip(batch, model.fill_masks(batch, top_k), strict=True):
            if as_json:
                filled = [[{"piece": piece, "probability": p} for piece, p in mask] for mask in masks]
                target.write(json.dumps({"text": text, "masks": filled}, ensure_ascii=False) + "\n")
            else:
                target.write(f"{text}\n")
                for mask in masks:
                    target.write("  " + "  ".join(f"{piece} {p:.3f}" for piece, p in mask) + "\n")
