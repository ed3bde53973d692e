// The editor: the panel below a component, by dragging or by numbers, the list of edits, and what they do to the predictions.

const OPERATIONS = {
  add: "add", set: "set to", scale: "multiply by", limit: "limit to", flatten: "flatten", smooth: "smooth by a share of rows",
  without: "leave out",
};
const DEFAULTS = {add: 0.1, set: 0, scale: 0.5, limit: -1, smooth: 0.05};
const HANDLE_GAP = 9; // pixels between handles, at least
const DRAG_LENGTH = 4; // pixels from which on a click is a drag
const BRUSH = {width: 0.08, least: 0.01, most: 0.5, step: 1.2}; // standard deviation of the brush, as a share of the axis
const FAINTEST = 0.003; // of the move of a point, below which its neighbours stay
const EDGE = 3; // pixels from the edge of a heat map within which a range has no end
const EDITABLE = ["tables", "bands", "ratioBands", "hasBand", "axes", "shape", "strides", "first", "base", "limits", "faded", "hatched"]; // of a component

const NOTES = {
  1: "Drag a point: its neighbours follow, as far as the brush is wide. The keys [ and ] and the wheel change the brush while you drag; with Shift the point moves alone. With a keyboard, fill in the form. Every row in the range, ends included, changes by exactly the edit; the mean of the change moves to the average prediction.",
  2: "Drag over the heat map to select cells, or, with a keyboard, fill in the form; an empty field is no limit. Every row in both ranges, ends included, changes by exactly the edit. What the change is on average along each feature moves to the main effects, and its mean to the average prediction.",
  3: "Drag over the heat map to select cells of the first two features, and choose values of the others in the form; an empty field is no limit. Every row in all ranges, ends included, changes by exactly the edit. What the change is on average along some of the features moves to lower orders.",
};

// A range in words.
function rangeWords(feature, [low, high]) {
  const word = x => valueWord(feature, x);
  return low === null ? `up to ${word(high)}` : high === null ? `from ${word(low)}` : `${word(low)} to ${word(high)}`;
}

// Follow the pointer until its button is up.
function follow(move, end = () => {}) {
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", () => { window.removeEventListener("pointermove", move); end(); }, {once: true});
}

// The fields that say for which values of one feature an edit is.
class Place {
  constructor(feature, axis, number) {
    const id = name => `edit-${name}${number ? `-${number + 1}` : ""}`;
    Object.assign(this, {feature, hasLevels: feature.levels.length > 0, ends: [axis.values[0], axis.values[axis.regular - 1]]});
    const field = (name, words) => {
      const made = make("input", {id: id(name), type: feature.kind === "date" ? "date" : "number", step: "any", className: "field"});
      made.setAttribute("aria-label", `${words} value of ${feature.name}`);
      return made;
    };
    this.row = make("div", {className: "place"}, nameTag([feature.name], "b"));
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", feature.name);
    if (this.hasLevels) {
      this.levels = make("select", {id: id("nodes"), multiple: true, size: Math.min(4, feature.levels.length)}, ...feature.levels.map((level, value) => make("option", {value, textContent: level})));
      this.row.append(make("label", {}, "levels ", this.levels));
    } else {
      this.from = field("from", "Smallest");
      this.to = field("to", "Largest");
      this.row.append(make("span", {className: "range"}, "from ", this.from, " to ", this.to, feature.kind === "duration" ? " days" : ""));
    }
    this.missing = make("input", {id: id("missing"), type: "checkbox"});
    this.row.append(Object.assign(make("label", {}, this.missing, " missing"), {hidden: !axis.missing}));
  }

  // A number that was typed: dates and durations in seconds; null without one.
  typed(field) {
    const x = field.type === "date" ? field.valueAsNumber / 1000 : field.valueAsNumber * (this.feature.kind === "duration" ? DAY : 1);
    return Number.isNaN(x) ? null : x;
  }

  // What the fields say, as an edit has it.
  read() {
    const found = {}, {name} = this.feature;
    if (this.hasLevels) {
      const chosen = [...this.levels.selectedOptions].map(option => this.feature.levels[option.value]);
      if (chosen.length) found.levels = {[name]: chosen};
    } else {
      const range = [this.typed(this.from), this.typed(this.to)];
      if (range.some(end => end !== null)) found.between = {[name]: range};
    }
    if (this.missing.checked) found.missing = [name];
    return found;
  }

