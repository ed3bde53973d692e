// Edits: components changed as tpnn.AnovaModel.edit changes them. What is seen here is exported as an edit file;
// Python's replay of it is the edited model.

const SMALLEST_GAP = 1e-9; // of ranks of neighbouring nodes, for smoothing

// The values of one feature that an edit is for; all of them where nothing else is said.
function whereOf(feature, edit) {
  const own = record => record && Object.hasOwn(record, feature.name) ? record[feature.name] : null;
  const levels = own(edit.levels), missing = Boolean(edit.missing?.includes(feature.name)), between = own(edit.between);
  const numbers = levels && levels.map(level => feature.levels.indexOf(level)).sort((a, b) => a - b);
  return {between, levels: numbers, missing, isAll: between === null && levels === null && !missing};
}

// An axis on which some nodes are inside and all others are outside; ends of a range are those of the main effect.
function finerFor(axis, main, feature, {between, levels}) {
  if (levels && axis.groups) return withOwnNodes(axis, feature, levels);
  if (levels) return withValues(axis, feature, levels.flatMap(n => [n - 1, n, n + 1]).filter(n => n >= 0 && n < feature.levels.length));
  return between ? withValues(axis, feature, ends(main, between)) : axis;
}

// Ends of a range, and the numbers just outside of it, that must be nodes.
function ends(axis, [low, high]) {
  const first = axis.values[0], last = axis.values[axis.regular - 1];
  return [...(low !== null && low > first ? [low, Math.max(neighbour(low, -1, axis), first)] : []),
    ...(high !== null && high < last ? [high, Math.min(neighbour(high, 1, axis), last)] : [])];
}

// Which nodes of an axis are inside, as 0 and 1.
function insideNodes(axis, {between, levels, missing, isAll}) {
  const nodes = levels && new Set(axis.groups ? levels.map(level => axis.groups[level]) : levels.map(level => axis.values.indexOf(level)));
  return Array.from({length: axis.size}, (_, node) => {
    if (isAll) return 1;
    if (node === axis.missingNode) return +missing;
    const x = axis.values[node];
    return +((nodes !== null && nodes.has(node)) || (between !== null && x >= (between[0] ?? -Infinity) && x <= (between[1] ?? Infinity)));
  });
}

// Least squares with a penalty on differences, solved from both ends; the ends of a part stay.
function smoothed(axis, nodes, values, share) {
  const inside = nodes.filter(node => node < axis.regular), n = inside.length;
  if (n < 2) return values.slice();
  const ranks = nodeRanks(axis), isPart = n < axis.regular;
  const stiff = inside.slice(1).map((node, i) => share ** 2 / Math.max(ranks[node] - ranks[inside[i]], SMALLEST_GAP));
  const rows = inside.map((node, i) => isPart && (i === 0 || i === n - 1) ? [0, 1, 0, values[node]]
    : [-(stiff[i - 1] ?? 0), axis.weights[node] + (stiff[i - 1] ?? 0) + (stiff[i] ?? 0), -(stiff[i] ?? 0), axis.weights[node] * values[node]]);
  for (let i = 1; i < n; i++) {
    const factor = rows[i][0] / rows[i - 1][1];
    rows[i][1] -= factor * rows[i - 1][2];
    rows[i][3] -= factor * rows[i - 1][3];
  }
  const found = values.slice();
  for (let i = n - 1; i >= 0; i--) found[inside[i]] = (rows[i][3] - (i < n - 1 ? rows[i][2] * found[inside[i + 1]] : 0)) / rows[i][1];
  return found;
}

// The nearest increasing values under the masses, or the nearest decreasing ones: neighbours out of order are pooled.
function monotone(axis, values, sign) {
  const pools = [];
  for (let node = 0; node < axis.regular; node++) {
    const mass = Math.max(axis.weights[node], 1e-12);
    pools.push({mass, sum: mass * sign * values[node], size: 1});
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).mass >= pools.at(-1).sum / pools.at(-1).mass) {
      const last = pools.pop(), before = pools.at(-1);
      Object.assign(before, {mass: before.mass + last.mass, sum: before.sum + last.sum, size: before.size + last.size});
    }
  }
  return [...pools.flatMap(({mass, sum, size}) => Array(size).fill(sign * sum / mass)), ...values.slice(axis.regular)];
}

// Mean of a grid over the cells inside, by mass or, where they have none, evenly.
function meanInside(axes, masks, values) {
  const weigh = arrays => { const masses = outerProduct(arrays); return [masses, masses.reduce((sum, w) => sum + w, 0)]; };
  let [masses, total] = weigh(masks.map((mask, a) => mask.map((inside, node) => inside * axes[a].weights[node])));
  if (!(total > 0)) [masses, total] = weigh(masks); // only nodes of the edit itself
  return masses.reduce((sum, w, cell) => sum + w * values[cell], 0) / total;
}

