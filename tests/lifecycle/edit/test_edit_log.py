"""The log: every edit is in it, undo gives the old bits, and tampering is found and named."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.commands import run
from tpnn import AnovaModel, load
from tpnn.lifecycle.edit.edit import replay, save_edits
from tpnn.model.archive import read_document, write_archive
from tpnn.model.edit_log import digest, record_hash
from tpnn.model.model import EditLog


@pytest.fixture(scope="module")
def edited(models: dict[int, AnovaModel]) -> AnovaModel:
    one = models[2].edit("age", between=(18, 21.5), add=0.2, why="too low", by="Ada")
    two = one.edit(("age", "town"), levels={"town": ["k"]}, scale=0.5, why="noise", by="Bo")
    return two.edit("grade", without=True, why="not allowed", by="Ada")


def saved(model: AnovaModel, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


def test_undo_gives_the_old_bits(
    edited: AnovaModel, models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    """Edit by edit, in memory, after saving, and after pickling: the same bytes on disk."""
    edited.save(tmp_path / "edited.tpnn")
    loaded = load(tmp_path / "edited.tpnn").model_
    first = saved(models[2], tmp_path / "first.tpnn")
    for model in (edited, loaded, pickle.loads(pickle.dumps(edited)), copy.deepcopy(edited)):
        assert saved(model, tmp_path / "again.tpnn") == (tmp_path / "edited.tpnn").read_bytes()
        back = model.undo()
        assert len(back.log()) == 2
        back = back.undo().undo()
        assert back.edits is None
        assert saved(back, tmp_path / "back.tpnn") == first
    with pytest.raises(ValueError, match=r"^undo: this model has no edit"):
        back.undo()


def test_what_it_takes_to_undo_is_small(
    models: dict[int, AnovaModel], edited: AnovaModel, tmp_path: Path
) -> None:
    """An earlier version is stored by what differs, not as a whole."""
    plain, one = saved(models[2], tmp_path / "a"), saved(edited.undo().undo(), tmp_path / "b")
    assert len(one) < 1.35 * len(plain)


def test_records_say_who_when_why_and_what(edited: AnovaModel) -> None:
    first, second, third = edited.log()
    assert (first["by"], first["why"], first["effect"]) == ("Ada", "too low", None)
    assert first["edit"] == {
        "component": ["age"], "between": {"age": [18.0, 21.5]}, "add": 0.2,
    }  # fmt: skip
    assert first["when"].endswith("Z")
    assert first["version"]
    ((names, size),) = first["changed"]["components"]
    assert names == ["age"]
    assert size <= 0.2
    assert second["before"] == first["after"]
    assert second["previous"] == first["hash"]
    assert third["changed"]["removed"] == [["grade"]]
    assert third["after"] == digest(edited)


def test_the_effect_on_held_out_rows_is_measured(
    models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    model = models[2]
    y = model.raw_scores(X) + 1.0
    edited = model.edit("age", add=1.0, X=X, y=y)
    effect = edited.log()[0]["effect"]
    assert effect["loss"] == "squared_error"
    assert effect["n_rows"] == len(X)
    assert effect["before"] == pytest.approx(1.0)
    assert effect["after"] == pytest.approx(0.0, abs=1e-20)


def test_json_keeps_the_log(edited: AnovaModel, tmp_path: Path) -> None:
    edited.to_json(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json").model_
    assert loaded.log() == edited.log()
    with pytest.raises(
        ValueError, match=r"^undo: this model was read from JSON, which has no earlier"
    ):
        loaded.undo()


def test_edits_replay_to_the_same_bits(
    edited: AnovaModel, models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    save_edits(edited, tmp_path / "edits.json")
    again = replay(models[2], tmp_path / "edits.json")
    assert saved(again, tmp_path / "a") == saved(edited, tmp_path / "b")
    with pytest.raises(ValueError, match=r"^path: the edits of .* were made for another model"):
        replay(models[1], tmp_path / "edits.json")
    document = json.loads((tmp_path / "edits.json").read_text())
    document["edits"][1]["levels"]["town"] = ["zz"]
    (tmp_path / "wrong.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"^edit 2 of .*levels: must be levels of 'town'"):
        replay(models[2], tmp_path / "wrong.json")
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(ValueError, match=r"^path: .* is not an edit file of version 1"):
        replay(models[2], tmp_path / "none.json")


def tampered(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the document of a file, whose checksum is then right again."""
    document = read_document(path)
    change(document)
    write_archive(path, document)


