"""main: the commands, their options, and what the shell gets back."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import tpnn

TASKS = ("auto", "regression", "classification", "survival")
PAGE_OR_JSON = "page (.html) or JSON file with all figures"
TO_SCREEN = "CSV or Parquet file; by default a table on a terminal, and CSV into a pipe"
EVENT = "for survival: column that is 1 where the event was observed, 0 where the row is censored"


def make_parser() -> argparse.ArgumentParser:
    """Parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tpnn",
        description="Fit, apply and explain functional ANOVA models with unique components.",
    )
    parser.add_argument("--version", action="version", version=f"tpnn {tpnn.__version__}")
    commands = parser.add_subparsers(dest="command")
    _add_fit(commands)
    _add_predict(commands)
    _add_explain(commands)
    _add_summary(commands)
    _add_log(commands)
    _add_compare(commands)
    _add_report(commands)
    _add_validate(commands)
    _add_verify(commands)
    _add_monitor(commands)
    _add_edit(commands)
    _add_read(commands)
    demo = _command(commands, "demo", "fit California housing prices and show the result")
    demo.add_argument("-o", "--output", default="demo-output", help="folder to write to")
    return parser


def _command(commands: Any, name: str, words: str) -> Any:
    return commands.add_parser(name, help=words, description=words)


def _add_fit(commands: Any) -> None:
    fit = _command(commands, "fit", "fit a model to a table")
    fit.add_argument("data", help="CSV or Parquet file")
    fit.add_argument("--target", required=True, help="column to predict; with --event, the time")
    fit.add_argument("-o", "--output", default="model.tpnn", help="where to save the model")
    fit.add_argument("--json", action="store_true", help="print the result, with scores, as JSON")
    fit.add_argument(
        "--held-out", type=_share, default=0.2, metavar="SHARE",
        help="share of the rows to score a first fit on (0.2); the model that is saved is fitted "
        "to all rows; 0 leaves the score out",
    )  # fmt: skip
    _add_task(fit.add_argument_group("the task"))
    _add_model(fit.add_argument_group("the model"))
    _add_csv(fit)


def _add_task(group: Any) -> None:
    group.add_argument("--task", choices=TASKS, default="auto", help="by default read off the data")
    group.add_argument(
        "--objective", type=_objective, metavar="NAME",
        help="loss of a regression, such as poisson, with its parameter after a colon: "
        "tweedie:1.5, huber:1.0, quantile:0.1,0.9; or of survival, with the kind of event: cox:2, "
        "fine_gray:1; a wrong name lists them all",
    )  # fmt: skip
    group.add_argument("--event", metavar="COLUMN", help=EVENT)
    group.add_argument("--weights", metavar="COLUMN", help="column of row weights")
    either = group.add_mutually_exclusive_group()
    either.add_argument("--offset", metavar="COLUMN", help="known part of the raw score")
    either.add_argument("--exposure", metavar="COLUMN", help="its logarithm is the offset")
    group.add_argument(
        "--categorical", action="append", default=[], metavar="COLUMN",
        help="column whose numbers are labels, such as postcodes; may be repeated",
    )  # fmt: skip


def _add_model(group: Any) -> None:
    group.add_argument(
        "--order", type=_count_or_auto, default="auto", help="largest order of interactions (auto)"
    )
    group.add_argument("--max-components", type=_count, metavar="N", help="largest number of them")
    group.add_argument(
        "--shapes", type=_shape, action="append", default=[], metavar="COLUMN=SHAPE",
        help="shape of the model along a column, such as age=increasing; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--bags", type=_count_or_auto, default="auto", help="number of models averaged (auto)"
    )
    group.add_argument("--seed", type=_seed, default=0, help="same seed, same model (0)")


