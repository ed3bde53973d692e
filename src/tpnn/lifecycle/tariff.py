"""tariff: frequency times severity as one model, with one table and one explanation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.rules import POSITIVE, check_parameters
from tpnn.lifecycle.merge import as_model, common_encoder, weighted_sum
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel

# Policies define the masses; a feature that only the claims have keeps those of the claims.
MASSES = (1.0, 1e-12)


def tariff(frequency: Any, severity: Any, *, loading: float = 1.0) -> AnovaModel:
    """Multiply a model of claim numbers by a model of claim sizes.

    Logarithms add up, so the product is again a model with unique components: on every row its
    prediction is the one of ``frequency``, times that of ``severity``, times ``loading``. Its
    components average to zero under the masses of the policies that ``frequency`` was fitted to. It
    explains, exports and becomes rating tables like any other model. It has no bands.

    Parameters
    ----------
    frequency : AnovaModel, fitted estimator or loaded model
        Claims per row or per unit of exposure, with a log link. Its exposure is that of the tariff.
    severity : AnovaModel, fitted estimator or loaded model
        Mean size of a claim, with a log link and without exposure.
    loading : float, default=1.0
        Factor for what neither model knows, such as large losses: if sizes were capped for the fit,
        all losses over all capped losses.

    Returns
    -------
    AnovaModel

    Examples
    --------
    >>> from tpnn import purify
    >>> nodes = {"age": [20, 60]}
    >>> frequency = purify({"age": np.log([0.2, 0.1])}, nodes, link="log")
    >>> severity = purify({"age": np.log([500.0, 800.0])}, nodes, link="log")
    >>> tariff(frequency, severity, loading=1.1).predict([[20], [60]]).round(6)
    array([110.,  88.])
    """
    check_parameters({"loading": loading}, {"loading": POSITIVE})
    models = {"frequency": as_model(frequency), "severity": as_model(severity)}
    for name, model in models.items():
        if model.task.kind != "rates" or len(model.intercepts) > 1:
            raise ValueError(
                f"{name}: must be a model of one rate or amount with a log link, found the "
                f"{model.link.name} link and {len(model.intercepts)} outputs. Fit with "
                "objective='poisson' or 'gamma', for example."
            )
    claims, sizes = models.values()
    if sizes.has_offset or sizes.encoder.offset_column is not None:
        raise ValueError(
            "severity: the size of a claim has no exposure, and this model was fitted with an "
            "offset. Fit it without, with the numbers of claims as sample_weight."
        )
    column = claims.encoder.offset_column
    bare = [replace(m, encoder=replace(m.encoder, offset_column=None)) for m in (claims, sizes)]
    product = weighted_sum(bare, (1.0, 1.0), common_encoder([m.encoder for m in bare], MASSES))
    if column is not None:
        last = column._replace(place=product.encoder.n_features)  # features come first
        product = replace(product, encoder=replace(product.encoder, offset_column=last))
    return replace(
        product,
        intercepts=product.intercepts + np.log(loading),
        has_offset=claims.has_offset,
        evidence=Evidence(),
    )
