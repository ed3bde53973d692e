"""Reading: whatever predicts by a sum of tables, as a frozen model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tpnn.export.sheets.rating import RatingTables
from tpnn.lifecycle.foreign.linear import is_linear, sum_of_linear
from tpnn.lifecycle.foreign.purify import purified
from tpnn.lifecycle.foreign.rating import sum_of_rating
from tpnn.lifecycle.merge import as_model
from tpnn.model.model import AnovaModel


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


def read_models(models: Sequence[Any], X: Any) -> list[AnovaModel]:
    """Frozen models of several models; outputs of a linear model get the names of those beside it.

    A linear model of several targets does not know what they are called.
    """
    found = [read_model(model, X) for model in models]
    others = (known for model, known in zip(models, found, strict=True) if not is_linear(model))
    names = next(others, found[0]).output_names
    return [
        replace(known, output_names=names)
        if is_linear(model) and not known.classes and len(known.output_names) == len(names)
        else known
        for model, known in zip(models, found, strict=True)
    ]
