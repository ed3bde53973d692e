"""Summary: all components of a model in one table, a line for each; and a model card.

The card is Markdown: what a model knows about itself, with places for what a person must say.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpnn._utils.files import write_file
from tpnn.anova.importance import importance, importance_interval, variance
from tpnn.model.edit_log import review_words
from tpnn.model.evidence import ComponentTest
from tpnn.model.remainder import weighted_parts
from tpnn.table.columns import require_pandas
from tpnn.table.table import PERIODIC
from tpnn.table.words import column_of, value_word

if TYPE_CHECKING:
    import pandas as pd

    from tpnn.model.model import AnovaModel

DIRECTIONS = ("increasing", "decreasing")
SMALLEST_P_VALUE_SHOWN = 1e-3
MOST_RANGES = 30  # of features, in a note
LARGE_RATIO = 1.25  # of variances, or its inverse, from which a note tells it
HEADINGS = (
    "component", "importance", "95 % interval", "share", "edf", "loss without", "p-value", "shape",
    "concurvity",
)  # fmt: skip
NOTES = (
    "importance: E|f|, with an interval of 95 %; where one end is the importance itself, the truth "
    "is likely to lie on the other side; share: of the variance; edf: effective degrees of "
    "freedom; loss without: held-out loss if the component is left out; p-value: of the test that "
    "the component is zero, given the others, times the number of candidates if it was selected; "
    "shape: proved for all inputs; concurvity: share that other "
    "components could imitate.",
)
NO_TESTS = (
    "Effective degrees of freedom, held-out losses, p-values and concurvity are not known: they "
    "need a model that was fitted with bands, and this one is a part of another, was edited, comes "
    "from another library, had a handful of rows, or its fit left them out. Fit again."
)


class SummaryLine(NamedTuple):
    """One component of a summary, or the remainder; NaN where a number is not known.

    Parameters
    ----------
    component : str
        Names of its features, joined by " x "; "remainder" for the remainder.
    order : int
        Number of its features; 0 for the remainder.
    importance : float
        E|f|, the mean over the outputs.
    lower : float
        Lower end of the interval of 95 % of the importance.
    upper : float
        Its upper end.
    share : float
        Share of the variance of the raw score under the product of the marginals.
    edf : float
        Effective degrees of freedom of its smooth part.
    p_value : float
        Of the test that it is zero, given all others.
    loss_without : float
        Held-out loss if it is left out, in the unit of the target as everywhere.
    loss_error : float
        Standard error of the rise of the loss.
    shape : str
        Of a main effect: what is proved of the whole model along the feature.
    concurvity : float
        Share of its variance that other components could imitate on the training rows.
    """

    component: str
    order: int
    importance: float
    lower: float
    upper: float
    share: float
    edf: float
    p_value: float
    loss_without: float
    loss_error: float
    shape: str
    concurvity: float


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """All components of a model, most important first, then its remainder: a table for people.

    ``print`` writes it, a notebook shows it, and ``to_frame`` makes a DataFrame of it.

    Parameters
    ----------
    header : dict from str to str
        The model in words: rows, link, loss, intercept, held-out loss.
    lines : list of SummaryLine
        One for each component, and one for the remainder if the model has one.
    shapes : dict from str to list of str
        Shapes that are proved for all values of the other features, by feature.
    notes : tuple of str
        What the columns mean, and which are not known.
    """

    header: Mapping[str, str]
    lines: Sequence[SummaryLine]
    shapes: Mapping[str, list[str]]
    notes: Sequence[str]

    def to_frame(self) -> pd.DataFrame:
        """One line per component; the columns are the fields of ``SummaryLine``."""
        require_pandas("to_frame")
        import pandas as pd

        return pd.DataFrame(self.lines, columns=list(SummaryLine._fields))

    def cells(self) -> list[list[str]]:
        """Cells of every line as text, in the order of ``HEADINGS``."""
        sizes = np.array([[line.importance, line.lower, line.upper] for line in self.lines])
        numbers = np.array(column_of(sizes.ravel().tolist(), 4)).reshape(sizes.shape)
        losses = column_of([line.loss_without for line in self.lines], 5)
        return [
            [
                line.component,
                size,
                "" if math.isnan(line.lower) else f"{lower} to {upper}",
                f"{100 * line.share:.1f} %",
                "" if math.isnan(line.edf) else f"{line.edf:.1f}",
                "" if math.isnan(line.loss_without) else loss,
                p_value_words(line.p_value),
                line.shape,
                "" if math.isnan(line.concurvity) else f"{line.concurvity:.2f}",
            ]
            for line, (size, lower, upper), loss in zip(self.lines, numbers, losses, strict=True)
        ]

    def __str__(self) -> str:
        width = max(map(len, self.header), default=0)
        head = [f"{name:<{width}}  {value}" for name, value in self.header.items()]
        cells = [list(HEADINGS), *self.cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [_row(line, widths) for line in cells]
        return "\n".join([*head, "", *lines, "", *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show header, table and notes in a notebook."""
        head = "".join(
            f"<tr><th style='text-align: left'>{escape(name)}</th>"
            f"<td style='text-align: left'>{escape(value)}</td></tr>"
            for name, value in self.header.items()
        )
        cells = [f"<tr>{''.join(f'<th>{escape(word)}</th>' for word in HEADINGS)}</tr>"]
        for line in self.cells():
            cells.append(f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in line)}</tr>")
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table>{head}</table><table>{''.join(cells)}</table>{notes}"


