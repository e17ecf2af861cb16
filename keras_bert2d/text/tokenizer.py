"""`Bert2DTokenizer`: text to WordPiece pieces that stay together as words."""

import os
from collections.abc import Sequence

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from keras_hub.src.utils.preset_utils import load_json

from keras_bert2d.choices import CASINGS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.text import casing as casing_rules
from keras_bert2d.text.positions import IdRules
from keras_bert2d.text.ragged import keep_items
from keras_bert2d.text.special_tokens import (
    CLS,
    CONTINUATION_PREFIX,
    MASK,
    PAD,
    SEP,
    UNK,
)
from keras_bert2d.text.stand_ins import STAND_INS, widen_stand_ins
from keras_bert2d.text.vocabulary import (
    RULES,
    agreed_rules,
    check_vocabulary,
    read_rules,
    read_vocabulary,
    rules_file,
    write_vocabulary,
)
from keras_bert2d.text.words import MAX_CHARACTERS_PER_WORD, group_words, offsets_in_source

VOCABULARY_FILE = "vocabulary.txt"


@keras.saving.register_keras_serializable(package="keras_bert2d")
class Bert2DTokenizer(keras_hub.tokenizers.Tokenizer):
    """WordPiece tokenizer that keeps words together and carries the rules of the position ids.

    Words are split as BERT splits them: at white space, around every punctuation character and every
    CJK character. A word of more than 100 characters is `[UNK]` (Devlin et al. 2019, the released code).
    All of it is TensorFlow graph operations: the same pieces eagerly, in `tf.data` and in a
    `tf.function`.

    Args:
        vocabulary: list of strings, or the name of a file with one piece a line. The five special
            pieces must be in it; continuation pieces start with `##`.
        casing: `"cased"`, `"uncased"` (lower case, accents stripped), `"lower"` (lower case, letters kept)
            or `"turkish"` (the same with I→ı, İ→i). `None`: as saved beside the vocabulary file, see
            `keras_bert2d.text.vocabulary`, else `"cased"`.
        max_words: int. See `IdRules`; also the most words that a row of a task may have. `None`, here and
            below: as saved beside the vocabulary file, else the default of `IdRules`.
        max_intermediate_subwords: int. See `IdRules`.
        overflow: string. See `IdRules`.
        word_numbering: string. See `IdRules`.
        special_tokens_in_strings: bool. Whether `[CLS]`, `[SEP]`, `[PAD]` and `[MASK]` written in a text
            are those pieces; else they are punctuation and letters.
        dtype: `"int32"` for piece ids, `"string"` for the pieces themselves.

    Raises:
        InputError: A special piece is missing, a piece stands twice, or a rule is unknown or contradicts
            the one saved beside the vocabulary file.

    Example:

    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ev", "##ler", "bir", "."]
    >>> tokenizer = Bert2DTokenizer(pieces, casing="turkish")
    >>> tokenizer.tokenize(["Bir evler."]).to_list()
    [[[7], [5, 6], [8]]]
    >>> tokenizer.detokenize([[7, 5, 6, 8]]).numpy()[0].decode()
    'bir evler .'
    """

    def __init__(
        self,
        vocabulary: Sequence[str] | str | os.PathLike | None = None,
        casing: str | None = None,
        max_words: int | None = None,
        max_intermediate_subwords: int | None = None,
        overflow: str | None = None,
        word_numbering: str | None = None,
        special_tokens_in_strings: bool = False,
        dtype: str = "int32",
        **kwargs,
    ) -> None:
        if dtype not in ("int32", "string"):
            raise InputError(f'`dtype` must be "int32" or "string". Received: dtype={dtype!r}')
        super().__init__(dtype=dtype, **kwargs)
        values = (casing, max_words, max_intermediate_subwords, overflow, word_numbering)
        rules = dict(zip(RULES, values, strict=True))
        if isinstance(vocabulary, (str, os.PathLike)):
            source, vocabulary = vocabulary, read_vocabulary(vocabulary)
            rules = agreed_rules(read_rules(source, vocabulary), rules, rules_file(source))
        rules = {name: value for name, value in rules.items() if value is not None}
        self.casing = check_choice("casing", rules.pop("casing", "cased"), CASINGS)
        self.id_rules = IdRules(**rules)
        self.special_tokens_in_strings = special_tokens_in_strings
        self.file_assets = [VOCABULARY_FILE]
        for token, name in ((CLS, "cls"), (SEP, "sep"), (PAD, "pad"), (MASK, "mask"), (UNK, "unk")):
            self._add_special_token(token, f"{name}_token")
        self.vocabulary = None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    @property
    def rules(self) -> dict[str, str | int]:
        """Casing and id rules, by name."""
        return {"casing": self.casing, **self.id_rules.to_dict()}

    # === Vocabulary ===

    def set_vocabulary(self, vocabulary: Sequence[str] | str | os.PathLike) -> None:
        """Sets the vocabulary from a list of pieces or from a file with one piece a line."""
        if isinstance(vocabulary, (str, os.PathLike)):
            pieces = read_vocabulary(vocabulary)
        else:
            pieces = list(vocabulary)
            check_vocabulary(pieces, "the given vocabulary")
        self.vocabulary = pieces
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        self._update_special_token_ids()
        self._continues = np.array([piece.startswith(CONTINUATION_PREFIX) for piece in pieces])
        self._matcher = tf_text.FastWordpieceTokenizer(
            vocab=[STAND_INS.get(piece, piece) for piece in pieces],
            token_out_type=tf.int32,
            suffix_indicator=CONTINUATION_PREFIX,
            unknown_token=STAND_INS[UNK],
            # In bytes, four a character at the most; the true limit is counted in characters below.
            max_bytes_per_word=4 * MAX_CHARACTERS_PER_WORD,
        )

    def get_vocabulary(self) -> list[str]:
        """Returns the pieces in the order of their ids."""
        self._check_vocabulary()
        return list(self.vocabulary)

    def vocabulary_size(self) -> int:
        """Returns the number of pieces."""
        self._check_vocabulary()
        return len(self.vocabulary)

    def id_to_token(self, id: int) -> str:
        """Returns the piece of an id; `InputError` where there is none."""
        if not 0 <= id < self.vocabulary_size():
            raise InputError(f"`id` must be in [0, {self.vocabulary_size()}). Received: id={id}")
        return self.vocabulary[id]

    def token_to_id(self, token: str) -> int:
        """Returns the id of a piece; `InputError` where the vocabulary lacks it."""
        self._check_vocabulary()
        if token not in self._ids:
            raise InputError(f"The vocabulary has no such piece. Received: token={token!r}")
        return self._ids[token]

    # === Text to pieces ===

    def tokenize(self, inputs) -> tf.RaggedTensor:
        """Cuts texts into words and pieces.

        Args:
            inputs: string tensor or list of strings `[row]`, or one string.

        Returns:
            Ragged tensor `[row, (words), (pieces)]`, int32 ids or strings after the tokenizer's dtype;
            without the row for one string.
        """
        return self.tokenize_with_offsets(inputs, unit=None)[0]

    def tokenize_with_offsets(
        self, inputs, unit: str | None = "byte"
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Cuts texts into words and pieces and tells where in the given text each piece stands.

        Args:
            inputs: string tensor or list of strings `[row]`, or one string.
            unit: `"byte"`: offsets into the bytes given; `"character"`: offsets into
                `bytes.decode("utf-8", "replace")`; `None`: into the normalised text, in bytes (fastest).

        Returns:
            Pieces as `tokenize` gives them, and two int64 ragged tensors of the same shape: where the
            piece starts, and the place after its end.
        """
        if unit not in ("byte", "character", None):
            raise InputError(f'`unit` must be "byte", "character" or None. Received: unit={unit!r}')
        self._check_vocabulary()
        with tf.device("cpu"):
            texts = tf.convert_to_tensor(inputs, tf.string)
            if texts.shape.rank not in (None, 0, 1):
                raise InputError(
                    "Texts must be one string or strings [row]; see `tokenize_words` for words. "
                    f"Received: texts of shape {texts.shape}"
                )
            scalar = texts.shape.rank == 0
            results = self._tokenize_rows(texts[None] if scalar else texts, unit)
            return tuple(result[0] for result in results) if scalar else results

    def tokenize_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Cuts the words of a data set, which may each hold several words of BERT's.

        *İstanbul'da*, one word of a treebank, is three here: `İstanbul`, `'` and `da`.

        Args:
            words: string ragged tensor `[row, (data words)]`.

        Returns:
            Ragged tensor `[row, (data words), (words), (pieces)]`.
        """
        return words.with_values(self.tokenize(words.values))

    def detokenize(self, inputs) -> tf.Tensor:
        """Joins pieces to text, with a space between words.

        Args:
            inputs: ids or piece strings: ragged `[row, (words), (pieces)]`, ragged or nested lists
                `[row, (pieces)]`, dense `[row, pieces]`, or one row `[pieces]`. `[PAD]` is left out.

        Returns:
            String tensor `[row]`, or one string for one row.
        """
        self._check_vocabulary()
        with tf.device("cpu"):
            pieces = _as_tensor(inputs)
            one_row = pieces.shape.rank == 1
            if one_row:
                pieces = pieces[None]
            if not isinstance(pieces, tf.RaggedTensor):
                pieces = tf.RaggedTensor.from_tensor(pieces)
            if pieces.shape.rank == 3:
                pieces = pieces.merge_dims(1, 2)
            if pieces.dtype != tf.string:
                pieces = tf.gather(self._piece_strings(), pieces)
            pieces = keep_items(pieces, pieces.values != PAD)
            spaced = tf.strings.regex_replace(pieces.values, r"^", " ", replace_global=False)
            joined = tf.strings.regex_replace(spaced, rf"^ {CONTINUATION_PREFIX}(.)", r"\1")
            texts = tf.strings.strip(tf.strings.reduce_join(pieces.with_values(joined), axis=-1))
            return texts[0] if one_row else texts

    def call(self, inputs) -> tf.RaggedTensor:
        return self.tokenize(inputs)

    # === Saving ===

    def save_assets(self, dir_path: str) -> None:
        """Writes the vocabulary, one piece a line, into a folder, with its rules beside it."""
        write_vocabulary(os.path.join(dir_path, VOCABULARY_FILE), self.get_vocabulary(), self.rules)

    @classmethod
    def from_preset(cls, preset, config_file: str = "tokenizer.json", **kwargs) -> "Bert2DTokenizer":
        """Loads the tokenizer of a preset, be it a model's or its own.

        Args:
            preset: string or path. See `keras_hub.models.Tokenizer.from_preset`.
            config_file: string. The tokenizer's file in the preset.
            **kwargs: Arguments of the class that win over the saved ones.

        Raises:
            InputError: The preset holds another model's tokenizer.
        """
        saved = load_json(str(preset), config_file)
        if saved["class_name"] != cls.__name__:
            raise InputError(f"{preset} holds a {saved['class_name']}, not a {cls.__name__}.")
        tokenizer = cls.from_config({**saved["config"], **kwargs})
        tokenizer.load_preset_assets(str(preset))
        return tokenizer

    def load_assets(self, dir_path: str) -> None:
        """Reads the vocabulary that `save_assets` wrote."""
        self.set_vocabulary(os.path.join(dir_path, VOCABULARY_FILE))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "vocabulary": None,  # An asset of its own.
            **self.rules,
            "special_tokens_in_strings": self.special_tokens_in_strings,
        }

    # === Inside ===

    def _check_vocabulary(self) -> None:
        if self.vocabulary is None:
            raise InputError("The tokenizer has no vocabulary yet: pass `vocabulary=`.")

    def _piece_strings(self) -> tf.Tensor:
        return tf.constant(self.vocabulary)

    def _tokenize_rows(self, texts: tf.Tensor, unit: str | None) -> tuple[tf.RaggedTensor, ...]:
        rules = self.casing, self.special_tokens_in_strings
        if unit is None:
            normal = casing_rules.normalize(texts, *rules)
        else:
            normal, *source = casing_rules.normalize_with_sources(texts, *rules)
        ids, starts, ends = group_words(
            normal,
            *self._matcher.tokenize_with_offsets(normal),
            continues=tf.constant(self._continues),
            unknown_id=self.unk_token_id,
        )
        if unit is not None:
            if self.special_tokens_in_strings:
                starts, ends = widen_stand_ins(ids, starts, ends, self._ids)
            starts, ends = offsets_in_source(texts, normal, *source, starts, ends, unit)
        if self.compute_dtype == "string":
            ids = tf.gather(self._piece_strings(), ids)
        return ids, starts, ends


def _as_tensor(pieces) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(pieces, tf.RaggedTensor):
        return pieces
    if not isinstance(pieces, (list, tuple)):
        return tf.convert_to_tensor(pieces)
    ragged = tf.ragged.constant(pieces)
    # TensorFlow reads lists without a single piece as floats.
    return tf.cast(ragged, tf.int32) if tf.size(ragged) == 0 else ragged
