// Charts of components as SVG that needs no style sheet, so that it can be saved.

const SVG = "http://www.w3.org/2000/svg";
const DAY = 86400;

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "faint", "line", "low", "high", "zero"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue("--" + name).trim()]));
}

function mixture(from, to, share) {
  const channel = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  return [0, 1, 2].map(i => Math.round(channel(from, i) + share * (channel(to, i) - channel(from, i))));
}

function shortNumber(x) {
  if (x === 0 || Math.abs(x) < 1e-12) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2);
  return String(+x.toPrecision(size >= 1000 ? 5 : 4));
}

function valueWord(feature, x) {
  if (x === null || Number.isNaN(x)) return "missing";
  if (x === UNSEEN) return "(unseen level)";
  if (feature.levels.length) return feature.levels[x];
  if (feature.kind === "date") return new Date(x * 1000).toISOString().slice(0, x % DAY ? 16 : 10);
  if (feature.kind === "duration") return shortNumber(x / DAY) + " days";
  return shortNumber(x);
}

function niceTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(size => size >= rough) || power;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(+(k * step).toPrecision(12));
  return ticks;
}

// Value at a rank between 0 and 1 of an ordered axis, by the mass at its nodes.
function quantile(axis, rank) {
  const ranks = nodeRanks(axis);
  if (rank <= ranks[0]) return axis.values[0];
  for (let i = 1; i < axis.regular; i++) {
    if (rank <= ranks[i]) {
      const share = (rank - ranks[i - 1]) / (ranks[i] - ranks[i - 1] || 1);
      return axis.values[i - 1] + share * (axis.values[i] - axis.values[i - 1]);
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
    [this.low, this.high] = high > low ? [low, high] : [low - 0.5, low + 0.5];
  }

  // Pixel of a place: a value, or the number of a node that stands for a level.
  at(place) { return this.from + (place - this.low) / (this.high - this.low) * (this.end - this.from); }

  // Pixel of a feature value.
  pixel(x) {
    if (x === null || Number.isNaN(x)) return this.axis.missing ? (this.strip[0] + this.strip[1]) / 2 : null;
    const place = this.isLevels ? this.axis.locate(x)?.[0] : Math.min(Math.max(x, this.low), this.high);
    return place === undefined ? null : this.at(place);
  }

  // Feature value at a pixel.
  value(pixel) {
    const inStrip = this.axis.missing && (pixel - this.strip[0]) * Math.sign(this.to - this.from) > 0;
    if (inStrip) return null;
    const place = this.low + (pixel - this.from) / (this.end - this.from) * (this.high - this.low);
    if (!this.isLevels) return Math.min(Math.max(place, this.low), this.high);
    const node = Math.min(Math.max(Math.round(place), 0), this.axis.regular - 1);
    if (this.axis.unseen && node === this.axis.regular - 1) return UNSEEN;
    return this.axis.groups ? this.axis.groups.indexOf(node) : this.axis.values[node];
  }

  ticks(count) {
    if (this.isLevels) {
      const step = Math.ceil(this.axis.regular / count);
      return this.axis.words.map((word, node) => [this.at(node), word]).filter((_, node) => node % step === 0);
    }
    const unit = this.feature.kind === "date" || this.feature.kind === "duration" ? DAY : 1;
    return niceTicks(this.low / unit, this.high / unit, count).map(tick => [this.at(tick * unit), valueWord(this.feature, tick * unit)]);
  }

  allTicks(count) {
    const missing = this.axis.missing ? [[(this.strip[0] + this.strip[1]) / 2, "missing"]] : [];
    return [...this.ticks(count), ...missing];
  }
}

function frame(width, height, label) {
  return element("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, xmlns: SVG,
    "font-family": "system-ui, sans-serif", "font-size": 12,
  });
}

function drawTicks(svg, colours, x, y, bottom, left) {
  const clip = (word, most) => word.length > most ? word.slice(0, most - 1) + "…" : word;
  const text = {fill: colours.faint, "font-size": 11.5};
  const crowded = x.isLevels && x.axis.words.some(word => word.length > 9) && x.axis.regular > 3;
  for (const [place, word] of x.allTicks(crowded || !x.isLevels ? 6 : 10)) {
    svg.append(element("line", {x1: place, x2: place, y1: bottom, y2: bottom + 4, stroke: colours.line}));
    const turn = crowded ? {transform: `rotate(-28 ${place} ${bottom + 16})`, "text-anchor": "end"} : {"text-anchor": "middle"};
    svg.append(element("text", {x: place, y: bottom + 17, ...text, ...turn}, clip(word, 16)));
  }
  for (const [place, word] of y) {
    svg.append(element("text", {x: left - 7, y: place + 4, ...text, "text-anchor": "end"}, clip(word, Math.floor((left - 24) / 6))));
  }
}

