"""Tables: lines of finished cells as Markdown, the paper's number below each of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments import data as tables
from experiments.models import members
from experiments.scores import average_ranks, selection_auroc
from experiments.specs import Spec
from tpnn.datasets import true_importance

Line = dict[str, Any]
MISSING = "–"
ARROWS = {"rmse": "RMSE ↓", "auroc": "AUROC ↑", "accuracy": "accuracy ↑"}
NAMES = {
    "tpnn": "tpnn, default",
    "paper": "ANOVA-TPNN, paper's recipe",
    "nbmtpnn": "NBM-TPNN",
    "relu": "ANOVA-TPNN, ReLU",
    "gamtpnn": "GAM-TPNN",
    "head": "ANOVA-TPNN as a head",
    "nam": "NAM",
    "nbm": "NBM",
    "nodegam": "NODE-GAM",
    "spline": "Spline-GAM",
    "ebm": "EBM",
    "xgboost": "XGBoost",
    "dnn": "DNN",
    "tree": "decision tree",
    "linear": "linear",
}


DRAWN = "images drawn with known concepts, as those of CelebA were absent"
LABELS = {
    "jcbm": DRAWN,
    "icbm": DRAWN,
    "celeba_icbm": "CelebA's annotated attributes in place of what a network sees in its images",
}


class Summary(NamedTuple):
    """Mean and standard deviation of some numbers, and how many they are."""

    mean: float
    sd: float
    n: int


class Lines:
    """All lines, by data set and model; of several lines of a cell the last counts.

    Parameters
    ----------
    lines : iterable of dict
        What ``Results.read`` returns.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.cells: dict[tuple[str, str], dict[int, Line]] = {}
        self.stability: dict[tuple[str, str], Line] = {}
        self.failures: dict[tuple[str, str], str] = {}
        for line in lines:
            key = line["data"], line["model"]
            if "stability" in line:
                self.stability[key] = line
            elif "scores" in line:
                self.cells.setdefault(key, {})[line["split"]] = line
            else:
                self.failures[key] = line["failed"]

    def of(self, data: str, family: str) -> list[Line]:
        """Return the lines of a family's member that is best on validation rows on average."""
        return list(self.cells.get((data, self.chosen(data, family)), {}).values())

    def chosen(self, data: str, family: str) -> str:
        """Return that member; compared on the splits that all finished members have."""
        found = [member for member in members(family, data) if (data, member) in self.cells]
        return self._best(data, found) if found else family

    def stability_of(self, data: str, family: str) -> Line | None:
        """Return the stability line of that member, of those that have one."""
        found = [member for member in members(family, data) if (data, member) in self.stability]
        return self.stability[data, self._best(data, found)] if found else None

    def _best(self, data: str, found: list[str]) -> str:
        if len(found) == 1:
            return found[0]
        shared = set.intersection(*(set(self.cells[data, member]) for member in found))

        def held_out(member: str) -> float:
            cells = self.cells[data, member]
            return float(np.mean([cells[split]["validation_loss"] for split in shared or cells]))

        return min(found, key=held_out)


def summarise(values: Sequence[float]) -> Summary:
    """Return mean and standard deviation of finite numbers."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return Summary(float(np.mean(values)), sd, len(values))


def title_of(model: str) -> str:
    """Return how a table calls a model.

    >>> title_of("paper2-k30"), title_of("dnn")
    ("ANOVA-TPNN, paper's recipe, order 2 (k30)", 'DNN')
    """
    family, _, variant = model.partition("-")
    name, order = family.rstrip("12"), family[len(family.rstrip("12")) :]
    words = NAMES[name] + (f", order {order}" if order else "")
    return words + (f" ({variant})" if variant else "")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float) -> str:
    if math.isnan(value):
        return MISSING
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _cell(summary: Summary | None, published: Any, most: int, label: str = "") -> str:
    """Return our number, with † where it is more than two standard errors from the paper's."""
    if summary is None:
        ours = MISSING
    else:
        spread = "" if math.isnan(summary.sd) else f" ({_number(summary.sd)})"
        few = "" if summary.n >= most else f" n={summary.n}"
        ours = _number(summary.mean) + spread + few
    if published is None:
        return ours
    mean, sd = published if isinstance(published, list) else (published, math.nan)
    beside = f"<br>*{_number(mean)}" + ("*" if math.isnan(sd) else f" ({_number(sd)})*")
    return ours + ("†" if summary and not label and _differs(summary, mean, sd) else "") + beside