  where() { return whereOf(this.feature, this.read()); }

  // Fill the fields: ends of a range, numbers of levels, and whether missing values belong to it.
  fill({low = null, high = null, levels = [], missing = false}) {
    const isDate = this.feature.kind === "date", unit = this.feature.kind === "duration" ? DAY : 1;
    const word = x => x === null ? "" : isDate ? new Date(x * 1000).toISOString().slice(0, 10) : String(x / unit);
    if (this.hasLevels) [...this.levels.options].forEach((option, level) => { option.selected = levels.includes(level); });
    else Object.assign(this.from, {value: word(low)}) && Object.assign(this.to, {value: word(high)});
    this.missing.checked = missing;
  }

  words() {
    const {between, levels, missing, isAll} = this.where();
    const parts = [...(between ? [rangeWords(this.feature, between)] : []), ...(levels || []).map(level => this.feature.levels[level]), ...(missing ? ["missing"] : [])];
    return `${this.feature.name}: ${isAll ? "all values" : parts.join(", ")}`;
  }

  // Whether a value belongs to it; what lies beyond the outer nodes is as they are.
  holds(x) {
    const {between, levels, missing, isAll} = this.where(), near = Math.min(Math.max(x, this.ends[0]), this.ends[1]);
    if (isAll || x === null) return isAll || missing;
    return levels ? levels.includes(x) : between !== null && near >= (between[0] ?? -Infinity) && near <= (between[1] ?? Infinity);
  }
}

class Editor {
  constructor(view) {
    this.view = view;
    this.model = view.model;
    this.edits = [];
    this.past = [];
    this.before = null;
    this.recalled = 0; // edits of an earlier visit, which come first
    this.shapes = Object.keys(view.data.directions); // are for main effects
    this.whole = [...this.shapes, "without"]; // are for a whole effect, and need no number
    const operations = [...Object.entries(OPERATIONS), ...this.shapes.map(shape => [shape, `make ${shape}`])];
    byId("operation").append(...operations.map(([value, words]) => make("option", {value, textContent: words})));
    byId("operation").onchange = () => this.showFields();
    byId("edit-places").oninput = () => this.showSelection();
    byId("edit-form").onsubmit = event => { event.preventDefault(); this.fromForm(); };
    byId("edit-all").onclick = () => { this.places.forEach(place => place.fill({})); this.showSelection(); };
    byId("edit-undo").onclick = () => this.undo();
    byId("edited-leave").onclick = () => this.leave();
    byId("edit-by").oninput = event => { this.edits.forEach(edit => { edit.by = event.target.value; }); this.keep(); };
    byId("brush").oninput = event => this.setBrush(+event.target.value);
    this.setBrush(BRUSH.width);
    window.addEventListener("keydown", event => this.onKey(event));
    window.addEventListener("beforeunload", event => { if (this.edits.length && !this.isKept) event.preventDefault(); });
    byId("edit-export").onclick = () => this.export();
    byId("edit").ontoggle = () => view.showChart();
    this.showFields();
    this.showEdits();
  }

  // Edits of an earlier visit, which the browser has kept.
  recall() {
    try {
      JSON.parse(this.stored("getItem") || "[]").forEach(edit => this.apply(edit, false));
    } catch {
      while (this.past.length) this.restore(); // damaged, or made by another version of the page
    }
    this.recalled = this.edits.length;
    byId("edit-by").value = this.edits.at(-1)?.by || "";
    if (this.recalled) this.refresh();
  }

  // Without the edits of an earlier visit; those made since then stay.
  leave() {
    const since = this.edits.slice(this.recalled);
    while (this.past.length) this.restore();
    since.forEach(edit => this.apply(edit, false));
    this.refresh();
  }

  // The browser's place for the edits of this model; some frames have none.
  stored(method, ...items) {
    try { return localStorage[method](`tpnn edits ${this.view.data.digest}`, ...items); } catch { this.isKept = false; return null; }
  }

  keep() {
    this.isKept = true;
    const text = JSON.stringify(this.edits);
    if (this.edits.length) this.stored("setItem", text); else this.stored("removeItem");
    window.frameElement?.dispatchEvent(new CustomEvent("tpnn-edits", {detail: text})); // a notebook's widget listens
  }

