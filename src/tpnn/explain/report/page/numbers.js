// Numbers as people read them, as tpnn.table.words writes them: one number of decimals in a column, thin spaces, k, M and bn.

const UNITS = [[1e9, " bn"], [1e6, " M"], [1e3, " k"]]; // of numbers from 1e5 to 1e13
const PLAIN = [1e-4, 1e13]; // sizes of the largest number of a column that needs no power of ten
const SIGNIFICANT = 3;
const NO_NUMBER = "–";

const power = x => Number(x.toExponential().split("e")[1]); // of ten

// Texts of numbers that stand below each other. A resolution, such as a standard error, says how many digits they have.
function column(numbers, resolution = 0) {
  const finite = numbers.filter(x => x !== null && Number.isFinite(x)), largest = Math.max(0, ...finite.map(Math.abs));
  const write = largest && (largest < PLAIN[0] || largest >= PLAIN[1]) ? powered : plainWriter(finite, largest, resolution);
  return numbers.map(x => x !== null && Number.isFinite(x) ? write(x) : NO_NUMBER);
}

// One number; of several that belong together, a column.
function written(x, resolution = 0) { return column([x], resolution)[0]; }

// The unit in which numbers up to a size are written, and its letters.
function unitOf(size) {
  return UNITS.find(([unit]) => size >= 1e5 && size < PLAIN[1] && size >= unit) || [1, ""];
}

function plainWriter(finite, largest, resolution) {
  const [unit, suffix] = unitOf(largest);
  let decimals = largest ? Math.min(Math.max(SIGNIFICANT - 1 - power(largest / unit), 0), 8) : 0;
  if (unit === 1 && finite.every(Number.isInteger)) decimals = 0;
  if (resolution > 0) decimals = Math.min(Math.max(-power(resolution / unit / 2), 0), 8);
  const endsInZero = x => { const text = (x / unit).toFixed(decimals); return text.endsWith("0") && Number(text) === x / unit; };
  while (!(resolution > 0) && decimals && finite.every(endsInZero)) decimals--;
  return x => {
    const text = (Math.abs(x) / unit).toFixed(decimals), [whole, rest] = text.split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") + (rest ? `.${rest}` : "");
    return (x < 0 && Number(text) ? "−" : "") + grouped + (Number(text) ? suffix : "");
  };
}

function powered(x) {
  if (x === 0) return "0";
  return x.toExponential(SIGNIFICANT - 2).replace("e+", "e").replaceAll("-", "−");
}

// A column of differences, each with its sign.
function signedColumn(numbers, resolution = 0) {
  return column(numbers, resolution).map((text, i) => numbers[i] > 0 && /[1-9]/.test(text) ? "+" + text : text);
}

function signed(x, resolution = 0) { return signedColumn([x], resolution)[0]; }

// A probability, which is never said to be 0 or 1.
function chance(x) {
  const shown = (100 * x).toFixed(1);
  return x > 0 && shown === "0.0" ? "< 0.1 %" : x < 1 && shown === "100.0" ? "> 99.9 %" : `${shown} %`;
}
