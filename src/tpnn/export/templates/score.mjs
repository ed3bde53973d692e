/* A functional ANOVA model that scores one row, written by tpnn.
It needs nothing but this file:

    import { score } from "./model.mjs";
    const answer = score({column: value, ...});
    answer.raw_score, answer.prediction

answer.contributions has the values of COMPONENTS, in that order.

answer.remainder is what is added to the intercept and these contributions.

The raw score is an intercept plus the values of the components, which are small grids: linear
between nodes and constant beyond them. With several OUTPUTS, answers have a number for each. An
offset that was passed to fit is a second argument, score(row, offset).

Trees add the remainder to it: what they say beyond the components.

null and NaN are missing values. A level that the fit has not seen is no error. A RangeError or
TypeError says that the row is refused: an infinite number, a value of the wrong type, a column
that is absent, or a bad offset. Values of a column, by its kind:

    number             a number
    date               a Date, or seconds since 1970 in UTC
    duration           a number of seconds
    periodic number    a number; those that differ by whole periods are the same
    text               a string
    numbers            a number that is a level
    whole numbers      a number that is a level, a BigInt beyond 2 ** 53
    text or numbers    a string, or a number that is compared with the levels as text
*/

// The remainder is a sum of trees less the grids HELD. QUESTIONS: place, and words of 32 bits that
// say for each of its nodes whether it goes right. TREES: first node of each tree; a negative number
// n is leaf -1 - n. NODES: question, left and right of each. LEAVES: a number for each output.

