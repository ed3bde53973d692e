"""Files: what is read is what was written, and what is damaged, newer or old is noticed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpnn
from tests.models import random_model, small_model, table_model, with_bands, with_evidence
from tpnn import AnovaModel, TPNNClassifier, load
from tpnn.model import archive, interpolate_numba
from tpnn.model.archive import json_text, read_document, write_archive
from tpnn.model.codec import decode, encode, storable_labels
from tpnn.model.evidence import Baseline
from tpnn.model.interpolate import ACCOUNT
from tpnn.table.table import OffsetColumn

REFERENCE = Path(__file__).parents[1] / "reference" / "version_1"
MODELS = sorted(path.stem for path in REFERENCE.glob("*.tpnn"))


@pytest.fixture(scope="module")
def reference_rows() -> pd.DataFrame:
    pytest.importorskip("pyarrow", reason="the rows of the reference models are in Parquet")
    return pd.read_parquet(REFERENCE / "rows.parquet")


def test_there_are_reference_models() -> None:
    assert len(MODELS) == 9


@pytest.mark.parametrize("name", MODELS)
def test_stored_files_predict_the_same_bits(name: str, reference_rows: pd.DataFrame) -> None:
    model, answers = load(REFERENCE / f"{name}.tpnn").model_, np.load(REFERENCE / "answers.npz")
    assert np.array_equal(model.predict(reference_rows), answers[f"{name}_predict"])
    assert np.array_equal(model.component_scores(reference_rows), answers[f"{name}_scores"])
    error = float(answers[f"{name}_identifiability"])  # rounding, whose bits depend on the machine
    assert model.identifiability_error() == pytest.approx(error, abs=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_stored_files_are_written_again_byte_by_byte(name: str, tmp_path: Path) -> None:
    load(REFERENCE / f"{name}.tpnn").model_.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (REFERENCE / f"{name}.tpnn").read_bytes()


@pytest.fixture(scope="module")
def saved(table: Any, labels: Any, quick: Any, tmp_path_factory: Any) -> tuple[Any, Path, Any]:
    X, _ = table
    model = TPNNClassifier(**{**quick, "order": 3}).fit(X, labels)
    path = tmp_path_factory.mktemp("saved") / "model.tpnn"
    model.model_.save(path)
    return model, path, X


def test_round_trip_is_exact(saved: Any) -> None:
    model, path, X = saved
    loaded = load(path).model_
    assert np.array_equal(loaded.raw_scores(X), model.decision_function(X))
    assert np.array_equal(loaded.predict(X), model.predict_proba(X)[:, 1])
    assert loaded.component_names == model.components_
    assert loaded.identifiability_error() == model.model_.identifiability_error()
    for one, other in zip(loaded.terms(), model.model_.terms(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for one, other in zip(loaded.evidence.spreads, model.model_.evidence.spreads, strict=True):
        assert np.array_equal(one, other)
    assert loaded.evidence.posteriors
    assert same(loaded.evidence.posteriors, model.model_.evidence.posteriors)


def same(one: Any, other: Any) -> bool:
    """Whether two fields are equal, arrays inside them bit for bit."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype != int)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "__dataclass_fields__"):
        return same(vars(one), vars(other))
    return bool(one == other)


@settings(max_examples=40, deadline=None)
@given(
    order=st.integers(1, 3),
    n_outputs=st.integers(1, 3),
    classes=st.sampled_from([(), ("a", "b"), (0, 1), (1.5, 2.5), (False, True)]),
    shapes=st.dictionaries(st.sampled_from(["x0", "x1"]), st.just("convex")),
    column=st.none() | st.builds(OffsetColumn, st.none(), st.integers(0, 3), st.booleans()),
    baseline=st.none() | st.just(Baseline(np.arange(3.0), np.linspace(-900.0, 800.0, 3))),
    has_bands=st.booleans(),
)
def test_decode_undoes_encode(
    order: int, n_outputs: int, classes: Any, shapes: Any, column: Any, baseline: Any,
    has_bands: bool,
) -> None:  # fmt: skip
    """Every field of any model, as an archive and as JSON hold it."""
    model = replace(small_model(order, n_outputs), classes=classes, shapes=shapes)
    model = with_bands(model) if has_bands else model
    encoder = replace(model.encoder, offset_column=column)
    model = with_evidence(replace(model, encoder=encoder), baseline=baseline)
    for document in (encode(model), json.loads(json_text(encode(model)))):
        again = decode(AnovaModel, document)
        assert all(same(getattr(model, f.name), getattr(again, f.name)) for f in fields(model))


