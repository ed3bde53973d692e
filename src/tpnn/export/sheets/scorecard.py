"""scorecard: a classifier as whole points on bands, with the largest deviation from the model."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import POSITIVE, Rule, check_parameters, is_number, warn
from tpnn.anova.components import Component
from tpnn.export.pmml import card_to_pmml
from tpnn.export.sheets.band_workbook import write_card
from tpnn.export.sheets.bins import (
    BandedModel,
    BandRules,
    Bands,
    band_rules,
    banded,
    cell_means,
    merged,
    refuse_unless,
    summed,
)
from tpnn.export.sheets.card_use import (
    LostPoints,
    balanced_base,
    card_document,
    cutoff_table,
    read_card,
    reason_codes,
    reasons,
    reference_points,
    save_card,
    score_psi,
    with_counts,
)
from tpnn.export.sheets.tidy import refuse_remainder, values_at
from tpnn.export.sql import card_query
from tpnn.model.model import AnovaModel, pruned
from tpnn.table.columns import require_pandas
from tpnn.table.table import NOMINAL

if TYPE_CHECKING:
    import pandas as pd

BASE = "(base)"
GOOD_WORDS = {"accepted", "current", "good", "healthy", "ok", "paid", "performing", "repaid"}
BAD_WORDS = {
    "arrears", "bad", "bankrupt", "charged", "default", "defaulted", "delinquent", "died", "fraud",
    "ill", "late", "lost", "rejected", "sick",
}  # fmt: skip
NEGATIONS = {"no", "non", "not", "never", "un"}
MAX_ORDER = 2
FINITE = Rule("a finite number", lambda value: is_number(value) and abs(value) < np.inf, 600)
RULES = {"pdo": POSITIVE, "odds": POSITIVE, "score": FINITE}
MAX_BANDS = 6  # of a feature, where nothing else is said


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
        tables = {s: points.astype(np.float64) for s, points in self.points.items()}
        total = summed(tables, self.banded.codes(table), table.n_rows)
        return self.base_points + total.astype(np.int64)

    def log_odds(self, X: Any) -> FloatArray:
        """Log-odds of the second class that the points stand for, (n_rows,)."""
        return _direction(self) * self.odds_of(self.score(X).astype(np.float64))

    def reasons(
        self,
        X: Any,
        n_reasons: int = 4,
        reference: str | Mapping[str, float] = "best",
        codes: Mapping[str, Any] | None = None,
    ) -> list[list[LostPoints]]:
        """For every row, the components that lose most points, largest loss first.

        Parameters
        ----------
        X : table
            The rows.
        n_reasons : int, default=4
            Largest number of reasons of a row.
        reference : {"best", "mean"} or dict, default="best"
            From where points are counted: from the best band of each component, from its mean over
            the training rows, or from the points that :meth:`reference` returns, such as the mean
            points of applicants who score at the cut-off or slightly above it.
        codes : dict from str to (code, text), optional
            Code and text of the reason by feature, or by the name of a pair; a pair without its own
            takes those of the first feature that has some. Losses with the same code are added.

        Returns
        -------
        list of list of LostPoints
        """
        return reasons(self, X, n_reasons, reference, codes or {})

    def reference(self, X: Any, cutoff: float, width: float | None = None) -> dict[str, float]:
        """Mean points of each component over the rows that score slightly above a cut-off.

        These are the rows that score from ``cutoff`` to less than ``width`` points above it, by
        default the points that double the odds.
        """
        return reference_points(self, X, cutoff, self.pdo if width is None else width)

    def rebalanced(self, X: Any, y: Any) -> ScoreCard:
        """Card of which as many rows are expected to be bad as are, as nearly as whole points can.

        Only the points that every row has are changed.
        """
        return _with_deviation(replace(self, base_points=balanced_base(self, X, y)))

    def cutoffs(self, X: Any, y: Any = None, at: Sequence[float] | None = None) -> pd.DataFrame:
        """Say what each cut-off approves, in a line for each; rows that score at it are approved.

        Parameters
        ----------
        X : table
            The rows.
        y : array, optional
            Their labels.
        at : sequence of float, optional
            The cut-offs; by default about twenty scores with as many rows between them.

        Returns
        -------
        DataFrame
            ``cutoff``, ``n_approved``, ``approval_rate``, ``expected_bad_rate`` of those approved
            by the points; with labels also their ``bad_rate``, ``bads_refused``, the share of all
            bad rows that is refused, and ``goods_refused``.
        """
        return cutoff_table(self, X, y, at)

    def psi(self, X: Any, new: Any, n_groups: int = 10) -> pd.DataFrame:
        """Compare shares of old and of new rows by groups of scores.

        The groups have about as many rows of X each. The column ``psi`` sums to the population
        stability index of the score.
        """
        return score_psi(self, X, new, n_groups)

    @property
    def levels(self) -> pd.DataFrame:
        """Every level of every feature, its band, and its points where it is a main effect."""
        points = {s[0]: table for s, table in self.points.items() if len(s) == 1}
        return self.banded.levels("points", points)

    def to_frame(self, X: Any = None, y: Any = None) -> pd.DataFrame:
        """One line for every cell: component, band, points, effect of the model, and mass.

        The first line has the points of every row, and says which class is the good one. If rows
        and labels are given, each line has ``n_rows``, ``n_bad``, ``bad_rate``, ``woe``, the
        logarithm of the share of all good rows over the share of all bad rows, and ``iv``, the
        difference of these shares times ``woe``; the sum of ``iv`` is the information value of a
        component. Where a cell has rows of one class alone, half a row is added to both.
        """
        require_pandas("to_frame")
        import pandas as pd

        names, intercept = self.names, float(self.banded.model.intercepts[0])
        base = [BASE, f"good: {self.good}", self.base_points, intercept, 1.0]
        frames = [pd.DataFrame([base], columns=["component", "band", "points", "effect", "mass"])]
        for component, points in self.points.items():
            places = np.indices(points.shape).reshape(points.ndim, -1).T
            columns = {
                "component": names[component],
                "band": [self.band_name(component, place) for place in places.tolist()],
                "points": points.ravel(),
                "effect": self.banded.tables.get(component, np.zeros(points.shape)).ravel(),
                "mass": self.banded.masses(component).ravel(),
            }
            frames.append(pd.DataFrame(columns))
        frame = pd.concat(frames, ignore_index=True)
        return frame if X is None and y is None else with_counts(self, frame, X, y)

    def to_sql(self, dialect: str, table: str | Sequence[str] = "loans", key: Any = None) -> str:
        """Query with the score of every row of a table, and the points of each component.

        ``dialect``, ``table`` and ``key`` are those of ``AnovaModel.to_sql``.
        """
        return card_query(self, dialect, table, key)

    def to_pmml(self, path: str | os.PathLike[str], codes: Mapping[str, Any] | None = None) -> None:
        """Write a Scorecard of PMML 4.4, with its four largest reasons below the best points.

        ``codes`` are those of :meth:`reasons`; a component without one is its own reason.
        """
        write_file(path, card_to_pmml(self, reason_codes(self, codes or {})).encode())

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the card alone as JSON, for other systems; docs/sheets.md has an example."""
        write_file(path, json.dumps(card_document(self), indent=1).encode())

    def to_excel(self, path: str | os.PathLike[str], X: Any = None) -> None:
        """Write a workbook that looks points up and adds them; rows of X come first."""
        write_card(self, path, X)

    def save(self, path: str | os.PathLike[str], *, sign: Any = None) -> None:
        """Write the card and its model to one file, from which :meth:`load` reads both.

        ``tpnn.load`` reads the model alone. ``sign`` is as in ``AnovaModel.save``.
        """
        save_card(self, path, sign)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: Any = None) -> ScoreCard:
        """Read a saved card; ``verify`` is as in :func:`tpnn.load`."""
        return cls(**read_card(path, verify))

    @property
    def in_log_odds(self) -> BandedModel:
        """The points as log-odds of the second class, on the same bands."""
        sign, base = _direction(self), self.odds_of(np.array(float(self.base_points)))
        unit = sign * np.log(2) / self.pdo
        tables = {s: unit * points for s, points in self.points.items()}
        return replace(self.banded, tables=tables, intercept=float(sign * base))

    @property
    def names(self) -> dict[Component, str]:
        """Name of each component."""
        return {component: self.banded.name(component) for component in self.points}

    def band_name(self, component: Component, place: Sequence[int]) -> str:
        """Cell of a component in words."""
        bands = self.banded.bands
        return " x ".join(bands[j].labels[k] for j, k in zip(component, place, strict=True))

    def odds_of(self, score: FloatArray) -> FloatArray:
        """Log-odds of the good class of scores."""
        doublings = (score - self.reference_score) / self.pdo
        return np.asarray(doublings * np.log(2) + np.log(self.reference_odds))

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
    max_bands: int | Mapping[str, int] = MAX_BANDS,
    good: Any = None,
    cuts: Mapping[str, Any] | None = None,
    min_share: float = 0.0,
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
    max_bands : int or dict from str to int, default=6
        Largest number of bands of a feature, besides those of missing values and unseen levels; or
        that of each feature by its name.
    good : str, int or float, optional
        The class whose odds rise with the score; by default the first one, since the second is
        usually the event that is feared. If the names of the classes say otherwise, such as "bad"
        and "good", a warning asks for this argument.
    cuts : dict from str to list, optional
        Bands of some features, by name: the increasing values at which a new band begins or, for a
        feature with levels, a list of levels for each band; all other levels are one band more.
    min_share : float, default=0
        Smallest share of the training rows in a band that is found. Bands in ``cuts``, and those of
        missing values and unseen levels, have what they have.

    Returns
    -------
    ScoreCard
    """
    check_parameters({"pdo": pdo, "score": score, "odds": odds}, RULES)
    frozen: AnovaModel = getattr(model, "model_", model)
    _check_model(frozen, good)
    if good is None:
        good = frozen.classes[0]
        _warn_if_inverted(frozen.classes)
    unit = pdo / np.log(2) * (1 if good == frozen.classes[1] else -1)
    frozen = pruned(frozen)
    rules = band_rules(frozen, max_bands, MAX_BANDS, cuts, min_share)
    grouped = banded(frozen, rules)
    points = {s: np.rint(unit * table).astype(np.int64) for s, table in grouped.tables.items()}
    points = _with_shapes(grouped, points, 1 if unit > 0 else -1)
    grouped, points = _without_equal_bands(grouped, points, rules)
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
    return _with_deviation(card)


def _without_equal_bands(
    grouped: BandedModel, points: dict[Component, IntArray], rules: BandRules
) -> tuple[BandedModel, dict[Component, IntArray]]:
    """Join neighbouring bands with the same points in every component, unless they are given."""
    model, bands = grouped.model, dict(grouped.bands)
    for feature, old in grouped.bands.items():
        if model.feature_names[feature] in rules.cuts:
            continue
        using = [s for s in points if feature in s]
        along = [np.moveaxis(points[s], s.index(feature), 0)[: old.n_regular] for s in using]
        lines = np.hstack([table.reshape(old.n_regular, -1) for table in along])
        begins = np.append(True, (np.diff(lines, axis=0) != 0).any(1))  # (n_regular,)
        if begins.all():
            continue
        bands[feature] = merged(model.encoder.features[feature], old, np.cumsum(begins) - 1)
        specials = np.arange(old.n_regular, old.n_bands)
        kept = np.append(np.flatnonzero(begins), specials)
        points |= {s: points[s].take(kept, s.index(feature)) for s in using}
    tables = {s: cell_means(model, s, bands) for s in grouped.tables}
    return replace(grouped, bands=bands, tables=tables), points


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


def _direction(card: ScoreCard) -> int:
    """Return 1 where points rise with the log-odds of the second class, else -1."""
    return 1 if card.good == card.banded.model.classes[1] else -1


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


def _with_deviation(card: ScoreCard) -> ScoreCard:
    """Card that knows the largest distance of log-odds over all inputs, and whether it is exact.

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
    base = _direction(card) * card.odds_of(np.array(float(card.base_points)))
    base -= model.intercepts[0]
    above, is_exact = largest_sum(gaps)
    below, _ = largest_sum({s: -gap for s, gap in gaps.items()})
    largest = max(float(base) + above, below - float(base))
    return replace(card, max_deviation=largest, is_exact=is_exact)


def _corners(model: AnovaModel, feature: int, bands: Bands) -> FloatArray:
    """Values of a feature among which the largest deviation is."""
    below = np.nextafter(bands.cuts, -np.inf)
    numbers = np.concatenate([bands.numbers, bands.cuts, below])
    axes = [model.encoder.axes[k][feature] for k in sorted({len(s) for s in model.components})]
    located = [each for axis in axes for each in axis.locate(numbers)]
    _, first = np.unique(np.stack([bands.locate(numbers), *located]), axis=1, return_index=True)
    return numbers[np.sort(first)]


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
    aligned = (
        table.reshape([dict(zip(s, table.shape, strict=True)).get(j, 1) for j in scope])
        for s, table in tables
    )
    total = reduce(np.add, aligned)
    rest = tuple(j for j in scope if j != feature)
    return rest, total.max(scope.index(feature))


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
    return np.asarray(direction * ((up + down) // 2 + needed))
