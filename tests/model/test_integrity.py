"""Crafted files: with a right checksum and wrong content they are refused, never half believed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import load_model
from tpnn.model.files import read_archive, write_archive

REFERENCE = Path(__file__).parents[1] / "reference" / "version_0_1_0"
MODELS = ("regression", "gradient", "three_classes", "quantiles", "monotone", "triples")
N_DAMAGES = 150  # of every model
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 1e308, 65535.0, 0.0)
ODD_PARTS: tuple[Any, ...] = (
    None, -1, 0, 1, 10**9, 65535, 1.5, True, "x", "softmax", "", [], [0], [[0, 0]], {}, {"x": "up"},
)  # fmt: skip


def crafted(name: str, tmp_path: Path, change: Any) -> Path:
    """A reference model with something changed and the checksum computed anew."""
    header, arrays = read_archive(REFERENCE / f"{name}.tpnn")
    change(header, arrays)
    path = tmp_path / "crafted"
    write_archive(path, {k: v for k, v in header.items() if k not in ("format", "version")}, arrays)
    return path


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


def test_reversed_nodes(tmp_path: Path) -> None:
    def change(header: Any, arrays: Any) -> None:
        arrays["node_values"] = arrays["node_values"][::-1].copy()

    with pytest.raises(ValueError, match="increasing"):
        load_model(crafted("gradient", tmp_path, change))


@pytest.mark.parametrize(
    ("part", "value"),
    [("link", "softmax"), ("outputs", ["a"]), ("shapes", {"nobody": "increasing"}),
     ("activation", "tanh"), ("orders", [2, 1, 3]), ("classes", ["a", "b", "c", "d"])],
)  # fmt: skip
def test_wrong_words(part: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path: must be a complete model"):
        load_model(crafted("regression", tmp_path, lambda h, a: h.update({part: value})))


def damage(header: dict[str, Any], arrays: dict[str, Any], rng: np.random.Generator) -> None:
    """Change one number of an array, its length or type, or one part of the header."""
    kind = rng.integers(4)
    name = str(rng.choice(sorted(arrays)))
    array = arrays[name].copy()
    if kind == 0 and len(array):
        odd = rng.choice(ODD_NUMBERS)
        with np.errstate(invalid="ignore"):
            array[rng.integers(len(array))] = np.asarray(odd).astype(array.dtype)
        arrays[name] = array
    elif kind == 1:
        arrays[name] = array[: rng.integers(len(array) + 1)]
    elif kind == 2:
        arrays[name] = array.astype(rng.choice(["f4", "i8", "u1", "c16", "U3"]))
    else:
        names = sorted(set(header) - {"format", "version"})
        place: Any = header
        key: Any = str(rng.choice(names))
        while isinstance(place[key], list) and place[key] and rng.random() < 0.7:
            place, key = place[key], int(rng.integers(len(place[key])))
        place[key] = ODD_PARTS[rng.integers(len(ODD_PARTS))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_a_crafted_file_is_refused_or_predicts_finite_numbers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the rows of the reference models are in Parquet")
    rows = pd.read_parquet(REFERENCE / "rows.parquet")
    rng = np.random.default_rng(len(name))
    refused, unfit = [], []
    for _ in range(N_DAMAGES):
        path = crafted(name, tmp_path, lambda h, a: damage(h, a, rng))
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


def test_an_entry_that_would_fill_the_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"format": "tpnn-model", "version": 1}))
        archive.writestr("tables.npy", bytes(1 << 24))
    monkeypatch.setattr("tpnn.model.files.SMALLEST_SIZE_LIMIT", 1 << 20)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="would unpack to"):
        load_model(path)
