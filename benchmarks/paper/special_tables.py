"""Tables and figures of the paper that are not a model on a split of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common.cells import Line
from benchmarks.common.environment import ROOT
from benchmarks.common.markdown import markdown
from benchmarks.paper.results import Lines
from benchmarks.paper.specs import Spec
from benchmarks.paper.tables import MISSING, title_of

FOLDER = ROOT / "docs" / "images" / "paper"
ATTRIBUTES = ("No_Beard", "Wearing_Lipstick", "Heavy_Makeup")  # in the lines' order
SHOWN = ATTRIBUTES[:2]
KEYS = ("importance", "ranks")


def _first(spec: Spec, lines: Lines, model: str) -> Line | None:
    found = lines.of(spec.data[0], model)
    return found[0] if found else None


def shap(spec: Spec, lines: Lines) -> str:
    """Agreement and speed, then the values themselves."""
    head = ["", "signs that agree", "correlation on 20 rows", "times faster", "with the fit"]
    rows = [head]
    keys = ("same_sign", "correlation", "speed_ratio", "speed_ratio_with_fit")
    for model in spec.models:
        line = _first(spec, lines, model)
        values = [f"{line['scores'][key]:,.2f}" for key in keys] if line else [MISSING] * len(keys)
        rows.append([title_of(model), *values])
    signs = np.sign(spec.options["kernel"]) == np.sign(spec.options["anova"])
    ratio = f"{spec.options['published_ratio']:,}"
    rows.append(["*paper*", f"*{signs.mean():.2f}*", MISSING, f"*{ratio}*", MISSING])
    return markdown(rows) + "\n\n" + _shap_values(spec, lines)


def _shap_values(spec: Spec, lines: Lines) -> str:
    names = lines.table("wine")["features"]
    line = _first(spec, lines, spec.models[0])
    rows = [["wine, method", *names]]
    for i in range(3):
        if line:
            rows.append([f"{i + 1}, Kernel-SHAP", *_signed(line["kernel"][i])])
            rows.append([f"{i + 1}, ANOVA-SHAP", *_signed(line["anova"][i])])
        rows.append([f"*{i + 1}, Kernel-SHAP, paper*", *_signed(spec.options["kernel"][i])])
        rows.append([f"*{i + 1}, ANOVA-SHAP, paper*", *_signed(spec.options["anova"][i])])
    return markdown(rows)


def _signed(values: Any) -> list[str]:
    return [f"{value:.3f}" for value in values]


def rate(spec: Spec, lines: Lines) -> str:
    """Show the number of bases, the error, and the bound with the smallest constant that holds."""
    rows = [["features", "bases K", "largest error", "C d / (K^(1/d) + 1)"]]
    for order, model in enumerate(spec.models, start=1):
        line = _first(spec, lines, model)
        if line is None:
            continue
        constant = line["scores"]["constant"]
        for count, error, bound in line["rows"]:
            rows.append([str(order), f"{count:.0f}", f"{error:.4f}", f"{constant * bound:.4f}"])
        rows.append([str(order), "error ~ bound^", f"{line['scores']['slope']:.2f}", "1"])
    return markdown(rows)


def outlier(spec: Spec, lines: Lines) -> str:
    """Contributions to the prediction of the outlier, and the effect that makes it."""
    names = lines.table("calhousing")["features"]
    rows = [["", "prediction", "truth", *names]]
    drawn = []
    for model in spec.models:
        line = _first(spec, lines, model)
        if line is None:
            rows.append([title_of(model), *[MISSING] * (len(names) + 2)])
            continue
        drawn.append((model, line))
        scores = line["scores"]
        parts = [f"{value:.2f}" for value in line["contributions"][: len(names)]]
        numbers = [f"{scores[key]:.2f}" for key in ("prediction", "truth")]
        rows.append([title_of(model), *numbers, *parts])
    published = [f"*{value}*" for value in spec.options["contributions"]]
    rows.append(["*Spline-GAM, paper*", f"*{spec.options['prediction']}*", "*1.3*", *published])
    return markdown(rows) + "\n\n" + _draw_outlier(spec, drawn)


def _draw_outlier(spec: Spec, drawn: list[tuple[str, Line]]) -> str:
    from matplotlib.figure import Figure

    if not drawn:
        return "Not drawn yet: no finished cell."
    figure = Figure(figsize=(8, 3), layout="constrained")
    scatter, effect = figure.subplots(1, 2)
    for model, line in drawn:
        truth, predicted = line["scatter"]
        scores = line["scores"]
        (points,) = scatter.plot(truth, predicted, ".", markersize=3, label=title_of(model))
        scatter.plot(scores["truth"], scores["prediction"], "*", color=points.get_color())
        effect.plot(*line["effect"], label=title_of(model))
    scatter.set(xlabel="true value", ylabel="prediction (the star: the outlier)")
    effect.set(xlabel="AveOccup", ylabel="main effect")
    effect.axvline(drawn[0][1]["largest_in_training"], color="0.7", linewidth=0.8)
    effect.legend(fontsize=7)
    return save(figure, spec)


def save(figure: Any, spec: Spec) -> str:
    """Write a figure and return the Markdown that shows it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{spec.name}.png", dpi=100)
    return f"![{spec.title}](images/paper/{spec.name}.png)"


