"""to_sql: a query that scores a table in the database as the model does.

The query runs in steps, each a common table expression: columns become numbers or codes of levels,
these become nodes, then fractions, then components, raw scores and predictions. A value that the
model refuses, such as an infinite number, makes a node NULL, and with it the row's score.

The query of a score card has bands instead of nodes, and points instead of components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn._utils.rules import warn
from tpnn.anova.components import Component
from tpnn.anova.trees import Trees
from tpnn.export.dialects import (
    LARGEST_DOUBLE,
    Dialect,
    cut_name,
    dialect_of,
    literal,
    numbers_text,
)
from tpnn.export.lowering import (
    MISSING,
    UNSEEN,
    Forest,
    Grid,
    Input,
    Lowered,
    Place,
    checked_lowering,
)
from tpnn.model.model import AnovaModel
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.table import DATE, DURATION

if TYPE_CHECKING:
    from tpnn.export.sheets.scorecard import ScoreCard

# Scores {r} as predictions. Beyond 700 exp() overflows or underflows, which some databases refuse.
# The log link is cut at 300.
ODDS = "CASE WHEN {r} < -700 THEN 0e0 ELSE EXP({r}) END"
INVERSES = {
    "identity": "{r}",
    "logit": "CASE WHEN {r} > 700 THEN 1e0 WHEN {r} < -700 THEN 0e0 ELSE 1 / (1 + EXP(-{r})) END",
    "log": "EXP(CASE WHEN {r} > 300 THEN 300 WHEN {r} < -300 THEN -300 ELSE {r} END)",
}
SMALLEST_SHARE = 1e-30  # of a step between nodes, below which PostgreSQL sees no fraction
TERMS = 50  # trees of one column
MOST_CASES = 20_000  # values of leaves that are written as nested cases
MOST_VALUES = 300_000  # values of leaves that are written as arrays
TABLE = "t"  # short name of the table with the rows

Column = tuple[str, str]  # expression and name
Step = tuple[str, str]  # name and query


def to_sql(
    model: AnovaModel,
    dialect: str,
    table: str | Sequence[str],
    key: str | Sequence[str] | None,
    contributions: bool,
) -> str:
    """Query with the key, the raw score, the prediction and, if asked for, all contributions.

    Several names of a table are those of its schema and of the table itself.
    """
    about = dialect_of(dialect)
    lowered = checked_lowering(model)
    if not contributions:
        lowered = lowered.in_one()
    if lowered.needs_offset:
        warn(
            "offset: the query adds no offset, and this model was fitted with one that was passed "
            "to fit. Add it to raw_score, or fit with the name of its column.",
        )
    keys = [key] if isinstance(key, str) else list(key or ())
    names = [table] if isinstance(table, str) else list(table)
    return Query(lowered, about, keys, contributions).write(names)


@dataclass(frozen=True)
class Query:
    """A query that is being written."""

    lowered: Lowered
    dialect: Dialect
    keys: list[str]
    contributions: bool

    def write(self, table: list[str]) -> str:
        """Write the whole query; ``table`` has the names of its schema, if any, and its own."""
        self._check_columns()
        places, grids = self.lowered.places, self.lowered.grids + self.lowered.held
        nodes = [(self._node(place), f"i{p}") for p, place in enumerate(places)]
        between = [(self._fraction(places[p], f"i{p}"), f"t{p}") for p in self.lowered.interpolated]
        effects = [
            (self._effect(grid, f"cells.c{g}_{k}"), f"f{g}_{k}")
            for g, grid in enumerate(grids)
            for k in range(self.lowered.n_outputs)
        ]
        steps = [
            ("features", self._read(table)),
            ("nodes", self._select(nodes, "features")),
            ("fractions", self._select(between, "nodes")),
            ("effects", self._select(effects, self._with_cells("fractions"), "fractions")),
        ]
        if self.lowered.forest is not None:
            steps += self._forest(self.lowered.forest)
        steps.append(("scores", self._select(self._scores(), steps[-1][0])))
        more, answers = self._predictions(steps[-1][0])
        return self._whole([*steps, *more], self._answers(answers))

    def _whole(self, steps: Sequence[Step], columns: Sequence[Column]) -> str:
        """Write all steps, and the columns of the answer after the last one."""
        written = ",\n".join(f"{name} {self.dialect.opening}\n{body}\n)" for name, body in steps)
        names = map(self._name, distinct_names([name for _, name in columns]))
        answers = ",\n  ".join(
            f"{expression} AS {name}" for (expression, _), name in zip(columns, names, strict=True)
        )
        return f"WITH {written}\nSELECT\n  {answers}\nFROM {steps[-1][0]}\n"

    def _read(self, table: list[str]) -> str:
        """Step that reads the keys, the features and the offset."""
        source = ".".join(map(self._name, table)) + f" AS {TABLE}"
        columns = [(self._column(name), f"k{number}") for number, name in enumerate(self.keys)]
        columns += [(self._feature(x), f"x{j}") for j, x in enumerate(self.lowered.inputs)]
        if self.lowered.offset is not None:
            number = self.dialect.number(self._column(self.lowered.offset.name), False)
            columns.append((number, "x_offset"))
        return self._select(columns, source, first=True)

    def _name(self, name: str) -> str:
        if not name or "\0" in name:
            raise ValueError(
                f"name: a name in SQL needs a character and none that is NUL, found {name!r}. "
                "Rename the column or the table."
            )
        return self.dialect.name(name)

    def _column(self, name: str) -> str:
        """Column of the table; without the table some databases read what has no such name."""
        return f"{TABLE}.{self._name(name)}"

    def _check_columns(self) -> None:
        """Refuse columns that the database takes for one another."""
        offset = self.lowered.offset
        names = [column.name for column in self.lowered.inputs] + self.keys
        names += [] if offset is None else [offset.name]
        known: dict[str, str] = {}
        for name in names:
            other = known.setdefault(self.dialect.column(name), name)
            if other != name:
                raise ValueError(
                    f"model: the columns {other!r} and {name!r} are one column in this database, "
                    "which cuts long names or does not tell small letters from capitals. Rename "
                    "one before the fit."
                )

    def _text(self, text: str) -> str:
        if "\0" in text:
            raise ValueError(
                f"model: text in SQL must have no NUL character, found the level {text!r}. "
                "Rename the level before the fit."
            )
        return self.dialect.text(text)

    def _select(
        self, columns: Iterable[Column], source: str, above: str = "", first: bool = False
    ) -> str:
        """Step that adds columns to those of the step above."""
        kept = [] if first else [f"{above or source}.*"]
        written = kept + [f"{expression} AS {name}" for expression, name in columns]
        fence = f"\n  {self.dialect.fence}" if self.dialect.fence else ""
        return (
            "  SELECT\n    " + ",\n    ".join(written or ["1 AS one"]) + f"\n  FROM {source}{fence}"
        )

    def _feature(self, column: Input) -> str:
        """Write a number in a double, or the code of a level."""
        value = self._column(column.name)
        if column.levels:
            return self._level_code(column, value)
        if column.kind in (DATE, DURATION):
            value = self.dialect.seconds.get(column.kind, "{x}").format(x=value)
        number = self.dialect.number(value, column.may_be_boolean)
        number = number if column.unit == 1 else f"{number} / {literal(column.unit)}"
        if not column.period:
            return number
        period = literal(column.period)
        turns = self.dialect.floor.format(x=f"({number} / {period})")
        return f"{number} - {turns} * {period}"

    def _level_code(self, column: Input, value: str) -> str:
        """Code of a level, of missing or of unseen ones; NULL where the row is refused."""
        write: Callable[[Any], str] = literal
        if column.is_text:
            has_blanks = any(level.endswith(" ") for level in column.levels)
            pattern = self.dialect.blank_text if has_blanks else "CAST({x} AS {string})"
            text = pattern.format(x=value, string=self.dialect.string)
            value = f"{text}{self.dialect.collation}"
            write = self._text
        elif any(abs(level) > LARGEST_EXACT_INTEGER for level in column.levels):
            write = str
        else:
            value = self.dialect.number(value, column.may_be_boolean)
        refused = "" if column.is_text else f" WHEN ABS({value}) > {LARGEST_DOUBLE} THEN NULL"
        tests = "".join(
            f"\n        WHEN {write(level)} THEN {code}" for code, level in enumerate(column.levels)
        )
        return (
            f"CASE WHEN {value} IS NULL THEN {MISSING}{refused} ELSE\n"
            f"      CASE {value}{tests}\n        ELSE {UNSEEN} END END"
        )

    def _element(self, array: str, index: str) -> str:
        return self.dialect.element.format(array=array, i=index)

    def _array(self, numbers: Sequence[float]) -> str:
        return self.dialect.array.format(numbers=numbers_text(numbers))

    def _node(self, place: Place) -> str:
        x = f"x{place.input}"
        if self.lowered.inputs[place.input].levels:
            array = self.dialect.whole_array.format(numbers=numbers_text(place.lower.tolist()))
            return self._element(array, f"{x} + {-MISSING}")
        missing, unseen = place.lower[:2].tolist()
        inner = place.nodes[1:-1].tolist()
        lower = self.dialect.search(x, inner) if len(place.nodes) else str(unseen)
        return (
            f"CASE WHEN {x} IS NULL THEN {missing} WHEN ABS({x}) > {LARGEST_DOUBLE} THEN NULL "
            f"ELSE {lower} END"
        )

    def _fraction(self, place: Place, node: str) -> str:
        x, d = f"x{place.input}", self.dialect
        if not len(place.nodes):
            return self._element(self._array(place.fraction.tolist()), f"{x} + {-MISSING}")
        nodes = place.nodes.tolist()
        array, steps = self._array(nodes), np.diff(place.nodes)
        first, last = literal(nodes[0]), literal(nodes[-1])
        inside = f"{d.least}({d.greatest}({x}, {first}), {last})"
        fraction = d.fraction.format(
            above=f"({inside} - {self._element(array, node)})",
            step=self._element(self._array(steps.tolist()), node),
            tiny=literal(SMALLEST_SHARE * steps.min()),
        )
        return f"CASE WHEN {x} IS NULL THEN 0e0 ELSE {fraction} END"

    def _with_cells(self, source: str) -> str:
        """Step before, beside one row with the cells of all components."""
        arrays = [
            f"{self._array(grid.cells[:, k].tolist())} AS c{g}_{k}"
            for g, grid in enumerate(self.lowered.grids + self.lowered.held)
            for k in range(self.lowered.n_outputs)
        ]
        written = ",\n    ".join(arrays or ["1 AS one"])
        return f"{source} CROSS JOIN (SELECT\n    {written}) AS cells"

    def _effect(self, grid: Grid, cells: str) -> str:
        """Value of one component, linear between the cells around a row."""
        nodes = [
            f"i{place}" if stride == 1 else f"i{place} * {stride}"
            for place, stride in zip(grid.places, grid.strides, strict=True)
        ]

        def along(axis: int, shift: int) -> str:
            if axis == len(grid.places):
                return self._element(cells, " + ".join(nodes) + (f" + {shift}" if shift else ""))
            low = along(axis + 1, shift)
            if not self.lowered.places[grid.places[axis]].is_between:
                return low
            t, high = f"t{grid.places[axis]}", along(axis + 1, shift + grid.strides[axis])
            return f"((1 - {t}) * {low} + {t} * {high})"

        return along(0, 0)

    def _forest(self, forest: Forest) -> list[Step]:
        """Write the steps from codes to the remainder, NULL where a column of trees is refused."""
        trees, n_grids = forest.trees, len(self.lowered.grids)
        answers = [
            f"CASE WHEN {went_right(f'i{forest.place_of[feature]}', right)} THEN 1 ELSE 0 END"
            for feature, right in trees.each_question()
        ]
        steps: list[Step] = []
        if self.dialect.answers_first:
            columns = [(answer, f"b{number}") for number, answer in enumerate(answers)]
            steps.append(("answers", self._select(columns, "effects")))
            answers = [name for _, name in columns]
        sums, totals = list[Column](), list[Column]()
        for k in range(self.lowered.n_outputs):
            terms = self._trees(trees, answers, k)
            groups = [terms[start : start + TERMS] for start in range(0, len(terms), TERMS)]
            named = [(" + ".join(group), f"u{number}_{k}") for number, group in enumerate(groups)]
            held = "".join(f" - f{n_grids + g}_{k}" for g in range(len(self.lowered.held)))
            read = "".join(f" + 0 * i{place}" for place in forest.place_of.values())
            sums += named
            totals.append((" + ".join(name for _, name in named) + held + read, f"e{k}"))
        steps.append(("trees", self._select(sums, steps[-1][0] if steps else "effects")))
        return [*steps, ("remainder", self._select(totals, "trees"))]

    def _trees(self, trees: Trees, answers: Sequence[str], output: int) -> list[str]:
        """One expression for each tree: an array whose index is the answers, or nested cases."""
        if trees.tables is None:
            _check_size(trees.values.size, MOST_CASES)
            return self._cases(trees, answers, output)
        asked, tables = trees.tables
        _check_size(tables.size, MOST_VALUES)
        values = tables[:, output].reshape(len(trees.roots), -1)
        terms = []
        for questions, known in zip(asked.T.tolist(), values.tolist(), strict=True):
            bits = [f"{1 << place} * {answers[q]}" for place, q in enumerate(questions)]
            terms.append(self._element(self._array(known), " + ".join(bits)))
        return terms

    def _cases(self, trees: Trees, answers: Sequence[str], output: int) -> list[str]:
        """One expression of nested cases for each tree."""
        leaves = list(map(literal, trees.values[:, output].tolist()))
        questions, children = trees.questions.tolist(), trees.children.tolist()

        def written(place: int) -> str:
            if place < 0:
                return leaves[-1 - place]
            left, right = map(written, children[place])
            return f"CASE {answers[questions[place]]} WHEN 1 THEN {right} ELSE {left} END"

        return list(map(written, trees.roots.tolist()))

    def _scores(self) -> list[Column]:
        scores, offset = [], list[str]()
        if self.lowered.offset is not None:
            size, added = "ABS(x_offset)", "x_offset"
            if self.lowered.offset.is_exposure:
                size, added = "x_offset > 0 AND x_offset", "LN(x_offset)"
            offset = [f"CASE WHEN {size} <= {LARGEST_DOUBLE} THEN {added} END"]
        for k, intercept in enumerate(self.lowered.intercepts.tolist()):
            effects = [f"f{g}_{k}" for g in range(len(self.lowered.grids))]
            effects += [] if self.lowered.forest is None else [f"e{k}"]
            scores.append((" + ".join([literal(intercept), *effects, *offset]), f"r{k}"))
        return scores

    def _predictions(self, source: str) -> tuple[list[Step], list[str]]:
        """Write the steps from raw scores to predictions, and the expressions of these."""
        raw, link = [f"r{k}" for k in range(self.lowered.n_outputs)], self.lowered.link
        if link == "quantiles":
            return self._sorted(raw, source)
        if link != "softmax":
            return [], [INVERSES[link].format(r=r) for r in raw]
        largest = f"{self.dialect.greatest}({', '.join(raw)})"
        odds = [(ODDS.format(r=f"{r} - {largest}"), f"odds{k}") for k, r in enumerate(raw)]
        total = " + ".join(name for _, name in odds)
        answers = [f"{name} / ({total})" for _, name in odds]
        return [("shares", self._select(odds, source))], answers

    def _sorted(self, raw: list[str], source: str) -> tuple[list[Step], list[str]]:
        """Sort raw scores by comparing neighbours, in as many rounds as there are scores."""
        names, steps = raw, []
        for turn in range(len(raw)):
            columns, following = [], list(names)
            for k in range(turn % 2, len(raw) - 1, 2):
                both, new = f"({names[k]}, {names[k + 1]})", (f"q{turn}_{k}", f"q{turn}_{k + 1}")
                columns += [
                    (self.dialect.least + both, new[0]),
                    (self.dialect.greatest + both, new[1]),
                ]
                following[k : k + 2] = new
            if columns:
                steps.append((f"sorted{turn}", self._select(columns, source)))
                names, source = following, f"sorted{turn}"
        return steps, names

    def _answers(self, predictions: Sequence[str]) -> list[Column]:
        """Columns of the answer: keys, raw scores, predictions and, if asked for, contributions."""
        called = [f"_{name}" for name in self.lowered.outputs] or [""]
        columns = [(f"k{j}", name) for j, name in enumerate(self.keys)]
        columns += [(f"r{k}", f"raw_score{name}") for k, name in enumerate(called)]
        named = [f"prediction{name}" for name in called]
        columns += zip(predictions, named, strict=True)
        if self.contributions:
            columns += [
                (f"f{g}_{k}", f"f({', '.join(grid.names)}){name}")
                for g, grid in enumerate(self.lowered.grids)
                for k, name in enumerate(called)
            ]
        if self.contributions and self.lowered.forest is not None:
            columns += [(f"e{k}", f"remainder{name}") for k, name in enumerate(called)]
        return columns


def _check_size(n_values: int, most: int) -> None:
    if n_values > most:
        raise ValueError(
            f"model: its remainder has {n_values:,} values at the leaves of its trees, and a query "
            f"has room for {most:,}. Fit with remainder=False, or export source code or ONNX."
        )


def went_right(code: str, right: BoolArray) -> str:
    """Condition that a code is one of those that go right.

    >>> went_right("i", np.array([True, False, True, True, False, True]))
    'i < 1 OR i BETWEEN 2 AND 3 OR i >= 5'
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], right, [False]]))).reshape(-1, 2)
    tests = []
    for first, end in edges.tolist():
        if end == len(right):
            tests.append(f"{code} >= {first}")
        elif first == 0:
            tests.append(f"{code} < {end}")
        else:
            tests.append(f"{code} BETWEEN {first} AND {end - 1}")
    return " OR ".join(tests) or f"{code} < 0"


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names of columns that no database cuts or takes for one another.

    >>> distinct_names(["f(a)", "F(A)", "x" * 70])[1:] == ["F(A)_2", "x" * 63]
    True
    """
    distinct: dict[str, str] = {}  # by how databases compare names
    for name in names:
        free, number = cut_name(name), 2
        while free.casefold() in distinct:
            free, number = cut_name(name, f"_{number}"), number + 1
        distinct[free.casefold()] = free
    return list(distinct.values())


def card_query(card: ScoreCard, dialect: str, table: str | Sequence[str], key: Any) -> str:
    """Query with the key, the score and the points of every component."""
    keys = [key] if isinstance(key, str) else list(key or ())
    names = [table] if isinstance(table, str) else list(table)
    lowered = checked_lowering(card.banded.model)
    query = _CardQuery(lowered, dialect_of(dialect), keys, contributions=True, card=card)
    return query.write(names)


@dataclass(frozen=True)
class _CardQuery(Query):
    """A query of a score card that is being written."""

    card: ScoreCard

    def write(self, table: list[str]) -> str:
        self._check_columns()
        places = {column.feature: j for j, column in enumerate(self.lowered.inputs)}
        bands = [(self._band(self.lowered.inputs[places[f]], f"x{places[f]}"), f"b{f}")
                 for f in self.card.banded.bands]  # fmt: skip
        points = [(self._points(s), f"p{k}") for k, s in enumerate(self.card.points)]
        steps = [
            ("features", self._read(table)),
            ("bands", self._select(bands, "features")),
            ("points", self._select(points, "bands")),
        ]
        total = " + ".join([str(self.card.base_points), *(name for _, name in points)])
        columns = [(f"k{j}", name) for j, name in enumerate(self.keys)] + [(total, "score")]
        columns += [(f"p{k}", f"points({name})") for k, name in enumerate(self.card.names.values())]
        return self._whole(steps, columns)

    def _band(self, column: Input, x: str) -> str:
        """Band of a value; NULL where the row is refused."""
        bands = self.card.banded.bands[column.feature]
        if bands.has_levels:
            missing, unseen = bands.n_bands - 2, bands.n_bands - 1
            of_level = bands.of_point[: len(column.levels)]
            groups = [np.flatnonzero(of_level == band).tolist() for band in range(bands.n_regular)]
            codes_of = [(missing, [MISSING]), (unseen, [UNSEEN]), *enumerate(groups)]
            tests = [
                f"{x} IN ({', '.join(map(str, codes))}) THEN {b}" for b, codes in codes_of if codes
            ]
            return f"CASE {' '.join(f'WHEN {test}' for test in tests)} END"
        cuts = [literal(cut / column.unit) for cut in bands.cuts.tolist()]
        tests = [f"{x} < {cut} THEN {band}" for band, cut in enumerate(cuts)]
        return (
            f"CASE WHEN {x} IS NULL THEN {bands.n_bands - 1} WHEN ABS({x}) > {LARGEST_DOUBLE} "
            f"THEN NULL {''.join(f'WHEN {test} ' for test in tests)}ELSE {len(cuts)} END"
        )

    def _points(self, component: Component) -> str:
        """Points of a component, by the bands of its features."""
        points = self.card.points[component]
        cell = " + ".join(
            f"b{feature} * {int(np.prod(points.shape[axis + 1 :]))}"
            for axis, feature in enumerate(component)
        )
        tests = " ".join(f"WHEN {k} THEN {p}" for k, p in enumerate(points.ravel().tolist()))
        return f"CASE {cell} {tests} END"
