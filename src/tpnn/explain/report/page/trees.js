// The remainder: trees whose leaves are added up, less what components hold of them, as tpnn.model.remainder has it.

class Trees {
  constructor({features, sizes, packed}, {doubles, units}, outputs) {
    let at = 0;
    const next = (array, size) => array.subarray(at, at += size), whole = size => cumulate(next(units, size), [size]);
    this.features = features.map(feature => ({...feature, ends: next(doubles, feature.ends)}));
    at = 0;
    const [leaves, ...counts] = sizes;
    this.values = Array.from({length: outputs}, () => whole(leaves));
    [this.asked, this.right, this.roots, this.questions, this.children] = counts.map(whole);
    for (const feature of this.features) if (feature.levels !== null) feature.groups = whole(feature.levels);
    this.step = packed.step;
    const codes = new Map(this.features.map(one => [one.feature, one.codes]));
    this.starts = new Int32Array(this.asked.length); // where the answers to each question begin
    for (let i = 1; i < this.starts.length; i++) this.starts[i] = this.starts[i - 1] + codes.get(this.asked[i - 1]);
  }

  // Code of a value: values or levels, then unseen levels, then missing values.
  code(feature, x) {
    if (x === null || Number.isNaN(x)) return feature.codes - 1;
    if (x === UNSEEN) return feature.codes - 2;
    if (feature.groups) return feature.groups[x];
    let low = 0, high = feature.ends.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (feature.ends[middle] < x) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Sum of all trees, for each output.
  scores(values) {
    const codes = [];
    for (const feature of this.features) codes[feature.feature] = this.code(feature, values[feature.feature]);
    const answers = Int32Array.from(this.asked, (j, question) => this.right[this.starts[question] + codes[j]]);
    const sums = this.values.map(() => 0);
    for (const root of this.roots) {
      let place = root;
      while (place >= 0) place = this.children[2 * place + answers[this.questions[place]]];
      this.values.forEach((units, k) => { sums[k] += units[-1 - place]; });
    }
    return sums.map(sum => sum * this.step);
  }
}
