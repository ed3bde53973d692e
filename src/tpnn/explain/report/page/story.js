// The story of a case: how sure the model is of it, where it stands, from the average or a pinned case to its answer step by
// step, its survival curve, and a link that holds it.

const NORMAL_95 = 1.959964; // standard errors on either side
const LINK_MARK = "#case=";
const CURVE_POINTS = 150; // of a survival curve, as drawn
const REASONS = 2; // that are said of a case

class Story {
  constructor(view) {
    Object.assign(this, {view, model: view.model, data: view.data, pinned: null, others: null});
    byId("pin").onclick = () => this.pin(this.pinned ? null : {values: view.values.slice(), offset: view.offset});
    byId("link").onclick = () => this.copy();
    byId("link").hidden = location.protocol === "about:"; // a frame has no address of its own
    byId("stratum").append(...(this.data.baseline || []).map(({name}, k) => make("option", {value: k, textContent: name})));
    byId("stratum").onchange = () => this.show();
    byId("stratum-pick").hidden = (this.data.baseline || []).length < 2;
    window.addEventListener("hashchange", () => this.follow());
  }

  // Everything about the case that the view shows.
  show() {
    const {view} = this, {values, offset, answer} = view;
    this.from = this.pinned && this.model.explain(this.pinned.values, this.pinned.offset);
    byId("pin").textContent = this.pinned ? "Unpin" : "Pin this case";
    byId("pinned-answer").textContent = this.from ? `Pinned case: ${view.word(this.from.predictions[view.output])}` : "";
    byId("interval").textContent = this.surenessWords(this.sureness(answer, values, offset));
    byId("reasons").textContent = this.reasons().join(" ");
    byId("link").href = this.link();
    this.showStrip();
    this.showWaterfall();
    this.showCurve();
  }

  pin(pinned) {
    this.pinned = pinned;
    this.view.update();
  }

  // Interval of the mean of such cases, and of single targets or the set of their classes; null where it is not known.
  sureness(answer, values, offset) {
    const {view, model} = this, {sureness: {reach, scale, errors}, link, outputs, classes} = this.data, k = view.output;
    if (view.editor?.edits.length || !answer.rest) return {mean: null, targets: null, classes: null}; // both are of the model as it was fitted
    const inverse = raw => LINKS[link]([raw])[0], raw = answer.raw[k];
    const error = errors && link !== "softmax" && link !== "quantiles" ? NORMAL_95 * model.errorsOf(values, answer.raw.map(x => x - offset))[k] : null;
    const mean = error === null ? null : [inverse(raw - error), inverse(raw + error)];
    if (!reach) return {mean, targets: null, classes: null};
    if (!scale) {
      const shares = link === "logit" ? [1 - answer.predictions[0], answer.predictions[0]] : answer.predictions, most = Math.max(...shares);
      const names = link === "logit" ? classes : outputs, isIn = i => shares[i] >= 1 - (reach[i] ?? reach[0]) || shares[i] === most;
      return {mean, targets: null, classes: names.filter((_, i) => isIn(i))};
    }
    const half = reach[k] * model.scaleOf(scale, values, answer.raw)[k], middle = inverse(raw);
    return {mean, targets: [link === "log" ? Math.max(0, middle - half) : middle - half, middle + half], classes: null};
  }

  surenessWords({mean, targets, classes}) {
    const {view} = this, share = percent(this.data.sureness.coverage), found = [];
    const between = ends => (view.isClass() ? ends.map(chance) : column(ends, view.error(view.answer.predictions[view.output]) / 5)).join(" and ");
    if (targets) found.push(`The target lies between ${between(targets)}: such intervals hold ${share} of new targets.`);
    if (classes?.length) found.push(`The class is ${classes.join(" or ")}: such sets hold the class of ${share} of new rows.`);
    const name = view.isClass() ? "probability" : this.data.hasBaseline ? "relative risk" : "mean of such cases";
    if (mean) found.push(`The ${name} lies between ${between(mean)} (95 %).`);
    return found.join(" ");
  }

