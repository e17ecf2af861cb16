"""The command `keras-bert2d`: arguments in, one call into a room, results out."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import typing
import warnings

from keras_bert2d.errors import InputError
from keras_bert2d.version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: list of strings; `None` for those of the process.

    Returns:
        The exit code: 0, or 2 where the input is bad, with one line on stderr that says how to mend it.
    """
    _import_quietly()
    try:
        options = _parser().parse_args(arguments)
        options.run(options)
    except InputError as error:
        return _refuse(error)
    except BrokenPipeError:
        # The reader, `head` say, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A folder that cannot be written, a disk that is full: the user's to mend.
        return _refuse(error)
    except KeyboardInterrupt:
        print("keras-bert2d: stopped", file=sys.stderr)
        return 130
    return 0


def _refuse(error: Exception) -> int:
    print("keras-bert2d:", *str(error).splitlines(), file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise InputError(f"{message} (see `{self.prog} --help`)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="keras-bert2d", description="BERT encoders with two-dimensional positions.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)

    def command(name: str, run, help: str, **kwargs) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help, **kwargs)
        sub.set_defaults(run=run)
        sub.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
        return sub

    sub = command("demo", _demo, "the whole road on a small Turkish treebank, in minutes")
    sub.add_argument("-o", "--output", default="bert2d-demo", help="folder for all that is made")
    sub.add_argument("--sentence", help="a sentence to tag, instead of asking for one")

    sub = command("vocab", _vocab, "train a WordPiece vocabulary and measure it")
    sub.add_argument("corpora", nargs="+", help="text, .gz, JSON lines, folders, or - for standard input")
    sub.add_argument("-o", "--output", required=True, help="vocabulary file to write")
    sub.add_argument("--size", type=int, default=32_000, help="pieces (default: %(default)s)")
    sub.add_argument("--casing", default="cased", help="cased, uncased or turkish")
    sub.add_argument("--min-frequency", type=int, default=2, help="least count of a merge")
    sub.add_argument("--limit-alphabet", type=int, default=1000, help="most letters kept")
    sub.add_argument("--field", help="field of JSON objects that holds the text")

    sub = command("inspect", _inspect, "show a text's pieces, words, ids and offsets, and the text masked")
    sub.add_argument("text", help="the text")
    _tokenizer_flags(sub)
    sub.add_argument("--model", help="preset or run folder whose tokenizer is used")
    sub.add_argument("--seed", type=int, default=0, help="seed of the mask")
    sub.add_argument("--mask-rate", type=float, default=0.15, help="share of the pieces to mask")

    sub = command("prepare", _prepare, "tokenise corpora into shards")
    sub.add_argument("corpora", nargs="+", help="corpora, as for vocab; with --merge, the folders of parts")
    _tokenizer_flags(sub)
    sub.add_argument("-o", "--output", required=True, help="shards folder")
    sub.add_argument("--weights", help="how often an epoch reads each corpus, for example 1,0.5")
    sub.add_argument("--field", help="field of JSON objects that holds the text")
    sub.add_argument("--document", default="blank", help="what ends a document: blank, line or file")
    sub.add_argument("--shard-bytes", type=int, default=4 << 20, help="bytes of text in a shard")
    sub.add_argument("--part", default="1/1", help="make only part k/n of the shards")
    sub.add_argument("--merge", action="store_true", help="merge folders of parts made elsewhere")

    from keras_bert2d.training.finetune import FinetuneConfig
    from keras_bert2d.training.pretrain import PretrainConfig

    sub = command("pretrain", _pretrain, "pretrain an encoder on shards")
    _config_flags(sub, PretrainConfig)
    sub = command("finetune", _finetune, "fine-tune a pretrained encoder for a task")
    sub.add_argument("task", choices=("tag",), help="tag: a label for each word")
    _config_flags(sub, FinetuneConfig)

    sub = command("evaluate", _evaluate, "score a fine-tuned model on a labelled file")
    sub.add_argument("--model", required=True, help="preset or run folder")
    sub.add_argument("--test", required=True, help="labelled file")
    sub.add_argument("--format", help="conllu or conll, where the name does not tell")

    sub = command("predict", _predict, "label the words of a file, or fill the [MASK]s of texts")
    sub.add_argument("--model", required=True, help="preset or run folder")
    sub.add_argument("--input", required=True, help="texts, one a line, CoNLL-U, CoNLL columns, or -")
    sub.add_argument("-o", "--output", help="file to write, instead of stdout")
    sub.add_argument("--format", choices=("text", "conllu", "conll"), help="where the name does not tell")
    sub.add_argument("--top-k", type=int, default=5, help="candidates for each [MASK]")
    return parser


def _tokenizer_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vocab", help="vocabulary file")
    parser.add_argument("--casing", default="cased", help="cased, uncased or turkish")
    parser.add_argument("--max-words", type=int, default=512, help="words of one numbering")
    parser.add_argument(
        "--max-intermediate-subwords", type=int, default=3, help="M, places between first and last piece"
    )
    parser.add_argument("--overflow", default="floor", help="floor, rounded or last")
    parser.add_argument("--word-numbering", default="continue", help="continue or restart")


