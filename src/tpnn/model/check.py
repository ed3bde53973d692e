"""Check of a model that was read from a file: every field is checked before it is used.

A checksum tells whether a file was changed by accident, and ``tpnn.model.codec`` gives every field
its type. These checks tell whether the model makes sense: compiled loops read tables without
looking at bounds, so a node that is out of range must never get that far.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, Int32Array, RealArray
from tpnn.anova.components import Component
from tpnn.anova.shapes import SHAPES, WRAPPED
from tpnn.anova.trees import TreeFeature, Trees
from tpnn.loss.links import LINKS
from tpnn.model.edit_log import check_records, check_reviews
from tpnn.model.evidence import OF_CLASS, Calibration, Scale, map_arrays
from tpnn.table.axis import OTHERS, UNSEEN_WORD, Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import DATE, DURATION, NOMINAL, NUMBER, ORDERED, PERIODIC

if TYPE_CHECKING:
    from tpnn.anova.posterior import Posterior
    from tpnn.model.evidence import Baseline, ComponentTests, Provenance, RandomIntercepts
    from tpnn.model.model import AnovaModel, EditLog
    from tpnn.model.remainder import Remainder
    from tpnn.table.table import OffsetColumn

KINDS = (NUMBER, PERIODIC, DATE, DURATION, ORDERED, NOMINAL)
MASS_TOLERANCE = 1e-6  # of the masses of a feature, which sum to one
MOST_NODES = 65_536
LONGEST_TIME = 2.0**63 / 1e6  # seconds from 1970, or of a duration: 64 bits of microseconds
TASK_KINDS = {  # what the model of an estimator can predict, by its link
    "regressor": {link.kind for link in LINKS.values()},
    "classifier": {"classes"},
    "survival": {"rates"},
}
DATE_FORM = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z"
FINGERPRINT_FORM = r"[0-9a-f]{64}"
LONGEST_TEXT = 10_000  # characters of a name in the provenance
MOST_ITEMS = 100_000  # of a list or an object among the settings
DEEPEST_SETTING = 8  # lists and objects within one another
MOST_ROWS = 2**53
DEEPEST_TREE = 1000  # questions on the way to a leaf


def check_model(model: AnovaModel) -> None:
    """Raise ValueError for the first field of a model that cannot be right."""
    _check_encoder(model.encoder)
    _check_outputs(model)
    _check_components(model)
    _check_basis(model)
    evidence = model.evidence
    optional: tuple[tuple[Any, Callable[[AnovaModel, Any], None]], ...] = (
        (model.encoder.offset_column, _check_offset_column),
        (model.provenance, _check_provenance),
        (evidence.posteriors, _check_posteriors),
        (evidence.tests, _check_tests),
        (evidence.calibration, _check_calibration),
        (evidence.baseline, _check_baseline),
        (evidence.random, _check_random),
        (model.edits, _check_edits),
        (model.remainder, _check_remainder),
        (model.reviews, lambda _, reviews: check_reviews(reviews)),
    )
    for field, check in optional:
        if field is not None:
            check(model, field)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


def _is_finite(array: RealArray) -> bool:
    return bool(np.isfinite(array).all())


def _are_labels(values: Iterable[Any]) -> bool:
    """Whether values are text or numbers; NaN stands for a missing value, never for a label."""
    return all(isinstance(value, str | int | float) and value == value for value in values)


def _check_encoder(encoder: TableEncoder) -> None:
    n_features = encoder.n_features
    _require(n_features > 0, "there must be a feature")
    for names, size in ((encoder.names, n_features), (encoder.labels, encoder.n_columns)):
        _require(names is None or len(names) == size, "every feature must have a name")
        _require(len(set(names or ())) == len(names or ()), "names of features must differ")
    if encoder.kept is not None:
        places, count = encoder.kept
        _require(len(places) == n_features, "every feature must have a position")
        rising = list(places) == sorted(set(places)) and places[0] >= 0 and places[-1] < count
        _require(rising, "positions of features must be those of columns")
    orders = list(encoder.axes)
    _require(orders == list(range(1, len(orders) + 1)), "orders must count up from 1")
    for axes in encoder.axes.values():
        _require(len(axes) == n_features, "every feature must have nodes at every order")
        for axis, feature in zip(axes, encoder.features, strict=True):
            _check_axis(axis, feature)


def _check_axis(axis: Axis, feature: Feature) -> None:
    is_kind = feature.kind in KINDS and axis.kind == feature.kind
    _require(is_kind and _are_labels(feature.levels), "kinds and levels must be known")
    ends = np.array(feature.ends)
    are_ends = _is_finite(ends) and len(ends) in (0, 2) and bool((np.diff(ends) >= 0).all())
    _require(are_ends, "a feature must have a smallest and a largest value, or none that is known")
    _require(1 <= axis.n_nodes <= MOST_NODES, f"a feature must have 1 to {MOST_NODES} nodes")
    rows = (axis.values, axis.values if axis.groups is None else axis.groups)
    _require(all(row.ndim == 1 for row in rows), "nodes must be in a row")
    nodes, masses = axis.values, axis.weights
    increasing = _is_finite(nodes) and bool((np.diff(nodes) > 0).all())
    _require(increasing, "nodes must be finite and increasing")
    wraps = feature.kind != PERIODIC or (len(nodes) > 1 and bool(nodes[0] == 0))
    _require(wraps, "nodes of a periodic number must begin at 0 and end with its period")
    is_time = feature.kind in (DATE, DURATION)
    _require(not is_time or bool((abs(nodes) < LONGEST_TIME).all()), "nodes must be dates")
    shared = _is_finite(masses) and (masses >= 0).all() and abs(masses.sum() - 1) < MASS_TOLERANCE
    _require(bool(shared), "masses must not be negative and sum to one")
    _require(masses.shape == (axis.n_nodes,), "every node must have a mass")
    _check_levels(axis, feature)


def _check_levels(axis: Axis, feature: Feature) -> None:
    levels = feature.levels
    _require(axis.groups is not None or not axis.has_unseen, "only levels can be unseen")
    texts = all(isinstance(level, str) for level in levels)
    _require(texts or not feature.are_text, "levels that are text must be strings")
    if feature.kind not in (NOMINAL, ORDERED):
        without = not levels and axis.levels is None and axis.groups is None
        _require(without, f"a {feature.kind} must have no levels")
        return
    labels = axis.levels or ()
    _require(len(levels) > 0 and axis.levels is not None, "levels must have labels")
    labelled = len(labels) == len(axis.values) and _are_labels(labels)
    _require(labelled, "every node of a level must have a label")
    _require(axis.groups is not None or feature.kind == ORDERED, "levels must have nodes")
    if axis.groups is None:
        numbers = axis.values
        inside = (numbers >= 0) & (numbers < len(levels)) & (numbers == np.floor(numbers))
        _require(bool(inside.all()), "nodes must be levels")
    else:
        inside = (axis.groups >= 0) & (axis.groups < axis.seen.stop)
        all_inside = len(inside) == len(levels) and bool(inside.all())
        _require(all_inside, "levels must have nodes")
    _require(_are_names(axis, levels), "nodes must have the names of their levels")


def _are_names(axis: Axis, levels: tuple[Any, ...]) -> bool:
    """Whether no node has the name of a level that it does not stand for."""
    labels = axis.levels or ()
    if axis.groups is None:
        return all(labels[i] == levels[int(number)] for i, number in enumerate(axis.values))
    n_levels = np.bincount(axis.groups, minlength=len(labels))
    number_of = {text: i for i, level in enumerate(levels) for text in (str(level), level)}
    for node, label in enumerate(labels):
        is_general = isinstance(label, str) and label.startswith((OTHERS, UNSEEN_WORD))
        number = number_of.get(label, number_of.get(str(label)))
        is_own = n_levels[node] != 1 if number is None else axis.groups[number] == node
        if not is_own and not is_general:
            return False
    return True


def _check_outputs(model: AnovaModel) -> None:
    _require(model.intercepts.ndim == 1, "every output must have one intercept")
    names, n_outputs = model.output_names, len(model.intercepts)
    counted = len(names) == (n_outputs if n_outputs > 1 else 0)
    _require(n_outputs > 0 and counted, "every one of several outputs must have a name")
    several = not model.link.couples_outputs or n_outputs > 1
    _require(several, "this link needs several outputs")
    classes = model.classes
    _require(_are_labels(classes) and len(classes) in (0, max(n_outputs, 2)), "classes must fit")


def _check_components(model: AnovaModel) -> None:
    encoder, tables = model.encoder, model.tables
    for component in model.components:
        _check_component(component, encoder)
    spreads = tables if model.evidence.spreads is None else model.evidence.spreads
    counted = len(tables) == len(spreads) == len(model.components)
    _require(counted, "every component must have a table")
    for component, table, spread in zip(model.components, tables, spreads, strict=True):
        shape = (*(axis.n_nodes for axis in model.axes(component)), len(model.intercepts))
        _require(table.shape == spread.shape == shape, "tables must have the shape of their nodes")
    finite = all(map(_is_finite, (*tables, *spreads, model.intercepts)))
    _require(finite, "tables, spreads and intercept must be finite")
    _check_sums(*tables, model.intercepts)
    negative = any((spread < 0).any() for spread in model.evidence.spreads or ())
    _require(not negative, "spreads must not be negative")
    are_shapes = set(model.shapes.values()) <= {*SHAPES, WRAPPED}
    of_features = set(model.shapes) <= set(encoder.feature_names)
    _require(are_shapes and of_features, "shapes must be those of features")


def _check_component(component: Component, encoder: TableEncoder) -> None:
    inside = all(0 <= feature < encoder.n_features for feature in component)
    distinct = len(set(component)) == len(component)
    is_component = inside and distinct and len(component) in encoder.axes
    _require(is_component, "components must be features")


def _check_basis(model: AnovaModel) -> None:
    activation, scale, terms = model.basis
    _require(activation in ("sigmoid", "relu"), "the activation must be known")
    _require(scale in ("centred", "paper"), "the scale must be known")
    components = () if terms is None else model.components.components
    for component, one in zip(components, terms or (), strict=True):
        shape = (len(component), len(one.beta))
        fits = one.b.shape == one.gamma.shape == shape and one.beta.ndim == 1
        _require(fits and one.features == component, "terms must have their features")
        _require(all(map(_is_finite, (one.b, one.gamma, one.beta))), "terms must be finite")


def _check_offset_column(model: AnovaModel, column: OffsetColumn) -> None:
    encoder, (name, place, is_exposure) = model.encoder, column
    named = (name is None) == (encoder.names is None)
    _require(named and name not in (encoder.names or ()), "the offset must be no feature")
    _require(0 <= place < encoder.n_columns, "the offset must be a column of the table")
    _require(not is_exposure or model.link.kind == "rates", "an exposure needs a log link")


def _check_provenance(model: AnovaModel, fit: Provenance) -> None:
    texts = (fit.version, fit.date, fit.fingerprint, *fit.targets)
    _require(all(map(_is_name, texts)), "provenance: a text must not be too long")
    _require(model.link.kind in TASK_KINDS.get(fit.task, ()), "the task must fit the link")
    formed = re.fullmatch(DATE_FORM, fit.date)
    formed = formed and re.fullmatch(FINGERPRINT_FORM, fit.fingerprint)
    _require(bool(formed), "provenance: date and fingerprint must have their form")
    counted = all(0 < size <= MOST_ROWS for size in (fit.n_rows, fit.n_columns))
    _require(counted, "provenance: there must be rows and columns")
    moderate = _is_setting(dict(fit.settings), DEEPEST_SETTING)
    _require(moderate, "provenance: settings must be JSON values of moderate size")
    _require(_is_setting(dict(fit.scores), 1), "provenance: scores must be finite numbers")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_setting(value: Any, depth: int) -> bool:
    """Whether a value is one of JSON, of at most ``depth`` levels, and not too long."""
    if isinstance(value, dict):
        names, items = list(value), list(value.values())
    elif isinstance(value, list):
        names, items = [], value
    else:
        is_number = type(value) is int or (type(value) is float and math.isfinite(value))
        return value is None or isinstance(value, bool) or is_number or _is_name(value)
    inside = depth > 0 and len(items) <= MOST_ITEMS and all(map(_is_name, names))
    return inside and all(_is_setting(item, depth - 1) for item in items)


def _check_posteriors(model: AnovaModel, posteriors: Sequence[Posterior | None]) -> None:
    for table, posterior in zip(model.tables, posteriors, strict=True):
        if posterior is None:
            continue
        *nodes, n_outputs = table.shape
        k = len(posterior.shifts)
        fits = [factor.shape for factor in posterior.factors] == [(size, k) for size in nodes]
        fits = fits and posterior.shifts.shape == (k, n_outputs)
        fits = fits and posterior.roots.shape == (n_outputs, k, k)
        fits = fits and posterior.rough.shape == table.shape
        _require(fits and posterior.units.shape == (n_outputs,), "posteriors must have their nodes")
        _require(all(map(_is_finite, posterior.arrays)), "posteriors must be finite")
        positive = (posterior.rough >= 0).all() and (posterior.units >= 0).all()
        _require(bool(positive), "variances and units of posteriors must not be negative")


def _check_tests(model: AnovaModel, tests: ComponentTests) -> None:
    _require(math.isfinite(tests.loss), "tests: the loss must be finite")
    counted = len(tests.components) == len(model.components)
    _require(counted, "every component must have its tests")
    values = [value for line in (*tests.components, tests.fit or ()) for value in line]
    _require(not any(map(math.isinf, values)), "tests must be finite numbers")
    shares = [value for line in tests.components for value in (line.p_value, line.concurvity)]
    outside = any(value < 0 or value > 1 for value in shares)
    _require(not outside, "p-values and concurvity must be shares")
    names = set(model.feature_names)
    are_sets = all(1 < len(set(same)) == len(same) for same in tests.copies or ())
    are_sets = are_sets and all(names.issuperset(same) for same in tests.copies or ())
    _require(are_sets, "copies must be sets of features")
    ratio = tests.dependence
    _require(ratio is None or 0 <= ratio < math.inf, "the dependence must be a ratio of variances")


def _check_random(model: AnovaModel, random: Sequence[RandomIntercepts]) -> None:
    names, axes = model.feature_names, model.encoder.axes[1]
    for groups in random:
        _require(groups.feature in names, "random intercepts must be those of features")
        sizes = [groups.variance, groups.dispersion, groups.n_groups]
        known = _is_finite(np.array(sizes)) and min(sizes) >= 0
        shares: FloatArray = groups.credibility
        known = known and shares.shape == axes[names.index(groups.feature)].weights.shape
        inside = known and bool(((shares >= 0) & (shares <= 1)).all())
        _require(inside, "random intercepts must have variances, and credibility for each group")


def _check_calibration(model: AnovaModel, calibration: Calibration) -> None:
    sizes = tuple(axis.n_nodes for axis in model.encoder.axes[1])
    arrays: list[RealArray] = []
    map_arrays(arrays.append, calibration)
    _require(all(map(_is_finite, arrays)), "calibration: numbers must be finite")
    _check_scores(model, calibration, sizes)
    means = all(len({array.shape for array in one}) == 1 for one in calibration.reliability)
    _require(means, "calibration: every group of rows must have its means")
    for scale in filter(None, (calibration.scale, calibration.errors)):
        _check_scale(scale, sizes, len(model.intercepts))
    has_scale = len(calibration.scores) > 0 and model.link.kind != "classes"
    _require(has_scale == (calibration.scale is not None), "a scale is for intervals of numbers")


def _check_scores(model: AnovaModel, calibration: Calibration, sizes: tuple[int, ...]) -> None:
    width = 1 if calibration.scale is None else len(model.intercepts)
    for scores in (calibration.scores, *(group.scores for group in calibration.groups)):
        _require(scores.ndim == 2 and scores.shape[1] == width, "scores must be those of outputs")
        rising = (np.diff(scores, axis=0) >= 0).all() and (scores >= 0).all()
        _require(bool(rising), "calibration: scores must be sorted and not negative")
    n_nodes = dict(enumerate(sizes)) | {OF_CLASS: len(model.classes)}
    for feature, node, _ in calibration.groups:
        inside = 0 <= node < n_nodes.get(feature, 0)
        _require(inside, "calibration: groups must be nodes of features, or classes")


def _check_scale(scale: Scale, sizes: tuple[int, ...], n_outputs: int) -> None:
    inside = all(0 <= feature < len(sizes) for feature in scale.features)
    _require(inside, "calibration: the scale must be one of features")
    shapes = [(sizes[feature], n_outputs) for feature in scale.features]
    fits = shapes == [table.shape for table in scale.tables]
    _require(fits, "calibration: the scale must have the nodes of its features")
    knots: FloatArray = scale.knots
    fits = knots.shape == scale.heights.shape == (len(knots), n_outputs) and len(knots) > 0
    rising = fits and bool((np.diff(knots, axis=0) >= 0).all())
    _require(rising, "calibration: the knots of the scale must increase")


def _check_baseline(model: AnovaModel, baseline: Baseline) -> None:
    times, log_hazard, errors, strata, starts = baseline
    cox = model.link.kind == "rates" and len(model.intercepts) == 1
    _require(cox, "a baseline needs one output and a log link")
    paired = times.ndim == 1 and times.shape == log_hazard.shape and len(times) > 0
    _require(paired and _is_finite(times) and _is_finite(log_hazard), "a baseline must be finite")
    ends = [0] if starts is None else [*starts.tolist(), len(times)]
    whole = (starts is None) == (not strata) and len(strata) + 1 == len(ends)
    _require(whole and ends[0] == 0 and sorted(ends) == ends, "a baseline needs all its strata")
    for part in baseline.parts:
        rising = (np.diff(times[part]) > 0).all() and (np.diff(log_hazard[part]) >= 0).all()
        _require(bool(rising and (times[part] >= 0).all()), "a baseline must rise with time")
    sizes = errors is None or (errors.shape == times.shape and _is_finite(errors))
    not_negative = errors is None or bool((errors >= 0).all())
    _require(sizes and not_negative, "a baseline needs its errors")


def _check_edits(model: AnovaModel, edits: EditLog) -> None:
    records, formers = edits.records, edits.formers
    try:
        check_records(records)
        _require(len(formers) <= len(records), "every earlier version must have its edit")
        for former in formers:
            _require(former.edits is None, "an earlier version must have no log of its own")
            check_model(former)
    except ValueError as error:
        raise ValueError(
            "the log of edits was tampered with: its records and the earlier versions of the model "
            f"do not fit, {error}"
        ) from error


def _check_sums(*parts: RealArray, trees: Trees | None = None) -> None:
    """Refuse parts and trees whose sums, or differences of two sums, are no doubles."""
    largest = sum(float(np.abs(part).max(initial=0.0)) for part in parts)
    if trees is not None:
        largest += len(trees.roots) * float(np.abs(trees.values).max(initial=0.0))
    _require(math.isfinite(2.0 * largest), "raw scores must be finite")


def _check_remainder(model: AnovaModel, remainder: Remainder) -> None:
    outputs = model.intercepts.shape
    for component, table in zip(remainder.components, remainder.tables, strict=True):
        _check_component(component, model.encoder)
        nodes = tuple(axis.n_nodes for axis in model.axes(component))
        _require(table.shape == (*nodes, *outputs), "tables of the remainder must have all nodes")
        _require(_is_finite(table), "tables of the remainder must be finite")
    _require(remainder.constants.shape == outputs, "trees must have a mean of every output")
    _require(_is_finite(remainder.constants), "the mean of trees must be finite")
    numbers = (remainder.share, remainder.worth, *(found.share for found in remainder.largest))
    _require(all(map(math.isfinite, numbers)), "shares of the remainder must be finite")
    _check_trees(remainder.trees, model)
    parts = *model.tables, model.intercepts, *remainder.tables, remainder.constants
    _check_sums(*parts, trees=remainder.trees)


def _check_trees(trees: Trees, model: AnovaModel) -> None:
    """Refuse trees that a loop could leave by a wrong number, or that never end."""
    _require(len(trees.features) == model.encoder.n_features, "trees must know every feature")
    for codes, feature in zip(trees.features, model.encoder.features, strict=True):
        _check_codes(codes, feature)
    n_nodes, n_leaves = len(trees.questions), len(trees.values)
    flat = trees.right.ndim == trees.roots.ndim == 1
    _require(flat, "answers and first nodes of trees must be in a row")
    _require(_are_below(trees.asked, len(trees.features)), "questions must ask about features")
    _require(len(trees.right) == trees.starts[-1], "every code must have an answer")
    _require(_are_below(trees.questions, len(trees.asked)), "nodes must ask questions")
    _require(trees.children.shape == (n_nodes, 2), "every node must have two children")
    places = np.concatenate([trees.roots, trees.children.reshape(-1)])
    inside = bool(((places < n_nodes) & (places >= -n_leaves)).all())
    _require(inside, "trees must consist of their nodes and leaves")
    _require(len(np.unique(places)) == len(places), "no two ways in a tree may meet")
    all_reached = _n_reached(trees) == n_nodes
    _require(all_reached, f"every node must be in a tree of depth {DEEPEST_TREE} at most")
    fits = trees.values.shape == (n_leaves, len(model.intercepts))
    _require(fits, "leaves must have all outputs")
    _require(_is_finite(trees.values), "values of leaves must be finite")


def _check_codes(codes: TreeFeature, feature: Feature) -> None:
    ends, groups, masses = codes
    increasing = ends.ndim == 1 and _is_finite(ends) and bool((np.diff(ends) > 0).all())
    _require(increasing, "ends must increase")
    shared = _is_finite(masses) and masses.ndim == 1 and bool((masses >= 0).all())
    _require(shared, "masses of codes must not be negative")
    whole = abs(masses.sum() - 1) < MASS_TOLERANCE
    _require(bool(whole), "masses of codes must sum to one")
    if groups is None:
        _require(len(masses) == len(ends) + 3, "every code must have a mass")
    else:
        labelled = len(groups) == len(feature.levels) > 0
        _require(labelled, "every level must have a code")
        _require(_are_below(groups, len(masses) - 2), "codes of levels must be known")


def _n_reached(trees: Trees) -> int:
    """Nodes to which a way leads from the first node of a tree."""
    here, n_reached = trees.roots, 0
    for _ in range(DEEPEST_TREE):
        here = here[here >= 0]
        n_reached, here = n_reached + len(here), trees.children[here].reshape(-1)
    return n_reached


def _are_below(numbers: Int32Array, limit: int) -> bool:
    return numbers.ndim == 1 and bool(((numbers >= 0) & (numbers < limit)).all())