// INPUTS: name, kind, what numbers are divided by, levels, codes of the levels.
// PLACES: input, nodes of numbers, then the node of missing values, of unseen ones and of every
// level, and how far each of these lies towards the next node.
// GRIDS, the components: places, strides, cells with a number for each output.
// BEGIN MODEL
// The prediction is exp(raw score).
// Columns of a row:
//   "age": number
//   "town": text, 2 levels
//   "exposure": number, positive, its logarithm is added to the raw score; never missing
const INPUTS = [
  ["age", "number", 1.0, [], []],
  ["town", "text", 1.0, ["Bonn", "Ulm"], [0, 1]],
];
const PLACES = [
  [0, [20.0, 40.0, 60.0], [3, 4], [0.0, 0.0]],
  [1, [], [2, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
  [0, [20.0, 40.0, 60.0], [3, 4], [0.0, 0.0]],
  [1, [], [2, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
  [0, [40.0, 40.00000000000001, 40.000000000000014], [3, 2], [0.0, 0.0]],
  [1, [], [3, 2, 0, 1], [0.0, 0.0, 0.0, 0.0]],
];
const GRIDS = [
  [[0], [1], [0.0, 0.125, 0.25, 0.375, 0.0]],
  [[1], [1], [0.0, 0.125, 0.0]],
  [[2, 3], [3, 1], [
    0.0, 0.125, 0.0, 0.25, 0.375, 0.0,
    0.5, 0.625, 0.0, 0.75, 0.875, 0.0,
    0.0, 0.0, 0.0
  ]],
];
const INTERCEPTS = [-1.5];
const LINK = "log";
const OFFSET = ["exposure", "exposure"];
const OUTPUTS = [];
const CLASSES = [];
const COMPONENTS = [
  ["age"],
  ["town"],
  ["age", "town"],
];
const HELD = [
  [[1], [1], [0.25, -0.25, 0.0]],
];
const QUESTIONS = [
  [4, [2]],
  [5, [2]],
];
const TREES = [1, -4, -5];
const NODES = [0, -2, -3, 1, -1, 0];
const LEAVES = [0.5, 1.0, 2.0, 4.0, -0.5];
// END MODEL

const MISSING = -2, UNSEEN = -1; // codes of what is no level
const FIRST_ROUNDED = 2 ** 53; // whole numbers from here on are not all numbers of JavaScript
const LEVELS = INPUTS.map(
  ([, , , levels, codes]) => new Map(levels.map((level, i) => [level, codes[i]])),
);

export { OUTPUTS, CLASSES, COMPONENTS };

// Raw score and prediction of one row, an object of column name to value.
export function score(row, offset) {
  const located = locate(row);
  const effects = GRIDS.map((grid) => component(located, grid));
  const added = readOffset(row, offset);
  const raw = INTERCEPTS.map((x, k) => effects.reduce((sum, values) => sum + values[k], x) + added);

  const rest = remainder(located);
  rest.forEach((x, k) => (raw[k] += x));

  const answer = { raw_score: squeezed(raw), prediction: squeezed(predictions(raw)) };

  answer.contributions = effects.map(squeezed);

  answer.remainder = squeezed(rest); // beside the contributions

  return answer;
}

function squeezed(numbers) {
  return numbers.length > 1 ? numbers : numbers[0];
}

function predictions(raw) {
  if (LINK === "logit") return raw.map(expit);
  if (LINK === "log") return raw.map((score) => Math.exp(Math.min(Math.max(score, -300), 300)));
  if (LINK === "softmax") {
    const largest = Math.max(...raw);
    const odds = raw.map((score) => Math.exp(score - largest));
    const total = odds.reduce((sum, each) => sum + each, 0);
    return odds.map((each) => each / total);
  }
  return LINK === "quantiles" ? raw.slice().sort((a, b) => a - b) : raw;
}

function expit(score) {
  const decay = Math.exp(-Math.abs(score));
  return (score >= 0 ? 1 : decay) / (1 + decay);
}

// The lower node of every place, and how far the row lies towards the next one.
function locate(row) {
  const values = INPUTS.map((input, i) => read(row, input, LEVELS[i]));
  return PLACES.map(([input, nodes, lower, fraction]) => {
    const { x, code } = values[input];
    if (code === MISSING || nodes.length === 0) {
      return { node: lower[code - MISSING], fraction: fraction[code - MISSING] };
    }
    const inside = Math.min(Math.max(x, nodes[0]), nodes[nodes.length - 1]);
    let node = 0;
    for (let end = nodes.length - 1; end - node > 1; ) {
      const middle = (node + end) >> 1;
      if (nodes[middle] <= inside) node = middle;
      else end = middle;
    }
    const step = nodes.length > 1 ? nodes[node + 1] - nodes[node] : 1;
    return { node, fraction: (inside - nodes[node]) / step };
  });
}

// The values of a component, one for each output: a weighted mean of the cells around the row.
function component(located, [places, strides, cells]) {
  const values = new Array(INTERCEPTS.length).fill(0);
  for (let corner = 0; corner < 1 << places.length; corner++) {
    let weight = 1;
    let cell = 0;
    for (let axis = 0; axis < places.length; axis++) {
      const { node, fraction } = located[places[axis]];
      const up = (corner >> axis) & 1;
      weight *= up ? fraction : 1 - fraction;
      cell += (node + up) * strides[axis];
    }
    if (weight === 0) continue;
    for (let k = 0; k < values.length; k++) values[k] += weight * cells[cell * values.length + k];
  }
  return values;
}

// The remainder, a number for each output: the leaves of all trees less the grids HELD.
function remainder(located) {
  const values = new Array(INTERCEPTS.length).fill(0);
  const rights = QUESTIONS.map(([place, words]) => {
    const { node } = located[place];
    return (words[node >> 5] >> (node & 31)) & 1;
  });
  for (let node of TREES) {
    while (node >= 0) node = NODES[3 * node + 1 + rights[NODES[3 * node]]];
    const leaf = (-1 - node) * values.length;
    for (let k = 0; k < values.length; k++) values[k] += LEAVES[leaf + k];
  }
  const held = HELD.map((grid) => component(located, grid));
  return values.map((x, k) => held.reduce((sum, each) => sum - each[k], x));
}

// A value as a number, and as the code of a level.
function read(row, [name, kind, unit], levels) {
  const value = own(row, name);
  if (value === undefined) {
    throw new TypeError(`row: the column ${name} is needed, found none. Pass null if missing.`);
  }
  if (value === null || Number.isNaN(value)) return { x: 0, code: MISSING };
  if (["number", "date", "duration"].includes(kind)) {
    const number = kind === "date" && value instanceof Date ? value.getTime() / 1000 : value;
    if (Number.isNaN(number)) return { x: 0, code: MISSING };
    return { x: finite(number, name) / unit, code: UNSEEN };
  }
  if (kind === "periodic number") {
    const number = finite(value, name);
    const rest = number - Math.floor(number / unit) * unit;
    return { x: Math.min(Math.max(rest, 0), unit), code: UNSEEN };
  }
  const isText = typeof value === "string";
  if (isText !== (kind === "text") && kind !== "text or numbers") {
    throw new TypeError(`row: ${name} must be a level of fit, found ${value}. Convert it.`);
  }
  return { x: 0, code: levels.get(isText ? value : exact(value, name, kind)) ?? UNSEEN };
}

function own(row, name) {
  return Object.prototype.hasOwnProperty.call(row, name) ? row[name] : undefined;
}

function finite(value, name) {
  if (!["number", "boolean", "bigint"].includes(typeof value)) {
    throw new TypeError(`row: ${name} must be a number, found ${value}. Convert it.`);
  }
  const number = Number(value);
  if (!Number.isFinite(number)) {
    throw new RangeError(`row: ${name} must be finite or missing, found ${value}. Clip it.`);
  }
  return number;
}

// A level that is a number: a BigInt where no number is equal to it.
function exact(value, name, kind) {
  const number = finite(value, name);
  if (typeof value === "bigint") return BigInt(number) === value ? number : value;
  if (kind !== "numbers" && Math.abs(number) >= FIRST_ROUNDED) {
    throw new RangeError(`row: ${name} is rounded, found ${value}. Pass a BigInt, or text.`);
  }
  return number;
}

// What is added to the raw score: an offset, or the logarithm of an exposure.
function readOffset(row, offset) {
  const [kind, column] = OFFSET;
  if ((offset ?? null) !== null && kind !== "argument") {
    throw new TypeError(`offset: this model takes no such argument, found ${offset}. Drop it.`);
  }
  if (kind === "none") return 0;
  const value = (kind === "argument" ? offset : own(row, column)) ?? null;
  const number = value === null ? NaN : finite(value, "offset");
  const least = kind === "exposure" ? 0 : -Infinity;
  if (!(number > least)) {
    throw new RangeError(`offset: must be a number above ${least}, found ${value}. Correct it.`);
  }
  return kind === "exposure" ? Math.log(number) : number;
}
