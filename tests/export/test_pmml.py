"""PMML is valid for its schema, and JPMML computes from it what the library computes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.export.cases import expected, model_of, remainder_model
from tests.export.cases import fuzzed_rows as odd_rows
from tests.export.sheets.models import fuzzed_rows, mixed_model
from tpnn import ScoreCard, TPNNClassifier, scorecard

# the machine of Java has its own handlers of signals, so it runs in a process of its own
SCRIPT = """
import json, sys
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile
import jpmml_evaluator
from jpmml_evaluator import make_evaluator
from jpmml_evaluator.jpype import JPypeBackend
backend = JPypeBackend()
from java.io import ByteArrayInputStream, File
from javax.xml.transform.stream import StreamSource
from javax.xml.validation import SchemaFactory
(jar,) = files(jpmml_evaluator).joinpath("dependencies").glob("pmml-model-1*.jar")
schema = ByteArrayInputStream(ZipFile(jar).read("pmml.xsd"))
factory = SchemaFactory.newInstance("http://www.w3.org/2001/XMLSchema")
validator = factory.newSchema(StreamSource(schema)).newValidator()
for path in sorted(Path(sys.argv[1]).glob("*.pmml")):
    validator.validate(StreamSource(File(str(path))))
    evaluator = make_evaluator(str(path), backend=backend)
    answers = []
    for row in json.loads(path.with_suffix(".json").read_text()):
        try:
            answers.append(evaluator.evaluate(row))
        except jpmml_evaluator.JavaError:
            answers.append({})
    answers = [{key: x for key, x in answer.items() if key} for answer in answers]
    path.with_suffix(".answers").write_text(json.dumps(answers))
"""
WORDS = ["c\r\nd", "\te", "f"]
TASKS = ("regression", "two classes", "counts", "survival", "several classes")

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")
needs_java = pytest.mark.skipif(
    shutil.which("java") is None
    or not all(map(importlib.util.find_spec, ("jpmml_evaluator", "jpype"))),
    reason="needs Java and jpmml-evaluator[jpype]",
)


def as_json(rows: pd.DataFrame) -> str:
    """Rows as the file wants them: times are seconds, truth values numbers."""
    frame = rows.copy()
    for name in frame:
        if frame[name].dtype.kind in "mM":
            since = pd.Timestamp(0) if frame[name].dtype.kind == "M" else pd.Timedelta(0)
            frame[name] = (frame[name] - since) / pd.Timedelta(seconds=1)
        elif frame[name].dtype.kind == "b":
            frame[name] = frame[name].astype(float)
    frame = frame.astype(object).where(frame.notna(), None)
    return json.dumps(frame.to_dict("records"))


def run(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Answers of JPMML for every document in a folder, whose rows lie beside it."""
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.answers")}


