"""The arrays of a model, made read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpnn.anova.terms import Terms
from tpnn.table.axis import read_only


def read_only_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that hold arrays, made read-only."""
    terms, baseline = state["stored_terms"], state.get("baseline")
    posteriors, calibration = state.get("posteriors"), state.get("calibration")
    return {
        "tables": tuple(map(read_only, state["tables"])),
        "spreads": tuple(map(read_only, state["spreads"])),
        "intercepts": read_only(state["intercepts"]),
        "stored_terms": terms and tuple(map(_read_only_terms, terms)),
        "baseline": baseline and baseline.frozen(),
        "posteriors": posteriors and tuple(known and known.frozen() for known in posteriors),
        "calibration": calibration and calibration.frozen(),
    }


def _read_only_terms(terms: Terms) -> Terms:
    return Terms(terms.features, *map(read_only, (terms.b, terms.gamma, terms.beta)))
