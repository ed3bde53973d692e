// The view: controls, answer, rankings and charts, kept in step with one state.

const FIRST_SHOWN = 12, MOST_PARTS = 12;
const byId = id => document.getElementById(id);

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function percent(share) {
  return (100 * share).toFixed(share < 0.0995 ? 1 : 0) + " %";
}

function shown(x) {
  return Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-4) ? x.toExponential(5) : x.toPrecision(6);
}

class View {
  constructor(model) {
    this.model = model;
    this.data = model.data;
    this.output = 0;
    this.typical = this.data.features.map((feature, j) => feature.levels.length && !feature.quantiles.length
      ? this.commonLevel(j) : feature.quantiles[2] ?? null);
    this.values = this.typical.slice();
    this.offset = 0;
    this.ranked = this.data.components.map((_, i) => i).sort((a, b) => this.data.components[b].importance - this.data.components[a].importance);
    this.chosen = this.ranked[0];
    this.heading();
    this.rowPicker();
    this.controls();
    this.rankings();
    this.list();
    this.trust();
    this.summary();
    this.listen();
    this.update();
  }

  commonLevel(j) {
    const axis = this.model.axes[1][j];
    return axis.groups ? axis.groups.indexOf(0) : 0;
  }

  isClass() { return this.data.link === "logit" || this.data.link === "softmax"; }

  heading() {
    const {title, target, components, features, outputs, scores, error} = this.data;
    document.title = title;
    byId("title").textContent = title;
    const pairs = components.filter(component => component.features.length > 1).length;
    byId("lede").textContent = `Predicts ${target} as a sum of ${components.length - pairs} main effects`
      + (pairs ? ` and ${pairs} interactions` : "") + `, each shown below in full.`;
    const facts = {Features: features.length, Components: components.length, ...(outputs.length ? {Outputs: outputs.length} : {})};
    for (const [name, value] of Object.entries(scores)) facts[name] = shortNumber(value);
    facts["Largest mean of a component"] = error.toExponential(0);
    byId("facts").append(...Object.entries(facts).map(([name, value]) => make("div", {}, make("dt", {textContent: name}), make("dd", {textContent: value}))));
    byId("output-pick").hidden = !outputs.length;
    byId("output").append(...outputs.map((name, k) => make("option", {value: k, textContent: name})));
  }

  rowPicker() {
    byId("row").append(make("option", {value: "", textContent: "a typical case"}),
      ...this.data.rows.map((_, i) => make("option", {value: i, textContent: `row ${i + 1} of the rows shown`})));
  }

  // Controls in the order of total importance.
  controls() {
    this.inputs = [];
    const order = Object.keys(this.data.sobol).map(name => this.data.features.findIndex(feature => feature.name === name));
    byId("controls").append(...order.map(j => this.control(j)));
  }

  control(j) {
    const feature = this.data.features[j], axis = this.model.axes[1][j];
    const label = make("label", {textContent: feature.name, htmlFor: `value-${j}`});
    const row = make("div", {className: "control"}, label);
    const control = {row};
    if (feature.levels.length) {
      control.select = make("select", {id: `value-${j}`});
      control.select.append(...feature.levels.map((level, i) => make("option", {value: i, textContent: level})));
      if (axis.missing) control.select.append(make("option", {value: "", textContent: "missing"}));
      control.select.append(make("option", {value: UNSEEN, textContent: "(unseen level)", hidden: true}));
      control.select.onchange = () => this.set(j, control.select.value === "" ? null : +control.select.value);
      row.append(control.select);
    } else {
      this.numberControl(j, feature, axis, control);
    }
    control.part = make("span", {className: "part"});
    row.append(control.part);
    this.inputs[j] = control;
    return row;
  }

  numberControl(j, feature, axis, control) {
    const isDate = feature.kind === "date", unit = feature.kind === "duration" ? DAY : 1;
    control.field = make("input", {id: `value-${j}`, type: isDate ? "date" : "number", step: "any", className: "field"});
    control.slider = make("input", {type: "range", min: 0, max: 1000, step: 1, className: "slider"});
    control.slider.setAttribute("aria-label", `${feature.name}, from its smallest to its largest value`);
    control.slider.oninput = () => this.set(j, this.rounded(feature, axis, control.slider.value / 1000));
    control.field.oninput = () => {
      const x = isDate ? control.field.valueAsNumber / 1000 : control.field.valueAsNumber * unit;
      if (!Number.isNaN(x)) this.set(j, x, control.field);
    };
    control.show = x => isDate ? new Date(x * 1000).toISOString().slice(0, 10) : String(x / unit);
    control.row.append(control.field, control.slider);
    if (axis.missing) {
      control.missing = make("input", {type: "checkbox", id: `missing-${j}`});
      control.missing.onchange = () => this.set(j, control.missing.checked ? null : this.typical[j]);
      control.row.append(make("label", {className: "missing", htmlFor: `missing-${j}`}, control.missing, " missing"));
    }
  }

