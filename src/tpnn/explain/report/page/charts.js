// Charts of components as SVG that needs no style sheet, so that it can be saved.

const SVG = "http://www.w3.org/2000/svg";
const LETTER = 6.7; // pixels, about
const MOST_LEVELS_ACROSS = 6, LEVEL_HEIGHT = 21;
const MOST_LEVELS_DRAWN = 100; // nominal ones by frequency; the table has them all
const MOST_BARS = 60; // of the density of a number with few values
const COLOUR_RANK = 0.995; // share of the cells whose colours are told apart; the rest saturates
const VEIL = 0.65; // how much of a colour paper covers where the band holds "no effect"
const HEAVY_TAIL = 8; // medians, that a tail reaches, from which an axis is logarithmic

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// Text that loses its middle where it is too long, and shows all of it when one hovers.
function label(attributes, text, most, short = middle(text, Math.max(3, Math.floor(most)))) {
  const made = element("text", attributes, short);
  if (made.textContent !== text) made.append(element("title", {}, text));
  return made;
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "faint", "line", "low", "high", "zero", "grey"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue("--" + name).trim()]));
}

function mixture(from, to, share) {
  const channel = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  return [0, 1, 2].map(i => Math.round(channel(from, i) + share * (channel(to, i) - channel(from, i))));
}

// Value at a rank between 0 and 1 of an ordered axis, by the mass at its nodes.
function quantile(axis, rank) {
  const ranks = nodeRanks(axis);
  if (rank <= ranks[0]) return axis.values[0];
  for (let i = 1; i < axis.regular; i++) {
    if (rank <= ranks[i]) {
      const share = (rank - ranks[i - 1]) / (ranks[i] - ranks[i - 1] || 1);
      return (1 - share) * axis.values[i - 1] + share * axis.values[i];
    }
  }
  return axis.values[axis.regular - 1] ?? 0;
}

function nodeRanks(axis) {
  if (!axis.ranks) {
    const weights = Array.from(axis.weights.subarray(0, axis.regular));
    const total = weights.reduce((sum, w) => sum + w, 0) || 1;
    let below = 0;
    axis.ranks = weights.map(w => (below += w, (below - w / 2) / total));
  }
  return axis.ranks;
}

// Smallest number that a logarithmic axis of a feature tells from zero, or 0 for a linear one:
// logarithmic are positive numbers, or zeros and positive numbers, with a long upper tail.
function logUnit(feature, main) {
  if (feature.kind !== "number" || main.regular < 8 || !(main.values[0] >= 0)) return 0;
  if (main.heavy === undefined) {
    const [q5, q50, q95, top] = [0.05, 0.5, 0.95, 0.995].map(rank => quantile(main, rank));
    const positive = main.values.findIndex(x => x > 0), least = Math.max(quantile(main, 0.02), main.values[positive]);
    const center = q50 || least;
    main.heavy = top / center >= HEAVY_TAIL && q95 - q50 >= 3 * (q50 - q5) ? least : 0;
  }
  return main.heavy;
}

function shortener(axis) {
  return axis.shortener ??= new Shortener(axis.words);
}

// How one feature is laid out between two pixels: numbers by value, levels side by side, then missing.
class Scale {
  constructor(feature, axis, main, from, to, edge = 0.005) {
    Object.assign(this, {feature, axis, from, to});
    this.isLevels = axis.words !== null;
    const strip = axis.missing ? 0.09 * (to - from) : 0;
    this.end = to - strip;
    this.strip = [to - 0.75 * strip, to];
    const low = this.isLevels ? -0.5 : quantile(main, edge);
    const high = this.isLevels ? axis.regular - 0.5 : quantile(main, 1 - edge);
    [this.low, this.high] = high > low ? [low, high] : [low - (Math.abs(low) / 2 || 0.5), low + (Math.abs(low) / 2 || 0.5)];
    this.unit = high > low ? logUnit(feature, main) : 0;
    this.hasZero = this.unit > 0 && this.low <= 0;
  }

  // Numbers on a logarithmic axis; zero is one unit below the smallest positive number.
  warp(x) { return this.hasZero ? Math.log1p(x / this.unit) : Math.log(x); }

