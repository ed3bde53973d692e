"""Wrong input gets one clear sentence: the argument, the rule, what was found, what to do."""

from __future__ import annotations

from datetime import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators.base import INSTEAD

X = np.random.default_rng(0).normal(size=(30, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2]


def changed(array: np.ndarray, value: float) -> np.ndarray:
    array = array.copy()
    array[4, ...] = value
    return array


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(**columns)


BAD_TABLES: dict[str, tuple[Any, Any, str]] = {
    "no rows": (X[:0], Y[:0], "X: at least 2 rows are needed, found 0"),
    "one row": (X[:1], Y[:1], "X: at least 2 rows are needed, found 1"),
    "no columns": (X[:, :0], Y, "X: a table needs columns, found 0"),
    "one dimension": (X[:, 0], Y, "X: a 2-dimensional table is needed, found shape"),
    "three dimensions": (X[None], Y, "X: a 2-dimensional table is needed, found shape"),
    "infinite": (changed(X, np.inf), Y, "X: every value must be finite or missing, found inf in"),
    "mixture": (frame(b=["one", 2] * 15), Y, "X: a column must hold numbers, dates or strings, fo"),
    "objects": (frame(b=[{"a": 1}] * 30), Y, "X: a column must hold numbers, dates or strings, fo"),
    "periods": (
        frame(b=pd.period_range("2020", periods=30, freq="M")), Y,
        r"X: .* found Period.* for example with X\[name\]\.dt\.to_timestamp\(\)\.",
    ),
    "times of day": (
        frame(b=[time(1)] * 30), Y, r"X: .* found datetime\.time.* to seconds since midnight\."
    ),
    "complex": (X + 1j, Y, "X: columns must be real numbers, found complex"),
    "repeated names": (
        frame().set_axis(["a", "b", "a"], axis=1), Y, "X: column names must be unique, found .*'a'"
    ),
    "mixed names": (frame().set_axis(["a", 1, "c"], axis=1), Y, "X: feature names must all be str"),
    "sparse": (sparse.csr_matrix(X), Y, "X: must be dense, sparse input"),
    "lengths": (X, Y[:-1], "y: one value per row of X is needed, found 29 for 30"),
    "no target": (X, None, "y: targets are needed, found None"),
    "NaN target": (X, changed(Y, np.nan), "y: every target must be finite, found NaN or inf in 1"),
    "infinite target": (X, changed(Y, np.inf), "y: every target must be finite"),
    "date target": (X, pd.date_range("2020", periods=30), "y: targets must be numbers or labels"),
    "string target": (X, ["a"] * 30, "y: targets must be numbers"),
}  # fmt: skip


def test_lazy_table() -> None:
    lazy = pytest.importorskip("polars").from_pandas(frame()).lazy()
    with pytest.raises(TypeError, match=r"^X: must be in memory, .* LazyFrame .*Pass X\.collect\("):
        TPNNRegressor(**QUICK).fit(lazy, Y)


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_table(case: str) -> None:
    table, target, words = BAD_TABLES[case]
    with pytest.raises((ValueError, TypeError), match=rf"^{words}") as caught:
        TPNNRegressor(**QUICK).fit(table, target)
    assert str(caught.value).rstrip(").").count(". ") >= 1  # a sentence that says what to do


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(29), "sample_weight: one weight per row is needed, found shape"),
        (-np.ones(30), "sample_weight: weights must be finite, none negative"),
        (np.zeros(30), "sample_weight: weights must be finite, none negative and not all zero"),
        (changed(np.ones(30), np.nan), "sample_weight: weights must be finite"),
        (["heavy"] * 30, "sample_weight: must be numbers"),
    ],
)
def test_bad_weights(weights: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^{words}"):
        TPNNRegressor(**QUICK).fit(X, Y, sample_weight=weights)


def test_bad_offset() -> None:
    model = TPNNRegressor(**QUICK)
    with pytest.raises(ValueError, match=r"^offset: one finite number per row"):
        model.fit(X, Y, offset=np.ones(3))
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"^offset: one finite number per row"):
        model.predict(X, offset=changed(Y, np.nan))


def test_one_class_only() -> None:
    with pytest.raises(ValueError, match=r"^y: at least two classes are needed, found 1 class"):
        TPNNClassifier(**QUICK).fit(X, np.zeros(30))


