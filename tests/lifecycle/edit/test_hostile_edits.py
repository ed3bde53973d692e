"""Edits and edit files that nobody should make: refused in plain words, whatever they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tpnn import AnovaModel, load
from tpnn.lifecycle.edit.edit import replay

HUGE = 10**400
WRONG_EDITS: list[Any] = [
    {"component": None, "add": 1},
    {"component": {"a": 1}, "add": 1},
    {"component": 1.5, "add": 1},
    {"component": [], "add": 1},
    {"component": [None], "add": 1},
    {"component": [["age"]], "add": 1},
    {"component": [[], []], "add": 1},
    {"add": 1},
    {"component": "age", "add": HUGE},
    {"component": "age", "add": [1]},
    {"component": "age", "limit": [HUGE, None]},
    {"component": "age", "limit": [[], 1]},
    {"component": "age", "smooth": HUGE},
    {"component": "age", "points": [1]},
    {"component": "age", "points": 1},
    {"component": "age", "points": [[HUGE, 1]]},
    {"component": "age", "points": [[1, HUGE]]},
    {"component": "age", "points": [[[], 1]]},
    {"component": "age", "points": {"x": 1}},
    {"component": "age", "between": [HUGE, None], "add": 1},
    {"component": "age", "between": 5, "add": 1},
    {"component": "age", "between": [[], []], "add": 1},
    {"component": "age", "between": {"x": [1, 2]}, "add": 1},
    {"component": "since", "between": ["NaT", None], "add": 1},
    {"component": "since", "between": ["x" * 1000, None], "add": 1},
    {"component": "town", "levels": [[]], "add": 1},
    {"component": "town", "levels": {"town": {}}, "add": 1},
    {"component": "town", "levels": [None], "add": 1},
    {"component": "income", "missing": 5, "add": 1},
    {"component": "income", "missing": [[]], "add": 1},
    {"component": "income", "missing": {"income": 5}, "add": 1},
    {"component": "age", "shape": []},
    {"component": "age", "shape": {}},
    {"component": "age", "without": 1},
    {"component": "age", "output": [], "add": 1},
    {"component": "age", "add": 1, "more": 1},
    {"component": "age", "add": 1, "why": 1},
    {"component": "age", "add": 1, "by": []},
    {"component": "age", "add": 1, "when": "x"},
    {"restrict": "age"},
    {"restrict": [[None]]},
    {"restrict": [["nobody"]]},
    {"restrict": [["age"]], "add": 1},
    {"merge": []},
]


def edit_file(folder: Path, edits: Any) -> Path:
    path = folder / "edits.json"
    path.write_text(json.dumps({"format": "tpnn-edits", "version": 1, "edits": edits}))
    return path


@pytest.mark.parametrize("edit", WRONG_EDITS, ids=lambda edit: json.dumps(edit)[:50])
def test_a_wrong_edit_is_named(
    edit: dict[str, Any], models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"^edit 1 of '.*edits\.json': \w+: .+\. .+\.$"):
        replay(models[2], edit_file(tmp_path, [edit]))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, "[]", "null", "5", "", "\xff", '{"format": "tpnn-edits"}',
        '{"format": "tpnn-edits", "version": "1", "edits": []}',
        '{"format": "tpnn-edits", "version": 99, "edits": []}',
        '{"format": ["tpnn-edits"], "version": 1, "edits": []}',
        '{"format": "tpnn-edits", "version": 1, "edits": {}}',
        '{"format": "tpnn-edits", "version": 1, "edits": ["component"]}',
        '{"format": "tpnn-edits", "version": 1, "edits": [null]}',
        '{"format": "tpnn-edits", "version": 1, "edits": [{"component": "age"}], "edits": []}',
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_no_edit_file(
    text: str, models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    path = tmp_path / "edits.json"
    path.write_text(text, "latin-1")
    with pytest.raises(
        ValueError, match=r"^path: '.*edits\.json' is not an edit file of version 1"
    ):
        replay(models[2], path)


@pytest.mark.parametrize("change", [{"add": 1e308}, {"set": 1.7e308}, {"set": -1.7e308}])
def test_what_could_not_be_loaded_is_refused_when_it_is_made(
    change: dict[str, float], models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    """Sums beyond the doubles: in a table, or of several tables."""

    def edited_often() -> None:
        model = models[1]
        for component in ("age", "age", "income"):
            model = model.edit(component, **change)
            model.save(tmp_path / "model")
            assert np.isfinite(load(tmp_path / "model").model_.intercepts).all()

    with pytest.raises(
        ValueError, match=r"^edit: the model after it must be one that can be saved"
    ):
        edited_often()


def test_neighbours_whose_difference_is_no_double_are_refused(
    models: dict[int, AnovaModel],
) -> None:
    """Between two nodes a value is the first and a part of the difference."""
    with pytest.raises(
        ValueError, match=r"^edit: the model after it must be one that can be saved"
    ):
        models[1].edit("age", points=[[20.0, -1e308], [30.0, 1e308]])


def test_no_edit_makes_more_nodes_than_a_file_may_have(models: dict[int, AnovaModel]) -> None:
    points = [[float(x), 0.1] for x in range(70_000)]
    with pytest.raises(ValueError, match=r"^points: a feature can have at most 65536 nodes"):
        models[1].edit("income", points=points)


def test_an_edit_by_a_huge_number_leaves_a_unique_model(models: dict[int, AnovaModel]) -> None:
    """What it rounds in a pair is small beside the number, and large beside the pair."""
    where = {"age": (30.0, 30.0001)}
    edited = models[2].edit(("age", "income"), limit=(1e9, None), between=where)
    assert edited.edit("age", flatten=True).identifiability_error() <= 1e-12