def test_arrays_that_are_the_same_are_stored_once(tmp_path: Path) -> None:
    model = small_model(2)
    assert model.evidence.spreads is not None
    twin = replace(model, tables=model.evidence.spreads)
    model.save(tmp_path / "model")
    twin.save(tmp_path / "twin")
    numbers = [np.load(tmp_path / name)["float64"].size for name in ("model", "twin")]
    assert numbers[0] - numbers[1] == sum(table.size for table in model.tables)
    assert same(load(tmp_path / "twin").model_.tables, twin.tables)


def test_same_model_same_bytes(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved
    load(path).model_.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_model_without_names(tmp_path: Path) -> None:
    small_model(1).save(tmp_path / "plain")
    assert load(tmp_path / "plain").model_.feature_names == ("x0", "x1", "x2")


def test_labels_are_kept(saved: Any, table: Any, quick: Any, tmp_path: Path) -> None:
    """Two labels or more, of any kind; raw scores of two stay one column."""
    model, path, X = saved
    assert load(path).model_.classes == model.model_.classes == ("high", "low")
    assert load(path).model_.output_names == ()
    assert load(path).model_.raw_scores(X).shape == (len(X),)
    for classes in ([False, True], [3, 7], [1.0, 2.0], ["a", "b", "c"]):
        labels = np.array(classes)[np.arange(len(X)) % len(classes)]
        few = TPNNClassifier(**{**quick, "order": 1}).fit(X, labels)
        few.model_.save(tmp_path / "few")
        assert load(tmp_path / "few").model_.classes == tuple(classes)
        assert few.path().model(1).classes == tuple(classes)


def test_labels_that_json_cannot_hold_become_words() -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")
    assert storable_labels(days) == ["2020-01-01", "2020-01-02"]
    assert storable_labels(np.array([1, 2.5, "a", True], dtype=object)) == [1, 2.5, "a", True]


def test_file_is_readable_with_numpy_alone(saved: Any) -> None:
    _, path, _ = saved
    with np.load(path, allow_pickle=False) as stored:
        assert stored["float64"].dtype == np.float64
        assert json.loads(stored["header.json"])["version"] == archive.FORMAT_VERSION == 1


def test_loading_and_predicting_need_neither_torch_nor_numba(saved: Any) -> None:
    _, path, _ = saved
    code = (
        "import sys, numpy, tpnn; m = tpnn.load(sys.argv[1]).model_;"
        "m.predict(numpy.zeros((3, 4)), offset=numpy.zeros(3));"
        "print(sorted({'torch', 'numba', 'sklearn', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    root = str(Path(tpnn.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert run.stdout.strip() == "[]"


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"^path: .* is a folder, and not a file"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["absent/model.tpnn", "."])
def test_saving_where_no_file_can_be(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileNotFoundError, match=r"^path: must be a file in a folder") as caught:
        small_model(1).save(path)
    assert repr(str(path)) in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.999])
def test_truncated_file(saved: Any, tmp_path: Path, keep: float) -> None:
    _, path, _ = saved
    data = path.read_bytes()
    broken = tmp_path / "broken"
    broken.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])
    with pytest.raises(ValueError, match=r"^path: must be a file written by AnovaModel.save"):
        load(broken)


def rewrite(path: Path, target: Path, change: Callable[[str, bytes], bytes]) -> None:
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
    with pytest.raises(ValueError, match=r"does not match its own checksum"):
        load(tmp_path / "edited")


def test_edited_table(saved: Any, tmp_path: Path) -> None:
    _, path, _ = saved

    def edit(name: str, data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1]) if name == "float64.npy" else data

    rewrite(path, tmp_path / "edited", edit)
    with pytest.raises(ValueError, match="checksum"):
        load(tmp_path / "edited")


