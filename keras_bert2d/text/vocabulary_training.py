"""Training of a WordPiece vocabulary: words are counted here, `tokenizers` merges the pieces."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf
import tokenizers
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from keras_bert2d.choices import CASINGS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.progress import progress, say, stdout_to_stderr
from keras_bert2d.reading.texts import input_size, read_text_blocks
from keras_bert2d.text.casing import normalize
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.special_tokens import CONTINUATION_PREFIX, SPECIAL_TOKENS, UNK
from keras_bert2d.text.vocabulary import write_vocabulary
from keras_bert2d.text.words import MAX_CHARACTERS_PER_WORD

# The characters that BERT makes words of their own: punctuation (in ASCII all that is no letter or
# digit) and CJK ideographs.
_WORDS_OF_THEIR_OWN = (
    r"[!-/:-@\[-`{-~\p{P}"
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}"
    r"\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"
)
_REPEATS_A_STRING = 1000


def train_vocabulary(
    files: Iterable[str | os.PathLike],
    vocabulary_size: int,
    casing: str = "cased",
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
    output: str | os.PathLike | None = None,
    field: str | None = None,
    encoding: str = "utf-8",
    id_rules: Mapping[str, int | str] | None = None,
) -> list[str]:
    r"""Trains a WordPiece vocabulary on raw text.

    The text is read once, a block at a time: what stays in memory are its distinct words with their
    counts. Words are those that `Bert2DTokenizer` makes of the same text; words over 100 characters
    and words with a letter outside the alphabet are left out, as both are `[UNK]` later.

    The same text gives the same vocabulary, in this order: the special pieces, the letters, the
    letters that continue words, then the merged pieces, the most frequent merge first.

    Args:
        files: list of paths, as `keras_bert2d.reading.texts.read_text_blocks` reads them.
        vocabulary_size: int. The number of pieces, special pieces and letters included; fewer come
            back where the text is too small to merge so many.
        casing: `"cased"`, `"uncased"`, `"lower"` or `"turkish"`, as the tokenizer will have it.
        min_frequency: int. How often two pieces must stand side by side to be merged.
        limit_alphabet: int. How many letters to keep, the most frequent ones. Chinese needs more
            than the default.
        output: The vocabulary file to write, one piece a line, or `None`. The casing is written beside it,
            and the tokenizer finds it there.
        field, encoding: See `keras_bert2d.reading.texts.read_text_blocks`.
        id_rules: dict. Id rules to write beside the vocabulary too, arguments of `IdRules`; rules that are
            left out are the tokenizer's to choose.

    Returns:
        The pieces in the order of their ids.

    Raises:
        InputError: A file is missing or damaged, the text has no word, or a number is too small.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "evler.txt")
    >>> _ = path.write_text("ev evler evlerde\nEVLER\n", encoding="utf-8")
    >>> train_vocabulary([path], 20, casing="turkish")
    ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'd', 'e', 'l', 'r', 'v',
     '##d', '##e', '##l', '##r', '##v', 'ev', '##er', '##ler', 'evler']
    """
    check_choice("casing", casing, CASINGS)
    id_rules = dict(id_rules or {})
    IdRules(**id_rules)
    for name, value in (("min_frequency", min_frequency), ("limit_alphabet", limit_alphabet)):
        if value < 1:
            raise InputError(f"{name} must be at least 1. Received: {name}={value}")
    words, counts = _count_words(files, casing, field, encoding)
    letters, continuing, fits = _alphabet(words, counts, limit_alphabet)
    first_pieces = [*SPECIAL_TOKENS, *letters, *(CONTINUATION_PREFIX + c for c in continuing)]
    if vocabulary_size <= len(first_pieces):
        raise InputError(
            f"vocabulary_size must be over {len(first_pieces)}, the special pieces and the letters "
            "of the text: give more, or a smaller limit_alphabet to keep fewer letters. "
            f"Received: vocabulary_size={vocabulary_size}, limit_alphabet={limit_alphabet}"
        )
    kept = np.flatnonzero(fits)
    say(f"merging pieces of {len(kept):,} distinct words")
    # Left alone, the library numbers the continuing letters in the order of a hash table, anew in
    # each process, and breaks ties between merges by those numbers. Given first, they keep ours.
    trainer = WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=min_frequency,
        special_tokens=first_pieces,
        continuing_subword_prefix=CONTINUATION_PREFIX,
        show_progress=sys.stderr.isatty(),
    )
    model = tokenizers.Tokenizer(WordPiece(unk_token=UNK))
    model.pre_tokenizer = WhitespaceSplit()
    with stdout_to_stderr():
        model.train_from_iterator(_repeat(words, counts, kept), trainer)
    ids = model.get_vocab()
    pieces = sorted(ids, key=ids.get)
    if output is not None:
        write_vocabulary(output, pieces, {"casing": casing, **id_rules})
    return pieces


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits normalised texts into words as BERT does.

    Args:
        texts: string tensor `[row]`, as `keras_bert2d.text.casing.normalize` gives it.

    Returns:
        String ragged tensor `[row, (words)]`.

    Example:

    >>> [word.decode() for word in split_words(tf.constant(["İstanbul'da mı?"])).to_list()[0]]
    ['İstanbul', "'", 'da', 'mı', '?']
    """
    return tf.strings.split(tf.strings.regex_replace(texts, f"({_WORDS_OF_THEIR_OWN})", r" \1 "))


