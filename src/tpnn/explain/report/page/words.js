// Words: numbers, values and names as the page writes them, and the elements that hold them.

const DAY = 86400;
const byId = id => document.getElementById(id);

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function percent(share) {
  return share > 0 && share < 0.0005 ? "< 0.1 %" : (100 * share).toFixed(share && share < 0.0995 ? 1 : 0) + " %";
}

// A share that may be far below one per cent, with two digits.
function smallShare(share) {
  return share >= 0.01 || share === 0 ? percent(share) : +(100 * share).toPrecision(2) + " %";
}

// A value of a feature, with the digits that it has: a year has no thousands.
function valueNumber(x) {
  if (x === null || !Number.isFinite(x)) return NO_NUMBER;
  const size = Math.abs(x), isPlain = size === 0 || (size >= 1e-4 && size < 1e6);
  return (isPlain ? String(+x.toPrecision(size >= 1000 ? 5 : 4)) : x.toExponential(2).replace("e+", "e")).replaceAll("-", "−");
}

// Factor on the prediction (log link) or on the odds (logit link) of a raw score.
function relativity(x) {
  const factor = Math.exp(x);
  return "×" + (factor >= 0.001 && factor < 1000 ? factor.toPrecision(3) : written(factor));
}

// A number with the digits that a step needs, which is a power of ten.
function steppedNumber(x, step) {
  const digits = -Math.round(Math.log10(step)), size = Math.abs(x);
  if (x === 0 || !Number.isFinite(digits)) return String(x);
  if (size >= 1e7 || size < 1e-4) return String(+x.toExponential(Math.max(0, Math.min(15, Math.floor(Math.log10(size)) + digits))));
  return String(digits > 0 ? +x.toFixed(Math.min(digits, 100)) : Math.round(x / step) * step);
}

const tenPower = x => 10 ** Math.floor(Math.log10(x) + 1e-9);

// What a number of a feature is rounded to: a thousandth of the range, or three digits of a small number.
function stepOf(axis, x) {
  const range = axis.values[axis.regular - 1] - axis.values[0];
  return tenPower(Math.min(range > 0 && Number.isFinite(range) ? range / 1e3 : Infinity, Math.abs(x) / 1e3 || Infinity));
}

function valueWord(feature, x) {
  if (x === null || Number.isNaN(x)) return "missing";
  if (x === UNSEEN) return "(unseen level)";
  if (feature.levels.length) return feature.levels[x];
  if (feature.kind === "date") return new Date(x * 1000).toISOString().slice(0, x % DAY ? 16 : 10);
  if (feature.kind === "duration") return valueNumber(x / DAY) + " days";
  return valueNumber(x);
}

// A text with its middle left out: ends tell alike names apart.
function middle(text, most) {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return text.slice(0, most - 1 - tail) + "…" + text.slice(text.length - tail);
}

// Texts in at most so many letters that still differ: alike ones lose what they have in common first.
function shortTexts(texts, most) {
  const cut = texts.map(text => middle(text, most)), found = cut.slice();
  for (const twin of new Set(cut.filter((text, i) => cut.indexOf(text) !== i))) {
    const places = cut.flatMap((text, i) => text === twin ? [i] : []), alike = places.map(i => texts[i]);
    const common = commonStart(alike);
    if (!common || most < 4 || new Set(alike).size === 1) continue;
    shortTexts(alike.map(text => text.slice(common)), most - 1).forEach((text, k) => { found[places[k]] = "…" + text; });
  }
  return found;
}

// Letters that all texts begin with, up to the last gap between words.
function commonStart(texts) {
  let same = 0;
  while (same < texts[0].length && texts.every(text => text[same] === texts[0][same])) same++;
  return texts[0].slice(0, same).search(/[^\p{L}\p{N}][\p{L}\p{N}]*$/u) + 1 || same;
}

// The short form of each of some texts, by their number.
class Shortener {
  constructor(texts) {
    this.texts = texts;
    this.cache = new Map();
  }

  short(i, most) {
    const letters = Math.max(3, Math.floor(most));
    if (!this.cache.has(letters)) this.cache.set(letters, shortTexts(this.texts, letters));
    return this.cache.get(letters)[i];
  }
}