  setBrush(width) {
    this.brush = Math.min(Math.max(width, BRUSH.least), BRUSH.most);
    byId("brush").value = this.brush;
    this.dragged?.again();
  }

  onKey(event) {
    const step = {"[": 1 / BRUSH.step, "]": BRUSH.step}[event.key];
    if (step && byId("edit").open && !["INPUT", "SELECT"].includes(event.target.tagName)) this.setBrush(this.brush * step);
  }

  get component() { return this.view.data.components[this.view.chosen]; }

  featureOf(name) { return this.view.data.features.find(one => one.name === name); }

  mainAxis(feature) { return this.model.axes[1][this.view.data.features.indexOf(feature)]; }

  // The panel for a component; while it is open, nodes can be dragged, and cells selected.
  show(component, drawing) {
    if (this.shown !== component) this.showPlaces(component);
    this.drawing = drawing;
    if (!byId("edit").open) return;
    if (component.features.length > 1) this.showSelectable(drawing);
    else this.showHandles(drawing);
    this.showSelection();
  }

  showHandles(drawing) {
    let last = null;
    for (const {node, x, y} of drawing.handles) {
      if (last && Math.hypot(x - last.x, y - last.y) < HANDLE_GAP) continue;
      last = {x, y};
      const handle = element("circle", {class: "handle", cx: x, cy: y, r: 4, fill: palette().paper, stroke: palette().low, "stroke-width": 1.6, "data-node": node});
      handle.onpointerdown = event => this.drag(event, drawing, node);
      handle.onclick = event => event.stopPropagation();
      drawing.svg.append(handle);
    }
    this.showBrush(drawing);
  }

  showPlaces(component) {
    this.shown = component;
    const order = component.features.length;
    byId("edit-name").textContent = order === 1 ? "Edit this effect" : "Edit this interaction";
    byId("brush-pick").hidden = order > 1 || component.axes[0].words !== null;
    byId("edit-note").textContent = `${NOTES[Math.min(order, 3)]} Importance and scores on this page stay those before the edits.`;
    this.places = component.features.map((j, a) => new Place(this.view.data.features[j], this.model.axes[1][j], a));
    byId("edit-places").replaceChildren(...this.places.map(place => place.row));
    for (const option of byId("operation").options) option.hidden = option.disabled = order > 1 && this.shapes.includes(option.value);
    if (byId("operation").selectedOptions[0].disabled) byId("operation").value = "add";
    byId("edit-problem").textContent = "";
    this.showFields();
  }

  showFields() {
    const operation = byId("operation").value;
    byId("edit-value").hidden = operation === "flatten" || this.whole.includes(operation);
    byId("edit-high").hidden = operation !== "limit";
    byId("edit-value").value = DEFAULTS[operation] ?? "";
    if (operation === "limit") byId("edit-high").value = -DEFAULTS.limit;
  }

  // Heat maps: what is dragged over becomes the values of the form, so that it can be seen and changed there.
  showSelectable(drawing) {
    drawing.svg.style.touchAction = "none";
    drawing.svg.onpointerdown = event => this.select(event, drawing);
    drawing.selection = element("g", {class: "selection", "pointer-events": "none"});
    drawing.svg.append(drawing.selection);
  }

  select(event, drawing) {
    const {svg, scales: [x, y]} = drawing, box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const at = ({clientX, clientY}) => [(clientX - box.left) * scale, (clientY - box.top) * scale];
    const first = at(event), within = (scale, pixel) => (pixel - scale.from) * (pixel - scale.to) <= 0;
    if (!within(x, first[0]) || !within(y, first[1])) return;
    event.preventDefault();
    let hasMoved = false;
    const move = event => {
      const last = at(event);
      hasMoved ||= Math.hypot(last[0] - first[0], last[1] - first[1]) > DRAG_LENGTH;
      if (!hasMoved) return;
      [x, y].forEach((scale, a) => this.places[a].fill(this.span(scale, first[a], last[a])));
      this.showSelection();
    };
    follow(move, () => {
      const {onclick} = svg;
      if (hasMoved) svg.onclick = null; // a drag moves no case
      setTimeout(() => { svg.onclick = onclick; });
    });
  }

