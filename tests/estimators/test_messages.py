"""The table of messages in the docs: every call raises what stands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from tests.conftest import QUICK
from tpnn import (
    Explanation,
    Grow,
    TPNNClassifier,
    TPNNRegressor,
    TPNNSurvival,
    compare,
    distributed,
    load,
    merge,
    monitor,
    purify,
    read,
    scorecard,
    validate,
)

PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
LINES = [
    line.split("|")[1:3] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")
]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc"))
    y = rng.normal(size=30)

    def quick(kind: Any) -> Any:
        return lambda **settings: kind(**{**QUICK, **settings})

    model = TPNNRegressor(**QUICK).fit(X, y)
    estimators = {"R": TPNNRegressor, "C": TPNNClassifier, "S": TPNNSurvival}
    known = {name: quick(kind) for name, kind in estimators.items()}
    return {**known, "X": X, "y": y, "np": np, "model": model, "Grow": Grow, "purify": purify,
            "Explanation": Explanation, "scorecard": scorecard, "merge": merge, "compare": compare,
            "monitor": monitor, "validate": validate, "distributed": distributed,
            "load": load, "read": read,
            "GradientBoostingClassifier": GradientBoostingClassifier,
            "HistGradientBoostingRegressor": HistGradientBoostingRegressor,
            "LinearRegression": LinearRegression,
            "DecisionTreeRegressor": DecisionTreeRegressor}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), LINES, ids=[call.strip(" `") for call, _ in LINES])
def test_the_call_raises_its_message(call: str, message: str, names: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        eval(call.strip(" `"), dict(names))
    assert str(caught.value).startswith(message.strip())


def test_the_table_is_read() -> None:
    assert len(LINES) >= 25
