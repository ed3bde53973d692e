// Grids of values: finer nodes, and the unique parts of a change, as tpnn.lifecycle.edit.change and tpnn.anova.measure have them.

const product = numbers => numbers.reduce((whole, x) => whole * x, 1);

// The next number after x, upwards or downwards; beside zero, one that is no smaller than needed.
function neighbour(x, way, axis) {
  if (x === 0) {
    const sizes = Array.from(axis.values, Math.abs).filter(size => size > 0), least = Math.min(1, ...sizes);
    return way * (neighbour(least, 1, axis) - least);
  }
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigInt64(0, view.getBigInt64(0) + BigInt(x > 0 ? way : -way));
  return view.getFloat64(0);
}

// Feature value that a node stands for.
function nodeValue(axis, node) {
  if (node === axis.missingNode) return null;
  if (axis.unseen && node === axis.regular - 1) return UNSEEN;
  return axis.groups ? axis.groups.indexOf(node) : axis.values[node];
}

const nodeValues = axis => Array.from({length: axis.size}, (_, node) => nodeValue(axis, node));

// An axis like another one, on other nodes.
function axisLike(axis, values, weights, words, groups) {
  const size = values.length + (axis.missing ? 1 : 0);
  const made = new Axis({size, missing: axis.missing, unseen: axis.unseen, wraps: axis.wraps, words, groups}, Float64Array.from(values));
  made.weights = Float64Array.from(weights);
  return made;
}

// An ordered axis with more nodes, of mass zero.
function withValues(axis, feature, places) {
  const old = Array.from(axis.values), all = [...new Set([...old, ...places])].sort((a, b) => a - b);
  if (all.length === old.length) return axis;
  const masses = new Map(old.map((x, node) => [x, axis.weights[node]]));
  const weights = [...all.map(x => masses.get(x) || 0), ...axis.weights.slice(axis.regular)];
  return axisLike(axis, all, weights, axis.words && all.map(x => valueWord(feature, x)), null);
}

// A nominal axis on which levels share no node with others than themselves.
function withOwnNodes(axis, feature, numbers) {
  const chosen = new Set(numbers), members = node => axis.groups.flatMap((other, level) => other === node ? [level] : []);
  const split = numbers.filter(level => members(axis.groups[level]).some(other => !chosen.has(other)));
  if (!split.length) return axis;
  const first = axis.regular - (axis.unseen ? 1 : 0), weights = Array.from(axis.weights), words = axis.words.slice(), groups = axis.groups.slice();
  split.forEach((level, place) => {
    const node = axis.groups[level], share = axis.weights[node] / members(node).length;
    weights[node] = Math.max(weights[node] - share, 0);
    weights.splice(first + place, 0, share);
    words.splice(first + place, 0, feature.levels[level]);
    groups[level] = first + place;
  });
  return axisLike(axis, words.map((_, node) => node), weights, words, groups);
}

// Masses of a finer axis, shared linearly by neighbouring nodes of a coarser one.
function sharedMasses(axis, main) {
  const weights = new Float64Array(axis.size);
  nodeValues(main).forEach((x, node) => {
    const place = axis.locate(x);
    if (place === null) return;
    const [low, fraction] = place;
    weights[low] += main.weights[node] * (1 - fraction);
    if (fraction) weights[low + 1] += main.weights[node] * fraction;
  });
  return weights;
}

// A grid with every line along one of its axes replaced; the new lines may be longer or shorter.
function along(table, shape, place, change) {
  const inner = product(shape.slice(place + 1)), size = shape[place], outer = table.length / (inner * size);
  let found = null;
  for (let above = 0; above < outer; above++) {
    for (let below = 0; below < inner; below++) {
      const line = change(Array.from({length: size}, (_, node) => table[(above * size + node) * inner + below]));
      found ??= new Float64Array(outer * line.length * inner);
      line.forEach((x, node) => { found[(above * line.length + node) * inner + below] = x; });
    }
  }
  return found;
}

// A grid on finer nodes, by linear interpolation along every axis.
function movedGrid(table, coarse, fine) {
  const shape = coarse.map(axis => axis.size);
  coarse.forEach((axis, place) => {
    if (axis === fine[place]) return;
    const at = nodeValues(fine[place]).map(x => axis.locate(x));
    const value = (line, found) => found === null ? 0 : line[found[0]] + (found[1] ? found[1] * (line[found[0] + 1] - line[found[0]]) : 0);
    table = along(table, shape, place, line => at.map(found => value(line, found)));
    shape[place] = fine[place].size;
  });
  return table;
}

// Product of arrays, one for each axis, as a grid.
function outerProduct(arrays) {
  return arrays.reduce((grid, array) => grid.flatMap(x => Array.from(array, y => x * y)), [1]);
}

// Unique parts of a grid, one for each subset of its axes: averaged over the others, centred along its own.
function pureParts(table, axes) {
  let parts = [{kept: [], table, shape: axes.map(axis => axis.size)}];
  for (let place = axes.length - 1; place >= 0; place--) {
    const {weights} = axes[place], total = weights.reduce((sum, w) => sum + w, 0);
    const mean = line => line.reduce((sum, x, node) => sum + weights[node] * x, 0) / total;
    parts = parts.flatMap(part => [
      {kept: part.kept, table: along(part.table, part.shape, place, line => [mean(line)]), shape: part.shape.map((size, a) => a === place ? 1 : size)},
      {...part, kept: [place, ...part.kept], table: along(part.table, part.shape, place, line => { const constant = mean(line); return line.map(x => x - constant); })}]);
  }
  return parts;
}

// Finer nodes for some features, in all orders up to one: coarse nodes stay fine nodes. The function stays.
function refine(model, order, finer) {
  const before = model.axes, after = {};
  for (const size of model.data.orders) after[size] = before[size].map((axis, j) => size <= order && finer.has(j) ? finer.get(j)(axis) : axis);
  for (let size = 2; size <= order; size++) {
    after[size].forEach((axis, j) => { if (axis !== before[size][j]) axis.weights = sharedMasses(axis, after[1][j]); });
  }
  model.axes = after;
  for (const component of model.data.components) {
    const old = component.axes, own = component.features.map(j => after[component.features.length][j]);
    if (own.every((axis, a) => axis === old[a])) continue;
    component.tables = component.tables.map(table => movedGrid(table, old, own));
    if (own.length === 1) {
      component.bands = component.bands.map(band => movedGrid(band, old, own));
      component.ratioBands = component.ratioBands.map(band => movedGrid(band, old, own));
      component.base = own[0].locate(nodeValue(old[0], component.base))[0];
    }
    model.lay(component);
    component.faded = component.hatched = null;
  }
}

// Add a grid over some features to one output: its parts go to the components of the subsets, its mean to the intercept.
function addGrid(model, features, added, output) {
  const own = features.map(j => model.axes[features.length][j]), step = model.data.packed.step;
  for (const {kept, table} of pureParts(added, own)) {
    if (!kept.length) { model.data.intercept[output] += table[0]; continue; }
    const target = kept.map(place => features[place]), isClear = table.some(x => Math.abs(x) > step);
    const component = model.componentOf(target) ?? (isClear ? model.create(target) : null);
    if (component === null) continue; // rounding
    const part = movedGrid(table, kept.map(place => own[place]), component.axes);
    component.tables = component.tables.map((old, k) => k === output ? Float64Array.from(old, (units, cell) => units + part[cell] / step) : old);
    component.limits = null;
    if (isClear) forgetBand(component);
  }
}

function forgetBand(component) {
  component.hasBand = false;
  component.faded = null;
  component.bands = component.bands?.map(band => new Float64Array(band.length));
}
