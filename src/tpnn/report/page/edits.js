// Edits: main effects changed by dragging or by numbers, as tpnn.AnovaModel.edit changes them.
// What is seen here is exported as an edit file; Python's replay of it is the edited model.

const OPERATIONS = {
  add: "add", set: "set to", scale: "multiply by", limit: "limit to", flatten: "flatten", smooth: "smooth by a share of rows",
  increasing: "make increasing", decreasing: "make decreasing", without: "leave out",
};
const WHOLE = ["increasing", "decreasing", "without"]; // are for a whole effect, and need no number
const DEFAULTS = {add: 0.1, set: 0, scale: 0.5, limit: -1, smooth: 0.05};
const HANDLE_GAP = 9; // pixels between handles, at least
const SMALLEST_GAP = 1e-9; // of ranks of neighbouring nodes, for smoothing

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

// An ordered axis with more nodes, of mass zero; levels and missing values stay.
function finerAxis(axis, places) {
  const old = Array.from(axis.values), all = [...new Set([...old, ...places])].sort((a, b) => a - b);
  if (all.length === old.length) return axis;
  const masses = new Map(old.map((x, node) => [x, axis.weights[node]]));
  const finer = new Axis({size: all.length + (axis.missing ? 1 : 0), missing: axis.missing, unseen: axis.unseen, words: null, groups: null}, Float64Array.from(all));
  finer.weights = Float32Array.from([...all.map(x => masses.get(x) || 0), ...(axis.missing ? [axis.weights[axis.regular]] : [])]);
  return finer;
}

// Ends of a range, and the numbers just outside of it, that must be nodes.
function ends(axis, [low, high]) {
  const first = axis.values[0], last = axis.values[axis.regular - 1];
  return [...(low !== null && low > first ? [low, Math.max(neighbour(low, -1, axis), first)] : []),
    ...(high !== null && high < last ? [high, Math.min(neighbour(high, 1, axis), last)] : [])];
}

