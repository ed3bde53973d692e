"""compare: two models on the same nodes, and what differs between them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.components import ComponentSet, in_order
from tpnn.anova.posterior import LEVEL, normal_quantile
from tpnn.anova.trees import joined
from tpnn.explain.metrics.curves import score_words
from tpnn.explain.metrics.estimates import Estimate, estimate
from tpnn.explain.report.static import counted, notebook
from tpnn.explain.report.writing import Report, saved_page
from tpnn.lifecycle.compare.by_rows import (
    AT_LEAST,
    BELOW,
    RowComparison,
    compare_rows,
    has_components,
)
from tpnn.lifecycle.compare.comparison_page import comparison_page, with_rows
from tpnn.lifecycle.foreign.purified import purified, reweighted, sum_of_grids
from tpnn.lifecycle.foreign.table_sum import TableSum, is_linear, sum_of_linear
from tpnn.lifecycle.merge import as_model, check_alike, common_encoder
from tpnn.loss.links import LINKS
from tpnn.model.constrain import rounding_error
from tpnn.model.evidence import Evidence
from tpnn.model.model import (
    AnovaModel,
    beside_trees,
    changed,
    pruned,
    restricted,
    row_scores,
    tables_by_component,
)
from tpnn.model.regrid import lifted_tables, lifted_trees, reweighted_trees, sum_of_trees
from tpnn.model.remainder import Remainder, remainder_name
from tpnn.model.task import Task
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.words import signed_column, written

ROUNDINGS = 16.0  # sums of that many rounding errors are no difference
INTERCEPT = "(intercept)"


def read_model(model: Any, X: Any) -> AnovaModel:
    """Freeze any model that can be compared, without the features that it does not use.

    A linear model is exact on the range of the rows X.
    """
    if is_linear(model):
        return pruned(purified(sum_of_linear(model, X)))
    return pruned(as_model(model))


def read_models(models: Sequence[Any], X: Any) -> list[AnovaModel]:
    """Frozen models of several models; outputs of a linear model get the names of those beside it.

    A linear model of several targets does not know what they are called.
    """
    frozen = [read_model(model, X) for model in models]
    others = (one for model, one in zip(models, frozen, strict=True) if not is_linear(model))
    names = next(others, frozen[0]).output_names
    return [
        replace(one, output_names=names)
        if is_linear(model) and not one.classes and len(one.output_names) == len(names)
        else one
        for model, one in zip(models, frozen, strict=True)
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(RowComparison):
    """Two models on common nodes and masses, and their difference.

    What ``RowComparison`` says of predictions alone, it says too.

    Parameters
    ----------
    old : AnovaModel
        The old function with components that average to zero over the rows of the comparison.
    new : AnovaModel
        The new function, likewise.
    difference : AnovaModel
        New less old, as a model: its raw score is the difference of the raw scores.
    originals : tuple of AnovaModel
        The models as they were, with their bands.
    raw : tuple of array of shape (n_rows[, n_outputs])
        Raw scores of both, offset included.
    given : tuple
        The models as they were passed.
    """

    old: AnovaModel
    new: AnovaModel
    difference: AnovaModel
    originals: tuple[AnovaModel, AnovaModel]
    raw: tuple[FloatArray, FloatArray]
    given: tuple[Any, Any]

    def __repr__(self) -> str:
        counts = self.frame["status"].value_counts()
        listed = ", ".join(f"{count} {status}" for status, count in counts.items())
        return f"Comparison({self.names[0]} and {self.names[1]}: components {listed})"

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One line for each component and output, the largest differences first; and the remainder.

        ``status`` is "gained", "lost", "moved" or "same". Sizes are means of absolute contributions
        over the rows, under the names of the models, and ``difference`` is that of the difference.
        """
        outputs, names = self.difference.output_names or ("",), [INTERCEPT, *self.part_names]
        sizes = []  # (n_names, n_outputs) each
        for model in (self.old, self.new, self.difference):
            scores = _scores(model, self.X, self.difference.components)
            means = np.concatenate([model.intercepts[None], np.abs(scores).mean(0)])
            sizes.append(means[: len(names)])
        statuses = ["moved" if shift else "same" for shift in self.difference.intercepts]
        statuses += [self._status(place) for place in range(len(names) - 1) for _ in outputs]
        frame = pd.DataFrame({
            "component": np.repeat(np.array(names, object), len(outputs)),
            "output": outputs * len(names),
            "status": statuses,
            **dict(zip((*self.names, "difference"), map(np.ravel, sizes), strict=True)),
        })  # fmt: skip
        order = frame["difference"].abs().sort_values(ascending=False, kind="stable").index
        frame = frame.loc[order].reset_index(drop=True)
        return frame if self.difference.output_names else frame.drop(columns="output")

    @cached_property
    def nested(self) -> pd.DataFrame:
        """Deviance, effective degrees of freedom and AIC of two nested fits, and a test.

        Both are fits to the same rows, with bands, and one has all components of the other.
        ``p_value`` is that of the joint test, in the larger one, of all components that the smaller
        one lacks. It holds for components that were listed, or all included, in both fits. Where a
        search or a selection chose among components of their order, it would be too small or too
        large, and is NaN. So it is without the training rows, to which the estimator of a fit holds
        a reference, but a pickled one does not.
        """
        fits = [one.evidence.tests and one.evidence.tests.fit for one in self.originals]
        kept = [fit for fit in fits if fit is not None]
        if len(kept) < 2:
            without = self.names[fits.index(None)]
            raise ValueError(
                "nested: needs fits with an AIC, which have bands, a likelihood, no remainder and "
                f"no linear features, found none of {without!r}. Fit it so."
            )
        if len({one.provenance and one.provenance.fingerprint for one in self.originals}) > 1:
            raise ValueError(
                f"nested: needs two fits to the same rows, found others of {self.names[1]!r} than "
                f"of {self.names[0]!r}. Fit both to the same rows."
            )
        sets = [set(one.component_names) for one in self.originals]
        large = int(sets[0] < sets[1])
        if not sets[1 - large] < sets[large]:
            n_lacking = [len(sets[1] - sets[0]), len(sets[0] - sets[1])]
            raise ValueError(
                "nested: one fit must have all components of the other and more, found "
                f"{n_lacking[0]} that {self.names[0]!r} lacks, and {n_lacking[1]} that "
                f"{self.names[1]!r} lacks. List the components of both with components=."
            )
        p_values = np.full(2, np.nan)
        more = [s for s in self.originals[large].component_names if s not in sets[1 - large]]
        orders = {len(names) for names in more}
        kept_rows = [getattr(one, "_fitted_", None) for one in self.given]
        if all(fitted and not orders & fitted.kept.searched for fitted in kept_rows):
            p_values[1 - large] = self.given[large].test(more).p_value
        frame = pd.DataFrame(kept, index=list(self.names)).rename(columns={"degrees": "edf"})
        return frame.assign(p_value=p_values)

    @cached_property
    def part_names(self) -> list[str]:
        """Names of what either model consists of: the components, and the remainder if it has one.

        They are in the order of the components of the difference.
        """
        names = [" x ".join(names) for names in self.difference.component_names]
        if self.old.remainder is None and self.new.remainder is None:
            return names
        return [*names, *remainder_name(self.difference.feature_names)]

    def _status(self, place: int) -> str:
        """Whether the new model gained, lost or moved a component, or the remainder."""
        models, components = (self.old, self.new), self.difference.components.components
        if place == len(components):
            in_old, in_new = (model.remainder is not None for model in models)
            has_moved = self.difference.remainder is not None
        else:
            in_old, in_new = (components[place] in m.components.components for m in models)
            has_moved = bool(self.difference.tables[place].any())
        if in_old != in_new:
            return "gained" if in_new else "lost"
        return "moved" if has_moved else "same"

    @cached_property
    def _estimates(self) -> list[tuple[Estimate, Estimate]]:
        """Each score of both models."""
        if self.y is None:
            return []
        pairs = zip(self.tasks, self.raw, strict=True)
        old, new = (estimate(task, self.y, raw) for task, raw in pairs)
        return list(zip(old, new, strict=True))

    @property
    def verdict(self) -> str:
        """The comparison in a sentence: whether the first score differs clearly, and what flips."""
        n_rows, words = len(self.raw[0]), ""
        if len(self.scores):
            score, _, _, difference, error = self.scores.iloc[0]
            reach, is_gain = normal_quantile((1 + LEVEL) / 2) * error, self._estimates[0][1].is_gain
            change, ends = signed_column([difference], reach / 10)[0], written(reach, reach / 10)
            is_better = (difference > 0) == bool(is_gain)
            clear = f"{self.names[1]} is clearly {'better' if is_better else 'worse'}"
            words = f"{clear if abs(difference) > reach else 'No clear difference'}: "
            words += f"{score_words(score)} {change} ± {ends} on {n_rows} rows (95 %). "
        status = self.frame["status"]
        kept = f"{(status == 'same').sum()} of {len(status)} parts are the same"
        words += f"{kept}." if words else f"No targets were given; {kept}, on {n_rows} rows."
        if not self.has_decisions:
            return words
        return f"{words} {counted(len(self.flips), 'decision')} of {n_rows} would flip."

    @property
    def has_decisions(self) -> bool:
        """Whether anything is decided: a class, or by a threshold."""
        has_threshold = self.threshold is not None and self.raw[1].ndim == 1
        return has_threshold or self.tasks[1].kind == "classes"

    def _repr_html_(self) -> str:
        """Show the verdict and the largest differences in a notebook."""
        return notebook(self.verdict, self.frame)

    def row_differences(self) -> pd.DataFrame:
        """Difference of every component on every row, which sum to that of the raw scores.

        Columns are the intercept, the components and, where either model has one, the remainder;
        with several outputs they have two levels.
        """
        names = [INTERCEPT, *self.part_names]
        scores = _scores(self.difference, self.X, self.difference.components)
        constant = np.broadcast_to(self.difference.intercepts, (len(scores), 1, scores.shape[2]))
        whole = np.concatenate([constant, scores], 1)[:, : len(names)]
        if not self.difference.output_names:
            return pd.DataFrame(whole[..., 0], columns=names)
        columns = pd.MultiIndex.from_product([names, self.difference.output_names])
        return pd.DataFrame(whole.reshape(len(whole), -1), columns=columns)

    @cached_property
    def flips(self) -> pd.DataFrame:
        """Rows whose decision flips: predictions, decisions, and the component that moved most.

        Empty where there is no decision: for numbers without a threshold.
        """
        decisions = list(map(self._decisions, self.tasks, self.raw, self.predictions))
        is_flipped: BoolArray = np.asarray(decisions[0] != decisions[1], bool)
        rows = np.flatnonzero(is_flipped)
        parts = _scores(self.difference, self.X, self.difference.components)[rows]
        names = self.part_names
        largest = np.abs(parts).max(-1).argmax(1) if names and len(rows) else np.zeros(0, int)
        frame: dict[str, Any] = {"row": rows}
        for name, mean, decision in zip(self.names, self.predictions, decisions, strict=True):
            if mean.ndim == 1:
                frame[f"{name} prediction"] = mean[rows]
            frame[f"{name} decision"] = decision[rows]
        frame["largest_difference"] = np.array([names[k] for k in largest], object)
        return pd.DataFrame(frame)

    def _decisions(self, task: Task, raw: FloatArray, mean: FloatArray) -> Any:
        """Return what is decided for each row, or zeros where nothing is."""
        if self.threshold is not None and mean.ndim == 1:
            return np.where(mean >= self.threshold, AT_LEAST, BELOW)
        if task.kind != "classes":
            return np.zeros(len(raw))
        return np.array(task.classes or task.outputs or (0, 1), object)[task.decisions(raw)]

    def to_html(self, path: str | os.PathLike[str]) -> Report:
        """Write one self-contained page: scores, components, curves, heat maps of pairs, flips."""
        return saved_page(path, comparison_page(self))


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any = None,
    *,
    offset: Any = None,
    threshold: float | None = None,
) -> Comparison | RowComparison:
    """Compare an old model with a new one, exactly, component by component.

    Both are written on the same nodes and split into components under the same masses, those of the
    rows X; then they are subtracted. So two models with the same function differ by zero in every
    component, however they were split before, and the differences of a row sum to the difference of
    its raw scores.

    Parameters
    ----------
    models : dict from str to model
        Two models by name, the old one first: AnovaModels, fitted estimators, loaded models, EBMs,
        linear models of scikit-learn with numbers as features, rating tables or score cards; all
        with the same link, classes and outputs. Outputs of linear models have no names: they are
        those of the other model, in order. If one of the two is anything else, a fitted model, a
        function of a table or an array with a score for each row, both are compared by their
        predictions alone.
    X : table
        Rows to compare the models on. They have the columns that either model needs.
    y : array, optional
        Their targets: then scores are compared, too.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.
    threshold : float, optional
        Prediction from which on the decision is another one. By default classifiers decide for the
        most probable class, and other models decide nothing.

    Returns
    -------
    Comparison or RowComparison
        With ``scores``, ``swap_set()``, ``double_lift()``, ``dislocation()`` and ``to_html(path)``;
        of two sums of components also with ``frame``, ``flips`` and ``row_differences()``.

    Examples
    --------
    >>> from tpnn import purify
    >>> nodes = {"a": [0, 1], "b": [0, 1]}
    >>> old = purify({("a", "b"): [[0.0, 1.0], [2.0, 5.0]]}, nodes)
    >>> new = purify({("a", "b"): [[0.0, 1.0], [2.0, 3.0]]}, nodes)
    >>> compare({"old": old, "new": new}, {"a": np.array([0, 1]), "b": np.array([1, 0])})
    Comparison(old and new: components 3 moved, 1 lost)
    """
    names = tuple(models)
    if len(names) != 2:
        raise ValueError(
            f"models: two are needed, the old one first, found {len(names)}. Compare more of them "
            "in pairs."
        )
    if not all(map(has_components, models.values())):
        return compare_rows(models, X, y, offset, threshold)
    frozen = read_models(list(models.values()), X)
    check_alike(frozen)
    old, new, difference = _on_common_nodes(frozen, X)
    tasks, raw = [model.task for model in frozen], [m.raw_scores(X, offset) for m in (old, new)]
    means = [task.link.inverse(scores) for task, scores in zip(tasks, raw, strict=True)]
    return Comparison(
        names=(str(names[0]), str(names[1])),
        predictions=(means[0], means[1]),
        tasks=tasks,
        old=old,
        new=new,
        difference=difference,
        originals=(frozen[0], frozen[1]),
        raw=(raw[0], raw[1]),
        given=tuple(models.values()),
        X=X,
        y=y,
        threshold=threshold,
    )


