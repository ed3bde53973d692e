"""JavaScript: a model as an ES module that runs in browsers and in Node."""

from __future__ import annotations

import json
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
    DATE: "a Date, or seconds since 1970 in UTC",
    DURATION: "a number of seconds",
    TEXT: "a string",
    NUMBERS: "a number that is a level",
    WHOLE: "a number that is a level, a BigInt beyond 2 ** 53",
    EITHER: "a string, or a number that is compared with the levels as text",
}
USAGE = """\
    import {{ score }} from "./model.mjs";
    const answer = score({{column: value, ...}}{offset});
    answer.raw_score, answer.prediction{contributions}

null and NaN are missing values. A level that the fit has not seen is no error. A RangeError or
TypeError says that the row is refused: an infinite number, a value of the wrong type, a column
that is absent{bad_offset}."""
INVERSES = {
    "identity": "  return raw;",
    "logit": """\
  return raw.map((score) => {
    const decay = Math.exp(-Math.abs(score));
    return (score >= 0 ? 1 : decay) / (1 + decay);
  });""",
    "log": "  return raw.map((score) => Math.exp(Math.min(Math.max(score, -300), 300)));",
    "softmax": """\
  const largest = Math.max(...raw);
  const odds = raw.map((score) => Math.exp(score - largest));
  const total = odds.reduce((sum, each) => sum + each, 0);
  return odds.map((each) => each / total);""",
    "quantiles": "  return raw.slice().sort((a, b) => a - b);",
}
ADDED = {  # by whether the offset is an exposure
    False: "checkedOffset({value})",
    True: "Math.log(checkedOffset({value}, 0))",
}
READING = f"""\
// A value as a number, and as the code of a level.
function read(row, {{ name, kind, unit, levels }}) {{
  const value = own(row, name);
  if (value === undefined) {{
    throw new TypeError(`row: the column ${{name}} is needed, found none. Pass null if missing.`);
  }}
  if (value === null || Number.isNaN(value)) return {{ x: 0, code: {MISSING} }};
  if (kind === "{DATE}" && value instanceof Date) {{
    if (Number.isNaN(value.getTime())) return {{ x: 0, code: {MISSING} }};
    return {{ x: value.getTime() / 1000 / unit, code: {UNSEEN} }};
  }}
  if (levels === undefined) return {{ x: finite(value, name) / unit, code: {UNSEEN} }};
  const isText = typeof value === "string";
  if (isText !== (kind === "{TEXT}") && kind !== "{EITHER}") {{
    throw new TypeError(`row: ${{name}} must be a level of fit, found ${{value}}. Convert it.`);
  }}
  const code = levels.get(isText ? value : exact(value, name, kind));
  return {{ x: 0, code: code === undefined ? {UNSEEN} : code }};
}}

function own(row, name) {{
  return Object.prototype.hasOwnProperty.call(row, name) ? row[name] : undefined;
}}

function finite(value, name) {{
  if (!["number", "boolean", "bigint"].includes(typeof value)) {{
    throw new TypeError(`row: ${{name}} must be a number, found ${{value}}. Convert it.`);
  }}
  const number = Number(value);
  if (!Number.isFinite(number)) {{
    throw new RangeError(`row: ${{name}} must be finite or missing, found ${{value}}. Clip it.`);
  }}
  return number;
}}

// A level that is a number: a BigInt where no number is equal to it.
function exact(value, name, kind) {{
  const number = finite(value, name);
  if (typeof value === "bigint") return BigInt(number) === value ? number : value;
  if (kind !== "{NUMBERS}" && Math.abs(number) >= {LARGEST_EXACT_INTEGER}) {{
    throw new RangeError(`row: ${{name}} is rounded, found ${{value}}. Pass a BigInt, or text.`);
  }}
  return number;
}}
"""
LOCATING = f"""\
// The lower node of every place, and how far the row lies towards the next one.
function locate(row) {{
  const values = INPUTS.map((known) => read(row, known));
  const node = new Int32Array(PLACES.length);
  const fraction = new Float64Array(PLACES.length);
  PLACES.forEach((place, p) => {{
    const {{ x, code }} = values[place.input];
    const nodes = place.nodes;
    if (code === {MISSING} || nodes.length === 0) {{
      node[p] = place.lower[code + 2];
      fraction[p] = place.fraction[code + 2];
      return;
    }}
    const inside = Math.min(Math.max(x, nodes[0]), nodes[nodes.length - 1]);
    let first = 0;
    for (let end = nodes.length - 1; end - first > 1; ) {{
      const middle = (first + end) >> 1;
      if (nodes[middle] <= inside) first = middle;
      else end = middle;
    }}
    node[p] = first;
    if (nodes.length > 1) fraction[p] = (inside - nodes[first]) / (nodes[first + 1] - nodes[first]);
  }});
  return {{ node, fraction }};
}}

// The values of a component, one for each output: a weighted mean of the cells around the row.
function component({{ node, fraction }}, {{ places, strides, cells }}) {{
  const values = new Array(INTERCEPTS.length).fill(0);
  for (let corner = 0; corner < 1 << places.length; corner++) {{
    let weight = 1;
    let cell = 0;
    for (let axis = 0; axis < places.length; axis++) {{
      const place = places[axis];
      const up = (corner >> axis) & 1;
      weight *= up ? fraction[place] : 1 - fraction[place];
      cell += (node[place] + up) * strides[axis];
    }}
    if (weight === 0) continue;
    for (let k = 0; k < values.length; k++) {{
      values[k] += weight * cells[cell * values.length + k];
    }}
  }}
  return values;
}}
"""
OFFSET = """\
function checkedOffset(value, least = -Infinity) {
  const number = value === null || value === undefined ? NaN : finite(value, "offset");
  if (!(number > least)) {
    throw new RangeError(`offset: must be a number above ${least}, found ${value}. Correct it.`);
  }
  return number;
}
"""


