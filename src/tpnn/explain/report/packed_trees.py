"""Remainder of a report: its trees, packed so that the page can score them, and its sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.trees import Trees
from tpnn.explain.explanation import Explanation
from tpnn.explain.report.packing import pack
from tpnn.model.remainder import remainder_name

LARGEST_PACKED = 20_000_000  # letters of packed trees; a page of more takes long to load


def summarise_remainder(
    explanation: Explanation, shown: IntArray, deviation: float
) -> dict[str, Any] | None:
    """Collect all that the page shows of the remainder, None if the model has none.

    Trees that are too large for a page are left out: then it has the remainder of the shown rows
    instead. ``deviation`` is the share of the raw score's that the trees may be off by.
    """
    model, remainder = explanation.model, explanation.model.remainder
    if remainder is None:
        return None
    name = remainder_name(model.feature_names)
    share = explanation.sobol()[name]
    grown = share / remainder.share if remainder.share else 0.0  # since the fit, by edits
    trees = packed_trees(remainder.trees, deviation)
    fits = len(trees["packed"]["text"]) <= LARGEST_PACKED
    return {
        "name": name[0],
        "importance": explanation.importance(normalise=True)[name],
        "share": share,
        "sentence": remainder.sentence,
        "sets": [[list(each.features), grown * each.share] for each in remainder.largest],
        "held": [list(component) for component in remainder.components],
        "constants": remainder.constants.tolist(),
        "trees": trees if fits else None,
        "recorded": [] if fits else _recorded(explanation, shown),
    }


def _recorded(explanation: Explanation, shown: IntArray) -> list[list[float]]:
    """Remainder of the rows that the page shows, each with a number for every output."""
    if len(shown) == 0:
        return []
    outputs = len(explanation.model.intercepts)
    recorded: list[list[float]] = explanation.remainder[shown].reshape(-1, outputs).tolist()
    return recorded


def packed_trees(trees: Trees, deviation: float) -> dict[str, Any]:
    """Pack trees; on any row their sum is off by at most ``MAX_ERROR`` deviations.

    Whole numbers follow the values of the leaves: what is asked about, which codes go right, roots,
    questions and children of nodes, and codes of levels.
    """
    features = [(j, trees.features[j]) for j in trees.used]
    groups = [feature.groups for _, feature in features if feature.groups is not None]
    numbers = [trees.asked, trees.right, trees.roots, trees.questions, trees.children.ravel()]
    values: list[FloatArray] = list(np.ascontiguousarray(trees.values.T))
    return {
        "features": [
            {
                "feature": j,
                "codes": feature.n_codes,
                "ends": len(feature.ends),
                "levels": None if feature.groups is None else len(feature.groups),
            }
            for j, feature in features
        ],
        "sizes": [len(trees.values), *map(len, numbers)],
        "packed": pack(
            [feature.ends for _, feature in features], [], values, deviation,
            numbers=[*numbers, *groups], n_summed=len(trees.roots),
        )._asdict(),
    }  # fmt: skip
