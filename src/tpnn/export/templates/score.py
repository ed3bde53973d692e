"""A functional ANOVA model that scores one row, written by tpnn.

It needs nothing but this file:

    from model import score
    answer = score({"column": value, ...})
    answer["raw_score"], answer["prediction"]

answer["contributions"] has the values of COMPONENTS, in that order.

answer["remainder"] is what is added to the intercept and these contributions.

The raw score is an intercept plus the values of the components, which are small grids: linear
between nodes and constant beyond them. With several OUTPUTS, answers have a number for each. An
offset that was passed to fit is a second argument, score(row, offset).

Trees add the remainder to it: what they say beyond the components.

None and NaN are missing values. A level that the fit has not seen is no error. A ValueError or
TypeError says that the row is refused: an infinite number, a value of the wrong type, a column
that is absent, or a bad offset. Values of a column, by its kind:

    number             a number
    date               a date or datetime, in UTC where it has no zone, or seconds since 1970 in UTC
    duration           a timedelta, or a number of seconds
    periodic number    a number; those that differ by whole periods are the same
    text               a str
    numbers            a number that is a level
    whole numbers      an int that is a level
    text or numbers    a str, or a number that is compared with the levels as text
"""

import bisect
import datetime
import math

# The remainder is a sum of trees less the grids HELD. QUESTIONS: place, and words of 32 bits that
# say for each of its nodes whether it goes right. TREES: first node of each tree; a negative number
# n is leaf -1 - n. NODES: question, left and right of each. LEAVES: a number for each output.