  unwarp(y) { return this.hasZero ? this.unit * Math.expm1(y) : Math.exp(y); }

  // Pixel of a place: a value, or the number of a node that stands for a level.
  at(place) {
    const share = this.unit ? shareBetween(this.warp(place), this.warp(this.low), this.warp(this.high)) : shareBetween(place, this.low, this.high);
    return this.from + share * (this.end - this.from);
  }

  // Pixel of a feature value.
  pixel(x) {
    if (x === null || Number.isNaN(x)) return this.axis.missing ? (this.strip[0] + this.strip[1]) / 2 : null;
    if (!this.isLevels) return this.at(Math.min(Math.max(x, this.low), this.high));
    const found = this.axis.locate(x);
    return found && this.at(found[0] + found[1]);
  }

  isInStrip(pixel) { return this.axis.missing && (pixel - this.strip[0]) * Math.sign(this.to - this.from) > 0; }

  // Place at a pixel, as `at` takes it.
  place(pixel) {
    const share = (pixel - this.from) / (this.end - this.from);
    const between = (low, high) => (1 - share) * low + share * high;
    return this.unit ? this.unwarp(between(this.warp(this.low), this.warp(this.high))) : between(this.low, this.high);
  }

  // Node of the level at a pixel.
  node(pixel) { return Math.min(Math.max(Math.round(this.place(pixel)), 0), this.axis.regular - 1); }

  // Feature value at a pixel.
  value(pixel) {
    if (this.isInStrip(pixel)) return null;
    return this.isLevels ? nodeValue(this.axis, this.node(pixel)) : Math.min(Math.max(this.place(pixel), this.low), this.high);
  }

  // Every level where there is room for a line of text each, else as many as fit.
  ticks(count) {
    if (this.isLevels) {
      const room = Math.floor(Math.abs(this.end - this.from) / (this.from < this.to ? 15 : 12)), step = Math.ceil(this.axis.regular / Math.max(room, 1));
      return this.axis.words.map((word, node) => [this.at(node), word]).filter((_, node) => node % step === 0);
    }
    if (this.unit) {
      const zero = this.hasZero ? [0] : [];
      return [...zero, ...logTicks(this.hasZero ? this.unit : this.low, this.high, count)].map(tick => [this.at(tick), valueNumber(tick)]);
    }
    if (this.feature.kind === "date") return niceTicks(this.low / DAY, this.high / DAY, count).map(tick => [this.at(tick * DAY), valueWord(this.feature, tick * DAY)]);
    const [unit, suffix] = this.feature.kind === "duration" ? [DAY, " days"] : [1, ""];
    return tickWords(this.low / unit, this.high / unit, count).map(([tick, word]) => [this.at(tick * unit), word + suffix]);
  }

  allTicks(count) {
    const missing = this.axis.missing ? [[(this.strip[0] + this.strip[1]) / 2, "missing"]] : [];
    return [...this.ticks(count), ...missing];
  }

  // A level in at most so many letters, which still differs from others; numbers are never shortened.
  short(word, most) {
    const place = this.isLevels ? this.axis.words.indexOf(word) : -1;
    return place < 0 ? word : shortener(this.axis).short(place, most);
  }

  // Letters of the longest tick.
  longest() { return this.isLevels ? Math.max(...this.axis.words.map(word => word.length)) : 10; }
}

function frame(width, height, text) {
  return element("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": text, xmlns: SVG,
    "font-family": "system-ui, sans-serif", "font-size": 12,
  });
}

const TICK_FONT = {"font-size": 11.5};

// Levels are written at an angle where they would touch.
function isCrowded(x) {
  return x.isLevels && (x.longest() + 2) * LETTER > Math.abs(x.end - x.from) / x.axis.regular;
}

