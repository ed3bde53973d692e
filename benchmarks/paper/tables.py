"""Tables: lines of finished cells as Markdown, the paper's number below each of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.cells import Line
from benchmarks.common.markdown import markdown
from benchmarks.common.quadrature import true_importance
from benchmarks.common.scores import average_ranks, selection_auroc
from benchmarks.paper.results import Lines
from benchmarks.paper.specs import Spec

MISSING = "–"
ARROWS = {"rmse": ", RMSE ↓", "auroc": ", AUROC ↑", "accuracy": ", accuracy ↑", "": ""}
NAMES = {  # as in the paper; {} is the order
    "tpnn": "tpnn{}",
    "paper": "ANOVA-T{}PNN",
    "nbmtpnn": "NBM-T{}PNN",
    "relu": "ANOVA-T{}PNN, ReLU",
    "gamtpnn": "GAM-T{}PNN",
    "head": "ANOVA-T{}PNN",
    "nam": "NA{}M",
    "nbm": "NB{}M",
    "nodegam": "NODE-GA{}M",
    "spline": "Spline-GA{}M",
    "ebm": "EB{}M",
    "xgboost": "XGBoost",
    "dnn": "DNN",
    "tree": "decision tree",
    "linear": "linear",
}
SUPERSCRIPTS = {"1": "¹", "2": "²", "": ""}
MOST_ACROSS = 5  # data sets side by side on a page


class Summary(NamedTuple):
    """Mean and standard deviation of some numbers, and how many they are."""

    mean: float
    sd: float
    n: int


def summarise(values: Sequence[float]) -> Summary:
    """Return mean and standard deviation of finite numbers."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return Summary(float(np.mean(values)), sd, len(values))


def title_of(model: str) -> str:
    """Return how a table calls a model.

    >>> title_of("paper2-k30"), title_of("dnn")
    ('ANOVA-T²PNN (k30)', 'DNN')
    """
    family, _, variant = model.partition("-")
    name = family.rstrip("12")
    title = NAMES[name].format(SUPERSCRIPTS[family.removeprefix(name)])
    return f"{title} ({variant})" if variant else title


def number(value: float) -> str:
    """Return a number with three places, or three digits where it is large."""
    if math.isnan(value):
        return MISSING
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _cell(summary: Summary | None, published: Any, most: int, label: str = "") -> str:
    """Return our number, with † where it is more than two standard errors from the paper's."""
    if summary is None:
        ours = MISSING
    else:
        spread = "" if math.isnan(summary.sd) else f" ({number(summary.sd)})"
        few = "" if summary.n >= most else f" n={summary.n}"
        ours = number(summary.mean) + spread + few
    if published is None:
        return ours
    mean, sd = published if isinstance(published, list) else (published, math.nan)
    paper = Summary(mean, sd, n=10)
    mark = "†" if summary and not label and differs(summary, paper) else ""
    beside = number(mean) if math.isnan(sd) else f"{number(mean)} ({number(sd)})"
    return f"{ours}{mark}<br>*{beside}*"


def differs(ours: Summary, other: Summary) -> bool:
    """Whether two means are more than two standard errors apart; False where that is unknown."""
    error = math.sqrt(ours.sd**2 / ours.n + other.sd**2 / other.n)
    return abs(ours.mean - other.mean) > 2 * error


def _data_title(lines: Lines, name: str, what: str) -> str:
    return f"{name}{'*' if lines.label(name) else ''}{what}"


def _labels(spec: Spec, lines: Lines) -> list[str]:
    marked = {name: lines.label(name) for name in spec.data}
    return [f"\\* `{name}`: {label}." for name, label in marked.items() if label]


def prediction(spec: Spec, lines: Lines) -> str:
    """Test scores: data sets across, models down; ranks where asked for."""
    rows = [["", *map(title_of, spec.models)]]
    for name in spec.data:
        published = spec.published.get(name, {})
        row = [_data_title(lines, name, ARROWS[lines.measure(name)])]
        for model in spec.models:
            values = list(scores_by_split(lines, name, model).values())
            summary = summarise(values) if values else None
            row.append(_cell(summary, published.get(model), spec.splits, lines.label(name)))
        rows.append(row)
    if spec.options.get("ranks"):
        rows.append(_ranks(spec, lines))
    if spec.options.get("stability"):
        rows += _stability_rows(spec, lines, spec.options["published_stability"])
    return "\n\n".join([_transposed(rows), *_labels(spec, lines)])


