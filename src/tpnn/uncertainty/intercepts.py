"""Random intercepts: effects of groups that are draws from a normal distribution.

All components but linear features and groups are an offset. What is left is a generalised linear
mixed model. Its variances are those of the largest restricted likelihood, by Laplace's
approximation, which is exact for squared error. The unit of a variance inside this module is the
dispersion: the ratio r of both is what shrinks the effects of groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.posterior import Posterior
from tpnn.loss.objectives import Objective
from tpnn.model.evidence import RandomIntercepts
from tpnn.model.model import AnovaModel, tables_by_component
from tpnn.solvers.solution import Limits
from tpnn.table.axis import Axis
from tpnn.uncertainty.deviance import expected_curvature, fixes_variance

N_STEPS, N_HALVINGS = 50, 30
CLOSE_ENOUGH = 1e-12  # fall of the loss in the last step, relative to the loss
LARGEST_RATIO = 1e6  # of the variance of groups to the error of a group's mean, and its inverse
TOLERANCE, NEAR_THE_END = 1e-4, 1.0  # of logarithms of ratios


class Groups(NamedTuple):
    """Effects of the groups of one feature."""

    effects: FloatArray  # (M,)
    functions: FloatArray  # (M, k): their covariance is functions root root' functions' + rough
    root: FloatArray  # (k, k)
    rough: FloatArray  # (M,)
    variance: float  # of the groups
    credibility: FloatArray  # (M,): share of a group's own mean in its effect
    degrees: float
    p_value: float


class MixedFit(NamedTuple):
    """What a mixed model says: about columns (k,), the constant, and each feature of groups."""

    coefficients: FloatArray
    covariance: FloatArray
    constant: float
    dispersion: float
    groups: list[Groups]


class Mode(NamedTuple):
    """Where the penalised likelihood is largest, and its second derivative there.

    The groups of the first feature have a diagonal block D, so that they are eliminated; C is the
    block beside it, and S what is left for the other columns.
    """

    effects: FloatArray  # (M,), of the first feature
    coefficients: FloatArray  # (q,), of all other columns
    diagonal: FloatArray  # D
    beside: FloatArray  # C, (M, q)
    rest: FloatArray  # S, (q, q)
    half: float  # penalised loss
    criterion: float  # minus the logarithm of the restricted likelihood


@dataclass(eq=False)
class MixedRows:
    """Rows of a mixed model: columns, groups, a known part of the raw score, and targets."""

    objective: Objective  # in the user's unit, with one output
    X: FloatArray  # (n, p), the last of ones
    codes: Sequence[IntArray]  # (n,) node of each row, for each feature of groups
    sizes: Sequence[int]  # number of nodes M of each of these features, the largest first
    known: FloatArray  # (n, 1)
    y: FloatArray  # (n, 1)
    masses: FloatArray  # (n, 1)
    limits: Limits
    _last: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    @cached_property
    def columns(self) -> FloatArray:
        """All columns but the groups of the first feature, (n, q)."""
        pairs = zip(self.codes[1:], self.sizes[1:], strict=True)
        return np.hstack([self.X, *(np.eye(size)[codes] for codes, size in pairs)])

    def solved(self) -> MixedFit:
        """Estimate variances, effects and errors.

        Raises LinAlgError where there is no maximum, or more than one, and TimeoutError.
        """
        from scipy.optimize import minimize
        from scipy.special import chdtrc

        sizes = [self._mass_of_a_group(codes) for codes in self.codes]
        bounds = [(-np.log(LARGEST_RATIO * s), np.log(LARGEST_RATIO / s)) for s in sizes]
        found = minimize(
            lambda logs: self._mode(np.exp(logs)).criterion, -np.log(sizes), method="Powell",
            bounds=bounds, options={"xtol": TOLERANCE, "ftol": 1e-12},
        )  # fmt: skip
        logs = np.atleast_1d(np.asarray(found.x, np.float64))
        if any(log > most - NEAR_THE_END for log, (_, most) in zip(logs, bounds, strict=True)):
            raise np.linalg.LinAlgError("no finite variance")  # of groups without noise
        mode, p, p_values = self._mode(np.exp(logs)), self.X.shape[1], []
        for place, (least, _) in enumerate(bounds):
            without = np.where(np.arange(len(logs)) == place, least, logs)
            fall = 2 * (self._mode(np.exp(without)).criterion - mode.criterion)
            p_values.append(float(chdtrc(1, fall) / 2) if fall > 0 else 1.0)  # on the boundary
        dispersion = self._dispersion(mode)
        inverse = np.asarray(dispersion * np.linalg.inv(mode.rest), np.float64)
        return MixedFit(
            coefficients=mode.coefficients[: p - 1], covariance=inverse[: p - 1, : p - 1],
            constant=float(mode.coefficients[p - 1]), dispersion=dispersion,
            groups=self._groups(mode, np.exp(logs) * dispersion, inverse, p_values),
        )  # fmt: skip

    def _mass_of_a_group(self, codes: IntArray) -> float:
        """Mean information about the effect of a group that has any row."""
        information = np.bincount(codes, self._weights(self.known)[:, 0])
        return float(information.sum() / np.count_nonzero(information))

    def _weights(self, raw: FloatArray) -> FloatArray:
        return np.asarray(self.masses * expected_curvature(self.objective, raw))

    def _loss(self, raw: FloatArray) -> float:
        """Half the deviance of amounts, whose dispersion is not known, else the loss."""
        objective = self.objective
        if objective.power is not None and not fixes_variance(objective):
            return float((self.masses * objective.reported().losses(self.y, raw)).sum()) / 2
        return float((self.masses * objective.losses(self.y, raw, self.masses)).sum())

    def _dispersion(self, mode: Mode) -> float:
        if fixes_variance(self.objective):
            return 1.0
        return float(2 * mode.half / max(float(self.masses.sum()) - self.X.shape[1], 1.0))

    def _mode(self, ratios: FloatArray) -> Mode:
        """Maximise the penalised likelihood by Newton's method, from the last maximum on."""
        codes, q, p = self.codes[0], self.columns.shape[1], self.X.shape[1]
        others = np.repeat(1 / ratios[1:], self.sizes[1:])
        precision = np.concatenate([np.zeros(p), others])
        b, c = self._last[-1] if self._last else (np.zeros(self.sizes[0]), np.zeros(q))

        def half(b: FloatArray, c: FloatArray) -> float:
            return self._loss(self._raw(b, c)) + float(b @ b / ratios[0] + precision @ c**2) / 2

        now = half(b, c)
        for _ in range(N_STEPS):
            self.limits.check("variances of groups")
            raw = self._raw(b, c)
            slopes = self.masses * self.objective.slopes(self.y, raw, self.masses)[0]
            diagonal, beside, rest = self._blocks(raw, 1 / ratios[0], precision)
            of_b = np.bincount(codes, slopes[:, 0], len(b)) + b / ratios[0]
            of_c = slopes[:, 0] @ self.columns + precision * c
            step_c = np.linalg.solve(rest, of_c - (of_b / diagonal) @ beside)
            step_b = (of_b - beside @ step_c) / diagonal
            length = float(of_b @ step_b + of_c @ step_c)
            if not np.isfinite(length):
                raise np.linalg.LinAlgError("no finite maximum")
            for _ in range(N_HALVINGS):
                after = half(b - step_b, c - step_c)
                if after <= now + CLOSE_ENOUGH * abs(now):
                    break
                step_b, step_c = step_b / 2, step_c / 2
            b, c, now = b - step_b, c - step_c, after
            if length <= CLOSE_ENOUGH * (abs(now) + 1e-300):
                break
        else:
            raise np.linalg.LinAlgError("no finite maximum")
        self._last[:] = [(b, c)]
        diagonal, beside, rest = self._blocks(self._raw(b, c), 1 / ratios[0], precision)
        sizes = np.log(ratios[1:]) @ np.array(self.sizes[1:])
        volume = np.log(diagonal * ratios[0]).sum() + np.linalg.slogdet(rest)[1] + sizes
        size = now
        if not fixes_variance(self.objective):
            size = (float(self.masses.sum()) - p) / 2 * np.log(max(now, 1e-300))
        return Mode(
            effects=b, coefficients=c, diagonal=diagonal, beside=beside, rest=rest, half=now,
            criterion=float(size + volume / 2),
        )  # fmt: skip

    def _raw(self, b: FloatArray, c: FloatArray) -> FloatArray:
        return np.asarray(self.known + (b[self.codes[0]] + self.columns @ c)[:, None])

    def _blocks(
        self, raw: FloatArray, least: float, precision: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Blocks D, C and S of the second derivative, expected."""
        weights, codes, size = self._weights(raw), self.codes[0], self.sizes[0]
        diagonal = np.asarray(np.bincount(codes, weights[:, 0], size) + least, np.float64)
        weighted = weights * self.columns
        beside = np.stack([np.bincount(codes, column, size) for column in weighted.T], -1)
        whole = weighted.T @ self.columns + np.diag(precision)
        rest = whole - beside.T @ (beside / diagonal[:, None])
        np.linalg.cholesky(rest)  # raises LinAlgError for columns that cannot be told apart
        return diagonal, np.asarray(beside, np.float64), rest

    def _groups(
        self, mode: Mode, variances: FloatArray, inverse: FloatArray, p_values: Sequence[float]
    ) -> list[Groups]:
        """Describe the groups of each feature; ``inverse`` is the covariance of all columns."""
        raw = self._raw(mode.effects, mode.coefficients)
        dispersion, weights = self._dispersion(mode), self._weights(raw)[:, 0]
        start, found = self.X.shape[1], []
        for place, (codes, size) in enumerate(zip(self.codes, self.sizes, strict=True)):
            own = slice(start, start + size)
            if place == 0:
                effects, root = mode.effects, np.asarray(np.linalg.cholesky(inverse))
                functions = mode.beside / mode.diagonal[:, None]
                rough = dispersion / mode.diagonal
            else:
                effects, root = mode.coefficients[own], np.linalg.cholesky(inverse[own, own])
                functions, rough, start = np.eye(size), np.zeros(size), own.stop
            errors = ((functions @ root) ** 2).sum(1) + rough
            ratio = variances[place] / dispersion
            information = np.bincount(codes, weights, size)
            one = Groups(
                effects=effects, functions=functions, root=root, rough=rough,
                variance=float(variances[place]), p_value=p_values[place],
                credibility=ratio * information / (1 + ratio * information),
                degrees=float((1 - errors / variances[place]).sum()),
            )  # fmt: skip
            found.append(one)
        return found


def with_groups(model: AnovaModel, axes: Mapping[int, Axis], fit: MixedFit) -> AnovaModel:
    """Put the effects of groups, and what is known about them, in the place of those that grew.

    The effects average to zero over the rows, and that of groups without rows is zero.
    """
    tables, known, records, shift = tables_by_component(model), model.evidence, [], 0.0
    posteriors = None if known.posteriors is None else list(known.posteriors)
    tests = None if known.tests is None else list(known.tests.components)
    for (j, axis), one in zip(axes.items(), fit.groups, strict=True):
        masses, place = axis.weights, model.components.components.index((j,))
        mean = float(masses @ one.effects)
        shift += mean
        tables[j,] = np.where(masses > 0, one.effects - mean, 0.0)[:, None]
        rough = one.rough * (1 - 2 * masses) + masses**2 @ one.rough
        if posteriors is not None:
            functions = one.functions - masses @ one.functions
            shifts = np.zeros((len(one.root), 1))
            posteriors[place] = Posterior.of(
                [functions], shifts, one.root[None], rough.clip(0)[:, None], np.ones(1)
            )
        if tests is not None:
            tests[place] = tests[place]._replace(degrees=one.degrees, p_value=one.p_value)
        name, present = model.feature_names[j], masses > 0
        records.append(
            RandomIntercepts(
                name, one.variance, fit.dispersion, int(present.sum()), one.credibility
            )
        )
    evidence = replace(
        known,
        posteriors=None if posteriors is None else tuple(posteriors),
        tests=known.tests and known.tests._replace(components=tuple(tests or ()), fit=None),
        random=tuple(records),
    )
    return replace(
        model,
        tables=tuple(tables[s] for s in model.components),
        intercepts=model.intercepts + shift,
        evidence=evidence,
    )
