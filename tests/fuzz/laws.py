"""Laws of a fitted model, each against a truth that does not come from the code it judges."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import expit, softmax

from tests.fuzz import columns as kinds
from tests.fuzz.cases import Case, Numbers
from tests.fuzz.columns import Column
from tests.fuzz.containers import INSTALLED, NAMED, WITH_CATEGORIES, build, can_hold
from tpnn import AnovaModel, load
from tpnn.model import interpolate as worth
from tpnn.model import interpolate_numba
from tpnn.model.model import column_scores

RARELY = 0.2  # share of the models on which a slow law is checked
N_FRESH = 12  # rows to predict on
SMALLEST_EXACT = 1e-290  # between smaller numbers interpolation is rounded
FEWEST_NUMBERS_BETWEEN = 100  # of two nodes, for the same reason
MONOTONE = ("increasing", "decreasing")
CLOSE = 1e-9  # of the largest number that a sum is made of
LINKS: dict[str, Any] = {
    "identity": lambda raw: raw,
    "logit": expit,
    "log": lambda raw: np.exp(np.clip(raw, -300, 300)),
    "softmax": lambda raw: softmax(raw, axis=-1),
    "quantiles": lambda raw: np.sort(raw, axis=-1),
}
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where saving needs no disk


class BrokenLawError(AssertionError):
    """A law that does not hold, by name."""


def require(holds: Any, law: str) -> None:
    """Raise an error that names the law where it does not hold."""
    if not holds:
        raise BrokenLawError(law)


def close(one: Any, other: Any, scale: float, tolerance: float = CLOSE) -> bool:
    """Whether two arrays are finite and agree up to rounding in sums of numbers of this size."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    if one.shape != other.shape or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return False
    with np.errstate(over="ignore"):
        return bool((np.abs(one - other) <= tolerance * scale).all())