def card_of_hours() -> ScoreCard:
    """Card of hours that go round, some of which are missing, and of words with ends of lines."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.uniform(0, 24, 300), "a": rng.choice(WORDS, 300)})
    y = np.sin(X["hour"] / 24 * 2 * np.pi) * (X["a"] == WORDS[0]) + X["hour"] / 24 > 0.5
    X.loc[::5, "hour"] = np.nan
    model = TPNNClassifier(**QUICK, order=2, interactions=[("hour", "a")], periodic={"hour": 24})
    return scorecard(model.fit(X, y), max_bands=3)


@needs_java
def test_jpmml_predicts_what_the_library_predicts(tmp_path: Path) -> None:
    cases = {}
    for task in TASKS:
        model = model_of(task)
        rows = odd_rows(model, 80).drop(columns="id")
        (tmp_path / f"{task}.pmml").write_text(model.to_code("pmml", contributions=True), "ascii")
        (tmp_path / f"{task}.json").write_text(as_json(rows))
        cases[task] = model, rows
    card = scorecard(mixed_model(2, "logit"), score=100, odds=2, max_bands=3)
    new = fuzzed_rows(card.banded.model, 80)
    card.to_pmml(tmp_path / "card.pmml", codes={"count": ("R7", "Many")})
    (tmp_path / "card.json").write_text(as_json(new))
    clock = card_of_hours()
    clock.to_pmml(tmp_path / "clock.pmml")
    hours = pd.DataFrame({"hour": [-3.0, 0.0, 5.5, 11.9, 24.0, 1e6, np.nan], "a": WORDS[0]})
    (tmp_path / "clock.json").write_text(as_json(hours))
    (tmp_path / "model.pmml").write_text(clock.banded.model.to_code("pmml"), "ascii")
    (tmp_path / "model.json").write_text(as_json(hours))
    answers = run(tmp_path)
    np.testing.assert_array_equal(pd.DataFrame(answers["clock"])["score"], clock.score(hours))
    likely = pd.DataFrame(answers["model"])["probability(True)"]
    np.testing.assert_allclose(likely, clock.banded.model.predict(hours), rtol=1e-12)
    for task, (model, rows) in cases.items():
        truth, found = expected(model, rows), pd.DataFrame(answers[task])
        shown = found.filter(regex=r"^(prediction|probability)").astype(float).to_numpy()
        means = truth["means"]
        if task == "two classes":
            means = np.column_stack([1 - means, means])
        np.testing.assert_allclose(shown, means, rtol=1e-12, atol=1e-12, err_msg=task)
        effects = found.filter(regex="^contribution of ").astype(float).to_numpy()
        by_output = truth["effects"].transpose(0, 2, 1).reshape(len(rows), -1)
        np.testing.assert_allclose(effects, by_output, rtol=0, atol=1e-12, err_msg=task)
        if "classes" in task:
            assert (found["label"].astype(int) == means.argmax(1)).all()
    found = pd.DataFrame(answers["card"])
    np.testing.assert_array_equal(found["score"], card.score(new))
    codes = {"count": ("R7", "Many")}
    for k, reasons in enumerate(card.reasons(new, n_reasons=4, codes=codes)):
        for reason, rank in zip(reasons, range(1, 5), strict=False):
            lost = {one.code or one.component: one.lost for one in reasons}
            assert lost.get(found[f"reason_{rank}"][k]) == reason.lost  # in any order where equal


@needs_java
def test_what_python_refuses_has_no_prediction_and_offsets_are_added(tmp_path: Path) -> None:
    counts, plain = model_of("counts"), model_of("regression")
    rows = odd_rows(counts, 6).drop(columns="id").assign(exposure=0.5)
    rows['height "m"'] = 0.25
    wrong = rows.copy()
    wrong["exposure"] = [0.5, 0.0, -1.0, None, 0.5, 0.5]
    wrong.loc[4, 'height "m"'] = np.inf
    (tmp_path / "counts.pmml").write_text(counts.to_code("pmml"), "ascii")
    (tmp_path / "counts.json").write_text(as_json(wrong))
    passed = replace(plain, has_offset=True).to_code("pmml")
    (tmp_path / "plain.pmml").write_text(passed, "ascii")
    (tmp_path / "plain.json").write_text(as_json(rows.assign(offset=2.5)))
    answers = run(tmp_path)
    found = pd.DataFrame(answers["counts"])["prediction"].astype(float)
    assert np.flatnonzero(found.isna()).tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(found[[0, 5]], counts.predict(rows)[[0, 5]], rtol=1e-12)
    sums = pd.DataFrame(answers["plain"])["prediction"]
    np.testing.assert_allclose(sums, plain.predict(rows) + 2.5, rtol=0, atol=1e-12)


def test_what_pmml_has_no_room_for_is_refused() -> None:
    for model, words in (
        (
            remainder_model("regression"),
            "model: PMML holds nothing but components.*remainder=False",
        ),
        (model_of("quantiles"), "one output, found 4.*to_code\\('c'\\)"),
        (replace(model_of("several classes"), output_names=("a", "b\0", "c")), "control char"),
    ):
        with pytest.raises(ValueError, match=words):
            model.to_code("pmml")


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (5, "codes: must have a code and a text .*, found 5"),
        ("abc", "codes: must have a code and a text .*, found 'abc'"),
        ({"count": 5}, "codes: must have a code and a text .*, found 'count': 5"),
        ({"count": (["R7"], "Many")}, "codes: must have a code and a text"),
        ({"count": ("R\0", "Many")}, "codes: codes must have no control characters"),
    ],
)
def test_wrong_codes_are_named(codes: Any, words: str, tmp_path: Path) -> None:
    card = scorecard(mixed_model(1, "logit"), max_bands=3)
    with pytest.raises(ValueError, match=words):
        card.to_pmml(tmp_path / "card.pmml", codes)
