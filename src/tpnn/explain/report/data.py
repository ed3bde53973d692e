"""Data of a report: the model, its fit and its metrics as plain numbers and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn import __version__
from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.shapes import MONOTONE
from tpnn.explain.concurvity import Concurvity
from tpnn.explain.doubt import share_interval, without_rows
from tpnn.explain.explanation import Explanation
from tpnn.explain.metrics import Groups, Metrics, Roc, Score, SurvivalCurve
from tpnn.explain.metrics.curves import score_words
from tpnn.explain.report.cases import summarise_cases
from tpnn.explain.report.packing import Packed, pack, summarise_remainder
from tpnn.explain.response import DIFFERENCE, base_node
from tpnn.explain.selection_path import SelectionPath
from tpnn.model.edit_log import digest, edit_words, review_words
from tpnn.model.evidence import Provenance, Reliability
from tpnn.model.model import AnovaModel
from tpnn.model.summary import HEADINGS, Summary
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import PERIODIC
from tpnn.table.words import node_words


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """How a model was fitted; every field may be left out."""

    settings: Mapping[str, str] = field(default_factory=dict)  # of the estimator, in words
    n_rows: int | None = None  # of the fit
    scores: Mapping[str, float] = field(default_factory=dict)  # further scores, by name
    path: SelectionPath | None = None  # refitted models of several sizes
    quality: Sequence[str] = ()  # about columns of the training table

    @classmethod
    def of(cls, provenance: Provenance | None) -> FitFacts:
        """Facts that a model knows about its fit; none without a provenance."""
        if provenance is None:
            return cls()
        return cls(settings=in_words(provenance.settings), n_rows=provenance.n_rows)


def in_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as a reader expects them, without the quotes of Python.

    >>> in_words({"order": "auto", "shapes": {"age": "increasing"}, "n_bags": 8})
    {'order': 'auto', 'shapes': 'age: increasing', 'n_bags': '8'}
    """
    return {name: _word(value) for name, value in settings.items()}