// Names joined by ×; where there is no room, each loses its middle, and hovering shows them all.
function nameTag(names, tag = "span", properties = {}) {
  const full = names.join(" × ");
  const made = make(tag, {...properties, className: `name ${properties.className || ""}`, title: full, textContent: full});
  made.names = names;
  nameFitter.observe(made);
  return made;
}

const nameFitter = new ResizeObserver(entries => entries.forEach(entry => fitName(entry.target)));
const measurer = document.createElement("canvas").getContext("2d");

// The most letters of each name that fit.
function fitName(tag) {
  const {fontWeight, fontSize, fontFamily} = getComputedStyle(tag);
  measurer.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  const {known} = nameTag, short = (name, most) => known && known.texts.includes(name) ? known.short(known.texts.indexOf(name), most) : middle(name, most);
  const text = most => tag.names.map(name => short(name, most)).join(" × ");
  const fits = most => measurer.measureText(text(most)).width <= tag.clientWidth;
  let low = 3, high = Math.max(3, ...tag.names.map(name => name.length));
  if (fits(high)) low = high;
  while (high - low > 1) {
    const half = low + high >> 1;
    if (fits(half)) low = half; else high = half;
  }
  tag.textContent = text(low);
}

function niceTicks(low, high, count) {
  const rough = high / count - low / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(size => size >= rough * (1 - 1e-9));
  if (!(step > 0) || !Number.isFinite(step) || low + step === low || high - step === high) return [low]; // nothing between them
  const first = Math.ceil(low / step - 1e-9), n = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({length: Math.max(0, Math.min(n, 3 * count))}, (_, k) => +((first + k) * step).toPrecision(15));
}


// Ticks as [number, word], with as many digits as tell them apart.
function tickWords(low, high, count) {
  const ticks = niceTicks(low, high, count), step = ticks.length > 1 ? tenPower(ticks[1] - ticks[0]) : 0;
  const largest = Math.max(...ticks.map(Math.abs)), [unit, suffix] = unitOf(largest);
  const write = tick => largest >= 1e13 && tick ? tick.toExponential().replace("e+", "e") : step ? steppedNumber(tick / unit, step / unit) : valueNumber(tick / unit);
  return ticks.map(tick => [tick, (write(tick) + (tick ? suffix : "")).replace(/^-/, "−")]);
}

// Pixels that some words of ticks need.
function tickWidth(words) {
  measurer.font = "11.5px system-ui, sans-serif";
  return Math.max(0, ...words.map(word => measurer.measureText(word).width));
}

// Ones, or ones, twos and fives of every power of ten, as many as fit.
function logTicks(low, high, count) {
  const powers = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) powers.push(k);
  const inside = digits => powers.flatMap(k => digits.map(digit => digit * 10 ** k)).filter(x => x >= low && x <= high);
  const fine = [[1, 2, 5], [1, 3], [1]].map(inside).find(ticks => ticks.length <= count);
  const ones = inside([1]);
  return fine && fine.length > 1 ? fine : ones.filter((_, i) => i % Math.ceil(ones.length / count) === 0);
}

// Rows of a list: the first ten, and a button that shows the others. Printing shows all.
const FIRST_SHOWN = 10;

function fold(place, rows, summary = null) {
  rows.forEach((row, i) => row.classList.toggle("more", i >= FIRST_SHOWN));
  const isLong = rows.length > FIRST_SHOWN;
  const known = place.dataset.state;
  place.dataset.state = isLong && known !== "open" ? "folded" : isLong ? "open" : "";
  const button = make("button", {type: "button", className: "unfold", textContent: place.dataset.state === "open" ? "Show fewer" : `Show all ${rows.length}`});
  button.onclick = () => { place.dataset.state = place.dataset.state === "open" ? "folded" : "open"; fold(place, rows, summary); };
  const last = isLong ? [...(summary ? [summary] : []), wrapped(place, button)] : [];
  if (summary) summary.classList.add("fewer");
  place.replaceChildren(...(place.tagName === "TABLE" ? place.querySelectorAll("thead") : place.querySelectorAll(".head-row")), ...rows, ...last);
}

function wrapped(place, button) {
  if (["UL", "OL"].includes(place.tagName)) return make("li", {className: "unfold-item"}, button);
  if (place.tagName !== "TABLE") return button;
  return make("tr", {className: "unfold-row"}, Object.assign(make("td", {}, button), {colSpan: 20}));
}
