"""Crafted files: with a right checksum and wrong content they are refused, never half believed."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.fuzz.files import ODD_ENTRIES, damage
from tests.models import random_model, with_bands
from tpnn import TPNNRegressor, TPNNSurvival, load_model
from tpnn.model.archive import _digest, read_archive, write_archive
from tpnn.table.encoder import KeptFeatures
from tpnn.table.table import OffsetColumn

REFERENCE = Path(__file__).parents[1] / "reference" / "version_0_1_0"
MODELS = ("regression", "gradient", "three_classes", "quantiles", "monotone", "triples")
N_DAMAGES = 150  # of every model
CENTRAL_ENTRY = b"PK\x01\x02"  # where the last list of entries begins in a zip file
PLACE_OF_SIZE = 24  # of the unpacked size in it


def crafted(name: str, tmp_path: Path, change: Any) -> Path:
    """A reference model with something changed and the checksum computed anew."""
    return changed(REFERENCE / f"{name}.tpnn", tmp_path, change)


def changed(original: Path, tmp_path: Path, change: Any) -> Path:
    """A file with something changed and the checksum computed anew."""
    header, arrays = read_archive(original)
    change(header, arrays)
    path = tmp_path / "crafted"
    write_archive(path, {k: v for k, v in header.items() if k not in ("format", "version")}, arrays)
    return path


@pytest.fixture(scope="module")
def later_models(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], pd.DataFrame]:
    """Files with the parts that came after version 0.1.0, and rows for them."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.uniform(0.1, 2.0, (60, 3)), columns=list("abc"))
    y = rng.poisson(rows["a"] * rows["b"]).astype(float)
    fitted = {
        "exposure": TPNNRegressor(**QUICK, objective="poisson", exposure="b").fit(rows, y),
        "survival": TPNNSurvival(**QUICK, offset="c").fit(rows, np.column_stack([y, y % 2])),
    }
    folder = tmp_path_factory.mktemp("later")
    for name, model in fitted.items():
        model.model_.save(folder / name)
    return {name: folder / name for name in fitted}, rows


