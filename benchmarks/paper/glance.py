"""The first table of the page: where we agree with the paper, are better, or behind."""

from __future__ import annotations

from benchmarks.common.markdown import markdown
from benchmarks.paper import specs
from benchmarks.paper.results import Lines
from benchmarks.paper.specs import Spec
from benchmarks.paper.tables import (
    MISSING,
    Summary,
    differs,
    number,
    scores_by_split,
    summarise,
    title_of,
)


def glance(spec: Spec, lines: Lines) -> str:
    """Compare default and recipe with the paper, and models by their stability."""
    published = specs.read("prediction").published
    orders = [[model for model in spec.models if model.endswith(order)] for order in "12"]
    rows = [
        ["", *(title_of(m) for models in orders for m in models[:2]), "stability ¹", "stability ²"]
    ]
    for name in spec.data:
        row = [name + ("*" if lines.label(name) else "")]
        for models in orders:
            mean, sd = published[name][models[1]]
            paper = Summary(mean, sd, n=10)
            row += [_against(lines, name, model, paper) for model in models[:2]]
        row += [_most_stable_first(lines, name, models) for models in orders]
        rows.append(row)
    return markdown(rows)


def _against(lines: Lines, name: str, model: str, paper: Summary) -> str:
    """Return our mean, the paper's, and a word on them; none where the data are not the same."""
    values = list(scores_by_split(lines, name, model).values())
    if not values:
        return MISSING
    ours = summarise(values)
    numbers = f"{number(ours.mean)} / {number(paper.mean)}"
    if lines.label(name) or ours.n == 1:
        return numbers
    above = (ours.mean > paper.mean) == (lines.measure(name) == "auroc")
    word = ("**better**" if above else "**behind**") if differs(ours, paper) else "level"
    return f"{numbers} {word}"


def _most_stable_first(lines: Lines, name: str, models: list[str]) -> str:
    found = {model: lines.stability_of(name, model) for model in models}
    scores = {
        model: line["stability"] * line["n_fits"] / (line["n_fits"] - 1)
        for model, line in found.items()
        if line
    }
    ordered = sorted(scores, key=lambda model: scores[model])
    return " < ".join(f"{title_of(model)} {number(scores[model])}" for model in ordered) or MISSING
