// Curves that show how good predictions are: ROC, calibration, actual against expected, survival, path.

const CURVE_WIDTH = 340, CURVE_HEIGHT = 280;

// A plot of lines [{points, colour, dashed, dots}] between two axes {low, high, name}.
function drawLines(title, x, y, lines, diagonal = false) {
  const colours = palette(), svg = frame(CURVE_WIDTH, CURVE_HEIGHT, title);
  const left = 66, right = CURVE_WIDTH - 12, top = 10, bottom = CURVE_HEIGHT - 44;
  const across = value => left + shareBetween(value, x.low, x.high) * (right - left);
  const up = value => bottom - shareBetween(value, y.low, y.high) * (bottom - top);
  for (const [tick, word] of tickWords(y.low, y.high, 5)) {
    svg.append(element("line", {x1: left, x2: right, y1: up(tick), y2: up(tick), stroke: colours.line, "stroke-width": 0.6}));
    svg.append(element("text", {x: left - 6, y: up(tick) + 4, fill: colours.faint, "font-size": 11, "text-anchor": "end"}, word));
  }
  for (const [tick, word] of tickWords(x.low, x.high, 5)) svg.append(element("text", {x: across(tick), y: bottom + 15, fill: colours.faint, "font-size": 11, "text-anchor": "middle"}, word));
  if (diagonal) svg.append(element("line", {x1: across(Math.max(x.low, y.low)), y1: up(Math.max(x.low, y.low)), x2: across(Math.min(x.high, y.high)), y2: up(Math.min(x.high, y.high)), stroke: colours.faint, "stroke-dasharray": "3 4"}));
  for (const line of lines) {
    const places = line.points.map(([a, b]) => [across(a), up(b)]), colour = colours[line.colour];
    if (line.band) svg.append(element("polygon", {class: "band", points: [...line.band.map(([a, low]) => `${across(a)},${up(low)}`), ...line.band.map(([a, , high]) => `${across(a)},${up(high)}`).reverse()].join(" "), fill: colour, opacity: 0.18}));
    svg.append(element("polyline", {points: places.map(place => place.join(",")).join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round", ...(line.dashed ? {"stroke-dasharray": "5 4"} : {})}));
    (line.intervals || []).forEach(([low, high], i) => {
      if (Number.isFinite(low) && Number.isFinite(high)) svg.append(element("line", {class: "interval", x1: places[i][0], x2: places[i][0], y1: up(Math.max(low, y.low)), y2: up(Math.min(high, y.high)), stroke: colour, "stroke-width": 5, opacity: 0.3}));
    });
    const most = Math.max(...(line.masses || [1]));
    if (line.dots) places.forEach(([cx, cy], i) => svg.append(element("circle", {cx, cy, r: line.masses ? Math.max(1.5, 4.5 * Math.sqrt(line.masses[i] / most)) : 3.5, fill: colour})));
  }
  svg.append(element("text", {x: (left + right) / 2, y: CURVE_HEIGHT - 8, fill: colours.ink, "text-anchor": "middle"}, x.name));
  svg.append(element("text", {x: 12, y: (top + bottom) / 2, fill: colours.ink, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + bottom) / 2})`}, y.name));
  return svg;
}

const pairs = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

function figure(title, svg, ...notes) {
  return make("figure", {className: "card curve"}, make("h3", {textContent: title}), svg, ...notes.map(text => make("p", {className: "note", textContent: text})));
}

function rocFigure(roc) {
  const svg = drawLines("ROC curve", {low: 0, high: 1, name: "other rows above the threshold"}, {low: 0, high: 1, name: `rows of ${middle(roc.output, 16)} above it`},
    [{points: pairs(roc.false_positive, roc.true_positive), colour: "low"}], true);
  return figure(`ROC curve: ${roc.output}`, svg, `Area ${written(roc.area)}; largest distance from the diagonal (KS) ${written(roc.ks)}. A constant prediction is the diagonal.`);
}

function spanOf(numbers) {
  const low = Math.min(...numbers), high = Math.max(...numbers);
  return high > low ? {low: low - 0.03 * (high - low), high: high + 0.03 * (high - low)} : {low: low - (Math.abs(low) || 1) / 2, high: high + (Math.abs(low) || 1) / 2};
}

const titleOf = (title, {output}) => output ? `${title}: ${output}` : title;

function calibrationFigure(groups, isClass, rows = "Rows", when = "") {
  const intervals = groups.lower ? pairs(groups.lower, groups.upper).filter(([low, high]) => low !== null && high !== null) : [];
  const span = spanOf([...groups.predicted, ...groups.actual, ...intervals.flat()]);
  if (isClass) [span.low, span.high] = [span.low < 0.4 * span.high ? 0 : span.low, Math.min(1, span.high)];
  const svg = drawLines("Calibration", {...span, name: isClass ? "mean predicted probability" : "mean prediction"}, {...span, name: isClass ? "observed share" : "mean of the target"},
    [{points: pairs(groups.predicted, groups.actual), colour: "low", dots: true, masses: groups.n_rows || groups.masses, intervals: groups.lower && pairs(groups.lower, groups.upper)}], true);
  return figure(titleOf((isClass ? "Calibration" : "Predicted and actual") + when, groups), svg, `${rows} in ${groups.predicted.length} groups by prediction; the area of a point is their number. Points on the dashed line are as predicted.${groups.lower ? " Bars are intervals of 95 %." : ""}`);
}

// Actual over expected: sums of the target over sums of the predictions.
function ratioFigure(groups, data, rows = `${groups.n_rows.reduce((a, b) => a + b, 0)} rows`, when = "") {
  const ratios = groups.actual.map((actual, i) => actual / groups.predicted[i]), n = ratios.length;
  const top = Math.max(1.2, ...ratios) * 1.05;
  const svg = drawLines("Actual over expected", {low: 0.5, high: n + 0.5, name: "group, by prediction"}, {low: 0, high: top, name: "actual / expected"},
    [{points: [[0.5, 1], [n + 0.5, 1]], colour: "faint", dashed: true}, {points: ratios.map((ratio, i) => [i + 1, ratio]), colour: "low", dots: true}]);
  return figure(titleOf("Actual over expected" + when, groups), svg, `From the lowest to the highest prediction${data.offset ? " per unit of exposure" : ""}, ${rows} in ${n} groups.`);
}

// What a survival curve shows: of a model of one kind of event, others are no end.
const survivalName = ({cause}) => cause === null ? "share that survives" : "share without this event";

function survivalFigure(title, curves, colours, note, name) {
  const high = Math.max(...curves.flatMap(curve => curve.times));
  const lines = curves.flatMap((curve, i) => [
    {points: steps(pairs(curve.times, curve.observed)), colour: colours[i]},
    {points: pairs(curve.times, curve.predicted), colour: colours[i], dashed: true}]);
  const svg = drawLines(title, {low: 0, high: high || 1, name: "time"}, {low: 0, high: 1, name}, lines);
  return figure(title, svg, note);
}

const steps = points => points.flatMap(([x, y], i) => i ? [[x, points[i - 1][1]], [x, y]] : [[x, y]]);

// Held-out loss of refitted models against their number of components.
function pathFigure(path) {
  const [line, ...marks] = [path.steps, ...path.landmarks.map(([, size, loss]) => [[size, loss]])];
  const all = [line, ...marks].flat(), words = path.landmarks.map(([name, size]) => `${name} (${size})`);
  const svg = drawLines("Error and number of components", {...spanOf(all.map(([size]) => size)), name: "number of components"}, {...spanOf(all.map(([, loss]) => loss)), name: "held-out loss"},
    [{points: line, colour: "low", dots: true}, ...marks.map(points => ({points, colour: "high", dots: true}))]);
  return figure("Error and number of components", svg, `Blue: models of the best components, each fitted again. ${words.length ? `Red: all components up to an order: ${words.join(", ")}. ` : ""}The model shown has ${path.chosen}.`);
}

// Figures of one output.
function outputFigures(data, output) {
  const isClass = data.link === "logit" || data.link === "softmax", name = data.outputs[output];
  const own = records => data.outputs.length ? records.filter(record => record.output === name) : records;
  const figures = own(data.rocs).map(rocFigure);
  for (const groups of own(data.groups)) {
    figures.push(calibrationFigure(groups, isClass));
    if (data.link === "log") figures.push(ratioFigure(groups, data));
  }
  for (const groups of own(data.reliability)) {
    const seen = "of the fit, each predicted by bags that had not seen it,", when = " in the fit";
    figures.push(calibrationFigure(groups, isClass, `Rows ${seen}`, when));
    if (data.link === "log" && groups.predicted.every(mean => mean > 0)) figures.push(ratioFigure(groups, data, `rows ${seen}`, when));
  }
  return figures;
}

// Figures of a whole model.
function modelFigures(data) {
  const figures = [];
  if (data.survival.length) {
    const source = data.hasBaseline ? "" : " The baseline hazard is that of these rows, because the model has none.";
    const [all, ...thirds] = data.survival, key = "Solid: observed (Kaplan-Meier). Dashed: mean of the predicted curves.";
    figures.push(survivalFigure("Survival of all rows", [all], ["low"], key + source, survivalName(data)));
    if (thirds.length) figures.push(survivalFigure("Survival by predicted risk", thirds, ["low", "faint", "high"], "Blue: lowest third of risk. Grey: middle third. Red: highest third. " + key, survivalName(data)));
  }
  if (data.path) figures.push(pathFigure(data.path));
  return figures;
}