def _word(value: Any) -> str:
    """Write a text as it is, a dict or a list by its items, anything else as Python does.

    >>> _word([("age", "income"), "age"])
    '(age, income), age'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value:
        return ", ".join(f"{_word(key)}: {_item(item)}" for key, item in value.items())
    if isinstance(value, list | tuple) and value:
        return ", ".join(map(_item, value))
    return repr(value)


def _item(value: Any) -> str:
    """Write an item of a setting, with brackets around several values."""
    is_several = isinstance(value, Mapping | list | tuple) and len(value) > 0
    return f"({_word(value)})" if is_several else _word(value)


MAX_ROWS = 200  # that the page offers to start from
UNSEEN_LEVEL = "unseen"  # how the page writes a level that fit has not seen
CURVE_DIGITS = 5
N_NAMED = 5  # components in one sentence
QUANTILES = (0.05, 0.5, 0.95)


def summarise(model: AnovaModel, explanation: Explanation, offset: FloatArray) -> dict[str, Any]:
    """Collect all that the page shows of a model; ``offset`` is that of the rows, (n_rows,).

    Named values are lists of pairs: JavaScript would sort keys of a dict that look like numbers.
    """
    shown, summary = shown_rows(explanation), model.summary()
    indices, names = explanation.sobol_indices(), list(model.feature_names)
    deviation = explanation.deviation() / (1 if model.remainder is None else 2)  # tables, trees
    widths = _half_widths(model)
    return {
        "digest": digest(model),
        "edits": _edits(model),
        "link": model.link.name,
        "ratio": model.task.ratio or DIFFERENCE,
        "hasBands": model.evidence.posteriors is not None,
        "hasBaseline": model.evidence.baseline is not None,
        "offset": _offset(model),
        "outputs": list(model.output_names),
        "classes": [str(label) for label in model.classes],
        "intercept": model.intercepts.tolist(),
        "error": model.identifiability_error(),
        "orders": list(model.encoder.axes),
        "features": _features(model),
        "components": _components(explanation, summary, widths),
        "remainder": summarise_remainder(explanation, shown, deviation),
        "sobol": [[names.index(n), *index[:3]] for n, index in indices.items() if n in names],
        "shapes": list(summary.shapes.items()),
        "directions": MONOTONE,
        "table": {
            "heading": list(HEADINGS),
            "lines": summary.cells(),
            "notes": [note for note in summary.notes if not note.startswith("range: ")],
        },
        "warnings": _warnings(explanation),
        "rows": _rows(explanation, shown),
        "offsets": offset[shown].tolist(),
        "reliability": _reliability(model),
        "nRows": 0 if explanation.rows is None else explanation.rows.n_rows,
        "packed": _packed(explanation, deviation, widths)._asdict(),
    } | summarise_cases(model)


def _offset(model: AnovaModel) -> dict[str, Any] | None:
    """Name and kind of the known part of the raw score; None for a model that has none."""
    column = model.encoder.offset_column
    if column is not None:
        return {"name": column.name, "isExposure": column.is_exposure}
    return {"name": None, "isExposure": False} if model.has_offset else None


def _edits(model: AnovaModel) -> list[list[str]]:
    """Every edit that led to the model, why, by whom and when it was made; then its reviews."""
    records = () if model.edits is None else model.edits.records
    notes = ["; ".join(filter(None, map(one.get, ("why", "by", "when")))) for one in records]
    edits = [[edit_words(one["edit"]), note] for one, note in zip(records, notes, strict=True)]
    return [*edits, *([f"review of {name}", words] for name, words in review_words(model))]


def describe(facts: FitFacts, metrics: Metrics | None) -> dict[str, Any]:
    """Collect all that the page shows of a fit and of its metrics, None without targets."""
    measured = metrics or Metrics()
    further = [Score(name, value) for name, value in facts.scores.items()]
    return {
        "scored": metrics is not None,
        "scores": [[score_words(name), *rest] for name, *rest in (*further, *measured.scores)],
        "rocs": [_shortened(roc) for roc in measured.rocs],
        "groups": [_shortened(groups) for groups in measured.groups],
        "survival": [_shortened(curve) for curve in measured.survival],
        "path": facts.path and _path(facts.path),
        "quality": list(facts.quality),
        "settings": list(facts.settings.items()),
        "fitRows": facts.n_rows,
        "version": __version__,
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _path(path: SelectionPath) -> dict[str, Any]:
    """Sizes and losses of the models of a path."""
    marked = path.landmarks.items()
    return {
        "steps": [[step.n_components, step.loss] for step in path.steps],
        "landmarks": [[name, step.n_components, step.loss] for name, step in marked],
        "chosen": path.chosen,
    }


def _shortened(record: Roc | Groups | SurvivalCurve | Reliability) -> dict[str, Any]:
    """Write a record's numbers with ``CURVE_DIGITS`` significant digits."""
    return {
        name: [_plain(float(f"{x:.{CURVE_DIGITS}g}")) for x in value.tolist()]
        if isinstance(value, np.ndarray)
        else value
        for name, value in record._asdict().items()
    }


def _reliability(model: AnovaModel) -> list[dict[str, Any]]:
    """Means of predictions and targets of rows that bags held out, in groups, of each output."""
    if model.evidence.calibration is None:
        return []
    reliability = model.evidence.calibration.reliability
    last = str(model.classes[-1]) if len(model.classes) == 2 else ""
    names = model.output_names or (last,)
    n_rows = model.provenance and model.provenance.n_rows
    records = []
    for name, one in zip(names, reliability, strict=True) if reliability else ():
        record = {"output": name} | _shortened(one)
        if n_rows and model.link.kind == "classes":
            ends = share_interval(one.actual, (n_rows * one.masses / one.masses.sum()).clip(1))
            record |= {"lower": ends[0].tolist(), "upper": ends[1].tolist()}
        records.append(record)
    return records


