// The view: controls, answer, rankings and charts, kept in step with one state.

const PRINTED_SHARE = 0.99, MOST_PRINTED = 24; // of the variance, and components, that are drawn on paper

class View {
  constructor(model) {
    this.model = model;
    nameTag.known = new Shortener(model.data.features.map(feature => feature.name));
    this.data = model.data;
    this.output = 0;
    this.typical = this.data.features.map((feature, j) => feature.levels.length && !feature.quantiles.length
      ? this.commonLevel(j) : feature.quantiles.length ? this.rounded(feature, model.axes[1][j], feature.quantiles[2]) : null);
    this.values = this.typical.slice();
    this.offset = 0;
    if (this.isClass()) this.output = this.likeliest(); // the first class would be one by alphabet
    this.target = this.data.hasBaseline && this.data.target === "prediction" ? "relative risk" : this.data.target; // "prediction" is the default
    this.rank();
    this.chosen = this.ranked[0];
    this.heading();
    this.rowPicker();
    this.controls();
    this.rankings();
    this.list();
    this.scores();
    this.trust();
    this.summary();
    this.about();
    this.listen();
    this.story = new Story(this);
    this.editor = new Editor(this);
    this.update();
    this.overview = new Overview(this);
    this.showCurves();
    this.editor.recall();
    this.story.follow();
  }

  rank() {
    const {components} = this.data, all = components.map((_, i) => i), isConstant = components.every(isZero);
    components.forEach(component => { component.isShown ||= isConstant || !isZero(component); }); // also after an edit to zero
    this.ranked = all.filter(i => components[i].isShown).sort((a, b) => components[b].importance - components[a].importance);
  }

  commonLevel(j) {
    const axis = this.model.axes[1][j];
    return axis.groups ? axis.groups.indexOf(0) : 0;
  }

  // Output with the largest prediction of the case.
  likeliest() {
    const {predictions} = this.model.explain(this.values);
    return predictions.indexOf(Math.max(...predictions));
  }

  isClass() { return this.data.link === "logit" || this.data.link === "softmax"; }

  heading() {
    const {title, components, features, outputs, scores} = this.data;
    document.title = title;
    byId("title").textContent = title;
    byId("lede").textContent = this.lede();
    const facts = [["Features", features.length], ["Components", components.length], ...(outputs.length ? [["Outputs", outputs.length]] : []),
      ...mainScores(scores, this.isClass(), outputs).map(([name, value, constant]) => [name, ...scoreWords(value, constant)])];
    const beside = constant => constant === undefined ? [] : [make("small", {textContent: `constant: ${constant}`})];
    byId("facts").append(...facts.map(([name, value, constant]) => make("div", {}, make("dt", {textContent: name}), make("dd", {}, String(value), ...beside(constant)))));
    byId("output-pick").hidden = !outputs.length;
    byId("output").append(...outputs.map((name, k) => make("option", {value: k, textContent: name})));
    byId("output").value = this.output;
  }

  lede() {
    const {components, link} = this.data, {target} = this;
    const several = components.filter(component => component.features.length > 1).length;
    const rest = this.data.remainder ? ` There is a remainder, too, with ${percent(this.data.remainder.share)} of the variance.` : "";
    const sum = `a sum of ${counted(components.length - several, "main effect")}` + (several ? ` and ${counted(several, "interaction")}` : "") + `, each shown below in full.${rest}`;
    const isNamed = this.data.target !== "prediction";
    if (link === "log") return `The logarithm of ${isNamed ? target : `the ${target}`} is ${sum}`;
    if (link === "logit") return `The log-odds${isNamed ? ` of ${target}` : ""} are ${sum}`;
    if (link === "softmax") return `The score of every class is ${sum}`;
    return isNamed ? `Predicts ${target} as ${sum}` : `The prediction is ${sum}`;
  }

