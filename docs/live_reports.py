"""Sphinx extension: reports of three small models, written while the site is built.

They stand in the folder ``live`` of the site. The first page shows one of them in a frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from tpnn import TPNNClassifier, TPNNRegressor, datasets

SETTINGS = {"max_components": 12, "remainder": False, "random_state": 0, "verbose": 0}


def write_reports(app: Any) -> None:
    """Write the reports, unless those of this version are there."""
    folder = Path(app.outdir) / "live"
    if app.builder.format != "html" or folder.exists():
        return
    folder.mkdir(parents=True)
    words = {"title": "California house prices", "target": "median house value (100,000 $)"}
    _write(TPNNRegressor, *datasets.load("calhousing"), folder / "houses.html", words)
    X, y = datasets.load("wine")
    good = np.where(y >= 7, "good", "usual")
    _write(TPNNClassifier, X, good, folder / "wines.html", {"title": "Good white wines"})
    X, y = datasets.load("abalone")
    age = np.select([y <= 8, y <= 10], ["young", "grown"], "old")
    _write(TPNNClassifier, X, age, folder / "shells.html", {"title": "Age of shells"})


def _write(estimator: Any, X: Any, y: Any, path: Path, words: Any) -> None:
    """Fit a model to most of the rows, and write its report with the others."""
    X, X_new, y, y_new = train_test_split(X, y, test_size=1000, random_state=0)
    estimator(**SETTINGS).fit(X, y).report(path, X_new, y_new, **words)


def setup(app: Any) -> dict[str, bool]:
    """Write before pages are read."""
    app.connect("builder-inited", write_reports)
    return {"parallel_read_safe": True}