def _components(
    explanation: Explanation, summary: Summary, widths: Sequence[FloatArray]
) -> list[dict[str, Any]]:
    """Features, importance with its interval, share of the variance and mean band of components."""
    model, unit = explanation.model, max(explanation.importance().values()) or 1.0
    shares, lines = explanation.sobol(), {(s.component, s.order): s for s in summary.lines}
    posteriors = model.evidence.posteriors or (None,) * len(model.components)
    return [
        {
            "features": list(features),
            "importance": line.importance / unit,
            "interval": [line.lower / unit, line.upper / unit] if posterior else None,
            "share": shares[names],
            "band": float(np.mean(width)),
            "hasBand": posterior is not None,
            "base": base_node(model.axes(features)[0]) if len(features) == 1 else None,
        }
        for features, names, width, posterior in zip(
            model.components, model.component_names, widths, posteriors, strict=True
        )
        for line in (lines[" x ".join(names), len(names)],)
    ]


def _half_widths(model: AnovaModel) -> list[FloatArray]:
    """Half the width of the pointwise band of 95 % of every component; zero without bands."""
    if model.evidence.posteriors is None:
        return [np.zeros_like(table) for table in model.tables]
    return [
        np.zeros_like(table) if posterior is None else posterior.uncertainty().half_widths()
        for table, posterior in zip(model.tables, model.evidence.posteriors, strict=True)
    ]


def _ratio_widths(model: AnovaModel) -> list[FloatArray]:
    """Half the width of the band of the difference to the base, (n_outputs, M), of main effects."""
    widths = []
    for number, component in enumerate(model.components):
        if len(component) > 1:
            continue
        width, posterior = np.zeros_like(model.tables[number]), model.evidence.posterior(number)
        if posterior is not None:
            (axis,) = model.axes(component)
            at_base = np.arange(axis.n_nodes) == base_node(axis)
            width = posterior.uncertainty().minus(at_base.astype(float)).half_widths()
        widths.append(_outputs_first(width))
    return widths


def _features(model: AnovaModel) -> list[dict[str, Any]]:
    """Kind, levels, axes of every order and summary of every feature."""
    encoder = model.encoder
    return [
        {
            "name": name,
            "kind": feature.kind,
            "levels": [str(level) for level in feature.levels],
            "axes": [_axis(axes[j]) for axes in encoder.axes.values()],
            "quantiles": _quantiles(feature, main),
            "missing": float(main.weights[main.missing].sum()),
        }
        for j, (name, feature, main) in enumerate(
            zip(model.feature_names, encoder.features, encoder.axes[1], strict=True)
        )
    ]


def _axis(axis: Axis) -> dict[str, Any]:
    """Everything about an axis but its numbers, which are packed."""
    return {
        "size": axis.n_nodes,
        "missing": axis.has_missing,
        "unseen": axis.has_unseen,
        "words": None if axis.levels is None else node_words(axis)[axis.regular],
        "groups": None if axis.groups is None else axis.groups.tolist(),
        "wraps": axis.kind == PERIODIC,
    }


def _quantiles(feature: Feature, axis: Axis) -> list[float | None]:
    """Smallest, 5 %, middle, 95 % and largest value, of ordered features with values.

    Those inside are nodes; the ends are values of the fit, or None if they are not known.
    """
    if axis.is_nominal or axis.is_empty:
        return []
    ranks = np.cumsum(axis.weights[axis.regular])
    nodes = np.searchsorted(ranks, np.array(QUANTILES) * ranks[-1])
    inside = axis.values[np.minimum(nodes, len(ranks) - 1)].tolist()
    low, high = feature.ends or (None, None)
    if feature.levels:
        low, high = 0.0, len(feature.levels) - 1.0
    return [low, *inside, high]