  // Value at a rank, with no more digits than its range needs.
  rounded(feature, axis, rank) {
    const x = rank >= 1 ? axis.values[axis.regular - 1] : quantile(axis, rank);
    if (feature.kind === "date" || feature.kind === "duration") return Math.round(x / DAY) * DAY;
    const range = axis.values[axis.regular - 1] - axis.values[0];
    const digits = Math.max(0, Math.min(12, 3 - Math.floor(Math.log10(range || 1))));
    const whole = axis.values.every(Number.isInteger);
    return whole ? Math.round(x) : +x.toFixed(digits);
  }

  set(j, x, source = null) {
    this.values[j] = x;
    this.update(source);
  }

  setAll(values, offset = this.offset) {
    this.values = values.slice();
    this.offset = offset;
    this.update();
  }

  update(source = null) {
    this.answer = this.model.explain(this.values, this.offset);
    this.data.features.forEach((feature, j) => this.showControl(j, feature, source));
    this.showAnswer();
    this.showContributions();
    this.showChart();
  }

  showControl(j, feature, source) {
    const control = this.inputs[j], x = this.values[j], axis = this.model.axes[1][j];
    const isMissing = x === null || Number.isNaN(x);
    if (control.select) control.select.value = isMissing ? "" : x;
    else {
      if (control.field !== source) control.field.value = isMissing ? "" : control.show(x);
      if (!isMissing && document.activeElement !== control.slider) control.slider.value = Math.round(1000 * this.rankOf(axis, x));
      control.slider.disabled = isMissing;
      if (control.missing) control.missing.checked = isMissing;
    }
    const part = this.share(j);
    control.part.textContent = (part >= 0 ? "+" : "−") + shortNumber(Math.abs(+part.toPrecision(3)));
    control.part.className = "part " + (part > 0 ? "up" : part < 0 ? "down" : "");
  }

  rankOf(axis, x) {
    const ranks = nodeRanks(axis), place = axis.locate(x);
    if (place === null) return 0;
    const [node, fraction] = place;
    if (node === 0 && fraction === 0) return 0;
    if (node >= axis.regular - 1) return 1;
    return ranks[node] + fraction * (ranks[node + 1] - ranks[node]);
  }

  // Shapley value of a feature: its equal share of every component it is in.
  share(j) {
    return this.data.components.reduce((sum, component, i) =>
      component.features.includes(j) ? sum + this.answer.parts[i][this.output] / component.features.length : sum, 0);
  }

  showAnswer() {
    const {target, outputs, intercept, link, classes} = this.data;
    const isPair = link === "logit" && classes.length === 2;
    const prediction = this.answer.predictions[this.output];
    const name = isPair ? `probability of ${classes[1]}` : outputs[this.output];
    byId("answer-name").textContent = name !== undefined ? `${target}: ${name}` : target;
    const number = byId("prediction");
    number.textContent = shown(prediction);
    number.dataset.value = prediction;
    const raw = this.answer.raw[this.output];
    const scale = isPair ? `log-odds of ${classes[1]}` : link === "logit" ? "log-odds" : link === "identity" ? "" : "raw score";
    byId("base").textContent = (scale ? `${scale} ${shown(raw)}; ` : "") + `average ${scale || "prediction"} ${shortNumber(intercept[this.output])}`
      + (this.offset ? `; offset ${shortNumber(this.offset)}` : "");
    byId("classes").replaceChildren(...(outputs.length > 1 && this.isClass() ? outputs.map((output, k) => make("div", {className: "class" + (k === this.output ? " on" : "")},
      make("span", {textContent: output}), bar(this.answer.predictions[k], "plain"), make("span", {textContent: percent(this.answer.predictions[k])}))) : []));
  }

  showContributions() {
    const parts = this.data.components.map((component, i) => ({name: component.name, i, value: this.answer.parts[i][this.output]}))
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const rest = parts.splice(MOST_PARTS);
    if (rest.length) parts.push({name: `${rest.length} others`, value: rest.reduce((sum, part) => sum + part.value, 0)});
    const largest = Math.max(...parts.map(part => Math.abs(part.value))) || 1;
    byId("contributions").replaceChildren(...parts.map(part => {
      const width = 50 * Math.abs(part.value) / largest;
      const fill = make("i", {className: part.value >= 0 ? "up" : "down"});
      fill.style.cssText = `width:${width}%;${part.value >= 0 ? "left" : "right"}:50%`;
      const name = part.i === undefined ? make("span", {textContent: part.name})
        : make("button", {type: "button", className: "link", textContent: part.name, onclick: () => this.choose(part.i, true)});
      return make("div", {className: "contribution"}, name, make("span", {className: "track"}, fill),
        make("span", {className: "value", textContent: (part.value >= 0 ? "+" : "−") + shortNumber(Math.abs(+part.value.toPrecision(3)))}));
    }));
  }