// Nodes of a main effect that an edit is for.
function editedNodes(feature, axis, edit) {
  const all = Array.from({length: axis.size}, (_, node) => node), name = feature.name;
  if (edit.points) return edit.points.map(([x]) => axis.values.indexOf(x));
  if (!edit.between && !edit.levels && !edit.missing) return all;
  const [low, high] = edit.between ? edit.between[name] : [Infinity, -Infinity];
  const levels = new Set((edit.levels ? edit.levels[name] : []).map(level => axis.locate(feature.levels.indexOf(level))[0]));
  return all.filter(node => node === axis.regular ? Boolean(edit.missing)
    : levels.has(node) || (axis.values[node] >= (low ?? -Infinity) && axis.values[node] <= (high ?? Infinity)));
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
function monotone(axis, values, shape) {
  const sign = shape === "increasing" ? 1 : -1, pools = [];
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

// New effects of all nodes of a main effect, in raw scores.
function newEffects(axis, nodes, values, edit) {
  if (edit.smooth !== undefined) return smoothed(axis, nodes, values, edit.smooth);
  if (edit.monotone) return monotone(axis, values, edit.monotone);
  if (edit.without) return values.map(() => 0);
  const mass = nodes.reduce((sum, node) => sum + axis.weights[node], 0);
  const mean = mass > 0 ? nodes.reduce((sum, node) => sum + axis.weights[node] * values[node], 0) / mass
    : nodes.reduce((sum, node) => sum + values[node] / nodes.length, 0);
  const found = values.slice(), points = new Map((edit.points || []).map(([x, effect]) => [axis.values.indexOf(x), effect]));
  for (const node of nodes) {
    const old = values[node];
    if (edit.points) found[node] = points.get(node);
    else if (edit.add !== undefined) found[node] = old + edit.add;
    else if (edit.set !== undefined) found[node] = edit.set;
    else if (edit.scale !== undefined) found[node] = old * edit.scale;
    else if (edit.flatten) found[node] = mean;
    else if (edit.limit) found[node] = Math.min(Math.max(old, edit.limit[0] ?? -Infinity), edit.limit[1] ?? Infinity);
  }
  return found;
}

// Change a main effect; its mean moves to the intercept, so that it stays unique.
function applyEdit(model, component, edit) {
  const j = component.features[0], feature = model.data.features[j], old = component.axes[0];
  const places = edit.points ? edit.points.map(([x]) => x) : edit.between && edit.smooth === undefined ? ends(old, edit.between[feature.name]) : [];
  const axis = finerAxis(old, places), step = model.data.packed.step;
  const at = (array, node) => {
    if (axis === old) return array[node];
    if (node === axis.regular) return array[old.regular];
    const [low, fraction] = old.locate(axis.values[node]);
    return array[low] + (fraction ? fraction * (array[low + 1] - array[low]) : 0);
  };
  const nodes = editedNodes(feature, axis, edit), count = Array.from({length: axis.size});
  component.tables = component.tables.map((table, k) => {
    const values = count.map((_, node) => at(table, node) * step);
    if (edit.output !== undefined && model.data.outputs[k] !== edit.output) return Float64Array.from(values, x => x / step);
    const found = newEffects(axis, nodes, values, edit), total = axis.weights.reduce((sum, w) => sum + w, 0);
    const mean = found.reduce((sum, x, node) => sum + axis.weights[node] * (x - values[node]), 0) / total;
    model.data.intercept[k] += mean;
    return Float64Array.from(found, x => (x - mean) / step);
  });
  component.bands = component.bands.map(() => new Float64Array(axis.size));
  component.hasBand = false;
  component.axes = [axis];
  component.shape = [axis.size];
  model.axes[1][j] = axis;
}

// The panel below a main effect, the list of edits, and what they do to the predictions.
class Editor {
  constructor(view) {
    this.view = view;
    this.model = view.model;
    this.edits = [];
    this.past = [];
    this.before = null;
    byId("operation").append(...Object.entries(OPERATIONS).map(([value, words]) => make("option", {value, textContent: words})));
    byId("operation").onchange = () => this.showFields();
    byId("edit-form").onsubmit = event => { event.preventDefault(); this.fromForm(); };
    byId("edit-undo").onclick = () => this.undo();
    byId("edit-export").onclick = () => this.export();
    byId("edit").ontoggle = () => view.showChart();
    this.showFields();
    this.showEdits();
  }

  get component() { return this.view.data.components[this.view.chosen]; }

  get feature() { return this.view.data.features[this.component.features[0]]; }

  // The panel for a component; handles on its nodes can be dragged while the panel is open.
  show(component, drawing) {
    const isMain = component.features.length === 1;
    byId("edit").hidden = !isMain;
    if (!isMain) return;
    if (this.shown !== component) this.showPlaces(component);
    if (!byId("edit").open || !drawing.handles) return;
    let last = null;
    for (const {node, x, y} of drawing.handles) {
      if (last && Math.hypot(x - last.x, y - last.y) < HANDLE_GAP) continue;
      last = {x, y};
      const handle = element("circle", {class: "handle", cx: x, cy: y, r: 4, fill: palette().paper, stroke: palette().low, "stroke-width": 1.6, "data-node": node});
      handle.onpointerdown = event => this.drag(event, drawing, node);
      handle.onclick = event => event.stopPropagation();
      drawing.svg.append(handle);
    }
  }

  showPlaces(component) {
    this.shown = component;
    const axis = component.axes[0], feature = this.feature, kind = feature.kind === "date" ? "date" : "number";
    const hasLevels = axis.words !== null;
    byId("edit-range").hidden = hasLevels;
    byId("edit-levels").hidden = !hasLevels;
    for (const id of ["edit-from", "edit-to"]) Object.assign(byId(id), {type: kind, value: ""});
    byId("edit-unit").textContent = feature.kind === "duration" ? "days" : "";
    byId("edit-nodes").replaceChildren(...(axis.words || []).slice(0, axis.regular - (axis.unseen ? 1 : 0)).map((word, node) => make("option", {value: node, textContent: word})));
    byId("edit-missing-label").hidden = !axis.missing;
    byId("edit-missing").checked = false;
  }

  showFields() {
    const operation = byId("operation").value;
    byId("edit-value").hidden = operation === "flatten" || WHOLE.includes(operation);
    byId("edit-high").hidden = operation !== "limit";
    byId("edit-value").value = DEFAULTS[operation] ?? "";
    if (operation === "limit") byId("edit-high").value = -DEFAULTS.limit;
  }

  // A number that was typed: dates and durations in seconds; null without one.
  typed(id) {
    const field = byId(id), unit = this.feature.kind === "duration" ? DAY : 1;
    const x = field.type === "date" ? field.valueAsNumber / 1000 : field.valueAsNumber * unit;
    return Number.isNaN(x) ? null : x;
  }

  fromForm() {
    const operation = byId("operation").value, name = this.feature.name, edit = {component: [name]};
    const axis = this.component.axes[0], [low, high] = [this.typed("edit-from"), this.typed("edit-to")];
    const chosen = [...byId("edit-nodes").selectedOptions].map(option => +option.value);
    if (axis.words === null && (low !== null || high !== null)) edit.between = {[name]: [low, high]};
    if (axis.words !== null && chosen.length) edit.levels = {[name]: this.levelsOf(axis, chosen)};
    if (byId("edit-missing").checked) edit.missing = [name];
    const value = byId("edit-value").valueAsNumber;
    if (operation === "without") edit.without = true;
    else if (WHOLE.includes(operation)) edit.monotone = operation;
    else edit[operation] = operation === "flatten" ? true : operation === "limit" ? [value, byId("edit-high").valueAsNumber] : value;
    const wrong = this.wrong(axis, edit, operation);
    byId("edit-problem").textContent = wrong;
    if (!wrong) this.apply(edit);
  }

  levelsOf(axis, nodes) {
    const wanted = new Set(nodes);
    return this.feature.levels.filter((_, level) => wanted.has(axis.locate(level)?.[0]));
  }

  wrong(axis, edit, operation) {
    const [low, high] = edit.between ? edit.between[this.feature.name] : [null, null], j = this.component.features[0];
    if (WHOLE.includes(operation) && (edit.between || edit.levels || edit.missing)) return "This is for the whole effect: leave the values out.";
    if (edit.monotone && axis.groups) return "These levels have no order.";
    if (edit.monotone && this.view.data.components.some(one => one.features.length > 1 && one.features.includes(j))) return "This feature has interactions: make the model monotone in Python, which changes them too.";
    if (low !== null && high !== null && low > high) return "From must not exceed to.";
    const first = axis.values[0], last = axis.values[axis.regular - 1];
    if ((low !== null && low > last) || (high !== null && high < first)) return `The model knows values from ${valueWord(this.feature, first)} to ${valueWord(this.feature, last)}: choose a range among them.`;
    if (operation === "flatten" || WHOLE.includes(operation)) return "";
    if ([edit[operation]].flat().some(x => !Number.isFinite(x))) return "A number is needed.";
    if (operation === "limit" && edit.limit[0] > edit.limit[1]) return "The lower limit must not exceed the upper.";
    if (operation === "smooth" && !(edit.smooth > 0 && edit.smooth <= 1)) return "A share of the rows is above 0 and at most 1.";
    return operation === "smooth" && axis.groups ? "These levels have no order to smooth along." : "";
  }

  // Drag a node: the edit follows the pointer, on the scale that the chart had at first.
  drag(event, drawing, node) {
    event.preventDefault();
    const {component, feature} = this, axis = component.axes[0], svg = drawing.svg;
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width, range = drawing.range;
    const digits = 10 ** (Math.floor(Math.log10(range)) - 3);
    const begin = this.past.length;
    const move = ({clientX, clientY}) => {
      const effect = drawing.effectAt((clientX - box.left) * scale, (clientY - box.top) * scale);
      const rounded = +(Math.round(effect / digits) * digits).toPrecision(6);
      while (this.past.length > begin) this.restore();
      const place = node === axis.regular ? {missing: [feature.name], set: rounded}
        : axis.words ? {levels: {[feature.name]: this.levelsOf(axis, [node])}, set: rounded} : {points: [[axis.values[node], rounded]]};
      this.apply({component: [feature.name], ...place});
    };
    const stop = () => { window.removeEventListener("pointermove", move); window.removeEventListener("pointerup", stop); };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", stop);
  }

  apply(edit) {
    const {data, output} = this.view, component = data.components.find(one => one.names.length === 1 && one.names[0] === edit.component[0]);
    this.before ??= data.rows.map((row, i) => this.model.explain(row, data.offsets[i]).predictions);
    const {tables, bands, hasBand, axes, shape, first} = component;
    this.past.push({component, kept: {tables, bands, hasBand, axes, shape, first}, intercept: data.intercept.slice()});
    component.first ??= {axis: axes[0], tables};
    if (data.outputs.length && edit.output === undefined && !edit.monotone && !edit.without) edit.output = data.outputs[output];
    applyEdit(this.model, component, edit);
    this.edits.push({...edit, why: byId("edit-why").value, by: byId("edit-by").value, when: new Date().toISOString().replace(/\.\d+Z$/, "Z")});
    this.refresh();
  }

  restore() {
    const {component, kept, intercept} = this.past.pop();
    this.edits.pop();
    Object.assign(component, kept);
    this.model.axes[1][component.features[0]] = kept.axes[0];
    this.view.data.intercept = intercept;
  }

  undo() {
    if (this.past.length) this.restore();
    this.refresh();
  }

  refresh() {
    this.view.tabled = null;
    this.view.update();
    this.showEdits();
  }

  showEdits() {
    const words = ({component, why, by, when, output, ...edit}) => {
      const isPlace = ([key]) => ["between", "levels", "points"].includes(key), all = Object.entries(edit);
      const part = ([key, value]) => `${isPlace([key]) ? "" : OPERATIONS[key] || key} ${this.valueWords(key, value, component[0])}`.trim();
      return `${component[0]}${output === undefined ? "" : ` (${output})`}: ${all.map(part).join(", ")}${why ? ` – ${why}` : ""}`;
    };
    byId("edits").hidden = !this.edits.length;
    fold(byId("edit-list"), this.edits.map(edit => make("li", {textContent: words(edit)})));
    byId("edit-undo").disabled = byId("edit-export").disabled = !this.edits.length;
    byId("edit-effect").textContent = this.edits.length ? this.effectWords() : "";
    this.showCase();
  }

  valueWords(key, value, name) {
    const feature = this.view.data.features.find(one => one.name === name);
    if (key === "between") return value[name].map(x => x === null ? "…" : valueWord(feature, x)).join(" to ");
    if (key === "levels") return value[name].join(", ");
    if (key === "points") return value.map(([x, effect]) => `${valueWord(feature, x)} → ${shortNumber(effect)}`).join(", ");
    if (key === "limit") return value.map(x => shortNumber(x)).join(" to ");
    return value === true || key === "missing" ? "" : key === "monotone" ? value : shortNumber(value);
  }

  // Predictions of the model before all edits.
  firstPredictions(values, offset) {
    const was = component => component.first ? {...component, axes: [component.first.axis], tables: component.first.tables} : component;
    const all = this.view.data.components.map(was), intercept = this.past[0].intercept;
    const raw = this.model.perOutput((_, k) => all.reduce((sum, component) => sum + this.model.score(component, values, k), intercept[k] + offset));
    return LINKS[this.view.data.link](raw);
  }

  showCase() {
    if (!this.past.length) return;
    const {values, offset, output, answer} = this.view, old = this.firstPredictions(values, offset)[output];
    byId("edit-case").textContent = `The case above: ${shortNumber(old)} → ${shortNumber(answer.predictions[output])}.`;
  }

  // What all edits together do to the rows of the page, for the output shown.
  effectWords() {
    const {data, output} = this.view, old = this.before.map(row => row[output]);
    if (!old.length) return "This report was written without rows.";
    const now = data.rows.map((row, i) => this.model.explain(row, data.offsets[i]).predictions[output]);
    const mean = list => list.reduce((sum, x) => sum + x, 0) / list.length, size = Math.max(...old.map(Math.abs), 1e-300);
    const change = now.map((x, i) => Math.abs(x - old[i]) > 1e-9 * size ? x - old[i] : 0), count = change.filter(x => x !== 0).length;
    const flips = data.link === "logit" ? ` ${now.filter((x, i) => (x >= 0.5) !== (old[i] >= 0.5)).length} cross a probability of 0.5.` : "";
    return `${count} of ${old.length} rows change, by ${signed(Math.min(...change))} to ${signed(Math.max(...change))}; the mean prediction goes from ${shortNumber(mean(old))} to ${shortNumber(mean(now))}.${flips}`;
  }

  export() {
    const document = {format: "tpnn-edits", version: 1, model: this.view.data.digest, edits: this.edits};
    download("edits.json", "application/json", JSON.stringify(document, null, 1) + "\n");
  }
}