def _on_common_nodes(
    models: Sequence[AnovaModel], X: Any
) -> tuple[AnovaModel, AnovaModel, AnovaModel]:
    """Both models with components that are unique under the masses of X, and new less old."""
    sums = _sums(models, common_encoder([model.encoder for model in models], [0.5, 0.5]))
    trees = sum_of_trees([(1.0, one.trees) for one in sums])
    every = replace(sums[0], tables=sums[0].tables | sums[1].tables, trees=trees)
    encoder = reweighted(every, X).encoder
    arrays = [*(t for model in models for t in model.tables), *(m.intercepts for m in models)]
    rounding = ROUNDINGS * rounding_error(arrays)
    pure = []
    for model, one in zip(models, sums, strict=True):
        own = None if one.trees is None else reweighted_trees(one.trees, encoder)
        whole = purified(replace(one, encoder=encoder, trees=own))
        kept = (s for s, table in tables_by_component(whole).items()
                if _largest(table, whole.axes(s)) > rounding)  # fmt: skip
        baseline, rest = Evidence(baseline=model.evidence.baseline), whole.remainder
        core = replace(restricted(whole, kept), has_offset=model.has_offset, evidence=baseline)
        pure.append(replace(core, remainder=rest))
    return pure[0], pure[1], _difference(pure[0], pure[1], rounding)