def write_javascript(plan: Plan) -> str:
    """Write a module with the function ``score(row)``."""
    lowered = plan.lowered
    data = [
        _array("INPUTS", map(_input, lowered.inputs)),
        _array("PLACES", map(_place, lowered.places)),
        _array("GRIDS", map(_grid, lowered.grids)),
        f"const INTERCEPTS = {_list(lowered.intercepts.tolist())};",
        f"export const OUTPUTS = {_list(lowered.outputs)};",
        f"export const CLASSES = {_list(plan.classes)};",
        _array("COMPONENTS", map(_list, plan.components), "export "),
    ]
    offset = [OFFSET] if lowered.offset or lowered.needs_offset else []
    inverse = f"function predictions(raw) {{\n{INVERSES[lowered.link]}\n}}\n"
    blocks = ["\n".join(data) + "\n", READING, LOCATING, *offset, inverse, _score(plan)]
    lines = plan.heading(WORDS, plan.usage(USAGE, "answer.contributions"))
    heading = "\n".join(f"// {line}".rstrip() for line in lines)
    return f"{heading}\n\n" + "\n".join(blocks)


def _score(plan: Plan) -> str:
    """Write the function that users call."""
    needs, offset = plan.lowered.needs_offset, plan.lowered.offset
    added = "0"
    if offset is not None:
        value = f"own(row, {_literal(offset.name)})"
        added = (
            f"Math.log(checkedOffset({value}, 0))"
            if offset.is_exposure
            else f"checkedOffset({value})"
        )
    elif needs:
        added = ADDED[False].format(value="offset")
    pick = "" if plan.several else "[0]"
    effects = "effects" if plan.several else "effects.map((values) => values[0])"
    return "\n".join(
        [
            "// Raw score and prediction of one row, an object of column name to value.",
            f"export function score(row{', offset' if needs else ''}) {{",
            "  const located = locate(row);",
            "  const effects = GRIDS.map((grid) => component(located, grid));",
            f"  const added = {added};",
            "  const raw = INTERCEPTS.map(",
            "    (start, k) => effects.reduce((sum, values) => sum + values[k], start) + added,",
            "  );",
            "  return {",
            f"    raw_score: raw{pick},",
            f"    prediction: predictions(raw){pick},",
            *([f"    contributions: {effects},"] if plan.contributions else []),
            "  };",
            "}\n",
        ]
    )


def _input(known: Input) -> str:
    start = f"name: {_literal(known.name)}, kind: {_literal(reading(known))}"
    if not known.levels:
        return f"{{ {start}, unit: {known.unit!r} }}"
    pairs = (f"[{_literal(level)}, {code}]" for level, code in level_codes(known).items())
    return f"{{ {start}, levels: new Map([{lines_of(pairs, ' ' * 2)}]) }}"


def _place(place: Place) -> str:
    lower, fraction = map(_list, (place.lower.tolist(), place.fraction.tolist()))
    nodes = _numbers(place.nodes.tolist())
    return f"{{ input: {place.input}, nodes: {nodes}, lower: {lower}, fraction: {fraction} }}"


def _grid(grid: Grid) -> str:
    start = f"places: {_list(grid.places)}, strides: {_list(grid.strides)}"
    names = ", ".join(map(quoted, grid.names))
    return f"// {names}\n  {{ {start}, cells: {_numbers(grid.cells.ravel().tolist())} }}"


def _numbers(numbers: Sequence[float]) -> str:
    return f"new Float64Array([{lines_of(map(repr, numbers), ' ' * 2)}])"


def _array(name: str, items: Iterable[str], export: str = "") -> str:
    return f"{export}const {name} = [\n" + "".join(f"  {item},\n" for item in items) + "];"


def _list(items: Sequence[Any]) -> str:
    return f"[{', '.join(map(_literal, items))}]"


def _literal(value: Any) -> str:
    r"""Write a string, a truth value or a number; whole numbers that are no doubles are BigInts.

    >>> print(_literal("</b>"), _literal(True), _literal(0.5), _literal(2**53 + 1))
    "\u003c/b\u003e" true 0.5 9007199254740993n
    """
    if isinstance(value, str | bool):
        return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")
    if isinstance(value, float):
        return repr(value)
    return str(int(value)) if _is_double(value) else f"{int(value)}n"


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False