  // Values between two pixels of a heat map.
  span(scale, one, two) {
    const {axis, feature, from, to, end} = scale, way = Math.sign(to - from), inside = pixel => way * Math.min(Math.max(way * pixel, way * from), way * to);
    const [first, last] = [inside(one), inside(two)].sort((a, b) => way * (a - b)), missing = axis.missing && way * (last - scale.strip[0]) > 0;
    if (missing && way * (first - end) >= 0) return {missing};
    const isFirst = way * (first - from) < EDGE, isLast = way * (end - last) < EDGE;
    if (isFirst && isLast && missing === axis.missing) return {};
    if (feature.levels.length) return {levels: this.levelNumbers(feature, axis, scale.node(first), scale.node(way * Math.min(way * last, way * end))), missing};
    const main = this.mainAxis(feature), rounded = pixel => this.view.rounded(feature, main, scale.value(pixel));
    const low = isFirst ? isLast ? main.values[0] : null : rounded(first);
    return {low, high: isLast ? null : Math.max(rounded(last), low ?? -Infinity), missing};
  }

  levelNumbers(feature, axis, first, last) {
    return feature.levels.flatMap((_, level) => {
      const [node, fraction] = axis.locate(level), at = node + fraction;
      return at >= first && at <= last ? [level] : [];
    });
  }

  // The cells of the form on the heat map, and how many of the rows are in them.
  showSelection() {
    const {component, places} = this, {data} = this.view, isSome = places.some(place => !place.where().isAll);
    if (component.features.length > 1 && this.drawing.selection) this.outline(isSome);
    const count = data.rows.filter(row => component.features.every((j, a) => places[a].holds(row[j]))).length;
    byId("edit-selected").textContent = `${places.map(place => place.words()).join("; ")}.` + (data.rows.length ? ` ${count} of the ${data.rows.length} rows of this page are in it.` : "");
  }

  outline(isSome) {
    const {selection, scales} = this.drawing, colours = palette();
    const [across, down] = scales.map((scale, a) => this.intervals(scale, this.places[a].where()));
    const boxes = isSome ? across.flatMap(([x1, x2]) => down.map(([y1, y2]) => ({x: Math.min(x1, x2), y: Math.min(y1, y2), width: Math.max(2, Math.abs(x2 - x1)), height: Math.max(2, Math.abs(y2 - y1))}))) : [];
    selection.replaceChildren(...boxes.flatMap(box => [
      element("rect", {...box, fill: "none", stroke: colours.paper, "stroke-width": 4}), element("rect", {...box, fill: "none", stroke: colours.ink, "stroke-width": 1.8, "stroke-dasharray": "6 3"})]));
  }

  // Pixels from which to which a heat map shows some values.
  intervals(scale, {between, levels, missing, isAll}) {
    if (isAll) return [[scale.from, scale.to]];
    const clamped = (x, edge) => x === null ? edge : scale.pixel(x);
    const nodes = new Set((levels || []).map(level => { const [node, fraction] = scale.axis.locate(level); return node + Math.round(fraction); }));
    const starts = [...nodes].filter(node => !nodes.has(node - 1)), last = node => nodes.has(node + 1) ? last(node + 1) : node;
    return [...(between ? [[clamped(between[0], scale.from), clamped(between[1], scale.end)]] : []),
      ...starts.map(node => [scale.at(node - 0.5), scale.at(last(node) + 0.5)]), ...(missing ? [scale.strip] : [])];
  }

  fromForm() {
    const operation = byId("operation").value, edit = {component: this.component.names.slice()};
    for (const found of this.places.map(place => place.read())) {
      for (const key of ["between", "levels"]) if (found[key]) edit[key] = {...edit[key], ...found[key]};
      if (found.missing) edit.missing = [...(edit.missing || []), ...found.missing];
    }
    const value = byId("edit-value").valueAsNumber;
    if (operation === "without") edit.without = true;
    else if (this.whole.includes(operation)) edit.shape = operation;
    else edit[operation] = operation === "flatten" ? true : operation === "limit" ? [value, byId("edit-high").valueAsNumber] : value;
    const wrong = this.wrong(edit, operation);
    byId("edit-problem").textContent = wrong;
    if (!wrong) this.apply(edit);
  }

  levelsOf(feature, axis, nodes) {
    const wanted = new Set(nodes);
    return feature.levels.filter((_, level) => wanted.has(axis.locate(level)?.[0]));
  }

