"""TableEncoder: nodes and masses of every feature, and tables as numbers on them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import warn
from tpnn._utils.threads import Workers
from tpnn.table.axis import (
    UNSEEN_LEVEL,
    Axis,
    distinct,
    nested_axes,
    nominal_axes,
    with_period,
    within_period,
)
from tpnn.table.columns import LARGEST_EXACT_INTEGER, RemoteTable, StoredColumns, all_finite
from tpnn.table.table import (
    DATE,
    NOMINAL,
    NUMBER,
    ORDERED,
    PERIODIC,
    Column,
    OffsetColumn,
    Table,
    read_column,
)


def as_levels(column: Column, levels: Sequence[Any], are_text: bool, name: str) -> FloatArray:
    """Return the number of each row's level among the ``levels`` of fit, (n_rows,).

    Equal numbers are equal levels, and no number equals a string. ``are_text`` says that levels are
    compared as text; ``name`` is the column in messages.
    """
    rank = {level: float(number) for number, level in enumerate(levels)}
    labels = tuple(map(level_text, column.levels)) if are_text else column.levels
    if level_types(labels).isdisjoint(level_types(levels)):
        raise TypeError(
            f"X: column {name!r} must hold levels like those of fit, {_sample(levels)}, "
            f"found {described(column)}. Convert it to such levels."
        )
    are_rounded = any(isinstance(x, float) and abs(x) >= LARGEST_EXACT_INTEGER for x in labels)
    if are_rounded and any(isinstance(x, int) and abs(x) > LARGEST_EXACT_INTEGER for x in levels):
        raise TypeError(
            f"X: column {name!r} must hold integers as in fit, found floats beyond 2**53, which "
            "are rounded. Pass integers, of the type Int64 where some are missing."
        )
    return _by_level(column, [rank.get(label, UNSEEN_LEVEL) for label in labels])


def level_text(level: Any) -> str:
    """Write a level.

    >>> [level_text(level) for level in ("1", 1, 1.0, True, 0.5, 1e17)]
    ['1', '1', '1', '1', '0.5', '1e+17']
    """
    if isinstance(level, str):
        return level
    return repr(level).removesuffix(".0") if isinstance(level, float) else str(int(level))


def level_types(levels: Iterable[Any]) -> set[type]:
    """Types of levels: str, or float for numbers of all types."""
    return {str if isinstance(level, str) else float for level in levels}


def iso_dates(column: Column, name: str) -> FloatArray:
    """Column whose levels are dates as text, which JSON has in place of dates, in seconds."""
    try:
        dates = [datetime.fromisoformat(level) for level in column.levels]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"X: column {name!r} must hold dates as in fit, found {described(column)}, which are "
            f"not all ISO dates ({error}). Pass dates, or text such as '2024-05-31'."
        ) from error
    return _by_level(column, read_column(np.array(dates, object), name).values.tolist())


def _by_level(column: Column, numbers: Sequence[float]) -> FloatArray:
    """Return the number of each row's level, (n_rows,), given those of all levels."""
    present = ~np.isnan(column.values)
    answer = np.full(len(column.values), np.nan)
    answer[present] = np.array(numbers, np.float64)[column.values[present].astype(np.intp)]
    return answer


def _sample(levels: Sequence[Any]) -> str:
    """Write the first levels, long ones with their middle left out."""
    return reprlib.repr(list(levels[:3]))


def described(column: Column) -> str:
    """Say what a column holds."""
    if column.levels:
        word = "levels" if str in level_types(column.levels) else "numbers"
        return f"{word} such as {_sample(column.levels)}"
    return f"{column.kind}s"


LARGEST_WHOLE_WEIGHT = 2**52  # beyond it not every whole number is a double


def whole_counts(weights: FloatArray) -> FloatArray | None:
    """Integer weights in units of their greatest common divisor; None where some are not integer.

    >>> whole_counts(np.array([2.0, 6.0])), whole_counts(np.array([0.5, 2.0]))
    (array([1., 3.]), None)
    """
    whole = np.floor(weights)
    if (whole != weights).any() or weights.max() > LARGEST_WHOLE_WEIGHT:
        return None
    return np.asarray(weights / np.gcd.reduce(whole.astype(np.int64)))


MAX_LEVEL_NODES = 65_534  # nodes of a nominal main effect; codes have two bytes