def _sums(models: Sequence[AnovaModel], encoder: TableEncoder) -> list[TableSum]:
    """Both models on common nodes; where there are trees, they have the same components."""
    parts, trees = list(map(beside_trees, models)), lifted_trees(models, encoder)
    grids = [
        lifted_tables(m, tables, encoder) for m, (_, tables) in zip(models, parts, strict=True)
    ]
    if any(trees):
        every = ComponentSet((*grids[0], *grids[1])).with_subsets()
        grids = [encoder.zeros(every, len(parts[0][0])) | grid for grid in grids]
    return [
        sum_of_grids(model, encoder, grid, intercepts, own)
        for model, grid, (intercepts, _), own in zip(models, grids, parts, trees, strict=True)
    ]


def _difference(old: AnovaModel, new: AnovaModel, rounding: float) -> AnovaModel:
    """Return new less old as a model; what is rounding is zero."""
    before, after = tables_by_component(old), tables_by_component(new)
    components = ComponentSet((*before, *after))
    tables = []
    for component in components:
        table = after.get(component, np.zeros(1)) - before.get(component, np.zeros(1))
        is_rounding = _largest(table, new.axes(component)) <= rounding
        tables.append(np.zeros_like(table) if is_rounding else table)
    moved = new.intercepts - old.intercepts
    return changed(
        new,
        components=components,
        tables=tuple(tables),
        intercepts=np.where(np.abs(moved) > rounding, moved, 0.0),
        link=LINKS["identity"],
        classes=(),
        remainder=_change(old.remainder, new.remainder),
    )


