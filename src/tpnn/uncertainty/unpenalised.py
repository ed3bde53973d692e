"""Unpenalised: effects of features with the shape "linear", by maximum likelihood.

All other components are an offset. What is left is a generalised linear or a Cox model with a slope
for every such number and a constant for every such level, without any prior. So its estimates,
intervals and p-values are those of any other program. With random intercepts it is a mixed model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import warn
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.posterior import Posterior
from tpnn.anova.shapes import LINEAR, RANDOM
from tpnn.loss.objectives import Objective
from tpnn.model.model import AnovaModel, beside_trees, tables_by_component
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.row_scores import training_scores
from tpnn.solvers.solution import Limits
from tpnn.table.axis import Axis
from tpnn.uncertainty.deviance import (
    STEP_OF_RAW_SCORES,
    expected_curvature,
    fixes_variance,
)
from tpnn.uncertainty.intercepts import MixedRows, with_groups

N_STEPS, N_HALVINGS = 50, 30
CLOSE_ENOUGH = 1e-10  # length of the last step, relative to one error
ROUNDING = 1e-13  # of raw scores, relative to the largest; a step that changes them less is none
MOST_COLUMNS = 2000  # whose eigenvalues take seconds
MOST_VALUES = 1 << 27  # of columns times rows or nodes: a gigabyte for each copy
SMALLEST_DISPERSION = 1e-200  # of targets without any error
LARGEST_EFFECT = 30.0  # of a column's standard deviation on a log or logit scale: there is no end
SMALLEST_SIZE = 1e-300  # keeps from dividing by zero
SMALLEST_SHARE = 1e-9  # of the largest information; columns below it cannot be told apart


class Likelihood(NamedTuple):
    """Coefficients (k,) that maximise a likelihood, their covariance, and the constant."""

    coefficients: FloatArray
    covariance: FloatArray
    constant: float


@dataclass(frozen=True, eq=False)
class LinearRows:
    """Rows of a linear model: columns, a known part of the raw score, and targets."""

    objective: Objective  # in the user's unit
    X: FloatArray  # (n, k), and a last column of ones unless the constant cancels
    known: FloatArray  # (n, 1)
    y: FloatArray  # (n, T)
    masses: FloatArray  # (n, 1): rows that each row stands for
    groups: IntArray | None  # (n,), where the user named them

    def fitted(self, limits: Limits) -> FloatArray:
        """Coefficients by Newton's method, whose steps are halved until the loss does not rise.

        Raises LinAlgError where there are no finite ones, or several, and TimeoutError.
        """
        beta = np.zeros(self.X.shape[1])
        loss, scale = self._loss(beta), np.sqrt(self.masses[:, 0] @ self.X**2 / self.masses.sum())
        for _ in range(N_STEPS):
            limits.check("effects without a prior")
            information = self.information(beta)
            step = np.linalg.solve(information, self._gradient(beta))
            length = step @ information @ step
            for _ in range(N_HALVINGS):
                after = self._loss(beta - step)
                if after <= loss + 1e-12 * abs(loss):
                    break
                step = step / 2
            beta, loss = beta - step, after
            is_bounded = self.objective.link.name != "identity"
            if is_bounded and (np.abs(beta) * scale).max() > LARGEST_EFFECT:
                break
            rounding = self.masses.sum() * (ROUNDING * np.abs(self._raw(beta)).max()) ** 2
            if length <= CLOSE_ENOUGH**2 * self._dispersion(beta) + rounding:
                return beta
        raise np.linalg.LinAlgError("no finite maximum")

    def _raw(self, beta: FloatArray) -> FloatArray:
        return np.asarray(self.known + (self.X @ beta)[:, None])

    def _loss(self, beta: FloatArray) -> float:
        losses = self.objective.losses(self.y, self._raw(beta), self.masses)
        return float((self.masses * losses).sum())

    def scores(self, beta: FloatArray) -> FloatArray:
        """Gradient of the loss of each row, (n, k)."""
        return np.asarray(self._slopes(beta) * self.X)

    def _gradient(self, beta: FloatArray) -> FloatArray:
        """Gradient of the loss of all rows, (k,)."""
        return np.asarray(self._slopes(beta)[:, 0] @ self.X)

    def _slopes(self, beta: FloatArray) -> FloatArray:
        """Compute the derivative of the loss in the raw score of each row, (n, 1)."""
        raw = self._raw(beta)
        return np.asarray(self.masses * self.objective.slopes(self.y, raw, self.masses)[0])

    def information(self, beta: FloatArray) -> FloatArray:
        """Second derivative of the loss (k, k), expected; of partial likelihoods, the observed one.

        Raises LinAlgError where some columns cannot be told apart.
        """
        if self.objective.couples_rows:
            steps = STEP_OF_RAW_SCORES / np.maximum(np.abs(self.X).max(0), SMALLEST_SIZE)
            sides = [
                [self._gradient(beta + side * step) for side in (1, -1)] for step in np.diag(steps)
            ]
            found = np.array([up - down for up, down in sides]) / (2 * steps[:, None])
            square = (found + found.T) / 2
        else:
            square = (self.X * self._weights(beta)).T @ self.X
        _check_told_apart(square, square)
        return np.asarray(square)

    def _weights(self, beta: FloatArray) -> FloatArray:
        """Return the expected second derivative of each row in its raw score, (n, 1)."""
        return np.asarray(self.masses * expected_curvature(self.objective, self._raw(beta)))

    def covariance(self, beta: FloatArray) -> FloatArray:
        """Covariance (k, k) of the coefficients.

        The covariance of rows in groups is the sandwich of the sums of their scores. Raises
        LinAlgError where the groups leave an effect without an error.
        """
        inverse = np.linalg.inv(self.information(beta))
        usual = np.asarray(self._dispersion(beta) * inverse)
        if self.groups is None:
            return usual
        sums = np.zeros((int(self.groups.max()) + 1, len(beta)))
        np.add.at(sums, self.groups, self.scores(beta))
        n_groups = len(np.unique(self.groups))
        found = inverse @ (sums.T @ sums) @ inverse * n_groups / max(n_groups - 1, 1)
        _check_told_apart(found, usual)
        return np.asarray(found)

    def between(self, beta: FloatArray, draws: IntArray, count: int) -> FloatArray:
        """Covariance (k, k) by which draws (n,) of what is missing differ, by Rubin's rules."""
        inverse, steps = np.linalg.inv(self.information(beta)), []
        for draw in range(count):
            shares = np.where(draws < 0, 1.0, count * (draws == draw))
            alone = replace(self, masses=self.masses * shares[:, None])
            steps.append(inverse @ alone._gradient(beta))
        return np.asarray((1 + 1 / count) * np.atleast_2d(np.cov(steps, rowvar=False)))

    def _dispersion(self, beta: FloatArray) -> float:
        """Squared size of one error: Pearson's statistic where the loss fixes no variance."""
        if fixes_variance(self.objective):
            return 1.0
        slopes = self.objective.slopes(self.y, self._raw(beta))[0]
        pearson = float((self.masses**2 * slopes**2 / self._weights(beta)).sum())
        return max(pearson / max(float(self.masses.sum()) - len(beta), 1.0), SMALLEST_DISPERSION)


