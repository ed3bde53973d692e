"""Python: a model as a module that needs the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tpnn.export.lowering import MISSING, UNSEEN, Grid, Input, Place
from tpnn.export.plan import (
    EITHER,
    NUMBERS,
    TEXT,
    WHOLE,
    Plan,
    level_codes,
    lines_of,
    quoted,
    reading,
)
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.table import DATE, DURATION, NUMBER

WORDS = {
    NUMBER: "a number",
    DATE: "a date or datetime, in UTC where it has no zone, or seconds since 1970 in UTC",
    DURATION: "a timedelta, or a number of seconds",
    TEXT: "a str",
    NUMBERS: "a number that is a level",
    WHOLE: "an int that is a level",
    EITHER: "a str, or a number that is compared with the levels as text",
}
USAGE = """\
    from model import score
    answer = score({{column: value, ...}}{offset})
    answer["raw_score"], answer["prediction"]{contributions}

None and NaN are missing values. A level that the fit has not seen is no error. A ValueError or
TypeError says that the row is refused: an infinite number, a value of the wrong type, a column
that is absent{bad_offset}."""
INVERSES = {
    "identity": "    return raw",
    "logit": """\
    return [_expit(score) for score in raw]


def _expit(score):
    decay = math.exp(-abs(score))
    return (1.0 if score >= 0 else decay) / (1.0 + decay)""",
    "log": "    return [math.exp(min(max(score, -300.0), 300.0)) for score in raw]",
    "softmax": """\
    largest = max(raw)
    odds = [math.exp(score - largest) for score in raw]
    total = sum(odds)
    return [each / total for each in odds]""",
    "quantiles": "    return sorted(raw)",
}
ADDED = {  # by whether the offset is an exposure
    False: "_checked_offset({value})",
    True: "math.log(_checked_offset({value}, 0.0))",
}
READING = f'''\
def _read(row, name, kind, known):
    """Return a value as a number, and as the code of a level."""
    if name not in row:
        raise ValueError(f"row: the column {{name!r}} is needed, found none. Pass None if missing.")
    value = row[name]
    if value is None or value != value:
        return 0.0, {MISSING}
    if kind == "{NUMBER}":
        return _finite(value, name) / known, {UNSEEN}
    if kind in ("{DATE}", "{DURATION}"):
        return _finite(_seconds(value), name) / known, {UNSEEN}
    if isinstance(value, str) != (kind == "{TEXT}") and kind != "{EITHER}":
        raise TypeError(f"row: {{name!r}} must be a level of fit, found {{value!r}}. Convert it.")
    if not isinstance(value, str):
        _finite(value, name)
        is_rounded = isinstance(value, float) and abs(value) >= {LARGEST_EXACT_INTEGER}
        if is_rounded and kind != "{NUMBERS}":
            raise TypeError(f"row: {{name!r}} is rounded, found {{value!r}}. Pass an int, or text.")
    return 0.0, known.get(value, {UNSEEN})


def _finite(value, name):
    if isinstance(value, (str, bytes)):
        raise TypeError(f"row: {{name!r}} must be a number, found {{value!r}}. Convert it.")
    number = float(value)
    if math.isinf(number):
        raise ValueError(f"row: {{name!r}} must be finite or missing, found {{value!r}}. Clip it.")
    return number


def _seconds(value):
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1) / 1e6
    if isinstance(value, datetime.datetime):
        zone = value.tzinfo and datetime.timezone.utc
        return _seconds(value - datetime.datetime(1970, 1, 1, tzinfo=zone))
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days * 86400.0
    return value
'''
LOCATING = f'''\
def _locate(row):
    """Return the lower node of every place, and how far the row lies towards the next one."""
    read = [_read(row, *known) for known in INPUTS]
    located = []
    for number, nodes, lower, fraction in PLACES:
        x, code = read[number]
        if code == {MISSING} or not nodes:
            located.append((lower[code + 2], fraction[code + 2]))
            continue
        x = min(max(x, nodes[0]), nodes[-1])
        node = bisect.bisect_right(nodes, x, 1, len(nodes) - 1) - 1
        step = nodes[node + 1] - nodes[node] if len(nodes) > 1 else 1.0
        located.append((node, (x - nodes[node]) / step))
    return located


def _component(located, places, strides, cells):
    """Return the values of a component, one for each output: a mean of the cells around the row."""
    corners = [(0, 1.0)]
    for place, stride in zip(places, strides):
        node, fraction = located[place]
        below = [(cell + node * stride, weight * (1.0 - fraction)) for cell, weight in corners]
        if fraction:
            above = [(cell + (node + 1) * stride, weight * fraction) for cell, weight in corners]
            below = [corner for corner in below if corner[1]] + above
        corners = below
    return [sum(weight * values[cell] for cell, weight in corners) for values in cells]
'''
OFFSET = """\
def _checked_offset(value, least=-math.inf):
    number = math.nan if value is None else _finite(value, "offset")
    if not number > least:
        raise ValueError(f"offset: must be a number above {least}, found {value!r}. Correct it.")
    return number