def places_of(model: AnovaModel) -> tuple[int, ...]:
    """Which columns of the table the features of a model are."""
    encoder = model.encoder
    return encoder.kept.places if encoder.kept else tuple(range(encoder.n_features))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A fitted estimator with what it was fitted to and rows that it has not seen."""

    case: Case
    estimator: Any
    table: Any
    fresh: tuple[Column, ...]
    rng: np.random.Generator

    @property
    def model(self) -> AnovaModel:
        """The frozen model."""
        frozen: AnovaModel = self.estimator.model_
        return frozen

    @property
    def places(self) -> tuple[int, ...]:
        """Which columns of the table the features of the model are."""
        return places_of(self.model)

    @cached_property
    def fresh_table(self) -> Any:
        """The rows that fit has not seen, as a table."""
        return build(self.case.container, self.fresh)

    @cached_property
    def trained_raw(self) -> Numbers:
        """Raw scores of the rows of fit."""
        return self.raw(self.table)

    @cached_property
    def fresh_raw(self) -> Numbers:
        """Raw scores of the rows that fit has not seen."""
        return self.raw(self.fresh_table)

    @cached_property
    def scores(self) -> Numbers:
        """Component scores of the rows that fit has not seen."""
        return self.model.component_scores(self.fresh_table)

    def raw(self, table: Any) -> Numbers:
        """Raw scores of a table with an offset of zero, which needs no warning."""
        n_rows = getattr(table, "shape", (len(table),))[0]
        return self.model.raw_scores(table, np.zeros(n_rows))

    @cached_property
    def explained(self) -> Any:
        """Explanation of the rows that fit has not seen."""
        return self.estimator.explain(self.fresh_table)

    @cached_property
    def scale(self) -> float:
        """Size of the numbers that raw scores are made of."""
        rest = self.model.remainder
        held = () if rest is None else (*rest.tables, rest.constants, rest.trees.values)
        tables = sum(float(np.abs(t).max(initial=0)) for t in (*self.model.tables, *held))
        return tables + float(np.abs(self.model.intercepts).max()) + 1e-300


def check_all(trial: Trial) -> None:
    """Check every law of a fitted model."""
    for law in (
        zero_means, zero_means_over_rows, sums, links, requested, fresh_rows, one_row_at_a_time,
        compiled, containers, offsets, saved, pickled, shapes, predictions,
    ):  # fmt: skip
        law(trial)


def zero_means(trial: Trial) -> None:
    """Check that every component averages to zero along each of its features, under the masses."""
    model = trial.model
    for component, table in zip(model.components, model.tables, strict=True):
        for place, axis in enumerate(model.axes(component)):
            means = np.tensordot(axis.weights, table, axes=(0, place))
            require(close(means, 0 * means, trial.scale), "components average to zero")
            require(abs(axis.weights.sum() - 1) < 1e-9, "masses sum to one")


def zero_means_over_rows(trial: Trial) -> None:
    """Vary one feature of a row over the rows of the table: a component averages to zero."""
    case, model = trial.case, trial.model
    if not len(model.components):
        return
    index = int(trial.rng.integers(len(model.components)))
    component = model.components.components[index]
    feature, row = trial.places[component[-1]], int(trial.rng.integers(case.n_rows))
    pinned = [column.take([row] * case.n_rows) for column in case.columns]
    pinned[feature] = case.columns[feature]
    scores = model.component_scores(build(case.container, pinned))[:, index]
    weights = np.ones(case.n_rows) if case.weights is None else case.weights / case.weights.max()
    means = np.tensordot(weights / weights.sum(), scores, axes=(0, 0))
    require(close(means, 0 * means, trial.scale), "components average to zero over the rows")


def sums(trial: Trial) -> None:
    """Check that intercept, components and remainder add up to the raw score."""
    scores = trial.model.component_scores(trial.table)
    expected = trial.model.intercept + scores.sum(1) + trial.model.remainder_scores(trial.table)
    require(close(trial.trained_raw, expected, trial.scale), "the parts sum to the raw score")


def links(trial: Trial) -> None:
    """Check that a prediction is the inverse link of the raw score."""
    expected = LINKS[trial.model.link.name](trial.trained_raw)
    found = trial.model.predict(trial.table, np.zeros(trial.case.n_rows))
    scale = float(np.abs(expected).max(initial=1e-290))  # SciPy has no subnormal probabilities
    require(close(found, expected, scale), "a prediction is the inverse link of the raw score")


def requested(trial: Trial) -> None:
    """Check that the components are those that the settings allow."""
    settings = trial.case.settings
    found = {tuple(trial.places[j] for j in component) for component in trial.model.components}
    require(max(map(len, found), default=0) <= settings.get("order", 3), "order")
    wider = settings.get("shapes")  # a shape adds subsets of components
    most = settings.get("max_components") or len(found)
    require(found and (wider or len(found) <= most), "max_components")
    asked, interactions = settings.get("interactions"), {s for s in found if len(s) > 1}
    if isinstance(asked, list):
        listed = {tuple(sorted(s)) for s in asked}
        listed |= subsets(listed)  # to which the averages of the listed ones move
        require(interactions <= listed, "only listed interactions")
    if isinstance(asked, dict):
        require(not asked.get("heredity") or subsets(found) <= found, "heredity")
        require({tuple(sorted(s)) for s in asked.get("required", ())} <= found, "required")
        banned = [set(s) for s in asked.get("forbidden", ())]
        require(not any(set(s) >= b for s in found for b in banned), "forbidden")
        groups = [set(g) for g in asked.get("groups", ())]
        inside = all(any(set(s) <= g for g in groups) for s in interactions)
        require(not groups or inside, "groups")


def subsets(components: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return all proper subsets of components."""
    return {s for t in components for k in range(1, len(t)) for s in combinations(t, k)}


def fresh_rows(trial: Trial) -> None:
    """Check that unseen levels and missing values contribute nothing."""
    require(np.isfinite(trial.fresh_raw).all(), "raw scores of unseen values are finite")
    for feature, place in enumerate(trial.places):
        unseen = _unseen(trial.case, place, trial.fresh[place])
        for index, component in enumerate(trial.model.components):
            if feature in component:
                require(not trial.scores[unseen, index].any(), "unseen values contribute nothing")


def _unseen(case: Case, feature: int, column: Column) -> Numbers:
    """Find the rows whose value is missing or a level, and was in no row of fit that counts."""
    trained = case.columns[feature].take(case.counted).values
    has_levels = column.kind in (*kinds.LABELS, kinds.ORDERED)
    if column.levels and not isinstance(column.levels[0], str):
        has_levels = case.container in WITH_CATEGORIES  # elsewhere they are numbers
    has_levels |= feature in case.settings.get("categorical", {}).get("features", ())
    known = {value for value in trained if value is not None}
    return np.array(
        [None not in trained if v is None else has_levels and v not in known for v in column.values]
    )


