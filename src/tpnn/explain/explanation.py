"""Explanation: effects, importance and Shapley values, read off the components and drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import FLAG, check_parameters
from tpnn.anova.components import resolve_feature
from tpnn.anova.importance import N_DRAWS, variance_draws
from tpnn.anova.measure import product_mean
from tpnn.anova.posterior import LEVEL, check_level
from tpnn.anova.shapley import interaction_weights, packed, share, value_weights
from tpnn.explain import plots
from tpnn.explain.component_table import ComponentTable, joint_density
from tpnn.explain.concurvity import Concurvity, concurvity
from tpnn.explain.contributions import Contrast, Reason, contrast_of, contributions, reasons
from tpnn.explain.hierarchical import check_any_row, hierarchical
from tpnn.explain.response import DIFFERENCE, NO_BANDS, RAW, feature_value, is_factor, reference_row
from tpnn.explain.strip import strip
from tpnn.loss.links import LINKS
from tpnn.model.evidence import Evidence
from tpnn.model.flat import squeezed
from tpnn.model.model import AnovaModel, changed, column_scores, part_names, part_scores
from tpnn.model.remainder import remainder_name, weighted_parts
from tpnn.model.task import unit_of
from tpnn.table.axis import Axis
from tpnn.table.columns import require_pandas
from tpnn.table.table import Table

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_VARIANCE = 1e-300  # by which a constant can be divided
Names = tuple[str, ...]
Wanted = str | int | Sequence[str | int]  # a component as a user names it


class SobolIndices(NamedTuple):
    """Shares of the variance of f that one feature explains.

    Parameters
    ----------
    main : float
        Share of the feature's main effect.
    total : float
        Share of all components that contain the feature.
    interaction : float
        Share of its interactions: ``total - main``.
    covariance : float
        Covariance of all components that contain the feature with the others, as a share of the
        variance of f on the rows; NaN without rows, 0 where features are independent.
    """

    main: float
    total: float
    interaction: float
    covariance: float = math.nan


class JointShare(NamedTuple):
    """What a component adds to the variance of f on rows, whose features may be dependent.

    Parameters
    ----------
    variance : float
        Its own variance on the rows over that of f: the structural part.
    covariance : float
        Its covariance with all other components over the variance of f: the correlative part.
    share : float
        Their sum. These shares add up to one.
    """

    variance: float
    covariance: float
    share: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """A model's components as a whole and, if rows are given, on each row.

    If the model has a remainder, it is one entry of each list, under the name "remainder".

    Estimators and models return it from ``explain``. An offset passed to ``predict`` is not a
    component: scores, Shapley values, reasons and plots of rows leave it out.

    Parameters
    ----------
    model : AnovaModel
        The model to explain, fitted or loaded.
    rows : table, optional
        The rows to explain; anything that ``predict`` accepts.
    hierarchical : bool, default=False
        Whether components are those of the joint distribution of the rows: each is uncorrelated
        there with all functions of fewer of its features (Hooker, 2007). They have the same sum,
        and no bands; importance and variances are means over the rows. Rows with values that fit
        has not seen are refused.

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

    model: AnovaModel
    rows: Any = None
    hierarchical: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_parameters({"hierarchical": self.hierarchical}, {"hierarchical": FLAG})
        if self.rows is not None:
            object.__setattr__(self, "rows", self.model.encoder.read(self.rows))
        if self.hierarchical:
            object.__setattr__(self, "model", hierarchical(self.model, self.columns))

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows.n_rows} rows"
        return f"Explanation({self.model!r}{rows})"

    def _repr_html_(self) -> str:
        """Show the largest components in a notebook, as small charts."""
        return strip(self)

    def of(self, output: str) -> Explanation:
        """Explanation of one output of several: a class, a quantile or a target, by its name."""
        names = self.model.output_names
        if output not in names:
            raise ValueError(
                f"output: must be one of the model's outputs, found {output!r}. "
                f"It has {list(names) or 'one output only'}."
            )
        one = slice(names.index(output), names.index(output) + 1)
        spreads, posteriors = self.model.evidence.spreads, self.model.evidence.posteriors
        model = changed(
            self.model,
            tables=tuple(table[..., one] for table in self.model.tables),
            intercepts=self.model.intercepts[one],
            link=LINKS["identity"],
            output_names=(),
            classes=(),
            remainder=self.model.remainder and self.model.remainder.of_output(one.start),
            evidence=Evidence(
                spreads=spreads and tuple(spread[..., one] for spread in spreads),
                posteriors=posteriors
                and tuple(each and each.of_output(one.start) for each in posteriors),
            ),
        )
        return replace(self, model=model)

    @cached_property
    def scores(self) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components[, n_outputs]).

        ``model.intercept + scores.sum(1) + remainder`` is the raw score.
        """
        return column_scores(self.model, self.columns)

    @cached_property
    def remainder(self) -> FloatArray:
        """Value of the remainder on every row, (n_rows[, n_outputs]); zeros without one."""
        return self.model.remainder_scores(self._given_rows())

    @cached_property
    def columns(self) -> list[FloatArray]:
        """The rows explained as numbers, a column of shape (n_rows,) for each feature."""
        return self.model.encoder.columns(self._given_rows())

    def component(self, component: Wanted) -> ComponentTable:
        """Look up one component, by its feature or its features, names or indices.

        Where a feature has a node for missing values, effects are those of what is known: of its
        value, or of its being missing. Features that depend on it stand in for it where it is
        missing. Fits with ``missing="impute"`` have no such node, and the effects of the complete
        table.
        """
        index = self.find(component)
        features = self.model.components.components[index]
        axes = self.model.axes(features)
        return ComponentTable(
            names=self.model.component_names[index],
            axes=axes,
            effect=squeezed(self.model.tables[index]),
            posterior=self.model.evidence.posterior(index),
            density=self._density(features, axes),
            output_names=self.model.output_names,
            link=self.model.link,
            ratio=self.model.task.ratio or DIFFERENCE,
        )

    def find(self, component: Wanted) -> int:
        """Position of a component among the model's; the order of its features does not matter."""
        features: tuple[Any, ...] = (component,)
        if isinstance(component, Sequence) and not isinstance(component, str):
            features = tuple(component)
        names, components = self.model.component_names, self.model.components.components
        all_features = self.model.feature_names
        wanted = tuple(sorted(resolve_feature(j, all_features, "component") for j in features))
        if wanted not in components:
            raise ValueError(
                f"component: must be one of the model's components, found {features}. "
                f"It has {len(names)}, such as {names[0]} and {names[-1]}."
            )
        return components.index(wanted)

    def importance(self, normalise: bool = False) -> dict[Names, float]:
        """l1 norm ``E|f_S|`` of every component and of the remainder, largest first.

        Parameters
        ----------
        normalise : bool, default=False
            Divide by the largest, as in the tables of the paper.
        """
        norms = self._ranked(np.abs)
        largest = max(norms.values()) if normalise else 1.0
        return {names: norm / (largest or 1.0) for names, norm in norms.items()}

    def variances(self) -> dict[Names, float]:
        """Var(f_S) under the product of the marginals, largest first, also of the remainder.

        The mean over the outputs where there are several.
        """
        unit = self._unit()
        return {names: unit * unit * each for names, each in self._relative_variances().items()}

    def deviation(self) -> float:
        """Return the standard deviation of the raw score under the product of the marginals.

        With several outputs it is the root of their mean variance.
        """
        return self._unit() * math.sqrt(sum(self._relative_variances().values()))

    def sobol(self) -> dict[Names, float]:
        """Share Var(f_S) / sum Var of every component and of the remainder, largest first.

        They are uncorrelated under the product of the marginals, so the shares add up to one.
        """
        variances = self._relative_variances()
        total = sum(variances.values()) or 1.0
        return {names: variance / total for names, variance in variances.items()}

    def sobol_indices(self) -> dict[str, SobolIndices]:
        """Sobol indices of every feature, largest total first.

        The main index of j is the share of f_j, the total index the shares of all f_S with j in S.
        The remainder has indices of its own, which those of its features leave out. With rows, the
        covariance of a feature says how far they are from those of dependent features.
        """
        has_rows = self.rows is not None and self.rows.n_rows > 0
        shares, parts = self.sobol(), self._joint_parts() if has_rows else None
        indices = {}
        for name in self.model.feature_names:
            main = shares.get((name,), 0.0)
            total = sum(share for names, share in shares.items() if name in names)
            own = [name in names for names, _, _ in self._parts]
            covariance = math.nan if parts is None else _covariance(parts, own)
            indices[name] = SobolIndices(main, total, total - main, covariance)
        if self.model.remainder is not None:
            (name,) = remainder_name(self.model.feature_names)
            own = [names == (name,) for names, _, _ in self._parts]
            covariance = math.nan if parts is None else _covariance(parts, own)
            indices[name] = SobolIndices(0.0, shares[name,], shares[name,], covariance)
        return dict(sorted(indices.items(), key=lambda item: -item[1].total))

    def joint_shares(self) -> dict[Names, JointShare]:
        """Shares of the variance of f on the rows, largest first, where features may be dependent.

        With several outputs variances are summed over them. Shares may be negative.
        """
        parts, names = self._joint_parts(), [names for names, _, _ in self._parts]
        whole = float((parts.sum(1) ** 2).sum()) or 1.0
        shares = {}
        for place, name in enumerate(names):
            variance = float((parts[:, place] ** 2).sum()) / whole
            covariance = _covariance(parts, [place == other for other in range(len(names))])
            shares[name] = JointShare(variance, covariance, variance + covariance)
        return dict(sorted(shares.items(), key=lambda item: -item[1].share))

    def _joint_parts(self) -> FloatArray:
        """Components and remainder on the rows, (n_rows, n_parts, n_outputs), centred."""
        check_any_row(len(self.columns[0]))
        parts = part_scores(self.model, self.columns) / self._unit()
        parts = parts.reshape(len(parts), len(self._parts), -1)
        return np.asarray(parts - parts.mean(0))

    def sobol_intervals(self, level: float = LEVEL) -> dict[str | Names, tuple[float, float]]:
        """Intervals of the truth behind Sobol indices, from draws of the components' bands.

        A tuple of names is a component, whose share ``sobol()`` has: of one feature its main index,
        of two their index of second order. A name is a feature with its total index. Errors of
        different components are taken to be independent, and the remainder and the distribution of
        the features to be known. Like bands, intervals of 95 % may hold somewhat less.
        """
        check_level(level)
        unit, draws = self._unit(), dict[Names, FloatArray]()
        for place, names in enumerate(self.model.component_names):
            posterior = self.model.evidence.posterior(place)
            if posterior is None:
                raise ValueError(NO_BANDS.format("sobol_intervals", "it"))
            axes = self.model.axes(self.model.components.components[place])
            weights, table = [axis.weights for axis in axes], self.model.tables[place]
            draws[names] = variance_draws(table, weights, posterior.uncertainty(), unit, place)
        shown = self.sobol()
        for names in shown.keys() - draws.keys():  # that of the remainder
            draws[names] = np.full(N_DRAWS, self._relative_variances()[names])
        whole = sum(draws.values(), np.zeros(N_DRAWS)) + SMALLEST_VARIANCE
        shares: dict[str | Names, FloatArray] = {names: draws[names] / whole for names in shown}
        points = dict[str | Names, float](shown.items())
        for name in self.model.feature_names:
            points[name] = self.sobol_indices()[name].total
            inside = [draws[names] for names in shown if name in names]
            shares[name] = sum(inside, np.zeros(N_DRAWS)) / whole
        return {
            key: (min(float(low), points[key]), max(float(high), points[key]))
            for key, drawn in shares.items()
            for low, high in [np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])]
        }

    def shap_values(self) -> Any:
        """Exact Shapley values of the raw score: phi_j = sum of ``f_S / |S|`` over S with j.

        The sum is over all components of f, also over those that are in the remainder.

        Returns
        -------
        shap.Explanation where shap is installed, else ShapValues
            ``values`` (n_rows, n_features[, n_outputs]), ``base_values``, ``data``, the rows as
            numbers, and ``feature_names``.
        """
        return self._packed(self.shapley())

    def shap_interaction_values(self) -> Any:
        """Exact Shapley interaction values, in the convention of shap.

        ``values`` is (n_rows, n_features, n_features), symmetric; its rows sum to the Shapley
        values. The kind of object is that of :meth:`shap_values`.
        """
        components, n_features = self.model.components.components, len(self.model.feature_names)
        values = share(self.scores, interaction_weights(components, n_features))
        if self.model.remainder is not None:
            rest = self.model.remainder.interactions(self.model.encoder.axes, self.columns)
            values = values + squeezed(rest)
        return self._packed(values)

    def reasons(
        self,
        n_reasons: int = 4,
        adverse: str | None = None,
        scale: str = RAW,
        reference: Any = None,
    ) -> list[list[Reason]]:
        """Say in words what moved each row's raw score away from the average, most important first.

        Parameters
        ----------
        n_reasons : int, default=4
            Largest number of reasons per row.
        adverse : {"low", "high"}, optional
            Which raw scores are unfavourable: only contributions in that direction are listed, as
            in a letter of refusal. By default contributions in both directions are listed.
        scale : {"raw", "response"}, default="raw"
            On the response scale contributions are factors where the link is a log or a logit:
            "multiplies the prediction by 1.49".
        reference : dict from feature to value, optional
            Compare with a reference row instead of the average; features that it leaves out take
            their most frequent level or their median.

        Contributions are Shapley values of the components; the remainder is one reason beside them.
        """
        self.check_one_output()
        as_factor = is_factor(self.model.link, scale)
        row = None if reference is None else reference_row(self.model, reference)
        shares = contributions(self.model, self.columns, row)
        return reasons(self.model, self.columns, shares, n_reasons, adverse, as_factor)

    def by_group(self, labels: Any) -> pd.DataFrame:
        """Mean contribution of every component in each group of the rows, such as a month.

        Parameters
        ----------
        labels : array of shape (n_rows,)
            Group of each row: dates, which are put into months, or any labels. Missing ones are a
            group of their own.

        Returns
        -------
        DataFrame
            A line for each group, in order: ``n_rows``, the mean of each component and of the
            remainder, and ``raw score``, the sum of these and the intercept.
        """
        self.check_one_output()
        require_pandas("by_group")
        import pandas as pd

        scores, column = part_scores(self.model, self.columns), pd.Series(np.asarray(labels))
        if column.shape != (len(scores),):
            raise ValueError(
                f"labels: one for each of the {len(scores)} rows is needed, found {len(column)}. "
                "Pass a column of the same table."
            )
        groups = column.dt.to_period("M") if column.dtype.kind == "M" else column
        frame = pd.DataFrame(scores, columns=part_names(self.model))
        frame["raw score"] = self.model.intercept + scores.sum(1)
        frame.insert(0, "n_rows", 1.0)
        sums = frame.groupby(groups, dropna=False, sort=True).sum()
        means = sums.div(sums["n_rows"], axis=0).assign(n_rows=sums["n_rows"].astype(int))
        return means.rename_axis("group").reset_index()

    def steps_from(self, reference: Any) -> FloatArray:
        """Components on every row less those at a reference row, and the remainder last.

        The answer is (n_rows, n_components[ + 1][, n_outputs]). The average, where all of them are
        zero, is the reference None.
        """
        scores = part_scores(self.model, self.columns)
        if reference is None:
            return scores
        return scores - part_scores(self.model, reference_row(self.model, reference))

    def raw_score_at(self, reference: Any) -> Any:
        """Raw score of a reference row, without an offset; the intercept if it is None."""
        if reference is None:
            return self.model.intercept
        row = reference_row(self.model, reference)
        return self.model.intercept + part_scores(self.model, row)[0].sum(0)

    def shapley(self, reference: Any = None) -> FloatArray:
        """Shapley values of the rows less those of a reference, (n_rows, p[, n_outputs])."""
        values = _shapley(self.model, self.columns)
        if reference is None:
            return values
        return values - _shapley(self.model, reference_row(self.model, reference))

    def contrast(
        self, compared: Any, value: Any, reference: Any = None, level: float = LEVEL
    ) -> Contrast:
        """Difference between two values of a feature, or two groups of rows, with its error.

        Parameters
        ----------
        compared : str, int or table
            A feature, by name or position: its main effect at ``value`` less that at ``reference``,
            which is the difference of the two values averaged over all other features. Or rows:
            the mean of their raw scores less that of the rows ``value``.
        value : value of the feature, or table
            What is compared: one value, or the other rows.
        reference : value of the feature, optional
            With what; by default the most frequent level or the median.
        level : float, default=0.95
            Level of the interval.

        Of rows, errors of different components count as independent, and the remainder as known.
        Standard errors are those of the bands, so fits without bands have none.
        """
        self.check_one_output()
        model = self.model
        if isinstance(compared, str | int):
            place = self.find(compared)
            (feature,) = model.components.components[place]
            one = {feature: feature_value(model, feature, value, "value")}
            other = {feature: feature_value(model, feature, reference, "reference")}
            return contrast_of(model, [place], one, other, level)
        one, other = (
            dict(enumerate(model.encoder.columns(model.encoder.read(rows))))
            for rows in (compared, value)
        )
        rests = [float(model.remainder_scores(rows).mean()) for rows in (compared, value)]
        places = range(len(model.components))
        return contrast_of(model, places, one, other, level, rests[0] - rests[1])

    def concurvity(self) -> dict[Names, Concurvity]:
        """How far other components could imitate each one on the rows explained, worst first.

        Components are unique under the product of the marginals. Where features depend on each
        other, a component that others can imitate is still unique, but hard to read alone.
        """
        self.check_one_output()
        return concurvity(self.model, self.columns, self.scores)

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

        The arguments are those of :func:`tpnn.plots.main_effect`.
        """
        if component is None:
            return plots.importance(self, ax=ax)
        options = {"scale": scale, "reference": reference, "log_axes": log_axes}
        return plots.component(self, component, ax, **options)

    def _given_rows(self) -> Table:
        if self.rows is None:
            raise ValueError(
                "rows: this needs an explanation of rows, and explain() without X explains the "
                "model as a whole. Call explain(X)."
            )
        rows: Table = self.rows
        return rows

    def _packed(self, values: FloatArray) -> Any:
        data = np.column_stack(self.columns)
        base = np.broadcast_to(self.model.intercept, (len(data), *np.shape(self.model.intercept)))
        return packed(values, base, data, self.model.feature_names)

    def check_one_output(self) -> None:
        """Refuse a model with several outputs, where only one can be shown."""
        names = self.model.output_names
        if names:
            raise ValueError(
                f"output: one output is needed here, found {len(names)}. "
                f"Choose one, for example explanation.of({names[0]!r})."
            )

    def _density(self, features: Sequence[int], axes: Sequence[Axis]) -> FloatArray | None:
        if self.rows is None:
            return axes[0].weights if len(axes) == 1 else None
        rows = self._given_rows()
        return joint_density(axes, [self.model.encoder.numbers(rows, j) for j in features])

    @cached_property
    def _parts(self) -> list[tuple[Names, FloatArray, list[FloatArray]]]:
        parts = weighted_parts(self.model)
        if not self.hierarchical:
            return parts
        scores = part_scores(self.model, self.columns)  # (n, n_parts[, K])
        even = np.full(len(scores), 1 / len(scores))
        values = np.moveaxis(scores.reshape(len(scores), len(parts), -1), 1, 0)
        return [(names, own, [even]) for (names, _, _), own in zip(parts, values, strict=True)]

    def _unit(self) -> float:
        """Power of two above all values of components: in this unit no square overflows."""
        return unit_of(np.zeros(1), *(values for _, values, _ in self._parts))

    def _relative_variances(self) -> dict[Names, float]:
        """Variances in the square of ``_unit()``, which is a power of two and so loses no bits."""
        unit = self._unit()
        return self._ranked(lambda table: np.square(table / unit))

    def _ranked(self, measure: Callable[[FloatArray], FloatArray]) -> dict[Names, float]:
        """Mean of ``measure(f_S)`` under the product of the marginals, largest first."""
        means = {
            names: float(product_mean(measure(values), masses).mean())
            for names, values, masses in self._parts
        }
        return dict(sorted(means.items(), key=lambda item: -item[1]))


def _covariance(parts: FloatArray, own: Sequence[bool]) -> float:
    """Covariance of some parts (n, n_parts, K) with all others, over the variance of their sum."""
    some, whole = parts[:, np.array(own)].sum(1), parts.sum(1)
    return float((some * (whole - some)).sum()) / (float((whole**2).sum()) or 1.0)


def _shapley(model: AnovaModel, columns: Sequence[FloatArray]) -> FloatArray:
    """Shapley values of rows that are numbers already, those of the remainder included."""
    weights = value_weights(model.components.components, len(model.feature_names))
    values = share(column_scores(model, columns), weights)
    if model.remainder is None:
        return values
    return values + squeezed(model.remainder.shapley(model.encoder.axes, columns))