def attribute_importance(spec: Spec, lines: Lines) -> str:
    """Mean importance relative to the largest, and mean rank, over the splits."""
    rows = [["", *SHOWN]]
    for model in spec.models:
        found, row = lines.of(spec.data[0], model), [title_of(model)]
        for j, name in enumerate(SHOWN):
            ours = MISSING
            if found:
                size, rank = (np.mean([line[key][j] for line in found]) for key in KEYS)
                ours = f"{size:.3f} ({rank:.1f})"
            row.append(f"{ours}<br>*{spec.published[spec.data[0]][model][name]}*")
        rows.append(row)
    return markdown(rows)


def attribute_local(spec: Spec, lines: Lines) -> str:
    """Two rows on which the classifiers disagree: one right, the other right."""
    free, monotone = (_first(spec, lines, model) for model in spec.models)
    if free is None or monotone is None:
        return MISSING
    guesses = [np.array(line["rows"]["raw"]) > 0 for line in (free, monotone)]
    truth = np.array(free["rows"]["truth"]) > 0
    rows = [["row", "monotone", *ATTRIBUTES, "classified", "true"]]
    for right in (1, 0):
        wanted = (guesses[0] != guesses[1]) & (guesses[right] == truth)
        for row in np.flatnonzero(wanted)[:1]:
            for line, guess, word in zip((free, monotone), guesses, ("no", "yes"), strict=True):
                shown = _signed(line["rows"]["shown"][row])
                rows.append([str(row), word, *shown, _sex(guess[row]), _sex(truth[row])])
    return markdown(rows) if len(rows) > 1 else "The two classifiers agree on all rows kept."


def _sex(male: Any) -> str:
    return "male" if male else "female"


def attribute_curves(spec: Spec, lines: Lines) -> str:
    """Draw the main effects of two attributes, one curve a split."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    grid = figure.subplots(len(spec.models), len(SHOWN), sharey="col", squeeze=False)
    for row, model in zip(grid, spec.models, strict=True):
        for j, (axes, name) in enumerate(zip(row, SHOWN, strict=True)):
            for line in lines.of(spec.data[0], model)[:5]:
                values = line["curves"][j]
                axes.plot(np.linspace(0, 1, len(values)), values, linewidth=1)
            axes.set_title(f"{name}, {title_of(model)}", fontsize=8)
            axes.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    for axes in grid[-1]:
        axes.set_xlabel("value of the attribute", fontsize=8)
    for row in grid:
        row[0].set_ylabel("main effect on male", fontsize=8)
    return save(figure, spec)


KINDS = {
    "shap": shap,
    "rate": rate,
    "outlier": outlier,
    "attribute_importance": attribute_importance,
    "attribute_local": attribute_local,
    "attribute_curves": attribute_curves,
}