function drawAcross(svg, colours, x, bottom) {
  const crowded = isCrowded(x), room = Math.abs(x.to - x.from);
  const all = x.allTicks(Math.max(2, Math.min(7, Math.floor(room / 55)))), last = all.at(-1), half = ([, word]) => tickWidth([word]) / 2;
  const ticks = all.filter(tick => x.isLevels || tick === last || Math.abs(last[0] - tick[0]) > half(last) + half(tick) + 5); // "missing" is written in any case
  for (const [place, word] of ticks) {
    svg.append(element("line", {x1: place, x2: place, y1: bottom, y2: bottom + 4, stroke: colours.line}));
    const turn = crowded ? {transform: `rotate(-40 ${place} ${bottom + 14})`, "text-anchor": "end"} : {"text-anchor": "middle"};
    const most = crowded ? 16 : x.isLevels ? room / ticks.length / LETTER : 20;
    svg.append(label({x: place, y: bottom + 17, fill: colours.faint, ...TICK_FONT, ...turn}, word, most, x.short(word, most)));
  }
}

function drawDown(svg, colours, ticks, left, anchor = "end") {
  for (const [place, word] of ticks) {
    svg.append(element("text", {x: left, y: place + 4, fill: colours.faint, ...TICK_FONT, "text-anchor": anchor}, word));
  }
}

// Axis of effects: raw scores, and relativities beside them where the link has them.
class Effects {
  constructor(model, component, output, nodes, roomBelow) {
    this.points = nodes.map(node => model.atNode(component, node, output));
    this.first = component.first ? Array.from(component.first.tables[output], units => units * model.data.packed.step) : []; // before all edits
    let low = Math.min(0, ...this.points.map(([effect, band]) => effect - band), ...this.first);
    let high = Math.max(0, ...this.points.map(([effect, band]) => effect + band), ...this.first);
    if (!(high > low)) [low, high] = [-1, 1];
    this.low = low - roomBelow * (high - low);
    this.high = high;
  }

  at(value, from, to) { return from + shareBetween(value, this.low, this.high) * (to - from); }

  // Effect at a pixel.
  value(pixel, from, to) { return this.low + (pixel - from) / (to - from) * (this.high - this.low); }

  ticks(count) { return tickWords(this.low, this.high, count); }
}

function drawMain(model, component, output, values, width) {
  const axis = component.axes[0];
  const isMany = axis.regular > MOST_LEVELS_ACROSS && model.data.features[component.features[0]].levels.length > 0;
  const isTall = axis.words !== null && (isMany || axis.words.some(word => word.length * LETTER > 0.7 * (width - 120) / axis.regular));
  return (isTall ? drawLevels : drawCurve)(model, component, output, values, width);
}

// Main effect of a number, or of a few levels, from left to right.
function drawCurve(model, component, output, values, width) {
  const colours = palette(), height = Math.max(260, Math.min(380, width * 0.55));
  const right = width - (model.hasFactors ? 56 : 12), top = 10, bottom = height - 62;
  const feature = model.data.features[component.features[0]], axis = component.axes[0];
  const svg = frame(width, height, `Main effect of ${feature.name}`), shown = new Scale(feature, axis, axis, 0, right);
  const inside = node => node === axis.missingNode || shown.isLevels || (axis.values[node] >= shown.low && axis.values[node] <= shown.high);
  const nodes = Array.from({length: axis.size}, (_, node) => node).filter(inside);
  const effects = new Effects(model, component, output, nodes, 0.2), y = value => effects.at(value, bottom, top + 6);
  const left = Math.max(56, 14 + tickWidth(effects.ticks(7).map(([, word]) => word))), x = new Scale(feature, axis, axis, left, right);
  const place = node => node === axis.missingNode ? (x.strip[0] + x.strip[1]) / 2 : x.at(x.isLevels ? node : axis.values[node]);
  for (const [tick] of effects.ticks(7)) svg.append(element("line", {x1: left, x2: right, y1: y(tick), y2: y(tick), stroke: colours.line, "stroke-width": tick === 0 ? 1.2 : 0.5}));
  drawDensity(svg, colours, axis, x, bottom);
  if (component.first) drawFirst(svg, colours, component.first.axis, x, effects.first.map(y));
  nodes.forEach((node, i) => { if (x.isLevels || node === axis.missingNode) drawPoint(svg, colours, place(node), y, ...effects.points[i]); });
  if (!x.isLevels) drawBand(svg, colours, curvePoints(axis, x, nodes, effects.points), y);
  drawAcross(svg, colours, x, bottom);
  drawDown(svg, colours, effects.ticks(7).map(([tick, word]) => [y(tick), word]), left - 7);
  if (model.hasFactors) drawDown(svg, colours, effects.ticks(7).map(([tick]) => [y(tick), relativity(tick)]), right + 6, "start");
  svg.append(label({x: (left + right) / 2, y: height - 8, fill: colours.ink, "text-anchor": "middle"}, feature.name + (x.unit ? " (log axis)" : ""), (right - left) / LETTER));
  const here = x.pixel(values[component.features[0]]);
  if (here !== null) drawRing(svg, colours, here, y(model.score(component, values, output)));
  const handles = nodes.map((node, i) => ({node, x: place(node), y: y(effects.points[i][0])}));
  const pick = px => px >= left && px <= right ? {[component.features[0]]: x.value(px)} : null;
  return {svg, pick, handles, x, place, bottom, range: effects.high - effects.low, effectAt: (_, py) => effects.value(py, bottom, top + 6)};
}