def _warnings(explanation: Explanation) -> list[str]:
    """Concurvity warnings where rows were given; of the first output of several.

    Components that the same feature could imitate are one sentence, most of them first.
    """
    if explanation.rows is None or explanation.rows.n_rows == 0:
        return []
    names = explanation.model.output_names
    one = explanation.of(names[0]) if names else explanation
    groups: dict[str, list[Concurvity]] = {}
    for each in one.concurvity().values():
        if each.warning:
            groups.setdefault(each.closest, []).append(each)
    return list(map(_warning, sorted(groups.values(), key=lambda members: -len(members))))


def _warning(members: Sequence[Concurvity]) -> str:
    """Say which components one feature could imitate, and how much of each."""
    shown = [f"{' × '.join(each.names)} ({100 * each.share:.0f} %)" for each in members[:N_NAMED]]
    rest = f" and {len(members) - N_NAMED} others" if len(members) > N_NAMED else ""
    return f"through {members[0].closest}: {', '.join(shown)}{rest}"


def shown_rows(explanation: Explanation) -> IntArray:
    """Numbers of the rows to start from, spread evenly over those given."""
    n_rows = 0 if explanation.rows is None else explanation.rows.n_rows
    spread = np.linspace(0, n_rows - 1, min(n_rows, MAX_ROWS))
    return np.unique(spread.astype(np.intp))


def _rows(explanation: Explanation, shown: IntArray) -> list[list[float | str | None]]:
    """Rows to start from; None is missing, ``UNSEEN_LEVEL`` a level that fit has not seen."""
    if len(shown) == 0:
        return []
    table = np.column_stack([column[shown] for column in explanation.columns])
    return [[_plain(value) for value in row] for row in table.tolist()]


def _plain(value: float) -> float | int | str | None:
    """Return a number as JSON writes it shortest.

    >>> _plain(2.0), _plain(0.5), _plain(float("nan")), _plain(float("inf"))
    (2, 0.5, None, 'unseen')
    """
    if not np.isfinite(value):
        return None if np.isnan(value) else UNSEEN_LEVEL
    return int(value) if value.is_integer() else value


def _packed(
    explanation: Explanation, deviation: float, half_widths: Sequence[FloatArray]
) -> Packed:
    """Node values, node masses, two bands of each main effect, and all tables, output by output.

    The second band is that of the difference to the base. Tables of the remainder come last, then
    a whole number for each cell of an interaction: 1 where the band holds "no effect", and 2 more
    where no row is near. ``deviation`` is that of the raw score, as far as tables may be off by it.
    """
    model = explanation.model
    by_order = model.encoder.axes.values()
    nodes = [axis.values for axes in by_order for axis in axes]
    weights = [axis.weights for axes in by_order for axis in axes]
    widths = zip(model.components, half_widths, strict=True)
    mains = [_outputs_first(width) for component, width in widths if len(component) == 1]
    bands = [band for pair in zip(mains, _ratio_widths(model), strict=True) for band in pair]
    held = () if model.remainder is None else model.remainder.tables
    tables = [table for values in (*model.tables, *held) for table in _outputs_first(values)]
    doubts = [
        _doubt(explanation, place, half_widths[place])
        for place, component in enumerate(model.components)
        if len(component) > 1
    ]
    cells = [table for doubt in doubts for table in _outputs_first(doubt)]
    return pack(nodes, weights, tables, deviation, bands, cells, len(tables))


def _doubt(explanation: Explanation, place: int, width: FloatArray) -> IntArray:
    """Return 1 where the band holds "no effect", and 2 more where no row is near, as the table."""
    model, rows = explanation.model, explanation.rows
    table = explanation.component(model.components.components[place])
    far = without_rows(table.axes, table.density, 0 if rows is None else rows.n_rows)
    within = np.abs(model.tables[place]) <= width
    return np.asarray(within * (width > 0) + 2 * far[..., None])


def _outputs_first(table: NDArray[Any]) -> NDArray[Any]:
    """Table as (n_outputs, M_1, ..., M_d)."""
    return np.moveaxis(table, -1, 0)