def _check_told_apart(square: FloatArray, usual: FloatArray) -> None:
    """Refuse an information or a covariance (k, k) of columns that cannot be told apart.

    Its unit is the diagonal of another one.
    """
    units = np.sqrt(np.diag(usual).clip(SMALLEST_SIZE))
    if not (
        np.isfinite(square).all()
        and np.linalg.eigvalsh(square / np.outer(units, units))[0] > SMALLEST_SHARE
    ):
        raise np.linalg.LinAlgError("columns cannot be told apart")


def has_likelihood(objective: Objective) -> bool:
    """Whether a loss is that of a generalised linear or a Cox model, one output at a time."""
    if objective.couples_rows:
        return objective.is_alone
    return objective.predicts_means and not objective.couples_outputs


def check_random(shapes: Mapping[int, str], objective: Objective) -> None:
    """Refuse random intercepts of a loss that says nothing about their variance."""
    if RANDOM not in shapes.values():
        return
    if objective.n_outputs > 1 or objective.couples_rows or not has_likelihood(objective):
        raise ValueError(
            "random: random intercepts need one target and the loss of a generalised linear model, "
            f"such as squared_error, log_loss or poisson, found {objective.name} "
            f"with {objective.n_outputs} output(s). Leave random out: levels are shrunk anyway."
        )


def unpenalised(
    model: AnovaModel, problem: Problem, objective: Objective, limits: Limits
) -> AnovaModel:
    """Model in which linear features have effects, errors and tests without a prior.

    Those of random intercepts have a prior whose variance is estimated. The model must still have
    all features of the problem; ``objective`` is in the user's unit. Where there are no such
    effects, or no room or time for them, a warning says so.
    """
    components, axes = model.components.components, model.encoder.axes[1]
    linear, random = (
        {
            j: axes[j]
            for j, given in problem.shapes.items()  # in an order that is not that of the columns
            if given == shape and (j,) in components and _n_functions(axes[j])
        }
        for shape in (LINEAR, RANDOM)
    )
    if not (linear or random) or not has_likelihood(objective):
        return model
    random = dict(sorted(random.items(), key=lambda item: -item[1].n_nodes))
    names = ", ".join(repr(model.feature_names[j]) for j in (*linear, *random))
    dense = sum(axis.n_nodes for axis in [*random.values()][1:])  # groups beside the most numerous
    n_columns = dense + sum(map(_n_functions, linear.values()))
    refusal = _refusal(n_columns, [*linear.values(), *random.values()], problem, bool(random))
    if not refusal:
        try:
            with ONE_BLAS_THREAD, np.errstate(all="ignore"):  # what overflows has no maximum
                if random:
                    return _mixed(model, linear, random, problem, objective, limits)
                return _fitted(model, linear, problem, objective, limits)
        except np.linalg.LinAlgError:
            refusal = (
                f"a likelihood with one maximum, found none for {names}",
                "Look for a level without events or in a single group, or for linear features that "
                "determine each other.",
            )
        except TimeoutError:
            refusal = f"time, found none left for {names}", "Raise time_limit."
    rule, advice = refusal
    what = "random: a mixed model" if random else "shapes: an unpenalised effect"
    warn(f"{what} needs {rule}, so that the effects are penalised. {advice}")
    return model


