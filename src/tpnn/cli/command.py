"""main: the commands, their options, and what the shell gets back."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import tpnn


def _separator(text: str) -> str:
    r"""Return the separator of fields.

    >>> _separator("tab"), _separator(";")
    ('\t', ';')
    """
    separator = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(separator) != 1:
        raise argparse.ArgumentTypeError(f"must be one character or 'tab', found {text!r}")
    return separator


def _count(text: str) -> int:
    """Whole number of at least 1."""
    return _whole(text, least=1)


def _count_or_auto(text: str) -> int | str:
    """Whole number of at least 1, or "auto"."""
    return text if text == "auto" else _count(text)


def _whole(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least {least}, found {text!r}"
        )
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to below 1, found {text!r}")
    return share


def _objective(text: str) -> str | dict[str, Any]:
    """Objective as the regressor or the survival estimator takes it.

    >>> _objective("poisson"), _objective("tweedie:1.5")
    ('poisson', {'name': 'tweedie', 'power': 1.5})
    >>> _objective("quantile:0.1,0.9")
    {'name': 'quantile', 'levels': [0.1, 0.9]}
    >>> _objective("fine_gray:2")
    {'name': 'fine_gray', 'cause': 2}
    """
    # with NumPy, which help does not need
    from tpnn.loss.objectives import OF_REGRESSION, OF_SURVIVAL, objectives_of

    name, colon, written = text.partition(":")
    objectives = objectives_of((*OF_REGRESSION, *OF_SURVIVAL))
    if name not in objectives:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(objectives)}, found {name!r}")
    parameter = objectives[name].parameter
    if not colon:
        return name
    if parameter is None:
        able = [name for name, known in objectives.items() if known.parameter is not None]
        raise argparse.ArgumentTypeError(f"only {', '.join(able)} have a parameter, found {text!r}")
    try:
        numbers = [float(number) for number in written.split(",")]
    except ValueError:
        numbers = []
    example = parameter.rule.example
    value = numbers[0] if len(numbers) == 1 and not isinstance(example, list) else numbers
    if isinstance(example, int) and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not parameter.rule.holds(value):
        shown = ",".join(map(str, example if isinstance(example, list) else [example]))
        raise argparse.ArgumentTypeError(
            f"{name} needs {parameter.rule.words}, as in {name}:{shown}, found {text!r}"
        )
    return {"name": name, parameter.name: value}


def _shape(text: str) -> tuple[str, str | tuple[str, float]]:
    """Column and shape; the column's name may contain "=".

    >>> _shape("age=increasing"), _shape("hour=periodic:24")
    (('age', 'increasing'), ('hour', ('periodic', 24.0)))
    """
    from tpnn.anova.shapes import SHAPES, WRAPPED  # late: it takes NumPy along

    column, equals, shape = text.rpartition("=")
    if not equals or not column:
        raise argparse.ArgumentTypeError(f"must be like age=increasing, found {text!r}")
    word, _, period = shape.partition(":")
    if word == WRAPPED and period.replace(".", "", 1).isdecimal() and float(period) > 0:
        return column, (WRAPPED, float(period))
    if shape not in SHAPES:
        raise argparse.ArgumentTypeError(
            f"the shape must be one of {', '.join(SHAPES)} and {WRAPPED}:24, for example, found "
            f"{shape!r} in {text!r}"
        )
    return column, shape


class Command(NamedTuple):
    """A command; its function, ``run_`` and its name, is imported late: pandas takes a second."""

    words: str  # what it does
    module: str  # that holds its function
    options: Sequence[Any]  # flags of each and how it is read; in a list, those of which one counts
    groups: Mapping[str, Sequence[Any]] = {}  # further options, by their heading
    reads_model: bool = True  # whether its first argument is a model
    reads_rows: bool = True  # whether it may read CSV files


def _of(*flags: str, **how: Any) -> Any:
    """Say the flags of one option, and how it is read."""
    return flags, how


def _columns(option: str, words: str) -> Any:
    """Option for a column, which may be repeated."""
    words = f"{words}; may be repeated"
    return _of(option, action="append", default=[], metavar="COLUMN", help=words)


def _rows(words: str, needed: bool = False) -> Any:
    """Argument with rows in a file."""
    return _of("data", nargs=None if needed else "?", help=f"CSV or Parquet file{words}")


TO_SCREEN = "CSV or Parquet file; by default a table on a terminal, and CSV into a pipe"
TRUTH = "column with the true values"
EVENT = _of("--event", metavar="COLUMN",
            help="for survival: column that is 1 where the event was observed, 0 where the row is "
            "censored")  # fmt: skip
NEEDED_TARGET = _of("--target", required=True, help=TRUTH)
PAGE = _of("-o", "--output", metavar="FILE",
           help="page (.html) or JSON file with all figures")  # fmt: skip
NEW_MODEL = _of("-o", "--output", default="model.tpnn", help="where to save the model")
AS_JSON = _of("--json", action="store_true", help="print it as JSON")
LABELS = "column whose numbers are labels"
TASK = (
    _of("--task", choices=("auto", "regression", "classification", "survival"), default="auto",
        help="by default read off the data"),
    _of("--objective", type=_objective, metavar="NAME",
        help="loss of a regression, such as poisson, with its parameter after a colon: "
        "tweedie:1.5, huber:1.0, quantile:0.1,0.9; or of survival, with the kind of event: cox:2, "
        "fine_gray:1; a wrong name lists them all"),
    EVENT,
    _of("--weights", metavar="COLUMN", help="column of row weights"),
    [_of("--offset", metavar="COLUMN", help="known part of the raw score"),
     _of("--exposure", metavar="COLUMN", help="its logarithm is the offset")],
    _columns("--categorical", f"{LABELS}, such as postcodes"),
)  # fmt: skip
MODEL = (
    _of("--order", type=_count_or_auto, default="auto",
        help="largest order of interactions (auto)"),
    _of("--max-components", type=_count, metavar="N", help="largest number of them"),
    _of("--shapes", type=_shape, action="append", default=[], metavar="COLUMN=SHAPE",
        help="shape of the model along a column, such as age=increasing; may be repeated"),
    _of("--bags", type=_count_or_auto, default="auto", help="number of models averaged (auto)"),
    _of("--seed", type=_whole, default=0, help="same seed, same model (0)"),
)  # fmt: skip
CSV = {
    "CSV files: separator and encoding are read off the file unless they are named": (
        _of("--separator", type=_separator, help="between fields: , ; | or tab"),
        _of("--decimal", default=".", help="decimal point of numbers, such as a comma"),
        _of("--encoding", help="of the text, such as utf-8, latin-1 or utf-16"),
    )
}
COMMANDS = {
    "fit": Command("fit a model to a table", "tpnn.cli.fit", (
        _rows("", needed=True),
        _of("--target", required=True, help="column to predict; with --event, the time"),
        NEW_MODEL,
        _of("--json", action="store_true", help="print the result, with scores, as JSON"),
        _of("--held-out", type=_share, default=0.2, metavar="SHARE",
            help="share of the rows to score a first fit on (0.2); the model that is saved is "
            "fitted to all rows; 0 leaves the score out"),
    ), {"the task": TASK, "the model": MODEL}, reads_model=False),
    "predict": Command("predict the rows of a table", "tpnn.cli.predict", (
        _rows("; or a folder, pattern or address of Parquet or CSV files", needed=True),
        _of("-o", "--output",
            help=f"{TO_SCREEN}; for many files, the folder to write one for each to"),
        _columns("--keep", "column that tells rows apart, to write beside the predictions"),
    )),
    "explain": Command("rank the components, or explain rows", "tpnn.cli.show", (
        _rows(" of rows to explain one by one"),
        _of("--reasons", type=_count, metavar="N",
            help="explain each row by up to N reasons in words"),
        _of("-o", "--output", help=TO_SCREEN),
    )),
    "summary": Command("say what a model consists of", "tpnn.cli.show", (AS_JSON,),
                       reads_rows=False),
    "log": Command("print the edits of a model, and check that none is missing", "tpnn.cli.show", (
        _of("--json", action="store_true", help="print them as JSON"),
        _of("--expect", metavar="HASH", help="hash of the last record; another one is an error"),
        _of("--verify", metavar="KEY",
            help="PEM file of the public Ed25519 key the model is signed for"),
    ), reads_rows=False),
    "compare": Command("score models, and a constant, on the same rows", "tpnn.cli.show", (
        _of("models", nargs="+", metavar="model", help="files written by tpnn fit"),
        _rows(" of rows that no model has seen", needed=True), NEEDED_TARGET, EVENT,
        _of("-o", "--output", help="CSV or Parquet file; by default to the screen"),
    ), reads_model=False),
    "report": Command("write a page in which the model runs", "tpnn.cli.show", (
        _rows(" of held-out rows, with or without the target"),
        _of("--target", help=f"{TRUTH}, to score the model on"), EVENT,
        _of("--title", default="Model report"), _of("-o", "--output", default="report.html"),
    )),
    "validate": Command("measure what a validator asks of a model", "tpnn.cli.later", (
        _rows(" of rows that the model has not seen", needed=True), NEEDED_TARGET, EVENT,
        _columns("--protected", "column of a protected attribute"), PAGE,
    )),
    "verify": Command("fit a model again, and compare all bits", "tpnn.cli.fit", (
        _rows(" that the model was fitted to", needed=True),
        _of("--target", help=f"{TRUTH}; by default as in the model"), EVENT,
        _of("--weights", metavar="COLUMN", help="column of weights that the fit had"),
    )),
    "monitor": Command("find out whether new rows are still what they were", "tpnn.cli.later", (
        _rows(" of new rows", needed=True),
        _of("--reference", metavar="FILE",
            help="rows of a time when all was well; by default the model's own record of its "
            "training"),
        _of("--target", help=f"{TRUTH}, where they are known"), EVENT, PAGE,
    )),
    "edit": Command("make the edits that a report page has exported", "tpnn.cli.later", (
        _of("edits", help="edit file, as exported from a report page"),
        _rows(" of held-out rows, on which the log is measured"),
        _of("--target", help="column of these rows with the true values"), EVENT,
        _of("-o", "--output", required=True, help="where to save the edited model"),
    )),
    "read": Command("read the boosted trees of another library exactly", "tpnn.cli.later", (
        _of("model", help="file of CatBoost (.cbm), LightGBM (.txt) or XGBoost (.json)"),
        _rows(" of rows, best those of its training", needed=True),
        _of("--target", help="column of the table that is no feature"),
        _of("--event", metavar="COLUMN", help="another one"),
        _of("--link", help="identity, logit, log or softmax; by default read off the file"),
        _columns("--categorical", LABELS), NEW_MODEL,
    ), reads_model=False),
    "demo": Command("fit California housing prices and show the result", "tpnn.cli.demo", (
        _of("-o", "--output", default="demo-output", help="folder to write to"),
    ), reads_model=False, reads_rows=False),
}  # fmt: skip


def make_parser() -> argparse.ArgumentParser:
    """Parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tpnn",
        description="Fit, apply and explain functional ANOVA models with unique components.",
    )
    parser.add_argument("--version", action="version", version=f"tpnn {tpnn.__version__}")
    commands = parser.add_subparsers(dest="command")
    for name, command in COMMANDS.items():
        its_own = commands.add_parser(name, help=command.words, description=command.words)
        model = _of("model", help="file written by tpnn fit")
        _add(its_own, [*[model] * command.reads_model, *command.options])
        for heading, options in {**command.groups, **(CSV if command.reads_rows else {})}.items():
            title, _, words = heading.partition(": ")
            _add(its_own.add_argument_group(title, words or None), options)
    return parser


