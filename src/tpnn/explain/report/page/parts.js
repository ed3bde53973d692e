// Parts of the page that belong to one component: its table of values, the sliders of its slices.

const N_RANKS = 8; // nodes of a number that its table shows at first, evenly spaced by rank; base and missing values besides

function nearestNode(axis, rank) {
  const ranks = nodeRanks(axis);
  return ranks.reduce((best, found, node) => Math.abs(found - rank) < Math.abs(ranks[best] - rank) ? node : best, 0);
}

// Nodes in the order of the table: those that are shown at first, then the others.
function tableNodes(axis, base) {
  const all = Array.from({length: axis.size}, (_, node) => node);
  if (axis.words || axis.regular <= N_RANKS) return [all, all];
  const picked = new Set(Array.from({length: N_RANKS}, (_, i) => nearestNode(axis, i / (N_RANKS - 1))));
  picked.add(base);
  if (axis.missing) picked.add(axis.missingNode);
  return [all.filter(node => picked.has(node)), all];
}

// Table of a main effect: value, share of rows, effect, band, and relativities where the link has them.
function valuesTable(model, component, output, showsAll) {
  const axis = component.axes[0], feature = model.data.features[component.features[0]];
  const base = component.base, [few, all] = tableNodes(axis, base), hasBands = component.hasBand, {ratio} = model.data;
  const ratioName = ratio[0].toUpperCase() + ratio.slice(1) + " to base";
  const names = [feature.name, "Share of rows", "Effect", "Band", ...(model.hasFactors ? ["Relativity", ratioName, ...(hasBands ? ["95 % interval"] : [])] : [])];
  const factors = (node, effect) => {
    const [difference, reach] = model.toBase(component, node, output), isBase = node === base;
    const interval = isBase ? "" : `${relativity(difference - reach)} to\u00a0${relativity(difference + reach)}`;
    return [relativity(effect), isBase ? "base" : relativity(difference), ...(hasBands ? [interval] : [])];
  };
  const points = all.map(node => model.atNode(component, node, output));
  const effects = signedColumn(points.map(([effect]) => effect)), bands = column(points.map(([, band]) => band));
  const row = node => {
    const [effect] = model.atNode(component, node, output);
    const isLevel = axis.words && node < axis.regular, word = isLevel ? axis.words[node] : valueWord(feature, nodeValue(axis, node));
    const cells = [percent(axis.weights[node]), effects[node], hasBands ? "±" + bands[node] : "not known", ...(model.hasFactors ? factors(node, effect) : [])];
    return make("tr", {className: node === base ? "base" : ""}, make("th", {scope: "row", title: word, textContent: isLevel ? shortener(axis).short(node, 40) : word}), ...cells.map(text => make("td", {textContent: text})));
  };
  const table = make("table", {className: "values"}, make("thead", {}, make("tr", {}, ...names.map(name => make("th", {scope: "col", title: name, textContent: middle(name, 28)})))));
  if (axis.words || showsAll || few.length === all.length) fold(table, (axis.words ? all : few).map(row));
  else {
    table.append(...few.map(row));
    const button = make("button", {type: "button", className: "unfold", textContent: `Show all ${all.length} values`});
    button.onclick = () => table.replaceChildren(table.tHead, ...all.map(row));
    table.append(wrapped(table, button));
  }
  return table;
}

// One slider for every feature of a component beyond the first two; it moves the case.
function sliceControls(model, component, set) {
  return component.features.slice(2).map((j, place) => {
    const feature = model.data.features[j], axis = component.axes[place + 2];
    const input = make("input", {type: "range", min: 0, max: axis.size - 1, step: 1, className: "slider"});
    input.setAttribute("aria-label", `Slice along ${feature.name}`);
    input.oninput = () => set(j, nodeValue(axis, +input.value));
    const word = make("output", {className: "slice-value"});
    const row = make("div", {className: "slice"}, make("span", {textContent: "Slice at"}), nameTag([feature.name]), input, word);
    return {row, show: values => {
      const located = axis.locate(values[j]);
      if (located && document.activeElement !== input) input.value = located[0] + Math.round(located[1]);
      word.textContent = valueWord(feature, values[j]);
    }};
  });
}

