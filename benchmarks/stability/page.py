"""The part of the page about stability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.stability.models import MODELS, SETTINGS
from evaluation.cells import Line
from evaluation.tables import markdown

RIVAL = "ebm"
INTRODUCTION = """## Stability

`python -m benchmarks.stability` measures. Each model is fitted to {resamples} training sets, the
rows to fit of that many splits; its components are compared on 2,000 rows drawn once from the whole
data set. SC is the paper's stability score: with f^j the fits of a component and f their mean, the
mean over the rows of sum_j (f^j - f)^2 / sum_j (f^j)^2, averaged over the main effects, or over all
components that any fit has (one that a fit has not chosen is zero there). Every component of every
model is first centred to mean zero over those rows. Smaller is more stable; in brackets, relative
to `ebm`. The test error is the mean over the same splits. `ebm-purified` is `ebm` with every pair
purified under the product of the training marginals, which changes no prediction: it is the
decomposition that tpnn has by itself. `nam` and `na2m` are trained as the paper says.
{settings}."""


def section(lines: Sequence[Line]) -> str:
    """Return the part of the page."""
    table = [("data", "model", "components", "SC, mains", "SC, all", "error", "test error")]
    rival = {line["data"]: line for line in lines if line["model"] == RIVAL}
    for line in sorted(lines, key=lambda line: (line["data"], MODELS.index(line["model"]))):
        scores = (_score(line, rival.get(line["data"]), over) for over in ("mains", "all"))
        error = f"{np.mean(line['errors']):.4g}"
        count = str(line["n_components"])
        table.append((line["data"], line["model"], count, *scores, line["measure"], error))
    most = max(line["resamples"] for line in lines)
    settings = "; ".join(
        f"`{model}` is `{_described(chosen)}`" for model, chosen in SETTINGS.items() if chosen
    )
    introduction = INTRODUCTION.format(resamples=most, settings=settings)
    return f"{introduction}\n\n{markdown(table, padded=True)}"


def _score(line: Line, rival: Line | None, over: str) -> str:
    value = line[f"stability_{over}"]
    return f"{value:.3f}" + (f" ({value / rival[f'stability_{over}']:.2f})" if rival else "")


def _described(settings: Mapping[str, Any]) -> str:
    """Return settings of the estimator as keywords, with its solver as a call.

    >>> _described({"order": 1, "solver": {"growth": "none", "l2": 1.0}})
    "order=1, solver=Grow(growth='none', l2=1.0)"
    """
    return ", ".join(
        f"{name}=Grow({_described(chosen)})" if name == "solver" else f"{name}={chosen!r}"
        for name, chosen in settings.items()
    )