  wrong(edit, operation) {
    const {component} = this, isLimited = edit.between || edit.levels || edit.missing;
    if (this.whole.includes(operation) && isLimited) return "This is for the whole effect: leave the values out.";
    if (edit.shape && component.axes[0].groups) return "These levels have no order.";
    if (edit.shape && this.view.data.components.some(one => one.features.length > 1 && one.features.includes(component.features[0]))) return "This feature has interactions: make the model monotone in Python, which changes them too.";
    const range = this.places.map(place => this.wrongRange(place)).find(Boolean);
    if (range) return range;
    if (operation === "flatten" || this.whole.includes(operation)) return "";
    if ([edit[operation]].flat().some(x => !Number.isFinite(x))) return "A number is needed.";
    if (operation === "limit" && edit.limit[0] > edit.limit[1]) return "The lower limit must not exceed the upper.";
    if (operation === "smooth" && !(edit.smooth > 0 && edit.smooth <= 1)) return "A share of the rows is above 0 and at most 1.";
    return operation === "smooth" && component.axes.every(axis => axis.groups) ? "These levels have no order to smooth along." : "";
  }

  // Why a range is none of the model's; of a pair, by name.
  wrongRange(place) {
    const {feature} = place, axis = this.mainAxis(feature), [low, high] = place.where().between || [null, null];
    const about = this.places.length > 1 ? `${feature.name}: ` : "";
    if (low !== null && high !== null && low > high) return about + "From must not exceed to.";
    const first = axis.values[0], last = axis.values[axis.regular - 1], isOutside = (low !== null && low > last) || (high !== null && high < first);
    return isOutside ? `${about}The model knows values from ${valueWord(feature, first)} to ${valueWord(feature, last)}: choose a range among them.` : "";
  }

  // Drag a node: the edit follows the pointer, on the scale that the chart had at first.
  drag(event, drawing, node) {
    event.preventDefault();
    const {svg, effectAt} = drawing, box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const begin = this.past.length, change = this.changeOf(drawing, node);
    let last = null;
    const move = pointer => {
      last = pointer;
      while (this.past.length > begin) this.restore();
      this.apply(change(effectAt((pointer.clientX - box.left) * scale, (pointer.clientY - box.top) * scale), pointer.shiftKey));
    };
    const turn = wheel => { wheel.preventDefault(); this.setBrush(this.brush * (wheel.deltaY < 0 ? BRUSH.step : 1 / BRUSH.step)); };
    this.dragged = {node, again: () => { if (last) move(last); }};
    window.addEventListener("wheel", turn, {passive: false});
    follow(move, () => {
      this.dragged = null;
      window.removeEventListener("wheel", turn);
      this.view.showChart();
      if (this.past.length > begin) byId("edit-list").querySelector("input").focus(); // why?
    });
  }

  // The edit by which a node gets an effect; its neighbours follow it unless it moves alone.
  changeOf({place, x, range}, node) {
    const {component} = this, {output} = this.view, [feature] = this.places.map(one => one.feature), [axis] = component.axes;
    const digits = 10 ** (Math.floor(Math.log10(range)) - 3), rounded = effect => +(Math.round(effect / digits) * digits).toPrecision(6);
    const effects = Array.from({length: axis.regular}, (_, other) => this.model.atNode(component, other, output)[0]), of = {component: [feature.name]};
    const round = axis.wraps ? place(axis.regular - 1) - place(0) : Infinity; // the end of a period is its beginning
    const apart = other => { const distance = Math.abs(place(other) - place(node)); return Math.min(distance, round - distance); };
    if (node === axis.missingNode) return effect => ({...of, missing: [feature.name], set: rounded(effect)});
    if (feature.levels.length) return effect => ({...of, levels: {[feature.name]: this.levelsOf(feature, axis, [node])}, set: rounded(effect)});
    return (effect, isAlone) => {
      const moved = rounded(effect), points = effects.map((old, other) => {
        const weight = other === node ? 1 : isAlone || axis.words ? 0 : this.weight(x, apart(other));
        return weight >= FAINTEST ? [axis.values[other], other === node ? moved : +(old + weight * (moved - effects[node])).toPrecision(9)] : null;
      });
      return {...of, points: points.filter(Boolean)};
    };
  }

  // How far a place follows another one at a distance in pixels.
  weight(x, distance) { return Math.exp(-((distance / (this.brush * (x.end - x.from))) ** 2) / 2); }

