"""How a vocabulary cuts a text's words into pieces, and the M that this calls for."""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.progress import progress
from keras_bert2d.reading.texts import input_size, read_text_blocks
from keras_bert2d.text.special_tokens import UNK
from keras_bert2d.text.tokenizer import Bert2DTokenizer

# The share of the words' intermediate pieces that the M named in the result covers.
COVERAGE = 0.95
_LINES_AT_ONCE = 8192
_BAR_WIDTH = 30
# The table ends at the word length that this share of the words does not pass.
_SHOWN_SHARE = 0.9999


@dataclasses.dataclass(frozen=True)
class Fertility:
    """Counts of words by the number of their pieces, and what follows from them.

    A word of k pieces has m = max(0, k − 2) intermediate pieces, those between its first and its
    last. M covers a word's intermediate pieces where m ≤ M: then each has a position of its own.

    Attributes:
        distribution: dict of int to int. The number of words that have k pieces, by k, for every k
            that occurs, in rising order.
        unknown: int. The number of words that are `[UNK]`; each of them is one piece.

    Example:

    >>> fertility = Fertility({1: 6, 2: 2, 3: 1, 4: 1}, unknown=1)
    >>> fertility.words, fertility.pieces, fertility.pieces_per_word
    (10, 17, 1.7)
    >>> fertility.covering_subwords, round(fertility.covered_share(1), 3)
    (2, 0.333)
    """

    distribution: dict[int, int]
    unknown: int

    @property
    def words(self) -> int:
        """The number of words."""
        return sum(self.distribution.values())

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return sum(length * count for length, count in self.distribution.items())

    @property
    def pieces_per_word(self) -> float:
        """Fertility: pieces a word."""
        return self.pieces / self.words

    @property
    def unknown_share_of_words(self) -> float:
        """The share of the words that are `[UNK]`."""
        return self.unknown / self.words

    @property
    def unknown_share_of_pieces(self) -> float:
        """The share of the pieces that are `[UNK]`."""
        return self.unknown / self.pieces

    @property
    def covering_subwords(self) -> int:
        """The smallest M, at least 1, that covers 95 % of all words' intermediate pieces."""
        return next(m for m in range(1, 2 + max(self.distribution)) if self.covered_share(m) >= COVERAGE)

    def covered_share(self, max_intermediate_subwords: int) -> float:
        """The share of all words' intermediate pieces in words that have at most M of them.

        Args:
            max_intermediate_subwords: int, M.

        Returns:
            A float from 0 to 1; 1 where no word has an intermediate piece.
        """
        intermediate = {k - 2: (k - 2) * count for k, count in self.distribution.items() if k > 2}
        covered = sum(n for m, n in intermediate.items() if m <= max_intermediate_subwords)
        return covered / sum(intermediate.values()) if intermediate else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures, ready for JSON."""
        return {
            "words": self.words,
            "pieces": self.pieces,
            "pieces_per_word": self.pieces_per_word,
            "unknown_share_of_words": self.unknown_share_of_words,
            "unknown_share_of_pieces": self.unknown_share_of_pieces,
            "covering_subwords": self.covering_subwords,
            "coverage": COVERAGE,
            "pieces_per_word_distribution": {str(k): n for k, n in self.distribution.items()},
        }

    def to_text(self) -> str:
        """Returns the figures as lines of text, with a histogram of pieces a word."""
        lines = [
            f"words            {self.words:,}",
            f"pieces           {self.pieces:,}",
            f"fertility        {self.pieces_per_word:.3f} pieces a word",
            f"[UNK]            {self.unknown_share_of_words:.3%} of the words, "
            f"{self.unknown_share_of_pieces:.3%} of the pieces",
            f"M                {self.covering_subwords} covers "
            f"{self.covered_share(self.covering_subwords):.1%} of the words' intermediate pieces "
            f"({COVERAGE:.0%} asked for)",
            "",
            "pieces a word       words    share",
        ]
        highest = max(self.distribution.values())
        seen = 0
        for length, count in self.distribution.items():
            if seen >= _SHOWN_SHARE * self.words:
                rest = self.words - seen
                lines.append(f"{f'{length} or more':>13} {rest:>11,} {rest / self.words:>8.2%}")
                break
            seen += count
            bar = "█" * round(_BAR_WIDTH * count / highest)
            lines.append(f"{length:>13} {count:>11,} {count / self.words:>8.2%}  {bar}".rstrip())
        return "\n".join(lines)


def measure_fertility(
    tokenizer: Bert2DTokenizer,
    files: Iterable[str | os.PathLike],
    field: str | None = None,
    encoding: str = "utf-8",
) -> Fertility:
    """Tokenises files and counts their words by the number of pieces, in bounded memory.

    Args:
        tokenizer: The tokenizer to measure.
        files: list of paths, as `keras_bert2d.reading.texts.read_text_blocks` reads them.
        field, encoding: See `keras_bert2d.reading.texts.read_text_blocks`.

    Returns:
        A `Fertility`.

    Raises:
        InputError: A file is missing or damaged, or the text has no word.
    """
    files = list(files)
    unknown_id = tokenizer.token_to_id(UNK)
    unknown = 0
    counts = np.zeros(1, np.int64)
    blocks = read_text_blocks(files, field=field, encoding=encoding)
    with tf.device("cpu"), progress(input_size(files), "measuring fertility", "B") as bar:
        for block in blocks:
            for start in range(0, len(block.lines), _LINES_AT_ONCE):
                pieces = tokenizer.tokenize(block.lines[start : start + _LINES_AT_ONCE])
                found = np.bincount(pieces.values.row_lengths().numpy(), minlength=len(counts))
                found[: len(counts)] += counts
                counts = found
                unknown += int(np.count_nonzero(pieces.flat_values.numpy() == unknown_id))
            bar.update(block.bytes_read)
    distribution = {int(k): int(counts[k]) for k in np.flatnonzero(counts)}
    if not distribution:
        raise InputError(f"the text has no word: give files with text. Received: {files}")
    return Fertility(distribution, unknown)