def test_a_flipped_bit_of_an_entry_is_called_a_checksum(tmp_path: Path) -> None:
    path, broken = tmp_path / "model", tmp_path / "broken"
    random_model(3, 2).save(path)
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    for entry in entries:
        damaged = bytearray(path.read_bytes())
        start = entry.header_offset + 30 + len(entry.filename)  # after the header of the entry
        damaged[start + entry.compress_size // 2] ^= 8
        broken.write_bytes(damaged)
        with pytest.raises(ValueError, match="does not match its own checksum: the file was chang"):
            load(broken)


def test_random_damage_is_always_noticed(tmp_path: Path) -> None:
    model, X = random_model(3, 2), np.random.default_rng(0).normal(size=(20, 3))
    path, broken = tmp_path / "model", tmp_path / "broken"
    model.save(path)
    data, expected, rng = path.read_bytes(), model.raw_scores(X), np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        broken.write_bytes(damaged)
        with contextlib.suppress(ValueError):  # any other exception fails the test
            assert np.array_equal(load(broken).model_.raw_scores(X), expected)


@pytest.mark.parametrize("name", [f.name for f in fields(AnovaModel) if not f.metadata])
def test_a_document_that_lacks_a_part(name: str, tmp_path: Path) -> None:
    small_model(2).save(tmp_path / "whole")
    document = read_document(tmp_path / "whole")
    del document[name]
    write_archive(tmp_path / "part", document)
    with pytest.raises(
        ValueError, match=rf"^path: must be a complete model, found '.*part', which lacks .*{name}"
    ):
        load(tmp_path / "part")


def test_an_array_that_is_not_there(tmp_path: Path) -> None:
    small_model(2).save(tmp_path / "whole")
    document = read_document(tmp_path / "whole")
    document["tables"][1] = None
    write_archive(tmp_path / "part", document)
    with pytest.raises(ValueError, match=r"^path: must be a complete model"):
        load(tmp_path / "part")


def test_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FORMAT_VERSION", 99)
    small_model(1).save(tmp_path / "newer")
    small_model(1).to_json(tmp_path / "newer.json")
    monkeypatch.undo()
    for name in ("newer", "newer.json"):
        with pytest.raises(ValueError, match=rf"'.*{name}', of .* version 99\. Upgrade tpnn"):
            load(tmp_path / name)


def test_a_pickled_array_is_never_loaded(tmp_path: Path) -> None:
    """Even in an archive whose checksum is right."""
    path, bomb = tmp_path / "model", tmp_path / "bomb.npy"
    small_model(1).save(path)
    np.save(bomb, np.array([print], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path) as saved:
        entries = {name: saved.read(name) for name in saved.namelist()}
    entries["float64.npy"] = bomb.read_bytes()
    del entries["digest.txt"]
    entries["digest.txt"] = archive._digest(entries).encode()
    rewrite(path, tmp_path / "edited", lambda name, _: entries[name])
    with pytest.raises(ValueError, match="and type object"):
        load(tmp_path / "edited")


@pytest.mark.parametrize("path", [None, 3, b"model.tpnn", ["model.tpnn"]])
def test_what_is_no_path(path: Any) -> None:
    for use in (load, small_model(1).save):
        with pytest.raises(TypeError, match=r"^path: must be the path of a file, .* found .*Pass"):
            use(path)


def test_other_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="of another kind"):
        load(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


def test_crash_while_saving_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    small_model(1).save(path)
    before = path.read_bytes()

    def crash(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        small_model(2).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    small_model(1).save(target)
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("links cannot be made here")
    model: AnovaModel = small_model(2)
    model.save(link)
    assert link.is_symlink()
    assert len(load(target).model_.components) == len(model.components)


def test_a_model_without_components_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(2).restrict([])
    model.save(tmp_path / "model")
    X = np.zeros((3, 3))
    for read in (model, load(tmp_path / "model").model_):
        assert read.predict(X).tolist() == [model.intercept] * 3
        monkeypatch.setattr(ACCOUNT, "loops", lambda *_: interpolate_numba)
        assert read.predict(X).tolist() == [model.intercept] * 3
        assert read.component_scores(X).shape == (3, 0)


def entries_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as stored:
        names = (name for name in stored.namelist() if name != "digest.txt")
        return {name: stored.read(name) for name in names}


def pack(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in (entries | {"digest.txt": archive._digest(entries).encode()}).items():
            target.writestr(name, data)


def test_a_small_file_with_a_large_header_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list takes three bytes of a header, hundredths of one in the file, and sixty in memory."""
    path = tmp_path / "model"
    small_model(1).save(path)
    entries = entries_of(path)
    entries["header.json"] = entries["header.json"][:-1] + b', "x": [' + b"[]," * 3_000_000 + b"0]}"
    pack(path, entries)
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="bytes with a header of 6000"):
        load(path)


def test_nodes_of_levels_that_would_fill_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.DataFrame({"town": list("abcabc")})
    table_model(rows, 1).save(tmp_path / "model")
    monkeypatch.setattr(archive, "MOST_LEVEL_NODES", 2)
    with pytest.raises(ValueError, match="many more than there are"):
        load(tmp_path / "model")


def test_what_could_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    """Two entries or two values of one name: readers differ in which one counts."""
    path = tmp_path / "model"
    small_model(1).save(path)
    entries = entries_of(path)
    with (
        zipfile.ZipFile(path, "a") as target,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        target.writestr("header.json", entries["header.json"])
    with pytest.raises(ValueError, match=r"two entries 'header\.json'"):
        load(path)
    entries["header.json"] = entries["header.json"][:-1] + b', "document": {}}'
    pack(path, entries)
    with pytest.raises(ValueError, match="two values of 'document'"):
        load(path)
    small_model(1).to_json(path)
    path.write_text(path.read_text()[:-1] + ', "edits": null}')
    with pytest.raises(ValueError, match="two values of 'edits'"):
        load(path)