def _add_predict(commands: Any) -> None:
    predict = _command(commands, "predict", "predict the rows of a table")
    _add_model_file(predict)
    predict.add_argument(
        "data", help="CSV or Parquet file; or a folder, pattern or address of Parquet files"
    )
    predict.add_argument(
        "-o", "--output", help=f"{TO_SCREEN}; for many files, the folder to write one for each to"
    )
    predict.add_argument(
        "--keep", action="append", default=[], metavar="COLUMN",
        help="column that tells rows apart, to write beside the predictions; may be repeated",
    )  # fmt: skip
    _add_csv(predict)


def _add_explain(commands: Any) -> None:
    explain = _command(commands, "explain", "rank the components, or explain rows")
    _add_model_file(explain)
    explain.add_argument(
        "data", nargs="?", help="CSV or Parquet file of rows to explain one by one"
    )
    explain.add_argument(
        "--reasons", type=_count, metavar="N", help="explain each row by up to N reasons in words"
    )
    explain.add_argument("-o", "--output", help=TO_SCREEN)
    _add_csv(explain)


def _add_summary(commands: Any) -> None:
    summary = _command(commands, "summary", "say what a model consists of")
    _add_model_file(summary)
    summary.add_argument("--json", action="store_true", help="print it as JSON")


def _add_log(commands: Any) -> None:
    log = _command(commands, "log", "print the edits of a model, and check that none is missing")
    _add_model_file(log)
    log.add_argument("--json", action="store_true", help="print them as JSON")
    log.add_argument(
        "--expect", metavar="HASH", help="hash of the last record; another one is an error"
    )
    log.add_argument(
        "--verify", metavar="KEY", help="PEM file of the public Ed25519 key the model is signed for"
    )


def _add_compare(commands: Any) -> None:
    compare = _command(commands, "compare", "score models, and a constant, on the same rows")
    compare.add_argument("models", nargs="+", metavar="model", help="files written by tpnn fit")
    compare.add_argument("data", help="CSV or Parquet file of rows that no model has seen")
    compare.add_argument("--target", required=True, help="column with the true values")
    compare.add_argument("--event", metavar="COLUMN", help=EVENT)
    compare.add_argument("-o", "--output", help="CSV or Parquet file; by default to the screen")
    _add_csv(compare)


def _add_report(commands: Any) -> None:
    report = _command(commands, "report", "write a page in which the model runs")
    _add_model_file(report)
    report.add_argument(
        "data", nargs="?", help="CSV or Parquet file of held-out rows, with or without the target"
    )
    report.add_argument("--target", help="column with the true values, to score the model on")
    report.add_argument("--event", metavar="COLUMN", help=EVENT)
    report.add_argument("--title", default="Model report")
    report.add_argument("-o", "--output", default="report.html")
    _add_csv(report)


def _add_validate(commands: Any) -> None:
    validate = _command(commands, "validate", "measure what a validator asks of a model")
    _add_model_file(validate)
    validate.add_argument("data", help="CSV or Parquet file of rows that the model has not seen")
    validate.add_argument("--target", required=True, help="column with the true values")
    validate.add_argument("--event", metavar="COLUMN", help=EVENT)
    validate.add_argument(
        "--protected", action="append", default=[], metavar="COLUMN",
        help="column of a protected attribute; may be repeated",
    )  # fmt: skip
    validate.add_argument("-o", "--output", help=PAGE_OR_JSON)
    _add_csv(validate)


def _add_verify(commands: Any) -> None:
    verify = _command(commands, "verify", "fit a model again, and compare all bits")
    _add_model_file(verify)
    verify.add_argument("data", help="CSV or Parquet file that the model was fitted to")
    verify.add_argument("--target", help="column with the true values; by default as in the model")
    verify.add_argument("--event", metavar="COLUMN", help=EVENT)
    verify.add_argument("--weights", metavar="COLUMN", help="column of weights that the fit had")
    _add_csv(verify)


