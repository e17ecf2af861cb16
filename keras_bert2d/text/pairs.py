"""Sentence pairs for next-sentence prediction (Devlin et al. 2019, section 3.1, task 2)."""

import tensorflow as tf

from keras_bert2d.text.packing import fill_rows
from keras_bert2d.text.ragged import row_and_place
from keras_bert2d.text.rows import RowRules, cut_pair, make_rows, pieces_of

FOLLOWS, RANDOM = 0, 1


def choose_pairs(
    group_splits: tf.Tensor, documents: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Chooses pairs of texts: half follow each other, half come from two documents.

    In every group texts are paired as they stand, from the first on or, in groups of more than two, from
    the second on by chance; then a coin decides for each pair whether its second text gives way to one of
    another document, each as likely as the others. A single text has no pair of its own. Where all texts
    are of one document, all pairs are true ones.

    Args:
        group_splits: int64 tensor `[groups + 1]`, row splits of texts that follow one another.
        documents: int64 tensor `[text]`, each text's document.
        seed: int64 tensor `[2]`.

    Returns:
        Three tensors `[pair]`: int64 index of the first text and of the second, int32 label, 0 where
        the second follows the first, 1 where not.
    """
    seeds = tf.unstack(tf.random.split(seed, 3, alg="philox"))
    sizes = group_splits[1:] - group_splits[:-1]
    group, place = row_and_place(sizes)
    groups = tf.size(group_splits, tf.int64) - 1
    offsets = tf.random.stateless_uniform([groups], seeds[0], 0, 2, tf.int64, alg="philox")
    offsets = tf.where(sizes > 2, offsets, 0)
    index = tf.range(tf.size(documents, tf.int64))
    leads = (place % 2 == tf.gather(offsets, group)) & (index + 1 < tf.gather(group_splits[1:], group))
    first = tf.boolean_mask(index, leads)

    order = tf.argsort(documents, stable=True)
    by_document = tf.gather(documents, order)
    own = tf.gather(documents, first)
    starts = tf.searchsorted(by_document, own, side="left", out_type=tf.int64)
    ends = tf.searchsorted(by_document, own, side="right", out_type=tf.int64)
    others = tf.size(documents, tf.int64) - (ends - starts)
    count = tf.size(first)
    coins = tf.random.stateless_uniform([count], seeds[1], alg="philox")
    draws = tf.random.stateless_uniform([count], seeds[2], dtype=tf.float64, alg="philox")
    drawn = tf.cast(draws * tf.cast(others, tf.float64), tf.int64)
    # The texts of the pair's own document lie side by side in this order: step over them.
    drawn += tf.where(drawn >= starts, ends - starts, 0)
    is_random = (coins < 0.5) & (others > 0)
    stranger = tf.gather(order, tf.where(is_random, drawn, 0))
    second = tf.where(is_random, tf.cast(stranger, tf.int64), first + 1)
    return first, second, tf.where(is_random, RANDOM, FOLLOWS)


def pack_pairs(
    first: tf.RaggedTensor, second: tf.RaggedTensor, labels: tf.Tensor, rules: RowRules, max_pairs: int
) -> dict[str, tf.Tensor]:
    """Packs pairs into rows, each pair with its own `[CLS] … [SEP] … [SEP]`, cut fairly.

    Args:
        first, second: int32 ragged tensors `[pair, (words), (pieces)]`.
        labels: int32 tensor `[pair]`.
        rules: `RowRules`.
        max_pairs: int. Most pairs of a row.

    Returns:
        The five int32 tensors `[row, sequence_length]` and, `[row, max_pairs]`, int32
        `pair_positions`, the column of each pair's `[CLS]`, int32 `pair_labels` and float32 `pair_weights`.
    """
    first, second = cut_pair(first, second, rules)
    lengths = pieces_of(first) + pieces_of(second) + 3
    per_row = fill_rows(lengths, rules.sequence_length, max_pairs)
    rows = make_rows(rules, first, second, per_row)
    ends = tf.cumsum(lengths)
    row, _ = row_and_place(per_row)
    row_starts = tf.gather(tf.concat([[0], ends], 0), tf.cumsum(per_row, exclusive=True))
    positions = ends - lengths - tf.gather(row_starts, row)

    def dense(flat: tf.Tensor) -> tf.Tensor:
        return tf.RaggedTensor.from_row_lengths(flat, per_row, validate=False).to_tensor(
            shape=[None, max_pairs]
        )

    rows["pair_positions"] = dense(tf.cast(positions, tf.int32))
    rows["pair_labels"] = dense(labels)
    rows["pair_weights"] = tf.sequence_mask(per_row, max_pairs, tf.float32)
    return rows
