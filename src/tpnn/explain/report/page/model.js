// The model: tables on nodes, looked up and interpolated as tpnn.AnovaModel does.

const UNSEEN = "unseen"; // a level that fit has not seen, among numbers and null for missing
const LARGEST_SCORE = 300; // exponentials of larger ones are cut off, as in Python

const LINKS = {
  identity: raw => raw,
  log: raw => raw.map(score => Math.exp(Math.max(-LARGEST_SCORE, Math.min(LARGEST_SCORE, score)))),
  logit: raw => raw.map(score => 1 / (1 + Math.exp(-score))),
  quantiles: raw => raw.slice().sort((a, b) => a - b),
  softmax: raw => {
    const largest = Math.max(...raw);
    const parts = raw.map(score => Math.exp(score - largest));
    const total = parts.reduce((sum, part) => sum + part, 0);
    return parts.map(part => part / total);
  },
};

async function unpack(packed) {
  const deflated = Uint8Array.from(atob(packed.text), letter => letter.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const floatsAt = 8 * packed.n_doubles, planesAt = floatsAt + 4 * packed.n_floats;
  const planes = new Uint8Array(buffer, planesAt), n = packed.n_cells;
  const units = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    const zigzag = planes[i] | planes[n + i] << 8 | planes[2 * n + i] << 16 | planes[3 * n + i] << 24;
    units[i] = zigzag >>> 1 ^ -(zigzag & 1);
  }
  return {
    doubles: new Float64Array(buffer, 0, packed.n_doubles),
    floats: new Float32Array(buffer, floatsAt, packed.n_floats),
    units,
  };
}

// Running sums along every axis undo the mixed difference; whole numbers make it exact.
function cumulate(units, shape) {
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis];
    for (let i = 0; i < units.length; i++) {
      if (Math.floor(i / stride) % size > 0) units[i] = units[i] + units[i - stride] | 0;
    }
    stride *= size;
  }
  return units;
}

const MOST_VALUES = 12; // of a number that is drawn as levels

// Whether an axis has few numbers that are whole multiples of one step apart; two or three must be whole numbers.
function hasFewValues(axis) {
  if (axis.words || axis.regular < 2 || axis.regular > MOST_VALUES || !isEvenlySpaced(axis)) return false;
  return axis.regular > 3 || axis.values.every(Number.isInteger);
}

// Whether a component may be nothing: its interval of the importance holds 0.
const isUnclear = component => component.interval !== null && component.interval[0] === 0;

const isZero = component => component.tables.every(table => table.every(units => units === 0));

// How far x is on the way from low to high; halves, because the way may be longer than any double.
function shareBetween(x, low, high) {
  return (x / 2 - low / 2) / (high / 2 - low / 2);
}

class Axis {
  constructor(spec, values) {
    Object.assign(this, spec);
    this.values = values;
    this.regular = values.length; // number of nodes of values, which come first
    this.missingNode = spec.missing ? values.length : null;
  }

  // Lower node and fraction; null for what has no node, where components are zero.
  locate(x) {
    if (x === UNSEEN) return this.unseen ? [this.regular - 1, 0] : null;
    if (x === null || Number.isNaN(x)) return this.missing ? [this.missingNode, 0] : null;
    if (this.groups) return x in this.groups ? [this.groups[x], 0] : null;
    const values = this.values, last = this.regular - 1;
    if (this.wraps && (x < 0 || x > values[last])) x -= Math.floor(x / values[last]) * values[last];
    if (x <= values[0] || last <= 0) return [0, 0];
    if (x >= values[last]) return [last, 0];
    let low = 0, high = last;
    while (high - low > 1) {
      const middle = low + high >> 1;
      if (values[middle] <= x) low = middle; else high = middle;
    }
    return [low, shareBetween(x, values[low], values[high])];
  }
}

