"""Passes over the table by workers: the bits of one process, and a source that must not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.conftest import QUICK
from tests.solvers.cluster.fake_ray import FakeRay
from tests.solvers.cluster.tables import assert_same, write_table
from tests.table.files.tables import mixed_table, write_parts
from tpnn import TPNNRegressor, distributed
from tpnn.estimators import distributed as fitting
from tpnn.estimators.base import Refits
from tpnn.solvers.cluster.passes import SourcePart, row_groups
from tpnn.solvers.cluster.ray import Cluster
from tpnn.table.files.source import Source

SETTINGS = {**QUICK, "order": 2, "bands": False, "offset": "known", "categorical": ["count"]}
TARGET, WEIGHT = "y", "weight"
FEATURES = {"number", "single", "count", "large", "town", "size", "day", "flag", "label"}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(fitting, "import_ray", lambda: fake)
    return fake


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns of every kind, in several row groups; one file has no values in some columns."""
    rows = mixed_table(600).to_pylist()
    rows[150:330] = [row | dict.fromkeys(["flag", "town", "number"]) for row in rows[150:330]]
    table = pa.Table.from_pylist(rows, mixed_table(10).schema)
    return write_parts(table, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def expected(folder: Path) -> TPNNRegressor:
    return TPNNRegressor(**SETTINGS).fit(folder, TARGET, sample_weight=WEIGHT)


def fitted(source: Any, storage: Path, workers: int) -> TPNNRegressor:
    model = TPNNRegressor(**SETTINGS)
    return distributed.fit(model, source, TARGET, storage=storage, workers=workers, weight=WEIGHT)


@pytest.mark.parametrize("workers", [2, 7])
def test_workers_read_and_the_driver_does_not(
    workers: int, folder: Path, expected: Any, tmp_path: Path, ray: FakeRay, monkeypatch: Any
) -> None:
    """The bits are those of one process; the driver reads only what is no feature."""
    read_by_driver, batches = set[str](), Source.batches

    def watched(source: Source, names: Any, fragment: Any = None) -> Any:
        if not isinstance(source, SourcePart):
            read_by_driver.update(names)
        return batches(source, names, fragment)

    monkeypatch.setattr(Source, "batches", watched)
    monkeypatch.setattr("tpnn.solvers.cluster.storage.ROWS_PER_BLOCK", 50)
    assert_same(fitted(folder, tmp_path, workers), expected)
    assert "read" in ray.calls
    assert not read_by_driver & FEATURES


def test_a_dataset_with_a_filter_is_read_by_the_driver(
    folder: Path, tmp_path: Path, ray: FakeRay
) -> None:
    rows = ds.dataset(folder).filter(ds.field("single") > -0.5)
    expected = TPNNRegressor(**SETTINGS).fit(rows, TARGET, sample_weight=WEIGHT)
    assert_same(fitted(rows, tmp_path, 2), expected)
    assert "read" not in ray.calls


def test_folders_that_are_a_column(tmp_path: Path, ray: FakeRay) -> None:
    write_parts(mixed_table(200), tmp_path / "in" / "year=2024", 2)
    write_parts(mixed_table(100), tmp_path / "in" / "year=2025", 1)
    expected = TPNNRegressor(**SETTINGS).fit(tmp_path / "in", TARGET, sample_weight=WEIGHT)
    assert "year" in expected.feature_names_in_
    assert_same(fitted(tmp_path / "in", tmp_path / "run", 3), expected)


def test_models_of_fewer_components_need_no_workers(
    folder: Path, expected: Any, tmp_path: Path, ray: FakeRay
) -> None:
    model = fitted(folder, tmp_path, 2)
    n_calls = len(ray.calls)
    one, other = (Refits(fit._fitted_).model(2) for fit in (model, expected))
    assert all(np.array_equal(a, b) for a, b in zip(one.tables, other.tables, strict=True))
    assert len(ray.calls) == n_calls


@pytest.mark.parametrize("n_passes", [1, 4, 6])
def test_a_table_that_changes_between_passes_is_refused(
    n_passes: int, tmp_path: Path, ray: FakeRay, monkeypatch: Any
) -> None:
    """Also where the file system tells neither size nor age of a file."""
    files, read, passes = write_table(tmp_path), Cluster.read, []

    def changing(team: Cluster, asked: Any) -> Any:
        passes.append(asked)
        found = read(team, asked)
        if len(passes) == n_passes:
            write_table(tmp_path, seed=2)
        return found

    monkeypatch.setattr(Source, "state", lambda source: ())
    monkeypatch.setattr(Cluster, "read", changing)
    with pytest.raises(
        ValueError, match=r"^X: the files must not change .* column '.*' of .* changed"
    ):
        distributed.fit(TPNNRegressor(**QUICK, order=1), files, storage=tmp_path / "run")
    assert len(passes) > n_passes


def test_parts_of_a_source_are_its_rows(folder: Path) -> None:
    source = Source(folder)
    groups = row_groups(source)
    assert groups is not None
    bounds = [(0, 1), (1, 70), (70, 71), (71, source.n_rows)]
    parts = [SourcePart(source, groups, *rows) for rows in bounds]
    found = [value for part in parts for batch in part.batches(["single"]) for value in batch[0]]
    whole = source.read(["single"])["single"]
    assert np.array_equal(found, list(whole))
    assert [len(part.fragments) for part in parts] == [1, 1, 1, 4]
    n_groups = [sum(len(f.row_groups) for f in part.fragments) for part in parts]
    assert n_groups[:3] == [1, 2, 1]
