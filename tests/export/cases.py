"""Models of every kind of column and task, and rows that visit every rule."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tests.models import with_remainder
from tpnn import AnovaModel, ComponentSet
from tpnn.loss.links import LINKS
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

INJECTION = "'); DROP TABLE x; --"
ODD_LEVELS = ["plain", "", "it's", 'a "b"', "x;y", "back\\slash\\'", "två, 三", INJECTION]
NAMES = {"number": 'height "m"', "text": INJECTION, "day": "Tag; `ä`"}
TOLERANCE = 1e-12  # in standard deviations of the raw score
# task: link, outputs, offset column, whether it is an exposure
TASKS = {
    "regression": ("identity", 1, None, False),
    "two classes": ("logit", 1, None, False),
    "counts": ("log", 1, "exposure", True),
    "survival": ("log", 1, None, False),
    "several classes": ("softmax", 3, None, False),
    "quantiles": ("quantiles", 4, "known part", False),
}


def training_table(n_rows: int = 300) -> pd.DataFrame:
    """Columns of every kind; some with missing values."""
    rng = np.random.default_rng(0)
    days = np.datetime64("1969-06-01") + rng.integers(0, 20_000, n_rows)
    sizes = pd.Categorical(rng.choice(list("SML"), n_rows), ["S", "M", "L"], ordered=True)
    frame = pd.DataFrame(
        {
            NAMES["number"]: rng.normal(size=n_rows),
            "holes": np.where(rng.random(n_rows) < 0.2, np.nan, rng.exponential(size=n_rows)),
            "flag": rng.random(n_rows) < 0.4,
            NAMES["day"]: days.astype("datetime64[us]") + rng.integers(0, 10**11, n_rows),
            NAMES["text"]: rng.choice([*ODD_LEVELS, None], n_rows),
            "size": sizes,
            "code": rng.choice([0.5, 7, 40, 12], n_rows),
            "constant": 3.0,
            "hour": rng.choice([*rng.uniform(-60, 80, 50), 0, 6, 24, -48, np.nan], n_rows),
        }
    )
    frame.insert(0, "exposure", rng.uniform(0.1, 2, n_rows))
    frame.insert(0, "known part", rng.normal(size=n_rows))
    return frame


def model_of(task: str) -> AnovaModel:
    """A model with random values, of every feature and some pairs and triples."""
    link, n_outputs, offset, is_exposure = TASKS[task]
    frame = training_table()
    table = Table(frame[[name for name in frame if name not in _offsets() or name == offset]])
    if offset is not None:
        table = table.set_aside(0, is_exposure)
    code = list(table.names or ()).index("code")
    rules = LevelRules(nominal=[code], periods={list(table.names or ()).index("hour"): 24.0})
    encoder = TableEncoder.fit(table, {1: 24, 2: 6, 3: 3}, rules=rules)
    n = encoder.n_features
    pairs = [(j, k) for j in range(n) for k in range(j + 1, n) if (j + k) % 3]
    components = ComponentSet((*((j,) for j in range(n)), *pairs, (0, 1, 4), (2, 3, 5)))
    rng = np.random.default_rng(1)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), n_outputs])
        for s in components
    )
    names = ("0.1", "0.5", "0.9", "0.99") if link == "quantiles" else ("a'b", "B", "b", "d")
    return AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=rng.normal(size=n_outputs),
        link=LINKS[link],
        output_names=names[:n_outputs] if n_outputs > 1 else (),
        has_offset=offset is not None,
    )


def _offsets() -> set[str]:
    return {name for _, _, name, _ in TASKS.values() if name}


def fuzzed_rows(model: AnovaModel, n_rows: int = 2000) -> pd.DataFrame:
    """Rows on nodes and ends of trees, just beside and far beyond, missing, unseen and odd ones."""
    rng = np.random.default_rng(2)
    frame = training_table(n_rows).sample(n_rows, random_state=3, ignore_index=True)
    for feature, name in enumerate(model.feature_names):
        known = model.encoder.features[feature]
        if known.kind == "number" and name != "flag":
            nodes = model.encoder.axes[1][feature].values
            if model.remainder is not None:
                nodes = np.append(nodes, model.remainder.trees.features[feature].ends)
            near = [np.nextafter(nodes, -np.inf), nodes, np.nextafter(nodes, np.inf)]
            odd = np.concatenate([*near, [-0.0, 0.0, 1e300, -1e300, np.nan, np.inf * 0]])
            pick = rng.random(n_rows) < 0.6
            frame.loc[pick, name] = rng.choice(odd, int(pick.sum()))
    day, text = NAMES["day"], NAMES["text"]
    frame[day] = frame[day].where(rng.random(n_rows) < 0.9)
    frame.loc[rng.random(n_rows) < 0.1, day] = pd.Timestamp("1800-02-03 04:05:06.789012")
    frame[text] = rng.choice([*ODD_LEVELS, None, "unseen", "PLAIN", "plain ", "';"], n_rows)
    frame["size"] = rng.choice(["S", "M", "L", "XL", None], n_rows)
    frame["code"] = rng.choice([0.5, 7, 40, 12, 13, np.nan, -0.0], n_rows)
    frame.insert(0, "id", np.arange(n_rows))
    return frame


def expected(model: AnovaModel, rows: pd.DataFrame) -> dict[str, Any]:
    """What the model itself says: raw scores, predictions, components, always with outputs.

    A remainder is one more component.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unseen levels
        raw, means = model.raw_scores(rows), model.predict(rows)
        effects, rest = model.component_scores(rows), model.remainder_scores(rows)
    n, n_outputs = len(rows), len(model.intercepts)
    effects = effects.reshape(n, -1, n_outputs)
    if model.remainder is not None:
        effects = np.concatenate([effects, rest.reshape(n, 1, n_outputs)], axis=1)
    return {"raw": raw.reshape(n, -1), "means": means.reshape(n, -1), "effects": effects}


def assert_equal_to_model(found: np.ndarray, model: AnovaModel, rows: pd.DataFrame) -> None:
    """Columns: raw scores, predictions, contributions, remainder, as a query with all has them."""
    truth = expected(model, rows)
    found = np.asarray(found, np.float64)
    k = len(model.intercepts)
    unit = TOLERANCE * truth["raw"].std()
    assert found.shape[1] == 2 * k + truth["effects"].shape[1] * k
    np.testing.assert_allclose(found[:, :k], truth["raw"], rtol=0, atol=unit)
    means = truth["means"]
    np.testing.assert_allclose(found[:, k : 2 * k], means, rtol=1e-12, atol=unit)
    effects = truth["effects"].reshape(len(rows), -1)
    np.testing.assert_allclose(found[:, 2 * k :], effects, rtol=0, atol=unit)


def remainder_model(task: str, is_oblivious: bool = True) -> AnovaModel:
    """A model with trees beside its components.

    Trees alone read some of its columns, and they hold components that it lacks.
    """
    model = with_remainder(model_of(task), n_trees=20, depth=4, is_oblivious=is_oblivious)
    alone = [s for s in model.components if 1 not in s and 3 not in s]
    assert model.remainder is not None
    held = {s: table for s, table in model.remainder.held.items() if 1 not in s}
    components = ComponentSet(tuple(held))
    assert not set(components) <= set(alone)
    tables = tuple(held[s] for s in components)
    rest = replace(model.remainder, components=components, tables=tables)
    return replace(model.restrict(alone), remainder=rest)