class Feature(NamedTuple):
    """A column as fit has seen it."""

    kind: str  # what its values stand for
    levels: tuple[Any, ...] = ()  # labels of its levels, if it has levels
    # Whether levels are compared as text, so that 1, 1.0 and "1" are one level. Labels are
    # strings then.
    are_text: bool = False
    # smallest and largest value of a feature without levels; empty where they are not known
    ends: tuple[float, ...] = ()


class KeptFeatures(NamedTuple):
    """Positions of some features among those of the training table, and the number of all."""

    places: tuple[int, ...]
    n_features: int


class LevelRules(NamedTuple):
    """How levels are treated, and numbers that wrap."""

    nominal: Collection[int] = ()  # columns of numbers that are names rather than amounts
    least_rows: int = 1  # levels of fewer rows share one node
    lines: Collection[int] = ()  # columns whose outer nodes are their smallest and largest values
    periods: Mapping[int, float] | None = None  # of columns of numbers that wrap
    groups: Collection[int] = ()  # columns of levels with a node each, and one for those to come


DEFAULT_RULES = LevelRules()
FEWEST_IDENTIFIERS, ROWS_PER_IDENTIFIER = 20, 2.0  # levels of an identifier, and rows of each


def is_identifier(axis: Axis, n_rows: float) -> bool:
    """Whether a main effect's levels are so many that most of them can have but a row or two.

    >>> axis = Axis(np.zeros(1), np.ones(1), NOMINAL, groups=np.zeros(60, np.intp))
    >>> is_identifier(axis, 100), is_identifier(axis, 120)
    (True, False)
    """
    n_levels = 0 if axis.groups is None else len(axis.groups)
    n_present = n_rows * float(axis.weights[axis.regular].sum())
    return n_levels >= FEWEST_IDENTIFIERS and ROWS_PER_IDENTIFIER * n_levels > round(n_present, 3)


@dataclass(frozen=True)
class Placing:
    """Places the nodes of a column."""

    max_nodes: Mapping[int, int]  # largest number of nodes of a feature, for each order
    weights: FloatArray | None  # (n_rows,): mass of each row
    rules: LevelRules

    def __call__(self, table: Table, number: int, reading: Reading) -> tuple[Feature, list[Axis]]:
        """Return what is learned about a column, and its axis at each order."""
        is_nominal = number in self.rules.nominal
        with reading:
            read = table.levels(number) if is_nominal else table.column(number)
        column = _training_column(read, is_nominal, self.weights)
        period = (self.rules.periods or {}).get(number, 0.0)
        if period:
            column = _wrapped(column, period, table.name(number))
        values, masses = distinct(column.values, self.weights)
        present = values[~np.isnan(values)]
        ends = () if column.levels or not len(present) else tuple(present[[0, -1]].tolist())
        feature = Feature(column.kind, column.levels, ends=ends)
        if column.kind == PERIODIC:
            values, masses = with_period(values, masses, period)
        if column.kind != NOMINAL:
            sizes = list(self.max_nodes.values())
            given = values, masses, sizes, column.kind, column.levels
            return feature, nested_axes(*given, number in self.rules.lines)
        sizes = [MAX_LEVEL_NODES if k == 1 else size for k, size in self.max_nodes.items()]
        counts = distinct(column.values, self._counts)[1]

        def axes(least_rows: int) -> list[Axis]:
            return nominal_axes(values, masses, sizes, column.levels, counts < least_rows)

        if number in self.rules.groups:
            first, *others = axes(1)
            return feature, [first.opened(), *others]
        placed = axes(self.rules.least_rows)
        if is_identifier(placed[0], counts.sum()):  # the only row of a level is as good as noise
            placed = axes(max(self.rules.least_rows, 2))
        return feature, placed

    @cached_property
    def _counts(self) -> FloatArray | None:
        return _row_counts(self.weights)