@pytest.mark.parametrize(
    ("objective", "target", "words"),
    [
        ("poisson", -np.ones(30), "numbers of at least 0, not all 0, found values from -1"),
        ("gamma", np.zeros(30), "positive numbers, found values from 0"),
        ("tweedie", np.zeros(30), "numbers of at least 0, not all 0"),
    ],
)
def test_targets_out_of_range(objective: str, target: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^y: the objective '{objective}' needs {words}"):
        TPNNRegressor(**QUICK, objective=objective).fit(X, target)


def test_targets_of_rows_that_count_are_not_all_0() -> None:
    counts = np.arange(30.0) % 3
    with pytest.raises(
        ValueError, match=r"^y: the objective 'poisson' needs .* found values from 0"
    ):
        TPNNRegressor(**QUICK, objective="poisson").fit(X, counts, sample_weight=counts == 0)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"shapes": {"age": "increasing"}}, "shapes: features must be names or .*'age'"),
        ({"categorical": ["age"]}, "categorical: features must be names or .*'age'"),
        (
            {"shapes": {"x0": "increasing"}, "categorical": ["x0"]},
            "shapes: a shape needs ",
        ),
    ],
)
def test_features_that_cannot_be_meant(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        TPNNRegressor(**QUICK, **parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, "times are needed, found None"),
        (np.ones((30, 3)), "every entry must be before its time, found 30 rows where it is not"),
        (Y, "times must be finite and not negative"),
        (np.column_stack([-np.ones(30), np.ones(30)]), "times must be finite and not negative"),
        (np.column_stack([np.ones(30), np.full(30, 2)]), r"events must be 0 or 1, found \[2\]"),
        (
            np.column_stack([np.ones(30), np.arange(30) % 3]),
            r"events must be 0 or 1, found \[0, 1, 2\]. Of competing events, say which",
        ),
        (
            pd.DataFrame({"until": pd.Timestamp("2020") + pd.to_timedelta(Y, "D"), "died": True}),
            "times and events must be real numbers, found dates. Subtract the date at which",
        ),
        (np.column_stack([np.ones(30), np.zeros(30)]), "at least one event must be observed"),
        (
            pd.DataFrame({"until": np.ones(30), "event": ["died"] * 30}),
            "times and events must be real numbers, found could not convert .*'died'. Pass the ti",
        ),
    ],
)
def test_survival_targets(target: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=f"^y: {words}"):
        TPNNSurvival(**QUICK).fit(X, target)


@pytest.mark.parametrize("name", INSTEAD)
def test_arguments_of_other_libraries(name: str) -> None:
    for model in (TPNNRegressor(**QUICK), TPNNClassifier(**QUICK), TPNNSurvival(**QUICK)):
        with pytest.raises(TypeError, match=f"^{name}: fit does not support it. [A-Z]"):
            model.fit(X, Y, **{name: None})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        TPNNRegressor(**QUICK).fit(X, Y, colour="red")


@pytest.mark.parametrize("labels", [[1, "a"] * 15, [("a", 1), ("b", 2)] * 15, Y.tolist()])
def test_odd_labels(labels: list[Any]) -> None:
    with pytest.raises(
        ValueError, match=r"^y: labels must be all text, or all whole numbers or bo"
    ):
        TPNNClassifier(**QUICK).fit(X, pd.Series(labels, dtype=None))


def test_a_class_for_each_row_warns_at_the_users_line() -> None:
    with pytest.warns(UserWarning, match=r"^y: there are 30 classes in 30 rows") as caught:
        TPNNClassifier(**QUICK, order=1).fit(X, np.arange(30))
    assert caught[0].filename == __file__
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
def test_targets_near_the_largest_number() -> None:
    rng = np.random.default_rng(1)
    TPNNRegressor(random_state=0).fit(rng.normal(size=(40, 2)), rng.normal(size=40) * 1e307)


def test_more_components_than_memory() -> None:
    wide = np.random.default_rng(0).normal(size=(20, 3000))
    with pytest.raises(MemoryError, match=r"^interactions: .* GB are needed\. Lower order, n_bags"):
        TPNNRegressor(interactions="all").fit(wide, wide[:, 0])


def test_predict_before_fit() -> None:
    for method in (
        TPNNRegressor().predict,
        TPNNClassifier().predict_proba,
        TPNNRegressor().explain,
    ):
        with pytest.raises(NotFittedError):
            method(X)


def test_columns_are_found_by_name() -> None:
    model = TPNNRegressor(**QUICK).fit(frame(), Y)
    expected = model.predict(frame())
    assert np.array_equal(model.predict(frame()[["c", "a", "b"]]), expected)
    assert np.array_equal(model.predict(frame(extra=1.0)), expected)
    assert np.array_equal(model.predict(X), expected)
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['b'\] is"):
        model.predict(frame()[["a", "c"]])


def test_wrong_number_of_columns() -> None:
    model = TPNNRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"^X: the number of columns must be that of fit: X has 2"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match=r"^X: every value must be finite"):
        model.predict(changed(X, np.inf))


