"""Facts: what the rows of a fit say about each component, for the table of all components."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class ComponentFacts(NamedTuple):
    """What the rows of a fit say about one component; NaN where it is not known.

    Parameters
    ----------
    degrees : float
        Effective degrees of freedom: the coefficients of its smooth part that the data determine.
    p_value : float
        Of the test that the component is zero, given all others.
    loss_without : float
        Held-out loss if the component is left out, on the training scale.
    loss_error : float
        Standard error of the difference to the loss with it.
    concurvity : float
        Share of its variance over the training rows that other components could imitate.
    """

    degrees: float = math.nan
    p_value: float = math.nan
    loss_without: float = math.nan
    loss_error: float = math.nan
    concurvity: float = math.nan


class Facts(NamedTuple):
    """What the rows of a fit say about its components.

    Parameters
    ----------
    loss_name : str
        Name of the loss.
    loss : float
        Held-out loss of the bags, on the training scale.
    components : tuple of ComponentFacts
        One for each component of the model.
    """

    loss_name: str
    loss: float
    components: tuple[ComponentFacts, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as a dict that JSON can hold; what is not known is None."""
        lines = [[None if math.isnan(value) else value for value in s] for s in self.components]
        return {"loss_name": self.loss_name, "loss": self.loss, "components": lines}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Facts:
        """Make them from what ``as_dict`` returned; numbers that are not known are left out."""
        return cls(stored["loss_name"], stored["loss"], tuple(map(_line, stored["components"])))

    def first_broken_rule(self, n_components: int) -> str | None:
        """Return the rule that the facts break, or None if they make sense."""
        if not isinstance(self.loss_name, str) or not _is_finite(self.loss):
            return "the loss must have a name and be finite"
        if len(self.components) != n_components:
            return "every component must have its facts"
        if not all(
            type(value) is float and not math.isinf(value) for s in self.components for value in s
        ):
            return "facts must be numbers"
        shares = [value for s in self.components for value in (s.p_value, s.concurvity)]
        if any(value < 0 or value > 1 for value in shares):
            return "p-values and concurvity must be shares"
        return None


def _line(values: Sequence[Any]) -> ComponentFacts:
    known = values[: len(ComponentFacts._fields)]
    return ComponentFacts(*(math.nan if value is None else value for value in known))


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)