def summarise(model: AnovaModel) -> Summary:
    """Summary of a frozen model."""
    shapes = certified_shapes(model)
    parts = weighted_parts(model)
    unit = max((float(np.abs(values).max()) for _, values, _ in parts), default=0.0) or 1.0
    variances = [variance(values, masses, unit) for _, values, masses in parts]
    tests, lines = _tests(model), []
    for place, (names, values, masses) in enumerate(parts):
        order, test = len(names) if place < len(model.components) else 0, tests[place]
        interval = importance_interval_of(model, place) if order else None
        lower, upper = interval or (math.nan, math.nan)
        lines.append(
            SummaryLine(
                component=" x ".join(names),
                order=order,
                importance=importance(values, masses),
                lower=lower,
                upper=upper,
                share=variances[place] / (sum(variances) or 1.0),
                edf=test.degrees,
                p_value=test.p_value,
                loss_without=test.loss_without,
                loss_error=test.loss_error,
                shape=", ".join(shapes.get(names[0], ())) if order == 1 else "",
                concurvity=test.concurvity,
            )
        )
    lines.sort(key=lambda line: (line.order == 0, -line.importance))
    notes = [*NOTES, *([] if model.evidence.tests else [NO_TESTS])]
    if model.remainder is not None:
        what = "remainder: all that no component shows, many faint interactions together."
        notes.append(f"{what} {model.remainder.sentence}".rstrip())
    notes += [
        f"copies: {', '.join(same[:-1])} and {same[-1]} say the same in all rows, so that each is "
        "redundant given the others, with a p-value of 1. They share what they say; test() tests "
        "them together."
        for same in (model.evidence.tests and model.evidence.tests.copies) or ()
    ]
    notes += [*_dependence_note(model), *_range_note(model)]
    notes += [f"review of {name}: {words}." for name, words in review_words(model)]
    return Summary(header=_header(model), lines=lines, shapes=shapes, notes=tuple(notes))


def _tests(model: AnovaModel) -> list[ComponentTest]:
    """Return the tests of all components, and the held-out loss without the remainder."""
    known, n_components = model.evidence.tests, len(model.components)
    tests = [ComponentTest()] * n_components if known is None else list(known.components)
    loss = math.nan if known is None else known.loss
    worth = 0.0 if model.remainder is None else model.remainder.worth
    return [*tests, ComponentTest(loss_without=loss + worth * abs(loss))]