def test_constant_column_has_no_effect() -> None:
    with_constant = np.column_stack([X, np.full(30, 7.0)])
    model = TPNNRegressor(**QUICK).fit(with_constant, Y)
    importance = model.explain().importance()
    assert not any("x3" in names for names in importance)
    assert max(importance.values()) > 0
    other = with_constant * [1, 1, 1, 5]
    assert np.array_equal(model.predict(with_constant), model.predict(other))


def test_constant_target_is_predicted_exactly() -> None:
    model = TPNNRegressor(**QUICK).fit(X, np.full(30, 4.5))
    assert np.allclose(model.predict(X), 4.5, atol=1e-12)
    assert model.model_.identifiability_error() <= 1e-12


def test_tiny_table() -> None:
    model = TPNNRegressor(**QUICK).fit([[0.0], [1.0]], [0.0, 1.0])
    low, high = model.predict([[0.0], [1.0]])
    assert low < high


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_targets(settings: dict[str, Any], scale: float) -> None:
    expected = TPNNRegressor(**settings).fit(X, Y).predict(X)
    scaled = TPNNRegressor(**settings).fit(X, Y * scale).predict(X)
    assert np.allclose(scaled / scale, expected, atol=0.5)
    assert np.corrcoef(scaled / scale, expected)[0, 1] > 0.99


def test_extreme_weights() -> None:
    heavy = TPNNRegressor(**QUICK).fit(X, Y, sample_weight=np.full(30, 1e307))
    assert np.isfinite(heavy.predict(X)).all()
    label = Y > 0
    lopsided = TPNNClassifier(**QUICK).fit(X, label, sample_weight=np.where(label, 1.0, 1e-300))
    assert np.isfinite(lopsided.predict_proba(X)).all()


def test_pairs_of_labels() -> None:
    with pytest.raises(ValueError, match=r"^y: one value per row is needed, found shape \(30, 2\)"):
        TPNNClassifier(**QUICK).fit(X, [("a", "b"), ("b", "a")] * 15)


def test_labels_with_gaps() -> None:
    labels = np.array(["a", "b", None] * 10, dtype=object)
    with pytest.raises(
        ValueError, match=r"^y: targets must be numbers or labels, found dates, None"
    ):
        TPNNClassifier(**QUICK).fit(X, labels)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "category", "Float64"])
def test_nullable_labels_with_gaps(dtype: str) -> None:
    labels = pd.Series([0, 1, None] * 10, dtype="Int64").astype(dtype)
    with pytest.raises(ValueError, match=r"^y: every row needs a label, found .* in 10 of 30 rows"):
        TPNNClassifier(**QUICK).fit(X, labels)


@pytest.mark.parametrize("library", ["numpy", "polars", "pyarrow"])
def test_labels_with_gaps_in_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    values = ["a", "b", None] * 10
    labels = {
        "numpy": lambda: np.ma.array([0, 1, 2] * 10, mask=[0, 0, 1] * 10),
        "polars": lambda: module.Series(values),
        "pyarrow": lambda: module.chunked_array([module.array(values).dictionary_encode()]),
    }[library]()
    with pytest.raises(ValueError, match=r"^y: every row needs a label, found .* in 10 of 30 rows"):
        TPNNClassifier(**QUICK).fit(X, labels)


def test_labels_of_polars_are_no_array_of_fixed_width() -> None:
    """Which would give each of them the room of the longest."""
    labels = pytest.importorskip("polars").Series(["a", "b"] * 15)
    model = TPNNClassifier(**QUICK).fit(X, labels)
    assert model.classes_.dtype == object
    assert set(model.predict(X)) <= {"a", "b"}


def test_large_offsets_cost_no_precision() -> None:
    offset = np.linspace(-1e9, 1e9, 30)
    plain = TPNNRegressor(**QUICK).fit(X, Y).predict(X)
    shifted = TPNNRegressor(**QUICK).fit(X, Y + offset, offset=offset).predict(X, 0 * offset)
    assert np.abs(shifted - plain).mean() < 2e-2  # growth magnifies the last digits of 1e9


def test_explaining_rows_needs_rows() -> None:
    model = TPNNRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"^rows: this needs an explanation .* Call explain"):
        model.explain().shap_values()


def test_huge_and_tiny_magnitudes() -> None:
    scaled = X * np.array([1e300, 1e-300, 1.0])
    model = TPNNRegressor(**{**QUICK, "n_bags": 8}).fit(scaled, Y)
    assert model.score(scaled, Y) > 0.7
    assert np.isfinite(model.predict(scaled * 1e5)).all()
