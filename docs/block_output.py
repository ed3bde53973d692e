"""Sphinx extension: under each Python block of a page stands what it prints, returns and draws.

The blocks of a page run one after the other in an empty folder, as in ``tests/test_docs.py``. What
a statement returns is shown as an interpreter would show it, but shorter. The build folder keeps
the output until the page or the library changes.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import pprint
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator

BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PAGES = (
    "index",
    "start",
    "guide",
    "tasks",
    "interactions",
    "explain",
    "intervals",
    "life",
    "editing",
)
MOST_LINES, WIDTH = 12, 96  # of one value
MOST_PRINTED = 60  # lines of a block


def add_output(app: Any, page: str, source: list[str]) -> None:
    """Put the output of each block of a page below it."""
    if page not in PAGES or app.builder.format != "html":
        return
    kept = Path(app.doctreedir) / "blocks" / f"{page}-{_digest(app, source[0])}.json"
    if not kept.exists():
        outputs = list(_outputs(BLOCK.findall(source[0])))
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(outputs), "utf-8")
    texts = iter(json.loads(kept.read_text("utf-8")))
    source[0] = BLOCK.sub(lambda block: block[0] + next(texts), source[0])


def _digest(app: Any, text: str) -> str:
    """Digest of a page and of the library."""
    modules = sorted((Path(app.srcdir).parent / "src").rglob("*.py"))
    content = [text, *(module.read_text("utf-8") for module in modules)]
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]


def _outputs(blocks: list[str]) -> Iterator[str]:
    """Run the blocks of a page; write what each has shown, as Markdown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    plt.switch_backend("agg")
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            texts = [text for line in ast.parse(block).body if (text := _shown(line, names))]
            pictures = [_png(plt.figure(number)) for number in plt.get_fignums()]
            plt.close("all")
            yield _markdown("\n".join(texts), pictures)


def _shown(statement: ast.stmt, names: dict[str, Any]) -> str:
    """Run a statement; return what it prints, and the value of an expression."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "<block>", "exec"), names)
            return printed.getvalue().rstrip()
        value = eval(compile(ast.Expression(statement.value), "<block>", "eval"), names)
    return "\n".join(filter(None, [printed.getvalue().rstrip(), _words(value)]))


def _words(value: Any) -> str:
    """Value as an interpreter would show it, in a few lines; nothing where a picture shows it."""
    if value is None or isinstance(value, Artist | BaseEstimator):
        return ""
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.to_string(max_rows=8)
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    with np.printoptions(precision=4, threshold=20, edgeitems=2, linewidth=WIDTH):
        lines = pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False).splitlines()
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "..."])


def _png(figure: Figure) -> str:
    """Picture in base 64."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return base64.b64encode(file.getvalue()).decode()


def _markdown(text: str, pictures: list[str]) -> str:
    """Output of a block: text, then pictures."""
    lines = text.splitlines()
    shown = lines if len(lines) <= MOST_PRINTED else [*lines[:MOST_PRINTED], "..."]
    written = "".join(f"{line}\n" for line in shown)
    parts = [f"\n```{{code-block}} none\n:class: output\n\n{written}```\n"] if shown else []
    if pictures:
        images = "".join(
            f'<img alt="what the code above draws" src="data:image/png;base64,{picture}">\n'
            for picture in pictures
        )
        parts.append(f'\n```{{raw}} html\n<p class="drawn">\n{images}</p>\n```\n')
    return "".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Listen to pages as they are read."""
    app.connect("source-read", add_output)
    return {"parallel_read_safe": True}
