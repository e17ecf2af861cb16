"""The command `keras-bert2d`: arguments in, one call into a room, results out."""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import sys
import warnings

from keras_bert2d.arguments import make_parser
from keras_bert2d.errors import InputError, InputWarning
from keras_bert2d.progress import say


def main(arguments: list[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: list of strings; `None` for those of the process.

    Returns:
        The exit code: 0, or 2 where the input is bad, with one line on stderr that says how to mend it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default", InputWarning)
        warnings.showwarning = _warning_line()
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        options = make_parser().parse_args(arguments)
        if options.config_class:
            options.loaded = _load_config(options.config_class, options)
        # Only now: TensorFlow takes seconds to start, and a typing error should not.
        _import_quietly()
        _COMMANDS[options.command](options)
    except InputError as error:
        return _refuse(error)
    except BrokenPipeError:
        # The reader, `head` say, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A folder that cannot be written, a disk that is full: the user's to mend.
        return _refuse(error)
    except KeyboardInterrupt:
        say("keras-bert2d: stopped")
        return 130
    return 0


def _warning_line():
    """Returns what shows a warning as one line on stderr, each once: some inputs are read twice."""
    shown = set()

    def show(message, category, *place) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            say(f"keras-bert2d: warning: {message}")

    return show


def _refuse(error: Exception) -> int:
    say(" ".join(["keras-bert2d:", *str(error).splitlines()]))
    return 2


def _load_config(config: type, options: argparse.Namespace):
    names = {field.name for field in dataclasses.fields(config)}
    return config.load(options.config, **{name: vars(options)[name] for name in names})


def _rules(options: argparse.Namespace) -> dict[str, str | int]:
    """The casing and the id rules that are given as flags."""
    from keras_bert2d.text.vocabulary import RULES

    return {name: vars(options)[name] for name in RULES if vars(options)[name] is not None}


def _tokenizer(options: argparse.Namespace):
    from keras_bert2d.models.presets import preset_folder
    from keras_bert2d.text.tokenizer import Bert2DTokenizer
    from keras_bert2d.text.vocabulary import agreed_rules

    model = getattr(options, "model", None)
    if bool(model) == bool(options.vocab):
        named = "name one with --vocab." if not model else "that of --model. Leave --vocab out."
        raise InputError(f"One vocabulary is needed: {named}")
    if model:
        tokenizer = Bert2DTokenizer.from_preset(preset_folder(model))
        agreed_rules(tokenizer.rules, _rules(options), f"The tokenizer of {model}")
        return tokenizer
    return Bert2DTokenizer(options.vocab, **_rules(options))


def _show(options: argparse.Namespace, result: dict, text: str | None = None) -> None:
    """Prints a result: as JSON where it is asked for, else as text or a table of its figures."""
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    elif text is not None:
        print(text)
    else:
        width = max(map(len, result))
        for name, value in result.items():
            print(f"{name:<{width}}  {figure(value) if isinstance(value, float) else value}")


def figure(value: float) -> str:
    """Writes a number with four significant digits, without an exponent where it can be read.

    Example:

    >>> [figure(value) for value in (0.9012345, 0.0009, 1.23456e-05, 12.3456, 98765.4, 0.0)]
    ['0.9012', '0.0009000', '1.235e-05', '12.35', '98765', '0']
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    before = math.floor(math.log10(abs(value)))
    return f"{value:.3e}" if before < -4 else f"{value:.{max(0, 3 - before)}f}"


def _demo(options: argparse.Namespace) -> None:
    from keras_bert2d.demo import run_demo

    run_demo(options.output, options.sentence, lambda result, text: _show(options, result, text))


def _vocab(options: argparse.Namespace) -> None:
    from keras_bert2d.analysis.fertility import measure_fertility
    from keras_bert2d.text.tokenizer import Bert2DTokenizer
    from keras_bert2d.text.vocabulary_training import train_vocabulary

    if "-" in options.corpora:
        raise InputError("`vocab` reads its corpora twice, standard input can be read once: name a file.")
    id_rules = _rules(options)
    casing = id_rules.pop("casing", "cased")
    pieces = train_vocabulary(
        options.corpora,
        options.size,
        casing,
        options.min_frequency,
        options.limit_alphabet,
        options.output,
        options.field,
        options.encoding,
        id_rules,
    )
    tokenizer = Bert2DTokenizer(pieces, casing)
    fertility = measure_fertility(tokenizer, options.corpora, options.field, options.encoding)
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
            encoding=options.encoding,
            shard_bytes=options.shard_bytes,
            part=(number, parts),
        )
    if manifest is None:
        _show(options, {"shards": options.output, "finished": False}, "this part is done, others are not")
        return
    result = {
        "shards": options.output,
        "files": len(manifest.shards),
        "documents": manifest.documents,
        "texts": manifest.texts,
        "words": manifest.words,
        "pieces": manifest.pieces,
        "unknown_share_of_words": manifest.unknown / manifest.words,
    }
    _show(options, result)


def _pretrain(options: argparse.Namespace) -> None:
    from keras_bert2d.training.pretrain import pretrain

    _show_run(options, pretrain(options.loaded))


def _finetune(options: argparse.Namespace) -> None:
    from keras_bert2d.training.finetune import finetune_tagger

    _show_run(options, finetune_tagger(options.loaded))


def _show_run(options: argparse.Namespace, scores: dict[str, float]) -> None:
    folder = options.loaded.output
    _show(options, {"run": folder, "preset": os.path.join(folder, "preset"), **scores})


def _evaluate(options: argparse.Namespace) -> None:
    from keras_bert2d.evaluation.tagging import evaluate_tagger

    scores = evaluate_tagger(options.model, options.test, options.format, options.encoding)
    _show(options, {"model": options.model, "test": options.test, **scores})


def _predict(options: argparse.Namespace) -> None:
    from keras_bert2d.evaluation.prediction import predict_file
    from keras_bert2d.files import atomic_file

    target = atomic_file(options.output) if options.output else contextlib.nullcontext(sys.stdout)
    with target as file:
        predict_file(
            options.model,
            options.input,
            file,
            format=options.format,
            top_k=options.top_k,
            as_json=options.json,
            encoding=options.encoding,
        )


def _import_quietly() -> None:
    """Imports TensorFlow without what its C++ side writes to stderr before anyone could ask it not to."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", module=r"keras(_hub)?(\.|$)")
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


_COMMANDS = {
    "demo": _demo,
    "vocab": _vocab,
    "inspect": _inspect,
    "prepare": _prepare,
    "pretrain": _pretrain,
    "finetune": _finetune,
    "evaluate": _evaluate,
    "predict": _predict,
}

if __name__ == "__main__":
    sys.exit(main())