  // What moved the case most away from the average, in sentences, as Explanation.reasons says it.
  reasons() {
    const {view, data, model} = this, {link, classes, outputs, remainder} = data, {output, answer} = view;
    const of = classes.length === 2 ? ` of ${classes[1]}` : outputs.length ? ` of ${outputs[output]}` : "";
    const what = link === "log" ? data.hasBaseline ? "relative risk" : "prediction" : link === "logit" ? `odds${of}` : link === "softmax" ? `score${of}` : `prediction${of}`;
    const parts = view.shares.map((value, j) => ({value, subject: () => this.subject(j)}));
    if (remainder && answer.rest) parts.push({value: answer.rest[output], subject: () => "The remainder, many small effects together,"});
    const largest = parts.filter(({value}) => value !== 0).sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, REASONS);
    const change = value => model.hasFactors ? `multiplies the ${what} by ${relativity(value).slice(1)}` : `${value > 0 ? "raises" : "lowers"} the ${what} by ${written(Math.abs(value))}`;
    return largest.map(({value, subject}) => `${subject()} ${change(value)}.`);
  }

  // A feature with its value, and where that stands among the training rows.
  subject(j) {
    const feature = this.data.features[j], axis = this.model.axes[1][j], x = this.view.values[j], isPlain = Number.isFinite(x) && !feature.levels.length;
    const words = `${feature.name} = ${valueWord(feature, isPlain ? this.view.rounded(feature, axis, x) : x)}`;
    if (axis.groups || !Number.isFinite(x)) return words;
    const share = isThere => axis.values.reduce((sum, value, node) => node < axis.regular && isThere(value) ? sum + axis.weights[node] : sum, 0);
    const [below, above] = [share(value => value < x), share(value => value > x)].map(mass => mass / share(() => true)), most = Math.max(below, above);
    return most >= 0.5 ? `${words}, ${below >= above ? "higher" : "lower"} than in ${most > 0.99 ? "more than 99" : (100 * most).toFixed(0)} % of cases,` : words;
  }

  // The prediction among those of the rows of the page, as a line each.
  showStrip() {
    const {view, data} = this, {output} = view, now = view.answer.predictions[output], host = byId("strip");
    this.others ??= data.rows.map((row, i) => this.model.explain(row, data.offsets[i]).predictions);
    const others = this.others.map(predictions => predictions[output]), old = this.from?.predictions[output];
    host.hidden = others.length < 2;
    if (host.hidden) return;
    const [low, high] = view.isClass() ? [0, 1] : [Math.min(...others), Math.max(...others)], colours = palette();
    const at = x => 4 + 392 * Math.min(1, Math.max(0, high > low ? shareBetween(x, low, high) : 0.5));
    const below = others.filter(x => x < now).length / others.length;
    const words = `Higher than ${percent(below)} of the ${others.length} rows of this page.`, svg = frame(400, 30, words);
    const line = (x, top, bottom, style) => svg.append(element("line", {x1: at(x), x2: at(x), y1: top, y2: bottom, ...style}));
    others.forEach(x => line(x, 9, 21, {stroke: colours.faint, opacity: 0.45}));
    if (old !== undefined) line(old, 3, 27, {class: "pinned", stroke: colours.grey, "stroke-width": 3, "stroke-dasharray": "3 2"});
    line(now, 1, 29, {stroke: colours.ink, "stroke-width": 3});
    host.replaceChildren(svg, make("p", {className: "note", textContent: words}));
  }

  // From the average, or the pinned case, to the answer: each contribution begins where the one before it ends.
  showWaterfall() {
    const {view, data, from} = this, {output, answer} = view, {link, components, remainder} = data;
    const change = of => of(answer) - (from ? of(from) : 0), start = from ? from.raw[output] : data.intercept[output];
    const parts = view.ranked.map(i => ({i, value: change(one => view.part(i, one))})).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const left = parts.slice(FIRST_SHOWN).reduce((sum, {value}) => sum + value, 0), rest = change(one => one.rest?.[output] ?? 0);
    const offset = view.offset - (from ? this.pinned.offset : 0);
    const values = [...parts.map(({value}) => value), rest, offset], begins = [start];
    values.forEach((value, step) => begins.push(begins[step] + value));
    this.span = [Math.min(...begins), Math.max(...begins)];
    byId("waterfall").style.setProperty("--start", `${this.place(start)}%`);
    const texts = signedColumn([...values, left]), at = step => [begins[step], values[step], texts[step]];
    const named = i => nameTag(components[i].names, "button", {type: "button", className: "link", onclick: () => view.choose(i, true)});
    const plain = text => make("span", {textContent: text}), {length} = parts;
    const others = length > FIRST_SHOWN ? this.step(plain(`${length - FIRST_SHOWN} others`), begins[FIRST_SHOWN], left, texts.at(-1)) : null;
    fold(byId("contributions"), parts.map(({i}, step) => this.step(named(i), ...at(step))), others);
    if (remainder) byId("rest").replaceChildren(answer.rest && (!from || from.rest) ? this.step(plain(remainder.name), ...at(length))
      : make("p", {className: "note", textContent: "The remainder has too many trees for a page: it is known for the rows that one can start from. This is the prediction of the components alone."}));
    byId("offset-step").replaceChildren(...(offset ? [this.step(plain("offset"), ...at(length + 1))] : []));
    const raw = answer.raw[output], ends = column([start, raw], view.isClass() ? 0 : view.error(raw) / 10);
    byId("start").replaceChildren(this.step(plain(from ? "pinned case" : "average"), start, 0, ends[0], true));
    byId("end").replaceChildren(this.step(plain(link === "identity" ? "prediction" : "raw score"), raw, 0, ends[1], true));
    this.showSum(start, from ? "pinned case" : "average", offset);
  }

  // Place of a raw score on the way, in per cent.
  place(raw) {
    const [low, high] = this.span;
    return high > low ? 100 * shareBetween(raw, low, high) : 50;
  }

  // A step of the way, or a mark at one of its ends.
  step(name, begin, value, text, isEnd = false) {
    const [low, high] = [begin, begin + value].sort((a, b) => a - b).map(x => this.place(x));
    const fill = make("i", {className: isEnd ? "mark" : value > 0 ? "up" : "down"});
    fill.style.cssText = `left:min(${low}%, calc(100% - ${isEnd ? 3 : 1}px));width:${high - low}%`;
    const factor = this.model.hasFactors ? [make("span", {className: "value factor", textContent: isEnd ? "" : relativity(value)})] : [];
    return make("div", {className: "contribution" + (factor.length ? " factors" : "")}, name, make("span", {className: "track"}, fill), make("span", {className: "value", textContent: text}), ...factor);
  }

  // That start, contributions and offset add up to the raw score, also as they are written.
  showSum(start, name, added) {
    const {link} = this.data, raw = this.view.answer.raw[this.view.output];
    const unit = 10 ** (power(Math.max(Math.abs(raw), Math.abs(start)) || 1) - 2), rounded = x => Math.round(x / unit) * unit;
    const parts = [rounded(start), rounded(raw) - rounded(start) - rounded(added), rounded(added), rounded(raw)];
    const [all, part, offset, whole] = column(parts, 2 * unit), plus = text => text.startsWith("−") ? text : "+" + text;
    const terms = [`${name} ${all}`, `${this.pinned ? "differences" : "contributions"} ${plus(part)}`, ...(added ? [`offset ${plus(offset)}`] : [])];
    byId("sum").textContent = `${terms.join(", ")}: together ${link === "identity" ? "the prediction" : "the raw score"} ${whole}.`;
  }

  // Probability of no event of the model's kind up to each time, with its band: as AnovaModel.predict_survival and predict_survival_interval.
  survival(curve, raw, error) {
    return curve.times.map((time, i) => {
      const hazard = Math.exp(Math.min(LARGEST_SCORE, raw + curve.logHazard[i])), factor = Math.exp(NORMAL_95 * Math.hypot(error, curve.errors[i]));
      return [time, Math.exp(-hazard), Math.exp(-hazard * factor), Math.exp(-hazard / factor)];
    });
  }

  // The survival curve of the case beside that of average risk and of the pinned case.
  showCurve() {
    const {data, view, from} = this, curve = data.baseline?.[+byId("stratum").value || 0];
    byId("curve").hidden = !curve;
    if (!curve?.times.length) return;
    const {values, offset, answer} = view, {errors} = data.sureness, isFitted = errors && !view.editor?.edits.length && answer.rest;
    const error = isFitted ? this.model.errorsOf(values, [answer.raw[0] - offset])[0] : 0, last = curve.times.at(-1);
    const points = this.survival(curve, answer.raw[0], error), every = Math.ceil(points.length / CURVE_POINTS);
    const drawn = all => [[0, 1, 1, 1], ...all.filter((_, i) => i % every === 0 || i === all.length - 1)];
    const line = (all, more) => ({points: steps(drawn(all).map(([time, share]) => [time, share])), ...more});
    const lines = [line(this.survival(curve, data.intercept[0], 0), {colour: "faint", dashed: true}), ...(from ? [line(this.survival(curve, from.raw[0], 0), {colour: "high"})] : []),
      line(points, {colour: "low", band: isFitted ? drawn(points).map(([time, , low, high]) => [time, low, high]) : null})];
    const half = points.find(([, share]) => share <= 0.5)?.[0], isAny = data.cause === null; // event
    const name = half === undefined ? `More than half ${isAny ? "survive" : "are without it"} to the last event, at ${written(last)}.` : `Half of such cases ${isAny ? "survive" : "are without it"} beyond ${written(half)}.`;
    const heading = isAny ? "Survival of this case" : `This case without an event of kind ${data.cause}`;
    byId("curve-name").textContent = heading;
    const svg = drawLines(`${heading}. ${name}`, {low: 0, high: last, name: "time"}, {low: 0, high: 1, name: survivalName(data)}, lines);
    const key = `Blue: this case${isFitted ? ", with its band of 95 %" : ""}. Dashed: a case of average risk.${from ? " Red: the pinned case." : ""}`;
    byId("curve-body").replaceChildren(svg, make("p", {className: "note", textContent: `${name} ${key}`}));
  }

  // A case as a link holds it: values by name, levels by their words, unseen ones as false.
  named(values) {
    return Object.fromEntries(this.data.features.map(({name, levels}, j) => [name, values[j] === UNSEEN ? false : levels.length && values[j] !== null ? levels[values[j]] : values[j]]));
  }

  // Values of a case that a link holds; what the model does not know stays typical.
  numbered(record) {
    return this.data.features.map(({name, levels}, j) => {
      const typical = this.view.typical[j], x = Object.hasOwn(record, name) ? record[name] : typical;
      if (x === null) return this.model.axes[1][j].missing || typical === null ? null : typical;
      if (levels.length) return x === false ? UNSEEN : levels.includes(x) ? levels.indexOf(x) : typical;
      return Number.isFinite(x) ? x : typical;
    });
  }

  link() {
    const {values, offset, output} = this.view, held = {model: this.data.digest, output, offset, values: this.named(values)};
    if (this.pinned) held.pinned = {offset: this.pinned.offset, values: this.named(this.pinned.values)};
    return LINK_MARK + encodeURIComponent(JSON.stringify(held));
  }

  // Show the case of the page's address, if it has one.
  follow() {
    if (!location.hash.startsWith(LINK_MARK) || location.hash === this.link()) return;
    const note = text => { byId("link-note").textContent = text; };
    try {
      const {model, output, offset, values, pinned} = JSON.parse(decodeURIComponent(location.hash.slice(LINK_MARK.length)));
      const number = x => Number.isFinite(x) ? x : 0;
      const held = pinned ? {values: this.numbered(pinned.values), offset: number(pinned.offset)} : null, shown = this.numbered(values);
      this.pinned = held;
      if (Number.isInteger(output) && output >= 0 && output < this.model.outputs) this.view.showOutput(output);
      this.view.setAll(shown, number(offset));
      note(model === this.data.digest ? "This case came with the link." : "The link was made for another model: its values are shown here as far as this model knows them.");
    } catch {
      note("The link holds no case that can be read.");
    }
  }

  // The link becomes the address of the page, and is copied where the browser lets it; of a file, without its folder here.
  copy() {
    const isFile = location.protocol === "file:", done = navigator.clipboard?.writeText(isFile ? this.link() : byId("link").href) ?? Promise.reject();
    done.then(() => isFile ? "The part from #case= is copied: append it to the address of your copy of this page." : "The link is copied.", () => "The link is now the address of this page.").then(text => { byId("link-note").textContent = text; });
  }
}
