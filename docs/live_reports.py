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
    X, y = datasets.load("calhousing")
    houses = TPNNRegressor(**SETTINGS).fit(X[:-2000], y[:-2000])
    words = {"title": "California house prices", "target": "median house value (100,000 $)"}
    houses.report(folder / "houses.html", X[-2000:], y[-2000:], **words)
    X, y = datasets.load("wine")
    good = np.where(y >= 7, "good", "usual")
    wines = TPNNClassifier(**SETTINGS).fit(X[:-1000], good[:-1000])
    wines.report(folder / "wines.html", X[-1000:], good[-1000:], title="Good white wines")
    X, y = datasets.load("abalone")
    age = np.select([y <= 8, y <= 10], ["young", "grown"], "old")
    shells = TPNNClassifier(**SETTINGS).fit(X[:-800], age[:-800])
    shells.report(
        folder / "shells.html", X[-800:], age[-800:], title="Age of shells, three classes"
    )


def setup(app: Any) -> dict[str, bool]:
    """Write before pages are read."""
    app.connect("builder-inited", write_reports)
    return {"parallel_read_safe": True}