class Model {
  constructor(data, {doubles, floats, units}, trees = null) {
    this.data = data;
    this.trees = trees;
    this.outputs = data.intercept.length;
    this.hasFactors = data.link === "log" || data.link === "logit"; // effects multiply predictions or odds
    let at = 0;
    const next = (array, size) => array.subarray(at, at += size);
    this.axes = {};
    data.orders.forEach((order, place) => {
      this.axes[order] = data.features.map(feature => {
        const spec = feature.axes[place];
        return new Axis(spec, next(doubles, spec.size - (spec.missing ? 1 : 0)));
      });
    });
    at = 0;
    data.orders.forEach(order => this.axes[order].forEach(axis => { axis.weights = next(floats, axis.size); }));
    const mains = data.components.filter(component => component.features.length === 1);
    for (const component of mains) {
      const nodes = () => next(floats, this.axes[1][component.features[0]].size);
      component.bands = this.perOutput(nodes);
      component.ratioBands = this.perOutput(nodes); // of differences to the base
    }
    at = 0;
    const grids = ({shape}) => this.perOutput(() => cumulate(next(units, product(shape)), shape));
    this.held = (data.remainder?.held || []).map(features => ({features})); // what components hold of the trees
    for (const component of [...data.components, ...this.held]) {
      this.lay(component);
      component.tables = grids(component);
    }
    for (const component of data.components) {
      if (component.features.length === 1) continue;
      const doubts = grids(component);
      component.faded = doubts.map(cells => cells.map(doubt => doubt & 1)); // where the band holds "no effect"
      component.hatched = doubts[0].map(doubt => doubt >> 1); // where no row is near
    }
    this.nameFewValues();
    this.fitAxes = this.axes[1]; // edits put others in their place
    this.variances = data.sureness.errors && this.variancesByFeature();
  }

  // Scale of a case for each output, by an additive model of its logarithm on the nodes of the fit, as tpnn.model.intervals has it.
  scaleOf({features, tables, knots, heights}, values, raw) {
    return raw.map((score, k) => {
      const at = knots[k], high = at.findIndex(knot => knot >= score), low = high - 1;
      const base = high === 0 ? heights[k][0] : high < 0 ? heights[k].at(-1) : heights[k][low] + (score - at[low]) / (at[high] - at[low]) * (heights[k][high] - heights[k][low]);
      return Math.exp(features.reduce((sum, j, i) => { const place = this.fitAxes[j].locate(values[j]); return place ? sum + this.between(tables[i][k], [1], [place]) : sum; }, base));
    });
  }

  // Standard errors of the raw scores of a case, which grow beyond the outer nodes, as tpnn.model.intervals has it.
  errorsOf(values, raw) {
    const errors = this.scaleOf(this.data.sureness.errors, values, raw);
    this.fitAxes.forEach((axis, j) => {
      const x = values[j], distance = Number.isFinite(x) ? Math.max(axis.values[0] - x, x - axis.values[axis.regular - 1], 0) : 0;
      if (axis.groups || axis.wraps || axis.regular < 2 || !(distance > 0)) return;
      const weights = axis.weights.subarray(0, axis.regular), mean = of => weights.reduce((sum, w, node) => sum + w * of(axis.values[node]), 0) / weights.reduce((sum, w) => sum + w, 0);
      const middle = mean(value => value), deviation = Math.sqrt(mean(value => (value - middle) ** 2));
      errors.forEach((error, k) => { errors[k] = Math.hypot(error, distance / deviation * Math.sqrt(this.variances[j][k])); });
    });
    return errors;
  }

  // Variances of the components with each feature, for each output.
  variancesByFeature() {
    const {step} = this.data.packed, found = this.data.features.map(() => this.perOutput(() => 0));
    for (const component of this.data.components) {
      const masses = outerProduct(component.axes.map(axis => Array.from(axis.weights)));
      component.tables.forEach((table, k) => {
        const variance = masses.reduce((sum, mass, cell) => sum + mass * (table[cell] * step) ** 2, 0);
        component.features.forEach(j => { found[j][k] += variance; });
      });
    }
    return found;
  }