def _count_words(
    files: Iterable[str | os.PathLike], casing: str, field: str | None, encoding: str
) -> tuple[list[str], np.ndarray]:
    """Returns the distinct words of the files, in the order of first use, and their counts."""
    files = list(files)
    counter: Counter[bytes] = Counter()
    # Before the bar is there: what is refused at once is refused in one line.
    blocks = read_text_blocks(files, field=field, encoding=encoding)
    with tf.device("cpu"), progress(input_size(files), "counting words", "B") as bar:
        for block in blocks:
            words = split_words(normalize(tf.constant(block.lines), casing)).values
            short = tf.strings.length(words, unit="UTF8_CHAR") <= MAX_CHARACTERS_PER_WORD
            counter.update(tf.boolean_mask(words, short).numpy().tolist())
            bar.update(block.bytes_read)
    if not counter:
        raise InputError(f"the text has no word: give files with text. Received: {files}")
    counts = np.fromiter(counter.values(), np.int64, len(counter))
    return [word.decode("utf-8") for word in counter], counts


def _alphabet(words: list[str], counts: np.ndarray, limit: int) -> tuple[list[str], list[str], np.ndarray]:
    """Finds the letters to keep and the words made of them alone.

    Args:
        words: The distinct words.
        counts: int64 array `[words]`.
        limit: int. The number of letters to keep.

    Returns:
        The letters and the letters that continue words, both in the order of their code points, and
        a bool array `[words]`: whether a word has no other letter.
    """
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.cumsum(lengths) - lengths
    frequency = np.bincount(codes, weights=np.repeat(counts, lengths))
    # A stable sort: of letters equally frequent the smaller code point is kept.
    order = np.argsort(-frequency, kind="stable")[:limit]
    is_kept = np.zeros(len(frequency), bool)
    is_kept[order] = frequency[order] > 0
    fits = np.logical_and.reduceat(is_kept[codes], starts)
    continues = np.repeat(fits, lengths)
    continues[starts] = False
    letters = [chr(code) for code in np.flatnonzero(is_kept)]
    return letters, [chr(code) for code in np.unique(codes[continues])], fits


def _repeat(words: list[str], counts: np.ndarray, kept: np.ndarray) -> Iterator[str]:
    """Yields each word as often as it was counted: the library takes text, no counts."""
    for index in kept:
        whole, rest = divmod(int(counts[index]), _REPEATS_A_STRING)
        for _ in range(whole):
            yield " ".join([words[index]] * _REPEATS_A_STRING)
        if rest:
            yield " ".join([words[index]] * rest)