def _refusal(
    n_columns: int, axes: Iterable[Axis], problem: Problem, is_mixed: bool
) -> tuple[str, ...]:
    """Rule that many columns break before anything is computed, and what to do; or nothing."""
    if problem.base is not None:  # its rows are not known, only its effects
        return (
            "all rows in one fit, found a model in start",
            "Fit all rows without start for their variances, errors and tests.",
        )
    distinct = problem.distinct
    longest = max(len(distinct.rows), n_columns, *(axis.n_nodes for axis in axes))
    if n_columns > MOST_COLUMNS or n_columns * longest > MOST_VALUES:
        return (
            f"at most {MOST_COLUMNS:,} columns and {MOST_VALUES:,} values of them on distinct "
            f"rows, found {n_columns:,} columns on {longest:,}",
            'Pool rare levels with categorical={"min_rows": 20}, or leave such features out of '
            f"{'random and shapes' if is_mixed else 'shapes'}.",
        )
    n_columns += not problem.objective.couples_rows  # the constant
    n_groups = len(np.unique(distinct.groups))
    if distinct.are_named and n_groups <= n_columns and not is_mixed:
        return (
            f"more groups than columns, the constant one too, found {n_groups} groups and "
            f"{n_columns} columns",
            "Name fewer linear features, or fit without groups.",
        )
    return ()


def _fitted(
    model: AnovaModel,
    linear: Mapping[int, Axis],
    problem: Problem,
    objective: Objective,
    limits: Limits,
) -> AnovaModel:
    """Replace the effects of linear features by those of the largest likelihood."""
    functions = {j: _functions(axis) for j, axis in linear.items()}
    X, known = _columns(functions, problem), _others(model, problem, list(functions))
    outputs = range(len(model.intercepts))
    found = [_solved(X, known[:, [k]], problem, objective, limits, k) for k in outputs]
    return _with_effects(model, functions, found)


def _mixed(
    model: AnovaModel,
    linear: Mapping[int, Axis],
    random: Mapping[int, Axis],
    problem: Problem,
    objective: Objective,
    limits: Limits,
) -> AnovaModel:
    """Replace the effects of linear features and of groups by those of a mixed model."""
    functions, distinct = {j: _functions(axis) for j, axis in linear.items()}, problem.distinct
    counted = distinct.weights > 0
    columns = _columns(functions, problem)[counted] if linear else np.empty((counted.sum(), 0))
    fit = MixedRows(
        objective=objective,
        X=np.hstack([columns, np.ones((len(columns), 1))]),
        codes=[problem.codes.by_order[1][j][counted].astype(np.intp) for j in random],
        sizes=[axis.n_nodes for axis in random.values()],
        known=_others(model, problem, [*linear, *random])[counted],
        y=problem.targets.y[distinct.rows][counted],
        masses=distinct.weights[counted, None] * distinct.size,
        limits=limits,
    ).solved()
    found = [Likelihood(fit.coefficients, fit.covariance, fit.constant)]
    return with_groups(_with_effects(model, functions, found), random, fit)


def _n_functions(axis: Axis) -> int:
    """Count the columns of a feature."""
    if axis.is_nominal:
        return max(int(np.count_nonzero(axis.weights)) - 1, 0)
    n_values = np.count_nonzero(axis.weights[axis.regular])
    return int(n_values > 1) + int((axis.weights[axis.missing] > 0).sum())


