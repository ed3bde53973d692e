"""Evidence: whoever changes a model leaves out what is known about the old one, all in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.models import random_model, small_model, with_bands, with_evidence
from tpnn import AnovaModel, TPNNRegressor, compare, merge, purify
from tpnn.lifecycle.edit.change import refined, with_values
from tpnn.loss.links import LINKS
from tpnn.model.check import check_model
from tpnn.model.constrain import constrain
from tpnn.model.evidence import (
    Baseline,
    Calibration,
    ComponentTest,
    ComponentTests,
    Evidence,
    RandomIntercepts,
    map_arrays,
)
from tpnn.model.model import changed

WHOLE = ("tests", "calibration", "baseline")  # what belongs to the sum of all components
BASELINE = Baseline(np.array([1.0, 2.0]), np.array([-2.0, -1.0]))
X = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=list("abc"))


@pytest.fixture(scope="module")
def fitted() -> AnovaModel:
    """A model of two outputs with all evidence that such a model can have."""
    y = np.column_stack([X["a"] * X["b"], X["c"] - X["a"]]) + 0.1 * X.to_numpy()[:, :2]
    model: AnovaModel = TPNNRegressor(**QUICK).fit(X, y).model_
    known = model.evidence
    assert None not in (known.spreads, known.posteriors, known.tests, known.calibration)
    assert model.provenance is not None
    assert model.provenance.scores
    return model


def two_of(model: AnovaModel) -> AnovaModel:
    return model.restrict(model.components.components[:2])


def finer(model: AnovaModel) -> AnovaModel:
    add = partial(with_values, feature=model.encoder.features[0], values=[0.123])
    return refined(model, 1, {0: add})


CHANGES: dict[str, Callable[[AnovaModel], AnovaModel]] = {
    "restrict": two_of,
    "one output": lambda model: model.explain().of(model.output_names[1]).model,
    "finer nodes": finer,
    "edit": lambda model: replace(model.edit("a", between=(-0.5, 0.5), add=1.0), edits=None),
    "edit of a shape": lambda model: replace(model.edit("a", shape="increasing"), edits=None),
    "edit without": lambda model: replace(model.edit("a", without=True), edits=None),
    "merge": lambda model: merge([model, two_of(model)]),
    "purify": lambda model: purify(model, X=X[:40]),
    "difference": lambda model: compare({"old": model, "new": two_of(model)}, X).difference,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_keeps_nothing_that_no_longer_holds(name: str, fitted: AnovaModel) -> None:
    """And what it keeps fits it, as the check of files says."""
    edited = fitted.edit("b", add=0.0)
    for model in (fitted, with_evidence(edited, **vars(fitted.evidence))):
        new = CHANGES[name](model)
        assert [getattr(new.evidence, part) for part in WHOLE] == [None] * 3
        assert new.basis.terms is None
        assert bool(new.log()) == (name in ("restrict", "merge") and model.edits is not None)
        assert new.provenance is None or new.provenance.scores == {}
        check_model(new)
        with pytest.raises(ValueError, match=r"^predict_interval: this model was not calibrated"):
            new.predict_interval(X)


def test_shapes_keep_the_tests_of_the_components(fitted: AnovaModel) -> None:
    """A fit tests its components before it brings them into their shapes."""
    shaped = constrain(fitted, {"a": "increasing"})
    assert shaped.evidence.tests is not None
    assert (shaped.evidence.calibration, shaped.evidence.baseline) == (None, None)
    check_model(shaped)


def test_an_edit_keeps_the_baseline_and_no_other_change_does() -> None:
    model = replace(with_bands(random_model(2, 1)), link=LINKS["log"])
    model = with_evidence(model, baseline=BASELINE)
    for edit in ({"add": 1.0}, {"without": True}, {"between": (0.0, 0.1), "set": 0.0}):
        edited = model.edit("x0", **edit)
        assert edited.evidence.baseline is not None
        assert all(map(np.array_equal, edited.evidence.baseline, BASELINE))
    for new in (model.restrict([(0,)]), constrain(model, {"x0": "increasing"}), finer(model)):
        assert new.evidence.baseline is None


def test_terms_do_not_survive_finer_nodes() -> None:
    """Terms are smooth between nodes and the model is not, so new nodes are off the terms."""
    model = small_model(1)
    assert model.basis.terms is not None
    assert finer(model).basis.terms is None
    assert model.restrict([(0,)]).basis.terms is not None


@pytest.mark.parametrize("part", [field.name for field in fields(Evidence)])
def test_changed_leaves_out_all_that_is_not_passed(part: str) -> None:
    model = with_bands(small_model(1))
    tests = ComponentTests("squared_error", 1.0, (ComponentTest(),) * 3)
    groups = (RandomIntercepts("x0", 1.0, 1.0, 4, np.ones(4)),)
    model = with_evidence(
        model, tests=tests, calibration=Calibration(), baseline=BASELINE, random=groups
    )
    assert None not in vars(model.evidence).values()
    new = changed(model, intercepts=model.intercepts + 1)
    assert set(vars(new.evidence).values()) == {None}
    assert new.basis.terms is None
    one = Evidence(**{part: getattr(model.evidence, part)})
    kept = changed(model, intercepts=model.intercepts + 1, evidence=one).evidence
    assert [name for name, value in vars(kept).items() if value is not None] == [part]
    assert None not in vars(model.evidence).values()  # that of the old model stays


def test_all_arrays_of_the_evidence_are_read_only(fitted: AnovaModel) -> None:
    arrays: list[Any] = []
    map_arrays(arrays.append, fitted.evidence)
    assert len(arrays) > 3 * len(fitted.components)
    assert not any(array.flags.writeable for array in arrays)


def test_map_arrays_changes_nothing_else(fitted: AnovaModel) -> None:
    doubled = map_arrays(lambda array: 2 * array, fitted.evidence)
    old, new = fitted.evidence.calibration, doubled.calibration
    assert old is not None
    assert np.array_equal(new.scores, 2 * old.scores)
    assert old.scale is not None
    assert new.scale.features == old.scale.features
    assert doubled.tests == fitted.evidence.tests
