"""Crafted files: with a right checksum and wrong content they are refused, never half believed."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.fuzz.files import ODD_ENTRIES, damage
from tests.models import random_model, with_bands, with_remainder
from tpnn import TPNNRegressor, TPNNSurvival, load
from tpnn.model.archive import _digest, read_document, write_archive
from tpnn.table.encoder import KeptFeatures
from tpnn.table.table import OffsetColumn

REFERENCE = Path(__file__).parents[1] / "reference" / "version_1"
MODELS = ("regression", "gradient", "three_classes", "quantiles", "monotone", "triples")
N_DAMAGES = 150  # of every model
CENTRAL_ENTRY = b"PK\x01\x02"  # where the last list of entries begins in a zip file
PLACE_OF_SIZE = 24  # of the unpacked size in it


def crafted(name: str, tmp_path: Path, change: Any) -> Path:
    """A reference model with something changed and the checksum computed anew."""
    return changed(REFERENCE / f"{name}.tpnn", tmp_path, change)


def changed(original: Path, tmp_path: Path, change: Any) -> Path:
    """A file with something changed and the checksum computed anew."""
    document = read_document(original)
    change(document)
    path = tmp_path / "crafted"
    write_archive(path, document)
    return path


def set_number(parent: Any, key: Any, value: float, place: int = 0) -> None:
    """Change one number of an array in a document."""
    parent[key] = parent[key].copy()
    parent[key].flat[place] = value


@pytest.fixture(scope="module")
def later_models(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], pd.DataFrame]:
    """Files with an offset, a baseline and evidence, and rows for them."""
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
    def change(document: Any) -> None:
        axis = document["encoder"]["axes"]["1"][first_of("nominal", document)]
        set_number(axis, "level_nodes", value)

    with pytest.raises(ValueError, match="levels must have nodes"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize(
    ("array", "value", "rule"),
    [
        ("values", np.nan, "nodes must be finite and increasing"),
        ("values", np.inf, "nodes must be finite and increasing"),
        ("masses", -0.1, "masses must not be negative"),
        ("masses", 0.9, "sum to one"),
        ("intercepts", np.nan, "must be finite"),
        ("tables", np.inf, "must be finite"),
        ("spreads", -1.0, "spreads must not be negative"),
    ],
)
def test_wrong_numbers(array: str, value: float, rule: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        places = {
            "values": (document["encoder"]["axes"]["1"][0], "values"),
            "masses": (document["encoder"]["axes"]["1"][0], "masses"),
            "intercepts": (document, "intercepts"),
            "tables": (document["tables"], 0),
            "spreads": (document["evidence"]["spreads"], 0),
        }
        set_number(*places[array], value)

    with pytest.raises(ValueError, match=rule):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize(
    ("array", "value", "rule"),
    [
        ("factors", np.nan, "posteriors must be finite"),
        ("shifts", np.inf, "posteriors must be finite"),
        ("roots", -np.inf, "posteriors must be finite"),
        ("rough", -1.0, "variances and units of posteriors must not be negative"),
        ("units", -1.0, "variances and units of posteriors must not be negative"),
    ],
)
def test_wrong_posteriors(array: str, value: float, rule: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        posterior = document["evidence"]["posteriors"][0]
        parent, key = (posterior["factors"], 0) if array == "factors" else (posterior, array)
        set_number(parent, key, value)

    with_bands(random_model(2, 2)).save(tmp_path / "whole")
    with pytest.raises(ValueError, match=rule):
        load(changed(tmp_path / "whole", tmp_path, change))


@pytest.mark.parametrize("array", ["factors", "shifts", "roots", "rough", "units"])
def test_posteriors_of_another_size(array: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        posterior = document["evidence"]["posteriors"][0]
        parent, key = (posterior["factors"], 0) if array == "factors" else (posterior, array)
        parent[key] = parent[key][1:]

    with_bands(random_model(2, 2)).save(tmp_path / "whole")
    with pytest.raises(ValueError, match="posteriors must have their nodes"):
        load(changed(tmp_path / "whole", tmp_path, change))


def test_names_of_a_few_columns_of_very_many() -> None:
    """Only the columns that were kept are named, so their number takes no memory."""
    encoder = replace(random_model(2, 1).encoder, names=None, labels=None)
    kept = replace(encoder, kept=KeptFeatures((3, 10**12), 10**13))
    assert encoder.feature_names == ("x0", "x1")
    assert kept.feature_names == ("x3", "x1000000000000")
    moved = replace(kept, offset_column=OffsetColumn(None, 5, is_exposure=False))
    assert moved.feature_names == ("x3", "x1000000000001")


GOOD_TEST = {
    "degrees": 3.5, "p_value": 0.01, "loss_without": 1.25, "loss_error": None, "concurvity": 0.75,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"loss_name": 3}, "type str is needed"),
        ({"loss": None}, "the loss must be finite"),
        ({"loss": math.inf}, "the loss must be finite"),
        ({"loss": "low"}, "type float is needed"),
        ({"components": [GOOD_TEST]}, "every component must have its tests"),
        ({"components": [GOOD_TEST | {"degrees": "3.5"}] * 3}, "type float is needed"),
        ({"components": [GOOD_TEST | {"degrees": math.inf}] * 3}, "must be finite numbers"),
        ({"components": [GOOD_TEST | {"p_value": 1.5}] * 3}, "must be shares"),
        ({"components": [GOOD_TEST | {"concurvity": -0.1}] * 3}, "must be shares"),
        ({"copies": [["x0"]]}, "copies must be sets of features"),
        ({"copies": [["x0", "x0"]]}, "copies must be sets of features"),
        ({"copies": [["x0", "other"]]}, "copies must be sets of features"),
        ({"components": [[3.5, 0.01, 1.25, 0.1, 0.75]] * 3}, "type dict is needed"),
    ],
)
def test_wrong_tests(change: Any, rule: str, tmp_path: Path) -> None:
    good = {
        "loss_name": "poisson", "loss": 1.0, "components": [GOOD_TEST] * 3,
        "copies": [["x0", "x1"]],
    }  # fmt: skip
    random_model(2, 2).save(tmp_path / "whole")

    def with_tests(document: Any, tests: Any) -> None:
        document["evidence"]["tests"] = tests

    model = load(changed(tmp_path / "whole", tmp_path, partial(with_tests, tests=good))).model_
    assert model.evidence.tests is not None
    assert math.isnan(model.evidence.tests.components[0].loss_error)
    wrong = partial(with_tests, tests=good | change)
    with pytest.raises(ValueError, match=rf"path: must be a complete model.*{rule}"):
        load(changed(tmp_path / "whole", tmp_path, wrong))


def test_reversed_nodes(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        axis = document["encoder"]["axes"]["1"][0]
        axis["values"] = axis["values"][::-1]

    with pytest.raises(ValueError, match="increasing"):
        load(crafted("gradient", tmp_path, change))


@pytest.mark.parametrize(
    ("part", "value"),
    [("link", "softmax"), ("output_names", ["a"]), ("shapes", {"nobody": "increasing"}),
     ("basis", {"activation": "tanh", "scale": "centred", "terms": None}), ("tables", []),
     ("classes", ["a", "b", "c", "d"]), ("components", [[0], [0, 1]]), ("has_offset", 1)],
)  # fmt: skip
def test_wrong_words(part: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path: must be a complete model"):
        load(crafted("regression", tmp_path, lambda document: document.update({part: value})))


@pytest.mark.parametrize(
    ("part", "value"),
    [("labels", ["a"]), ("names", ["a"]), ("features", []), ("axes", {}), ("kept", [0, 1])],
)
def test_a_wrong_encoder(part: str, value: Any, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["encoder"][part] = value

    with pytest.raises(ValueError, match="path: must be a complete model"):
        load(crafted("regression", tmp_path, change))


def test_orders_count_up(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        axes = document["encoder"]["axes"]
        document["encoder"]["axes"] = {"2": axes["2"], "1": axes["1"]}

    with pytest.raises(ValueError, match="orders must count up from 1"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("flag", ["has_unseen", "has_missing"])
def test_a_wrong_flag_of_an_axis(flag: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        axis = document["encoder"]["axes"]["1"][first_of("number", document)]
        axis[flag] = not axis[flag]

    with pytest.raises(ValueError, match=r"only levels can be unseen|every node must have a mass"):
        load(crafted("regression", tmp_path, change))


def test_the_kind_of_an_axis_is_that_of_its_feature(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["encoder"]["axes"]["2"][first_of("number", document)]["kind"] = "duration"

    with pytest.raises(ValueError, match="kinds and levels must be known"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize(
    ("part", "value", "rule"),
    [
        ("name", "a", "must be no feature"),
        ("name", None, "must be no feature"),
        ("name", 3, "type str is needed"),
        ("place", 3, "must be a column of the table"),
        ("place", -1, "must be a column of the table"),
        ("place", True, "type int is needed"),
        ("is_exposure", 1, "type bool is needed"),
    ],
)
def test_a_wrong_column_of_offsets(
    part: str, value: Any, rule: str, later_models: Any, tmp_path: Path
) -> None:
    def change(document: Any) -> None:
        document["encoder"]["offset_column"][part] = value

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load(changed(later_models[0]["exposure"], tmp_path, change))


def test_an_exposure_without_a_log_link(later_models: Any, tmp_path: Path) -> None:
    path = changed(
        later_models[0]["exposure"], tmp_path, lambda document: document.update(link="identity")
    )
    with pytest.raises(ValueError, match="an exposure needs a log link"):
        load(path)


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
        (lambda times, hazards: (times.astype("U9"), hazards), "array of float64 is needed"),
    ],
)
def test_a_wrong_baseline(change: Any, rule: str, later_models: Any, tmp_path: Path) -> None:
    def both(document: Any) -> None:
        baseline = document["evidence"]["baseline"]
        times, log_hazard = change(baseline["times"], baseline["log_hazard"])
        baseline |= {"times": times, "log_hazard": log_hazard, "errors": None}

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load(changed(later_models[0]["survival"], tmp_path, both))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"errors": np.array([0.5])}, "a baseline needs its errors"),
        ({"strata": ["a"]}, "a baseline needs all its strata"),
        ({"strata": ["a", "b"], "starts": np.array([0], np.int32)}, "needs all its strata"),
        ({"strata": ["a", "b"], "starts": np.array([2, 0], np.int32)}, "needs all its strata"),
        ({"strata": ["a", "b"], "starts": np.array([0, 999], np.int32)}, "needs all its strata"),
    ],
)
def test_wrong_strata_of_a_baseline(
    change: Any, rule: str, later_models: Any, tmp_path: Path
) -> None:
    def some(document: Any) -> None:
        document["evidence"]["baseline"].update(change)

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load(changed(later_models[0]["survival"], tmp_path, some))


def test_half_a_baseline_or_that_of_another_task(later_models: Any, tmp_path: Path) -> None:
    path = later_models[0]["survival"]
    with pytest.raises(ValueError, match="times"):
        load(changed(path, tmp_path, lambda d: d["evidence"]["baseline"].pop("times")))
    with pytest.raises(ValueError, match="the task must fit the link"):
        load(changed(path, tmp_path, lambda d: d.update(link="logit")))
    with pytest.raises(ValueError, match="a baseline needs one output and a log link"):
        load(changed(path, tmp_path, lambda d: d.update(link="logit", provenance=None)))


@pytest.mark.parametrize("flag", [True, 1, None])
def test_levels_that_are_text_are_strings(flag: Any, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        feature = document["encoder"]["features"][first_of("nominal", document)]
        feature |= {"levels": list(range(len(feature["levels"]))), "are_text": flag}

    with pytest.raises(ValueError, match=r"levels that are text|type bool is needed"):
        load(crafted("regression", tmp_path, change))


def first_of(kind: str, document: Any) -> int:
    """The first feature of a kind."""
    features = document["encoder"]["features"]
    return next(i for i, feature in enumerate(features) if feature["kind"] == kind)


def set_kind(document: Any, number: int, kind: str) -> None:
    """Give a feature another kind, and its axes too."""
    encoder = document["encoder"]
    for part in (encoder["features"], *encoder["axes"].values()):
        part[number]["kind"] = kind


@pytest.mark.parametrize("kind", ["number", "date", "duration"])
def test_what_is_measured_has_no_levels(kind: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        number = first_of("number", document)
        set_kind(document, number, kind)
        document["encoder"]["features"][number]["levels"] = ["x"]

    with pytest.raises(ValueError, match=f"a {kind} must have no levels"):
        load(crafted("regression", tmp_path, change))


def test_nodes_of_a_number_have_no_labels(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        axis = document["encoder"]["axes"]["1"][first_of("number", document)]
        axis["labels"] = ["x"] * len(axis["values"])

    with pytest.raises(ValueError, match="a number must have no levels"):
        load(crafted("regression", tmp_path, change))


def test_a_date_that_no_calendar_has(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        number = first_of("number", document)
        set_kind(document, number, "date")
        set_number(document["encoder"]["axes"]["1"][number], "values", 1e300, -1)

    with pytest.raises(ValueError, match="nodes must be dates"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("place", ["features", "labels"])
def test_a_missing_value_is_no_level(place: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        number, encoder = first_of("nominal", document), document["encoder"]
        axis, feature = encoder["axes"]["1"][number], encoder["features"][number]
        labels = axis["labels"] if place == "labels" else feature["levels"]
        labels[0] = math.nan

    with pytest.raises(ValueError, match=r"levels must be known|must have a label"):
        load(crafted("regression", tmp_path, change))


def test_a_missing_value_is_no_class(tmp_path: Path) -> None:
    change = {"classes": [0.0, 1.0, math.nan]}
    with pytest.raises(ValueError, match="classes must fit"):
        load(crafted("three_classes", tmp_path, lambda document: document.update(change)))


def test_names_that_are_the_same(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        names = document["encoder"]["names"]
        names[1] = names[0]

    with pytest.raises(ValueError, match="names of features must differ"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("kind", ["f4", "c8", "U3", "i8"])
def test_nodes_of_levels_are_whole_numbers(kind: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        axis = document["encoder"]["axes"]["1"][first_of("nominal", document)]
        axis["level_nodes"] = axis["level_nodes"].astype(kind)

    with pytest.raises(ValueError, match="an array of uint16 is needed"):
        load(crafted("regression", tmp_path, change))


@pytest.mark.parametrize("kind", ["c8", "f2", "i8", "U9"])
@pytest.mark.parametrize("array", ["scores", "knots"])
def test_a_calibration_of_another_kind(
    array: str, kind: str, later_models: Any, tmp_path: Path
) -> None:
    def change(document: Any) -> None:
        calibration = document["evidence"]["calibration"]
        parent = calibration if array == "scores" else calibration["scale"]
        parent[array] = parent[array].astype(kind)

    with pytest.raises(ValueError, match=r"an array of float(32|64) is needed"):
        load(changed(later_models[0]["exposure"], tmp_path, change))


def test_an_array_has_no_place_among_words(later_models: Any, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["provenance"]["settings"]["order"] = np.zeros(3)

    with pytest.raises(ValueError, match="ndarray is not JSON serializable"):
        load(changed(later_models[0]["exposure"], tmp_path, change))


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ([["tables", 0], "float64", -1, [1]], "an array of shape"),
        ([["tables", 0], "float64", 0, [-1]], "an array of shape"),
        ([["tables", 0], "float64", 0.0, [1]], "an array of shape"),
        ([["tables", 0], "float64", 0, [10**12]], "cannot reshape"),
        ([["tables", 0], "int8", 0, [1]], "int8"),
        ([["tables", 99], "float64", 0, [1]], "out of range"),
        ([["tabels", 0], "float64", 0, [1]], "tabels"),
        ([[], "float64", 0, [1]], "not enough values"),
    ],
)
def test_a_list_of_arrays_that_lies(listed: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"truncated or of another kind .*{reason}"):
        load(with_arrays_listed(tmp_path, [listed]))


def test_numbers_that_are_used_too_often(tmp_path: Path) -> None:
    """A short list of arrays must not take hours to check."""
    all_of_them = [["weather"], "float64", 0, [100]]
    with pytest.raises(ValueError, match="many more than there are"):
        load(with_arrays_listed(tmp_path, [all_of_them] * 100_000))


def with_arrays_listed(tmp_path: Path, more: list[Any]) -> Path:
    """A file in whose header more arrays are listed."""
    with zipfile.ZipFile(REFERENCE / "regression.tpnn") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    del entries["digest.txt"]
    header = json.loads(entries["header.json"])
    header["arrays"] += more
    return packed(tmp_path, entries | {"header.json": json.dumps(header).encode()})


def packed(tmp_path: Path, entries: dict[str, bytes]) -> Path:
    """An archive with a right checksum."""
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        for name, data in (entries | {"digest.txt": _digest(entries).encode()}).items():
            archive.writestr(name, data)
    return tmp_path / "packed"


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
        path = changed(original, tmp_path, lambda document: damage(document, rng))
        try:
            model = load(path).model_
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
    path = packed(tmp_path, entries | {"float64.npy": entry})
    with pytest.raises(
        ValueError, match=r"^path: must be a .*, found .*\. Save the model again\.$"
    ):
        load(path)


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
        load(path)


def test_no_more_is_unpacked_than_an_entry_promises(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tables.npy", bytes(1 << 26))
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rfind(CENTRAL_ENTRY) + PLACE_OF_SIZE, 100)
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(ValueError, match="does not match its own checksum"):
        load(path)
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
        load(path)


@pytest.fixture
def with_trees(tmp_path: Path) -> Path:
    """The file of a model with a remainder."""
    path = tmp_path / "with trees"
    with_remainder(random_model(3, 2), depth=3).save(path)
    return path


@pytest.mark.parametrize(
    ("part", "change", "rule"),
    [
        ("features", lambda features: features[:-1], "trees must know every feature"),
        ("asked", lambda asked: asked + 1, "questions must ask about features"),
        ("asked", lambda asked: -asked - 1, "questions must ask about features"),
        ("asked", lambda asked: asked[None], "questions must ask about features"),
        ("right", lambda right: right[:-1], "every code must have an answer"),
        ("right", lambda right: right[:, None], "must be in a row"),
        ("roots", lambda roots: roots[:, None], "must be in a row"),
        ("roots", lambda roots: roots + 10**6, "must consist of their nodes and leaves"),
        ("roots", lambda roots: roots - 10**6, "must consist of their nodes and leaves"),
        ("roots", lambda roots: roots[[0, *range(len(roots))]], "no two ways in a tree may meet"),
        ("roots", lambda roots: roots[:0], "every node must be in a tree"),
        ("questions", lambda asked: asked + 10**6, "nodes must ask questions"),
        ("questions", lambda asked: asked[:-1], "every node must have two children"),
        ("children", lambda places: places[:, :1], "every node must have two children"),
        ("children", lambda places: places * 0, "no two ways in a tree may meet"),
        ("values", lambda values: values * np.nan, "values of leaves must be finite"),
        ("values", lambda values: 0 * values + 1e307, "raw scores must be finite"),
        ("values", lambda values: values[:, [0, 0]], "leaves must have all outputs"),
        ("values", lambda values: values[:1], "must consist of their nodes and leaves"),
    ],
)
def test_wrong_trees(part: str, change: Any, rule: str, with_trees: Path, tmp_path: Path) -> None:
    def crafted(document: Any) -> None:
        trees = document["remainder"]["trees"]
        trees[part] = change(trees[part])

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load(changed(with_trees, tmp_path, crafted))


def test_trees_that_never_end(with_trees: Path, tmp_path: Path) -> None:
    """Two nodes that are children of one another, which no tree leads to."""

    def circle(document: Any) -> None:
        trees = document["remainder"]["trees"]
        n, n_leaves = len(trees["questions"]), len(trees["values"])
        more = np.array([[n + 1, -n_leaves - 1], [n, -n_leaves - 2]], np.int32)
        trees["questions"] = np.append(trees["questions"], np.zeros(2, np.int32))
        trees["children"] = np.concatenate([trees["children"], more])
        trees["values"] = np.concatenate([trees["values"], np.ones((2, 1))])

    with pytest.raises(ValueError, match="every node must be in a tree of depth 1000 at most"):
        load(changed(with_trees, tmp_path, circle))


def test_a_tree_as_deep_as_a_file_is_long(with_trees: Path, tmp_path: Path) -> None:
    def chain(document: Any) -> None:
        trees, n = document["remainder"]["trees"], 10**6
        trees["roots"] = np.zeros(1, np.int32)
        trees["questions"] = np.zeros(n, np.int32)
        right = -np.arange(1, n + 1, dtype=np.int32)
        left = np.append(np.arange(1, n, dtype=np.int32), np.int32(-n - 1))
        trees["children"] = np.column_stack([left, right])
        trees["values"] = np.ones((n + 1, 1))

    with pytest.raises(ValueError, match="every node must be in a tree of depth 1000 at most"):
        load(changed(with_trees, tmp_path, chain))


@pytest.mark.parametrize(
    ("part", "value", "rule"),
    [
        ("ends", np.zeros(3), "ends must increase"),
        ("ends", np.array([np.nan]), "ends must increase"),
        ("ends", np.arange(9.0), "every code must have a mass"),
        ("masses", np.ones(2) / 2, "every code must have a mass"),
        ("masses", -np.ones(4), "masses of codes must not be negative"),
        ("masses", np.ones(4), "masses of codes must sum to one"),
        ("groups", np.zeros(0, np.int32), "every level must have a code"),
    ],
)
def test_wrong_codes(part: str, value: Any, rule: str, with_trees: Path, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["remainder"]["trees"]["features"][0][part] = value

    with pytest.raises(ValueError, match=rf"^path: must be a complete model.*{rule}"):
        load(changed(with_trees, tmp_path, change))


def test_a_remainder_beside_unknown_components(with_trees: Path, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["remainder"]["components"][-1] = [0, 1, 2]

    with pytest.raises(ValueError, match="components must be features"):
        load(changed(with_trees, tmp_path, change))