// The curve, or the levels, before all edits.
function drawFirst(svg, colours, axis, x, heights) {
  const style = {fill: "none", stroke: colours.faint, "stroke-width": 1.4, "stroke-dasharray": "4 3", class: "first"};
  const places = Array.from(axis.values, (value, node) => x.at(x.isLevels ? node : Math.min(Math.max(value, x.low), x.high)));
  if (!x.isLevels) svg.append(element("polyline", {points: places.map((place, node) => `${place},${heights[node]}`).join(" "), ...style}));
  else places.forEach((cx, node) => svg.append(element("circle", {cx, cy: heights[node], r: 5.5, ...style})));
  if (axis.missing) svg.append(element("circle", {cx: (x.strip[0] + x.strip[1]) / 2, cy: heights[axis.missingNode], r: 5.5, ...style}));
}

// Points of a curve as [pixel, effect, band]; a line between nodes is curved on a logarithmic axis.
function curvePoints(axis, x, nodes, points) {
  const regular = nodes.filter(node => node < axis.regular), found = [];
  regular.forEach((node, i) => {
    found.push([x.at(axis.values[node]), ...points[i]]);
    if (!x.unit || i + 1 === regular.length) return;
    const pieces = Math.min(12, Math.ceil((x.at(axis.values[node + 1]) - x.at(axis.values[node])) / 6));
    for (let k = 1; k < pieces; k++) {
      const between = (from, to) => from + k / pieces * (to - from);
      found.push([x.at(between(axis.values[node], axis.values[node + 1])), between(points[i][0], points[i + 1][0]), between(points[i][1], points[i + 1][1])]);
    }
  });
  return found;
}

function drawBand(svg, colours, points, y) {
  const up = points.map(([at, effect, band]) => `${at},${y(effect + band)}`);
  const down = points.map(([at, effect, band]) => `${at},${y(effect - band)}`).reverse();
  svg.append(element("polygon", {points: [...up, ...down].join(" "), fill: colours.low, opacity: 0.2}));
  svg.append(element("polyline", {points: points.map(([at, effect]) => `${at},${y(effect)}`).join(" "), fill: "none", stroke: colours.low, "stroke-width": 2, "stroke-linejoin": "round"}));
}

