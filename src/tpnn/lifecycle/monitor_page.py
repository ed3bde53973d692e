"""Page of a monitoring: the verdict, what moved the score, and the bins of each feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.anova.posterior import LEVEL, normal_quantile
from tpnn.explain.plots.labels import joined_names, label_levels, letters_beside, points_along
from tpnn.explain.plots.style import (
    BLUE,
    GREY,
    INK,
    LABEL_SIZE,
    axes_or_new,
    legend_above,
    tidy,
    tidy_names,
)
from tpnn.explain.report.static import Section, page, picture, pictures, table
from tpnn.model.summary import p_value_words
from tpnn.table.words import written

if TYPE_CHECKING:
    import pandas as pd

    from tpnn.lifecycle.monitor import Drift

MOST_FEATURES = 30  # that are drawn, those that moved most
MOST_COMPONENTS = 12
REACH = normal_quantile((1 + LEVEL) / 2)


def monitor_page(drift: Drift) -> str:
    """Write the page."""
    features = drift.features.sort_values("p_value", kind="stable")
    facts = [("Alarms", len(drift.alarms)), ("Features", len(features)),
             ("Features with an alarm", int(features["alarm"].sum()))]  # fmt: skip
    sections = [
        Section("Score", "Mean raw score of the reference and of the new rows. Its shift is the "
                "sum of the shifts of the components, whose bars have intervals of 95 %.",
                (table(drift.score.drop(columns=[] if drift.score["output"].any() else "output")),
                 pictures(_shifts(drift.components)),
                 table(_largest(drift.components, len(drift.components))))),
        *([Section("Targets", "Mean target beside mean prediction, and scores with intervals of "
                   "95 %.", (table(drift.calibration), table(drift.scores)))]
          if len(drift.scores) else []),
        Section("Features", "The stability index psi adds up the differences in all bins; below "
                "0.1 it is usually called small. Bars: reference in grey, new rows in blue.",
                (table(features), pictures(_bins(drift.bins, features[:MOST_FEATURES])))),
    ]  # fmt: skip
    return page("Monitoring", drift.verdict, facts, sections)


def _largest(components: pd.DataFrame, most: int) -> pd.DataFrame:
    """Components by the size of their shift."""
    order = np.argsort(-components["shift"].abs().to_numpy(), kind="stable")
    return components.iloc[order[:most]]


def _shifts(components: pd.DataFrame) -> Iterator[str]:
    """Draw the largest shifts of each output, with their intervals."""
    parts = components.groupby("output", sort=False) if "output" in components else None
    for output, frame in [("", components)] if parts is None else parts:
        shown = _largest(frame, MOST_COMPONENTS)[::-1]
        names = [name.split(" x ") for name in shown["component"]]
        others = list(dict.fromkeys(name for each in names for name in each))
        axes = axes_or_new(None, 5.6, 0.9 + 0.24 * len(shown))
        labels = [joined_names(name, letters_beside(None), others) for name in names]
        axes.barh(range(len(shown)), shown["shift"], color=BLUE, height=0.66,
                  xerr=REACH * shown["standard_error"], ecolor=INK)  # fmt: skip
        axes.axvline(0.0, color=GREY, linewidth=0.7)
        axes.set_yticks(range(len(shown)), labels)
        axes.set_xlabel("shift of the mean raw score", fontsize=LABEL_SIZE)
        tidy_names(axes)
        yield picture(str(output) or "Shift by component", axes.figure)


def _bins(bins: pd.DataFrame, features: pd.DataFrame) -> Iterator[str]:
    """Draw shares of both samples side by side, of the feature that moved most first."""
    groups = dict(iter(bins.groupby("feature", sort=False)))
    for line in features.to_dict("records"):
        frame: Any = groups[line["feature"]]
        axes, places = axes_or_new(None), np.arange(len(frame))
        for column, colour, side in (("reference", GREY, -0.2), ("new", BLUE, 0.2)):
            axes.bar(places + side, 100 * frame[column], color=colour, width=0.4, label=column)
        axes.set_ylabel("% of rows", fontsize=LABEL_SIZE)
        label_levels(axes.xaxis, places.tolist(), list(frame["bin"]), points_along(axes.xaxis))
        legend_above(axes)
        tidy(axes)
        alarm = "An alarm" if line["alarm"] else "No alarm"
        p_value = p_value_words(line["p_value"])
        words = f"{alarm}: psi {written(line['psi'])}, p-value {p_value}."
        yield picture(line["feature"], axes.figure, words)
