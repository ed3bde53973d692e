// One look at the whole model: a small chart of every component, on one scale, the most important first, and the remainder.

const SMALL_WIDTH = 230, SMALL_HEIGHT = 120;
const OVERVIEW_SHARE = 0.95; // of the variance, after which charts are folded

class Overview {
  constructor(view) {
    this.view = view;
    this.watcher = new IntersectionObserver(entries => entries.forEach(({isIntersecting, target}) => { if (isIntersecting) this.draw(target); }));
    byId("own-scale").onchange = () => this.show();
    byId("overview-all").onclick = () => { this.showsAll = true; this.show(); };
    this.show();
  }

  // All cards anew; each is drawn when it comes into sight.
  show() {
    const {view} = this, {components, remainder} = view.data, folded = view.ranked.slice(this.nShown());
    this.watcher.disconnect();
    this.limits = this.commonLimits();
    const shown = view.ranked.slice(0, this.nShown()).map(i => this.card(components[i], percent(components[i].share), () => view.choose(i, true)));
    byId("overview-cards").replaceChildren(...shown, ...(remainder ? [this.restCard(remainder)] : []));
    const left = folded.reduce((sum, i) => sum + components[i].share, 0);
    Object.assign(byId("overview-all"), {hidden: !folded.length, textContent: `Show the other ${folded.length} (${percent(left)} of the variance)`});
    shown.forEach(card => this.watcher.observe(card));
  }

  // Number of cards that are not folded.
  nShown() {
    const {ranked, data} = this.view;
    let sum = data.remainder?.share ?? 0;
    if (this.showsAll) return ranked.length;
    const enough = ranked.findIndex(i => (sum += data.components[i].share) >= OVERVIEW_SHARE) + 1;
    return enough || ranked.length;
  }

  card(component, words, onclick) {
    const card = make("button", {type: "button", className: "overview-card", onclick}, make("span", {className: "picture"}), nameTag(component.names), make("span", {className: "part", textContent: words}));
    card.component = component;
    return card;
  }

  // The remainder as the last card: bars of its largest sets of features.
  restCard(remainder) {
    const card = this.card({names: [remainder.name]}, percent(remainder.share), () => {
      const details = byId("ranking-rest").querySelector("details");
      details.open = true;
      details.scrollIntoView({block: "center"});
    });
    const colours = palette(), svg = frame(SMALL_WIDTH, SMALL_HEIGHT, `Remainder: ${remainder.sentence}`), most = remainder.sets[0]?.[1] || 1;
    remainder.sets.forEach(([, share], i) => svg.append(element("rect", {x: 0, y: 4 + 11.6 * i, width: SMALL_WIDTH * share / most, height: 8, fill: colours.faint, opacity: 0.5})));
    card.firstChild.append(svg);
    return card;
  }

  // Largest effects of main effects and of interactions, by which all are drawn.
  commonLimits() {
    const mains = this.view.data.components.filter(one => one.features.length === 1), largest = Math.max(0, ...mains.map(one => this.limit(one)));
    return {main: largest, several: mapLimit(this.view.model, this.view.output)};
  }

  limit(component) {
    const {model, output} = this.view, {step} = model.data.packed;
    return component.features.length > 1 ? heatLimit(component, output) * step : Math.max(...Array.from(component.tables[output], Math.abs)) * step;
  }

  draw(card) {
    this.watcher.unobserve(card);
    const {component} = card, isMain = component.features.length === 1, {model, output, typical} = this.view;
    const limit = (byId("own-scale").checked ? this.limit(component) : isMain ? this.limits.main : this.limits.several) || 1;
    card.firstChild.replaceChildren(isMain ? smallMain(model, component, output, limit) : smallMap(model, component, output, limit, typical));
  }
}

// A main effect between minus the limit and the limit, with its band.
function smallMain(model, component, output, limit) {
  const shades = palette(), colours = isUnclear(component) ? {...shades, low: shades.grey} : shades, [axis] = component.axes;
  const svg = frame(SMALL_WIDTH, SMALL_HEIGHT, `Main effect of ${component.name}`);
  const x = new Scale(model.data.features[component.features[0]], axis, axis, 4, SMALL_WIDTH - 4), middle = SMALL_HEIGHT / 2;
  const y = value => Math.max(0, Math.min(SMALL_HEIGHT, middle - 0.94 * middle * value / limit));
  svg.append(element("line", {x1: 0, x2: SMALL_WIDTH, y1: middle, y2: middle, stroke: colours.line}));
  const inside = node => node === axis.missingNode || x.isLevels || (axis.values[node] >= x.low && axis.values[node] <= x.high);
  const nodes = Array.from({length: axis.size}, (_, node) => node).filter(inside), points = nodes.map(node => model.atNode(component, node, output));
  const place = node => node === axis.missingNode ? (x.strip[0] + x.strip[1]) / 2 : x.at(x.isLevels ? node : axis.values[node]);
  drawDensity(svg, colours, axis, x, SMALL_HEIGHT);
  if (!x.isLevels) drawBand(svg, colours, curvePoints(axis, x, nodes, points), y);
  const radius = Math.max(1, Math.min(4.5, 0.35 * SMALL_WIDTH / nodes.length));
  nodes.forEach((node, i) => { if (x.isLevels || node === axis.missingNode) drawPoint(svg, colours, place(node), y, ...points[i], radius); });
  return svg;
}

// A heat map of the first two features, the others at their usual values.
function smallMap(model, component, output, limit, values) {
  const colours = palette(), svg = frame(SMALL_WIDTH, SMALL_HEIGHT, `Interaction of ${component.name}`), [j, k] = component.features;
  const x = new Scale(model.data.features[j], component.axes[0], model.axes[1][j], 0, SMALL_WIDTH, 0.01);
  const y = new Scale(model.data.features[k], component.axes[1], model.axes[1][k], SMALL_HEIGHT, 0, 0.01);
  svg.append(element("image", {x: 0, y: 0, width: SMALL_WIDTH, height: SMALL_HEIGHT, href: heatImage(model, component, output, values, x, y, limit, colours), preserveAspectRatio: "none"}));
  drawHatch(svg, colours, component, values, x, y);
  return svg;
}
