"""Explanation: a reading of a model that can also be drawn."""

from __future__ import annotations

from typing import Any

from tpnn.explain import plots
from tpnn.explain.reading import Reading, Wanted
from tpnn.explain.response import RAW


class Explanation(Reading):
    """A model's components as a whole and, if rows are given, on each row.

    Estimators and models return it from ``explain``. An offset passed to ``predict`` is not a
    component: scores, Shapley values, reasons and plots of rows leave it out.

    Parameters
    ----------
    model : AnovaModel
        The model to explain, fitted or loaded.
    rows : table, optional
        The rows to explain; anything that ``predict`` accepts.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> data = datasets.make_synthetic("f1", n_samples=500, random_state=0)
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(data.X, data.y)
    >>> explanation = model.explain(data.X[:3])
    >>> explanation.scores.shape
    (3, 5)
    >>> next(iter(explanation.importance()))
    ('X4',)
    """

    def plot(
        self,
        component: Wanted | None = None,
        ax: Any = None,
        *,
        scale: str = RAW,
        reference: Any = None,
        log_axes: bool = True,
    ) -> Any:
        """Draw one component or, if none is named, the importance of all; return the Axes.

        The arguments are those of :func:`tpnn.explain.plots.main_effect`.
        """
        if component is None:
            return plots.importance(self, ax=ax)
        return plots.component(
            self, component, ax, scale=scale, reference=reference, log_axes=log_axes
        )
