"""Model cards: what they say is what the model says, in Markdown that no name breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tpnn import TPNNClassifier, TPNNRegressor

QUICK: Any = {"n_bags": 2, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.integers(18, 80, 300), "a|b\nc": RNG.choice(["x|y", "z"], 300)})
X["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(X["age"] - 18, "D")
X["rate"] = np.where(X["age"] > 60, np.nan, RNG.normal(size=300))
Y = X["age"] / 20 + (X["a|b\nc"] == "z") + X["rate"].fillna(0)


def tables(text: str) -> list[list[list[str]]]:
    """Cells of each table of a text; every line of a table must have as many as its heading."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            cells = line.replace("\\|", "/")[2:-2].split(" | ")
            found[-1].append([cell.strip() for cell in cells])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.mark.parametrize("remainder", [True, False])
def test_a_card_says_what_the_summary_says(remainder: bool) -> None:
    model = TPNNRegressor(**QUICK, remainder=remainder).fit(X, Y)
    text, summary = model.to_card(title="Prices"), model.summary()
    facts, features, components = tables(text)
    assert [line[0].replace("/", "|") for line in components[2:]] == [
        line.component.replace("\n", " ") for line in summary.lines
    ]
    assert all(len(line) == len(components[0]) for line in components[2:])
    assert ("is a remainder" in text) is remainder
    assert dict(facts[2:])["training rows"] == f"`{tpnn.fingerprint(X, Y)}`"
    by_name = {line[0]: line[1:] for line in features[2:]}
    assert by_name["since"][:2] == ["date", f"2020-01-01 to {X['since'].max():%Y-%m-%d}"]
    assert by_name["rate"][2] == "yes"
    assert by_name["a/b c"][1] == "x/y, z"
    assert "# Prices\n" in text
    assert text.count("To be written by a person") == 3


def test_a_loaded_model_writes_the_same_card(tmp_path: Path) -> None:
    model = TPNNClassifier(**QUICK, order=1).fit(X, Y > 2)
    model.model_.save(tmp_path / "model.tpnn")
    text = tpnn.load(tmp_path / "model.tpnn").to_card(tmp_path / "README.md")
    assert text == model.to_card() == (tmp_path / "README.md").read_text("utf-8")
    assert "| classes | False, True |" in text
