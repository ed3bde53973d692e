"""fairness: what groups get, and the nearest model under which a gap between groups is smaller.

The gap of a group is its mean raw score less that of all other rows. It is linear in the values of
the components: component S adds sum_c a_S(c) t_S(c) over its cells c, where a_S is the share of the
group's rows in each cell less that of all others. Of all changes of the pure components that move
the gap by a given amount, the one with the least mean square under the masses m is in the direction
of the pure part of a_S / m_S, because pure components are orthogonal. So the nearest model with a
given gap is exact, and in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import COUNT, Rule, check_parameters, is_finite, one_of
from tpnn.anova.components import Component
from tpnn.anova.measure import part_of
from tpnn.explain.contributions import node_shares
from tpnn.explain.metrics.estimates import area_estimate
from tpnn.export.sheets.tidy import cell_masses
from tpnn.lifecycle.compare.by_rows import EVEN
from tpnn.lifecycle.foreign.purified import purify
from tpnn.lifecycle.merge import as_model
from tpnn.lifecycle.validate.validate import attributes_of, group_differences
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, changed, offset_of

FAVOURABLE = ("below", "at least")
RULES = {
    "favourable": Rule('"below" or "at least"', one_of(*FAVOURABLE), "below"),
    "threshold": Rule("a finite number, or None", lambda x: x is None or is_finite(x), 0.2),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Fairness:
    """What ``tpnn.fairness`` measured.

    Parameters
    ----------
    model : AnovaModel
        The model, its components split under the masses of the rows.
    X : table
        The rows.
    y : array, or None
        Their targets.
    offset : array of shape (n_rows,), or None
        Known part of the raw score of each row.
    labels : dict of str to array of shape (n_rows,)
        Label of each row for every attribute.
    threshold : float, or None
        Prediction from which on the decision is another one.
    favourable : {"below", "at least"}
        Which of the two decisions people want.
    groups : DataFrame
        For each group its ``n_rows``, ``mean_prediction``, ``difference``, the gap of its mean raw
        score from that of all other rows, ``standardised_difference``, that of the mean predictions
        over their standard deviation and, with a threshold, ``selection_rate``, the share of its
        rows with the favourable decision, and ``adverse_impact_ratio``, this share over that of all
        other rows.
    group_components : DataFrame
        The differences split into components and the remainder, which sum to them.
    """

    model: AnovaModel
    X: Any
    y: Any
    offset: Any
    labels: Mapping[str, Any]
    threshold: float | None
    favourable: str
    groups: pd.DataFrame
    group_components: pd.DataFrame

    def __repr__(self) -> str:
        return f"Fairness({len(self.groups)} groups of {', '.join(self.labels)})"

    def nearest(self, group: Any, gap: float = 0.0, attribute: str | None = None) -> AnovaModel:
        """Return the model nearest to this one in which a group has a given gap.

        Parameters
        ----------
        group : str
            The group, as ``groups`` names it.
        gap : float, default=0.0
            Its mean raw score less that of all other rows.
        attribute : str, optional
            The attribute of the group, where there are several.

        Returns
        -------
        AnovaModel
            With the same components. No other values of these have this gap and a smaller mean
            square of their change. The intercept keeps the mean prediction of the rows. Shapes stay
            where they still hold; bands and the log of edits belong to the old model.
        """
        check_parameters({"gap": gap}, {"gap": Rule("a finite number", is_finite, 0.0)})
        inside = self._inside(group, attribute)
        pull = _pull(self.model, self.X, inside)
        squares = [(d**2 * cell_masses(self.model.axes(s))).sum() for s, d in pull.items()]
        if not sum(squares):
            raise ValueError(
                f"group: no component of the model tells {group!r} from the other rows, so its gap "
                "cannot change. Choose another group."
            )
        raw = self.model.raw_scores(self.X, self.offset)
        moved = (gap - self._gap_of(raw, inside)) / sum(squares)
        tables = tuple(
            table + moved * pull[s][..., None]
            for s, table in zip(self.model.components, self.model.tables, strict=True)
        )
        new = changed(self.model, tables=tables, shapes={})
        held = {n: s for n, s in self.model.shapes.items() if new.certificate(n, s).holds}
        return replace(self._balanced(new, raw), shapes=held)

    def curve(self, group: Any, attribute: str | None = None, n_steps: int = 11) -> pd.DataFrame:
        """Price of a smaller gap, in steps from the gap of the model to none.

        Returns
        -------
        DataFrame
            For each of the nearest models its ``gap``, ``loss`` and ``auc`` on the rows (NaN
            without targets), ``standardised_difference`` and, with a threshold,
            ``adverse_impact_ratio``.
        """
        check_parameters({"n_steps": n_steps}, {"n_steps": COUNT})
        inside, task = self._inside(group, attribute), self.model.task
        whole = self._gap_of(self.model.raw_scores(self.X, self.offset), inside)
        lines = []
        for share in np.linspace(1, 0, n_steps):
            raw = self.nearest(group, share * whole, attribute).raw_scores(self.X, self.offset)
            mean = task.link.inverse(raw)
            line = {"gap": share * whole, "loss": np.nan, "auc": np.nan}
            if self.y is not None:
                line["loss"] = task.loss(self.y, raw)
                if task.kind == "classes":
                    told = task.told(self.y)
                    is_second = told.targets(self.y, len(raw))[:, 0] == 1
                    line["auc"] = area_estimate("", is_second, raw).value
            lines.append(line | group_measures(mean, inside, self.threshold, self.favourable))
        return pd.DataFrame(lines).drop(columns="selection_rate", errors="ignore")

    def _gap_of(self, raw: FloatArray, inside: Any) -> float:
        """Gap of raw scores without the offset, which no component can change."""
        known = offset_of(self.model, self.X, self.offset)
        return _gap(raw if known is None else raw - known, inside)

    def _inside(self, group: Any, attribute: str | None) -> Any:
        """Whether each row is in a group."""
        names = list(self.labels)
        if attribute is None and len(names) == 1:
            attribute = names[0]
        if attribute is None or attribute not in self.labels:
            raise ValueError(
                f"attribute: must be one of {names}, found {attribute!r}. Name that of the group."
            )
        inside = np.array([str(label) == str(group) for label in self.labels[attribute]])
        if not inside.any() or inside.all():
            known = sorted({str(label) for label in self.labels[attribute]})
            raise ValueError(
                f"group: must be a group of {attribute!r} beside others, found {group!r}. There "
                f"are {known[:10]}."
            )
        return inside

    def _balanced(self, new: AnovaModel, raw: FloatArray) -> AnovaModel:
        """Move the intercept until the mean prediction is what it was."""
        task = new.task
        if not task.objective.predicts_means:
            return new
        before = task.link.inverse(raw)[:, None]
        after = new.raw_scores(self.X, self.offset)[:, None]
        shift = task.objective.start(before, after, np.full(len(raw), 1 / len(raw)))
        return replace(new, intercepts=new.intercepts + shift)


def fairness(
    model: Any,
    X: Any,
    protected: Any,
    y: Any = None,
    *,
    threshold: float | None = None,
    favourable: str = "below",
    offset: Any = None,
) -> Fairness:
    """Measure what groups get, and search for the nearest model with smaller gaps.

    Protected attributes need not be features of the model; what other features say about them is
    what the gaps consist of.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        A model with one output.
    X : table
        Rows, best such that the fit has not seen.
    protected : list of str, or dict from str to array of shape (n_rows,)
        Protected attributes: columns of X, or labels of each row by the attribute's name.
    y : array, optional
        Targets, for the price of a smaller gap.
    threshold : float, optional
        Prediction from which on the decision is another one; 0.5 for two classes.
    favourable : {"below", "at least"}, default="below"
        Which decision people want: a prediction below the threshold, such as a low risk, or one of
        at least that.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.

    Returns
    -------
    Fairness
        With ``groups``, ``group_components``, ``curve(group)`` and ``nearest(group, gap)``.
    """
    check_parameters({"threshold": threshold, "favourable": favourable}, RULES)
    frozen = as_model(model)
    if len(frozen.intercepts) > 1:
        raise ValueError(
            f"model: gaps are those of one output, found {len(frozen.intercepts)}. Fit one model "
            "for each target."
        )
    if threshold is None and frozen.task.kind == "classes":
        threshold = EVEN
    table = frozen.encoder.read(X)
    pure = replace(purify(frozen, X=table), has_offset=frozen.has_offset)
    pure = replace(
        pure, provenance=frozen.provenance, evidence=Evidence(baseline=frozen.evidence.baseline)
    )
    raw = pure.raw_scores(table, offset)
    labels = attributes_of(X, protected, len(raw))
    groups, parts = group_differences(pure, table, raw, labels)
    mean = frozen.task.link.inverse(raw)
    more = [
        group_measures(mean, np.array([str(x) == line["group"] for x in labels[line["attribute"]]]),
                       threshold, favourable)
        for line in groups.to_dict("records")
    ]  # fmt: skip
    for name in more[0] if more else ():
        groups[name] = [one[name] for one in more]
    return Fairness(
        model=pure,
        X=table,
        y=y,
        offset=offset,
        labels=labels,
        threshold=threshold,
        favourable=favourable,
        groups=groups,
        group_components=parts,
    )


def group_measures(
    mean: FloatArray, inside: Any, threshold: float | None, favourable: str
) -> dict[str, float]:
    """Standardised difference, selection rate and adverse impact ratio of a group.

    >>> chances = np.array([0.1, 0.3, 0.1, 0.1])
    >>> one = group_measures(chances, np.array([True, True, False, False]), 0.2, "below")
    >>> one["selection_rate"], one["adverse_impact_ratio"]
    (0.5, 0.5)
    """
    spread = float(mean.std())
    gap = _gap(mean, inside)
    found = {"standardised_difference": gap / spread if spread else np.nan}
    if threshold is None:
        return found
    wanted = mean < threshold if favourable == "below" else mean >= threshold
    rate, other = float(wanted[inside].mean()), float(wanted[~inside].mean())
    ratio = rate / other if other else np.nan
    return found | {"selection_rate": rate, "adverse_impact_ratio": ratio}


def _gap(values: FloatArray, inside: Any) -> float:
    return float(values[inside].mean() - values[~inside].mean())


def _pull(model: AnovaModel, X: Any, inside: Any) -> dict[Component, FloatArray]:
    """Pure part of a_S / m_S of each component; a_S is the share of the group less the others'."""
    columns = model.encoder.columns(model.encoder.read(X))
    pull = {}
    for component in model.components:
        axes = model.axes(component)
        group, others = (
            node_shares(axes, [columns[j][rows] for j in component]) for rows in (inside, ~inside)
        )
        masses = cell_masses(axes)
        ratio = np.divide(group - others, masses, out=np.zeros(masses.shape), where=masses > 0)
        pull[component] = part_of(ratio, [axis.weights for axis in axes], range(len(axes)))
    return pull
