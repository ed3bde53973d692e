"""Laws of two fits: the same rows in another form give the same model, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.fuzz.cases import fit
from tests.fuzz.columns import FLOAT, LABELS, ORDERED, Column
from tests.fuzz.containers import INSTALLED, NAMED, can_hold
from tests.fuzz.laws import Trial, close, identical, places_of, require
from tpnn import AnovaModel
from tpnn.model.model import tables_by_component

ROUNDING = 1e-12  # relative; rows are scored in the order of the columns


def check_one(trial: Trial) -> str:
    """Fit once more, in a way that is drawn at random; return the name of the law."""
    laws = (
        again, shuffled_rows, shuffled_columns, copies, repeated, other_container, renamed,
        useless_column,
    )  # fmt: skip
    law = laws[trial.rng.integers(len(laws))]
    law(trial)
    return law.__name__


def again(trial: Trial) -> None:
    """Check that the same seed gives the same model, whatever the number of threads."""
    model = trial.case.fit(n_jobs=2).model_
    require(identical(trial.model, model), "a second fit, with two threads")


def shuffled_rows(trial: Trial) -> None:
    """Check that the order of the rows changes nothing."""
    rows = trial.rng.permutation(trial.case.n_rows).tolist()
    model = trial.case.take(rows).fit().model_
    require(identical(trial.model, model), "the order of the rows")


def copies(trial: Trial) -> None:
    """Check that copies of the whole table change nothing."""
    rows = trial.rng.permutation(np.tile(np.arange(trial.case.n_rows), 2)).tolist()
    model = trial.case.take(rows).fit().model_
    is_whole = trial.case.weights is None  # other weights do not change the number of rows
    levels = trial.case.settings.get("categorical", {})
    least_rows = levels.get("min_rows", 1)  # which copies reach sooner
    known = [c.known() for j, c in enumerate(trial.case.columns)
             if c.kind in LABELS or j in levels.get("features", ())]  # fmt: skip
    is_plain = not any(2 * len(set(values)) > len(values) >= 20 for values in known)  # copies are
    if is_whole and least_rows == 1 and is_plain:
        require(identical(trial.model, model), "copies of the table")


def repeated(trial: Trial) -> None:
    """Check that whole weights act like repeated rows."""
    counts = trial.rng.integers(0, 3, trial.case.n_rows)
    counts[:3] = 1
    plain = replace(trial.case, weights=None)
    by_weight = replace(plain, weights=counts.astype(float)).fit().model_
    by_rows = plain.take(np.repeat(np.arange(plain.n_rows), counts).tolist()).fit().model_
    require(identical(by_weight, by_rows), "whole weights against repeated rows")


def other_container(trial: Trial) -> None:
    """Check that the library that holds the table changes nothing."""
    case = trial.case
    kinds = {column.kind for column in case.columns}
    if not case.is_named or ORDERED in kinds:  # polars has no order of levels
        return
    for other in set(NAMED) & set(INSTALLED) - {case.container}:
        if can_hold(other, case.columns):
            model = replace(case, container=other).fit().model_
            require(identical(trial.model, model), f"a table of {other}")


def renamed(trial: Trial) -> None:
    """Check that other names in the same order change nothing else."""
    case = trial.case
    if case.is_named:
        columns = tuple(replace(column, name=f"the {column.name}") for column in case.columns)
        model = replace(case, columns=columns).fit().model_
        require(_same_up_to_places(trial.model, model, [*range(len(columns))]), "other names")


def useless_column(trial: Trial) -> None:
    """Check that a column of one value has no effect; it acts like another seed."""
    case = trial.case
    value = trial.rng.choice([None, 1.0])
    constant = Column("a constant", FLOAT, [value] * case.n_rows)
    if can_hold(case.container, (*case.columns, constant)):
        model = replace(case, columns=(*case.columns, constant)).fit().model_
        for component, table in tables_by_component(model).items():
            is_useless = len(case.columns) in [places_of(model)[j] for j in component]
            require(not is_useless or close(table, 0 * table, trial.scale), "a constant's effect")


def shuffled_columns(trial: Trial) -> None:
    """Check that the order of the columns only permutes the features."""
    case = trial.case
    distinct = {repr(column.values) for column in case.columns}
    if not case.is_named and len(distinct) < len(case.columns):
        return  # which of two equal columns is which, their place alone says
    places = trial.rng.permutation(len(case.columns)).tolist()  # of each feature, afterwards
    moved = replace(case, columns=tuple(case.columns[j] for j in np.argsort(places)))
    estimator = case.estimator(places)
    other = fit(estimator, moved.table(), case).model_
    require(_same_up_to_places(trial.model, other, places), "the order of the columns")
    raw = other.raw_scores(moved.table(), np.zeros(case.n_rows))  # of its remainder, too
    require(close(raw, trial.trained_raw, trial.scale, ROUNDING), "scores of moved columns")


def _same_up_to_places(one: AnovaModel, other: AnovaModel, places: list[int]) -> bool:
    """Whether two models agree where feature j of the first is feature ``places[j]``."""
    ours, columns = places_of(one), places_of(other)
    theirs = {
        tuple(columns[j] for j in s): table for s, table in tables_by_component(other).items()
    }
    if len(theirs) != len(one.components) or not np.array_equal(one.intercepts, other.intercepts):
        return False
    for component, table in tables_by_component(one).items():
        moved = [places[ours[j]] for j in component]
        found = theirs.get(tuple(sorted(moved)))
        back = (*np.argsort(np.argsort(moved)).tolist(), len(moved))
        if found is None or not np.array_equal(found.transpose(back), table):
            return False
    return True
