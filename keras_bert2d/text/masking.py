"""Whole-word masking of rows, batch at a time, in stateless random numbers.

One row, rate 0.15, 14 pieces to choose from, so a budget of ⌊0.15 · 14 + ½⌋ = 2 pieces. Words come in
random order, here *göremedik* (3 pieces), *ev* (1), *kitaplar* (2), *bir* (1), …: the first would
exceed the 2 that are left and is skipped, *ev* is taken, *kitaplar* would exceed the 1 that is left,
*bir* is taken and the budget is full. Each masked piece becomes `[MASK]` with chance 0.8, a random piece with
chance 0.1 and stays itself with chance 0.1. Position ids are those of the unmasked pieces.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert2d.choices import MASKINGS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.text.ragged import row_and_place


@dataclasses.dataclass(frozen=True)
class MaskRules:
    """How rows are masked (Devlin et al. 2019, section 3.1; whole words as in the released code).

    Attributes:
        mask_id: int. Id of `[MASK]`.
        unmaskable_ids: tuple of int. The special pieces but `[UNK]`: they are never masked.
        replacement_weights: float64 array `[vocabulary]`. Chances of the random replacements up to a
            factor, see `replacement_weights`.
        max_predictions_per_row: int. Most pieces masked in a row; columns of `mask_positions`.
        rate: float. Share of a row's pieces to mask.
        masking: string. `"word"`: whole words only; `"token"`: single pieces.
    """

    mask_id: int
    unmaskable_ids: tuple[int, ...]
    replacement_weights: np.ndarray
    max_predictions_per_row: int
    rate: float = 0.15
    masking: str = "word"

    def __post_init__(self) -> None:
        check_choice("masking", self.masking, MASKINGS)
        if not 0 < self.rate < 1:
            raise InputError(f"The masking rate must lie between 0 and 1. Received: rate={self.rate!r}")
        if self.max_predictions_per_row < 1:
            raise InputError(
                "`max_predictions_per_row` must be at least 1. "
                f"Received: max_predictions_per_row={self.max_predictions_per_row!r}"
            )

    @classmethod
    def of(
        cls,
        tokenizer,
        sequence_length: int,
        rate: float = 0.15,
        masking: str = "word",
        max_predictions_per_row: int | None = None,
        counts: np.ndarray | None = None,
    ) -> "MaskRules":
        """Reads the special ids from a tokenizer.

        Args:
            tokenizer: `Bert2DTokenizer`.
            sequence_length: int. Columns of a row.
            rate, masking: see the class.
            max_predictions_per_row: int or `None`: the budget of a full row.
            counts: array `[vocabulary]` of how often each piece stands in the corpus, or `None` for
                uniform replacements.
        """
        if max_predictions_per_row is None:
            max_predictions_per_row = max(1, int(rate * sequence_length + 0.5))
        size = tokenizer.vocabulary_size()
        weights = np.ones(size) if counts is None else np.array(counts, np.float64)
        if weights.shape != (size,):
            raise InputError(
                f"`counts` needs one count for each of the {size} pieces of the vocabulary. "
                f"Received: counts of shape {weights.shape}"
            )
        weights[tokenizer.special_token_ids] = 0.0
        if not weights.sum() > 0:
            raise InputError("The vocabulary has no piece beside the special ones to replace pieces by.")
        return cls(
            tokenizer.mask_token_id,
            tuple(i for i in tokenizer.special_token_ids if i != tokenizer.unk_token_id),
            weights,
            max_predictions_per_row,
            rate,
            masking,
        )


def mask_rows(
    rows: dict[str, tf.Tensor],
    rules: MaskRules,
    seed: int | tf.Tensor,
    step: int | tf.Tensor,
    steps: int = 1,
) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
    """Masks a batch of rows, or the batches of several steps at once.

    Args:
        rows: dict of int32 tensors `[row, sequence_length]`, see `make_rows`. Other keys pass through.
        rules: `MaskRules`.
        seed, step: integers. The same pair gives the same masks of row 0, row 1, …
        steps: int. The rows are those of so many steps from `step` on, an equal number each: faster
            than one by one, with the same result.

    Returns:
        `(features, labels, weights)`: the rows with masked `token_ids` and with `mask_positions`, int32
        `[row, max_predictions_per_row]`; the pieces that stood there, int32 of the same shape; float32
        weights, 1 for a prediction and 0 for an empty place.
    """
    tokens = rows["token_ids"]
    count = rules.max_predictions_per_row
    keys = _draw(
        tf.shape(tokens)[0], tokens.shape[1] or tf.shape(tokens)[1], tf.float32, 0, seed, step, steps
    )
    draws = _draw(tf.shape(tokens)[0], 2 * count, tf.float64, 1, seed, step, steps)

    maskable = rows["padding_mask"] > 0
    for special in rules.unmaskable_ids:
        maskable &= tokens != special
    opens = tf.ones_like(maskable)
    if rules.masking == "word":
        opens = _differs_from_left(rows["word_position_ids"]) | _differs_from_left(rows["padding_mask"])
    chosen = choose_words(opens, maskable, rules, keys)

    places = tf.where(chosen)
    by_row = tf.RaggedTensor.from_row_lengths(
        tf.cast(places[:, 1], tf.int32), tf.math.count_nonzero(chosen, 1), validate=False
    )
    positions = by_row.to_tensor(shape=[None, count])
    weights = tf.sequence_mask(by_row.row_lengths(), count, tf.float32)
    labels = tf.gather(tokens, positions, batch_dims=1) * tf.cast(weights, tf.int32)

    kind, drawn = draws[:, :count], draws[:, count:]
    thresholds = np.cumsum(rules.replacement_weights / rules.replacement_weights.sum())
    # Rounding may leave a draw above the last threshold: the last piece with a chance takes it.
    last = int(np.flatnonzero(rules.replacement_weights)[-1])
    random_pieces = tf.searchsorted(tf.constant(thresholds), tf.reshape(drawn, [-1]), side="right")
    random_pieces = tf.reshape(tf.minimum(random_pieces, last), tf.shape(positions))
    shown = tf.where(kind < 0.8, rules.mask_id, tf.where(kind < 0.9, random_pieces, labels))

    masked = tf.tensor_scatter_nd_update(tokens, places, tf.boolean_mask(shown, weights > 0))
    return {**rows, "token_ids": masked, "mask_positions": positions}, labels, weights


def _draw(rows, columns, dtype, stream, seed, step, steps):
    """Uniform numbers `[rows, columns]` that hang on seed, step and row alone."""
    return tf.concat(
        [
            tf.random.stateless_uniform(
                tf.stack([rows // steps, columns]),
                tf.stack([2 * tf.cast(seed, tf.int64) + stream, tf.cast(step, tf.int64) + i]),
                dtype=dtype,
                alg="philox",
            )
            for i in range(steps)
        ],
        0,
    )


def choose_words(opens: tf.Tensor, maskable: tf.Tensor, rules: MaskRules, keys: tf.Tensor) -> tf.Tensor:
    """Chooses whole words in random order under each row's budget.

    Args:
        opens: bool tensor `[row, columns]`: the column's piece opens a word.
        maskable: bool tensor `[row, columns]`, equal for all pieces of a word.
        rules: `MaskRules`.
        keys: float32 tensor `[row, columns]`, random numbers in [0, 1): words come in the order of
            those in a row's first columns.

    Returns:
        bool tensor `[row, columns]`: the piece is masked.
    """
    rows, columns = tf.unstack(tf.shape(opens, tf.int64))
    # All words of all rows, one after another: a row's first column opens a word whatever stands there.
    starts = tf.where(tf.reshape(opens, [-1]))[:, 0]
    sizes = tf.concat([starts[1:], [rows * columns]], 0)[: tf.size(starts)] - starts
    wanted = tf.where(tf.gather(tf.reshape(maskable, [-1]), starts), sizes, 0)
    by_row = tf.RaggedTensor.from_row_lengths(
        tf.cast(wanted, tf.int32), tf.math.count_nonzero(opens, 1), validate=False
    )
    # One column at least, also in a batch without rows.
    lengths = by_row.to_tensor()
    lengths = tf.pad(lengths, [[0, 0], [0, tf.maximum(1 - tf.shape(lengths)[1], 0)]])
    pieces = tf.reduce_sum(lengths, 1)
    budget = tf.cast(tf.floor(rules.rate * tf.cast(pieces, tf.float64) + 0.5), tf.int32)
    budget = tf.minimum(rules.max_predictions_per_row, tf.maximum(1, budget))[:, None]

    order = tf.argsort(tf.where(lengths > 0, keys[:, : tf.shape(lengths)[1]], 2.0), axis=1)
    in_order = tf.gather(lengths, order, batch_dims=1)
    taken = _take_in_order(in_order, budget)
    # No word fits: the shortest, where a row may have so many predictions.
    nothing = ~tf.reduce_any(taken, 1, keepdims=True)
    shown = tf.where(in_order > 0, in_order, tf.int32.max)
    shortest = tf.one_hot(tf.argmin(shown, 1), tf.shape(shown)[1], on_value=True, off_value=False)
    taken |= nothing & shortest & (shown <= rules.max_predictions_per_row)

    word = tf.gather(by_row.row_starts(), tf.where(taken)[:, 0]) + tf.cast(
        tf.boolean_mask(order, taken), tf.int64
    )
    chosen, place = row_and_place(tf.gather(sizes, word))
    slots = tf.gather(tf.gather(starts, word), chosen) + place
    flat = tf.scatter_nd(slots[:, None], tf.ones_like(slots, tf.int32), [rows * columns])
    return tf.reshape(flat > 0, tf.shape(opens))


def _take_in_order(lengths: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Takes words from the left; one that would exceed what is left of the budget is skipped.

    Where a word of n pieces meets r < n that are left, every later word of more than r pieces will be
    skipped too, as what is left only shrinks: so all of them are struck out at once, and the loop runs
    once for each distinct r, not once a word.

    Args:
        lengths: int32 tensor `[row, words]`; 0 is no word.
        budget: int32 tensor `[row, 1]`.

    Returns:
        bool tensor `[row, words]`.
    """
    places = tf.range(tf.shape(lengths)[1])[None, :]
    # Running sums as a matrix product: many times faster than tf.cumsum along rows, and exact.
    triangle = tf.cast(places >= tf.transpose(places), tf.float32)

    def strike(lengths, _):
        sums = tf.cast(tf.cast(lengths, tf.float32) @ triangle, tf.int32)
        over = sums > budget
        first = tf.argmax(over, 1, output_type=tf.int32)[:, None]
        before = tf.gather(sums - lengths, first, batch_dims=1)
        struck = tf.reduce_any(over, 1, keepdims=True) & (places >= first) & (lengths > budget - before)
        return tf.where(struck, 0, lengths), tf.reduce_any(over)

    lengths, _ = tf.while_loop(lambda _, more: more, strike, (lengths, tf.constant(True)))
    return lengths > 0


def _differs_from_left(values: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.ones_like(values[:, :1], tf.bool), values[:, 1:] != values[:, :-1]], 1)
