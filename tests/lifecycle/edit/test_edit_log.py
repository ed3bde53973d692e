"""The log: every edit is in it, undo gives the old bits, and tampering is found and named."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tpnn
from tests.cli.commands import run
from tests.models import table_model
from tpnn import AnovaModel, load
from tpnn.lifecycle.edit.edit import replay, save_edits
from tpnn.model.archive import read_document, write_archive
from tpnn.model.edit_log import digest, record_hash


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


def test_json_keeps_the_log(edited: AnovaModel, tmp_path: Path, capsys: Any) -> None:
    edited.to_json(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json").model_
    assert loaded.log() == edited.log()
    assert run("log", tmp_path / "model.json") == 0
    assert "3 edits, 0 made again, the chain is whole" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match=r"^undo: this model has no earlier version, as after merge or in J"
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
    assert f"3 edits, 3 made again, the chain is whole; the model is {digest(edited)}" in output
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
        lambda document: document["edits"]["records"].pop(),
        lambda document: document["edits"]["formers"][0].update(tables=[]),
        lambda document: document["edits"]["formers"][1].update(
            edits={"records": document["edits"]["records"], "formers": []}
        ),
    ):
        edited.save(path)
        tampered(path, change)
        with pytest.raises(ValueError, match=r"the log of edits was tampered with"):
            load(path)


def test_a_restricted_model_keeps_its_log(
    edited: AnovaModel, models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    """As one more edit, which can be undone and replayed."""
    few = edited.restrict([(0,), (0, 2)])
    assert few.component_names == [("age",), ("age", "town")]
    assert few.log()[:3] == edited.log()
    assert few.log()[3]["edit"] == {"restrict": [["age"], ["age", "town"]]}
    assert digest(few.undo()) == digest(edited)
    save_edits(few, tmp_path / "edits.json")
    assert digest(replay(models[2], tmp_path / "edits.json")) == digest(few)
    assert models[2].restrict([(0,)]).log() == []


def test_a_merged_model_begins_with_the_logs_of_all(
    edited: AnovaModel, models: dict[int, AnovaModel], tmp_path: Path, capsys: Any
) -> None:
    merged = tpnn.merge([edited, models[2]], weights=[3, 1])
    (record,) = merged.log()
    one, other = record["edit"]["merge"]
    assert (one["model"], one["edits"]) == (digest(edited), edited.log())
    assert (other["model"], other["edits"]) == (digest(models[2]), [])
    assert (one["share"], other["share"]) == (0.75, 0.25)
    with pytest.raises(ValueError, match=r"^undo: this model has no earlier version, as after me"):
        merged.undo()
    again = merged.edit("age", add=1.0)
    assert digest(again.undo()) == digest(merged)
    save_edits(again, tmp_path / "edits.json")
    assert digest(replay(merged, tmp_path / "edits.json")) == digest(again)
    again.save(tmp_path / "model")
    assert run("log", tmp_path / "model") == 0
    output = capsys.readouterr().out
    assert output.startswith(f"75.0% of the mean: {digest(edited)}, 3 edits\n   1. age: add=0.2")
    assert "1. mean of 2 models" in output
    tampered(tmp_path / "model", lambda d: rewrite_chain(d, leave_out_of_merge))
    with pytest.raises(ValueError, match="in the log of a merged model record 2 does not follow"):
        load(tmp_path / "model").model_.log()
    assert tpnn.merge([models[2], models[2]]).log() == []


def rewrite_chain(document: dict[str, Any], change: Callable[[list[Any]], Any]) -> None:
    """Change records and compute all hashes anew, as anybody can."""
    records = document["edits"]["records"]
    change(records)
    for number, record in enumerate(records):
        record["previous"] = records[number - 1]["hash"] if number else record["previous"]
        record["hash"] = record_hash(record)


def leave_out_of_merge(records: list[Any]) -> None:
    records[0]["edit"]["merge"][0]["edits"].pop(1)


def change_number(records: list[Any]) -> None:
    records[0]["edit"]["add"] = 0.01


def change_size(records: list[Any]) -> None:
    records[0]["changed"]["components"][0][1] = 0.01


def change_reason(records: list[Any]) -> None:
    records[0]["why"] = "nothing"


@pytest.mark.parametrize("change", [change_number, change_size])
def test_every_edit_is_made_again(change: Any, edited: AnovaModel, tmp_path: Path) -> None:
    """So that a record cannot say something else than what was done, whatever its hash."""
    path = tmp_path / "model"
    edited.save(path)
    tampered(path, lambda document: rewrite_chain(document, change))
    assert run("log", path) == 1
    with pytest.raises(ValueError, match="record 1 says something else than what was done"):
        load(path).model_.log()


def test_verified_edits_of_every_kind(models: dict[int, AnovaModel], tmp_path: Path) -> None:
    """Nothing is taken for a forgery that is none."""
    model = models[3]
    for component, change in (
        ("age", {"between": (20, 30), "add": 0.5}),
        ("town", {"levels": ["a", "m"], "set": -1.0}),
        ("income", {"missing": True, "scale": 0.0}),
        (("age", "grade"), {"limit": (-0.1, 0.1)}),
        ("age", {"smooth": 0.1}),
        ("since", {"between": ("2020-05-01", None), "flatten": True}),
        ("age", {"points": {30: 0.5, 31: 1.0}}),
        ("age", {"shape": "increasing"}),
        (("age", "town", "grade"), {"levels": {"town": ["k"]}, "add": 1.0}),
        ("grade", {"without": True}),
    ):
        model = model.edit(component, **change)
    assert len(model.log()) == 10
    model.save(tmp_path / "model")
    assert len(load(tmp_path / "model").model_.log()) == 10


def test_a_file_without_a_feature_has_a_whole_log(
    models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    """Files leave out what no component needs, so features have other numbers than before."""
    models[1].edit("age", without=True).save(tmp_path / "model")
    loaded = load(tmp_path / "model").model_
    assert "age" not in loaded.feature_names
    assert len(loaded.log()) == 1


def test_models_before_edits_are_bound_to_the_log(edited: AnovaModel, tmp_path: Path) -> None:
    path = tmp_path / "model"
    for place in range(3):
        edited.save(path)

        def move(document: dict[str, Any], place: int = place) -> None:
            former = document["edits"]["formers"][place]
            former["tables"][0] = former["tables"][0] + 5.0

        tampered(path, move)
        model = load(path).model_
        for method in (model.log, model.undo):
            with pytest.raises(ValueError, match=f"the model before edit {place + 1} is not the o"):
                method()


def test_who_keeps_the_last_hash_misses_another_log(
    edited: AnovaModel, models: dict[int, AnovaModel], tmp_path: Path, capsys: Any
) -> None:
    path, last = tmp_path / "model", edited.log()[-1]["hash"]
    edited.save(path)
    assert load(path, last_hash=last).model_.log() == edited.log()
    assert run("log", path, "--expect", last) == 0
    capsys.readouterr()
    tampered(path, lambda document: rewrite_chain(document, change_reason))
    assert run("log", path) == 0  # a chain that anybody can write
    assert run("log", path, "--expect", last) == 1
    assert "--expect: the last record of the log must have the hash" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^last_hash: the last record of the log must have the"):
        load(path, last_hash=last)
    models[2].save(path)
    with pytest.raises(ValueError, match=r"^last_hash: .* it has no edits"):
        load(path, last_hash=last)


def test_a_signature_shows_who_wrote_a_file(edited: AnovaModel, tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key, other = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    path = tmp_path / "model"
    edited.save(path, sign=key)
    public = key.public_key()
    assert load(path, verify=public).model_.log() == edited.log() == load(path).model_.log()
    with pytest.raises(ValueError, match=r"^verify: the file must be signed by the owner of this"):
        load(path, verify=other.public_key())
    with zipfile.ZipFile(path) as archive:
        signed = archive.read("signature.txt")
    tampered(path, lambda document: rewrite_chain(document, change_reason))
    with pytest.raises(ValueError, match=r"^verify: the file must be signed, and it has no sign"):
        load(path, verify=public)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("signature.txt", signed)
    with pytest.raises(ValueError, match=r"^verify: the file must be signed by the owner of this"):
        load(path, verify=public)
    edited.to_json(path)
    with pytest.raises(ValueError, match=r"^verify: the file must be signed, and it has no sign"):
        load(path, verify=public)
    with pytest.raises(TypeError, match=r"^sign: must be an Ed25519PrivateKey of cryptography, or"):
        edited.save(path, sign=public)


def test_keys_in_files(edited: AnovaModel, tmp_path: Path, capsys: Any) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
    key, pem = ed25519.Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (tmp_path / "public.pem").write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    edited.save(tmp_path / "model", sign=tmp_path / "key.pem")
    assert run("log", tmp_path / "model", "--verify", tmp_path / "public.pem") == 0
    with pytest.raises(ValueError, match=r"^verify: must be a PEM file with a key and no password"):
        load(tmp_path / "model", verify=tmp_path / "model")
    (tmp_path / "other.pem").write_bytes(
        ed25519.Ed25519PrivateKey.generate()
        .public_key()
        .public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert run("log", tmp_path / "model", "--verify", tmp_path / "other.pem") == 1
    assert "verify: the file must be signed by the owner of this key" in capsys.readouterr().err


def test_the_digest_has_all_that_predictions_and_names_are_made_of(X: pd.DataFrame) -> None:
    model = table_model(X, 2)
    encoder = model.encoder
    town = encoder.feature_names.index("town")
    spelt = [f._replace(are_text=not f.are_text) if f.levels else f for f in encoder.features]
    renamed = replace(encoder.axes[1][town], levels=encoder.axes[1][town].levels[::-1])
    axes = (*encoder.axes[1][:town], renamed, *encoder.axes[1][town + 1 :])
    for other in (
        replace(encoder, labels=tuple("12345")),
        replace(encoder, features=tuple(spelt)),
        replace(encoder, axes={**encoder.axes, 1: axes}),
    ):
        assert digest(replace(model, encoder=other)) != digest(model)


def test_names_of_nodes_are_those_of_their_levels(
    models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    path = tmp_path / "model"
    for feature in ("town", "grade"):
        number = models[2].feature_names.index(feature)
        for order in ("1", "2"):
            models[2].save(path)

            def rotate(document: dict[str, Any], order: str = order, number: int = number) -> None:
                axis = document["encoder"]["axes"][order][number]
                axis["labels"] = axis["labels"][1:] + axis["labels"][:1]

            tampered(path, rotate)
            with pytest.raises(ValueError, match="nodes must have the names of their levels"):
                load(path)


def test_no_reason_can_write_a_record_of_its_own(
    models: dict[int, AnovaModel], tmp_path: Path, capsys: Any
) -> None:
    """Line ends and escapes of terminals are shown, not obeyed."""
    why = "ok\n   by: Bo\n\n1 edit, the chain is whole\x1b[8m\u202e\u2028\x9b\ud800"
    models[2].edit("age", add=1.0, why=why, by="\rBo").save(tmp_path / "model")
    assert run("log", tmp_path / "model") == 0
    output = capsys.readouterr().out
    assert (
        r"why: ok\n   by: Bo\n\n1 edit, the chain is whole\x1b[8m\u202e\u2028\x9b\ud800" in output
    )
    assert output.replace("\n", "").isprintable()
    assert len(output.splitlines()) == 9


@pytest.mark.parametrize(
    "parts",
    [
        {"changed": {}},
        {"changed": {"intercept": [0, 0], "components": [], "removed": [], "shapes_lost": []}},
        {"effect": {}},
        {"effect": {"loss": 1, "n_rows": 1, "before": 1, "after": 1}},
        {"edit": {}},
        {"edit": {"component": "age"}},
        {"edit": {"restrict": ["age"]}},
        {"edit": {"merge": [{}]}},
        {"edit": {"component": ["age"], "restrict": []}},
        {"number": "1"},
    ],
)
def test_records_of_another_form_are_refused(
    parts: dict[str, Any], edited: AnovaModel, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    edited.save(path)
    tampered(path, lambda document: document["edits"]["records"][0].update(parts))
    with pytest.raises(ValueError, match=r"^path: must be a complete model.*tampered with"):
        load(path)


def test_a_time_is_a_time(models: dict[int, AnovaModel], tmp_path: Path) -> None:
    save_edits(models[2].edit("age", add=1.0), tmp_path / "edits.json")
    document = json.loads((tmp_path / "edits.json").read_text())
    for when in ("1999-13-77T99:99:99Z", "next Tuesday"):
        document["edits"][0]["when"] = when
        (tmp_path / "edits.json").write_text(json.dumps(document))
        with pytest.raises(ValueError, match=r"^edit 1 of .*: when: must be a time in ISO 8601"):
            replay(models[2], tmp_path / "edits.json")