  // The brush over the density, while a point is dragged.
  showBrush({svg, x, place, bottom}) {
    if (!this.dragged || !x || x.isLevels || this.dragged.node === x.axis.missingNode) return;
    const middle = place(this.dragged.node), along = Array.from({length: 61}, (_, i) => x.from + i / 60 * (x.end - x.from));
    const points = along.map(at => `${at},${bottom - 40 * this.weight(x, at - middle)}`);
    svg.append(element("polygon", {class: "brush", points: [`${x.from},${bottom}`, ...points, `${x.end},${bottom}`].join(" "), fill: palette().high, opacity: 0.22, "pointer-events": "none"}));
  }

  apply(edit, isShown = true) {
    const {data, output} = this.view, component = this.model.componentOf(edit.component.map(name => data.features.indexOf(this.featureOf(name))));
    this.before ??= this.predictions();
    const state = this.state();
    this.past.push(state);
    if (data.outputs.length && edit.output === undefined && !edit.shape && !edit.without) edit.output = data.outputs[output];
    const {why, by, when, ...change} = edit;
    applyEdit(this.model, component, change);
    data.components.forEach((one, i) => {
      const old = state.components[i];
      if (old && one.features.length === 1 && one.tables !== old.tables) one.first ??= {axis: old.axes[0], tables: old.tables};
    });
    this.edits.push({...change, why: why ?? "", by: by ?? byId("edit-by").value, when: when ?? new Date().toISOString().replace(/\.\d+Z$/, "Z")});
    if (isShown) this.refresh();
  }

  // Predictions of the rows of the page.
  predictions() {
    const {rows, offsets} = this.view.data;
    return rows.map((row, i) => this.model.explain(row, offsets[i]).predictions);
  }

  // What an edit can change, to come back to: arrays are replaced by an edit, never written into.
  state() {
    const {data, axes} = this.model, kept = component => Object.fromEntries(EDITABLE.map(key => [key, component[key]]));
    return {axes, intercept: data.intercept.slice(), components: data.components.map(kept)};
  }

  restore() {
    const {axes, intercept, components} = this.past.pop(), {data} = this.model;
    this.edits.pop();
    this.recalled = Math.min(this.recalled, this.edits.length);
    this.model.axes = axes;
    data.intercept = intercept;
    data.components.length = components.length; // without those that the edit created
    data.components.forEach((component, i) => Object.assign(component, components[i]));
  }

  undo() {
    if (this.past.length) this.restore();
    this.refresh();
  }

  refresh() {
    this.keep();
    byId("edited").hidden = !this.recalled;
    this.view.tabled = null;
    this.view.story.others = this.predictions();
    this.view.relist();
    this.view.update();
    this.view.overview.show();
    this.showEdits();
  }

  // An edit as a sentence.
  words({component, why, by, when, output, ...edit}) {
    const isPlace = key => ["between", "levels", "missing", "points"].includes(key), isOne = component.length === 1;
    const places = component.flatMap(name => {
      const {between, levels, missing} = whereOf(this.featureOf(name), edit);
      const parts = [...(between ? [rangeWords(this.featureOf(name), between)] : []), ...(levels ? [edit.levels[name].join(", ")] : []), ...(missing ? ["missing"] : [])];
      return parts.length ? [(isOne ? "" : `${name} `) + parts.join(", ")] : [];
    });
    const what = Object.entries(edit).filter(([key]) => !isPlace(key)).map(([key, value]) => `${OPERATIONS[key] || key} ${this.valueWords(key, value)}`.trim());
    const points = this.pointWords(component[0], edit.points || []);
    return `${component.join(" × ")}${output === undefined ? "" : ` (${output})`}: ${[...places, ...points, ...what].join(", ")}${why ? ` – ${why}` : ""}`;
  }

  // Points that were moved: a few each, many by the range that they span.
  pointWords(name, points) {
    const word = x => valueWord(this.featureOf(name), x);
    if (points.length <= 3) return points.map(([x, effect]) => `${word(x)} → ${valueNumber(effect)}`);
    return [`${points.length} points from ${word(points[0][0])} to ${word(points.at(-1)[0])} moved`];
  }

  valueWords(key, value) {
    if (key === "limit") return value.map(valueNumber).join(" to ");
    return value === true ? "" : key === "shape" ? value : valueNumber(value);
  }