  rankings() {
    const components = this.ranked.map(i => this.data.components[i]).map((component, place) => make("div", {className: "rank"},
      make("button", {type: "button", className: "link", textContent: component.name, onclick: () => this.choose(this.ranked[place], true)}),
      bar(component.importance, component.features.length > 1 ? "pair" : ""),
      make("span", {textContent: component.importance.toFixed(3)}), make("span", {textContent: percent(component.share)})));
    const features = Object.entries(this.data.sobol).map(([name, [main, total, interaction]]) => make("div", {className: "rank"},
      make("span", {textContent: name}), bar(main, "", interaction), make("span", {textContent: percent(main)}), make("span", {textContent: percent(total)})));
    this.fold(byId("ranking"), byId("ranking-more"), [head("Component", "E|f|", "variance"), ...components]);
    this.fold(byId("sobol"), byId("sobol-more"), [head("Feature", "alone", "in total"), ...features]);
  }

  fold(place, button, rows) {
    place.replaceChildren(...rows.slice(0, FIRST_SHOWN + 1));
    button.hidden = rows.length <= FIRST_SHOWN + 1;
    button.textContent = `Show all ${rows.length - 1}`;
    button.onclick = () => { place.replaceChildren(...rows); button.hidden = true; };
  }

  list() {
    byId("list").append(...this.ranked.map(i => {
      const component = this.data.components[i];
      const item = make("div", {className: "item", id: `item-${i}`, onclick: () => this.choose(i)},
        make("span", {textContent: component.name}), bar(component.importance, component.features.length > 1 ? "pair" : ""));
      item.setAttribute("role", "option");
      return item;
    }));
  }