// Main effect of many levels, or of levels with long names: a line of text each.
function drawLevels(model, component, output, values, width) {
  const colours = palette(), axis = component.axes[0], j = component.features[0], feature = model.data.features[j];
  const drawn = Math.min(axis.regular, MOST_LEVELS_DRAWN);
  const nodes = [...Array(drawn).keys(), ...(axis.missing ? [axis.missingNode] : [])];
  const words = nodes.map(node => axis.words[node] ?? "missing");
  const left = Math.min(0.42 * width, 16 + LETTER * Math.max(...words.map(word => word.length))), right = width - 16;
  const top = model.hasFactors ? 26 : 8, bottom = top + LEVEL_HEIGHT * words.length, height = bottom + 44;
  const svg = frame(width, height, `Main effect of ${feature.name}`);
  const effects = new Effects(model, component, output, nodes, 0), x = value => effects.at(value, left + 8, right - 8);
  const line = place => top + (place + 0.5) * LEVEL_HEIGHT, most = Math.max(...axis.weights);
  const count = Math.max(2, Math.min(6, Math.floor((right - left) / 60)));
  nodes.forEach((node, place) => svg.append(element("rect", {x: left, y: line(place) - 7, width: 0.25 * (right - left) * axis.weights[node] / most, height: 14, fill: colours.faint, opacity: 0.16})));
  for (const [tick, word] of effects.ticks(count)) {
    svg.append(element("line", {x1: x(tick), x2: x(tick), y1: top, y2: bottom, stroke: colours.line, "stroke-width": tick === 0 ? 1.2 : 0.5}));
    svg.append(element("text", {x: x(tick), y: bottom + 16, fill: colours.faint, ...TICK_FONT, "text-anchor": "middle"}, word));
    if (model.hasFactors) svg.append(element("text", {x: x(tick), y: top - 8, fill: colours.faint, ...TICK_FONT, "text-anchor": "middle"}, relativity(tick)));
  }
  words.forEach((word, place) => {
    const [effect, band] = effects.points[place];
    const letters = (left - 12) / LETTER, short = place < drawn ? shortener(axis).short(place, letters) : word;
    svg.append(label({x: left - 8, y: line(place) + 4, fill: colours.ink, ...TICK_FONT, "text-anchor": "end"}, word, letters, short));
    svg.append(element("line", {x1: x(effect - band), x2: x(effect + band), y1: line(place), y2: line(place), stroke: colours.low, "stroke-width": 7, opacity: 0.25}));
    svg.append(element("circle", {cx: x(effect), cy: line(place), r: 4.5, fill: colours.low}));
    if (component.first) svg.append(element("circle", {class: "first", cx: x(effects.first[nodes[place]]), cy: line(place), r: 5.5, fill: "none", stroke: colours.faint, "stroke-dasharray": "4 3"}));
  });
  const rest = drawn < axis.regular ? `: ${drawn} of ${axis.regular} levels, all are in the table` : "";
  svg.append(label({x: width / 2, y: height - 6, fill: colours.ink, "text-anchor": "middle"}, feature.name + rest, width / LETTER));
  const here = nodes.indexOf(axis.locate(values[j])?.[0]);
  if (here >= 0) drawRing(svg, colours, x(effects.points[here][0]), line(here));
  const pick = (_, py) => {
    const place = Math.floor((py - top) / LEVEL_HEIGHT);
    return place >= 0 && place < nodes.length ? {[j]: nodeValue(axis, nodes[place])} : null;
  };
  const handles = nodes.map((node, i) => ({node, x: x(effects.points[i][0]), y: line(i)}));
  return {svg, pick, handles, range: effects.high - effects.low, effectAt: px => effects.value(px, left + 8, right - 8)};
}

function drawPoint(svg, colours, at, y, effect, band, r = 4.5) {
  svg.append(element("line", {x1: at, x2: at, y1: y(effect - band), y2: y(effect + band), stroke: colours.low, "stroke-width": 1.5 * r, opacity: 0.25}));
  svg.append(element("circle", {cx: at, cy: y(effect), r, fill: colours.low}));
}

function drawDensity(svg, colours, axis, x, bottom) {
  const height = 26, style = {fill: colours.faint, opacity: 0.28};
  if (x.isLevels) {
    const most = Math.max(...axis.weights), width = Math.min(46, 0.7 * (x.at(1) - x.at(0)));
    for (let node = 0; node < axis.regular; node++) {
      const tall = height * axis.weights[node] / most;
      svg.append(element("rect", {class: "density", x: x.at(node) - width / 2, y: bottom - tall, width, height: tall, ...style}));
    }
    return;
  }
  if (isEvenlySpaced(axis)) {
    drawBars(svg, axis, x, bottom, height, style);
    return;
  }
  const bins = new Array(48).fill(0);
  for (let node = 0; node < axis.regular; node++) {
    const bin = Math.floor((x.at(axis.values[node]) - x.from) / (x.end - x.from) * 48);
    if (bin >= 0 && bin <= 48) bins[Math.min(bin, 47)] += axis.weights[node];
  }
  const soft = bins.map((_, i) => ((bins[i - 1] || 0) + 2 * bins[i] + (bins[i + 1] || 0)) / 4), most = Math.max(...soft) || 1;
  const points = soft.map((mass, i) => `${x.from + (i + 0.5) / 48 * (x.end - x.from)},${bottom - height * mass / most}`);
  svg.append(element("polygon", {points: [`${x.from},${bottom}`, ...points, `${x.end},${bottom}`].join(" "), ...style}));
}

