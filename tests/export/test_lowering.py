"""The lowering keeps every value, and an export that does not is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.export.cases import TASKS, fuzzed_rows, model_of, remainder_model
from tests.models import small_model
from tpnn.export import lowering as checking
from tpnn.export.lowering import lower
from tpnn.model.model import column_scores
from tpnn.table.encoder import Feature


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore:X. levels")
def test_the_lowering_equals_the_components(task: str) -> None:
    model = model_of(task)
    columns = model.encoder.columns(model.encoder.read(fuzzed_rows(model, 5000)))
    truth = column_scores(model, columns)
    found = checking.evaluate(lower(model), columns)[0].reshape(truth.shape)
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore:X. levels")
def test_the_lowering_equals_a_remainder(task: str) -> None:
    model = remainder_model(task)
    columns = model.encoder.columns(model.encoder.read(fuzzed_rows(model, 5000)))
    lowered = checking.checked_lowering(model)
    assert {known.name for known in lowered.inputs} == set(model.required_features)
    truth = model.remainder_scores(fuzzed_rows(model, 5000)).reshape(5000, -1)
    effects, rest = checking.evaluate(lowered, columns)
    np.testing.assert_allclose(rest, truth, rtol=0, atol=1e-12)
    in_one, trees = checking.evaluate(lowered.in_one(), columns)
    np.testing.assert_allclose(in_one.sum(1) + trees, effects.sum(1) + rest, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_nodes_that_differ_by_order(order: int) -> None:
    checking.checked_lowering(small_model(order, n_outputs=2))


def test_a_range_that_overflows_is_halved() -> None:
    model = small_model(1)
    axes = {1: tuple(replace(a, values=np.linspace(-1.5e308 / 2, 1.7e308 / 2, a.n_nodes) * 2)
                     for a in model.encoder.axes[1])}  # fmt: skip
    model = replace(model, encoder=replace(model.encoder, axes=axes))
    assert {known.unit for known in checking.checked_lowering(model).inputs} == {1.0, 2.0}


def test_a_wrong_export_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(model: Any) -> Any:
        lowered = lower(model)
        first = lowered.grids[0]
        wrong = first._replace(cells=first.cells + 1e-9)
        return replace(lowered, grids=(wrong, *lowered.grids[1:]))

    monkeypatch.setattr(checking, "lower", off)
    with pytest.raises(AssertionError, match="differs from component_scores or remainder_scores"):
        checking.checked_lowering(small_model(2))


def test_levels_of_both_kinds_are_refused() -> None:
    model = model_of("regression")
    features = list(model.encoder.features)
    features[4] = Feature("nominal", (1, *features[4].levels[1:]))
    model = replace(model, encoder=replace(model.encoder, features=tuple(features)))
    with pytest.raises(ValueError, match="levels that are strings and levels that are numbers"):
        lower(model)
