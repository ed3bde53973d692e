"""What a long run says on the way."""

from __future__ import annotations

import sys
from datetime import datetime

from evaluation.data import is_available


def say(line: str) -> None:
    """Print a line with the time, beside the results."""
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr)


def available(name: str) -> bool:
    """Whether a data set can be read; where not, say so."""
    here = is_available(name)
    if not here:
        say(f"skipping {name}: the folder TPNN_DATA has no file {name}.parquet")
    return here
