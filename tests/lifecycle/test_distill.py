"""A black box is approximated well where it can be, and honestly where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from tpnn import distill
from tpnn.lifecycle.distill import FidelityWarning, _r2, _recombined

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(600, 3)), columns=list("abc"))


def smooth(table: Any) -> np.ndarray:
    values = np.asarray(table, float)
    return np.sin(values[:, 0]) + values[:, 1] * values[:, 2]


def test_components_of_a_known_function_are_found() -> None:
    model = distill(smooth, X, random_state=0)
    assert model.fidelity_ > 0.98
    local = model.explain(X[:100])
    truth = np.sin(X["a"]) - np.sin(X["a"]).mean()
    assert np.corrcoef(local.scores[:, local.find("a")], truth[:100])[0, 1] > 0.98
    values = local.shap_values().values
    product = (X["b"] * X["c"])[:100]
    assert np.corrcoef(values[:, 1] + values[:, 2], product)[0, 1] > 0.95


def test_what_no_component_shows_of_a_black_box_is_in_the_remainder() -> None:
    table = pd.DataFrame(RNG.normal(size=(600, 5)), columns=list("abcde"))

    def box(rows: pd.DataFrame) -> Any:
        return rows["a"] + 2 * np.sign(rows["b"] * rows["c"] * rows["d"])

    settings = {"random_state": 0, "max_components": 2, "n_queries": 4000}
    model = distill(box, table, remainder=True, **settings)
    with pytest.warns(FidelityWarning):
        alone = distill(box, table, order=2, **settings)
    assert model.fidelity_ > alone.fidelity_ + 0.3
    rest = model.model_.remainder_scores(table)
    assert np.corrcoef(rest, box(table) - table["a"])[0, 1] > 0.9


def test_fidelity_is_r2_on_rows_held_out() -> None:
    """Answers that are noise can be learned by heart but not predicted."""
    noise = dict(zip(X["a"], RNG.normal(size=len(X)), strict=True))
    with pytest.warns(FidelityWarning, match=r"^fidelity: the decomposition explains \d+ % of"):
        model = distill(lambda t: t["a"].map(noise), X, n_queries=0, random_state=0)
    assert model.fidelity_ < 0.2


@pytest.mark.parametrize("kind", ["function", "estimator", "array"])
def test_kinds_of_black_boxes(kind: str) -> None:
    linear = LinearRegression().fit(X.to_numpy(), X["a"] - 2 * X["b"])
    table = X.to_numpy()
    box = linear.predict if kind == "function" else linear
    if kind == "array":
        box = lambda rows: linear.predict(rows).reshape(-1, 1)  # noqa: E731
    model = distill(box, table, order=1, n_queries=2000, random_state=0)
    assert model.fidelity_ > 0.99


def test_classifiers_are_approximated_by_their_log_odds() -> None:
    labels = smooth(X) > 0
    forest = RandomForestClassifier(50, min_samples_leaf=20, random_state=0).fit(X, labels)
    model = distill(forest, X, random_state=0)
    share = forest.predict_proba(X)[:, 1]
    log_odds = np.log(share / (1 - share))
    assert np.corrcoef(model.predict(X), log_odds)[0, 1] > 0.95


def test_the_same_seed_gives_the_same_model() -> None:
    first, second = (distill(smooth, X, n_queries=1000, random_state=3) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))
    assert first.fidelity_ == second.fidelity_


def test_labels_and_missing_values_reach_the_black_box() -> None:
    table = X.assign(kind=pd.Categorical(RNG.choice(["u", "v"], len(X))))
    table.loc[::7, "b"] = np.nan
    seen: list[pd.DataFrame] = []

    def box(rows: pd.DataFrame) -> np.ndarray:
        seen.append(rows)
        return np.where(rows["kind"] == "u", 1.0, -1.0) + rows["b"].isna()

    assert distill(box, table, order=1, n_queries=3000, random_state=0).fidelity_ > 0.99
    assert all(rows.dtypes.equals(table.dtypes) for rows in seen)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_the_black_box_gets_tables_of_the_library_of_x(library: str) -> None:
    module = pytest.importorskip(library)
    frame = X.assign(kind=pd.Categorical(RNG.choice(["u", "v", None], len(X))))
    table = module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)
    seen: list[Any] = []

    def box(rows: Any) -> np.ndarray:
        seen.append(rows)
        kinds = rows["kind"].to_list() if library == "polars" else rows["kind"].to_pylist()
        return np.array([{"u": 1.0, "v": -1.0, None: 0.0}[kind] for kind in kinds])

    model = distill(box, table, order=1, n_queries=3000, random_state=0)
    assert model.fidelity_ > 0.99
    assert len(seen) == 2
    assert all(type(rows) is type(table) and rows.schema == table.schema for rows in seen)


def test_one_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^X: at least 2 rows are needed, found 1 sample"):
        distill(smooth, X[:1])


def test_lists_reach_the_black_box_with_their_numbers() -> None:
    rows = [[number, "u" if number % 2 else "v"] for number in range(40)]
    model = distill(lambda t: t[:, 0].astype(float), rows, order=1, n_queries=0, random_state=0)
    assert model.model_.encoder.features[0].kind == "number"


BAD_BOXES: dict[str, tuple[Any, str]] = {
    "NaN": (lambda t: np.full(len(t), np.nan), "predict: every answer must be finite, found NaN"),
    "wrong length": (lambda t: np.zeros(3), r"predict: must return one number per row, shape \("),
    "two columns": (lambda t: np.zeros((len(t), 2)), "predict: must return one number per row"),
    "strings": (lambda t: np.full(len(t), "a"), "predict: must return one number per row"),
    "no function": (3, "predict: a function or a fitted model is needed, found int"),
}


@pytest.mark.parametrize("case", BAD_BOXES)
def test_bad_black_box(case: str) -> None:
    box, words = BAD_BOXES[case]
    with pytest.raises((ValueError, TypeError), match=f"^{words}"):
        distill(box, X)


def test_three_classes_are_refused() -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(X, RNG.integers(0, 3, len(X)))
    with pytest.raises(ValueError, match=r"^predict: predict_proba must have two columns, found"):
        distill(forest, X)


# Queries


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow"])
def test_queries_recombine_training_rows(library: str) -> None:
    """The first queries are the training rows; each value of the others comes from one of them."""
    frame = X.assign(kind=pd.Categorical(RNG.choice(["u", "v"], len(X)))).set_index(X.index // 2)
    training = np.arange(0, 100, 3)
    table: Any = frame.to_numpy() if library == "numpy" else frame
    if library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        plain = frame.reset_index(drop=True)
        table = (
            module.from_pandas(plain) if library == "polars" else module.Table.from_pandas(plain)
        )
    found = _recombined(table, training, 200, np.random.default_rng(0))
    rows = found.to_pandas() if library in ("polars", "pyarrow") else pd.DataFrame(found)
    assert len(rows) == len(training) * round(200 / len(training))
    chosen = frame.iloc[training].reset_index(drop=True)
    for column in range(4):
        expected = chosen.iloc[:, column].tolist()
        assert rows.iloc[: len(training), column].tolist() == expected
        assert set(rows.iloc[:, column]) <= set(expected)
    whole = {tuple(row) for row in chosen.itertuples(index=False)}
    assert any(tuple(row) not in whole for row in rows.itertuples(index=False))
    if library == "pandas":
        assert rows.index.equals(pd.RangeIndex(len(rows)))
        assert rows.dtypes.equals(frame.dtypes)


def test_queries_have_the_marginals_of_the_rows() -> None:
    """Every row is asked about as often as any other, in every column."""
    rows = np.arange(40.0).reshape(20, 2)
    found = _recombined(rows, np.arange(20), 200, np.random.default_rng(0))
    for column in range(2):
        values, counts = np.unique(found[:, column], return_counts=True)
        assert np.array_equal(values, rows[:, column])
        assert counts.mean() == 10


@pytest.mark.parametrize(
    ("answers", "predictions", "expected"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 1.0),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], 0.0),
        ([5.0, 5.0], [5.0, 5.0], 1.0),
        ([5.0, 5.0], [5.0, 6.0], 0.0),
        ([5.0], [6.0], 0.0),
    ],
)
def test_fidelity_by_hand(answers: list, predictions: list, expected: float) -> None:
    assert _r2(np.array(answers), np.array(predictions)) == expected


def test_fidelity_agrees_with_scikit_learn() -> None:
    answers, predictions = RNG.normal(size=(2, 50))
    assert _r2(answers, predictions) == pytest.approx(r2_score(answers, predictions))


def test_the_report_says_how_faithful_the_model_is(tmp_path: Path) -> None:
    model = distill(lambda rows: rows["a"], X, order=1, n_queries=0, n_bags=1, random_state=0)
    model.report(tmp_path / "page.html", X[:50], X["a"][:50])
    assert "Fidelity to the black box" in (tmp_path / "page.html").read_text()