def one_row_at_a_time(trial: Trial) -> None:
    """Check that a row alone has the score that it has among others."""
    for row in trial.rng.integers(N_FRESH, size=2):
        alone = build(trial.case.container, [column.take([row]) for column in trial.fresh])
        require(np.array_equal(trial.raw(alone)[0], trial.fresh_raw[row]), "one row at a time")


@contextmanager
def all_compiled() -> Iterator[None]:
    """Predict with the compiled loops, however few the rows are."""
    with (
        patch.object(worth, "MIN_COMPILED_ROWS", 0),
        patch.object(worth.ACCOUNT, "module", interpolate_numba),
    ):
        yield


def compiled(trial: Trial) -> None:
    """Check that the compiled loops give what NumPy gives."""
    raw, fresh = trial.trained_raw, trial.fresh_table
    with all_compiled():
        trained, found = trial.raw(trial.table), trial.raw(fresh)
        scores = trial.model.component_scores(fresh)
    require(close(trained, raw, trial.scale, 1e-12), "compiled raw scores are those of NumPy")
    require(close(found, trial.fresh_raw, trial.scale, 1e-12), "compiled scores of unseen values")
    require(close(scores, trial.scores, trial.scale, 1e-12), "compiled components")


def containers(trial: Trial) -> None:
    """Check that the same rows have the same scores, whichever library holds them."""
    if not trial.case.is_named:
        return
    others = [other for other in NAMED if can_hold(other, trial.fresh)]
    other = str(trial.rng.choice(others))
    if other in INSTALLED:
        found = trial.raw(build(other, trial.fresh))
        require(np.array_equal(found, trial.fresh_raw), f"scores of a table of {other}")


def offsets(trial: Trial) -> None:
    """Check that an offset is added to the raw score."""
    shift = trial.rng.normal(size=N_FRESH) * trial.scale
    column = shift if len(trial.model.intercepts) == 1 else shift[:, None]
    found = trial.model.raw_scores(trial.fresh_table, shift)
    require(close(found, trial.fresh_raw + column, 9 * trial.scale), "an offset is added")