@dataclass(frozen=True, repr=False)
class TableEncoder:
    """Nodes of every feature, at one resolution per order of interaction."""

    names: tuple[str, ...] | None  # of the features, if the training table had names
    axes: Mapping[int, tuple[Axis, ...]]  # of all features, for each order; read-only
    features: tuple[Feature, ...]
    offset_column: OffsetColumn | None = None  # the training table's offset, which is no feature
    # All columns as the training table called them, as text, if it was a data frame whose
    # names are not strings. Columns of new tables are found by these, too.
    labels: tuple[str, ...] | None = None
    kept: KeptFeatures | None = None  # None if these are all features of the training table

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))

    def __repr__(self) -> str:
        return f"TableEncoder({self.n_features} features, orders {list(self.axes)})"

    def __getstate__(self) -> dict[str, Any]:
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return named | {"axes": dict(self.axes)}

    def __setstate__(self, state: dict[str, Any]) -> None:  # read-only dicts cannot be pickled
        vars(self).update(state, axes=MappingProxyType(dict(state["axes"])))

    @classmethod
    def fit(
        cls,
        table: Table,
        max_nodes: Mapping[int, int],
        weights: FloatArray | None = None,
        rules: LevelRules = DEFAULT_RULES,
        n_threads: int | None = None,
    ) -> TableEncoder:
        """Place the nodes of every column by its weighted distribution.

        For each order, ``max_nodes`` is the largest number of nodes of a feature; the main effect
        of a nominal feature has a node for every level. Rows with weight (n_rows,) zero are
        ignored.
        """
        placed = by_column(table, Placing(dict(max_nodes), weights, rules), n_threads)
        features, by_feature = zip(*placed, strict=True)
        axes = dict(zip(max_nodes, zip(*by_feature, strict=True), strict=True))
        labels = None if table.names else table.labels
        return cls(table.names, axes, tuple(features), table.offset_column, labels)

    def identifiers(self, table: Table, weights: FloatArray | None) -> list[int]:
        """Features with so many levels in the table of fit that they look like identifiers."""
        counts = _row_counts(weights)
        n_rows = table.n_rows if counts is None else float(counts.sum())
        finest = self.axes[min(self.axes)]
        named = [j for j, axis in enumerate(finest) if is_identifier(axis, n_rows)]
        return [j for j in named if not finest[j].has_unseen]  # of groups nothing was pooled

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features; where the table had none, ``x`` and the column's position."""
        if self.names:
            return self.names
        skipped = None if self.offset_column is None else self.offset_column.place
        places = range(self.n_features) if self.kept is None else self.kept.places
        columns = (j + 1 if skipped is not None and j >= skipped else j for j in places)
        return tuple(f"x{column}" for column in columns)

    @property
    def n_columns(self) -> int:
        """Number of columns of the training table: all features, and the offset if there is one."""
        n_features = self.n_features if self.kept is None else self.kept.n_features
        return n_features + (self.offset_column is not None)

    def read(self, X: Any, reader: str = "AnovaModel") -> Table:
        """Read a table to predict on: columns are found by name, or by position without names.

        Names may be numbers. If one table only counts its columns, 0, 1, 2, ..., as a data frame
        made from an array does, and no name is shared, columns are found by position, too.

        The column of an offset is set aside. A table with names may lack it, because only
        predictions need it, components do not. ``reader`` is the class that error messages name.
        """
        table = X if isinstance(X, Table) else Table(X)
        if self.kept is not None and table.picked == self.kept.places:
            return table
        if self.names is not None and table.names is not None:
            table = self._set_aside(table, table.names)
            return table if table.names == self.names else table.reorder(self.names)
        labels = None if self.kept else self.column_names or self.labels
        if labels and table.labels and _are_matched_by_name(labels, table.labels):
            table = table.reorder(labels)
        if table.n_columns != self.n_columns:
            raise ValueError(
                f"X: the number of columns must be that of fit: X has {table.n_columns} features, "
                f"but {reader} is expecting {self.n_columns} features as input. "
                f"{self._column_words()}."
            )
        table = self._set_aside(table, None)
        return table if self.kept is None else table.pick(self.kept.places)

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of all columns, with the offset among them; None where they have no names."""
        column = self.offset_column
        if self.names is None or column is None or column.name is None:
            return self.names
        return (*self.names[: column.place], column.name, *self.names[column.place :])

    def _set_aside(self, table: Table, names: tuple[str, ...] | None) -> Table:
        """Table without its offset, found by name or, without names, by position."""
        column = self.offset_column
        if column is None or table.offset_column is not None:
            return table
        if names is None:
            return table.set_aside(column.place, column.is_exposure)
        if column.name not in names:
            return table
        return table.set_aside(names.index(column.name), column.is_exposure)

    def _column_words(self) -> str:
        """Say which columns a table to predict on needs, by position or by name."""
        column = self.offset_column
        offset = "" if column is None else f", the offset is {column.words}"
        shown = f"{list(self.feature_names)[:10]}{offset}"
        if self.kept is None:
            return f"The features are {shown}"
        all_columns = f"Pass all {self.n_columns} columns of fit in their order"
        if self.names is None:
            return f"{all_columns}, also those that the model does not use; it uses {shown}"
        return f"{all_columns}, or a table with names, which needs only {shown}"

    def numbers(self, table: Table, feature: int) -> FloatArray:
        """Column as numbers of fit, (n_rows,): NaN is a missing value, inf an unseen level."""
        column = table.column(feature)
        kind, levels, are_text, _ = self.features[feature]
        if self.axes[min(self.axes)][feature].is_empty:  # the feature has no kind
            return np.where(np.isnan(column.values), np.nan, UNSEEN_LEVEL)
        if kind in (NUMBER, PERIODIC) and level_types(column.levels) == {float}:
            column = Column(NUMBER, _by_level(column, column.levels))
        if kind == PERIODIC and column.kind == NUMBER and not column.levels:
            return within_period(column.values, self.axes[min(self.axes)][feature].values[-1])
        if column.kind == kind and not column.levels:
            return column.values
        if np.isnan(column.values).all():
            return column.values
        if kind in (NOMINAL, ORDERED):
            return as_levels(table.levels(feature), levels, are_text, table.name(feature))
        if kind == DATE and column.levels:
            return iso_dates(column, table.name(feature))
        raise TypeError(
            f"X: column {table.name(feature)!r} must hold what it held in fit, {kind}s, found "
            f"{described(column)}. Convert it."
        )

    def columns(self, table: Table) -> list[FloatArray]:
        """All columns as numbers; one warning names those with values that fit has not seen.

        A table that is used again is not warned about again.
        """
        if table.is_finite and self._knows_every_number:
            return table.finite_columns()
        columns = [self.numbers(table, feature) for feature in range(self.n_features)]
        finest = self.axes[min(self.axes)]
        unseen = [
            f"{table.name(feature)!r} ({count} of {table.n_rows} rows)"
            for feature, column in enumerate(columns)
            if (count := _n_unseen(column, finest[feature]))
        ]
        message = (
            f"X: levels or missing values that fit has not seen contribute 0 in every component "
            f"(a remainder has a value for them), "
            f"found in {', '.join(unseen[:5])}{', ...' if len(unseen) > 5 else ''}."
        )
        if unseen and message not in table.told:
            table.told.add(message)
            warn(message)
        return columns

    @cached_property
    def _knows_every_number(self) -> bool:
        """Whether all features are numbers, so that no finite one is new to them."""
        are_numbers = all(each.kind == NUMBER and not each.levels for each in self.features)
        return are_numbers and not any(axis.is_empty for axis in self.axes[min(self.axes)])

    def coarsened(self, order: int, most: int) -> TableEncoder:
        """Limit the nodes per feature in the components of one order to ``most``.

        The nodes of higher orders are placed anew, so that they are among those of this order.
        """
        axes = dict(self.axes)
        axes[order] = tuple(axis.coarsened(most) for axis in axes[order])
        for higher in range(order + 1, max(axes) + 1):
            pairs = zip(axes[higher - 1], axes[higher], strict=True)
            axes[higher] = tuple(below.coarsened(len(axis.values)) for below, axis in pairs)
        return replace(self, axes=axes)

    def pick(self, features: Sequence[int]) -> TableEncoder:
        """Keep some features only; new tables need no columns of the others."""
        before = self.kept or KeptFeatures(tuple(range(self.n_features)), self.n_features)
        return replace(
            self,
            names=self.names and tuple(self.names[j] for j in features),
            axes={order: tuple(axes[j] for j in features) for order, axes in self.axes.items()},
            features=tuple(self.features[j] for j in features),
            kept=before._replace(places=tuple(before.places[j] for j in features)),
        )

    def up_to(self, order: int) -> TableEncoder:
        """Leave out the nodes of higher orders."""
        return replace(self, axes={o: axes for o, axes in self.axes.items() if o <= order})

    def zeros(
        self, components: Iterable[tuple[int, ...]], *sizes: int
    ) -> dict[tuple[int, ...], FloatArray]:
        """Tables of zeros (M_1, ..., M_d, *sizes) on the nodes of components."""
        shapes = {s: [self.axes[len(s)][j].n_nodes for j in s] for s in components}
        return {s: np.zeros((*shape, *sizes)) for s, shape in shapes.items()}

    def canonical_key(self, feature: int) -> tuple[str | bytes, bytes, str]:
        """Key of a feature that does not depend on where its column stands.

        Its name where there are names, else its nodes; then its masses and levels. Training runs in
        the order of these keys, so permuting the columns only permutes the features of the model.
        """
        axis = self.axes[min(self.axes)][feature]
        nodes = axis.with_missing(axis.values, np.nan)
        name = self.names[feature] if self.names else nodes.tobytes()
        kind = repr(self.features[feature][:2]) if not axis.is_empty else ""
        return name, axis.weights.tobytes(), kind


def _are_matched_by_name(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether columns of two tables are matched by their labels, and not by position.

    >>> _are_matched_by_name(("0", "1"), ("1", "0")), _are_matched_by_name(("0", "1"), ("a", "b"))
    (True, False)
    """
    counted = [labels == tuple(map(str, range(len(labels)))) for labels in (old, new)]
    if any(counted):
        return not all(counted) and not set(old).isdisjoint(new)
    return old != new


