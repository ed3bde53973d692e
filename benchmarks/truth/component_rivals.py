"""Components beside other libraries: ``python -m benchmarks.truth.component_rivals``.

mgcv, EBM and our own gradient solver fit the same terms of the settings of ``components``: every
main effect and the pairs that are given, true ones and one without effect. All are judged on the
same points, 50 quantiles of a feature and 14 x 14 of a pair, so that distances are under the
product of the marginals of the data. A library that is missing is left out,
with a line that says so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import PAGES, Line, complete
from benchmarks.common.environment import say
from benchmarks.common.markdown import fixed, markdown
from benchmarks.truth.components import SETTINGS, Truth, truth_of
from benchmarks.truth.known_truths import mean_of_term
from tpnn import purify
from tpnn._utils.arrays import FloatArray

N_POINTS = {1: 50, 2: 14}  # of each feature of a component, by order
HALF_WIDTH = 1.96  # of mgcv's bands, in its standard errors
SMALLEST_TRUTH = 0.05  # root mean square of a component; a smaller one counts as none
COVERS = 0.93  # coverage from which on mgcv's widths count
PAGE = PAGES / "truth" / "components.md"
Names = tuple[str, ...]


class Points(NamedTuple):
    """Values of a feature, and their masses."""

    values: Any
    masses: FloatArray


class Estimate(NamedTuple):
    """A component on the points of its features; half a width and degrees where they are known."""

    effect: FloatArray
    half_width: FloatArray | None = None
    degrees: float | None = None


class Fit(NamedTuple):
    """What a library says, and the seconds of CPU that it took."""

    estimates: dict[Names, Estimate]
    seconds: float


def points_of(column: pd.Series, order: int) -> Points:
    """Evenly spaced quantiles, or all levels with their shares."""
    if not pd.api.types.is_numeric_dtype(column):
        shares = column.value_counts(normalize=True).sort_index()
        return Points(shares.index.to_numpy(), np.asarray(shares, np.float64))
    count = N_POINTS[order]
    values = np.quantile(column, (np.arange(count) + 0.5) / count)
    return Points(values, np.full(count, 1 / count, np.float64))


def components_of(truth: Truth) -> list[Names]:
    """Return main effects of all features, and the pairs that are given."""
    return [*((str(name),) for name in truth.sample.X.columns), *truth.pairs]


def grid_of(truth: Truth, names: Names) -> list[Points]:
    """Points of every feature of a component."""
    return [points_of(truth.sample.X[name], len(names)) for name in names]


def true_values(truth: Truth, names: Names) -> FloatArray:
    """Return the true component on its points."""
    grid = grid_of(truth, names)
    frame = _product_of(names, grid)
    nodes = {name: frame[name].to_numpy() for name in names}
    terms = [term for term in truth.terms if set(names) <= set(term.features)]
    values = sum((mean_of_term(t, nodes, truth.sample.X) for t in terms), np.zeros(len(frame)))
    return centred(values.reshape([len(points.values) for points in grid]), grid)


def centred(values: FloatArray, grid: Sequence[Points]) -> FloatArray:
    """Values less their means along every axis."""
    for axis, points in enumerate(grid):
        means = np.tensordot(points.masses, values, (0, axis))
        values = values - np.expand_dims(means, axis)
    return values


def _product_of(names: Names, grid: Sequence[Points]) -> pd.DataFrame:
    return pd.DataFrame(list(product(*(p.values for p in grid))), columns=list(names))


def of_model(model: Any, truth: Truth) -> dict[Names, Estimate]:
    """Components of a model of the library, which is linear between its nodes."""
    explanation, found = model.explain(), {}
    named = {tuple(names): place for place, names in enumerate(model.component_names)}
    tests = model.evidence.tests
    for names in components_of(truth):
        own = next((n for n in (names, names[::-1]) if n in named), None)
        grid = grid_of(truth, names)
        if own is None:
            found[names] = Estimate(np.zeros([len(points.values) for points in grid]))
            continue
        table = explanation.component(list(own))
        axes = [table.axes[own.index(name)] for name in names]
        weights = [_weights(axis, points) for axis, points in zip(axes, grid, strict=True)]
        half_width, degrees = None, None
        if table.posterior is not None and tests is not None:
            lower, upper = table.band
            half_width = _at((upper - lower) / 2, weights, own != names)
            degrees = float(tests.components[named[own]].degrees)
        found[names] = Estimate(_at(table.effect, weights, own != names), half_width, degrees)
    return found


def _weights(axis: Any, points: Points) -> FloatArray:
    """Weights (P, M) that interpolate between the nodes of an axis."""
    if axis.is_nominal:
        numbers = [list(axis.levels).index(level) for level in points.values]
        return np.eye(axis.n_nodes)[numbers]
    columns = [np.interp(points.values, axis.values, unit) for unit in np.eye(len(axis.values))]
    weights = np.zeros((len(points.values), axis.n_nodes))
    weights[:, axis.regular] = np.column_stack(columns)
    return weights


def _at(values: FloatArray, weights: Sequence[FloatArray], is_turned: bool) -> FloatArray:
    values = values.T if is_turned else values
    return reduce(lambda v, w: np.moveaxis(np.tensordot(w, v, (1, 0)), 0, -1), weights, values)


def tpnn_fit(truth: Truth, **given: Any) -> Fit:
    """Fit of the library."""
    estimator = truth.sample.estimator
    estimator.set_params(interactions=[list(pair) for pair in truth.pairs], **given)
    began = time.process_time()
    model = estimator.fit(truth.sample.X, truth.sample.y).model_
    seconds = time.process_time() - began
    return Fit(of_model(model, truth), seconds)


def gradient_fit(truth: Truth) -> Fit:
    """Fit of the library by gradient descent."""
    return tpnn_fit(truth, solver="gradient")


EBM_OBJECTIVES = {"poisson": "poisson_deviance", "gamma": "gamma_deviance"}


def ebm_fit(truth: Truth) -> Fit:
    """Fit of an EBM with its own settings, made pure under the marginals of the rows."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    X, y = truth.sample.X, truth.sample.y
    if truth.task == "cox":
        return Fit({}, float("nan"))
    places = [tuple(X.columns.get_loc(name) for name in pair) for pair in truth.pairs]
    given = dict[str, Any](interactions=places, random_state=0, n_jobs=1)
    is_class = truth.task in ("two classes", "rare")
    if truth.task in EBM_OBJECTIVES:
        given["objective"] = EBM_OBJECTIVES[truth.task]
    began = time.process_time()
    ebm = (ExplainableBoostingClassifier if is_class else ExplainableBoostingRegressor)(**given)
    ebm.fit(X, y)
    seconds = time.process_time() - began
    return Fit(of_model(purify(ebm, X=X), truth), seconds)


