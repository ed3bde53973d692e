"""scorecard: a classifier as whole points on bands, with the largest deviation from the model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import POSITIVE, Rule, check_parameters, is_count, is_number, warn
from tpnn.anova.components import Component
from tpnn.export.sheets.bins import BandedModel, Bands, banded, refuse_unless, summed
from tpnn.export.sheets.tidy import refuse_remainder, values_at
from tpnn.model.model import AnovaModel
from tpnn.table.columns import require_pandas
from tpnn.table.table import NOMINAL

if TYPE_CHECKING:
    import pandas as pd


MAX_CELLS = 4_000_000  # of a table that elimination makes; above it the maximum is bounded

Tables = list[tuple[Component, FloatArray]]


def largest_sum(tables: Mapping[Component, FloatArray]) -> tuple[float, bool]:
    """Maximum of sum_S t_S(x_S) over all x, and whether it is exact or an upper bound.

    Features are eliminated one after the other: all tables of a feature are added and their sum is
    maximised over it. Where that sum would have too many cells, groups of tables are maximised
    apart, which can only give more.

    >>> largest_sum({(0,): np.array([0.0, 1.0]), (0, 1): np.array([[5.0, 0.0], [0.0, 3.0]])})
    (5.0, True)
    """
    left: Tables = [(component, np.asarray(table)) for component, table in tables.items()]
    is_exact = True
    while any(component for component, _ in left):
        feature = min({j for s, _ in left for j in s}, key=lambda j: _n_cells(_with(left, j)))
        groups = _groups(_with(left, feature))
        is_exact &= len(groups) == 1
        left = [(s, table) for s, table in left if feature not in s]
        left += [_maximised(group, feature) for group in groups]
    return float(sum(float(table) for _, table in left)), is_exact


def _with(tables: Tables, feature: int) -> Tables:
    return [(component, table) for component, table in tables if feature in component]


def _sizes(tables: Tables) -> dict[int, int]:
    return {
        j: n for component, table in tables for j, n in zip(component, table.shape, strict=True)
    }


def _n_cells(tables: Tables) -> int:
    return math.prod(_sizes(tables).values())


def _groups(tables: Tables) -> list[Tables]:
    """Tables together as long as their sum has few cells, largest first."""
    groups: list[Tables] = []
    for one in sorted(tables, key=lambda pair: -pair[1].size):
        fitting = (group for group in groups if _n_cells([*group, one]) <= MAX_CELLS)
        group = next(fitting, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def _maximised(tables: Tables, feature: int) -> tuple[Component, FloatArray]:
    """Sum of tables, maximised over one feature."""
    scope = tuple(sorted(_sizes(tables)))
    total = reduce(np.add, [_aligned(component, table, scope) for component, table in tables])
    rest = tuple(j for j in scope if j != feature)
    return rest, total.max(scope.index(feature))


def _aligned(component: Component, table: FloatArray, scope: Sequence[int]) -> FloatArray:
    sizes = dict(zip(component, table.shape, strict=True))
    return table.reshape([sizes.get(j, 1) for j in scope])


def monotone_shift(
    points: Mapping[Component, IntArray], feature: int, n_regular: int, direction: int
) -> IntArray:
    """Whole points to add to a main effect so that all sums are monotone along its feature.

    The smallest step from band b to b + 1 is that of the main effect plus, for each pair, the
    smallest over the bands of the other feature: a_b. The shift u needs u_{b+1} - u_b >= -a_b. With
    G_b the sum of -a up to b, v = u - G must not fall, and the u of least largest size is G plus
    the middle between the running maximum of -G and its running minimum from the end.

    The first ``n_regular`` bands have an order, and get a shift each. With direction 1 sums must
    rise, with -1 they must fall.
    """
    steps = np.zeros(max(n_regular - 1, 0), np.int64)
    for component, table in points.items():
        if feature in component:
            along = np.moveaxis(table, component.index(feature), 0)[:n_regular]
            rises = direction * np.diff(along, axis=0)
            steps += rises.reshape(len(rises), -1).min(1) if len(rises) else 0
    needed = np.concatenate([[0], np.cumsum(-steps)])[:n_regular].astype(np.int64)
    up = np.maximum.accumulate(-needed)
    down = np.minimum.accumulate(-needed[::-1])[::-1]
    shift: IntArray = direction * ((up + down) // 2 + needed)
    return shift


BASE = "(base)"
GOOD_WORDS = {"accepted", "current", "good", "healthy", "ok", "paid", "performing", "repaid"}
BAD_WORDS = {
    "arrears", "bad", "bankrupt", "charged", "default", "defaulted", "delinquent", "died", "fraud",
    "ill", "late", "lost", "rejected", "sick",
}  # fmt: skip
NEGATIONS = {"no", "non", "not", "never", "un"}
MAX_ORDER = 2
FINITE = Rule("a finite number", lambda value: is_number(value) and abs(value) < np.inf, 600)
COUNT = Rule("a whole number of at least 1", is_count, 6)
RULES = {"pdo": POSITIVE, "odds": POSITIVE, "score": FINITE, "max_bands": COUNT}


class LostPoints(NamedTuple):
    """One reason why a row does not have the highest score.

    Parameters
    ----------
    component : str
        Feature or pair of features.
    band : str
        Where the row is.
    lost : int
        Points below the best band of the component.
    words : str
        One sentence, for a letter.
    """

    component: str
    band: str
    lost: int
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreCard:
    """Whole points for every band of every component.

    With p the points of a row, the odds of the good class are
    reference_odds * 2^((p - reference_score) / pdo).

    Parameters
    ----------
    pdo : float
        Points that double the odds.
    reference_score : float
        A score of which the odds are stated.
    reference_odds : float
        Odds of the good class at that score.
    good : str, int or float
        The class whose odds rise with the score.
    base_points : int
        Points that every row has.
    points : dict of tuple of int to array of int
        Points of each component, on the bands of its features.
    banded : BandedModel
        The bands, and the components on them.
    max_deviation : float
        How far the card's log-odds can be from the model's, for whatever row.
    is_exact : bool
        Whether some row, or the limit of rows, is that far; else it is an upper bound.
    """

    pdo: float
    reference_score: float
    reference_odds: float
    good: Any
    base_points: int
    points: Mapping[Component, IntArray]
    banded: BandedModel
    max_deviation: float
    is_exact: bool

    def score(self, X: Any) -> IntArray:
        """Points of every row, (n_rows,)."""
        table = self.banded.model.encoder.read(X)
        return self.base_points + _summed_points(self, self.banded.codes(table), table.n_rows)

    def log_odds(self, X: Any) -> FloatArray:
        """Log-odds of the second class that the points stand for, (n_rows,)."""
        return _log_odds(self, self.score(X).astype(np.float64))

    def reasons(self, X: Any, n_reasons: int = 4) -> list[list[LostPoints]]:
        """For every row, the components that lose most points, largest loss first."""
        check_parameters({"n_reasons": n_reasons}, {"n_reasons": COUNT})
        table = self.banded.model.encoder.read(X)
        codes, names = self.banded.codes(table), _names(self)
        cells = {s: tuple(codes[j] for j in s) for s in self.points}
        lost = np.array([points.max() - points[cells[s]] for s, points in self.points.items()])
        ranked = np.argsort(-lost, axis=0, kind="stable")[:n_reasons]
        components = list(self.points)
        return [
            [
                _reason(self, names[s], s, [int(at[row]) for at in cells[s]], int(lost[k, row]))
                for k, s in ((k, components[k]) for k in ranked[:, row])
                if lost[k, row] > 0
            ]
            for row in range(table.n_rows)
        ]

    @property
    def levels(self) -> pd.DataFrame:
        """Every level of every feature, and its band, whose name lists the first few only."""
        return self.banded.levels()

    def to_frame(self) -> pd.DataFrame:
        """One line for every cell: component, band, points, effect of the model, and mass.

        The first line has the points of every row, and says which class is the good one.
        """
        require_pandas("to_frame")
        import pandas as pd

        names, intercept = _names(self), float(self.banded.model.intercepts[0])
        base = [BASE, f"good: {self.good}", self.base_points, intercept, 1.0]
        frames = [pd.DataFrame([base], columns=["component", "band", "points", "effect", "mass"])]
        for component, points in self.points.items():
            places = np.indices(points.shape).reshape(points.ndim, -1).T
            columns = {
                "component": names[component],
                "band": [_band(self, component, place) for place in places.tolist()],
                "points": points.ravel(),
                "effect": self.banded.tables.get(component, np.zeros(points.shape)).ravel(),
                "mass": self.banded.masses(component).ravel(),
            }
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def __repr__(self) -> str:
        bound = "" if self.is_exact else "at most "
        return (
            f"ScoreCard({self.reference_score:g} points at odds of {self.reference_odds:g} for "
            f"{self.good!r}, {self.pdo:g} points double them, {len(self.points)} components, "
            f"{bound}{self.max_deviation:.3g} from the model's log-odds)"
        )

    def _repr_html_(self) -> str:
        """Show all points and all levels in a notebook."""
        frames = (self.to_frame(), self.levels)
        return f"<p>{escape(repr(self))}</p>{''.join(one.to_html(index=False) for one in frames)}"


def scorecard(
    model: Any,
    pdo: float = 20,
    score: float = 600,
    odds: float = 50,
    max_bands: int = 6,
    good: Any = None,
) -> ScoreCard:
    """Turn a classifier of two classes with main effects and pairs into a score card.

    Each component is put on bands that lose least (see ``AnovaModel.rating_tables``),
    scaled and rounded to whole points. Where the model is certified to rise or to fall along a
    feature, so do the points: where rounding would break it, the points of the main effect move as
    little as possible. Missing values and unseen levels have points of their own.

    Parameters
    ----------
    model : AnovaModel or TPNNClassifier
        A fitted classifier of two classes, without offset.
    pdo : float, default=20
        Points that double the odds.
    score, odds : float, default=600 and 50
        A score, and the odds of the good class that it stands for.
    max_bands : int, default=6
        Largest number of bands of a feature, besides those of missing values and unseen levels.
    good : str, int or float, optional
        The class whose odds rise with the score; by default the first one, since the second is
        usually the event that is feared. If the names of the classes say otherwise, such as "bad"
        and "good", a warning asks for this argument.

    Returns
    -------
    ScoreCard
    """
    values = {"pdo": pdo, "score": score, "odds": odds, "max_bands": max_bands}
    check_parameters(values, RULES)
    frozen: AnovaModel = getattr(model, "model_", model)
    _check_model(frozen, good)
    if good is None:
        good = frozen.classes[0]
        _warn_if_inverted(frozen.classes)
    unit = pdo / np.log(2) * (1 if good == frozen.classes[1] else -1)
    grouped = banded(frozen, max_bands)
    points = {s: np.rint(unit * table).astype(np.int64) for s, table in grouped.tables.items()}
    points = _with_shapes(grouped, points, 1 if unit > 0 else -1)
    base_points = round(score - abs(unit) * np.log(odds) + unit * float(frozen.intercepts[0]))
    card = ScoreCard(
        pdo=float(pdo),
        reference_score=float(score),
        reference_odds=float(odds),
        good=good,
        base_points=base_points,
        points=points,
        banded=grouped,
        max_deviation=np.nan,
        is_exact=False,
    )
    largest, is_exact = _deviation(card)
    return ScoreCard(**{**vars(card), "max_deviation": largest, "is_exact": is_exact})


def _check_model(model: AnovaModel, good: Any) -> None:
    refuse_unless(["classes"], model, "score cards are for models of two classes")
    refuse_remainder(model, "a score card")
    if len(model.classes) != 2 or (good is not None and good not in model.classes):
        raise ValueError(
            f"good: must be one of two classes, found {good!r} and the classes "
            f"{list(model.classes)}. Pass a label of the model."
        )
    if max(model.components.orders, default=0) > MAX_ORDER:
        raise ValueError(
            f"model: score cards have main effects and pairs, found components of "
            f"{max(model.components.orders)} features. Fit with order=2."
        )
    if model.has_offset:
        raise ValueError(
            "model: a score card has no offset, and this model was fitted with one. Fit without "
            "it, or use rating_tables()."
        )


def _warn_if_inverted(classes: Sequence[Any]) -> None:
    """Warn where the names of the classes say that the second one is good."""
    first, second = (set(re.findall("[a-z]+", str(label).lower())) for label in classes)
    first_is_bad = first & BAD_WORDS and not first & NEGATIONS
    second_is_good = second & GOOD_WORDS and not second & NEGATIONS
    if first_is_bad or second_is_good:
        warn(
            f"good: the first class in sorted order, {classes[0]!r}, is taken as the good one, "
            f"whose odds rise with the score. If {classes[1]!r} is the good one, pass "
            f"good={classes[1]!r}; if not, good={classes[0]!r} says so.",
        )


def _names(card: ScoreCard) -> dict[Component, str]:
    names = card.banded.model.feature_names
    return {s: " x ".join(names[j] for j in s) for s in card.points}


def _band(card: ScoreCard, component: Component, place: list[int]) -> str:
    labels = [card.banded.bands[j].labels[k] for j, k in zip(component, place, strict=True)]
    return " x ".join(labels)


def _reason(
    card: ScoreCard, name: str, component: Component, place: list[int], lost: int
) -> LostPoints:
    band = _band(card, component, place)
    plural = "point" if lost == 1 else "points"
    return LostPoints(name, band, lost, f"{name} ({band}): {lost} {plural} below the best")


def _summed_points(card: ScoreCard, codes: Mapping[int, IntArray], n_rows: int) -> IntArray:
    tables = {s: points.astype(np.float64) for s, points in card.points.items()}
    return summed(tables, codes, n_rows).astype(np.int64)


def _direction(card: ScoreCard) -> int:
    """Return 1 where points rise with the log-odds of the second class, else -1."""
    return 1 if card.good == card.banded.model.classes[1] else -1


def _log_odds(card: ScoreCard, points: FloatArray) -> FloatArray:
    """Log-odds of the second class of whole sums of points."""
    doublings = (points - card.reference_score) / card.pdo
    good: FloatArray = doublings * np.log(2) + np.log(card.reference_odds)
    return _direction(card) * good


def _with_shapes(
    grouped: BandedModel, points: dict[Component, IntArray], direction: int
) -> dict[Component, IntArray]:
    """Points that are monotone along every feature along which the model is certified."""
    model = grouped.model
    for feature, bands in grouped.bands.items():
        if model.encoder.features[feature].kind == NOMINAL:
            continue
        for shape, sign in (("increasing", 1), ("decreasing", -1)):
            if model.certificate(model.feature_names[feature], shape).holds:
                shift = monotone_shift(points, feature, bands.n_regular, sign * direction)
                if shift.any():
                    main = points.get((feature,), np.zeros(bands.n_bands, np.int64)).copy()
                    main[: bands.n_regular] += shift
                    points = {**points, (feature,): main}
    return dict(sorted(points.items(), key=lambda item: (len(item[0]), item[0])))


def _deviation(card: ScoreCard) -> tuple[float, bool]:
    """Largest distance of log-odds over all inputs, and whether it is exact.

    Between nodes and cuts the difference is linear in each feature, so it is largest at one of
    them or just below a cut.
    """
    model, per_point = card.banded.model, _direction(card) * np.log(2) / card.pdo
    numbers = {j: _corners(model, j, bands) for j, bands in card.banded.bands.items()}
    components = set(model.components)
    gaps = {}
    for component, points in card.points.items():
        at = [numbers[j] for j in component]
        bands = [card.banded.bands[j].locate(x) for j, x in zip(component, at, strict=True)]
        values = values_at(model, component, at) if component in components else 0.0
        gaps[component] = per_point * points[np.ix_(*bands)] - values
    base = _log_odds(card, np.array(float(card.base_points))) - model.intercepts[0]
    above, is_exact = largest_sum(gaps)
    below, _ = largest_sum({s: -gap for s, gap in gaps.items()})
    return max(float(base) + above, below - float(base)), is_exact


def _corners(model: AnovaModel, feature: int, bands: Bands) -> FloatArray:
    """Values of a feature among which the largest deviation is."""
    below = np.nextafter(bands.cuts, -np.inf)
    numbers = np.concatenate([bands.numbers, bands.cuts, below])
    axes = [model.encoder.axes[k][feature] for k in sorted({len(s) for s in model.components})]
    located = [each for axis in axes for each in axis.locate(numbers)]
    _, first = np.unique(np.stack([bands.locate(numbers), *located]), axis=1, return_index=True)
    return numbers[np.sort(first)]