  rowPicker() {
    byId("row").append(make("option", {value: "", textContent: "a typical case"}),
      ...this.data.rows.map((_, i) => make("option", {value: i, textContent: `row ${i + 1} of the rows shown`})));
  }

  // Controls in the order of total importance.
  controls() {
    this.inputs = [];
    fold(byId("controls"), this.data.sobol.map(([j]) => this.control(j)));
  }

  control(j) {
    const feature = this.data.features[j], axis = this.model.axes[1][j];
    const label = nameTag([feature.name], "label", {htmlFor: `value-${j}`});
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
    control.was = make("small", {className: "was", hidden: true});
    row.append(control.part, control.was);
    this.inputs[j] = control;
    return row;
  }

  numberControl(j, feature, axis, control) {
    const isDate = feature.kind === "date", unit = feature.kind === "duration" ? DAY : 1;
    control.field = make("input", {id: `value-${j}`, type: isDate ? "date" : "number", step: "any", className: "field"});
    control.slider = make("input", {type: "range", min: 0, max: 1000, step: 1, className: "slider"});
    control.slider.setAttribute("aria-label", `${feature.name}, from its smallest to its largest value`);
    control.slider.oninput = () => {
      const rank = control.slider.value / 1000;
      this.set(j, this.rounded(feature, axis, rank >= 1 ? axis.values[axis.regular - 1] : quantile(axis, rank)));
    };
    control.hint = make("small", {className: "hint", id: `hint-${j}`, hidden: true});
    control.hint.setAttribute("role", "alert");
    control.field.setAttribute("aria-describedby", control.hint.id);
    control.field.oninput = () => {
      const x = isDate ? control.field.valueAsNumber / 1000 : control.field.valueAsNumber * unit, isEmpty = Number.isNaN(x);
      if (!isEmpty || axis.missing) this.set(j, isEmpty ? null : x, control.field);
      else this.hint(control, "A value is needed: the prediction is that of the last one.");
    };
    control.show = x => isDate ? new Date(x * 1000).toISOString().slice(0, 10) : unit === 1 ? steppedNumber(x, stepOf(axis, x)) : String(+(x / unit).toPrecision(6));
    control.row.append(control.field, control.slider, control.hint);
    if (axis.missing) {
      control.missing = make("input", {type: "checkbox", id: `missing-${j}`});
      control.missing.onchange = () => this.set(j, control.missing.checked ? null : this.typical[j]);
      control.row.append(make("label", {className: "missing", htmlFor: `missing-${j}`}, control.missing, " missing"));
    }
  }

  // A value with no more digits than its step needs; dates and durations in days.
  rounded(feature, axis, x) {
    if (feature.kind === "date" || feature.kind === "duration") return Math.round(x / DAY) * DAY;
    return axis.values.every(Number.isInteger) ? Math.round(x) : +steppedNumber(x, stepOf(axis, x));
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
    this.shares = this.data.features.map((_, j) => this.share(j));
    this.shareTexts = signedColumn(this.shares);
    this.data.features.forEach((feature, j) => this.showControl(j, feature, source));
    this.showAnswer();
    this.story.show();
    this.showChart();
    this.editor.showCase();
  }

  showControl(j, feature, source) {
    const control = this.inputs[j], x = this.values[j], axis = this.model.axes[1][j];
    const isMissing = x === null || Number.isNaN(x);
    if (control.select) control.select.value = isMissing ? "" : x;
    else {
      if (control.field !== source) control.field.value = isMissing ? "" : control.show(x);
      control.field.title = isMissing || feature.kind === "date" ? "" : String(x);
      if (!isMissing && document.activeElement !== control.slider) control.slider.value = Math.round(1000 * this.rankOf(axis, x));
      control.slider.disabled = isMissing;
      if (control.missing) control.missing.checked = isMissing;
      this.hint(control, isMissing ? "" : this.outside(feature, axis, x));
    }
    const part = this.shares[j], pinned = this.story.pinned?.values[j];
    Object.assign(control.was, {hidden: pinned === undefined || pinned === x, textContent: `pinned: ${pinned === undefined ? "" : valueWord(feature, pinned)}`});
    control.part.textContent = this.shareTexts[j];
    if (this.model.hasFactors) control.part.append(make("small", {textContent: relativity(part)}));
    control.part.className = "part " + (part > 0 ? "up" : part < 0 ? "down" : "");
  }

