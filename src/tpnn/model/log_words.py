"""Words: an edit as one line of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PLACES = ("between", "levels", "missing", "output")


def edit_words(edit: Mapping[str, Any]) -> str:
    """Write an edit.

    >>> edit_words({"component": ["age"], "between": {"age": [18.0, 21.0]}, "add": 0.2})
    'age: add=0.2, between={"age": [18.0, 21.0]}'
    """
    what = [key for key in edit if key not in ("component", *PLACES)]
    parts = [f"{key}={json.dumps(edit[key])}" for key in (*what, *PLACES) if key in edit]
    return f"{' x '.join(edit['component'])}: {', '.join(parts)}"