def _add_monitor(commands: Any) -> None:
    monitor = _command(commands, "monitor", "find out whether new rows are still what they were")
    _add_model_file(monitor)
    monitor.add_argument("data", help="CSV or Parquet file of new rows")
    monitor.add_argument(
        "--reference", metavar="FILE",
        help="rows of a time when all was well; by default the model's own record of its training",
    )  # fmt: skip
    monitor.add_argument("--target", help="column with the true values, where they are known")
    monitor.add_argument("--event", metavar="COLUMN", help=EVENT)
    monitor.add_argument("-o", "--output", metavar="FILE", help=PAGE_OR_JSON)
    _add_csv(monitor)


def _add_edit(commands: Any) -> None:
    edit = _command(commands, "edit", "make the edits that a report page has exported")
    _add_model_file(edit)
    edit.add_argument("edits", help="edit file, as exported from a report page")
    edit.add_argument(
        "data", nargs="?", help="CSV or Parquet file of held-out rows, on which the log is measured"
    )
    edit.add_argument("--target", help="column of these rows with the true values")
    edit.add_argument("--event", metavar="COLUMN", help=EVENT)
    edit.add_argument("-o", "--output", required=True, help="where to save the edited model")
    _add_csv(edit)


def _add_read(commands: Any) -> None:
    read = _command(commands, "read", "read the boosted trees of another library exactly")
    read.add_argument("model", help="file of CatBoost (.cbm), LightGBM (.txt) or XGBoost (.json)")
    read.add_argument("data", help="CSV or Parquet file of rows, best those of its training")
    read.add_argument("--target", help="column of the table that is no feature")
    read.add_argument("--event", metavar="COLUMN", help="another one")
    read.add_argument(
        "--link", help="identity, logit, log or softmax; by default read off the file"
    )
    read.add_argument(
        "--categorical", action="append", default=[], metavar="COLUMN",
        help="column whose numbers are labels; may be repeated",
    )  # fmt: skip
    read.add_argument("-o", "--output", default="model.tpnn", help="where to save the model")
    _add_csv(read)


def _add_model_file(parser: Any) -> None:
    parser.add_argument("model", help="file written by tpnn fit")


def _add_csv(parser: Any) -> None:
    group = parser.add_argument_group(
        "CSV files", "separator and encoding are read off the file unless they are named"
    )
    group.add_argument("--separator", type=_separator, help="between fields: , ; | or tab")
    group.add_argument("--decimal", default=".", help="decimal point of numbers, such as a comma")
    group.add_argument("--encoding", help="of the text, such as utf-8, latin-1 or utf-16")


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


def _seed(text: str) -> int:
    """Whole number of at least 0."""
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
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


INTERRUPTED = 130  # the exit code of shells for Ctrl-C
ADVICE = {  # by error of the system
    errno.ENOENT: "Check the path.",
    errno.ENOSPC: "Free some space, or write elsewhere.",
    errno.EACCES: "Change its mode or that of its folder, or name another.",
    errno.EPERM: "Change its mode or that of its folder, or name another.",
    errno.EROFS: "Write elsewhere.",
}
HOMES = {  # module and function of each command; imported late, because pandas takes a second
    "compare": ("tpnn.cli.show", "run_compare"),
    "demo": ("tpnn.cli.demo", "run"),
    "edit": ("tpnn.cli.later", "run_edit"),
    "explain": ("tpnn.cli.show", "run_explain"),
    "fit": ("tpnn.cli.fit", "run"),
    "log": ("tpnn.cli.show", "run_log"),
    "monitor": ("tpnn.cli.later", "run_monitor"),
    "predict": ("tpnn.cli.predict", "run"),
    "read": ("tpnn.cli.later", "run_read"),
    "report": ("tpnn.cli.show", "run_report"),
    "summary": ("tpnn.cli.show", "run_summary"),
    "validate": ("tpnn.cli.later", "run_validate"),
    "verify": ("tpnn.cli.fit", "run_verify"),
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
    module, function = HOMES[options.command]
    try:
        getattr(import_module(module), function)(options)
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
        print(f"tpnn {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


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