def _add(parser: Any, options: Sequence[Any]) -> None:
    """Add options; of those in a list one may be used."""
    for option in options:
        if isinstance(option, list):
            _add(parser.add_mutually_exclusive_group(), option)
        else:
            flags, how = option
            parser.add_argument(*flags, **how)


INTERRUPTED = 130  # the exit code of shells for Ctrl-C
ADVICE = {  # by error of the system
    errno.ENOENT: "Check the path.",
    errno.ENOSPC: "Free some space, or write elsewhere.",
    errno.EACCES: "Change its mode or that of its folder, or name another.",
    errno.EPERM: "Change its mode or that of its folder, or name another.",
    errno.EROFS: "Write elsewhere.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a problem with the data or the model, 2 wrong usage."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: f"tpnn {options.command}: warning: {message}\n"
    try:
        return _run(options)
    except KeyboardInterrupt:
        print(f"tpnn {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        warnings.formatwarning = format_before


def _run(options: argparse.Namespace) -> int:
    try:
        module = import_module(COMMANDS[options.command].module)
        getattr(module, f"run_{options.command}")(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as error:
        print(
            f"tpnn {options.command}: needs the whole library, and there is no module "
            f"{error.name!r}. Install tpnn, in place of tpnn-runtime where that is installed.",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        print(f"tpnn {options.command}: {_file_words(error)}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, ImportError, MemoryError) as error:
        print(f"tpnn {options.command}: {_swapped(options) or error}", file=sys.stderr)
        return 1
    return 0


def _swapped(options: argparse.Namespace) -> str:
    """Say so if the file of a model stands where its rows should."""
    model, data = getattr(options, "model", None), getattr(options, "data", None)
    if not isinstance(model, str) or not str(data).endswith(".tpnn"):
        return ""
    return f"data: must be a table of rows, found the model {data!r}. Name the model first."


def _file_words(error: OSError) -> str:
    """Say which file an error of the system is about, and what to do.

    >>> _file_words(OSError(errno.ENOSPC, "No space left on device", "a.tpnn"))
    "'a.tpnn': must be a file that can be read or written, found: no space left on device. \
Free some space, or write elsewhere."
    """
    if error.errno is None:  # one of our own, which says it all
        return str(error)
    name = "the output" if error.filename is None else repr(os.fspath(error.filename))
    advice = ADVICE.get(error.errno, "Check the file, or name another.")
    found = (error.strerror or type(error).__name__).lower()
    return f"{name}: must be a file that can be read or written, found: {found}. {advice}"
