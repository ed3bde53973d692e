"""Means of contributions by group are those of pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model, with_remainder

X = mixed_rows(300, seed=1)


@pytest.mark.parametrize("has_remainder", [False, True])
def test_means_by_month_add_up_to_the_raw_score(has_remainder: bool) -> None:
    model = with_remainder(mixed_model(2)) if has_remainder else mixed_model(2)
    found = model.explain(X).by_group(X["since"])
    months = X["since"].dt.to_period("M")
    raw = pd.Series(model.raw_scores(X)).groupby(months).mean()
    assert found["group"].tolist() == raw.index.tolist()
    assert np.allclose(found["raw score"], raw)
    assert np.array_equal(found["n_rows"], months.value_counts(sort=False).sort_index())
    parts = found.drop(columns=["group", "n_rows", "raw score"])
    assert np.allclose(parts.sum(axis=1) + model.intercept, found["raw score"])
    town = pd.Series(model.component_scores(X)[:, 5]).groupby(months).mean()
    assert np.allclose(found["town"], town)


def test_labels_of_any_kind_and_missing_ones() -> None:
    model = mixed_model(1)
    found = model.explain(X).by_group(X["town"].to_numpy())
    assert len(found) == X["town"].nunique() + 1
    assert found["n_rows"].sum() == 300
    assert found["group"].isna().sum() == 1
    with pytest.raises(ValueError, match="labels: one for each of the 300 rows is needed, found 2"):
        model.explain(X).by_group([1, 2])
    with pytest.raises(ValueError, match="output"):
        random_model(2, 1, n_outputs=2).explain(np.zeros((2, 2))).by_group([1, 2])
