"""merge: the weighted mean of several models as one model with unique components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.lifecycle.common_nodes import common_encoder
from tpnn.lifecycle.foreign.purify import purified, purify
from tpnn.lifecycle.foreign.tables import TableSum
from tpnn.model.baseline import Baseline
from tpnn.model.lifting import lifted
from tpnn.model.model import AnovaModel
from tpnn.table.encoder import TableEncoder


def merge(models: Sequence[Any], weights: Sequence[float] | None = None) -> AnovaModel:
    """Weighted mean of models, f = sum_k w_k f_k, as one model with unique components.

    The mean is that of the raw scores, on every row, also where values are missing or levels
    unseen. Each model may have features, nodes and levels that others do not have: it gets the
    columns that it knows. Components average to zero under the pooled masses, the mean of the
    masses of the models that have the feature. Where the models were fitted on different rows, such
    as those of several hospitals, numbers of rows as weights give federated averaging.

    The merged model has nodes for missing values and unseen levels, so it does not warn of them. It
    has no bands, and no shape is promised: ask its ``certificate``. The baseline
    of survival models is the weighted mean of their log cumulative hazards, from the time on at
    which all of them have events.

    Parameters
    ----------
    models : sequence of AnovaModel, fitted estimators or fitted EBMs
        At least one, all with the same link, outputs and classes.
    weights : sequence of float, optional
        Positive, in any unit; by default all models count the same.

    Examples
    --------
    >>> north = purify({"a": [-1.0, 1.0]}, nodes={"a": [0, 1]})
    >>> south = purify({"b": [-4.0, 4.0]}, nodes={"b": [0, 1]})
    >>> both = merge([north, south], weights=[3, 1])
    >>> both.raw_scores({"a": 1, "b": 1})
    array([1.75])
    """
    frozen = [as_model(model) for model in models]
    check_alike(frozen)
    shares = _shares(weights, len(frozen))
    encoder = common_encoder([model.encoder for model in frozen], shares)
    grids: dict[Component, FloatArray] = {}
    for model, share in zip(frozen, shares, strict=True):
        add_grids(grids, lifted(model, encoder), share)
    intercepts = sum(share * model.intercepts for share, model in zip(shares, frozen, strict=True))
    pure = purified(sum_of_grids(frozen[0], encoder, grids, np.asarray(intercepts)))
    return replace(
        pure,
        has_offset=any(model.has_offset for model in frozen),
        baseline=_mean_baseline([model.baseline for model in frozen], shares),
    )


def as_model(model: Any) -> AnovaModel:
    """Frozen model of a fitted estimator, a loaded model, an EBM, or the model itself."""
    if isinstance(model, AnovaModel):
        return model
    if isinstance(getattr(model, "model_", None), AnovaModel):
        return model.model_  # type: ignore[no-any-return]
    return purify(model)


def check_alike(models: Sequence[AnovaModel]) -> None:
    """Refuse no models at all, and models whose raw scores mean different things."""
    if not models:
        raise ValueError("models: at least one model is needed, found none. Pass a list of models.")
    first = models[0]
    for model in models[1:]:
        for what, one, other in (
            ("link", first.link.name, model.link.name),
            ("classes", first.classes, model.classes),
            ("outputs", first.output_names, model.output_names),
        ):
            if one != other:
                raise ValueError(
                    f"models: all must have the same {what}, because their raw scores are compared "
                    f"or averaged, found {one!r} and {other!r}. Fit them for the same task."
                )


def add_grids(
    total: dict[Component, FloatArray], grids: Mapping[Component, FloatArray], share: float
) -> None:
    """Add the grids of one model, times its share, to those of all."""
    for component, grid in grids.items():
        total[component] = total.get(component, 0.0) + share * grid


def sum_of_grids(
    like: AnovaModel,
    encoder: TableEncoder,
    grids: Mapping[Component, FloatArray],
    intercepts: FloatArray,
) -> TableSum:
    """Sum of grids on common nodes, with the link and the outputs of a model."""
    return TableSum(
        encoder=encoder,
        tables={component: grid[..., None] for component, grid in grids.items()},
        intercept=intercepts[:, None],
        link=like.link.name,
        output_names=like.output_names,
        classes=like.classes,
    )


def _shares(weights: Sequence[float] | None, n_models: int) -> list[float]:
    """Weights that sum to one."""
    given = np.ones(n_models) if weights is None else np.asarray(weights, np.float64)
    if given.shape != (n_models,) or not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(
            f"weights: one positive number is needed for each of {n_models} models, found "
            f"{given.tolist()}. Pass numbers of rows, or leave the argument out."
        )
    return list(given / given.sum())


def _mean_baseline(
    baselines: Sequence[Baseline | None], shares: Sequence[float]
) -> Baseline | None:
    """Weighted mean of log cumulative hazards, from the last of the first events on."""
    known = [baseline for baseline in baselines if baseline is not None]
    if len(known) < len(baselines):
        return None
    every = np.unique(np.concatenate([baseline.times for baseline in known]))
    times = every[every >= max(baseline.times[0] for baseline in known)]
    logs = np.zeros(len(times))
    for baseline, share in zip(known, shares, strict=True):
        steps = np.searchsorted(baseline.times, times, side="right") - 1
        logs += share * baseline.log_hazard[steps]
    return Baseline(times, np.maximum.accumulate(logs))