FAMILIES = {"poisson": "poisson()", "gamma": 'Gamma(link = "log")', "cox": "cox.ph()"}
FAMILIES |= dict.fromkeys(("two classes", "rare"), "binomial()")


def mgcv_fit(truth: Truth) -> Fit:
    """Fit of mgcv: thin plate splines of features, tensor products of pairs, by REML."""
    X, names = truth.sample.X, components_of(truth)
    frames = [_product_of(n, grid_of(truth, n)) for n in names]
    fill = {name: X[name].sort_values().iloc[len(X) // 2] for name in X.columns}
    with TemporaryDirectory() as folder:
        path = Path(folder)
        y, rows = np.asarray(truth.sample.y, float), X.copy()
        rows["target"] = y if y.ndim == 1 else y[:, 0]
        if y.ndim == 2:
            rows["event"] = y[:, 1]
        rows.to_csv(path / "rows.csv", index=False)
        pd.concat([frame.assign(**{n: v for n, v in fill.items() if n not in frame})
                   for frame in frames]).to_csv(path / "points.csv", index=False)  # fmt: skip
        terms = " + ".join(_term(n, truth) for n in names)
        (path / "formula.txt").write_text(f"target ~ {terms}\n")
        (path / "family.txt").write_text(f"{FAMILIES.get(truth.task, 'gaussian()')}\n")
        subprocess.run(["Rscript", str(Path(__file__).with_name("mgcv.R")), folder], check=True)
        effects, errors, degrees = (
            pd.read_csv(path / f"{name}.csv") for name in ("effects", "errors", "degrees")
        )
    found, start = {}, 0
    for place, (n, frame) in enumerate(zip(names, frames, strict=True)):
        grid, rows_of = grid_of(truth, n), slice(start, start + len(frame))
        shape = [len(points.values) for points in grid]
        effect, error = (
            part.iloc[rows_of, place].to_numpy(float).reshape(shape) for part in (effects, errors)
        )
        own = float(degrees["degrees"].iloc[place])
        found[n] = Estimate(effect, HALF_WIDTH * error, own)
        start = rows_of.stop
    return Fit(found, float(degrees["seconds"].iloc[0]))


def _term(names: Names, truth: Truth) -> str:
    """Term of a component in a formula of mgcv."""
    numeric = [pd.api.types.is_numeric_dtype(truth.sample.X[name]) for name in names]
    if len(names) == 2:
        bases = ", ".join('"cr"' if is_number else '"re"' for is_number in numeric)
        sizes = ", ".join("6" if is_number else "20" for is_number in numeric)
        return f"ti({names[0]}, {names[1]}, bs = c({bases}), k = c({sizes}))"
    if not numeric[0]:
        return f's({names[0]}, bs = "re")'
    return f"s({names[0]}, k = {size_of_basis(truth)})"


def size_of_basis(truth: Truth) -> int:
    """Functions of a spline: 10 of few rows, 40 where effects are rough, else 20."""
    if truth.task == "quiet":
        return 40
    return 10 if len(truth.sample.X) < 500 else 20


LIBRARIES: dict[str, Callable[[Truth], Fit]] = {
    "tpnn": tpnn_fit, "gradient": gradient_fit, "mgcv": mgcv_fit, "EBM": ebm_fit,
}  # fmt: skip


@cache
def has_mgcv() -> bool:
    """Whether R and mgcv are installed."""
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", "quit(status = !requireNamespace('mgcv', quietly = TRUE))"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def is_there(library: str) -> bool:
    """Whether a library can be measured."""
    if library == "mgcv":
        return has_mgcv()
    return find_spec({"gradient": "torch", "EBM": "interpret"}.get(library, "tpnn")) is not None


def measure(setting: str, library: str, seed: int) -> Line:
    """Fit a sample, and compare every component with its truth."""
    truth = truth_of(SETTINGS[setting], seed)
    with warnings.catch_warnings(action="ignore"):
        fit = LIBRARIES[library](truth)
    parts = [_compared(truth, names, estimate) for names, estimate in fit.estimates.items()]
    return {"seconds": fit.seconds, "parts": parts}


def _compared(truth: Truth, names: Names, estimate: Estimate) -> dict[str, Any]:
    grid, wanted = grid_of(truth, names), true_values(truth, names)
    masses = reduce(np.multiply.outer, [points.masses for points in grid])
    gap = centred(estimate.effect, grid) - wanted
    part = {"names": list(names), "size": float((masses * wanted**2).sum() ** 0.5),
            "error": float((masses * gap**2).sum() ** 0.5),
            "degrees": estimate.degrees}  # fmt: skip
    if estimate.half_width is not None:
        part["covered"] = float((masses * (np.abs(gap) <= estimate.half_width)).sum())
        part["width"] = float((masses * estimate.half_width).sum())
    return part


# The page


class Kind(NamedTuple):
    """Some components of all lines of one setting and library."""

    order: int
    is_true: bool


MAINS, PAIRS, NULL_MAINS, NULL_PAIRS = Kind(1, True), Kind(2, True), Kind(1, False), Kind(2, False)
OTHERS = "mgcv", "EBM", "gradient"
Found = dict[tuple[str, str], list[Line]]


def parts_of(lines: Iterable[Line], kind: Kind) -> list[dict[str, Any]]:
    """Parts of a kind."""
    return [
        part for line in lines for part in line["parts"]
        if len(part["names"]) == kind.order and (part["size"] > SMALLEST_TRUTH) == kind.is_true
    ]  # fmt: skip


def root_mean_square(lines: Iterable[Line], kind: Kind) -> float:
    """Error of the components of a kind."""
    errors = [part["error"] for part in parts_of(lines, kind)]
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else np.nan


def mean(lines: Iterable[Line], kind: Kind, name: str) -> float:
    """Mean of what is known of the components of a kind."""
    values = [part[name] for part in parts_of(lines, kind) if part.get(name) is not None]
    return float(np.mean(values)) if values else np.nan


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of what is known."""
    known = [value for value in values if np.isfinite(value) and value > 0]
    return float(np.exp(np.mean(np.log(known)))) if known else np.nan


def ratio(found: Found, setting: str, kind: Kind, other: str) -> float:
    """Error relative to that of another library, on the samples that both have."""
    own, theirs = (found.get((setting, name), []) for name in ("tpnn", other))
    both = {line["seed"] for line in own} & {line["seed"] for line in theirs}
    ours, others = ([line for line in lines if line["seed"] in both] for lines in (own, theirs))
    return root_mean_square(ours, kind) / root_mean_square(others, kind)


def errors_table(found: Found, settings: Sequence[str]) -> str:
    """Errors relative to those of others, by setting, and their geometric means."""
    head = ["setting", "error: main effects", "to mgcv's", "to EBM's", "to our gradient",
            "error: pairs", "to mgcv's", "to EBM's", "to our gradient"]  # fmt: skip
    rows = [
        [value for kind in (MAINS, PAIRS)
         for value in (root_mean_square(found.get((setting, "tpnn"), []), kind),
                       *(ratio(found, setting, kind, other) for other in OTHERS))]
        for setting in settings
    ]  # fmt: skip
    means = [geometric_mean(column) for column in zip(*rows, strict=True)]
    written = [[s, *fixed(row, [3, 2, 2, 2])] for s, row in zip(settings, rows, strict=True)]
    return markdown([head, *written, ["geometric mean", *fixed(means, [3, 2, 2, 2])]])


def bands_table(found: Found, settings: Sequence[str]) -> str:
    """Coverage and widths beside mgcv's, by setting, and their means."""
    head = ["setting", "main effects covered, %", "mgcv", "width to mgcv's", "pairs covered, %",
            "mgcv", "width to mgcv's", "CPU to mgcv's"]  # fmt: skip
    rows = []
    for setting in settings:
        own, theirs = (found.get((setting, library), []) for library in ("tpnn", "mgcv"))
        row = [
            value for kind in (MAINS, PAIRS)
            for value in (100 * mean(own, kind, "covered"), 100 * mean(theirs, kind, "covered"),
                          mean(own, kind, "width") / mean(theirs, kind, "width"))
        ]  # fmt: skip
        seconds = [np.mean([line["seconds"] for line in lines]) if lines else np.nan
                   for lines in (own, theirs)]  # fmt: skip
        rows.append([*row, seconds[0] / seconds[1]])
    columns = np.array(rows).T
    is_ratio = [place in (2, 5, 6) for place in range(len(columns))]
    means = [geometric_mean(c) if r else float(np.nanmean(c)) if np.isfinite(c).any() else np.nan
             for c, r in zip(columns, is_ratio, strict=True)]  # fmt: skip
    digits = [1, 1, 2, 1, 1, 2, 2]
    written = [[s, *fixed(row, digits)] for s, row in zip(settings, rows, strict=True)]
    return markdown([head, *written, ["mean", *fixed(means, digits)]])


def degrees_table(found: Found, settings: Sequence[str]) -> str:
    """Effective degrees of freedom beside mgcv's: of components with an effect and without."""
    head = ["setting", *(f"{what}: {library}" for what in
            ("main effects", "pairs", "main effects without effect", "pairs without effect")
            for library in ("tpnn", "mgcv"))]  # fmt: skip
    kinds = (MAINS, PAIRS, NULL_MAINS, NULL_PAIRS)
    rows = [
        [setting, *fixed([mean(found.get((setting, library), []), kind, "degrees")
                          for kind in kinds for library in ("tpnn", "mgcv")], [1])]
        for setting in settings
    ]  # fmt: skip
    return markdown([head, *rows])


def bars(found: Found, settings: Sequence[str]) -> str:
    """Say what must be reached, and what is."""
    rough = [s for s in settings if s.startswith("rough")]

    def errors(kind: Kind, other: str, of: Sequence[str] = settings) -> list[float]:
        return [ratio(found, setting, kind, other) for setting in of]

    own = [found.get((s, "tpnn"), []) for s in settings]
    covered = [100 * mean(lines, kind, "covered") for lines in own for kind in (MAINS, PAIRS)]
    widths = [
        mean(found.get((s, "tpnn"), []), PAIRS, "width") / mean(found[s, "mgcv"], PAIRS, "width")
        for s in settings
        if (s, "mgcv") in found and mean(found[s, "mgcv"], PAIRS, "covered") >= COVERS
    ]
    gradient = errors(MAINS, "gradient") + errors(PAIRS, "gradient")
    most = np.nanmax(gradient) if np.isfinite(gradient).any() else np.nan
    rows = [
        ("main effects: error to mgcv's", "at most 1.00", geometric_mean(errors(MAINS, "mgcv")), 2),
        ("pairs: error to mgcv's", "at most 1.00", geometric_mean(errors(PAIRS, "mgcv")), 2),
        ("rough main effects: error to EBM's", "at most 1.00",
         geometric_mean(errors(MAINS, "EBM", rough)), 2),
        ("largest error to that of our gradient solver", "at most 1.05", most, 2),
        ("coverage, mean of all settings, %", "93 to 97", float(np.nanmean(covered)), 1),
        ("coverage, lowest of a setting, %", "at least 88", float(np.nanmin(covered)), 1),
        ("width of pairs to mgcv's where it covers", "at most 1.50", geometric_mean(widths), 2),
    ]  # fmt: skip
    cells = [[what, bar, *fixed([value], [digits])] for what, bar, value, digits in rows]
    return markdown([["what", "bar", "found"], *cells])


def page(lines: Sequence[Line], n_samples: int) -> str:
    """Return the page."""
    found: Found = {}
    for line in lines:
        found.setdefault((line["setting"], line["library"]), []).append(line)
    settings = [s for s in SETTINGS if (s, "tpnn") in found]
    known = (
        (name, len({line["seed"] for line in lines if line["library"] == name})) for name in OTHERS
    )
    whom = ", ".join(f"{name} ({count} of each)" for name, count in known if count)
    return f"""# Components beside other libraries

Written by `python -m benchmarks.truth.component_rivals`. Samples of each setting: {n_samples}. On
the same samples, with the same main effects and pairs: {whom}.
Ratios are over the samples that both have. Errors are root mean squares of distances from the
truth, over all components that are not zero, on 50 quantiles of a feature and 14 x 14 of a pair. So
they are under the product of the marginals of the data. Means of ratios are geometric. mgcv has 20
functions for a feature, 10 of 300 rows, 40 of rough effects, and 6 x 6 for a pair; it knows
products without a penalty. A dash: there is nothing to compare.

## What must be reached
{bars(found, settings)}

## Errors
{errors_table(found, settings)}

## Bands of 95 %
{bands_table(found, settings)}

## Effective degrees of freedom
{degrees_table(found, settings)}
"""


def main() -> None:
    """Measure what has no line yet, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.component_rivals", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=1, help="of each setting, 1 by default")
    given = parser.parse_args()
    for library in (name for name in LIBRARIES if not is_there(name)):
        say(f"{library} is left out: it is not installed")
    there = [library for library in LIBRARIES if is_there(library)]
    seeds = range(given.samples)
    cells = [(s, name, seed) for s in SETTINGS for name in there for seed in seeds]
    lines = complete("component_rivals", ("setting", "library", "seed"), cells, measure)
    kept = [line for line in lines if line["seed"] < given.samples]
    PAGE.write_text(page(kept, given.samples))


if __name__ == "__main__":
    main()