def rewrite(document: dict[str, Any]) -> None:
    """Change a record and give it the hash that it has now."""
    record = document["edits"]["records"][0]
    record["why"] = "nothing"
    record["hash"] = record_hash(record)


def move_table(document: dict[str, Any]) -> None:
    document["tables"][0] = document["tables"][0] + 1e-9


def set_reason(document: dict[str, Any]) -> None:
    document["edits"]["records"][1]["why"] = "nothing"


def leave_out(document: dict[str, Any]) -> None:
    """Leave out an edit, and the model before it."""
    for key in ("records", "formers"):
        document["edits"][key].pop(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_reason, "record 2 was changed: its content does not have its hash"),
        (rewrite, "record 2 does not follow the one before: a record is missing or moved"),
        (leave_out, "record 2 does not follow the one before: a record is missing or moved"),
        (move_table, "the model is not the one that the last record left"),
    ],
)
def test_tampering_is_found_and_named(
    change: Any, message: str, edited: AnovaModel, tmp_path: Path, capsys: Any
) -> None:
    """By the command, and by every method that would build on the log."""
    path = tmp_path / "model.tpnn"
    edited.save(path)
    tampered(path, change)
    code = run("log", path)
    output, errors = capsys.readouterr()
    assert code == 1
    assert message in errors
    assert "too low" in output or "nothing" in output
    model = load(path).model_
    for method in (model.log, model.undo, lambda: model.edit("age", add=1.0)):
        with pytest.raises(ValueError, match=r"^edits: the log of a model must be a whole chain"):
            method()


def test_a_changed_byte_is_found_before(edited: AnovaModel, tmp_path: Path) -> None:
    edited.save(tmp_path / "model.tpnn")
    with zipfile.ZipFile(tmp_path / "model.tpnn") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["header.json"] = entries["header.json"].replace(b"too low", b"too LOW")
    with zipfile.ZipFile(tmp_path / "model.tpnn", "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="does not match its own checksum"):
        load(tmp_path / "model.tpnn")


def test_the_command_prints_the_log(edited: AnovaModel, tmp_path: Path, capsys: Any) -> None:
    edited.save(tmp_path / "model.tpnn")
    code = run("log", tmp_path / "model.tpnn")
    output, errors = capsys.readouterr()
    assert code == 0
    assert errors == ""
    assert '1. age: add=0.2, between={"age": [18.0, 21.5]}' in output
    assert "why: too low" in output
    assert "by: Ada, 20" in output
    assert "held-out loss: unknown, no held-out rows were given" in output
    assert f"3 edits, the chain is whole; the model is {digest(edited)}" in output
    code = run("log", tmp_path / "model.tpnn", "--json")
    output, errors = capsys.readouterr()
    found = json.loads(output)
    assert found["whole"]
    assert found["records"] == edited.log()


def test_the_hash_is_that_of_sorted_json(edited: AnovaModel) -> None:
    """As docs/editing.md says, so that others can check it."""
    record = edited.log()[1]
    own = record.pop("hash")
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == own


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (0, "record 1 does not follow"),
        (1, "record 2 does not follow"),
        (2, "not the one that the last"),
    ],
)
def test_a_record_that_was_removed_is_missed(
    place: int, message: str, edited: AnovaModel, tmp_path: Path
) -> None:
    document = json.loads(edited.to_json() or "")
    document["edits"]["records"].pop(place)
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "model.json").model_.log()


def test_a_log_of_wrong_form_is_no_model(edited: AnovaModel, tmp_path: Path) -> None:
    path = tmp_path / "model.tpnn"
    for change in (
        lambda document: document["edits"]["records"][0].pop("why"),
        lambda document: document["edits"].update(records=[]),
        lambda document: document["edits"]["formers"].pop(),
        lambda document: document["edits"]["formers"][0].update(tables=[]),
        lambda document: document["edits"]["formers"][1].update(
            edits={"records": document["edits"]["records"], "formers": []}
        ),
    ):
        edited.save(path)
        tampered(path, change)
        with pytest.raises(ValueError, match=r"the log of edits was tampered with"):
            load(path)


def test_restricted_models_have_no_log(edited: AnovaModel) -> None:
    assert edited.restrict([(0,)]).edits is None
    assert isinstance(edited.edits, EditLog)
    assert replace(edited).log() == edited.log()
