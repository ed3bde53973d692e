from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpnn
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, load_model
from tpnn.anova.terms import Terms
from tpnn.loss.links import LINKS
from tpnn.model import files as storage
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder


def small_model(order: int) -> AnovaModel:
    """A model of random tables that need not average to zero."""
    rng = np.random.default_rng(order)
    sizes = {1: (4, 1, 6), 2: (3, 1, 4), 3: (2, 1, 3)}
    axes = {
        o: tuple(Axis(np.sort(rng.normal(size=m)), rng.dirichlet(np.ones(m))) for m in sizes[o])
        for o in range(1, order + 1)
    }
    encoder = TableEncoder(None, axes, (Feature("number"),) * 3)
    components = ComponentSet.up_to(3, order)
    tables = tuple(rng.normal(size=[axes[len(s)][j].n_nodes for j in s]) for s in components)
    terms = tuple(Terms(s, rng.random((len(s), 2)), rng.random((len(s), 2)), rng.random(2))
                  for s in components)  # fmt: skip
    link = LINKS["identity"]
    return AnovaModel(encoder, components, tables, tables, 0.3, link, "sigmoid", "centred", terms)


def interpolate_slowly(model: AnovaModel, row: np.ndarray) -> float:
    """Multilinear interpolation by nested np.interp."""
    total = model.intercept
    for component, table in zip(model.components, model.tables, strict=True):
        for feature, axis in zip(component, model.axes(component), strict=True):
            columns = table.reshape(table.shape[0], -1).T
            cut = np.array([np.interp(row[feature], axis.values, column) for column in columns])
            table = cut.reshape(table.shape[1:])
        total += float(table)
    return total


@pytest.mark.parametrize("order", [1, 2, 3])
def test_scores_interpolate_linearly_between_nodes(order: int) -> None:
    model = small_model(order)
    X = np.random.default_rng(9).normal(size=(50, 3)) * 2
    expected = [interpolate_slowly(model, row) for row in X]
    assert np.allclose(model.raw_scores(X), expected)


