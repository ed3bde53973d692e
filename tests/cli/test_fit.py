"""Options of ``tpnn fit`` do what the estimators' parameters do, and its score is honest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from tests.cli.commands import run
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, load

QUICK = ("--bags", 1, "--order", 1, "--held-out", 0)
SETTINGS: dict[str, Any] = {"n_bags": 1, "order": 1, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Claims of policies, with weights, exposures, times and labels."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 80, 500),
            "region": rng.integers(1, 6, 500),
            "exposure": rng.uniform(0.2, 1, 500),
            "weight": rng.integers(1, 4, 500),
            "died": rng.integers(0, 2, 500),
        }
    )
    rate = np.exp((table["age"] - 50) / 30 + (table["region"] == 2))
    table["claims"] = rng.poisson(table["exposure"] * rate)
    table["time"] = rng.exponential(1 / rate)
    path: Path = tmp_path_factory.mktemp("claims") / "claims.csv"
    table.to_csv(path, index=False, float_format="%.6f")
    return path


def features(claims: Path, *left_out: str) -> pd.DataFrame:
    return pd.read_csv(claims).drop(columns=list(left_out))


def fitted(claims: Path, *options: Any) -> Any:
    output = claims.parent / "model.tpnn"
    assert run("fit", claims, *options, "-o", output) == 0
    return load(output).model_


def test_objective_exposure_and_shape(claims: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model knows the column of its exposures: predictions need no option for it."""
    options = ("--objective", "poisson", "--exposure", "exposure", "--shapes", "age=increasing")
    model = fitted(claims, "--target", "claims", *options, *QUICK)
    X, y = features(claims, "claims"), pd.read_csv(claims)["claims"]
    settings = {**SETTINGS, "objective": "poisson", "exposure": "exposure"}
    expected = TPNNRegressor(shapes={"age": "increasing"}, **settings).fit(X, y)
    assert model.shapes == {"age": "increasing"}
    assert "exposure" not in model.feature_names
    assert np.array_equal(model.predict(X), expected.predict(X))
    output = claims.with_name("answers.csv")
    assert run("predict", claims.with_name("model.tpnn"), claims, "-o", output) == 0
    assert np.allclose(pd.read_csv(output)["prediction"], expected.predict(X))
    capsys.readouterr()
    assert run("summary", claims.with_name("model.tpnn"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["offset"] == "logarithm of column 'exposure'"
    assert told["shapes"] == {"age": "increasing"}


def test_an_offset_is_used_as_it_stands(claims: Path) -> None:
    model = fitted(claims, "--target", "time", "--offset", "exposure", *QUICK)
    X, y = features(claims, "time"), pd.read_csv(claims)["time"]
    expected = TPNNRegressor(offset="exposure", **SETTINGS).fit(X, y)
    assert np.array_equal(model.predict(X), expected.predict(X))


def test_weights_and_largest_number_of_components(claims: Path) -> None:
    options = ("--weights", "weight", "--max-components", 2, "--seed", 3)
    model = fitted(claims, "--target", "time", *options, *QUICK)
    X, table = features(claims, "time", "weight"), pd.read_csv(claims)
    settings = {**SETTINGS, "random_state": 3, "max_components": 2}
    expected = TPNNRegressor(**settings).fit(X, table["time"], table["weight"])
    assert len(model.components) == 2
    assert np.array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("task", [(), ("--task", "survival")])
def test_survival(claims: Path, task: Any) -> None:
    model = fitted(claims, "--target", "time", "--event", "died", *task, *QUICK)
    X = features(claims, "time", "died")
    y = pd.read_csv(claims)[["time", "died"]].to_numpy()
    expected = TPNNSurvival(**SETTINGS).fit(X, y)
    assert np.array_equal(model.raw_scores(X), expected.predict(X))


def test_categorical_columns_are_labels(claims: Path) -> None:
    model = fitted(claims, "--target", "time", "--categorical", "region", *QUICK)
    kinds = dict(zip(model.feature_names, model.encoder.features, strict=True))
    assert kinds["region"][:2] == ("nominal", ("1", "2", "3", "4", "5"))
    assert kinds["age"].kind == "number"


def test_quantiles(claims: Path) -> None:
    model = fitted(claims, "--target", "time", "--objective", "quantile:0.1,0.9", *QUICK)
    assert model.output_names == ("0.1", "0.9")


def test_one_of_several_kinds_of_events(claims: Path) -> None:
    table = pd.read_csv(claims)
    table["kind"] = np.arange(len(table)) % 3
    table.to_csv(claims.with_name("kinds.csv"), index=False)
    options = ("--target", "time", "--event", "kind", *QUICK)
    model = fitted(claims.with_name("kinds.csv"), *options, "--objective", "fine_gray:2")
    assert (model.task.objective.name, model.task.objective.cause) == ("fine_gray", 2)
    assert model.evidence.baseline is not None


def test_the_score_is_that_of_a_fit_to_the_other_rows(
    claims: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model that is saved is fitted to all rows, with or without a score."""
    options = ("--target", "time", "--bags", 1, "--order", 1)
    model = fitted(claims, *options, "--json", "--held-out", 0.25)
    told = json.loads(capsys.readouterr().out)
    assert told["held_out_rows"] == 125
    table = pd.read_csv(claims)
    held_out = np.random.default_rng(0).permutation(500)[:125]
    X, y = table.drop(columns="time"), table["time"]
    apart = TPNNRegressor(**SETTINGS).fit(X.drop(held_out), y.drop(held_out))
    score = r2_score(y[held_out], apart.predict(X.loc[held_out]))
    assert told["scores"]["R2"] == pytest.approx(score, rel=1e-9)
    assert np.array_equal(model.predict(X), fitted(claims, *options, *QUICK).predict(X))


def test_every_class_is_held_out_and_learned_from(
    claims: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class of three rows too: none of its rows is scored by a model that has not seen it."""
    table = pd.read_csv(claims).assign(label=["a"] * 3 + ["b", "c"] * 248 + ["b"])
    path = claims.with_name("labels.csv")
    table.to_csv(path, index=False)
    options = ("--target", "label", "--bags", 1, "--order", 1, "--held-out", 0.4, "--json")
    assert run("fit", path, *options, "-o", claims.with_name("labels.tpnn")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held_out_rows"] == 1 + int(0.4 * 249) + int(0.4 * 248)
    assert set(told["scores"]) >= {"Accuracy", "log_loss"}


def test_words_of_the_score(claims: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", "time", "--event", "died", "--bags", 1, "--order", 1)
    events = pd.read_csv(claims)["died"].value_counts()
    assert (0.2 * events).astype(int).sum() == 100
    fitted(claims, *options)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("survival: 500 rows, ")
    assert lines[1].startswith("on 100 held-out rows, fitted to the others: cox ")
    fitted(claims, *options, "--held-out", 0)
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "time", "--weights", "z"), "--weights: must be a column of the table, found"),
        (("--target", "time", "--event", "z"), "--event: must be a column of the table, found 'z'"),
        (("--target", "time", "--offset", "z"), "--offset: must be a column of the table"),
        (("--target", "time", "--exposure", "z"), "--exposure: must be a column of the table"),
        (
            ("--target", "died", "--exposure", "time"),
            "--exposure: is for regression",
        ),
        (("--target", "time", "--exposure", "age"), "exposure: an objective with a log link is"),
        (("--target", "time", "--task", "survival"), "--event: survival needs it."),
        (
            ("--target", "time", "--task", "regression", "--event", "died"),
            "--event: is for survival, and this is a task of regression.",
        ),
        (
            ("--target", "died", "--task", "classification", "--objective", "gamma"),
            "--objective: is for regression, and this is a task of classification.",
        ),
        (
            ("--target", "time", "--event", "died", "--objective", "gamma"),
            "--objective: is for regression, and this is a task of survival.",
        ),
        (
            ("--target", "time", "--objective", "cox"),
            "--event: survival needs it.",
        ),
    ],
)
def test_what_cannot_be_fitted_is_said(
    claims: Path, options: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", claims, *options, "-o", claims.with_name("never.tpnn")) == 1
    assert capsys.readouterr().err.startswith(f"tpnn fit: {words}")


@pytest.mark.parametrize(
    "options",
    [
        ("--held-out", "1"),
        ("--held-out", "half"),
        ("--shapes", "age"),
        ("--objective", "gamma:2"),
        ("--objective", "tweedie:much"),
        ("--separator", "::"),
        ("--offset", "a", "--exposure", "b"),
    ],
)
def test_wrong_options(claims: Path, options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("fit", claims, "--target", "time", *options)
    assert stopped.value.code == 2
    assert options[-2] in capsys.readouterr().err.splitlines()[-1]


def test_the_classifier_is_the_library_s(claims: Path) -> None:
    model = fitted(claims, "--target", "died", *QUICK)
    X, y = features(claims, "died"), pd.read_csv(claims)["died"]
    expected = TPNNClassifier(**SETTINGS).fit(X, y)
    assert np.array_equal(model.predict(X), expected.predict_proba(X)[:, 1])
