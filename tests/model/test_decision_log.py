"""The log of decisions: every prediction has a line, and the chain shows what was changed."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import random_model
from tpnn.model.edit_log import digest
from tpnn.model.loading import input_hashes

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


@pytest.fixture
def served(tmp_path: Path) -> tpnn.LoadedClassifier:
    mixed_model(2, "logit").save(tmp_path / "model.tpnn")
    loaded = tpnn.load(tmp_path / "model.tpnn")
    assert isinstance(loaded, tpnn.LoadedClassifier)
    return loaded


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_decision_has_a_record(served: tpnn.LoadedClassifier, tmp_path: Path) -> None:
    log, X = tmp_path / "decisions.jsonl", fuzzed_rows(served.model_, 7)
    first = served.predict(X[:4], log=log)
    second = served.predict(X[4:], log=str(log))
    assert np.array_equal(np.append(first, second), served.predict(X))
    lines = records(log)
    assert [line["prediction"] for line in lines] == served.predict(X).tolist()
    assert [line["raw_score"] for line in lines] == served.model_.raw_scores(X).tolist()
    assert {line["model"] for line in lines} == {digest(served.model_)}
    assert [line["input"] for line in lines] == input_hashes(served.model_, X)
    scores = served.model_.component_scores(X)
    for line, row in zip(lines, scores, strict=True):
        largest = np.sort(np.abs(row))[::-1][:4]
        assert np.allclose(np.abs([effect for _, effect in line["reasons"]]), largest)
        names = [" x ".join(names) for names in served.model_.component_names]
        assert all(row[names.index(name)] == effect for name, effect in line["reasons"])
    assert tpnn.check_decisions(log) == (7, lines[-1]["hash"])


@pytest.mark.parametrize("change", ["edit", "drop", "swap", "insert", "rewrite"])
def test_a_change_is_found(change: str, served: tpnn.LoadedClassifier, tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    served.predict(mixed_rows(5), log=log)
    lines = log.read_text().splitlines()
    if change == "edit":
        lines[2] = lines[2].replace('"prediction":0', '"prediction":7').replace(
            '"prediction":1', '"prediction":7')  # fmt: skip
    elif change == "drop":
        del lines[1]
    elif change == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    elif change == "insert":
        lines.insert(1, lines[1])
    else:  # with its own hash, but not that of the next record
        from tpnn.model.edit_log import record_hash

        record = json.loads(lines[1]) | {"prediction": 7}
        lines[1] = json.dumps(record | {"hash": record_hash(record)})
    log.write_text("\n".join(lines) + "\n")
    with pytest.raises(
        ValueError, match=r"path: every record must follow the one before, and line"
    ):
        tpnn.check_decisions(log)


def test_the_hash_of_an_input_is_about_its_values_alone() -> None:
    model, X = mixed_model(1), fuzzed_rows(mixed_model(1), 200)
    hashes = input_hashes(model, X)
    other = X[X.columns[::-1]].assign(more=1).astype({"count": "Float64", "town": object})
    assert input_hashes(model, other) == hashes
    for name, value in (("amount", 0.123), ("town", "another one"), ("size", "a")):
        changed = X.copy()
        changed[name] = pd.Series([value] * len(X)).astype(X[name].dtype)
        same = (X[name] == value).to_numpy()
        found = np.array(input_hashes(model, changed)) == np.array(hashes)
        assert np.array_equal(found, same)
    unseen = X.assign(town="never seen"), X.assign(town="never heard of")
    assert not set(input_hashes(model, unseen[0])) & set(input_hashes(model, unseen[1]))


def test_numbers_and_several_outputs_and_offsets(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    random_model(3, 1, n_outputs=2).save(tmp_path / "model.tpnn")
    served, X = tpnn.load(tmp_path / "model.tpnn"), np.zeros((3, 3))
    served.predict(X, log=log)
    assert np.allclose([line["prediction"] for line in records(log)], served.predict(X))
    mixed_model(1, "identity", has_offset=True).save(tmp_path / "model.tpnn")
    served, rows = tpnn.load(tmp_path / "model.tpnn"), mixed_rows(2)
    served.predict(rows, [0.0, 0.0], log=log)
    served.predict(rows, [1.0, 0.0], log=log)
    four = [line["input"] for line in records(log)[3:]]
    assert four[0] != four[2]
    assert four[1] == four[3]
    assert tpnn.check_decisions(log)[0] == 7


def _predict(model: str, log: str) -> None:
    served = tpnn.load(model)
    for _ in range(5):
        served.predict(np.zeros((2, 2)), log=log)


def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    model, log = tmp_path / "model.tpnn", tmp_path / "decisions.jsonl"
    random_model(2, 1).save(model)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_predict, args=(str(model), str(log))) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert tpnn.check_decisions(log)[0] == 20


def test_another_file_is_no_log(served: tpnn.LoadedClassifier, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")
    with pytest.raises(ValueError, match="log: must be a log of decisions"):
        served.predict(mixed_rows(1), log=other)
    assert other.read_text() == "hello\n"
    with pytest.raises(TypeError, match="path"):
        served.predict(mixed_rows(1), log=3)
