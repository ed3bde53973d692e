"""Facts: what a report says about a fit that the frozen model does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpnn.explain.path import Path
from tpnn.model.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """How a model was fitted; every field may be left out.

    Parameters
    ----------
    settings : dict from str to str
        Parameters of the estimator, in words.
    n_rows : int, optional
        Number of rows of the fit.
    power : float, optional
        Power of the Tweedie deviance that was fitted.
    scores : dict from str to float
        Further scores to show, by name.
    path : Path, optional
        Refitted models of several sizes and their losses.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    n_rows: int | None = None
    power: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    path: Path | None = None

    @classmethod
    def of(cls, provenance: Provenance | None) -> FitFacts:
        """Facts that a model knows about its fit; none without a provenance."""
        if provenance is None:
            return cls()
        settings = {name: repr(value) for name, value in provenance.settings.items()}
        return cls(settings=settings, n_rows=provenance.n_rows)
