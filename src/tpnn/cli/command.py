"""main: one command from its arguments to its exit code."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from tpnn.cli.options import make_parser

INTERRUPTED = 130  # the exit code of shells for Ctrl-C
MODULES = {
    "compare": "tpnn.cli.compare",
    "demo": "tpnn.cli.demo",
    "explain": "tpnn.cli.explain",
    "fit": "tpnn.cli.fit",
    "log": "tpnn.cli.log",
    "predict": "tpnn.cli.predict",
    "report": "tpnn.cli.report",
    "summary": "tpnn.cli.summary",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a problem with the data or the model, 2 wrong usage."""
    given = make_parser().parse_args(arguments)
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: f"tpnn {given.command}: warning: {message}\n"
    try:
        return _run(given)
    except KeyboardInterrupt:
        print(f"tpnn {given.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        warnings.formatwarning = format_before


def _run(given: argparse.Namespace) -> int:
    """Run the module of a command; it is imported late, because pandas takes a second."""
    try:
        import_module(MODULES[given.command]).run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as error:
        print(
            f"tpnn {given.command}: the whole library is needed, found no module {error.name!r}. "
            "Install tpnn, in place of tpnn-runtime where that is installed.",
            file=sys.stderr,
        )
        return 1
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"tpnn {given.command}: {error}", file=sys.stderr)
        return 1
    return 0