function drawMain(model, component, output, values, width) {
  const colours = palette(), height = Math.max(260, Math.min(380, width * 0.55));
  const left = 56, right = width - 12, top = 10, bottom = height - 62;
  const feature = model.data.features[component.features[0]], axis = component.axes[0];
  const svg = frame(width, height, `Main effect of ${feature.name}`);
  const x = new Scale(feature, axis, axis, left, right);
  const step = model.data.packed.step;
  const effect = Array.from(component.tables[output], unit => unit * step);
  const band = Array.from(component.bands[output], spread => 2 * spread);
  const place = node => node === axis.regular ? (x.strip[0] + x.strip[1]) / 2 : x.at(x.isLevels ? node : axis.values[node]);
  const nodes = effect.map((_, node) => node).filter(node => node === axis.regular || x.isLevels || (axis.values[node] >= x.low && axis.values[node] <= x.high));
  const lows = nodes.map(node => effect[node] - band[node]), highs = nodes.map(node => effect[node] + band[node]);
  let low = Math.min(0, ...lows), high = Math.max(0, ...highs);
  if (high - low < 1e-12) [low, high] = [-1, 1];
  low -= 0.2 * (high - low);
  const y = value => bottom - (value - low) / (high - low) * (bottom - top - 6);
  for (const tick of niceTicks(low, high, 5)) svg.append(element("line", {x1: left, x2: right, y1: y(tick), y2: y(tick), stroke: colours.line, "stroke-width": tick === 0 ? 1.2 : 0.5}));
  drawDensity(svg, colours, axis, x, bottom);
  const regular = nodes.filter(node => node < axis.regular);
  if (x.isLevels) {
    regular.forEach(node => drawPoint(svg, colours, place(node), y, effect[node], band[node]));
  } else {
    const up = regular.map(node => `${place(node)},${y(effect[node] + band[node])}`);
    const down = regular.map(node => `${place(node)},${y(effect[node] - band[node])}`).reverse();
    svg.append(element("polygon", {points: [...up, ...down].join(" "), fill: colours.low, opacity: 0.2}));
    svg.append(element("polyline", {points: regular.map(node => `${place(node)},${y(effect[node])}`).join(" "), fill: "none", stroke: colours.low, "stroke-width": 2, "stroke-linejoin": "round"}));
  }
  if (axis.missing) drawPoint(svg, colours, place(axis.regular), y, effect[axis.regular], band[axis.regular]);
  drawTicks(svg, colours, x, niceTicks(low, high, 5).map(tick => [y(tick), shortNumber(tick)]), bottom, left);
  svg.append(element("text", {x: (left + right) / 2, y: height - 8, fill: colours.ink, "text-anchor": "middle"}, feature.name));
  const here = x.pixel(values[component.features[0]]);
  if (here !== null) drawRing(svg, colours, here, y(model.score(component, values, output)));
  return {svg, pick: (px, _) => px >= left && px <= right ? {[component.features[0]]: x.value(px)} : null};
}

function drawPoint(svg, colours, at, y, effect, band) {
  svg.append(element("line", {x1: at, x2: at, y1: y(effect - band), y2: y(effect + band), stroke: colours.low, "stroke-width": 7, opacity: 0.25}));
  svg.append(element("circle", {cx: at, cy: y(effect), r: 4.5, fill: colours.low}));
}

function drawDensity(svg, colours, axis, x, bottom) {
  const height = 26, style = {fill: colours.faint, opacity: 0.28};
  if (x.isLevels) {
    const most = Math.max(...axis.weights), width = Math.min(46, 0.7 * (x.at(1) - x.at(0)));
    for (let node = 0; node < axis.regular; node++) {
      const tall = height * axis.weights[node] / most;
      svg.append(element("rect", {x: x.at(node) - width / 2, y: bottom - tall, width, height: tall, ...style}));
    }
    return;
  }
  const bins = new Array(48).fill(0);
  for (let node = 0; node < axis.regular; node++) {
    const bin = Math.floor((axis.values[node] - x.low) / (x.high - x.low) * 48);
    if (bin >= 0 && bin < 48) bins[bin] += axis.weights[node];
  }
  const soft = bins.map((_, i) => ((bins[i - 1] || 0) + 2 * bins[i] + (bins[i + 1] || 0)) / 4), most = Math.max(...soft) || 1;
  const points = soft.map((mass, i) => `${x.from + (i + 0.5) / 48 * (x.end - x.from)},${bottom - height * mass / most}`);
  svg.append(element("polygon", {points: [`${x.from},${bottom}`, ...points, `${x.end},${bottom}`].join(" "), ...style}));
}