# INPUTS: name, kind, what numbers are divided by (a period), levels, codes of the levels.
# PLACES: input, nodes of numbers, then the node of missing values, of unseen ones and of every
# level, and how far each of these lies towards the next node.
# GRIDS, the components: places, strides, cells with a number for each output.
# fmt: off
# BEGIN MODEL
# The prediction is exp(raw score).
# Columns of a row:
#   "age": number
#   "town": text, 2 levels
#   "exposure": number, positive, its logarithm is added to the raw score; never missing
INPUTS = [
  ['age', 'number', 1.0, [], []],
  ['town', 'text', 1.0, ['Bonn', 'Ulm'], [0, 1]],
]
PLACES = [
  [0, [20.0, 40.0, 60.0], [3, 4], [0.0, 0.0]],
  [1, [], [2, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
  [0, [20.0, 40.0, 60.0], [3, 4], [0.0, 0.0]],
  [1, [], [2, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
  [0, [40.0, 40.00000000000001, 40.000000000000014], [3, 2], [0.0, 0.0]],
  [1, [], [3, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
]
GRIDS = [
  [[0], [1], [0.0, 0.125, 0.25, 0.375, 0.0]],
  [[1], [1], [0.0, 0.125, 0.0]],
  [[2, 3], [3, 1], [
    0.0, 0.125, 0.0, 0.25, 0.375, 0.0,
    0.5, 0.625, 0.0, 0.75, 0.875, 0.0,
    0.0, 0.0, 0.0
  ]],
]
INTERCEPTS = [-1.5]
LINK = 'log'
OFFSET = ['exposure', 'exposure']
OUTPUTS = []
CLASSES = []
COMPONENTS = [
  ['age'],
  ['town'],
  ['age', 'town'],
]
HELD = [
  [[1], [1], [0.25, -0.25, 0.0]],
]
QUESTIONS = [
  [4, [2]],
  [5, [2]],
]
TREES = [1, -4, -5]
NODES = [0, -2, -3, 1, -1, 0]
LEAVES = [0.5, 1.0, 2.0, 4.0, -0.5]
# END MODEL
# fmt: on

MISSING, UNSEEN = -2, -1  # codes of what is no level
FIRST_ROUNDED = 2**53  # whole numbers from here on are not all floats
COLUMNS = [(*known, dict(zip(levels, codes))) for *known, levels, codes in INPUTS]


def _by_output(grids):
    n = len(INTERCEPTS)
    return [(places, strides, [x[k::n] for k in range(n)]) for places, strides, x in grids]


BY_OUTPUT = _by_output(GRIDS)

HELD_BY_OUTPUT = _by_output(HELD)  # of the remainder


def score(row, offset=None):
    """Return raw score and prediction of one row, a dict of column name to value."""
    located = _locate(row)
    effects = [_component(located, *grid) for grid in BY_OUTPUT]
    added = _offset(row, offset)
    raw = [x + sum(values[k] for values in effects) + added for k, x in enumerate(INTERCEPTS)]

    remainder = _remainder(located)
    raw = [x + y for x, y in zip(raw, remainder)]

    answer = {"raw_score": _squeezed(raw), "prediction": _squeezed(_predictions(raw))}

    answer["contributions"] = [_squeezed(values) for values in effects]

    answer["remainder"] = _squeezed(remainder)  # beside the contributions

    return answer


def _squeezed(numbers):
    return numbers if len(numbers) > 1 else numbers[0]


def _predictions(raw):
    if LINK == "logit":
        return [_expit(score) for score in raw]
    if LINK == "log":
        return [math.exp(min(max(score, -300.0), 300.0)) for score in raw]
    if LINK == "softmax":
        largest = max(raw)
        odds = [math.exp(score - largest) for score in raw]
        total = sum(odds)
        return [each / total for each in odds]
    return sorted(raw) if LINK == "quantiles" else raw


def _expit(score):
    decay = math.exp(-abs(score))
    return (1.0 if score >= 0 else decay) / (1.0 + decay)


def _locate(row):
    """Return the lower node of every place, and how far the row lies towards the next one."""
    read = [_read(row, *known) for known in COLUMNS]
    located = []
    for number, nodes, lower, fraction in PLACES:
        x, code = read[number]
        if code == MISSING or not nodes:
            located.append((lower[code - MISSING], fraction[code - MISSING]))
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


def _remainder(located):
    """Return the remainder, a number for each output: the leaves of all trees less HELD."""
    held = [_component(located, *grid) for grid in HELD_BY_OUTPUT]
    rights = [
        words[located[place][0] // 32] >> located[place][0] % 32 & 1 for place, words in QUESTIONS
    ]
    leaves = []
    for node in TREES:
        while node >= 0:
            node = NODES[3 * node + 1 + rights[NODES[3 * node]]]
        leaves.append((-1 - node) * len(INTERCEPTS))
    return [
        sum(LEAVES[leaf + k] for leaf in leaves) - sum(values[k] for values in held)
        for k in range(len(INTERCEPTS))
    ]


def _read(row, name, kind, unit, levels):
    """Return a value as a number, and as the code of a level."""
    if name not in row:
        raise ValueError(f"row: the column {name!r} is needed, found none. Pass None if missing.")
    value = row[name]
    if value is None or value != value:
        return 0.0, MISSING
    if kind == "number":
        return _finite(value, name) / unit, UNSEEN
    if kind == "periodic number":
        number = _finite(value, name)
        turns = number / unit
        turns = turns if math.isinf(turns) else math.floor(turns)
        return min(max(number - turns * unit, 0.0), unit), UNSEEN
    if kind in ("date", "duration"):
        return _finite(_seconds(value), name) / unit, UNSEEN
    if isinstance(value, str) != (kind == "text") and kind != "text or numbers":
        raise TypeError(f"row: {name!r} must be a level of fit, found {value!r}. Convert it.")
    if not isinstance(value, str):
        _finite(value, name)
        is_rounded = isinstance(value, float) and abs(value) >= FIRST_ROUNDED
        if is_rounded and kind != "numbers":
            raise TypeError(f"row: {name!r} is rounded, found {value!r}. Pass an int, or text.")
    return 0.0, levels.get(value, UNSEEN)


def _finite(value, name):
    if isinstance(value, (str, bytes)):
        raise TypeError(f"row: {name!r} must be a number, found {value!r}. Convert it.")
    number = float(value)
    if math.isinf(number):
        raise ValueError(f"row: {name!r} must be finite or missing, found {value!r}. Clip it.")
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


def _offset(row, offset):
    """Return what is added to the raw score: an offset, or the logarithm of an exposure."""
    kind, column = OFFSET
    if offset is not None and kind != "argument":
        raise TypeError(f"offset: this model takes no such argument, found {offset!r}. Drop it.")
    if kind == "none":
        return 0.0
    value = offset if kind == "argument" else row.get(column)
    number = math.nan if value is None else _finite(value, "offset")
    least = 0.0 if kind == "exposure" else -math.inf
    if not number > least:
        raise ValueError(f"offset: must be a number above {least}, found {value!r}. Correct it.")
    return math.log(number) if kind == "exposure" else number
