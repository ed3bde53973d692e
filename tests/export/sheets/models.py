"""A model with features of every kind, and rows that try all its corners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tests.models import table_model
from tpnn import AnovaModel
from tpnn.model.codec import Label

ODD_LEVELS = ("Ulm", "ulm", "=1+1", "'); DROP TABLE x; --", "*", "a?b", "~x", "", "1", "_x0041_",
              "A", "#N/A", " x ", "TRUE", 'q"uote', "Zürich", "+49", "@me")  # fmt: skip


def mixed_rows(n_rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows with numbers, dates, durations, ordered and odd levels, and missing values."""
    rng = np.random.default_rng(seed)
    size = pd.Categorical.from_codes(rng.integers(0, 5, n_rows), list("edcba"), ordered=True)
    town = np.array(ODD_LEVELS, dtype=object)[rng.integers(0, len(ODD_LEVELS), n_rows)]
    days = rng.integers(0, 2000, n_rows).astype("timedelta64[D]")
    hours = rng.integers(0, 500, n_rows).astype("timedelta64[h]")
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
            "count": rng.integers(0, 12, n_rows).astype(float),
            "since": np.datetime64("2015-03-01", "us") + days,
            "waited": hours.astype("timedelta64[us]"),
            "size": size,
            "town": town,
        }
    )
    return frame.assign(town=frame["town"].mask(rng.random(n_rows) < 0.05))


def mixed_model(order: int = 2, link: str = "log", **changes: Any) -> AnovaModel:
    """A model of such rows with random components of every order; effects are moderate."""
    classes: tuple[Label, ...] = (0, 1) if link == "logit" else ()
    model = table_model(mixed_rows(), order, link, unit=0.2)
    return replace(model, classes=classes, **changes)


def fuzzed_rows(model: AnovaModel, n_rows: int, seed: int = 1) -> pd.DataFrame:
    """Rows of the same kind: on nodes, beside them, beyond them, missing and unseen."""
    rng = np.random.default_rng(seed)
    X = mixed_rows(n_rows, seed)
    for feature, name in enumerate(("amount", "count")):
        nodes = model.encoder.axes[1][feature].values
        on_nodes = nodes[rng.integers(0, len(nodes), n_rows)]
        beside = np.nextafter(on_nodes, rng.choice([-np.inf, np.inf], n_rows))
        between = rng.normal(5, 6, n_rows)
        picked = rng.integers(0, 5, n_rows)
        X[name] = np.choose(picked, [on_nodes, beside, between, on_nodes * 1e6, np.nan])
    X["since"] = X["since"] + pd.to_timedelta(rng.integers(-900, 900, n_rows), "h")
    X.loc[rng.random(n_rows) < 0.1, "since"] = pd.NaT
    X.loc[rng.random(n_rows) < 0.1, "waited"] = pd.NaT
    X.loc[rng.random(n_rows) < 0.1, "size"] = np.nan
    X.loc[rng.random(n_rows) < 0.1, "town"] = "never seen"
    return X