def _row_counts(weights: FloatArray | None) -> FloatArray | None:
    """How many rows each row stands for; one each where the weights are not all whole."""
    if weights is None:
        return None
    counts = whole_counts(weights)
    return (weights > 0).astype(np.float64) if counts is None else counts


def _training_column(column: Column, is_nominal: bool, weights: FloatArray | None) -> Column:
    """Column with its levels in canonical order, those without mass left out."""
    kind, values, levels = column
    if not levels:
        return Column(NUMBER if kind in (NOMINAL, ORDERED) else kind, values)
    counted = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0)
    used = np.unique(values[counted]).astype(np.intp).tolist()
    if kind == NOMINAL or is_nominal:
        kind, used = NOMINAL, sorted(used, key=lambda u: (isinstance(levels[u], str), levels[u]))
    rank = np.full(len(levels), np.nan)
    rank[used] = np.arange(len(used))
    numbers = np.where(np.isnan(values), 0, values).astype(np.intp)
    ranked = np.where(np.isnan(values), np.nan, rank[numbers])
    return Column(kind if used else NUMBER, ranked, tuple(levels[u] for u in used))


def _wrapped(column: Column, period: float, name: str) -> Column:
    """Column of numbers that wrap, within one period; as it is if it has no value."""
    if column.levels or column.kind != NUMBER:
        raise ValueError(
            f"shapes: a periodic feature needs a column of numbers, found {described(column)} in "
            f"{name!r}. Pass it as numbers, such as the hours of the day, or leave it out."
        )
    if np.isnan(column.values).all():
        return column
    return Column(PERIODIC, within_period(column.values, period))