// Whether a number has few values, such as whole numbers: all are whole multiples of one step apart.
function isEvenlySpaced(axis) {
  const gaps = Array.from(axis.values.subarray(1, axis.regular), (x, i) => x - axis.values[i]), step = Math.min(...gaps);
  const counts = gaps.map(gap => gap / step);
  return counts.every(count => Math.abs(count - Math.round(count)) < 1e-6) && counts.reduce((sum, count) => sum + count, 0) < MOST_BARS;
}

// Few values have a bar each, so that whole numbers and bins make no waves.
function drawBars(svg, axis, x, bottom, height, style) {
  const shown = Array.from(axis.values, (value, node) => [x.at(value), axis.weights[node]]).filter(([at]) => at >= x.from - 0.5 && at <= x.end + 0.5);
  const gaps = shown.slice(1).map(([at], i) => at - shown[i][0]), wide = x.end - x.from, least = Math.min(...gaps, wide);
  const most = Math.max(...shown.map(([, mass]) => mass)) || 1;
  for (const [i, [at, mass]] of shown.entries()) {
    const gap = x.unit ? Math.min(gaps[i - 1] ?? wide, gaps[i] ?? wide) : least; // on a logarithmic axis each bar has its own
    const width = Math.max(1, Math.min(22, 0.7 * gap)), from = Math.max(at - width / 2, x.from), tall = height * mass / most;
    svg.append(element("rect", {class: "density", x: from, y: bottom - tall, width: Math.min(at + width / 2, x.end) - from, height: tall, ...style}));
  }
}

function drawRing(svg, colours, cx, cy) {
  svg.append(element("circle", {class: "ring", cx, cy, r: 7, fill: "none", stroke: colours.paper, "stroke-width": 5}));
  svg.append(element("circle", {class: "ring", cx, cy, r: 7, fill: "none", stroke: colours.ink, "stroke-width": 2}));
}

// Heat map of the first two features; any others stay at the values of the case.
function drawPair(model, component, output, values, width, limit = mapLimit(model, output)) {
  const [j, k] = component.features, features = model.data.features, colours = palette();
  const down = component.axes[1], lines = down.words ? 14 * down.regular + 90 : 0;
  const height = Math.max(300, Math.min(460, width * 0.68), Math.min(lines, 1000));
  const words = down.words ?? new Scale(features[k], down, model.axes[1][k], height, 0, 0.01).allTicks(6).map(([, word]) => word);
  const letters = Math.max(down.words ? 0 : 7, ...words.map(word => word.length));
  const left = Math.min(0.36 * width, Math.max(70, 34 + LETTER * letters)), legend = column([limit, 0, -limit]), right = width - Math.max(66, 26 + tickWidth(legend));
  const svg = frame(width, height, `Interaction of ${component.name}`);
  const x = new Scale(features[j], component.axes[0], model.axes[1][j], left, right, 0.01);
  const top = 10, bottom = height - (isCrowded(x) ? Math.min(96, 46 + 4.5 * Math.min(16, x.longest())) : 50);
  const y = new Scale(features[k], down, model.axes[1][k], bottom, top, 0.01);
  const image = heatImage(model, component, output, values, x, y, limit, colours);
  svg.append(element("image", {x: left, y: top, width: right - left, height: bottom - top, href: image, preserveAspectRatio: "none", style: "image-rendering: auto"}));
  drawHatch(svg, colours, component, values, x, y);
  drawSigns(svg, colours, model, component, output, values, x, y, limit);
  for (const row of model.data.rows) {
    const cx = x.pixel(row[j]), cy = y.pixel(row[k]);
    if (cx !== null && cy !== null) svg.append(element("circle", {cx, cy, r: 1.3, fill: colours.ink, opacity: 0.5}));
  }
  drawAcross(svg, colours, x, bottom);
  svg.append(...y.allTicks(6).map(([place, word]) => label({x: left - 7, y: place + 4, fill: colours.faint, ...TICK_FONT, "text-anchor": "end"}, word, (left - 28) / LETTER, y.short(word, (left - 28) / LETTER))));
  const names = [x, y].map(scale => scale.feature.name + (scale.unit ? " (log axis)" : ""));
  svg.append(label({x: (left + right) / 2, y: height - 6, fill: colours.ink, "text-anchor": "middle"}, names[0], (right - left) / LETTER));
  svg.append(label({x: 13, y: (top + bottom) / 2, fill: colours.ink, "text-anchor": "middle", transform: `rotate(-90 13 ${(top + bottom) / 2})`}, names[1], (bottom - top) / LETTER));
  drawLegend(svg, colours, legend, right + 10, top, bottom, model.hasFactors ? limit : 0);
  const here = [x.pixel(values[j]), y.pixel(values[k])];
  if (here[0] !== null && here[1] !== null) drawRing(svg, colours, ...here);
  const inside = (px, py) => px >= left && px <= right && py >= top && py <= bottom;
  return {svg, scales: [x, y], pick: (px, py) => inside(px, py) ? {[j]: x.value(px), [k]: y.value(py)} : null};
}