def _dependence_note(model: AnovaModel) -> tuple[str, ...]:
    """Say where shares are far from those of the rows, whose features depend on each other."""
    ratio = None if model.evidence.tests is None else model.evidence.tests.dependence
    if ratio is None or 1 / LARGE_RATIO <= ratio <= LARGE_RATIO:
        return ()
    return (
        "dependence: features depend on each other, so that over the rows the components together "
        f"vary {ratio:.2g} times as much as the sum of their variances says. Shares are those of "
        "independent features; explain(X).joint_shares() has those of rows, with covariances.",
    )


def _range_note(model: AnovaModel) -> tuple[str, ...]:
    """Say where the values of the fit end, as far as it is known."""
    encoder, ranges = model.encoder, []
    for name, feature in zip(model.feature_names, encoder.features, strict=True):
        if feature.ends and feature.kind != PERIODIC:
            low, high = (value_word(feature, end) for end in feature.ends)
            ranges.append(f"{name} {low} to {high}")
    if not ranges:
        return ()
    more = f", and {len(ranges) - MOST_RANGES} more" if len(ranges) > MOST_RANGES else ""
    return (f"range: {', '.join(ranges[:MOST_RANGES])}{more}; constant beyond.",)


def importance_interval_of(model: AnovaModel, place: int) -> tuple[float, float] | None:
    """Interval of 95 % of the importance of a component; None where the model has no band of it."""
    posterior = model.evidence.posterior(place)
    if posterior is None:
        return None
    weights = [axis.weights for axis in model.axes(model.components.components[place])]
    return importance_interval(model.tables[place], weights, posterior.uncertainty())


def certified_shapes(model: AnovaModel) -> dict[str, list[str]]:
    """Shapes that are proved for all values of the other features, by feature.

    Nothing is proved of a feature in the remainder.
    """
    certified = {}
    unproved = [] if model.remainder is None else model.remainder.features
    for j, (name, axis) in enumerate(zip(model.feature_names, model.encoder.axes[1], strict=True)):
        if axis.has_steps and j not in unproved:
            shapes = {*DIRECTIONS, model.shapes.get(name, DIRECTIONS[0])}
            held = [shape for shape in sorted(shapes) if model.certificate(name, shape).holds]
            if held:
                certified[name] = ["constant"] if set(DIRECTIONS) <= set(held) else held
    return certified


def _header(model: AnovaModel) -> dict[str, str]:
    """Say in words what the model is."""
    header, orders = {}, model.components.orders
    if model.provenance is not None:
        header["rows"] = f"{model.provenance.n_rows:,}"
    header["components"] = ", ".join(
        f"{sum(len(s) == order for s in model.components)} of order {order}" for order in orders
    )
    header["link"] = model.link.name
    intercepts = [f"{value:.6g}" for value in model.intercepts]
    names = model.output_names
    header["intercept"] = (
        ", ".join(f"{name}: {value}" for name, value in zip(names, intercepts, strict=True))
        if names
        else intercepts[0]
    )
    if model.evidence.tests is not None:
        header["loss"] = model.evidence.tests.loss_name
        header["held-out loss"] = f"{model.evidence.tests.loss:.6g}"
        if model.evidence.tests.fit is not None and math.isfinite(model.evidence.tests.fit.aic):
            header["AIC"] = f"{model.evidence.tests.fit.aic:.6g}"
    for groups in model.evidence.random or ():
        factors = groups.credibility[groups.credibility > 0]
        ends = f"{factors.min():.2f} to {factors.max():.2f}" if len(factors) else "0"
        header[f"random {groups.feature}"] = (
            f"variance {groups.variance:.4g} between {groups.n_groups} groups, "
            f"{groups.dispersion:.4g} within; credibility {ends}"
        )
    if model.task.objective.dispersion is not None:
        header["dispersion"] = f"{model.task.objective.dispersion:.4g}"
    return header


def p_value_words(value: float) -> str:
    """Write a p-value.

    >>> p_value_words(1e-30), p_value_words(0.0312), p_value_words(float("nan"))
    ('< 0.001', '0.031', '')
    """
    if math.isnan(value):
        return ""
    return f"< {SMALLEST_P_VALUE_SHOWN:g}" if value < SMALLEST_P_VALUE_SHOWN else f"{value:.2g}"


