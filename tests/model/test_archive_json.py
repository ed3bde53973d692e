"""The JSON form: it reads back to the same file, and 50 lines of plain Python predict from it."""

from __future__ import annotations

import importlib.util
import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.conftest import QUICK
from tests.export.cases import model_of
from tests.models import random_model, with_bands, with_evidence, with_remainder
from tpnn import AnovaModel, TPNNRegressor, TPNNSurvival, load
from tpnn.anova.posterior import Posterior
from tpnn.lifecycle.edit import review
from tpnn.model.archive import JSON_FORMAT

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "tests" / "reference" / "version_1"
MODELS = sorted(path.stem for path in REFERENCE.glob("*.tpnn"))
N_ROWS = 200


def reader() -> Any:
    """The reference reader of the documentation."""
    spec = importlib.util.spec_from_file_location("read_model", ROOT / "docs" / "read_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_value(model: AnovaModel, feature: int, rng: np.random.Generator) -> Any:
    """A value on, beside, between or beyond the nodes; a level, an unseen one; or None."""
    known, axis = model.encoder.features[feature], model.encoder.axes[1][feature]
    if rng.random() < 0.1:
        return None
    if known.levels:
        levels = [*known.levels, "never seen" if isinstance(known.levels[0], str) else -17]
        return levels[rng.integers(len(levels))]
    nodes = axis.values
    value = float(rng.choice(nodes))
    change = rng.integers(4)
    if change == 1:
        value = float(np.nextafter(value, rng.choice([-np.inf, np.inf])))
    if change == 2:
        value = float(rng.uniform(nodes[0] - 1, nodes[-1] + 1))
    if change == 3:
        value = -0.0
    return datetime.fromtimestamp(round(value), UTC) if known.kind == "date" else value


def random_rows(model: AnovaModel) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    names = model.feature_names
    rows = [{name: random_value(model, j, rng) for j, name in enumerate(names)} for _ in
            range(N_ROWS)]  # fmt: skip
    column = model.encoder.offset_column
    for row in rows if column is not None else ():
        row[column.name] = float(rng.uniform(0.5, 2))
    return rows


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the reader takes it: dates are seconds."""
    return {key: value.timestamp() if isinstance(value, datetime) else value
            for key, value in row.items()}  # fmt: skip


def assert_the_reader_agrees(model: AnovaModel, path: Path) -> None:
    model.to_json(path)
    module, rows = reader(), random_rows(model)
    document = module.load(path)
    table: Any = rows if model.encoder.names else [list(row.values()) for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unseen levels
        raw = model.raw_scores(table).reshape(N_ROWS, -1)
        predicted = model.predict(table).reshape(N_ROWS, -1)
    scale = max(float(raw.std()), 1e-3)
    for number, row in enumerate(map(plain, rows)):
        scores = module.raw_scores(document, row)
        assert np.abs(scores - raw[number]).max() <= 1e-12 * scale
        answers = np.array(module.predict(document, row))
        share = 1e-12 * max(1, abs(raw[number]).max())
        np.testing.assert_allclose(answers, predicted[number], rtol=share, atol=1e-12 * scale)


@pytest.mark.parametrize("name", MODELS)
def test_the_json_form_reads_back_to_the_same_file(name: str, tmp_path: Path) -> None:
    model = load(REFERENCE / f"{name}.tpnn").model_
    assert model.to_json(tmp_path / "model.json") is None
    load(tmp_path / "model.json").model_.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (REFERENCE / f"{name}.tpnn").read_bytes()
    assert (tmp_path / "model.json").read_text() == model.to_json()


@pytest.mark.parametrize("name", MODELS)
def test_plain_python_predicts_the_same(name: str, tmp_path: Path) -> None:
    assert_the_reader_agrees(load(REFERENCE / f"{name}.tpnn").model_, tmp_path / "model.json")


def test_plain_python_reads_an_exposure_and_odd_levels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "years": rng.uniform(0.5, 2, 300),
        "quote ' \" ; \n": rng.choice(["", "'); DROP TABLE x; --", "日本", "\ud800"], 300),
        "numbers": rng.integers(0, 4, 300),
        "ordered": pd.Categorical(rng.choice(["lo", "mid", "hi"], 300), ["lo", "mid", "hi"],
                                  ordered=True),
        "x": rng.normal(size=300),
    })  # fmt: skip
    X.loc[::6, "x"] = np.nan
    settings = {**QUICK, "objective": "poisson", "exposure": "years", "categorical": ["numbers"]}
    model = TPNNRegressor(**settings).fit(X, rng.poisson(X.years + X.numbers)).model_
    assert_the_reader_agrees(model, tmp_path / "model.json")
    loaded = tpnn.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.model_.provenance == model.provenance


@pytest.mark.parametrize("task", ["regression", "counts", "several classes"])
def test_plain_python_reads_a_remainder(task: str, tmp_path: Path) -> None:
    model = with_remainder(model_of(task))
    assert_the_reader_agrees(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json").model_
    assert again.to_json() == model.to_json()
    leaves_alone = with_remainder(random_model(2, 2), n_trees=1)
    jsonschema = pytest.importorskip("jsonschema")
    for each in (model, leaves_alone):
        document = json.loads(each.to_json() or "")
        jsonschema.validate(document, SCHEMA)
        required_keys(SCHEMA, document)


SCHEMA = json.loads((Path(tpnn.__file__).parent / "model" / "model.schema.json").read_text())


def required_keys(schema: Any, document: Any) -> None:
    """What a schema asks for is what is there, in every object whose parts it names."""
    schema = SCHEMA["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    if isinstance(document, dict) and "properties" in schema:
        known = set(schema["properties"])
        assert known - {"random", "reviews"} == set(schema["required"]) <= set(document) <= known
        for name in document:
            required_keys(schema["properties"][name], document[name])
    elif isinstance(document, dict) and "additionalProperties" in schema:
        assert set(schema.get("required", document)) == set(document)
        for part in document.values():
            required_keys(schema["additionalProperties"], part)
    elif isinstance(document, list) and "items" in schema:
        for part in document:
            required_keys(schema["items"], part)


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_describes_the_document(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(load(REFERENCE / f"{name}.tpnn").model_.to_json() or "")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA)
    required_keys(SCHEMA, document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"link": "probit"}, SCHEMA)


def test_the_schema_describes_evidence_provenance_and_edits(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"level": rng.choice(list("ab"), 300), "x": rng.normal(size=300)})
    times = np.column_stack([rng.exponential(size=300), np.ones(300)])
    regressor = TPNNRegressor(**QUICK).fit(X, X["x"] + rng.normal(size=300)).model_
    survival = TPNNSurvival(**QUICK).fit(X, times).model_
    edited = with_bands(random_model(2, 1)).edit("x0", add=1.0)
    known = regressor.evidence
    assert None not in (known.spreads, known.posteriors, known.tests, known.calibration)
    assert survival.evidence.baseline is not None
    grouped = TPNNRegressor(**QUICK, random=["level"]).fit(X, X["x"]).model_
    assert grouped.evidence.random is not None
    for model in (regressor, survival, edited, review(grouped, "x", why="as expected")):
        document = json.loads(model.to_json() or "")
        jsonschema.validate(document, SCHEMA)
        required_keys(SCHEMA, document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"evidence": {"tests": None}}, SCHEMA)


def test_the_reader_is_short_and_needs_the_standard_library_alone() -> None:
    text = (ROOT / "docs" / "read_model.py").read_text("utf-8")
    code = [line for line in text.splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 90
    assert "numpy" not in text


def test_features_without_use_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    estimator = TPNNRegressor(**QUICK, components=[(1,), (1, 3)]).fit(X, X[:, 1] + X[:, 3])
    estimator.model_.to_json(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["encoder"]["kept"] == {"places": [1, 3], "n_features": 4}
    assert reader().feature_names(document["encoder"]) == ["x1", "x3"]
    loaded = tpnn.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(X), estimator.predict(X))
    rows = [{"x1": row[1], "x3": row[3]} for row in X.tolist()]
    plain_answers = [reader().raw_scores(document, row)[0] for row in rows]
    assert np.abs(plain_answers - loaded.predict(X)).max() < 1e-12


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(load(REFERENCE / "survival.tpnn").model_.to_json() or "")
    return found


def test_a_document_is_strict_json(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert "NaN" not in text
    assert "Infinity" not in text


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"link": "probit"}, "KeyError"),
        ({"intercepts": ["1.0"]}, "numbers of type float64 are needed"),
        ({"intercepts": [[1.0]]}, "one intercept"),
        ({"intercepts": [1.0, 2.0]}, "must have a name|shape of their nodes"),
        ({"encoder": {}}, "complete model"),
        ({"components": {}}, "type list is needed"),
        ({"tables": [{"shape": [10**12]}]}, "only an array without numbers"),
        ({"provenance": {"task": "regressor"}}, "complete model"),
    ],
)
def test_a_wrong_document_is_refused(
    change: dict[str, Any], rule: str, document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "model.json").write_text(json.dumps(document | change))
    with pytest.raises(ValueError, match=f"^path: .*({rule})"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize("node", [70_000, -1, 0.5, "0", True])
def test_a_node_that_no_level_can_have(node: Any, document: dict[str, Any], tmp_path: Path) -> None:
    axes = document["encoder"]["axes"]["1"]
    nominal = next(axis for axis in axes if axis["level_nodes"] is not None)
    nominal["level_nodes"] = [node] * len(nominal["level_nodes"])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"below 65536|numbers of type uint16 are needed"):
        load(tmp_path / "model.json")


def test_only_levels_have_nodes_of_levels(document: dict[str, Any], tmp_path: Path) -> None:
    axes = document["encoder"]["axes"]["1"]
    next(axis for axis in axes if axis["level_nodes"] is None)["level_nodes"] = []
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="must have no levels"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "truncated or of another kind"),
        ("{}", "truncated or of another kind"),
        (json.dumps({"format": JSON_FORMAT, "version": 99}), "version 99. Upgrade"),
        (json.dumps({"format": "other", "version": 1}), "of the format 'other'"),
        (json.dumps({"format": JSON_FORMAT, "version": 1}), "complete model"),
    ],
)
def test_text_that_is_no_model_is_refused(text: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match=f"^path: .*{rule}"):
        load(tmp_path / "model.json")


def test_unknown_parts_are_ignored(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(document | {"weather": {"rain": 0.9}}))
    text = load(tmp_path / "model.json").model_.to_json() or ""
    assert json.loads(text) == document


def test_bands_survive_the_document(tmp_path: Path) -> None:
    """Also of a component whose posterior has no functions."""
    model = with_bands(random_model(2, 2, n_outputs=2))
    assert model.evidence.posteriors is not None
    zero = Posterior.zero(model.tables[0].shape)
    model = with_evidence(model, posteriors=(zero, *model.evidence.posteriors[1:]))
    path = tmp_path / "model.json"
    model.to_json(path)
    loaded = load(path).model_
    assert model.evidence.posteriors is not None
    for one, other in zip(loaded.evidence.posteriors or (), model.evidence.posteriors, strict=True):
        for left, right in zip(one.arrays, other.arrays, strict=True):
            assert left.dtype == right.dtype
            assert np.array_equal(left, right)
