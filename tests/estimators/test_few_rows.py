"""Models of a handful of rows, of which none is held out, claim nothing about new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import told
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=30), "b": RNG.normal(size=30)})
Y = RNG.normal(size=30)
MODELS: dict[str, tuple[Any, Any]] = {
    "numbers": (TPNNRegressor, Y),
    "counts": (lambda **kw: TPNNRegressor(objective="poisson", **kw), np.arange(30.0) % 3),
    "classes": (TPNNClassifier, np.arange(30) % 2),
    "lifetimes": (TPNNSurvival, np.column_stack([np.exp(Y), np.ones(30)])),
}


@pytest.mark.parametrize("n_rows", [2, 9])
@pytest.mark.parametrize("kind", MODELS)
def test_nothing_is_said_of_held_out_rows_where_there_are_none(kind: str, n_rows: int) -> None:
    make, y = MODELS[kind]
    model = make(random_state=0, verbose=0).fit(X[:n_rows], y[:n_rows])
    assert np.isfinite(model.predict(X)).all()
    assert "\nheld-out loss" not in repr(model.summary())
    frozen = model.model_
    assert dict(frozen.provenance.scores) == {}
    evidence = frozen.evidence
    assert evidence.tests is evidence.posteriors is frozen.remainder is None
    assert len(evidence.calibration.scores) == 0
    notes = [event["note"] for event in told(model) if event["stage"] == "bands"]
    assert notes == [f"no bands: {n_rows} rows, too few to hold any out"]


def test_ten_rows_and_rows_to_hold_out_are_evidence() -> None:
    ten = TPNNRegressor(random_state=0, verbose=0).fit(X[:10], Y[:10])
    few = TPNNRegressor(random_state=0, verbose=0).fit(X[:5], Y[:5], X_val=X[5:], y_val=Y[5:])
    for model in (ten, few):
        loss = model.model_.evidence.tests.loss
        assert loss == pytest.approx(np.var(Y), rel=0.9)
        assert next(iter(model.model_.provenance.scores.values())) > 0.1
