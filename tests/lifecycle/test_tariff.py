"""A tariff is frequency times severity, on every row and in every form that leaves Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import fuzzed_rows, mixed_model
from tests.models import random_model, with_remainder
from tpnn import AnovaModel, tariff
from tpnn.loss.links import LINKS
from tpnn.table.table import OffsetColumn

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def frequency() -> AnovaModel:
    """Claims per year of exposure, of all features but the last."""
    model = mixed_model(2).restrict([(0,), (1,), (2,), (3,), (4,), (1, 4), (0, 2)])
    column = OffsetColumn("years", 6, is_exposure=True)
    encoder = replace(model.encoder, offset_column=column)
    return replace(model, encoder=encoder, has_offset=True)


def severity() -> AnovaModel:
    model = mixed_model(2).restrict([(1,), (5,), (1, 5), (4, 5)])
    return replace(model, intercepts=model.intercepts + 7)


def rows(n_rows: int = 400) -> pd.DataFrame:
    X = fuzzed_rows(frequency(), n_rows)
    return X.assign(years=np.random.default_rng(0).uniform(0.1, 1, n_rows))


@pytest.mark.parametrize("has_remainder", [False, True])
def test_the_prediction_is_the_product(has_remainder: bool) -> None:
    claims, sizes, X = frequency(), severity(), rows()
    if has_remainder:
        sizes = with_remainder(sizes)
    product = tariff(claims, sizes, loading=1.07)
    expected = 1.07 * claims.predict(X) * sizes.predict(X)
    assert np.allclose(product.predict(X), expected, rtol=1e-11)
    assert product.identifiability_error() < 1e-10
    assert set(product.component_names) >= {("count",), ("town",), ("count", "town")}


def test_one_explanation_and_one_set_of_tables() -> None:
    product, X = tariff(frequency(), severity()), rows()
    total = product.component_scores(X).sum(1) + product.intercept + np.log(X["years"])
    assert np.allclose(np.exp(total), product.predict(X))
    tables = product.rating_tables(X, product.predict(X), max_bands=1000)
    assert tables.steps["actual_over_expected"][0] == pytest.approx(1)
    frame = tables.frames["town"]
    assert np.allclose(frame["observed"] * frame["exposure"], frame["actual"], equal_nan=False)
    again = tariff(frequency().restrict([(0,)]), severity().restrict([(5,)]))
    effect = again.rating_tables(max_bands=1000).frames["town"].set_index("town")["effect"]
    alone = severity().restrict([(5,)]).rating_tables(max_bands=1000).frames["town"]
    shifts = effect - alone.set_index("town")["effect"]
    assert np.ptp(shifts.drop("(unseen level)")) < 1e-9


def test_what_cannot_be_a_tariff() -> None:
    claims, sizes = frequency(), severity()
    with pytest.raises(ValueError, match="severity: the size of a claim has no exposure"):
        tariff(sizes, claims)
    with pytest.raises(ValueError, match="frequency: must be a model of one rate or amount"):
        tariff(random_model(2, 1), sizes)
    several = replace(random_model(2, 1, n_outputs=2), link=LINKS["softmax"])
    with pytest.raises(ValueError, match="severity: must be a model of one rate or amount"):
        tariff(claims, several)
    with pytest.raises(ValueError, match="loading: must be a positive number"):
        tariff(claims, sizes, loading=0)