function drawRing(svg, colours, cx, cy) {
  svg.append(element("circle", {class: "ring", cx, cy, r: 7, fill: "none", stroke: colours.paper, "stroke-width": 5}));
  svg.append(element("circle", {class: "ring", cx, cy, r: 7, fill: "none", stroke: colours.ink, "stroke-width": 2}));
}

// Heat map of the first two features; any others stay at the values of the case.
function drawPair(model, component, output, values, width) {
  const colours = palette(), height = Math.max(300, Math.min(460, width * 0.68));
  const left = 84, right = width - 74, top = 10, bottom = height - 62;
  const [j, k] = component.features, features = model.data.features;
  const svg = frame(width, height, `Interaction of ${component.name}`);
  const x = new Scale(features[j], component.axes[0], model.axes[1][j], left, right, 0.01);
  const y = new Scale(features[k], component.axes[1], model.axes[1][k], bottom, top, 0.01);
  const limit = heatLimit(component, output) * model.data.packed.step || 1;
  const image = heatImage(model, component, output, values, x, y, limit, colours);
  svg.append(element("image", {x: left, y: top, width: right - left, height: bottom - top, href: image, preserveAspectRatio: "none", style: "image-rendering: auto"}));
  for (const row of model.data.rows) {
    const cx = x.pixel(row[j]), cy = y.pixel(row[k]);
    if (cx !== null && cy !== null) svg.append(element("circle", {cx, cy, r: 1.3, fill: colours.ink, opacity: 0.5}));
  }
  drawTicks(svg, colours, x, y.allTicks(6), bottom, left);
  svg.append(element("text", {x: (left + right) / 2, y: height - 8, fill: colours.ink, "text-anchor": "middle"}, features[j].name));
  svg.append(element("text", {x: 13, y: (top + bottom) / 2, fill: colours.ink, "text-anchor": "middle", transform: `rotate(-90 13 ${(top + bottom) / 2})`}, features[k].name));
  drawLegend(svg, colours, limit, right + 16, top, bottom);
  const here = [x.pixel(values[j]), y.pixel(values[k])];
  if (here[0] !== null && here[1] !== null) drawRing(svg, colours, ...here);
  const inside = (px, py) => px >= left && px <= right && py >= top && py <= bottom;
  return {svg, pick: (px, py) => inside(px, py) ? {[j]: x.value(px), [k]: y.value(py)} : null};
}

function heatLimit(component, output) {
  component.limits ??= [];
  component.limits[output] ??= (() => {
    const sizes = Array.from(component.tables[output], Math.abs).sort((a, b) => a - b);
    return sizes[Math.floor(0.995 * (sizes.length - 1))];
  })();
  return component.limits[output];
}

function heatImage(model, component, output, values, x, y, limit, colours) {
  const canvas = document.createElement("canvas");
  const width = canvas.width = 200, height = canvas.height = 150;
  const context = canvas.getContext("2d"), pixels = context.createImageData(width, height);
  const [j, k] = component.features, point = values.slice();
  const across = Array.from({length: width}, (_, i) => x.value(x.from + (i + 0.5) / width * (x.to - x.from)));
  const gap = (scale, at) => scale.axis.missing && (at - scale.end) * Math.sign(scale.to - scale.from) > 0 && (at - scale.strip[0]) * Math.sign(scale.to - scale.from) < 0;
  for (let row = 0; row < height; row++) {
    const py = y.to + (row + 0.5) / height * (y.from - y.to);
    point[k] = y.value(py);
    for (let column = 0; column < width; column++) {
      point[j] = across[column];
      const px = x.from + (column + 0.5) / width * (x.to - x.from);
      const share = Math.max(-1, Math.min(1, model.score(component, point, output) / limit));
      const colour = mixture(colours.zero, share < 0 ? colours.low : colours.high, Math.abs(share));
      pixels.data.set([...colour, gap(x, px) || gap(y, py) ? 0 : 255], 4 * (row * width + column));
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}

function drawLegend(svg, colours, limit, left, top, bottom) {
  const n = 40, tall = (bottom - top) / n;
  for (let i = 0; i < n; i++) {
    const share = 1 - 2 * i / (n - 1);
    const colour = mixture(colours.zero, share < 0 ? colours.low : colours.high, Math.abs(share));
    svg.append(element("rect", {x: left, y: top + i * tall, width: 10, height: tall + 0.5, fill: `rgb(${colour})`}));
  }
  for (const [share, at] of [[1, top + 9], [0, (top + bottom) / 2 + 4], [-1, bottom]]) {
    svg.append(element("text", {x: left + 15, y: at, fill: colours.faint, "font-size": 11}, shortNumber(share * limit)));
  }
}