  showEdits() {
    byId("edits").hidden = !this.edits.length;
    fold(byId("edit-list"), this.edits.map((edit, i) => this.item(edit, i)).reverse());
    byId("edit-asked").textContent = "";
    byId("edit-undo").disabled = byId("edit-export").disabled = !this.edits.length;
    byId("edit-effect").textContent = this.edits.length ? this.effectWords() : "";
    this.showCase();
  }

  // An edit in the list, the last one first, with a field for its reason.
  item(edit, place) {
    const field = make("input", {className: "field", value: edit.why, placeholder: "why?", oninput: () => { edit.why = field.value; this.keep(); }});
    field.setAttribute("aria-label", `Why edit ${place + 1} was made`);
    return make("li", {value: place + 1}, make("span", {textContent: this.words({...edit, why: ""})}), field);
  }

  // The edits on paper, above the components that they changed.
  printed() {
    if (!this.edits.length) return [];
    const list = make("ol", {}, ...this.edits.map(edit => make("li", {textContent: `${this.words(edit)} (${[edit.by, edit.when].filter(Boolean).join(", ")})`})));
    const note = "The components below and the case are those after these edits, which were made in this page; importance and scores are those before them.";
    return [make("div", {className: "card edited"}, make("h3", {textContent: "Edits in this page"}), make("p", {className: "note", textContent: note}), list, make("p", {className: "note", textContent: this.effectWords()}))];
  }

  // Predictions of the model before all edits.
  firstPredictions(values, offset) {
    const {intercept, components} = this.past[0], all = components.map((kept, i) => ({...this.view.data.components[i], ...kept}));
    const rest = this.model.rest(values);
    const raw = this.model.perOutput((_, k) => all.reduce((sum, component) => sum + this.model.score(component, values, k), intercept[k] + offset + (rest?.[k] ?? 0)));
    return LINKS[this.view.data.link](raw);
  }

  // Effect of a component before all edits; null where none has changed it.
  firstEffect(component, values, output) {
    if (!this.past.length) return null;
    const place = this.view.data.components.indexOf(component), kept = this.past[0].components[place];
    if (!kept) return 0;
    return kept.tables === component.tables ? null : this.model.score({...component, ...kept}, values, output);
  }

  showCase() {
    if (!this.past.length) return;
    const {values, offset, output, answer} = this.view, old = this.firstPredictions(values, offset)[output];
    byId("edit-case").textContent = `The case above: ${[old, answer.predictions[output]].map(x => this.view.word(x)).join(" → ")}.`;
  }

  // What all edits together do to the rows of the page, for the output shown.
  effectWords() {
    const {data, output, story} = this.view, old = this.before.map(row => row[output]);
    if (!old.length) return "This report was written without rows.";
    const now = story.others.map(row => row[output]);
    const mean = list => list.reduce((sum, x) => sum + x, 0) / list.length, size = Math.max(...old.map(Math.abs), 1e-300);
    const change = now.map((x, i) => Math.abs(x - old[i]) > 1e-9 * size ? x - old[i] : 0), count = change.filter(x => x !== 0).length;
    const flips = data.link === "logit" ? ` ${now.filter((x, i) => (x >= 0.5) !== (old[i] >= 0.5)).length} cross a probability of 0.5.` : "";
    return `${count} of ${old.length} rows change, by ${signedColumn([Math.min(...change), Math.max(...change)]).join(" to ")}; the mean prediction goes from ${column([mean(old), mean(now)]).join(" to ")}.${flips}${lossWords(data, output, this.before, story.others)}`;
  }

  // The edit file; what has no reason or no name is asked for once.
  export() {
    const fields = [...byId("edit-list").querySelectorAll("input"), byId("edit-by")], empty = fields.find(field => !field.value.trim());
    if (empty && !this.isAsked) {
      this.isAsked = true;
      byId("edit-asked").textContent = `Say ${empty === byId("edit-by") ? "who made the edits" : "why each edit was made"}, or export again without.`;
      empty.focus();
      return;
    }
    const document = {format: "tpnn-edits", version: 1, model: this.view.data.digest, edits: this.edits};
    download("edits.json", "application/json", JSON.stringify(document, null, 1) + "\n");
    this.isAsked = false;
    byId("edit-asked").textContent = "";
  }
}
