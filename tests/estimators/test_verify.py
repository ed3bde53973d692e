"""verify: the rows and settings of a fit give the same bits, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, verify
from tpnn.cli.command import main

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=200), "b": RNG.choice(list("xyz"), 200)})
Y = X["a"] + RNG.normal(size=200)
SETTINGS: dict[str, Any] = {"order": 1, "n_bags": 2, "random_state": 0}


def test_the_same_rows_give_the_same_bits(tmp_path: Path) -> None:
    weights = RNG.integers(1, 4, 200)
    fits = [
        (
            TPNNRegressor(
                **SETTINGS,
                shapes={"a": "increasing"},
                max_nodes={1: 20},
                solver=Grow(max_rounds=40),
            ),
            Y,
        ),
        (TPNNClassifier(**SETTINGS), np.where(Y > 0, "late", "paid")),
        (TPNNSurvival(**SETTINGS), pd.DataFrame({"t": np.exp(-Y), "e": Y > 0})),
        (TPNNRegressor(**SETTINGS, solver=Descent(max_steps=5)), Y),
    ]
    for estimator, y in fits:
        estimator.fit(X, y, sample_weight=weights).model_.save(tmp_path / "model.tpnn")
        served = tpnn.load(tmp_path / "model.tpnn")
        shuffled = RNG.permutation(200)
        order = y.iloc[shuffled] if hasattr(y, "iloc") else y[shuffled]
        found = verify(served, X.iloc[shuffled], order, weights[shuffled])
        assert found.holds, estimator
        assert "the same bits" in str(found)
        assert not verify(served, X, y).holds  # without the weights


def test_other_rows_or_another_model_are_found() -> None:
    model = TPNNRegressor(**SETTINGS).fit(X, Y).model_
    changed = X.assign(a=np.where(X.index == 3, 0.5, X["a"]))
    found = verify(model, changed, Y)
    assert (found.same_rows, found.found, found.holds) == (False, "", False)
    assert str(found).startswith("these are not the rows of the fit")
    moved = replace(model, intercepts=model.intercepts + 1e-12)
    found = verify(moved, X, Y)
    assert found.same_rows
    assert not found.holds
    assert str(found).endswith("gives another model")
    old = replace(model, provenance=replace(model.provenance, version="0.9"))
    assert verify(old, X, Y).holds
    assert "version 0.9 fitted it" in str(replace(verify(old, X, Y), found="other"))


def test_an_edited_model_is_compared_before_its_edits() -> None:
    model = TPNNRegressor(**SETTINGS).fit(X, Y).model_
    edited = model.edit("b", levels=["x"], add=0.5, why="agreed", by="ab")
    found = verify(edited.edit("b", levels=["y"], add=0.5, why="agreed", by="ab"), X, Y)
    assert found.holds
    assert str(found).endswith("the same bits, before its 2 logged edits")
    with pytest.raises(ValueError, match="edits: the log of a model must be a whole chain"):
        verify(replace(edited, intercepts=edited.intercepts + 1), X, Y)


def test_what_cannot_be_fitted_again() -> None:
    model = TPNNRegressor(**SETTINGS | {"random_state": None}).fit(X, Y).model_
    with pytest.raises(ValueError, match="random_state: a fit without a seed cannot be repeated"):
        verify(model, X, Y)
    with pytest.raises(ValueError, match="model: only a model that an estimator has fitted"):
        verify(tpnn.merge([model, model]), X, Y)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "rows.csv", tmp_path / "model.tpnn"
    X.assign(y=Y, w=RNG.integers(1, 3, 200)).to_csv(data, index=False)
    given = ["--order", "1", "--bags", "2", "--held-out", "0.2", "-o", str(model)]
    assert main(["fit", str(data), "--target", "y", "--weights", "w", *given]) == 0
    capsys.readouterr()
    assert main(["verify", str(model), str(data), "--weights", "w"]) == 0
    assert "fitting again gives the same bits" in capsys.readouterr().out
    X.assign(y=Y + 1, w=1).to_csv(data, index=False)
    assert main(["verify", str(model), str(data), "--weights", "w"]) == 1
    assert "these are not the rows of the fit" in capsys.readouterr().err