  // Numbers that have few values, all of them nodes, are drawn as levels are: each node gets a word.
  nameFewValues() {
    this.data.features.forEach((feature, j) => {
      const main = this.axes[1][j], [first, last] = [feature.quantiles[0], feature.quantiles[4]];
      if (feature.kind !== "number" || !hasFewValues(main) || (first !== null && (first !== main.values[0] || last !== main.values[main.regular - 1]))) return;
      for (const order of this.data.orders) {
        const axis = this.axes[order][j];
        if (axis.regular === main.regular) axis.words = Array.from(axis.values, x => valueWord(feature, x));
      }
    });
  }

  // Names of a component, its axes, and how its cells follow one another.
  lay(component) {
    component.names = component.features.map(j => this.data.features[j].name);
    component.name = component.names.join(" × ");
    component.axes = component.features.map(j => this.axes[component.features.length][j]);
    component.shape = component.axes.map(axis => axis.size);
    component.strides = component.shape.map((_, a) => product(component.shape.slice(a + 1)));
  }

  componentOf(features) {
    return this.data.components.find(one => one.features.length === features.length && one.features.every((j, a) => j === features[a]));
  }

  // A component of zeros that an edit needs and the model does not have yet.
  create(features) {
    const component = {features, importance: 0, interval: null, share: 0, band: 0, hasBand: false, base: null};
    this.lay(component);
    const zeros = () => this.perOutput(() => new Float64Array(product(component.shape)));
    component.tables = zeros();
    if (features.length === 1) {
      const masses = Array.from(component.axes[0].weights.slice(0, component.axes[0].regular));
      Object.assign(component, {bands: zeros(), ratioBands: zeros(), base: Math.max(0, masses.indexOf(Math.max(...masses)))});
    }
    this.data.components.push(component);
    return component;
  }

  perOutput(make) {
    return Array.from({length: this.outputs}, make);
  }

  // Value of a main effect at one of its nodes, and half the width of its band there.
  atNode(component, node, output) {
    const step = this.data.packed.step;
    return [component.tables[output][node] * step, component.bands[output][node] * step];
  }

  // Value of a main effect at one of its nodes less that at the base, and half the width of the band of this difference.
  toBase(component, node, output) {
    const step = this.data.packed.step, table = component.tables[output];
    return [(table[node] - table[component.base]) * step, component.ratioBands[output][node] * step];
  }

  // Value of one component at the given feature values, multilinear between nodes.
  score(component, values, output) {
    return this.scoreAt(component, component.axes.map((axis, a) => axis.locate(values[component.features[a]])), output);
  }

  // Value of one component at places, one on each of its axes; zero where one of them has no node.
  scoreAt(component, places, output) {
    if (places.includes(null)) return 0;
    return this.between(component.tables[output], component.strides, places) * this.data.packed.step;
  }

  // Number at places of a grid, multilinear between its nodes.
  between(table, strides, places) {
    const along = (base, axis) => {
      if (axis === places.length) return table[base];
      const [node, fraction] = places[axis];
      const low = along(base + node * strides[axis], axis + 1);
      return fraction === 0 ? low : low + fraction * (along(base + (node + 1) * strides[axis], axis + 1) - low);
    };
    return along(0, 0);
  }

  // Remainder of a case for each output: zeros without one, null where its trees are too many for a page.
  rest(values) {
    const {remainder, rows} = this.data;
    if (!remainder) return this.perOutput(() => 0);
    if (!this.trees) return remainder.recorded[rows.findIndex(row => row.every((x, j) => Object.is(x, values[j])))] ?? null;
    const sums = this.trees.scores(values);
    return sums.map((sum, k) => this.held.reduce((left, part) => left - this.score(part, values, k), sum - remainder.constants[k]));
  }

  // Contributions of all components and of the remainder, raw scores and predictions.
  explain(values, offset = 0) {
    const parts = this.data.components.map(component => this.perOutput((_, k) => this.score(component, values, k)));
    const rest = this.rest(values), start = this.data.intercept.map((mean, k) => mean + offset + (rest?.[k] ?? 0));
    const raw = this.perOutput((_, k) => parts.reduce((sum, part) => sum + part[k], start[k]));
    return {parts, rest, raw, predictions: LINKS[this.data.link](raw)};
  }
}