def _differs(ours: Summary, mean: float, sd: float, n: int = 10) -> bool:
    if math.isnan(ours.sd) or math.isnan(sd):
        return False
    error = math.sqrt(ours.sd**2 / ours.n + sd**2 / n)
    return abs(ours.mean - mean) > 2 * error


def _measure(name: str) -> str:
    if name in LABELS:
        return "accuracy"
    return "rmse" if tables.table(name).task.kind == "regression" else "auroc"


def _label(name: str) -> str:
    if name in tables.SOURCES:
        return tables.SOURCES[name].label
    return LABELS[name] if name in LABELS else tables.table(name).label


def _data_title(name: str) -> str:
    label = _label(name)
    return f"{name}{'*' if label else ''}, {ARROWS[_measure(name)]}"


def _labels(spec: Spec) -> list[str]:
    marked = {name: _label(name) for name in spec.data}
    return [f"\\* `{name}`: {label}." for name, label in marked.items() if label]


def prediction(spec: Spec, lines: Lines) -> str:
    """Test scores: data sets across, models down; ranks where asked for."""
    rows = [["", *map(title_of, spec.models)]]
    for name in spec.data:
        published, row = spec.published.get(name, {}), [_data_title(name)]
        for model in spec.models:
            values = list(_scores(lines, name, model).values())
            summary = summarise(values) if values else None
            row.append(_cell(summary, published.get(model), spec.splits, _label(name)))
        rows.append(row)
    if spec.options.get("ranks"):
        rows.append(_ranks(spec, lines))
    if spec.options.get("stability"):
        rows += _stability_rows(spec, lines, spec.options["published_stability"])
    return "\n\n".join([_transposed(rows), *_labels(spec)])


def _scores(lines: Lines, name: str, model: str) -> dict[int, float]:
    """Return the test score of every split."""
    return {line["split"]: line["scores"][_measure(name)] for line in lines.of(name, model)}


def _ranks(spec: Spec, lines: Lines) -> list[str]:
    """Return the mean rank of every model that has all data sets, on the splits they all have."""
    ranked = [m for m in spec.models if all(lines.of(name, m) for name in spec.data)]
    means = []
    for name in spec.data if ranked else []:
        scores = [_scores(lines, name, model) for model in ranked]
        shared = set.intersection(*map(set, scores))
        means.append([np.mean([found[split] for split in shared]) for found in scores])
    higher = np.array([_measure(name) == "auroc" for name in spec.data])
    ranks = average_ranks(np.array(means), higher) if ranked else np.zeros(0)
    found = {m: Summary(float(rank), math.nan, 0) for m, rank in zip(ranked, ranks, strict=True)}
    published = spec.options["published_ranks"]
    cells = [_cell(found.get(model), published.get(model), 0) for model in spec.models]
    return [f"mean rank of {len(ranked)}, shared splits", *cells]


def _transposed(rows: Sequence[Sequence[str]]) -> str:
    """Models down the page: there are more of them than of data sets."""
    return markdown([list(column) for column in zip(*rows, strict=True)])


def stability(spec: Spec, lines: Lines) -> str:
    """Stability scores: data sets across, models down."""
    rows = [["", *map(title_of, spec.models)], *_stability_rows(spec, lines, spec.published)]
    return "\n\n".join([_transposed(rows), *_labels(spec)])


