// Read a model that model.to_json(path) wrote; predict rows, and say what each component adds.
// It needs nothing else, and runs in Node and in browsers.

/** Model of the text of a JSON file. */
export function load(text) {
  const model = JSON.parse(text);
  if (model.format !== "tpnn-model-json") {
    throw new Error("text: a file of to_json is needed. Write it with model.to_json(path).");
  }
  if (model.version > 1) {
    throw new Error(`text: version ${model.version} of the format, and this package reads 1. Install a newer one.`);
  }
  return model;
}

/** Names of the features; without names they are x and the position of the column. */
export function featureNames({encoder}) {
  if (encoder.names) return encoder.names;
  const column = encoder.offset_column;
  const places = encoder.kept ? encoder.kept.places : encoder.features.map((_, j) => j);
  return places.map(place => `x${place + (column !== null && place >= column.place ? 1 : 0)}`);
}

/** Prediction for each output, as AnovaModel.predict returns it; a row is an object by name. */
export function predict(model, row, offset = 0) {
  return inverseLink(model.link, rawScores(model, row, offset));
}

/** Intercept, offset, components and remainder, summed for each output. */
export function rawScores(model, row, offset = 0) {
  const known = knownOffset(model.encoder, row, offset);
  const parts = explain(model, row);
  return model.intercepts.map((intercept, k) =>
    parts.reduce((sum, part) => sum + part.values[k], intercept + known));
}

/** What each component, and the remainder, adds to the raw score: [{features, values}, ...]. */
export function explain(model, row) {
  const read = reader(model, row), names = featureNames(model);
  const parts = model.components.map((component, i) => ({
    features: component.map(j => names[j]), values: read(component, model.tables[i]),
  }));
  if (model.remainder) {
    const {trees, constants, components, tables} = model.remainder;
    const values = treeScores(trees, model, row).map((score, k) => score - constants[k]);
    components.forEach((component, i) =>
      read(component, tables[i]).forEach((value, k) => { values[k] -= value; }));
    parts.push({features: ["remainder"], values});
  }
  return parts;
}

/** Function from a component and its table to its value for each output. */
function reader(model, row) {
  const {features, axes} = model.encoder, names = featureNames(model);
  return (component, table) => {
    const ofOrder = axes[component.length];
    const places = component.map(j => place(features[j], ofOrder[j], valueOf(row, names[j])));
    if (places.includes(null)) return model.intercepts.map(() => 0);
    return model.intercepts.map((_, k) => interpolated(table, places, k));
  };
}

function valueOf(row, name) {
  if (!(name in row)) throw new Error(`row: the key ${name} is needed; null is a missing value.`);
  return row[name];
}

function isMissing(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

/** Number of a level, else the value: NaN where missing, undefined if unseen. Dates are seconds. */
function number(feature, value) {
  if (isMissing(value)) return NaN;
  if (!feature.levels.length) {
    if (value instanceof Date) return value.getTime() / 1000;
    if (feature.kind === "date" && typeof value === "string") return secondsOf(value);
    if (typeof value === "boolean") return Number(value);
    if (typeof value !== "number") throw new Error(`row: a number is needed, found ${JSON.stringify(value)}.`);
    return value;
  }
  const wanted = feature.are_text ? String(value) : value;
  const found = feature.levels.findIndex(level => level === wanted || Number(level) === wanted);
  return found < 0 ? undefined : found;
}

/** Seconds since 1970 of an ISO date; without a zone it is in UTC. */
function secondsOf(text) {
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/.test(text), hasTime = /\d[T ]\d/.test(text);
  const time = Date.parse(hasTime && !hasZone ? `${text.replace(" ", "T")}Z` : text);
  if (Number.isNaN(time)) throw new Error(`row: an ISO date is needed, found ${JSON.stringify(text)}.`);
  return time / 1000;
}

/** Lower node of a value and how far it lies towards the next one; null where f is 0. */
function place(feature, axis, raw) {
  const nodes = axis.values, n = nodes.length, value = number(feature, raw);
  if (Number.isNaN(value)) return axis.has_missing ? [n, 0] : null;
  if (feature.levels.length) {
    if (value === undefined) return axis.has_unseen ? [n - 1, 0] : null;
    if (axis.level_nodes !== null) return [axis.level_nodes[value], 0];
  }
  if (n < 2) return n ? [0, 0] : null;
  const wrapped = axis.kind === "periodic number" ? value - Math.floor(value / nodes[n - 1]) * nodes[n - 1] : value;
  const x = Math.min(Math.max(wrapped, nodes[0]), nodes[n - 1]); // constant beyond the outer nodes
  const lower = Math.min(countBelow(nodes, x, true), n - 1) - 1;
  return [lower, (x / 2 - nodes[lower] / 2) / (nodes[lower + 1] / 2 - nodes[lower] / 2)];
}

/** How many of increasing numbers are below x, or not above it. */
function countBelow(sorted, x, withEqual) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x || (withEqual && sorted[middle] === x)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Value of a grid, interpolated linearly along one feature after the other. */
function interpolated(grid, [first, ...rest], k) {
  if (first === undefined) return grid[k];
  const [node, share] = first, below = interpolated(grid[node], rest, k);
  return share ? below + share * (interpolated(grid[node + 1], rest, k) - below) : below;
}

/** Sum of the trees for each output. */
function treeScores(trees, model, row) {
  const names = featureNames(model), codes = new Map(), answers = [];
  let start = 0;
  for (const j of trees.asked) {
    if (!codes.has(j)) codes.set(j, code(model.encoder.features[j], trees.features[j], valueOf(row, names[j])));
    answers.push(Number(trees.right[start + codes.get(j)]));
    start += trees.features[j].masses.length;
  }
  const scores = model.intercepts.map(() => 0);
  for (let node of trees.roots) {
    while (node >= 0) node = trees.children[node][answers[trees.questions[node]]];
    trees.values[-1 - node].forEach((value, k) => { scores[k] += value; });
  }
  return scores;
}

/** Which answers of a question belong to a value: the last ones are of unseen and missing. */
function code(feature, {ends, groups, masses}, raw) {
  const value = number(feature, raw);
  if (value === undefined) return masses.length - 2;
  if (Number.isNaN(value)) return masses.length - 1;
  return groups === null ? countBelow(ends, value, false) : groups[value];
}

function knownOffset({offset_column: column}, row, offset) {
  if (column === null) return offset;
  const known = valueOf(row, column.name === null ? `x${column.place}` : column.name);
  return column.is_exposure ? Math.log(known) : known;
}

function inverseLink(link, scores) {
  if (link === "log") return scores.map(score => Math.exp(Math.min(Math.max(score, -300), 300)));
  if (link === "logit") {
    return scores.map(score => (score >= 0 ? 1 : Math.exp(score)) / (1 + Math.exp(-Math.abs(score))));
  }
  if (link === "softmax") {
    const largest = Math.max(...scores), odds = scores.map(score => Math.exp(score - largest));
    const total = odds.reduce((sum, share) => sum + share, 0);
    return odds.map(share => share / total);
  }
  return link === "quantiles" ? [...scores].sort((a, b) => a - b) : scores;
}