// A grid, in raw scores, after an edit of all its cells; those outside are left as they were by whoever calls it.
function newValues(axes, masks, values, edit, directions) {
  const each = change => values.map(change);
  if (edit.smooth !== undefined) {
    const shape = axes.map(axis => axis.size), inside = masks.map(mask => mask.flatMap((is, node) => is ? [node] : []));
    return axes.reduce((grid, axis, a) => axis.groups ? grid : along(grid, shape, a, line => smoothed(axis, inside[a], line, edit.smooth)), values);
  }
  if (edit.shape) return monotone(axes[0], Array.from(values), directions[edit.shape]);
  if (edit.points) {
    const points = new Map(edit.points.map(([x, effect]) => [axes[0].values.indexOf(x), effect]));
    return each((old, node) => points.get(node) ?? old);
  }
  if (edit.flatten) { const mean = meanInside(axes, masks, values); return each(() => mean); }
  if (edit.add !== undefined) return each(old => old + edit.add);
  if (edit.set !== undefined) return each(() => edit.set);
  if (edit.scale !== undefined) return each(old => old * edit.scale);
  return each(old => Math.min(Math.max(old, edit.limit[0] ?? -Infinity), edit.limit[1] ?? Infinity));
}

// Change a component; what the change is on average moves to lower orders and to the intercept, so that all stay unique.
function applyEdit(model, component, edit) {
  const {features} = component, {data} = model, wheres = features.map(j => whereOf(data.features[j], edit));
  if (edit.without) {
    component.tables = component.tables.map(table => new Float64Array(table.length));
    component.limits = null;
    forgetBand(component);
    return;
  }
  const finer = new Map();
  if (edit.points) finer.set(features[0], axis => withValues(axis, data.features[features[0]], edit.points.map(([x]) => x)));
  else if (edit.smooth === undefined && !edit.shape) features.forEach((j, a) => {
    const main = model.axes[1][j];
    if (!wheres[a].isAll) finer.set(j, axis => finerFor(axis, main, data.features[j], wheres[a]));
  });
  refine(model, features.length, finer);
  const {axes} = component, masks = axes.map((axis, a) => insideNodes(axis, wheres[a])), inside = outerProduct(masks), step = data.packed.step;
  component.tables.forEach((table, k) => {
    if (edit.output !== undefined && data.outputs[k] !== edit.output) return;
    const values = Float64Array.from(table, units => units * step), found = newValues(axes, masks, values, edit, data.directions);
    addGrid(model, features, values.map((old, cell) => inside[cell] ? found[cell] - old : 0), k);
  });
}

// Score of the rows of the page by the kind of task, whatever the loss of the fit, from predictions (rows, outputs) and targets, for one output.
const LOSSES = {
  classes: ["log-loss", (target, predictions) => -Math.log(Math.max(1e-15, predictions.length === 1 ? target[0] ? predictions[0] : 1 - predictions[0] : predictions[target.indexOf(1)]))],
  numbers: ["root mean squared error", (target, predictions, k) => (target[k] - predictions[k]) ** 2],
  rates: ["root mean squared error", (target, predictions, k) => (target[k] - predictions[k]) ** 2],
  quantiles: ["mean pinball loss", (target, predictions, k, level) => Math.max(level * (target[0] - predictions[k]), (level - 1) * (target[0] - predictions[k]))],
};

// Share of the pairs of which the one at higher risk had its event first; ties of risk count half. A row with an event (1) is
// compared with those still at risk then and with those of a competing event (2), as concordance_estimate does in Python.
function concordance(targets, risks) {
  let right = 0, all = 0;
  targets.forEach(([time, event], i) => targets.forEach(([other, happened], j) => {
    if (event !== 1 || !(other > time || (other === time && happened !== 1) || happened === 2)) return;
    all++;
    right += risks[i] > risks[j] ? 1 : risks[i] === risks[j] ? 0.5 : 0;
  }));
  return all ? right / all : NaN;
}

// Loss before and after, and whether the difference is clear; empty without targets.
function lossWords({task, targets, outputs}, output, before, after) {
  const words = (name, old, now) => ` On these rows the ${name} goes from ${column([old, now], Math.abs(now - old) / 5).join(" to ")}`;
  if (!targets.length) return "";
  if (task === "survival") return `${words("C-index", ...[before, after].map(all => concordance(targets, all.map(([risk]) => risk))))}.`;
  const [name, loss] = LOSSES[task], each = all => all.map((predictions, i) => loss(targets[i], predictions, output, Number(outputs[output])));
  const [old, now] = [before, after].map(each), changes = now.map((x, i) => x - old[i]), mean = list => list.reduce((sum, x) => sum + x, 0) / list.length;
  const middle = mean(changes), error = Math.sqrt(mean(changes.map(x => (x - middle) ** 2)) / changes.length), root = name.startsWith("root") ? Math.sqrt : x => x;
  return `${words(name, root(mean(old)), root(mean(now)))}, ${Math.abs(middle) < NORMAL_95 * error ? "no clear difference" : middle > 0 ? "which is worse" : "which is better"}.`;
}
