"""The arguments of the command `keras-bert2d`; without TensorFlow, so that `--help` answers at once."""

import argparse
import dataclasses
import typing

from keras_bert2d.errors import InputError
from keras_bert2d.training.finetune_config import FinetuneConfig
from keras_bert2d.training.pretrain_config import PretrainConfig
from keras_bert2d.version import __version__


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise InputError(f"{message} (see `{self.prog} --help`)")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line; it raises `InputError` at what it cannot read."""
    parser = _Parser(prog="keras-bert2d", description="BERT encoders with two-dimensional positions.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)

    def command(name: str, help: str, **kwargs) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help, **kwargs)
        sub.set_defaults(config_class=None)
        sub.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
        return sub

    sub = command("demo", "the whole road on a small Turkish treebank, in minutes")
    sub.add_argument("-o", "--output", default="bert2d-demo", help="folder for all that is made")
    sub.add_argument("--sentence", help="a sentence to tag, instead of asking for one")

    sub = command("vocab", "train a WordPiece vocabulary and measure it")
    sub.add_argument(
        "corpora",
        nargs="+",
        help="text or JSON lines, packed or not; folders; - for standard input",
    )
    sub.add_argument("-o", "--output", required=True, help="vocabulary file to write")
    sub.add_argument("--size", type=int, default=32_000, help="pieces (default: %(default)s)")
    _rule_flags(sub, "cased")
    sub.add_argument("--min-frequency", type=int, default=2, help="least count of a merge")
    sub.add_argument("--limit-alphabet", type=int, default=1000, help="most letters kept")
    _reading_flags(sub)

    sub = command("inspect", "show a text's pieces, words, ids and offsets, and the text masked")
    sub.add_argument("text", help="the text")
    _tokenizer_flags(sub)
    sub.add_argument("--model", help="preset or run folder whose tokenizer is used")
    sub.add_argument("--seed", type=int, default=0, help="seed of the mask")
    sub.add_argument("--mask-rate", type=float, default=0.15, help="share of the pieces to mask")

    sub = command("prepare", "tokenise corpora into shards")
    sub.add_argument("corpora", nargs="+", help="corpora, as for vocab; with --merge, the folders of parts")
    _tokenizer_flags(sub)
    sub.add_argument("-o", "--output", required=True, help="shards folder")
    sub.add_argument("--weights", help="how often an epoch reads each corpus, for example 1,0.5")
    _reading_flags(sub)
    sub.add_argument("--document", default="blank", help="what ends a document: blank, line or file")
    sub.add_argument("--shard-bytes", type=int, default=4 << 20, help="bytes of text in a shard")
    sub.add_argument("--part", default="1/1", help="make only part k/n of the shards")
    sub.add_argument("--merge", action="store_true", help="merge folders of parts made elsewhere")

    sub = command("pretrain", "pretrain an encoder on shards")
    _config_flags(sub, PretrainConfig)
    sub = command("finetune", "fine-tune a pretrained encoder for a task")
    sub.add_argument("task", choices=("tag",), help="tag: a label for each word")
    _config_flags(sub, FinetuneConfig)

    sub = command("evaluate", "score a fine-tuned model on a labelled file")
    sub.add_argument("--model", required=True, help="preset or run folder")
    sub.add_argument("--test", required=True, help="labelled file")
    sub.add_argument("--format", help="conllu or conll, where the name does not tell")
    _encoding_flag(sub)

    sub = command("predict", "label the words of a file, or fill the [MASK]s of texts")
    sub.add_argument("--model", required=True, help="preset or run folder")
    sub.add_argument("--input", required=True, help="texts, one a line, CoNLL-U, CoNLL columns, or -")
    sub.add_argument("-o", "--output", help="file to write, instead of stdout")
    sub.add_argument("--format", choices=("text", "conllu", "conll"), help="where the name does not tell")
    _encoding_flag(sub)
    sub.add_argument("--top-k", type=int, default=5, help="candidates for each [MASK]")
    return parser


def _tokenizer_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vocab", help="vocabulary file")
    _rule_flags(parser, "as the vocabulary was trained, else cased")


def _rule_flags(parser: argparse.ArgumentParser, casing: str) -> None:
    parser.add_argument(
        "--casing",
        help="cased, uncased (accents stripped), lower (letters kept) or turkish (lower, with I→ı, İ→i) "
        f"(default: {casing})",
    )
    for name, kind, text in (
        ("--max-words", int, "words of one numbering (default: 512)"),
        ("--max-intermediate-subwords", int, "M, places between first and last piece (default: 3)"),
        ("--overflow", str, "floor, rounded or last (default: floor)"),
        ("--word-numbering", str, "continue or restart (default: continue)"),
    ):
        parser.add_argument(name, type=kind, help=text)


def _reading_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--field", help="field of JSON objects that holds the text")
    _encoding_flag(parser)


def _encoding_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encoding", default="utf-8", help="encoding of the files (default: %(default)s)")


def _config_flags(parser: argparse.ArgumentParser, config: type) -> None:
    """A flag for each option of a configuration, and `--config` for a file of them."""
    parser.set_defaults(config_class=config)
    parser.add_argument("--config", help="JSON file of these options; flags win over it")
    types = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        names = ["-o", "--output"] if field.name == "output" else [f"--{field.name.replace('_', '-')}"]
        kind = (typing.get_args(types[field.name]) or (types[field.name],))[0]
        known = field.default not in (dataclasses.MISSING, None, False)
        text = field.metadata["help"] + (f" (default: {field.default})" if known else "")
        if kind is bool:
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(*names, type=kind, choices=field.metadata["choices"], help=text)
