"""Explanation: a reading of a model that can also be drawn."""

from __future__ import annotations

from typing import Any

from tpnn.explain import plots
from tpnn.explain.reading import Reading, Wanted


class Explanation(Reading):
    """A model's components as a whole and, where rows were given, on each row."""

    def plot(self, component: Wanted | None = None, ax: Any = None) -> Any:
        """Draw one component, or the importance of all where none is named; return the Axes."""
        if component is None:
            return plots.importance(self, ax=ax)
        return plots.component(self, component, ax=ax)
