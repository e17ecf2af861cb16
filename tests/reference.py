"""The design's rules as plain Python, one text or row at a time: what the graph code must equal."""

import math

import numpy as np

PAD, UNK, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def subword_ids(pieces: int, most: int, overflow: str) -> list[int]:
    """Ids of the pieces of one word: first 0, last 1, those between 2 … most + 1."""
    if pieces == 1:
        return [0]
    m = pieces - 2
    if m <= most:
        between = [2 + j for j in range(m)]
    elif overflow == "floor":
        between = [2 + math.floor(j * most / m) for j in range(m)]
    elif overflow == "rounded":
        between = [2 + math.floor(j * (most - 1) / m + 0.5) for j in range(m)]
    else:
        between = [2 + j for j in range(most)] + [1] * (m - most)
    return [0, *between, 1]


def position_ids(
    row: list[str], most: int = 3, overflow: str = "floor", numbering: str = "continue", prefix="##"
) -> tuple[list[int], list[int]]:
    """Word and subword ids of one row of piece strings, padding at its end."""
    words: list[tuple[int, int]] = []  # Number and pieces of each word.
    number, opens_text = -1, False
    pieces = [piece for piece in row if piece != PAD]
    for i, piece in enumerate(pieces):
        if opens_text:
            number = -1
        if i == 0 or opens_text or not piece.startswith(prefix):
            number += 1
            words.append((number, 0))
        words[-1] = (number, words[-1][1] + 1)
        opens_text = numbering == "restart" and piece == SEP and SEP not in pieces[:i]
    padding = [0] * (len(row) - len(pieces))
    word_ids = [number for number, count in words for _ in range(count)]
    places = [place for _, count in words for place in subword_ids(count, most, overflow)]
    return word_ids + padding, places + padding


def make_text(first, second=None, numbering="continue", most=3, overflow="floor", cls=2, sep=3):
    """Columns of `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`; texts are lists of words.

    Returns a list of `(token, segment, word id, subword id)`, one for each column.
    """
    columns = []
    for segment, words in enumerate([[[cls], *first, [sep]], None if second is None else [*second, [sep]]]):
        if words is None:
            continue
        start = 0 if segment == 0 or numbering == "restart" else len(first) + 2
        for number, word in enumerate(words, start=start):
            for token, place in zip(word, subword_ids(len(word), most, overflow), strict=True):
                columns.append((token, segment, number, place))
    return columns


def lay_out(texts_by_row: list[list[list[tuple]]], length: int, pad: int = 0) -> dict[str, list]:
    """The five keys of rows that hold such texts one after another."""
    names = ("token_ids", "segment_ids", "word_position_ids", "subword_position_ids", "padding_mask")
    padding = (pad, 0, 0, 0, 0)
    rows = []
    for texts in texts_by_row:
        row = [(*column, number) for number, text in enumerate(texts, 1) for column in text]
        assert len(row) <= length
        rows.append(row + [padding] * (length - len(row)))
    return {name: [[column[i] for column in row] for row in rows] for i, name in enumerate(names)}


def cut(words: list[list[int]], max_pieces: int, max_words: int) -> list[list[int]]:
    """Whole words from the left while they fit; a first word longer than the row is cut inside."""
    kept, used = [], 0
    for word in words[:max_words]:
        if not kept and len(word) > max_pieces:
            return [word[:max_pieces]]
        if used + len(word) > max_pieces:
            break
        kept.append(word)
        used += len(word)
    return kept


def fair_shares(first: int, second: int, room: int) -> tuple[int, int]:
    """What is left of two lengths when the longer gives way, one by one, until both fit."""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def split_text(words: list[list[int]], max_pieces: int, max_words: int) -> list[list[list[int]]]:
    """A text as texts that fit a row each; a word longer than a row becomes words that fill one."""
    pieces_of_rows = [word[i : i + max_pieces] for word in words for i in range(0, len(word), max_pieces)]
    parts, used = [], None
    for word in pieces_of_rows:
        if used is None or used + len(word) > max_pieces or len(parts[-1]) == max_words:
            parts.append([])
            used = 0
        parts[-1].append(word)
        used += len(word)
    return parts


def next_fit(groups: list[list[tuple[int, ...]]], capacities: tuple[int, ...]) -> list[bool]:
    """Which items open a bin; an item has a size for each capacity, groups share no bin."""
    openers = []
    for items in groups:
        used = None
        for sizes in items:
            opens = used is None or any(u + s > c for u, s, c in zip(used, sizes, capacities, strict=True))
            used = sizes if opens else tuple(u + s for u, s in zip(used, sizes, strict=True))
            openers.append(opens)
    return openers


def masked_words(lengths: list[int], keys: list[float], rate: float, most: int) -> set[int]:
    """Which words of a row are masked: `lengths` are pieces of each word, 0 for one never masked."""
    words = [i for i, length in enumerate(lengths) if length]
    budget = min(most, max(1, math.floor(rate * sum(lengths) + 0.5)))
    chosen, left = set(), budget
    for i in sorted(words, key=lambda i: keys[i]):
        if lengths[i] <= left:
            chosen.add(i)
            left -= lengths[i]
    if words and not chosen:
        shortest = min(lengths[i] for i in words)
        if shortest <= most:
            # Of several shortest words, the one that comes first in the random order.
            chosen = {min((i for i in words if lengths[i] == shortest), key=lambda i: keys[i])}
    return chosen


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def gelu(x: np.ndarray) -> np.ndarray:
    """x · Φ(x), Φ the standard normal distribution function."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def encoder_block(x, numbers, weights, heads: int, order: str, epsilon: float) -> np.ndarray:
    """One row `[columns, width]` through an encoder block; columns see their own text alone."""
    size = x.shape[1] // heads

    def dense(y, name):
        kernel, bias = weights[name]
        return y @ kernel + bias

    def attend(y):
        query, key, value = (dense(y, name) for name in ("query", "key", "value"))
        result = np.zeros_like(y)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(len(y)):
                seen = [j for j in range(len(y)) if numbers[j] == numbers[i]]
                scores = np.array([query[i, part] @ key[j, part] for j in seen]) / math.sqrt(size)
                shares = np.exp(scores - scores.max())
                result[i, part] = shares / shares.sum() @ value[seen, part]
        return dense(result, "attention_output")

    def feed_forward(y):
        return dense(gelu(dense(y, "intermediate")), "output_dense")

    def norm(y, name):
        return layer_norm(y, *weights[name], epsilon)

    if order == "post":
        x = norm(x + attend(x), "attention_norm")
        return norm(x + feed_forward(x), "output_norm")
    x = x + attend(norm(x, "attention_norm"))
    return x + feed_forward(norm(x, "output_norm"))