  // What is odd about a value: beyond those of the fit, or between whole numbers.
  outside(feature, axis, x) {
    if (axis.wraps) return "";
    const last = axis.regular - 1, [low, high] = [feature.quantiles[0] ?? axis.values[0], feature.quantiles[4] ?? axis.values[last]], word = value => valueWord(feature, value);
    if (x < low) return `below ${word(low)}: counted as ${word(axis.values[0])}`;
    if (x > high) return `beyond ${word(high)}: counted as ${word(axis.values[last])}`;
    return (axis.words || isEvenlySpaced(axis)) && !Number.isInteger(x) && axis.values.every(Number.isInteger) ? "between two whole numbers" : "";
  }

  hint(control, text) {
    Object.assign(control.hint, {hidden: !text, textContent: text});
    control.field.setAttribute("aria-invalid", Boolean(text));
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
      component.features.includes(j) ? sum + this.part(i) / component.features.length : sum, 0);
  }

  // Contribution of a component; zero where it is rounding.
  part(i, answer = this.answer) {
    const value = answer.parts[i][this.output];
    return Math.abs(value) < this.data.packed.step / 2 ? 0 : value;
  }

  showAnswer() {
    const {outputs, intercept, link, classes} = this.data, {target} = this;
    const isPair = link === "logit" && classes.length === 2;
    const prediction = this.answer.predictions[this.output];
    const name = isPair ? `probability of ${classes[1]}` : outputs[this.output];
    byId("answer-name").textContent = name !== undefined ? `${target}: ${name}` : target;
    const number = byId("prediction");
    number.textContent = this.word(prediction);
    number.dataset.value = prediction;
    byId("base").textContent = this.baseWords(link, isPair, classes, intercept[this.output]);
    const rows = outputs.length > 1 && this.isClass() ? outputs.map((output, k) => make("div", {className: "class" + (k === this.output ? " on" : "")},
      nameTag([output]), bar(this.answer.predictions[k], "plain"), make("span", {textContent: chance(this.answer.predictions[k])}))) : [];
    fold(byId("classes"), rows);
  }

  // A prediction, with one digit more than its standard error allows, so that it is seen to move.
  word(prediction) { return this.isClass() ? chance(prediction) : written(prediction, this.error(prediction) / 10); }

  showOutput(output) {
    this.output = byId("output").value = output;
    this.update();
    this.showCurves();
    this.editor.showEdits();
    this.overview?.show();
  }

  // Standard error of a prediction like that of the case; 0 if it is not known.
  error(prediction) {
    const {errors} = this.data.sureness, fitted = this.answer.raw.map(score => score - this.offset);
    const raw = errors ? this.model.errorsOf(this.values, fitted)[this.output] : 0;
    return this.data.link === "log" ? Math.abs(prediction) * raw : this.data.link === "identity" || this.data.link === "quantiles" ? raw : 0;
  }

  // The raw score and what it starts from, which relativities multiply.
  baseWords(link, isPair, classes, intercept) {
    const raw = this.answer.raw[this.output];
    const scale = isPair ? `log-odds of ${classes[1]}` : link === "logit" ? "log-odds" : link === "identity" ? "" : "raw score";
    const [score, mean] = column([raw, intercept], scale ? 0 : this.error(raw) / 10);
    const words = [scale ? `${scale}: ${score} (average ${mean})` : `average prediction ${mean}`, ...this.offsetWords()];
    const factor = this.data.offset?.isExposure ? " and the exposure" : this.offset ? ` and ${relativity(this.offset)} of the offset` : "";
    if (this.model.hasFactors) words.push(`base ${link === "log" ? this.data.hasBaseline ? "relative risk" : "prediction" : "odds"} ${written(Math.exp(intercept))}, times the factors of the contributions${factor}`);
    return words.join("; ");
  }

  // The known part of the raw score, where the model or the case has one: a typical case has an exposure of 1 or an offset of 0.
  offsetWords() {
    const {offset} = this.data, kind = offset?.isExposure ? "exposure" : "offset";
    if (!offset && !this.offset) return [];
    const value = written(offset?.isExposure ? Math.exp(this.offset) : this.offset);
    return [`${kind} ${value}` + (offset?.name && offset.name !== kind ? ` (${offset.name})` : "")];
  }

  rankings() {
    const components = this.ranked.map(i => {
      const component = this.data.components[i];
      return make("div", {className: "rank"}, nameTag(component.names, "button", {type: "button", className: "link", onclick: () => this.choose(i, true)}),
        bar(component.importance, kindOf(component), 0, component.interval),
        make("span", {textContent: component.importance.toFixed(3)}), make("span", {textContent: percent(component.share)}));
    });
    const features = this.data.sobol.map(([j, main, total, interaction]) => make("div", {className: "rank"},
      nameTag([this.data.features[j].name]), bar(main, "", interaction), make("span", {textContent: percent(main)}), make("span", {textContent: percent(total)})));
    const zeros = this.data.components.length - this.ranked.length;
    byId("zeros").textContent = zeros ? `${counted(zeros, "component")} ${zeros === 1 ? "is" : "are"} zero everywhere, and not shown.` : "";
    byId("ranking").append(head("Component", "E|f|", "variance"));
    byId("sobol").append(head("Feature", "alone", "in total"));
    fold(byId("ranking"), components);
    fold(byId("sobol"), features);
    this.remainder();
    this.terms();
  }

  // The remainder: one line beside the components, which unfolds to its largest sets of features, and one beside the features.
  remainder() {
    const {remainder} = this.data;
    if (!remainder) return;
    const {name, importance, share, sets} = remainder, most = sets.length ? sets[0][1] : 1;
    const line = (tag, ...cells) => make(tag, {className: "rank"}, make("span", {textContent: name}), ...cells);
    const rows = sets.map(([names, size]) => make("div", {className: "rank"}, nameTag(names), bar(size / most, "rest"), make("span"), make("span", {textContent: smallShare(size)})));
    const head = make("p", {className: "note", textContent: "Its largest sets of features, by their share of the variance:"});
    byId("ranking-rest").append(make("details", {}, line("summary", bar(importance, "rest"), make("span", {textContent: importance.toFixed(3)}), make("span", {textContent: percent(share)})), head, ...rows));
    byId("sobol-rest").append(line("div", bar(share, "rest"), make("span", {textContent: "–"}), make("span", {textContent: percent(share)})));
    byId("sum-note").textContent = `The raw score is the intercept plus these components and the ${name}, which has ${percent(share)} of the variance. `;
  }

  // The table of all components: intervals, tests, held-out losses.
  terms() {
    const {heading, lines, notes} = this.data.table;
    const crossed = new Map(this.data.components.map(({names, name}) => [names.join(" x "), name])), named = lines.map(([name]) => crossed.get(name) ?? name);
    const short = new Shortener(named);
    const row = ([, ...cells], i) => make("tr", {}, make("th", {scope: "row", title: named[i], textContent: short.short(i, 40)}), ...cells.map(text => make("td", {textContent: text})));
    byId("terms-notes").append(...notes.map(text => make("p", {className: "note", textContent: text})));
    byId("terms").append(make("thead", {}, make("tr", {}, ...heading.map(text => make("th", {scope: "col", textContent: text})))));
    fold(byId("terms"), lines.map(row));
  }

  list() {
    byId("list").replaceChildren(...this.ranked.map(i => {
      const component = this.data.components[i];
      const item = make("div", {className: "item", id: `item-${i}`, onclick: () => this.choose(i)},
        nameTag(component.names), bar(component.importance, kindOf(component)));
      item.setAttribute("role", "option");
      return item;
    }));
  }

  // The list after an edit, which may have created components.
  relist() {
    const before = this.ranked.length;
    this.rank();
    if (this.ranked.length === before) return;
    if (!this.ranked.includes(this.chosen)) this.chosen = this.ranked[0];
    this.list();
  }

  visible() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.ranked.filter(i => words.every(word => this.data.components[i].name.toLowerCase().includes(word)));
  }

  // Those that match, the first ten of them until one asks for all or chooses another one.
  filter() {
    const visible = this.visible(), at = visible.indexOf(this.chosen), isFolded = !this.showsAll && at < FIRST_SHOWN;
    const shown = new Set(isFolded ? visible.slice(0, FIRST_SHOWN) : visible);
    this.ranked.forEach(i => { byId(`item-${i}`).hidden = !shown.has(i); });
    Object.assign(byId("list-none"), {hidden: visible.length > 0, textContent: `No component has “${byId("filter").value.trim()}”.`});
    byId("list").hidden = !visible.length;
    Object.assign(byId("list-all"), {hidden: shown.size === visible.length, textContent: `Show all ${visible.length}`});
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
    this.filter();
    item.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", item.id);
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = item.offsetTop - list.clientHeight / 2;
    byId("chart-title").replaceChildren(nameTag(component.names));
    this.showSlices(component);
    const width = Math.max(300, host.clientWidth || 640), isOwn = component.features.length > 1 && byId("own-scale").checked;
    const own = isOwn ? [heatLimit(component, this.output) * this.data.packed.step || 1] : [];
    const draw = component.features.length === 1 ? drawMain : drawPair;
    const drawing = draw(this.model, component, this.output, this.values, width, ...own), {svg, pick} = drawing;
    const at = event => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      return pick((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
    };
    svg.onclick = event => { const found = at(event); if (found) this.setAll(Object.assign(this.values.slice(), found)); };
    svg.onpointermove = event => this.read(component, at(event) || {});
    svg.onpointerleave = () => this.read(component, {});
    byId("sentence").textContent = chartWords(this.model, component, this.output, this.values);
    svg.setAttribute("aria-label", `${svg.getAttribute("aria-label")}. ${byId("sentence").textContent}`);
    host.replaceChildren(svg);
    this.editor.show(component, drawing);
    this.read(component, {});
    this.showValues(component);
  }

  // Sliders of a component of three features or more; those at hand stay, so that they can be dragged.
  showSlices(component) {
    if (this.sliced !== component) {
      this.sliced = component;
      this.slices = sliceControls(this.model, component, (j, x) => this.set(j, x));
      byId("slices").replaceChildren(...this.slices.map(slice => slice.row));
    }
    this.slices.forEach(slice => slice.show(this.values));
  }

  showValues(component) {
    const shown = `${this.chosen} ${this.output}`;
    if (this.tabled === shown) return;
    this.tabled = shown;
    byId("values").replaceChildren(...(component.features.length === 1 ? [valuesTable(this.model, component, this.output, false)] : []));
  }

  read(component, changed) {
    const values = Object.assign(this.values.slice(), changed);
    const where = component.features.map(j => `${this.data.features[j].name} = ${valueWord(this.data.features[j], values[j])}`);
    const effect = this.model.score(component, values, this.output);
    const band = component.features.length > 1 && component.hasBand ? `; 95 % band on average ±${written(component.band)}` : "";
    const factor = this.model.hasFactors ? ` (${relativity(effect)})` : "";
    const words = x => signed(x, component.hasBand ? component.band : 0), old = this.editor.firstEffect(component, values, this.output);
    byId("reading").textContent = `${where.join(", ")}: ${words(effect)}${factor}${band}${old === null ? "" : `; before the edits ${words(old)}`}`;
  }

  scores() {
    const {scores, scored, nRows} = this.data;
    const none = nRows ? "This report was written with rows, but without their targets." : "This report was written without held-out rows.";
    const words = scored ? `Measured on the ${written(nRows)} rows given with the report, beside the constant prediction that fits these rows best.` : none;
    byId("scores-note").textContent = words + " Scores are honest only for rows that the model was not fitted to.";
    const names = ["Score", "Model", "Best constant"];
    const rows = scores.map(([name, value, constant]) => make("tr", {}, make("th", {scope: "row", textContent: name}), ...[...scoreWords(value, constant), NO_NUMBER].slice(0, 2).map(textContent => make("td", {textContent}))));
    byId("scores-table").append(make("thead", {}, make("tr", {}, ...names.map(name => make("th", {scope: "col", textContent: name})))));
    byId("scores-table").hidden = !rows.length;
    fold(byId("scores-table"), rows);
  }

  showCurves(outputs = [this.output]) {
    byId("curves").replaceChildren(...outputs.flatMap(output => outputFigures(this.data, output)), ...modelFigures(this.data));
  }

  trust() {
    const {error, shapes, warnings, nRows, remainder, quality} = this.data;
    const block = (title, ...content) => make("div", {className: "card"}, make("h3", {textContent: title}), ...content);
    const wide = (...content) => Object.assign(block(...content), {className: "card wide"});
    const line = text => make("p", {textContent: text});
    const items = texts => { const list = make("ul"); fold(list, texts.map(text => make("li", {textContent: text}))); return list; };
    const many = "On the rows given, other components could imitate these shares of an effect, mostly through the feature named. Read them together with it:";
    const few = "On the rows given, the other components could imitate less than half of each component.";
    const dependence = !nRows ? [line("Not measured, because this report was written without rows.")] : warnings.length ? [line(many), items(warnings)] : [line(few)];
    const blocks = [
      block("One decomposition", line(`The largest mean of any component along any of its features is ${error === null ? "not known" : error.toExponential(1)} of its standard deviation. Where that is zero up to rounding, this is the only decomposition of the model whose components average to zero under the training marginals.`)),
      block("Bands", line(this.data.hasBands ? "The band around a curve covers the true effect over 95 % of the data, on average. It is wide where rows are few or disagree." : "This model has no bands: it was saved before there were any, comes from another library, had a handful of rows, or its fit ran out of time.")),
      block("Shapes, with proof", shapes.length ? items(shapes.map(([name, held]) => `${name}: ${held.join(", ")}, whatever the values of the other features`)) : line("None: with every feature the prediction may both rise and fall. Ask for a shape in the fit if one must hold.")),
      ...(remainder ? [block("The remainder", line(`${remainder.sentence} It holds all that no component shows, many faint interactions together, so it can be predicted with but not read.`.trim()))] : []),
      ...(quality.length ? [wide("Columns of the training table to look at", items(quality))] : []),
      wide("Dependence between features", ...dependence),
    ];
    byId("trust-body").append(...blocks);
  }

  about() {
    const {written, version, fitRows, nRows, settings, features, edits} = this.data;
    const facts = [["Written", written], ["tpnn", version], ["Rows of the fit", fitRows === null ? "not known" : column([fitRows])[0]], ["Rows of this report", column([nRows])[0]], ["Features", features.length]];
    const row = ([name, value]) => make("tr", {}, make("th", {scope: "row", textContent: name}), make("td", {textContent: value}));
    fold(byId("facts-table"), facts.map(row));
    byId("edits-block").hidden = !edits.length;
    fold(byId("edits-table"), edits.map(row));
    byId("settings-block").hidden = !settings.length;
    fold(byId("settings"), settings.map(row));
  }

  summary() {
    const rows = this.data.features.map((feature, j) => {
      const words = feature.quantiles.map(x => x === null ? "–" : valueWord(feature, x));
      const common = valueWord(feature, this.typical[j]);
      const cells = words.length ? words : [feature.levels.length ? `${feature.levels.length} levels` : "", "", common, "", ""];
      return make("tr", {}, make("th", {textContent: nameTag.known.short(j, 40), title: feature.name, scope: "row"}), ...[feature.kind, ...cells, feature.missing ? percent(feature.missing) : "–"].map(text => make("td", {textContent: text})));
    });
    const names = ["Feature", "Kind", "Smallest", "5 %", "Middle or most common", "95 %", "Largest", "Missing"];
    byId("summary").append(make("thead", {}, make("tr", {}, ...names.map(name => make("th", {textContent: name, scope: "col"})))));
    fold(byId("summary"), rows);
  }

  export() {
    const harmless = text => /^[=+\-@\t\r]/.test(text) && isNaN(text) ? `'${text}` : text; // no formula in a spreadsheet
    const quote = text => `"${harmless(String(text)).replaceAll('"', '""')}"`;
    const lines = [["what", "name", "value"].join(",")];
    const value = (feature, x) => x === null ? "" : feature.kind.endsWith("number") && !feature.levels.length ? x : valueWord(feature, x);
    this.data.features.forEach((feature, j) => lines.push(["feature", quote(feature.name), quote(value(feature, this.values[j]))].join(",")));
    const names = this.data.outputs.length ? this.data.outputs : [this.target];
    names.forEach((name, k) => lines.push(["intercept", quote(name), this.data.intercept[k]].join(",")));
    if (this.offset) lines.push(["offset", "", this.offset].join(","));
    this.data.components.forEach((component, i) => lines.push(["contribution", quote(component.name), this.answer.parts[i][this.output]].join(",")));
    if (this.data.remainder) lines.push(["contribution", quote(this.data.remainder.name), this.answer.rest?.[this.output] ?? "not known"].join(","));
    names.forEach((name, k) => lines.push(["prediction", quote(name), this.answer.predictions[k]].join(",")));
    download("what-if.csv", "text/csv", lines.join("\n") + "\n");
  }

  // Components that are drawn on paper: all, or the largest ones that nearly make up the model. A table has the others.
  onPaper() {
    const {components, remainder} = this.data, isShort = !byId("print-all").checked;
    let sum = remainder?.share ?? 0;
    const enough = this.ranked.findIndex(i => (sum += components[i].share) >= PRINTED_SHARE) + 1 || this.ranked.length;
    return isShort ? this.ranked.slice(0, Math.min(enough, MOST_PRINTED, Math.max(4, Math.floor(2 * MOST_PRINTED / this.model.outputs)))) : this.ranked;
  }

  // Paper is light, and shows the components for every output.
  beforePrint() {
    if (this.printing) return;
    this.printing = {theme: document.documentElement.dataset.theme || ""};
    document.documentElement.dataset.theme = "light";
    document.querySelectorAll(".name").forEach(tag => { tag.textContent = tag.title; });
    document.documentElement.dataset.print = byId("print-all").checked ? "all" : "short";
    const outputs = this.model.perOutput((_, k) => k);
    this.showCurves(outputs);
    byId("printed").classList.toggle("several", outputs.length > 1);
    byId("printed").replaceChildren(...this.editor.printed(), ...this.onPaper().flatMap(i => outputs.map(k => printedComponent(this.model, this.data.components[i], k, this.values))));
  }

  afterPrint() {
    if (!this.printing) return;
    document.documentElement.dataset.theme = this.printing.theme;
    this.printing = null;
    byId("printed").replaceChildren();
    document.querySelectorAll(".name").forEach(fitName);
    this.showCurves();
    this.showChart();
  }

  listen() {
    const typical = () => this.setAll(this.typical, 0);
    byId("row").onchange = ({target: {value}}) => value === "" ? typical() : this.setAll(this.data.rows[+value], this.data.offsets[+value]);
    byId("reset").onclick = () => { byId("row").value = ""; typical(); };
    byId("export").onclick = () => this.export();
    byId("output").onchange = event => this.showOutput(+event.target.value);
    byId("filter").oninput = () => this.filter();
    byId("list-all").onclick = () => { this.showsAll = true; this.filter(); };
    byId("previous").onclick = () => this.step(-1);
    byId("next").onclick = () => this.step(1);
    byId("list").onkeydown = event => {
      const by = {ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (by) { event.preventDefault(); this.step(by); }
    };
    byId("save").onclick = () => download(`${this.data.components[this.chosen].name.replaceAll(" × ", "_x_")}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(byId("chart").firstChild));
    const root = document.documentElement, redraw = () => { this.showChart(); this.showCurves(); this.overview.show(); };
    byId("theme").onclick = () => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
      redraw();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    window.addEventListener("beforeprint", () => this.beforePrint());
    window.addEventListener("afterprint", () => this.afterPrint());
    byId("controls").onsubmit = event => event.preventDefault();
    new ResizeObserver(() => this.showChart()).observe(byId("chart"));
  }
}

// How the bar of a component is coloured.
const kindOf = component => isUnclear(component) ? "unclear" : component.features.length > 1 ? "pair" : "";

function bar(share, kind, more = 0, interval = null) {
  const fill = make("i", {className: kind});
  fill.style.width = `${100 * share}%`;
  const second = make("i", {className: "pair"});
  second.style.cssText = `left:${100 * share}%;width:${100 * more}%`;
  const whisker = make("b", {className: "whisker"}), [low, high] = (interval || [0, 0]).map(end => Math.min(100, 100 * end));
  whisker.style.cssText = `left:${low}%;width:${high - low}%`;
  return make("span", {className: "track"}, fill, ...(more ? [second] : []), ...(interval ? [whisker] : []));
}

// A score, and that of the constant if it is known: with three digits of the smaller one.
function scoreWords(value, constant) {
  if (typeof constant !== "number" || !Number.isFinite(value)) return [written(value)];
  const sizes = [value, constant].map(Math.abs), least = Math.min(...sizes.filter(size => size > 1e-6 * Math.max(...sizes)));
  return least >= PLAIN[0] && least < 1e5 ? column([value, constant], 2 * 10 ** (power(least) - 2)) : column([value, constant]);
}

// Scores in the heading: the areas of several classes are one mean there.
function mainScores(scores, isClass, outputs) {
  const areas = isClass ? scores.filter(([name]) => outputs.some(output => name === `AUROC of ${output}`)) : [];
  const mean = place => areas.reduce((sum, score) => sum + score[place], 0) / areas.length;
  const found = scores.filter(score => !areas.includes(score));
  if (areas.length) found.push(["Mean AUROC of a class", mean(1), mean(2)]);
  return found.slice(0, FIRST_SHOWN - 4);
}

const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

function head(...names) {
  return make("div", {className: "rank head-row"}, make("span", {textContent: names[0]}), make("span"), ...names.slice(1).map(name => make("span", {textContent: name})));
}

function download(name, type, text) {
  const link = make("a", {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  link.click();
  URL.revokeObjectURL(link.href);
}

async function start() {
  const data = JSON.parse(byId("payload").textContent);
  try {
    const packed = data.remainder?.trees, trees = packed ? new Trees(packed, await unpack(packed.packed), data.intercept.length) : null;
    window.report = new View(new Model(data, await unpack(data.packed), trees));
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    byId("failure").hidden = false;
    byId("failure").textContent = `This page could not start (${error.message}). It needs a browser from 2023 or later.`;
    throw error;
  }
}

start();