def _n_unseen(column: FloatArray, axis: Axis) -> int:
    if all_finite(column):
        return 0
    n_levels = 0 if axis.has_unseen else int(np.isinf(column).sum())
    return n_levels if axis.has_missing else n_levels + int(np.isnan(column).sum())


Result = TypeVar("Result")
Reading = AbstractContextManager[Any]


def remote_table(table: Table) -> RemoteTable | None:
    """Return the other processes that make passes over a table, or None if this one does."""
    remote = table.source.remote if isinstance(table.source, StoredColumns) else None
    return remote if remote is not None and remote.is_there else None


def one_reader(table: Table) -> Reading:
    """Return the lock under which a thread reads a column; none if all may read at once."""
    return nullcontext() if table.is_read_in_parallel else Lock()


def by_column(
    table: Table, work: Callable[[Table, int, Reading], Result], n_threads: int | None = None
) -> list[Result]:
    """Results of ``work(table, feature, reading)`` for all features.

    Threads do the work; each enters ``reading`` while it reads its column.
    """
    remote = remote_table(table)
    if remote is not None:
        return remote.by_column(table, work)
    reading = one_reader(table)
    with Workers(n_threads) as workers:
        return workers.map(lambda number: work(table, number, reading), range(table.n_features))


def of_rows(
    table: Table,
    work: Callable[[Table, IntArray | None, int | None], NDArray[Any]],
    rows: IntArray | None = None,
    n_threads: int | None = None,
) -> NDArray[Any]:
    """Array of ``work(table, rows, n_threads)``, whose first axis is that of the rows.

    The result of a row must not depend on the rows beside it. ``rows`` are all rows by default.
    """
    remote = remote_table(table)
    return work(table, rows, n_threads) if remote is None else remote.of_rows(table, work, rows)