function heatLimit(component, output) {
  component.limits ??= []; // none after an edit
  component.limits[output] ??= (() => {
    const sizes = Array.from(component.tables[output], Math.abs).sort((a, b) => a - b);
    const at = COLOUR_RANK * (sizes.length - 1), below = Math.floor(at);
    return sizes[below] + (at - below) * ((sizes[below + 1] ?? sizes[below]) - sizes[below]);
  })();
  return component.limits[output];
}

// Effect that has the strongest colour in all heat maps of an output, as tpnn.explain.doubt has it.
function mapLimit(model, output) {
  const maps = model.data.components.filter(component => component.features.length > 1);
  return Math.max(0, ...maps.map(component => heatLimit(component, output))) * model.data.packed.step || 1;
}

function heatImage(model, component, output, values, x, y, limit, colours) {
  const canvas = document.createElement("canvas"), width = canvas.width = 200, height = canvas.height = 150;
  const context = canvas.getContext("2d"), pixels = context.createImageData(width, height);
  const isGap = (scale, at) => scale.axis.missing && (at - scale.end) * Math.sign(scale.to - scale.from) > 0 && !scale.isInStrip(at);
  const line = (scale, count) => Array.from({length: count}, (_, i) => {
    const at = scale.from + (i + 0.5) / count * (scale.to - scale.from);
    return {place: scale.axis.locate(scale.value(at)), isGap: isGap(scale, at)};
  });
  const across = line(x, width), down = line(y, height).reverse(); // the largest value is at the top
  const others = component.features.slice(2).map((j, a) => component.axes[a + 2].locate(values[j]));
  const faded = component.faded?.[output], paper = mixture(colours.paper, colours.paper, 0);
  down.forEach((below, row) => across.forEach((beside, column) => {
    const effect = model.scoreAt(component, [beside.place, below.place, ...others], output), share = Math.max(-1, Math.min(1, effect / limit));
    let colour = mixture(colours.zero, share < 0 ? colours.low : colours.high, Math.abs(share));
    const places = [beside.place, below.place, ...others];
    if (faded && !places.includes(null)) {
      const veil = VEIL * model.between(faded, component.strides, places);
      colour = colour.map((channel, i) => Math.round(channel + veil * (paper[i] - channel)));
    }
    pixels.data.set([...colour, beside.isGap || below.isGap ? 0 : 255], 4 * (row * width + column));
  }));
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}

// Pixels from which to which a heat map shows each node: those of values meet half-way.
function cellEdges(scale) {
  const {axis} = scale, way = Math.sign(scale.to - scale.from);
  const inside = pixel => way * Math.min(Math.max(way * pixel, way * scale.from), way * scale.end);
  const middles = Array.from({length: Math.max(axis.regular - 1, 0)}, (_, node) => scale.isLevels ? scale.at(node + 0.5) : (scale.at(axis.values[node]) + scale.at(axis.values[node + 1])) / 2);
  const ends = [scale.from, ...middles.map(pixel => Number.isFinite(pixel) ? inside(pixel) : scale.from), scale.end];
  return Array.from({length: axis.size}, (_, node) => (node === axis.missingNode ? scale.strip : [ends[node], ends[node + 1]]));
}