// Values of the further features at which a printed page shows slices: low, middle and high, or common levels.
function printedSlices(model, component, values) {
  if (component.features.length < 3) return [values];
  const j = component.features[2], axis = component.axes[2], main = model.axes[1][j];
  const nodes = axis.words ? Array.from({length: axis.regular}, (_, node) => node).slice(0, 3).map(node => nodeValue(axis, node)) : [0.1, 0.5, 0.9].map(rank => quantile(main, rank));
  return nodes.map(x => Object.assign(values.slice(), {[j]: x}));
}

// A component as printed, for one output: every value of it, without controls.
function printedComponent(model, component, output, values) {
  const width = model.outputs > 1 ? 330 : 640; // several outputs stand beside one another
  const name = model.data.outputs.length ? `${component.name}: ${model.data.outputs[output]}` : component.name;
  const block = make("figure", {className: "card printed"}, make("h3", {textContent: name}));
  if (component.features.length === 1) {
    block.append(drawMain(model, component, output, values, width).svg, valuesTable(model, component, output, byId("print-all").checked));
    return block;
  }
  for (const slice of printedSlices(model, component, values)) {
    const where = component.features.slice(2).map(j => `${model.data.features[j].name} = ${valueWord(model.data.features[j], slice[j])}`);
    if (where.length) block.append(make("p", {className: "note", textContent: `Slice at ${where.join(", ")}`}));
    block.append(drawPair(model, component, output, slice, where.length ? 0.75 * width : width).svg);
  }
  return block;
}

// What a chart shows, in a sentence: also for those who do not see it. A map is that of the case's slice.
function chartWords(model, component, output, values) {
  const table = component.tables[output];
  if (component.said?.table !== table || component.features.length > 2) component.said = {table, text: extremesOf(model, component, output, values)};
  return component.said.text;
}

// What lies beyond the ends of the chart is said to.
function extremesOf(model, component, output, values) {
  const {axes, features, strides, hatched} = component, nodes = axis => Array.from({length: axis.size}, (_, node) => node);
  const others = axes.slice(2).map((axis, a) => axis.locate(values[features[a + 2]])), nothing = model.data.packed.step / 2;
  const cells = axes.length === 1 ? nodes(axes[0]).map(node => [node]) : nodes(axes[0]).flatMap(node => nodes(axes[1]).map(below => [node, below]));
  const hasRows = ([node, below]) => axes.length !== 2 || !hatched?.[node * strides[0] + below];
  const points = cells.filter(hasRows).map(cell => ({cell, effect: model.scoreAt(component, [...cell.map(node => [node, 0]), ...others], output)}));
  const ranked = points.slice().sort((one, other) => one.effect - other.effect), [low, high] = [ranked[0], ranked.at(-1)];
  if (!low || high.effect - low.effect < nothing) return "The same everywhere.";
  const word = ({cell}) => cell.map((node, a) => {
    const feature = model.data.features[features[a]];
    const value = nodeValue(axes[a], node), scale = axes[a].words ? null : new Scale(feature, axes[a], model.axes[1][features[a]], 0, 1);
    return `${feature.name} = ${axes[a].words?.[node] ?? valueWord(feature, value)}${scale && (value < scale.low || value > scale.high) ? ", beyond the chart" : ""}`;
  }).join(" and ");
  const run = points.filter(({cell: [node]}) => node !== axes[0].missingNode), hasOrder = axes.length === 1 && !axes[0].groups && run.length > 2;
  const isSteady = sign => hasOrder && run.every(({effect}, i) => i === 0 || sign * (effect - run[i - 1].effect) > -nothing);
  const steady = isSteady(1) ? "Rises" : isSteady(-1) ? "Falls" : "", ends = steady ? [run[0], run.at(-1)] : [high, low];
  const [first, last] = signedColumn(ends.map(({effect}) => effect)).map((text, i) => `${word(ends[i])} (${text})`);
  return steady ? `${steady} from ${first} to ${last}.` : `Highest at ${first}, lowest at ${last}.`;
}