def _change(old: Remainder | None, new: Remainder | None) -> Remainder | None:
    """Return new less old, over the same features and nodes; None where both have the same trees.

    Its share and its worth are not known.
    """
    if old is None or new is None:
        return new if old is None else old.scaled(-1.0)
    if all(map(np.array_equal, old.trees.arrays, new.trees.arrays)):
        return None
    held = dict(zip(new.components, new.tables, strict=True))
    constants, tables = old.taken_from(new.constants, held)
    trees = joined([new.trees, old.trees.scaled(np.full(len(constants), -1.0))])
    return Remainder(trees, constants, **in_order(tables), share=0.0, worth=0.0)


def _largest(table: FloatArray, axes: Sequence[Axis]) -> float:
    """Largest absolute value where there are rows, or could be."""
    return float(np.abs(table[np.ix_(*map(with_rows, axes))]).max(initial=0.0))


def _scores(model: AnovaModel, X: Any, components: ComponentSet) -> FloatArray:
    """Scores (n_rows, n_components + 1, n_outputs) of the given components and of the remainder.

    They are zero for what the model lacks.
    """
    in_order = row_scores(model, X)
    scores = np.zeros((len(in_order), len(components) + 1, len(model.intercepts)))
    places = [components.components.index(component) for component in model.components]
    scores[:, [*places, len(components)][: in_order.shape[1]]] = in_order
    return scores