def _config_flags(parser: argparse.ArgumentParser, config: type) -> None:
    """A flag for each option of a configuration, and `--config` for a file of them."""
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


def _load_config(config: type, options: argparse.Namespace):
    names = {field.name for field in dataclasses.fields(config)}
    return config.load(options.config, **{name: vars(options)[name] for name in names})


def _tokenizer(options: argparse.Namespace):
    from keras_bert2d.models.presets import preset_folder
    from keras_bert2d.text.tokenizer import Bert2DTokenizer

    if getattr(options, "model", None):
        return Bert2DTokenizer.from_preset(preset_folder(options.model))
    if not options.vocab:
        raise InputError("A vocabulary is needed: name one with --vocab.")
    return Bert2DTokenizer(
        options.vocab,
        options.casing,
        options.max_words,
        options.max_intermediate_subwords,
        options.overflow,
        options.word_numbering,
    )


def _show(options: argparse.Namespace, result: dict, text: str | None = None) -> None:
    """Prints a result: as JSON where it is asked for, else as text or a table of its figures."""
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    elif text is not None:
        print(text)
    else:
        width = max(map(len, result))
        for name, value in result.items():
            print(
                f"{name:<{width}}  {value:.4f}" if isinstance(value, float) else f"{name:<{width}}  {value}"
            )


def _demo(options: argparse.Namespace) -> None:
    from keras_bert2d.demo import run_demo

    run_demo(options.output, options.sentence, lambda result, text: _show(options, result, text))


def _vocab(options: argparse.Namespace) -> None:
    from keras_bert2d.analysis.fertility import measure_fertility
    from keras_bert2d.text.tokenizer import Bert2DTokenizer
    from keras_bert2d.text.vocabulary_training import train_vocabulary

    if "-" in options.corpora:
        raise InputError("`vocab` reads its corpora twice, standard input can be read once: name a file.")
    pieces = train_vocabulary(
        options.corpora,
        options.size,
        options.casing,
        options.min_frequency,
        options.limit_alphabet,
        options.output,
        options.field,
    )
    fertility = measure_fertility(Bert2DTokenizer(pieces, options.casing), options.corpora, options.field)
    result = {"vocabulary": options.output, "size": len(pieces), **fertility.to_dict()}
    _show(options, result, f"{options.output}: {len(pieces):,} pieces\n\n{fertility.to_text()}")


def _inspect(options: argparse.Namespace) -> None:
    from keras_bert2d.analysis.inspection import inspect_text

    inspection = inspect_text(_tokenizer(options), options.text, options.mask_rate, options.seed)
    _show(options, inspection.to_dict(), inspection.to_text())


def _prepare(options: argparse.Namespace) -> None:
    from keras_bert2d.data.prepare import merge, prepare

    if options.merge:
        manifest = merge(options.corpora, options.output)
    else:
        try:
            part = tuple(int(number) for number in options.part.split("/"))
            weights = options.weights and [float(weight) for weight in options.weights.split(",")]
            number, parts = part
        except ValueError:
            raise InputError(
                "--part needs k/n and --weights numbers with commas. "
                f"Received: --part {options.part} --weights {options.weights}"
            ) from None
        manifest = prepare(
            options.corpora,
            _tokenizer(options),
            options.output,
            weights=weights,
            field=options.field,
            document=options.document,
            shard_bytes=options.shard_bytes,
            part=(number, parts),
        )
    if manifest is None:
        _show(options, {"shards": options.output, "finished": False}, "this part is done, others are not")
        return
    figures = {name: sum(getattr(s, name) for s in manifest.shards) for name in ("texts", "words", "pieces")}
    result = {
        "shards": options.output,
        "files": len(manifest.shards),
        "documents": manifest.documents,
        **figures,
    }
    _show(options, result)


def _pretrain(options: argparse.Namespace) -> None:
    from keras_bert2d.training.pretrain import PretrainConfig, pretrain

    config = _load_config(PretrainConfig, options)
    _show(
        options, {"run": config.output, "preset": os.path.join(config.output, "preset"), **pretrain(config)}
    )


def _finetune(options: argparse.Namespace) -> None:
    from keras_bert2d.training.finetune import FinetuneConfig, finetune_tagger

    config = _load_config(FinetuneConfig, options)
    scores = finetune_tagger(config)
    _show(options, {"run": config.output, "preset": os.path.join(config.output, "preset"), **scores})


def _evaluate(options: argparse.Namespace) -> None:
    from keras_bert2d.evaluation.tagging import evaluate_tagger

    _show(options, {"model": options.model, "test": options.test, **evaluate_tagger(
        options.model, options.test, options.format
    )})  # fmt: skip


def _predict(options: argparse.Namespace) -> None:
    from keras_bert2d.evaluation.prediction import predict_file
    from keras_bert2d.files import atomic_file

    target = atomic_file(options.output) if options.output else contextlib.nullcontext(sys.stdout)
    with target as file:
        predict_file(options.model, options.input, file, options.format, options.top_k, options.json)


def _import_quietly() -> None:
    """Imports TensorFlow without what its C++ side writes to stderr before anyone could ask it not to."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", module="keras")
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        import keras_hub  # noqa: F401
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


if __name__ == "__main__":
    sys.exit(main())