def scores_by_split(lines: Lines, name: str, model: str) -> dict[int, float]:
    """Return the test score of every split."""
    return {line["split"]: line["scores"][lines.measure(name)] for line in lines.of(name, model)}


def _ranks(spec: Spec, lines: Lines) -> list[str]:
    """Return the mean rank of every model that has all data sets, on the splits they all have."""
    ranked = [m for m in spec.models if all(lines.of(name, m) for name in spec.data)]
    means = []
    for name in spec.data if ranked else []:
        scores = [scores_by_split(lines, name, model) for model in ranked]
        shared = set.intersection(*map(set, scores))
        means.append([np.mean([found[split] for split in shared]) for found in scores])
    higher = np.array([lines.measure(name) == "auroc" for name in spec.data])
    ranks = average_ranks(np.array(means), higher) if ranked else np.zeros(0)
    count = len(spec.data)
    found = {m: Summary(rank, math.nan, count) for m, rank in zip(ranked, ranks, strict=True)}
    published = spec.options["published_ranks"]
    cells = [_cell(found.get(model), published.get(model), count) for model in spec.models]
    return [f"mean rank of {len(ranked)}, shared splits", *cells]


def _transposed(rows: Sequence[Sequence[str]]) -> str:
    """Models down the page, the data sets across it in tables that are not too wide."""
    head, *body = rows
    count = math.ceil(len(body) / MOST_ACROSS)
    edges = [len(body) * part // count for part in range(count + 1)]
    blocks = [[head, *body[low:high]] for low, high in pairwise(edges)]
    return "\n\n".join(markdown(list(zip(*block, strict=True))) for block in blocks)


def stability(spec: Spec, lines: Lines) -> str:
    """Stability scores: data sets across, models down."""
    rows = [["", *map(title_of, spec.models)], *_stability_rows(spec, lines, spec.published)]
    return "\n\n".join([_transposed(rows), *_labels(spec, lines)])


def _stability_rows(spec: Spec, lines: Lines, published: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name in spec.data:
        row = [_data_title(lines, name, ", stability ↓")]
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
        row = [feature]
        for model in spec.models:
            found = _feature_stability(lines, name, model, feature)
            row.append(_cell(found, spec.published[feature].get(model), spec.splits))
        rows.append(row)
    return markdown(rows)


def _feature_stability(lines: Lines, name: str, model: str, feature: str) -> Summary | None:
    line = lines.stability_of(name, model)
    if line is None:
        return None
    index = lines.table(name)["features"].index(feature)
    return Summary(line["by_feature"][index], math.nan, line["n_fits"])


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
    features, published = lines.table(name)["features"], spec.options["published_importance"]
    columns = [_mean_importance(lines.of(name, model), features) for model in spec.models]
    order = sorted(columns[0], key=lambda component: -columns[0][component])[: spec.options["top"]]
    shown = order + [component for component in published if component not in order]
    rows = [["component", *map(title_of, spec.models), "paper"]]
    for component in shown:
        values = [number(column.get(component, math.nan)) for column in columns]
        rows.append([component, *values, number(published.get(component, math.nan))])
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
    features = lines.table(name)["features"]
    rows = [["feature", *map(title_of, spec.models), "paper"]]
    columns = []
    for model in spec.models:
        examples = [line["example"] for line in lines.of(name, model) if "example" in line]
        columns.append(examples[0] if examples else [math.nan] * len(features))
    for j, feature in enumerate(features):
        values = [number(column[j]) for column in columns]
        rows.append([feature, *values, number(spec.options["contributions"][j])])
    return markdown(rows)


def runtime(spec: Spec, lines: Lines) -> str:
    """Seconds to train, the median of the splits, and on what."""
    rows = [["", *map(title_of, spec.models)]]
    for name in spec.data:
        row = [f"{name}, seconds"]
        for model in spec.models:
            found = lines.of(name, model)
            median = float(np.median([line["seconds"] for line in found])) if found else math.nan
            seconds = Summary(median, math.nan, len(found)) if found else None
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