"""


def write_python(plan: Plan) -> str:
    """Write a module with the function ``score(row)``."""
    lowered = plan.lowered
    data = [
        _records("INPUTS", "name, kind, unit or code of every level", map(_input, lowered.inputs)),
        _records("PLACES", "input, nodes, node and fraction by level", map(_place, lowered.places)),
        _records("GRIDS", "places, strides, cells of each output", map(_grid, lowered.grids)),
        f"INTERCEPTS = {_tuple_of(lowered.intercepts.tolist())}",
        f"OUTPUTS = {_tuple_of(plan.lowered.outputs)}",
        f"CLASSES = {_tuple_of(plan.classes)}",
        _records("COMPONENTS", "features of each", map(_tuple_of, plan.components)),
    ]
    offset = [OFFSET] if plan.lowered.offset or plan.lowered.needs_offset else []
    inverse = f"def _predictions(raw):\n{INVERSES[plan.lowered.link]}\n"
    blocks = [READING, LOCATING, *offset, inverse, _score(plan)]
    lines = plan.heading(WORDS, plan.usage(USAGE, 'answer["contributions"]'))
    heading = "\n".join(f"# {line}".rstrip() for line in lines)
    imports = "import bisect\nimport datetime\nimport math"
    return f"{heading}\n{imports}\n\n" + "\n".join(data) + "\n\n\n" + "\n\n".join(blocks)


def _score(plan: Plan) -> str:
    """Write the function that users call."""
    needs, offset = plan.lowered.needs_offset, plan.lowered.offset
    terms = ["intercept", "sum(values[k] for values in effects)"]
    if offset is not None:
        terms.append(ADDED[offset.is_exposure].format(value=f"row.get({offset.name!a})"))
    elif needs:
        terms.append(ADDED[False].format(value="offset"))
    pick = "{}" if plan.several else "{}[0]"
    effects = "effects" if plan.several else "[values[0] for values in effects]"
    return "\n".join(
        [
            f"def score(row{', offset' if needs else ''}):",
            '    """Return raw score and prediction of one row, a dict of column name to value."""',
            "    located = _locate(row)",
            "    effects = [_component(located, *grid) for grid in GRIDS]",
            f"    raw = [{' + '.join(terms)} for k, intercept in enumerate(INTERCEPTS)]",
            "    return {",
            f'        "raw_score": {pick.format("raw")},',
            f'        "prediction": {pick.format("_predictions(raw)")},',
            *([f'        "contributions": {effects},'] if plan.contributions else []),
            "    }\n",
        ]
    )


def _input(known: Input) -> str:
    how = reading(known)
    if not known.levels:
        return f"({known.name!a}, {how!r}, {known.unit!r})"
    pairs = lines_of((f"{x!a}: {code}" for x, code in level_codes(known).items()), " " * 4)
    return f"({known.name!a}, {how!r}, {{{pairs}}})"


def _place(place: Place) -> str:
    parts = map(_tuple_of, (place.nodes.tolist(), place.lower.tolist(), place.fraction.tolist()))
    return f"({place.input}, {', '.join(parts)})"


def _grid(grid: Grid) -> str:
    cells = ", ".join(map(_tuple_of, grid.cells.T.tolist()))
    names = ", ".join(map(quoted, grid.names))
    return f"# {names}\n    ({_tuple_of(grid.places)}, {_tuple_of(grid.strides)}, ({cells},))"


def _records(name: str, comment: str, items: Iterable[str]) -> str:
    """Write a tuple of records, each on lines of its own."""
    return f"{name} = (  # {comment}\n" + "".join(f"    {item},\n" for item in items) + ")"


def _tuple_of(items: Sequence[Any], indent: str = " " * 4) -> str:
    """Write a tuple of any length.

    >>> _tuple_of([]), _tuple_of(["a"]), _tuple_of([1, 2.0])
    ('()', "('a',)", '(1, 2.0)')
    """
    return f"({lines_of(map(ascii, items), indent)}{',' * (len(items) == 1)})"
