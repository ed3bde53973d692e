"""Components of several fits of one model: kept in files, aligned, and scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.interface import Component
from tpnn import stability_scores
from tpnn._utils.arrays import FloatArray, RealArray


class Decomposition(NamedTuple):
    """Components of one fit on the rows where fits are compared."""

    components: list[Component]  # features of each component
    scores: RealArray  # (n, C, n_outputs); values of the components
    notes: dict[str, Any]  # what else is known of the fit


def write(path: Path, fit: Decomposition) -> None:
    """Keep a decomposition; an interrupted write leaves no file behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(
        partial,
        components=json.dumps(fit.components),
        scores=fit.scores.astype(np.float32),
        notes=json.dumps(fit.notes),
    )
    partial.replace(path)


def read(path: Path) -> Decomposition:
    """Return a decomposition that has been kept."""
    with np.load(path) as stored:
        named = [tuple(component) for component in json.loads(str(stored["components"]))]
        notes = json.loads(str(stored["notes"])) if "notes" in stored else {}
        return Decomposition(named, stored["scores"].astype(np.float64), notes)


def align(fits: Sequence[Decomposition]) -> tuple[list[Component], FloatArray]:
    """Return the components that any fit has, and their values, (fits, n, C, n_outputs).

    A component that a fit does not have is zero there. Its features may come in any order.

    >>> one = Decomposition([(0,), (1, 0)], np.array([[[1.0], [2.0]]]), {})
    >>> two = Decomposition([(1,)], np.array([[[3.0]]]), {})
    >>> components, values = align([one, two])
    >>> components, values[:, 0, :, 0].tolist()
    ([(0,), (1,), (0, 1)], [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    """
    named = [[tuple(sorted(component)) for component in fit.components] for fit in fits]
    union = sorted({c for components in named for c in components}, key=lambda c: (len(c), c))
    n_rows, _, n_outputs = fits[0].scores.shape
    values = np.zeros((len(fits), n_rows, len(union), n_outputs))
    for aligned, components, fit in zip(values, named, fits, strict=True):
        aligned[:, [union.index(component) for component in components]] = fit.scores
    return union, values


def centred_scores(values: FloatArray) -> FloatArray:
    """Stability score of every component of centred estimates, shape (n_components, ...).

    A constant may stand in any component of a rival, and a large one would hide all differences.

    Parameters
    ----------
    values : array of shape (J, n, n_components, ...)
        Values of all components on the same n rows.

    Examples
    --------
    >>> x = np.array([-1.0, 1.0])[:, None]
    >>> centred_scores(np.stack([x, x + 3])), centred_scores(np.stack([x, -x]))
    (array([0.]), array([1.]))
    """
    return stability_scores(values - values.mean(1, keepdims=True))