  visible() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.ranked.filter(i => words.every(word => this.data.components[i].name.toLowerCase().includes(word)));
  }

  filter() {
    const visible = new Set(this.visible());
    this.ranked.forEach(i => { byId(`item-${i}`).hidden = !visible.has(i); });
  }

  choose(i, scroll = false) {
    this.chosen = i;
    this.showChart();
    if (scroll) byId("components").scrollIntoView();
  }

  step(by) {
    const visible = this.visible(), at = visible.indexOf(this.chosen);
    if (visible.length) this.choose(visible[(at + by + visible.length) % visible.length]);
  }

  showChart() {
    const component = this.data.components[this.chosen], host = byId("chart");
    document.querySelectorAll("#list [aria-selected=true]").forEach(item => item.removeAttribute("aria-selected"));
    const item = byId(`item-${this.chosen}`), list = byId("list");
    item.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", item.id);
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = item.offsetTop - list.clientHeight / 2;
    byId("chart-title").textContent = component.name;
    const draw = component.features.length === 1 ? drawMain : drawPair;
    const {svg, pick} = draw(this.model, component, this.output, this.values, Math.max(300, host.clientWidth || 640));
    const at = event => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      return pick((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
    };
    svg.onclick = event => { const found = at(event); if (found) this.setAll(Object.assign(this.values.slice(), found)); };
    svg.onpointermove = event => this.read(component, at(event) || {});
    svg.onpointerleave = () => this.read(component, {});
    host.replaceChildren(svg);
    this.read(component, {});
  }

  read(component, changed) {
    const values = Object.assign(this.values.slice(), changed);
    const where = component.features.map(j => `${this.data.features[j].name} = ${valueWord(this.data.features[j], values[j])}`);
    const effect = this.model.score(component, values, this.output);
    const spread = component.features.length > 1 ? `; on average ±${shortNumber(2 * component.spread)} between bags` : "";
    byId("reading").textContent = `${where.join(", ")}: ${effect >= 0 ? "+" : "−"}${shortNumber(Math.abs(effect))}${spread}`;
  }

  trust() {
    const {scores, error, shapes, warnings, nRows} = this.data;
    const block = (title, ...content) => make("div", {className: "card"}, make("h3", {textContent: title}), ...content);
    const wide = (...content) => Object.assign(block(...content), {className: "card wide"});
    const line = text => make("p", {textContent: text});
    const items = texts => make("ul", {}, ...texts.map(text => make("li", {textContent: text})));
    const scored = Object.entries(scores);
    const blocks = [
      block("One decomposition", line(`The largest mean of any component along any of its features is ${error.toExponential(1)} of its standard deviation. Where that is zero up to rounding, this is the only decomposition of the model whose components average to zero under the training marginals.`)),
      block("Score on held-out rows", scored.length ? items(scored.map(([name, value]) => `${name}: ${shortNumber(value)}`)) : line("No held-out rows were given.")),
      block("Bands", line("The model is the average of several, each trained on a different part of the rows. The band around a curve reaches two of their standard deviations to either side. It is wide where rows are few or disagree.")),
      block("Shapes, with proof", Object.keys(shapes).length ? items(Object.entries(shapes).map(([name, held]) => `${name}: ${held.join(", ")}, whatever the values of the other features`)) : line("For no feature is it proved that the prediction only rises or only falls with it.")),
      wide("Dependence between features", nRows ? warnings.length ? items(warnings) : line("On the rows given, the other components could imitate less than half of each component.") : line("Not measured, because this report was written without rows.")),
    ];
    byId("trust-body").append(...blocks);
  }

  summary() {
    const rows = this.data.features.map(feature => {
      const words = feature.quantiles.map(x => valueWord(feature, x));
      const common = valueWord(feature, this.typical[this.data.features.indexOf(feature)]);
      const cells = words.length ? words : [feature.levels.length ? `${feature.levels.length} levels` : "", "", common, "", ""];
      return make("tr", {}, make("th", {textContent: feature.name, scope: "row"}), ...[feature.kind, ...cells, feature.missing ? percent(feature.missing) : "–"].map(text => make("td", {textContent: text})));
    });
    const names = ["Feature", "Kind", "Smallest", "5 %", "Middle or most common", "95 %", "Largest", "Missing"];
    byId("summary").append(make("thead", {}, make("tr", {}, ...names.map(name => make("th", {textContent: name, scope: "col"})))), make("tbody", {}, ...rows));
  }

  export() {
    const quote = text => `"${String(text).replaceAll('"', '""')}"`;
    const lines = [["what", "name", "value"].join(",")];
    this.data.features.forEach((feature, j) => lines.push(["feature", quote(feature.name), quote(this.values[j] === null ? "" : feature.levels.length ? valueWord(feature, this.values[j]) : this.values[j])].join(",")));
    const names = this.data.outputs.length ? this.data.outputs : [this.data.target];
    names.forEach((name, k) => lines.push(["intercept", quote(name), this.data.intercept[k]].join(",")));
    if (this.offset) lines.push(["offset", "", this.offset].join(","));
    this.data.components.forEach((component, i) => lines.push(["contribution", quote(component.name), this.answer.parts[i][this.output]].join(",")));
    names.forEach((name, k) => lines.push(["prediction", quote(name), this.answer.predictions[k]].join(",")));
    download("what-if.csv", "text/csv", lines.join("\n") + "\n");
  }

  listen() {
    const typical = () => this.setAll(this.typical, 0);
    byId("row").onchange = ({target: {value}}) => value === "" ? typical() : this.setAll(this.data.rows[+value], this.data.offsets[+value]);
    byId("reset").onclick = () => { byId("row").value = ""; typical(); };
    byId("export").onclick = () => this.export();
    byId("output").onchange = event => { this.output = +event.target.value; this.update(); };
    byId("filter").oninput = () => this.filter();
    byId("previous").onclick = () => this.step(-1);
    byId("next").onclick = () => this.step(1);
    byId("list").onkeydown = event => {
      const by = {ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (by) { event.preventDefault(); this.step(by); }
    };
    byId("save").onclick = () => download(`${this.data.components[this.chosen].name.replaceAll(" × ", "_x_")}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(byId("chart").firstChild));
    byId("theme").onclick = () => {
      const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
      this.showChart();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.showChart());
    byId("controls").onsubmit = event => event.preventDefault();
    new ResizeObserver(() => this.showChart()).observe(byId("chart"));
  }
}

function bar(share, kind, more = 0) {
  const fill = make("i", {className: kind});
  fill.style.width = `${100 * share}%`;
  const second = make("i", {className: "pair"});
  second.style.cssText = `left:${100 * share}%;width:${100 * more}%`;
  return make("span", {className: "track"}, fill, ...(more ? [second] : []));
}

function head(...names) {
  return make("div", {className: "rank head"}, make("span", {textContent: names[0]}), make("span"), ...names.slice(1).map(name => make("span", {textContent: name})));
}

function download(name, type, text) {
  const link = make("a", {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  link.click();
  URL.revokeObjectURL(link.href);
}

async function start() {
  const data = JSON.parse(byId("payload").textContent);
  try {
    window.report = new View(new Model(data, await unpack(data.packed)));
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    byId("failure").hidden = false;
    byId("failure").textContent = `This page could not start (${error.message}). It needs a browser from 2023 or later.`;
    throw error;
  }
}

start();