def _stability_rows(spec: Spec, lines: Lines, published: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name in spec.data:
        mark = "*" if _label(name) else ""
        row = [f"{name}{mark}, stability ↓"]
        for model in spec.models:
            summary = _stability(lines, name, model, spec.options.get("key", "stability"))
            row.append(_cell(summary, published.get(name, {}).get(model), spec.splits))
        rows.append(row)
    return rows


def _stability(lines: Lines, name: str, model: str, key: str) -> Summary | None:
    line = lines.stability_of(name, model)
    return Summary(line[key], math.nan, line["n_fits"]) if line else None


def relative_stability(spec: Spec, lines: Lines) -> str:
    """Stability scores divided by those of another model."""
    baseline = spec.options["baseline"]
    rows = [["", *map(title_of, baseline)]]
    for name in spec.data:
        row = [name]
        for model, reference in baseline.items():
            one, two = (_stability(lines, name, m, "stability") for m in (model, reference))
            ratio = Summary(one.mean / two.mean, math.nan, one.n) if one and two else None
            row.append(_cell(ratio, spec.published[name].get(model), spec.splits))
        rows.append(row)
    return markdown(rows)


def feature_stability(spec: Spec, lines: Lines) -> str:
    """Stability scores of single main effects."""
    (name,) = spec.data
    rows = [["", *map(title_of, spec.models)]]
    for feature in spec.options["features"]:
        index, row = tables.table(name).names.index(feature), [feature]
        for model in spec.models:
            line = lines.stability_of(name, model)
            found = Summary(line["by_feature"][index], math.nan, line["n_fits"]) if line else None
            row.append(_cell(found, spec.published[feature].get(model), spec.splits))
        rows.append(row)
    return markdown(rows)


def selection(spec: Spec, lines: Lines) -> str:
    """AUROC of importance scores for the components that are not zero in truth."""
    rows = [["", *map(title_of, spec.models)]]
    for name in spec.data:
        row = [name]
        for model in spec.models:
            values = [_selected(name, line) for line in lines.of(name, model)]
            summary = summarise(values) if values else None
            row.append(_cell(summary, spec.published[name].get(model), spec.splits))
        rows.append(row)
    return markdown(rows)


def _selected(name: str, line: Line) -> float:
    """AUROC of one fit; a component that the model left out has importance zero."""
    truth = true_importance(name)
    found = {tuple(c): v for c, v in zip(line["components"], line["importance"], strict=True)}
    importance = np.array([found.get(component, 0.0) for component in truth])
    return selection_auroc(importance, np.array([size > 0 for size in truth.values()]))


def importance(spec: Spec, lines: Lines) -> str:
    """Show importance scores relative to the largest, mean over the splits, with the paper's."""
    (name,) = spec.data
    features, published = tables.table(name).names, spec.options["published_importance"]
    columns = [_mean_importance(lines.of(name, model), features) for model in spec.models]
    order = sorted(columns[0], key=lambda component: -columns[0][component])[: spec.options["top"]]
    shown = order + [component for component in published if component not in order]
    rows = [["component", *map(title_of, spec.models), "paper"]]
    for component in shown:
        values = [_number(column.get(component, math.nan)) for column in columns]
        rows.append([component, *values, _number(published.get(component, math.nan))])
    return markdown(rows)


def _mean_importance(lines: Sequence[Line], features: Sequence[str]) -> dict[str, float]:
    if not lines:
        return {}
    mean = np.mean([line["importance"] for line in lines], axis=0)
    names = [" & ".join(features[j] for j in component) for component in lines[0]["components"]]
    return dict(zip(names, (mean / mean.max()).tolist(), strict=True))


def local(spec: Spec, lines: Lines) -> str:
    """Contributions of the features of one row."""
    (name,) = spec.data
    rows = [["feature", *map(title_of, spec.models), "paper"]]
    columns = []
    for model in spec.models:
        examples = [line["example"] for line in lines.of(name, model) if "example" in line]
        columns.append(examples[0] if examples else [math.nan] * len(tables.table(name).names))
    for j, feature in enumerate(tables.table(name).names):
        values = [_number(column[j]) for column in columns]
        rows.append([feature, *values, _number(spec.options["contributions"][j])])
    return markdown(rows)


def runtime(spec: Spec, lines: Lines) -> str:
    """Seconds to train, and on what."""
    rows = [["", *map(title_of, spec.models)]]
    for name in spec.data:
        row = [f"{name}, seconds"]
        for model in spec.models:
            found = lines.of(name, model)
            seconds = summarise([line["seconds"] for line in found]) if found else None
            where = f"<br>{found[0]['device']}" if found else ""
            row.append(_cell(seconds, spec.published[name].get(model), spec.splits) + where)
        rows.append(row)
    return markdown(rows)


KINDS: dict[str, Callable[[Spec, Lines], str]] = {
    "prediction": prediction,
    "stability": stability,
    "relative_stability": relative_stability,
    "feature_stability": feature_stability,
    "selection": selection,
    "importance": importance,
    "local": local,
    "runtime": runtime,
}