@pytest.mark.parametrize("value", [65535, 30000, 6])
def test_a_level_outside_its_nodes(value: int, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays["level_nodes"] = arrays["level_nodes"].copy()
        arrays["level_nodes"][0] = value

    with pytest.raises(ValueError, match="levels must have nodes"):
        load_model(crafted("regression", tmp_path, change))


@pytest.mark.parametrize(
    ("array", "value", "rule"),
    [
        ("node_values", np.nan, "nodes must be finite and increasing"),
        ("node_values", np.inf, "nodes must be finite and increasing"),
        ("node_weights", -0.1, "masses must not be negative"),
        ("node_weights", 0.9, "sum to one"),
        ("intercept", np.nan, "must be finite"),
        ("tables", np.inf, "must be finite"),
        ("spreads", -1.0, "spreads must not be negative"),
    ],
)
def test_wrong_numbers(array: str, value: float, rule: str, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays[array] = arrays[array].copy()
        arrays[array][0] = value

    with pytest.raises(ValueError, match=rule):
        load_model(crafted("regression", tmp_path, change))


@pytest.mark.parametrize(
    ("array", "value", "rule"),
    [
        ("posterior_factors", np.nan, "posteriors must be finite"),
        ("posterior_shifts", np.inf, "posteriors must be finite"),
        ("posterior_roots", -np.inf, "posteriors must be finite"),
        ("posterior_rough", -1.0, "variances and units of posteriors must not be negative"),
        ("posterior_units", -1.0, "variances and units of posteriors must not be negative"),
    ],
)
def test_wrong_posteriors(array: str, value: float, rule: str, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays[array] = arrays[array].copy()
        arrays[array][0] = value

    with_bands(random_model(2, 2)).save(tmp_path / "whole")
    with pytest.raises(ValueError, match=rule):
        load_model(changed(tmp_path / "whole", tmp_path, change))


def test_a_number_of_parts_that_no_memory_holds(later_models: Any, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        header["calibration"]["n_reliabilities"] = 10**12

    with pytest.raises(ValueError, match="every reliability must have arrays"):
        load_model(changed(later_models[0]["exposure"], tmp_path, change))


def test_names_of_a_few_columns_of_very_many() -> None:
    """Only the columns that were kept are named, so their number takes no memory."""
    encoder = replace(random_model(2, 1).encoder, names=None, labels=None)
    kept = replace(encoder, kept=KeptFeatures((3, 10**12), 10**13))
    assert encoder.feature_names == ("x0", "x1")
    assert kept.feature_names == ("x3", "x1000000000000")
    moved = replace(kept, offset_column=OffsetColumn(None, 5, is_exposure=False))
    assert moved.feature_names == ("x3", "x1000000000001")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        7,
        {"loss_name": "poisson", "loss": None, "components": []},
        {"loss_name": "poisson", "loss": 1.0, "components": []},
        {"loss_name": "poisson", "loss": 1.0, "components": [[1.0, 2.0, 1.0, 1.0, 0.5]] * 3},
        {"loss_name": "poisson", "loss": 1.0, "components": [["1", 0.5, 1.0, 1.0, 0.5]] * 3},
    ],
)
def test_wrong_facts(facts: Any, tmp_path: Path) -> None:
    random_model(2, 2).save(tmp_path / "whole")
    path = changed(tmp_path / "whole", tmp_path, lambda h, a: h.update(facts=facts))
    with pytest.raises(ValueError, match="path: must be a complete model"):
        load_model(path)


@pytest.mark.parametrize("counts", [[], [3], [3, 3, 2], [3, 3, -3], [3, 3, 4]])
def test_wrong_numbers_of_functions(counts: list[int], tmp_path: Path) -> None:
    with_bands(random_model(2, 2)).save(tmp_path / "whole")
    path = changed(tmp_path / "whole", tmp_path, lambda h, a: h.update(n_functions=counts))
    with pytest.raises(ValueError, match="path: must be a complete model"):
        load_model(path)


def test_reversed_nodes(tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays["node_values"] = arrays["node_values"][::-1].copy()

    with pytest.raises(ValueError, match="increasing"):
        load_model(crafted("gradient", tmp_path, change))


@pytest.mark.parametrize(
    ("part", "value"),
    [("link", "softmax"), ("outputs", ["a"]), ("shapes", {"nobody": "increasing"}),
     ("activation", "tanh"), ("orders", [2, 1, 3]), ("classes", ["a", "b", "c", "d"]),
     ("labels", ["a"]), ("has_unseen", [True] * 100), ("has_unseen", [])],
)  # fmt: skip
def test_wrong_words(part: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path: must be a complete model"):
        load_model(crafted("regression", tmp_path, lambda h, a: h.update({part: value})))


@pytest.mark.parametrize(
    ("part", "value", "rule"),
    [
        ("name", "a", "must be no feature"),
        ("name", None, "must be no feature"),
        ("name", 3, "must be no feature"),
        ("place", 3, "must be a column of the table"),
        ("place", -1, "must be a column of the table"),
        ("place", True, "must be a column of the table"),
        ("is_exposure", 1, "must be true or false"),
        ("extra", 0, "unexpected keyword"),
    ],
)
def test_a_wrong_column_of_offsets(
    part: str, value: Any, rule: str, later_models: Any, tmp_path: Path
) -> None:
    def change(header: Any, arrays: Any) -> None:
        header["offset_column"][part] = value

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load_model(changed(later_models[0]["exposure"], tmp_path, change))


def test_an_exposure_without_a_log_link(later_models: Any, tmp_path: Path) -> None:
    path = changed(later_models[0]["exposure"], tmp_path, lambda h, a: h.update(link="identity"))
    with pytest.raises(ValueError, match="an exposure needs a log link"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda times, hazards: (times[::-1], hazards), "must rise with time"),
        (lambda times, hazards: (times, hazards[::-1]), "must rise with time"),
        (lambda times, hazards: (times - 100.0, hazards), "must rise with time"),
        (lambda times, hazards: (times, hazards[:-1]), "must be finite"),
        (lambda times, hazards: (times[:0], hazards[:0]), "must be finite"),
        (lambda times, hazards: (times[:, None], hazards[:, None]), "must be finite"),
        (lambda times, hazards: (times, hazards * np.nan), "must be finite"),
        (lambda times, hazards: (times.astype("U9"), hazards), "must be finite"),
    ],
)
def test_a_wrong_baseline(change: Any, rule: str, later_models: Any, tmp_path: Path) -> None:
    names = "baseline_times", "baseline_log_hazard"

    def both(header: Any, arrays: Any) -> None:
        arrays.update(zip(names, change(*(arrays[name] for name in names)), strict=True))

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load_model(changed(later_models[0]["survival"], tmp_path, both))


def test_half_a_baseline_or_that_of_another_task(later_models: Any, tmp_path: Path) -> None:
    path = later_models[0]["survival"]
    with pytest.raises(ValueError, match="baseline_times"):
        load_model(changed(path, tmp_path, lambda h, arrays: arrays.pop("baseline_times")))
    with pytest.raises(ValueError, match="a baseline needs one output and a log link"):
        load_model(changed(path, tmp_path, lambda header, a: header.update(link="logit")))


@pytest.mark.parametrize("flag", [True, 1, None])
def test_levels_that_are_text_are_strings(flag: Any, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        number = next(i for i, (_, levels) in enumerate(header["features"]) if levels)
        kind, levels = header["features"][number]
        header["features"][number] = [kind, list(range(len(levels))), flag]

    with pytest.raises(ValueError, match=r"levels that are text|flags must be"):
        load_model(crafted("regression", tmp_path, change))


def first_of(kind: str, header: Any) -> int:
    """The first feature of a kind."""
    return next(i for i, (found, *_) in enumerate(header["features"]) if found == kind)


@pytest.mark.parametrize("kind", ["number", "date", "duration"])
def test_what_is_measured_has_no_levels(kind: str, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        header["features"][first_of("number", header)] = [kind, ["x"]]

    with pytest.raises(ValueError, match=f"a {kind} must have no levels"):
        load_model(crafted("regression", tmp_path, change))


def test_nodes_of_a_number_have_no_labels(tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        number = first_of("number", header)
        header["levels"][number] = ["x"] * header["n_nodes"][number]

    with pytest.raises(ValueError, match="a number must have no levels"):
        load_model(crafted("regression", tmp_path, change))


def test_a_date_that_no_calendar_has(tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        number = first_of("number", header)
        header["features"][number] = ["date", []]
        last = sum(header["n_nodes"][: number + 1]) - 1 - header["has_missing"][number]
        arrays["node_values"] = arrays["node_values"].copy()
        arrays["node_values"][last] = 1e300

    with pytest.raises(ValueError, match="nodes must be dates"):
        load_model(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("place", ["features", "levels"])
def test_a_missing_value_is_no_level(place: str, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        number = first_of("nominal", header)
        labels = header["levels"][number] if place == "levels" else header["features"][number][1]
        labels[0] = math.nan

    with pytest.raises(ValueError, match=r"levels must be known|must have a label"):
        load_model(crafted("regression", tmp_path, change))


def test_a_missing_value_is_no_class(tmp_path: Path) -> None:
    change = {"classes": [0.0, 1.0, math.nan]}
    with pytest.raises(ValueError, match="classes must fit"):
        load_model(crafted("three_classes", tmp_path, lambda header, a: header.update(change)))


def test_names_that_are_the_same(tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        header["names"][1] = header["names"][0]

    with pytest.raises(ValueError, match="names of features must differ"):
        load_model(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("kind", ["f4", "c8", "U3"])
def test_nodes_of_levels_are_whole_numbers(kind: str, tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays["level_nodes"] = arrays["level_nodes"].astype(kind)

    with pytest.raises(ValueError, match="nodes of levels must be whole numbers"):
        load_model(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("kind", ["c8", "f2", "i8", "U9"])
@pytest.mark.parametrize("array", ["calibration_numbers", "calibration_scores"])
def test_a_calibration_of_another_kind(
    array: str, kind: str, later_models: Any, tmp_path: Path
) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays[array] = arrays[array].astype(kind)

    with pytest.raises(ValueError, match="calibration: scores must be single numbers"):
        load_model(changed(later_models[0]["exposure"], tmp_path, change))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_a_crafted_file_is_refused_or_predicts_finite_numbers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the rows of the reference models are in Parquet")
    rows = pd.read_parquet(REFERENCE / "rows.parquet")
    damage_often(REFERENCE / f"{name}.tpnn", rows, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["exposure", "survival"])
def test_later_parts_are_refused_or_predict_finite_numbers(
    name: str, later_models: Any, tmp_path: Path
) -> None:
    paths, rows = later_models
    damage_often(paths[name], rows, tmp_path)


def damage_often(original: Path, rows: pd.DataFrame, tmp_path: Path) -> None:
    """Damage a file in many ways; each is refused or harmless."""
    rng = np.random.default_rng(len(original.stem))
    refused, unfit = [], []
    for _ in range(N_DAMAGES):
        path = changed(original, tmp_path, lambda h, a: damage(h, a, rng))
        try:
            model = load_model(path)
        except ValueError as error:
            refused.append(str(error))
            continue
        try:
            assert np.isfinite(model.raw_scores(rows)).all()
        except (TypeError, ValueError) as error:  # the table no longer fits the damaged names
            unfit.append(str(error))
    assert all(message.startswith("path: must be") for message in refused)
    assert all(message.startswith("X: ") for message in unfit)
    assert len(refused) > N_DAMAGES / 3


@pytest.mark.parametrize("entry", [entry for entry in ODD_ENTRIES if entry], ids=lambda e: e[8:70])
def test_an_odd_entry_is_refused_in_plain_words(entry: bytes, tmp_path: Path) -> None:
    """Some entries promise terabytes, for which no memory may be taken."""
    with zipfile.ZipFile(REFERENCE / "regression.tpnn") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    del entries["digest.txt"]
    entries["tables.npy"] = entry
    path = tmp_path / "odd"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (entries | {"digest.txt": _digest(entries).encode()}).items():
            archive.writestr(name, data)
    with pytest.raises(
        ValueError, match=r"^path: must be a .*, found .*\. Save the model again\.$"
    ):
        load_model(path)


def test_an_entry_that_would_fill_the_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"format": "tpnn-model", "version": 1}))
        archive.writestr("tables.npy", bytes(1 << 24))
    monkeypatch.setattr("tpnn.model.archive.SMALLEST_SIZE_LIMIT", 1 << 20)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="would unpack to"):
        load_model(path)


def test_no_more_is_unpacked_than_an_entry_promises(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tables.npy", bytes(1 << 26))
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rfind(CENTRAL_ENTRY) + PLACE_OF_SIZE, 100)
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(ValueError, match="truncated or of another kind"):
        load_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_unpacks_without_a_limit_is_refused(
    compression: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("tables.npy", bytes(1 << 20))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="an entry that is compressed in the way"):
        load_model(path)