def test_many_rows_take_several_blocks() -> None:
    model = small_model(2)
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    assert np.array_equal(model.raw_scores(X)[9000:9010], model.raw_scores(X[9000:9010]))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_compiled_and_plain_scores_are_identical(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(order)
    X = np.random.default_rng(0).normal(size=(60_000, 3)) * 2
    X[:6] = [[v] * 3 for v in (0.0, 1e300, -1e300, 5e-324, model.axes((0,))[0].values[1], -0.0)]
    compiled = model.component_scores(X)
    monkeypatch.setattr("tpnn.model.interpolate.COMPILED_FROM", 10**9)
    assert np.array_equal(model.component_scores(X), compiled)


def test_compiled_scores_on_a_range_next_to_nothing() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    for scale in (1e-306, 1e-320, 1e306):
        model = TPNNRegressor(n_bags=1, random_state=0, verbose=0).fit(X * scale, y).model_
        many = np.tile(X * scale, (300, 1))
        assert np.array_equal(model.raw_scores(many)[:200], model.raw_scores(X * scale))
        assert np.isfinite(model.raw_scores(many)).all()


def test_no_rows_give_no_scores() -> None:
    model = small_model(2)
    assert model.raw_scores(np.empty((0, 3))).shape == (0,)
    assert model.component_scores(np.empty((0, 3))).shape == (0, 6)


@pytest.fixture(scope="module")
def saved(table: Any, labels: Any, quick: Any, tmp_path_factory: Any) -> tuple[Any, Path, Any]:
    X, _ = table
    model = TPNNClassifier(**{**quick, "order": 3}).fit(X, labels)
    path = tmp_path_factory.mktemp("saved") / "model.tpnn"
    model.model_.save(path)
    return model, path, X


def test_round_trip_is_exact(saved: Any) -> None:
    model, path, X = saved
    loaded = load_model(path)
    assert np.array_equal(loaded.raw_scores(X), model.decision_function(X))
    assert np.array_equal(loaded.predict(X), model.predict_proba(X)[:, 1])
    assert loaded.component_names == model.components_
    assert loaded.identifiability_error() == model.model_.identifiability_error()
    for one, other in zip(loaded.terms(), model.model_.terms(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for one, other in zip(loaded.spreads, model.model_.spreads, strict=True):
        assert np.array_equal(one, other)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"^path: must be a file .*, found the folder "):
        load_model(tmp_path)


def test_labels_are_kept(saved: Any, table: Any, quick: Any, tmp_path: Path) -> None:
    """Two labels or more, of any kind; raw scores of two stay one column."""
    model, path, X = saved
    assert load_model(path).classes == model.model_.classes == ("high", "low")
    assert load_model(path).output_names == ()
    assert load_model(path).raw_scores(X).shape == (len(X),)
    for classes in ([False, True], [3, 7], [1.0, 2.0], ["a", "b", "c"]):
        labels = np.array(classes)[np.arange(len(X)) % len(classes)]
        few = TPNNClassifier(**{**quick, "order": 1}).fit(X, labels)
        few.model_.save(tmp_path / "few")
        assert load_model(tmp_path / "few").classes == tuple(classes)
        assert few.path().model(1).classes == tuple(classes)


def test_a_file_without_labels_is_still_read(saved: Any, tmp_path: Path) -> None:
    model, path, X = saved
    header, arrays = storage.read_archive(path)
    del header["classes"]
    storage.write_archive(tmp_path / "old", header, arrays)
    old = load_model(tmp_path / "old")
    assert old.classes == ()
    assert np.array_equal(old.raw_scores(X), model.decision_function(X))


def test_offset_is_added_to_the_raw_score(table: Any, quick: Any) -> None:
    X, y = table
    offset = np.linspace(-1, 1, len(X))
    for target in (y, np.column_stack([y, -y])):
        model = TPNNRegressor(**quick).fit(X, target).model_
        known = offset if target is y else offset[:, None]
        assert model.raw_scores(X, offset) == pytest.approx(model.raw_scores(X) + known)
    with pytest.raises(ValueError, match=r"^offset: one finite number per row is needed"):
        model.predict(X, offset[:3])


def test_representation_is_short(saved: Any) -> None:
    assert repr(small_model(2)) == "AnovaModel(6 components of 3 features, order 2, identity link)"
    assert len(repr(saved[0].model_)) < 100


@pytest.mark.parametrize("name", ["absent/model.tpnn", "."])
def test_saving_where_no_file_can_be(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileNotFoundError, match=r"^path: must be a file in a folder") as caught:
        small_model(1).save(path)
    assert repr(str(path)) in str(caught.value)


def test_same_model_same_bytes(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved
    load_model(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_model_without_names(tmp_path: Path) -> None:
    model = small_model(1)
    model.save(tmp_path / "plain")
    assert load_model(tmp_path / "plain").feature_names == ("x0", "x1", "x2")


def test_file_is_readable_with_numpy_alone(saved: Any) -> None:
    _, path, _ = saved
    with np.load(path, allow_pickle=False) as archive:
        assert archive["tables"].dtype == np.float64
        assert json.loads(archive["header.json"])["version"] == storage.VERSION


def test_loading_and_predicting_need_neither_torch_nor_numba(saved: Any) -> None:
    _, path, _ = saved
    code = (
        "import sys, numpy, tpnn; m = tpnn.load_model(sys.argv[1]); m.predict(numpy.zeros((3, 4)));"
        "print(sorted({'torch', 'numba', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    root = str(Path(tpnn.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.999])
def test_truncated_file(saved: Any, tmp_path: Path, keep: float) -> None:
    _, path, _ = saved
    data = path.read_bytes()
    broken = tmp_path / "broken"
    broken.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])
    with pytest.raises(ValueError, match=r"^path: must be a file written by AnovaModel.save"):
        load_model(broken)


def rewrite(path: Path, target: Path, change: Any) -> None:
    """Copy an archive with its entries changed."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))


def test_edited_header(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved

    def edit(name: str, data: bytes) -> bytes:
        if name != "header.json":
            return data
        return json.dumps({**json.loads(data), "intercept": 1.0}).encode()

    rewrite(path, tmp_path / "edited", edit)
    with pytest.raises(ValueError, match="checksum"):
        load_model(tmp_path / "edited")


def test_edited_table(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved

    def edit(name: str, data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1]) if name == "tables.npy" else data

    rewrite(path, tmp_path / "edited", edit)
    with pytest.raises(ValueError, match="checksum"):
        load_model(tmp_path / "edited")


def test_random_damage_is_always_noticed(saved: Any, tmp_path: Path) -> None:
    model, path, X = saved
    expected = model.decision_function(X)
    data, broken = path.read_bytes(), tmp_path / "broken"
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        broken.write_bytes(damaged)
        with contextlib.suppress(ValueError):  # any other exception fails the test
            assert np.array_equal(load_model(broken).raw_scores(X), expected)


def test_a_header_that_lacks_a_part(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved
    header, arrays = storage.read_archive(path)
    for name in ("link", "components", "outputs"):
        storage.write_archive(
            tmp_path / "part", {k: v for k, v in header.items() if k != name}, arrays
        )
        with pytest.raises(
            ValueError, match=r"^path: must be a whole model, found a file that lacks"
        ):
            load_model(tmp_path / "part")


def test_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "VERSION", 99)
    small_model(1).save(tmp_path / "newer")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"version 99\. Upgrade tpnn"):
        load_model(tmp_path / "newer")


def test_pickled_array_is_never_loaded(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved
    bomb = tmp_path / "bomb.npy"
    np.save(bomb, np.array([print], dtype=object), allow_pickle=True)

    def edit(name: str, data: bytes) -> bytes:
        return bomb.read_bytes() if name == "tables.npy" else data

    rewrite(path, tmp_path / "edited", edit)
    with pytest.raises(ValueError, match="checksum"):
        load_model(tmp_path / "edited")


def test_other_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="of another kind"):
        load_model(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent")


def test_crash_while_saving_keeps_the_old_file(
    saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    small_model(1).save(path)
    before = path.read_bytes()

    def crash(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        saved[0].model_.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_identifiability_error_sees_a_violation(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y).model_
    shifted = tuple(values + 0.01 for values in model.tables)
    assert model.identifiability_error() < 1e-12
    assert type(model)(**{**vars(model), "tables": shifted}).identifiability_error() > 1e-3