def _row(words: Sequence[str], widths: Sequence[int]) -> str:
    """One line of text: the name at the left, the rest at the right of its column."""
    first, *others = words
    cells = [f"{word:>{width}}" for word, width in zip(others, widths[1:], strict=True)]
    return "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


MOST_LEVELS = 8  # of a feature, written out
TO_WRITE = "*To be written by a person.*"
WRITTEN_BY_HAND = {
    "Use": "What the model is for, who uses it, and what it must not be used for.",
    "Data": "Where the rows come from, of which time and people, and who may not be among them.",
    "Harm": "Who is affected, what was tested for them, and what is left.",
}


def write_card(model: AnovaModel, path: str | os.PathLike[str] | None, title: str) -> str:
    """Model card as Markdown, written to a file if a path is given."""
    front = f"library_name: tpnn\ntags: [tabular, interpretability]\nmodel_name: {title!r}"
    asked = [f"## {name}\n\n{TO_WRITE} {what}" for name, what in WRITTEN_BY_HAND.items()]
    sections = [
        f"---\n{front}\n---", f"# {title}", _facts(model), *asked, "## Features", _features(model),
        "## Components", _components(model), "## Limits", _limits(model), "## How to load it",
        '```python\nimport tpnn\n\nserved = tpnn.load("model.tpnn")\nserved.predict(rows)\n```',
    ]  # fmt: skip
    text = "\n\n".join(sections) + "\n"
    if path is not None:
        write_file(path, text.encode())
    return text


def _facts(model: AnovaModel) -> str:
    facts = dict(summarise(model).header)
    source = model.provenance
    if source is not None:
        facts |= {
            "task": source.task, "fitted": f"{source.date}, with tpnn {source.version}",
            "training rows": f"`{source.fingerprint}`",
        }  # fmt: skip
        facts |= {f"held-out {name}": f"{value:.5g}" for name, value in source.scores.items()}
    if model.classes:
        facts["classes"] = ", ".join(map(str, model.classes))
    if model.edits is not None:
        facts["edits by hand"] = f"{len(model.edits.records)}, which `tpnn log` lists"
    return _table(("", ""), list(facts.items()))


def _features(model: AnovaModel) -> str:
    lines = []
    rows = zip(model.feature_names, model.encoder.features, model.encoder.axes[1], strict=True)
    for name, feature, axis in rows:
        if feature.levels:
            shown = ", ".join(map(str, feature.levels[:MOST_LEVELS]))
            values = shown + (", ..." if len(feature.levels) > MOST_LEVELS else "")
        else:
            ends = () if axis.is_empty else axis.values[[0, -1]]
            values = " to ".join(value_word(feature, end) for end in ends)
        lines.append((name, feature.kind, values, "yes" if axis.has_missing else "no"))
    return _table(("feature", "kind", "values in the fit", "gaps in the fit"), lines)


def _components(model: AnovaModel) -> str:
    summary = summarise(model)
    return "\n\n".join([_table(HEADINGS, summary.cells()), *map(_cell, summary.notes)])


def _limits(model: AnovaModel) -> str:
    limits = [
        "Beyond the smallest and the largest value of the fit a feature changes nothing.",
        "A level, or a gap in a column, that the fit has not seen contributes nothing to a "
        "component, unless it has a node.",
        "Effects are those of the data: they are not causes.",
    ]
    if model.remainder is not None:
        share = f"{100 * model.remainder.share:.1f} %"
        limits.append(f"{share} of the variance is a remainder, which is predicted but not shown.")
    return "\n".join(f"- {limit}" for limit in limits)


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    cells = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in cells)


def _cell(text: str) -> str:
    r"""Text in Markdown, without what would end a cell or the line, or begin a tag.

    >>> _cell("a|b <c>")
    'a\\|b \\<c>'
    """
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").replace("<", "\\<")
