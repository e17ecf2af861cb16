"""One text under the glass: its pieces, words, ids and offsets, and how masking would change it."""

from dataclasses import dataclass

import tensorflow as tf

from keras_bert2d.errors import InputError
from keras_bert2d.text.masking import MaskRules, mask_rows
from keras_bert2d.text.rows import RowRules, single_rows
from keras_bert2d.text.tokenizer import Bert2DTokenizer


@dataclass
class Inspection:
    """A text's row, piece by piece.

    Attributes:
        text: string.
        columns: list of dicts: `piece`, `id`, `word`, `subword` (the two position ids), and for pieces
            of the text `bytes` and `characters`, pairs of start and end, and `source`, the text there.
        masked: list of strings. The pieces after masking.
        labels: dict of column to the piece that masking hid there.
    """

    text: str
    columns: list[dict]
    masked: list[str]
    labels: dict[int, str]

    def to_dict(self) -> dict:
        """Returns all of it in JSON types."""
        return {
            "text": self.text,
            "columns": self.columns,
            "masked": self.masked,
            "labels": {str(column): piece for column, piece in self.labels.items()},
        }

    def to_text(self) -> str:
        """Returns a table with a line for each piece, and the masked text."""
        header = ("piece", "id", "word", "subword", "bytes", "characters", "text")
        lines = [header]
        for column in self.columns:
            spans = [
                "–".join(map(str, column[unit])) if unit in column else "" for unit in ("bytes", "characters")
            ]
            lines.append(
                (
                    column["piece"],
                    str(column["id"]),
                    str(column["word"]),
                    str(column["subword"]),
                    *spans,
                    column.get("source", ""),
                )
            )
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        table = [
            "  ".join(
                cell.rjust(w) if 0 < i < 6 else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        hidden = ", ".join(f"{piece} (column {column})" for column, piece in self.labels.items())
        return "\n".join(
            [
                *(line.rstrip() for line in table),
                "",
                f"masked   {' '.join(self.masked)}",
                f"to find  {hidden or 'nothing'}",
            ]
        )


def inspect_text(tokenizer: Bert2DTokenizer, text: str, mask_rate: float = 0.15, seed: int = 0) -> Inspection:
    """Makes one text's row and masks it.

    Args:
        tokenizer: `Bert2DTokenizer`.
        text: string.
        mask_rate: float. Share of the pieces to mask.
        seed: int. Seed of the mask.

    Returns:
        `Inspection`.

    Raises:
        InputError: The text has more words than the tokenizer's `max_words` holds.
    """
    # An argument that is no UTF-8 comes from the shell with its bytes as surrogates.
    data = text.encode("utf-8", "surrogateescape")
    pieces, starts, ends = tokenizer.tokenize_with_offsets([data], "character")
    _, byte_starts, byte_ends = tokenizer.tokenize_with_offsets([data], "byte")
    length = int(tf.size(pieces.flat_values)) + 2
    if int(pieces.row_lengths()[0]) + 2 > tokenizer.id_rules.max_words:
        raise InputError(
            f"The text has {int(pieces.row_lengths()[0])} words, a row has room for "
            f"{tokenizer.id_rules.max_words - 2}: inspect a shorter one or raise --max-words."
        )
    length = max(length, 4)
    rows = single_rows(pieces, RowRules.of(tokenizer, length))
    features, labels, weights = mask_rows(rows, MaskRules.of(tokenizer, length, mask_rate), seed, 0)

    real = int(tf.math.count_nonzero(rows["padding_mask"]))
    ids, words, places = (
        rows[name][0, :real].numpy().tolist()
        for name in ("token_ids", "word_position_ids", "subword_position_ids")
    )
    vocabulary = tokenizer.get_vocabulary()
    columns = [
        {"piece": vocabulary[i], "id": i, "word": word, "subword": place}
        for i, word, place in zip(ids, words, places, strict=True)
    ]
    spans = (part.flat_values.numpy().tolist() for part in (byte_starts, byte_ends, starts, ends))
    decoded = data.decode("utf-8", "replace")
    for column, first_byte, last_byte, first, last in zip(columns[1:-1], *spans, strict=True):
        column |= {
            "bytes": [first_byte, last_byte],
            "characters": [first, last],
            "source": decoded[first:last],
        }
    hidden = zip(features["mask_positions"][0].numpy(), labels[0].numpy(), weights[0].numpy(), strict=True)
    return Inspection(
        text=decoded,
        columns=columns,
        masked=[vocabulary[i] for i in features["token_ids"][0, :real].numpy()],
        labels={int(column): vocabulary[label] for column, label, weight in hidden if weight},
    )