def saved(trial: Trial) -> None:
    """Check that a file gives back every number, and the model read from it saves the same."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        trial.model.save(first)
        loaded = load(first).model_
        if trial.rng.random() < RARELY:
            loaded.save(second)
            require(first.read_bytes() == second.read_bytes(), "a loaded model saves the same")
    _require_same(trial, loaded, "save and load")


def pickled(trial: Trial) -> None:
    """Check that a pickled estimator is the same estimator."""
    again = pickle.loads(pickle.dumps(trial.estimator))
    require(again.get_params().keys() == trial.estimator.get_params().keys(), "pickle")
    _require_same(trial, again.model_, "pickle")


def _require_same(trial: Trial, model: AnovaModel, law: str) -> None:
    require(identical(trial.model, model), law)
    found = model.raw_scores(trial.fresh_table, np.zeros(N_FRESH))
    require(np.array_equal(found, trial.fresh_raw), law)


def identical(one: AnovaModel, other: AnovaModel) -> bool:
    """Whether two models consist of the same bits."""
    parts = [
        (*model.tables, *(model.evidence.spreads or ()), model.intercepts,
         *_of_baseline(model), *_of_remainder(model),
         *(a for axes in model.encoder.axes.values() for x in axes for a in (x.values, x.weights)))
        for model in (one, other)
    ]  # fmt: skip
    same = [np.array_equal(a, b, equal_nan=True) for a, b in zip(*parts, strict=False)]
    named = (one.components, one.output_names, one.classes, one.shapes, one.link)
    others = (other.components, other.output_names, other.classes, other.shapes, other.link)
    return len(parts[0]) == len(parts[1]) and all(same) and named == others


def _of_baseline(model: AnovaModel) -> Iterator[Numbers]:
    """All arrays of the baseline hazard of a model."""
    parts = model.evidence.baseline or ()
    yield from (part for part in parts if isinstance(part, np.ndarray))


def _of_remainder(model: AnovaModel) -> Iterator[Numbers]:
    """All arrays of the remainder of a model."""
    rest = model.remainder
    if rest is not None:
        yield from (*rest.tables, rest.constants, np.array([rest.share, rest.worth]))
        yield from rest.trees.arrays


def shapes(trial: Trial) -> None:
    """Check that shapes hold on random rows, and their certificates say so."""
    for place, shape in trial.case.settings.get("shapes", {}).items():
        feature = trial.places.index(place)  # a feature that has a shape stays
        name = trial.model.feature_names[feature]
        require(trial.model.certificate(name).holds, "certificate")
        nodes = trial.model.encoder.axes[1][feature]
        regular = nodes.values
        largest = np.abs(regular).max(initial=0)
        gap = FEWEST_NUMBERS_BETWEEN * (largest - np.nextafter(largest, 0))
        apart = bool((regular[1:] - regular[:-1] > gap).all())
        exact = (largest > SMALLEST_EXACT and apart) or shape in MONOTONE
        if nodes.levels is None and len(regular) > 1 and exact:
            _check_shape(trial, feature, shape, regular)


def _check_shape(trial: Trial, feature: int, shape: str, nodes: Numbers) -> None:
    """Move one feature of random rows through its range, the others fixed."""
    with np.errstate(over="ignore"):
        between = nodes[:-1] / 2 + nodes[1:] / 2
        path = np.unique([*nodes, *between, trial.rng.choice(nodes)])[:60]
    numbers = trial.model.encoder.columns(trial.model.encoder.read(trial.fresh_table))
    for row in trial.rng.integers(N_FRESH, size=2):
        columns = [np.full(len(path), column[row]) for column in numbers]
        columns[feature] = path
        scores = column_scores(trial.model, columns)
        raw = scores.reshape(len(path), len(trial.model.components), -1).sum(1)
        require(_has_shape(path, raw, shape, CLOSE * trial.scale), f"{shape} on random rows")


def _has_shape(path: Numbers, raw: Numbers, shape: str, slack: float) -> bool:
    """Whether values along a path rise, or lie below their chords, up to some slack."""
    sign = -1.0 if shape in ("decreasing", "concave") else 1.0
    if shape in MONOTONE:
        return bool((sign * np.diff(raw, axis=0) >= -slack).all())
    if len(path) < 3:
        return True
    steps = np.diff(path.astype(np.longdouble))  # which neither overflow nor vanish
    share = (steps[:-1] / (steps[:-1] + steps[1:]))[:, None]
    chord = raw[:-2] * (1 - share) + raw[2:] * share
    return bool((sign * (chord - raw[1:-1]) >= -slack).all())


def predictions(trial: Trial) -> None:
    """Check what each task alone predicts."""
    estimator, table, zeros = trial.estimator, trial.fresh_table, np.zeros(N_FRESH)
    raw = trial.fresh_raw
    several = trial.case.task == "classification" and len(estimator.classes_) > 2
    given = {} if several else {"offset": zeros}
    if trial.case.task == "classification":
        shares = estimator.predict_proba(table, **given)
        require(((shares >= 0) & (shares <= 1)).all(), "probabilities lie between 0 and 1")
        require(close(shares.sum(1), np.ones(N_FRESH), 1.0), "probabilities sum to one")
        most = estimator.classes_[raw.argmax(1) if several else (raw > 0).astype(int)]
        require((estimator.predict(table, **given) == most).all(), "the most probable class")
    elif trial.case.task == "survival":
        times = np.sort(trial.case.target[:, 0])
        lived = estimator.predict_survival(table, times, **given)
        require(((lived >= 0) & (lived <= 1)).all(), "survival lies between 0 and 1")
        require((np.diff(lived, axis=1) <= 0).all(), "survival never rises")
    else:
        expected = trial.model.predict(table, zeros)
        require(np.array_equal(estimator.predict(table, **given), expected), "predict")


def trial_of(case: Case) -> Trial:
    """Fit a case."""
    rng = np.random.default_rng([case.seed, 3])
    table = case.table()
    fitted = case.fit()
    fresh = case.fresh_columns(rng, N_FRESH)
    return Trial(case=case, estimator=fitted, table=table, fresh=_fitting(case, fresh), rng=rng)


def _fitting(case: Case, fresh: Sequence[Column]) -> tuple[Column, ...]:
    """Rows to predict on that can be read: a column that fit saw empty has no kind."""
    return tuple(
        replace(new, values=[None] * N_FRESH) if not old.take(case.counted).known() else new
        for old, new in zip(case.columns, fresh, strict=True)
    )