def _functions(axis: Axis) -> FloatArray:
    """Columns (M, k) of a feature on its nodes: its value, or an indicator of each level but one.

    Missing values have one more indicator. The columns average to zero over the masses.
    """
    present = np.flatnonzero(axis.weights > 0)
    if axis.is_nominal:
        levels = np.delete(present, axis.weights[present].argmax())
        columns = (np.arange(axis.n_nodes)[:, None] == levels).astype(float)
    else:
        line, masses = np.zeros((axis.n_nodes, 1)), axis.weights[axis.regular]
        values = axis.values / max(np.abs(axis.values).max(initial=0.0), SMALLEST_SIZE)
        centred = values - masses @ values / max(masses.sum(), SMALLEST_SIZE)
        deviation = np.sqrt(masses @ centred**2)
        line[axis.regular, 0] = centred / (deviation or 1.0)
        missing = np.zeros_like(line)
        missing[axis.missing] = 1.0
        differ = [deviation > 0, (axis.weights[axis.missing] > 0).any()]
        columns = np.hstack([line, missing])[:, differ]
    columns -= axis.weights @ columns
    columns[axis.weights == 0] *= not axis.is_nominal  # of levels that no row has nothing is known
    return np.asarray(columns[:, columns.any(0)])  # a single level has none that differs


def _columns(functions: dict[int, FloatArray], problem: Problem) -> FloatArray:
    """Columns of all linear features on the distinct rows, (n, k)."""
    parts = [
        training_scores({(j,): columns}, np.zeros(columns.shape[1]), None, problem)
        for j, columns in functions.items()
    ]
    return np.hstack(parts)


def _others(model: AnovaModel, problem: Problem, linear: Sequence[int]) -> FloatArray:
    """Raw scores (n, K) of the distinct rows without the linear features, with the offset."""
    intercepts, tables = beside_trees(model)
    trees = None if model.remainder is None else model.remainder.trees
    rest = {s: table for s, table in tables.items() if s not in {(j,) for j in linear}}
    has_any = bool(rest) or trees is not None
    raw = training_scores(rest, intercepts, trees, problem) if has_any else intercepts
    return np.asarray(raw + problem.targets.offset[problem.distinct.rows, None])


def _solved(
    X: FloatArray,
    known: FloatArray,
    problem: Problem,
    objective: Objective,
    limits: Limits,
    output: int,
) -> Likelihood:
    """Maximise the likelihood of one output, of which the scores (n, 1) of the rest are known."""
    distinct, size, draws = problem.distinct, X.shape[1], problem.targets.draws
    are_named = distinct.are_named if draws is None else draws.groups_are_given
    counted = distinct.weights > 0
    y = problem.targets.y[distinct.rows][counted]
    ones = np.ones((int(counted.sum()), int(not objective.couples_rows)))
    rows = LinearRows(
        objective=replace(objective, n_outputs=1),
        X=np.hstack([X[counted], ones]),
        known=known[counted],
        y=y if objective.n_outputs == 1 else y[:, output : output + 1],
        masses=distinct.weights[counted, None] * distinct.size,
        groups=distinct.groups[counted] if are_named else None,
    )
    beta = rows.fitted(limits)
    covariance = rows.covariance(beta)
    if draws is not None:
        covariance += rows.between(beta, draws.numbers[distinct.rows][counted], draws.n_draws)
    constant = 0.0 if objective.couples_rows else float(beta[size])
    return Likelihood(beta[:size], covariance[:size, :size], constant)


def _with_effects(
    model: AnovaModel, functions: dict[int, FloatArray], found: Sequence[Likelihood]
) -> AnovaModel:
    """Put effects, posteriors and tests in the place of those of linear features."""
    tables, start = tables_by_component(model), 0
    known = model.evidence
    posteriors = None if known.posteriors is None else list(known.posteriors)
    tests = None if known.tests is None else list(known.tests.components)
    for j, columns in functions.items():
        own = slice(start, start + columns.shape[1])
        betas = np.stack([one.coefficients[own] for one in found], -1)  # (k, K)
        covariances = [one.covariance[own, own] for one in found]
        tables[j,] = columns @ betas
        place, start = model.components.components.index((j,)), own.stop
        if posteriors is not None:
            roots = np.stack([np.linalg.cholesky(one) for one in covariances])
            rough = np.zeros(tables[j,].shape)
            posteriors[place] = Posterior.of([columns], 0 * betas, roots, rough, np.ones(1))
        if tests is not None:
            p_value = min(map(_wald, betas.T, covariances))
            tests[place] = tests[place]._replace(
                degrees=float(betas.size), p_value=min(len(found) * p_value, 1.0)
            )
    evidence = replace(
        known,
        posteriors=None if posteriors is None else tuple(posteriors),
        tests=known.tests and known.tests._replace(components=tuple(tests or ()), fit=None),
    )
    shift = np.array([one.constant for one in found])
    return replace(
        model,
        tables=tuple(tables[s] for s in model.components),
        intercepts=model.intercepts + shift,
        evidence=evidence,
    )


def _wald(beta: FloatArray, covariance: FloatArray) -> float:
    """P-value of Wald's test that all coefficients are zero."""
    from scipy.special import chdtrc

    return float(chdtrc(len(beta), beta @ np.linalg.solve(covariance, beta)))