let hatches = 0; // each picture has its own, so that it can be saved

// Hatch the cells that no row is near; runs of them are one rectangle.
function drawHatch(svg, colours, component, values, x, y) {
  const {hatched, axes, strides} = component;
  if (!hatched || !hatched.some(cell => cell)) return;
  const base = axes.slice(2).reduce((sum, axis, a) => {
    const found = axis.locate(values[component.features[a + 2]]);
    return sum + (found ? Math.min(found[0] + Math.round(found[1]), axis.size - 1) : 0) * strides[a + 2];
  }, 0);
  const across = cellEdges(x), path = [];
  cellEdges(y).forEach(([bottom, top], below) => {
    for (let node = 0; node < axes[0].size; node++) {
      const isFar = at => hatched[base + at * strides[0] + below * strides[1]];
      if (!isFar(node)) continue;
      const first = node;
      while (node + 1 < axes[0].size && node + 1 !== axes[0].missingNode && isFar(node + 1)) node++;
      const [left, right] = [across[first][0], across[node][1]];
      if (right > left && top !== bottom) path.push(`M${left} ${bottom}H${right}V${top}H${left}Z`);
    }
  });
  const id = `hatch-${++hatches}`, pattern = element("pattern", {id, patternUnits: "userSpaceOnUse", width: 6, height: 6, patternTransform: "rotate(45)"});
  pattern.append(element("line", {x1: 0, y1: 0, x2: 0, y2: 6, stroke: colours.faint, "stroke-width": 1.5}));
  svg.append(pattern, element("path", {class: "hatched", d: path.join(""), fill: `url(#${id})`}));
}

const SIGNS = [12, 8]; // across and down
const STRONG = 0.4; // of the limit, from which on an effect has a sign

// Plus and minus where effects are strong, so that the signs survive black and white.
function drawSigns(svg, colours, model, component, output, values, x, y, limit) {
  const [n, m] = SIGNS, others = component.features.slice(2).map((j, a) => component.axes[a + 2].locate(values[j]));
  const middles = (scale, count) => Array.from({length: count}, (_, i) => scale.from + (i + 0.5) / count * (scale.end - scale.from));
  for (const px of middles(x, n)) for (const py of middles(y, m)) {
    const places = [x.axis.locate(x.value(px)), y.axis.locate(y.value(py)), ...others], effect = model.scoreAt(component, places, output);
    const isFaded = component.faded && !places.includes(null) && model.between(component.faded[output], component.strides, places) > 0.5;
    if (Math.abs(effect) < STRONG * limit || isFaded) continue;
    svg.append(element("text", {class: "sign", x: px, y: py + 4, fill: colours.paper, "text-anchor": "middle", "font-size": 13, "font-weight": 600}, effect > 0 ? "+" : "−"));
  }
}

// The colours of a heat map, with words for its ends and the middle, and factors up to a limit where the link has them.
function drawLegend(svg, colours, words, left, top, bottom, limit) {
  const n = 40, tall = (bottom - top) / n;
  for (let i = 0; i < n; i++) {
    const share = 1 - 2 * i / (n - 1);
    const colour = mixture(colours.zero, share < 0 ? colours.low : colours.high, Math.abs(share));
    svg.append(element("rect", {x: left, y: top + i * tall, width: 8, height: tall + 0.5, fill: `rgb(${colour})`}));
  }
  const second = limit ? 13 : 0;
  for (const [share, at] of [[1, top + 9], [0, (top + bottom) / 2 + 4 - second / 2], [-1, bottom - second]]) {
    const style = {x: left + 11, fill: colours.faint, "font-size": 10.5};
    svg.append(element("text", {...style, y: at}, words[1 - share]));
    if (limit) svg.append(element("text", {...style, y: at + second}, relativity(share * limit)));
  }
}
