"""The whole road on a small Turkish treebank: text to vocabulary to encoder to tagger, in minutes."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_bert2d.analysis.fertility import measure_fertility
from keras_bert2d.data.conll import NO_LABEL, Sentence, write_tagged
from keras_bert2d.data.prepare import prepare
from keras_bert2d.data.treebanks import split_sentences, turkish_treebank_sentences
from keras_bert2d.evaluation.metrics import tagging_scores
from keras_bert2d.files import atomic_file
from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from keras_bert2d.progress import say
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.text.vocabulary_training import train_vocabulary
from keras_bert2d.training.finetune import FinetuneConfig, finetune_tagger
from keras_bert2d.training.pretrain import PretrainConfig, pretrain

EXAMPLE = "Göremediklerimizden misiniz?"
VOCABULARY_SIZE = 3000
PRETRAINING_STEPS = 500


def run_demo(output: str, sentence: str | None, show: Callable[[dict, str], None]) -> None:
    """Runs the demo; what an earlier run has finished is kept.

    Args:
        output: Folder for all that is made.
        sentence: A sentence to tag; `None` to ask for one where a person is there to type it.
        show: Called with the result and its text.

    Raises:
        InputError: The package `turkish-treebanks` is not installed.
    """
    folder = Path(output)
    paths = {name: folder / f"{name}.conllu" for name in ("train", "dev", "test")}
    parts = dict(zip(paths, split_sentences(turkish_treebank_sentences()), strict=True))
    for name, path in paths.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tagged(path, parts[name], [part.labels for part in parts[name]])
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        with atomic_file(corpus) as file:
            file.writelines(f"{part.text}\n" for part in parts["train"])
    say(f"1/5 text: {len(parts['train'])} sentences of the Turkish Web Treebank in {corpus}")

    vocabulary = folder / "vocabulary.txt"
    if not vocabulary.exists():
        train_vocabulary([corpus], VOCABULARY_SIZE, limit_alphabet=120, output=vocabulary)
    tokenizer = Bert2DTokenizer(vocabulary)
    fertility = measure_fertility(tokenizer, [corpus])
    say(
        f"2/5 vocabulary: {tokenizer.vocabulary_size()} pieces in {vocabulary}, "
        f"{fertility.pieces_per_word:.2f} pieces a word"
    )

    shards = folder / "shards"
    manifest = prepare([corpus], tokenizer, shards)
    say(f"3/5 shards: {manifest.pieces} pieces in {shards}")

    pretraining = pretrain(
        PretrainConfig.load(
            data=str(shards),
            output=str(folder / "pretraining"),
            size="tiny",
            norm_order="pre",
            dropout=0.0,
            sequence_length=64,
            batch_size=64,
            steps=PRETRAINING_STEPS,
            learning_rate=2e-3,
            held_out=0.02,
            evaluate_every=200,
            checkpoint_every=200,
        )
    )
    say(
        f"4/5 encoder: pretrained by whole-word masking in {folder / 'pretraining'}, "
        f"loss {pretraining['loss']:.2f}, right pieces {pretraining['accuracy']:.1%}"
    )

    scores = finetune_tagger(
        FinetuneConfig.load(
            model=str(folder / "pretraining"),
            output=str(folder / "tagger"),
            **{name: str(path) for name, path in paths.items()},
            # Long enough for nearly all sentences: a word that is cut off counts as wrong.
            sequence_length=160,
            epochs=6,
        )
    )
    baseline = majority_scores(parts["train"], parts["test"])
    preset = folder / "tagger" / "preset"
    say(f"5/5 tagger: {preset}")
    result = {
        "accuracy": scores["test_accuracy"],
        "majority_accuracy": baseline["accuracy"],
        "words": baseline["words"],
        "folder": str(folder),
        "model": str(preset),
    }
    show(
        result,
        f"\npart of speech, right words of {baseline['words']} in {len(parts['test'])} held-out sentences\n"
        f"  each word's most frequent tag  {baseline['accuracy']:.1%}\n"
        f"  BERT2D                         {scores['test_accuracy']:.1%}\n",
    )
    tagger = Bert2DTokenClassifier.from_preset(str(preset))
    for text in _sentences(sentence):
        say(
            "  ".join(
                f"{word.word}/{word.label or NO_LABEL}" for word in tagger.predict([text], verbose=0)[0]
            )
        )


def majority_scores(train: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, float]:
    """Scores the baseline that gives each word its most frequent tag, an unknown word that of all words.

    Args:
        train, test: lists of `Sentence`.

    Returns:
        See `tagging_scores`.
    """
    counts, total = defaultdict(Counter), Counter()
    for sentence in train:
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            if label is not None:
                counts[word][label] += 1
                total[label] += 1
    common = max(total, key=total.get, default=None)
    best = {word: labels.most_common(1)[0][0] for word, labels in counts.items()}
    predicted = [[best.get(word, common) for word in sentence.words] for sentence in test]
    return tagging_scores([sentence.labels for sentence in test], predicted, spans=False)


def _sentences(sentence: str | None):
    """The sentence given, or those that a person types; without a person, an example."""
    if sentence is not None or not sys.stdin.isatty():
        yield sentence or EXAMPLE
        return
    while True:
        try:
            # Not the prompt of `input`, which goes to stdout.
            say("a sentence to tag (empty to end):")
            typed = input().strip()
        except EOFError:
            return
        if not typed:
            return
        yield typed
