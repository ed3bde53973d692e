"""Facts: what a report says about a fit that the frozen model does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        return cls(settings=in_words(provenance.settings), n_rows=provenance.n_rows)


def in_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as a reader expects them, without the quotes of Python.

    >>> in_words({"order": "auto", "monotone": {"age": "increasing"}, "n_bags": 8})
    {'order': 'auto', 'monotone': 'age: increasing', 'n_bags': '8'}
    """
    return {name: _word(value) for name, value in settings.items()}


def _word(value: Any) -> str:
    """Write a text as it is, a dict or a list by its items, anything else as Python does.

    >>> _word([("age", "income"), "age"])
    '(age, income), age'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value:
        return ", ".join(f"{_word(key)}: {_item(item)}" for key, item in value.items())
    if isinstance(value, list | tuple) and value:
        return ", ".join(map(_item, value))
    return repr(value)


def _item(value: Any) -> str:
    """Write a part of a setting, with brackets around several."""
    is_several = isinstance(value, Mapping | list | tuple) and len(value) > 0
    return f"({_word(value)})" if is_several else _word(value)
