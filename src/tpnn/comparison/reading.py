"""Reading: whatever predicts by a sum of tables, as a frozen model."""

from __future__ import annotations

from typing import Any

from tpnn.combine.merge import as_model
from tpnn.interop.linear import is_linear, sum_of_linear
from tpnn.interop.purify import purified
from tpnn.interop.rating import sum_of_rating
from tpnn.model.model import AnovaModel
from tpnn.sheets.rating import RatingTables


def read_model(model: Any, X: Any) -> AnovaModel:
    """Frozen model of any kind of model that can be compared, without features it does not use.

    Parameters
    ----------
    model : AnovaModel, estimator, loaded model, EBM, linear model of scikit-learn or RatingTables
        The model.
    X : table
        Rows; a linear model is exact on their range.
    """
    if isinstance(model, RatingTables):
        return purified(sum_of_rating(model)).pruned()
    if is_linear(model):
        return purified(sum_of_linear(model, X)).pruned()
    return as_model(model).pruned()
