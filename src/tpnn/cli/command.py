"""main: one command from its arguments to its exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from tpnn.cli.options import make_parser

INTERRUPTED = 130  # the exit code of shells for Ctrl-C
ADVICE = {  # by error of the system
    errno.ENOENT: "Check the path.",
    errno.ENOSPC: "Free some space, or write elsewhere.",
    errno.EACCES: "Change its mode or that of its folder, or name another.",
    errno.EPERM: "Change its mode or that of its folder, or name another.",
    errno.EROFS: "Write elsewhere.",
}
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
    except OSError as error:
        print(f"tpnn {given.command}: {_file_words(error)}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, ImportError, MemoryError) as error:
        print(f"tpnn {given.command}: {error}", file=sys.stderr)
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
