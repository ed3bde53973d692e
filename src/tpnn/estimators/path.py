"""Refits: models of fewer components than a fit has found, each fitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn._utils.rules import is_count
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component, ComponentSet
from tpnn.estimators.pipeline import Fitted, Solved, finished, refit, with_bands
from tpnn.explain.selection_path import SelectionPath, Step
from tpnn.model.model import AnovaModel
from tpnn.search.select import HeldOut, Selection, ranking
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, NoProgress

PATH_SIZES = 10  # models of a path


@dataclass(frozen=True)
class Refits:
    """Fits models of fewer components after a fit."""

    fitted: Fitted

    @property
    def solved(self) -> Solved:
        """The fit of all components, with no limit of time for what follows it."""
        limits = self.fitted.solved.limits
        fresh = Limits(n_threads=limits.n_threads, device=limits.device)
        return replace(self.fitted.solved, limits=fresh)

    def _refitted(self, selection: Selection) -> Solved:
        """Refit some components; a sparser model has no remainder, which would hold the others."""
        solved = self.solved
        if len(selection.kept) < len(solved.components):
            alone = replace(solved.solution, remainder=None)
            solved = replace(solved, solution=alone, deep=None)
        return refit(solved, selection, NoProgress())

    def path(self) -> SelectionPath:
        """Refitted models of about ten sizes, their losses on rows that did not rank them.

        Half of the rows rank the components, as far as they are held out; the other half score the
        refitted models, each bag those that it holds out. Early stopping has seen these rows, for
        models of all sizes alike.
        """
        ranking_rows, scoring_rows = _halves(self.solved.problem)
        with ONE_BLAS_THREAD:
            order = self._ranked(ranking_rows)
            full = HeldOut(self.solved.problem, self.solved.solution, scoring_rows)
        names = self.solved.problem.encoder.feature_names
        steps, before = [], 0
        for size in self._sizes(len(order)):
            added = tuple(ComponentSet(tuple(order[before:size])).names(names))
            steps.append(self._step(order[:size], full, scoring_rows, added))
            before = size
        return SelectionPath(
            steps=steps,
            landmarks=self._landmarks(full, scoring_rows),
            chosen=len(self.fitted.kept),
            refitted=self.model,
        )

    def model(self, n_components: int) -> AnovaModel:
        """Refit the best components, ranked on all held-out rows, with the shapes imposed.

        Of the size of the fitted model they are its own, which a selection may have ranked by how
        clear they are.
        """
        with ONE_BLAS_THREAD:
            order = self._ranked(None)
        if not (is_count(n_components) and n_components <= len(order)):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(order)}, found "
                f"{n_components!r}. Pass the n_components of a step of the path."
            )
        fitted = self.fitted
        selection = Selection.of_all(order, n_components)
        if n_components == len(fitted.kept):
            selection = Selection.of_all(fitted.kept)
        kept = self._refitted(selection)
        kept = with_bands(kept, self.solved.limits) if fitted.has_bands else kept
        provenance = fitted.model.provenance and replace(fitted.model.provenance, scores={})
        return replace(finished(kept, fitted.task, fitted.has_bands), provenance=provenance)

    def _ranked(self, counted: BoolArray | None) -> list[Component]:
        return ranking(
            HeldOut(self.solved.problem, self.solved.solution, counted), self.fitted.keep
        )

    def _sizes(self, n_components: int) -> list[int]:
        """Sizes in equal ratios, from the smallest model to the full one."""
        smallest = max(len(self.fitted.keep.required), 1)
        sizes = np.geomspace(smallest, n_components, PATH_SIZES).round().astype(int)
        return sorted(set(map(int, sizes)))

    def _landmarks(self, full: HeldOut, scoring_rows: BoolArray) -> dict[str, Step]:
        """Models of all components up to each order below the highest."""
        components = self.solved.components
        return {
            f"order {order}": self._step(lower, full, scoring_rows, ())
            for order in components.orders[:-1]
            if (lower := [s for s in components if len(s) <= order])
        }

    def _step(
        self,
        kept: list[Component],
        full: HeldOut,
        scoring_rows: BoolArray,
        added: tuple[tuple[str, ...], ...],
    ) -> Step:
        """Refit some components, and score them against the full model."""
        solved = self._refitted(Selection.of_all(kept))
        with ONE_BLAS_THREAD:
            raw = HeldOut(solved.problem, solved.solution, scoring_rows).raw
            mean, error = full.change(raw)
        return Step(len(kept), added, full.loss + mean, error)


def _halves(problem: Problem) -> tuple[BoolArray, BoolArray]:
    """Every other row, and the others; twice all rows where a half has no held-out row.

    Rows are sorted by a key of their content, so that this is a random half. Groups that the user
    named are on one side, as are their keys in order.
    """
    distinct = problem.distinct
    numbers = distinct.groups if distinct.are_named else np.arange(len(problem.rows.y))
    first = numbers % 2 == 0
    held_out = problem.rows.validation.any(1)
    if (held_out & first).any() and (held_out & ~first).any():
        return first, ~first
    return np.ones_like(first), np.ones_like(first)
