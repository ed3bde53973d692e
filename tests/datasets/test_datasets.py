"""Tests of the shipped data, the loader and the synthetic functions."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import resources
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from scipy.special import erf

from tpnn.datasets import (
    Synthetic,
    load,
    make_synthetic,
    true_component,
    true_importance,
    true_variance,
)

CALHOUSING = ["MedInc", "HouseAge", "AveRooms", "AveBedrms"]
CALHOUSING += ["Population", "AveOccup", "Latitude", "Longitude"]
SHIPPED = ("calhousing", "abalone", "wine")
NAMES = ("f1", "f2", "f3")
DATA = resources.files("tpnn.datasets") / "data"


# Shipped data


@pytest.mark.parametrize(
    ("name", "shape", "target", "mean"),
    [
        ("calhousing", (20640, 8), "MedHouseVal", 2.06856),
        ("abalone", (4177, 8), "Rings", 9.9337),
        ("wine", (4898, 11), "quality", 5.8779),
    ],
)
def test_shipped_shape_and_target(
    name: str, shape: tuple[int, int], target: str, mean: float
) -> None:
    X, y = load(name)
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert y.name == target
    assert y.mean() == pytest.approx(mean, abs=1e-4)
    assert not X.isna().any(axis=None)


def test_calhousing_columns_and_first_row() -> None:
    X, y = load("calhousing")
    assert list(X.columns) == CALHOUSING
    assert (X.dtypes == np.float64).all()
    first = [8.3252, 41.0, 880 / 126, 129 / 126, 322.0, 322 / 126, 37.88, -122.23]
    assert X.iloc[0].tolist() == first
    assert y.iloc[0] == 4.526


def test_abalone_sex_is_a_string() -> None:
    X, y = load("abalone")
    assert X["Sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (X.drop(columns="Sex").dtypes == np.float64).all()
    assert y.dtype == np.int64


def test_shipped_files_match_the_readme_and_are_small() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    contents = [(DATA / f"{name}.csv.gz").read_bytes() for name in SHIPPED]
    assert all(hashlib.sha256(content).hexdigest() in readme for content in contents)
    assert sum(map(len, contents)) < 1_000_000


def test_shipped_files_have_no_time_stamp() -> None:
    for name in SHIPPED:
        assert (DATA / f"{name}.csv.gz").read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_equals_reference_copy(name: str) -> None:
    path = Path(os.environ.get("TPNN_DATA", "")) / f"{name}.parquet"
    if "TPNN_DATA" not in os.environ or not path.is_file():
        pytest.skip(f"TPNN_DATA names no folder with {name}.parquet")
    pytest.importorskip("pyarrow")
    reference = pd.read_parquet(path)
    X, y = load(name)
    table = pd.concat([X, y], axis=1)
    assert list(table.columns) == list(reference.columns)
    assert all((table[column] == reference[column]).all() for column in table.columns)


# Loader


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPNN_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["churn", "my_own"])
def test_parquet_in_folder(name: str, folder: Path) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"], "target": [0, 1]})
    table.to_parquet(folder / f"{name}.parquet")
    X, y = load(name)
    assert list(X.columns) == ["a", "b"]
    assert y.name == "target"
    assert y.tolist() == [0, 1]


def test_missing_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "churn.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'churn\.parquet.*pip install "tpnn\[data\]"'):
        load("churn")


@pytest.mark.parametrize(
    "name", ["fico_heloc", "drybean", "celeba_attr", "online_news_subset", "credit_subset"]
)
def test_missing_file(name: str, folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    message = str(caught.value)
    assert message.startswith(f"name: {name!r} must be in the folder TPNN_DATA or at OpenML")
    assert f"no file {folder / name}.parquet" in message
    assert f"set the environment variable TPNN_DATA to a folder that contains {name}" in message


def test_missing_file_without_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPNN_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="TPNN_DATA not set"):
        load("fico_heloc")


def test_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPNN_DATA", raising=False)
    with pytest.raises(ValueError, match=r"^name: must be one of calhousing, .*found 'nothing'"):
        load("nothing")


def test_openml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch_openml(data_id: int, as_frame: bool) -> SimpleNamespace:
        asked.append((data_id, as_frame))
        data = pd.DataFrame({"url": ["x"], "timedelta": [1.0], "n_tokens_title": [12.0]})
        return SimpleNamespace(data=data, target=pd.Series([593.0], name="shares"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    X, y = load("online_news")
    assert asked == [(4545, True)]
    assert list(X.columns) == ["n_tokens_title"]
    assert y.name == "shares"


@pytest.mark.parametrize("error", [URLError("no route"), ValueError("no such set"), TimeoutError()])
def test_openml_failure(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_openml(**_: object) -> None:
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(
        FileNotFoundError, match=r"^name: .letter. .*data set 6 out of reach"
    ) as caught:
        load("letter")
    assert caught.value.__cause__ is error


# Synthetic functions


def component_at_random(name: str, features: tuple[int, ...], n: int = 40) -> np.ndarray:
    """Return the component at random points."""
    return true_component(name, features, make_synthetic(name, n, random_state=5).X)


def log_component(features: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    r"""Return a component of log(x4^2 + x5^2 + x7^2 + x8^2) by an independent formula.

    From log s = int_0^inf (e^-t - e^-ts) dt/t, with g(t) = E e^(-t X^2), the component of S is
    - int_0^inf g^(4 - |S|) prod_{j in S} (e^(-t x_j^2) - g) dt/t, here with t = e^u.
    """
    u = np.linspace(-30, 60, 3001)
    t = np.exp(u)
    g = np.sqrt(np.pi / t) / 2 * erf(np.sqrt(t))
    factors = [np.exp(-t * x[:, [j]] ** 2) - g for j in features]  # (n, u) each
    return -np.sum(g ** (4 - len(features)) * np.prod(factors, axis=0), axis=1) * (u[1] - u[0])


@pytest.mark.parametrize(("name", "p"), [("f1", 5), ("f2", 10), ("f3", 10)])
def test_sample(name: str, p: int) -> None:
    data = make_synthetic(name, random_state=0)
    assert isinstance(data, Synthetic)
    assert list(data.X.columns) == [f"X{j}" for j in range(1, p + 1)]
    assert len(data.X) == len(data.y) == len(data.f) == 15000
    assert data.f.mean() == pytest.approx(data.intercept, abs=5 * data.f.std() / 15000**0.5)


def test_sample_ranges() -> None:
    X = make_synthetic("f2", random_state=0).X
    high = ["X4", "X5", "X8", "X10"]
    np.testing.assert_allclose(X[high].min(), 0.6, atol=1e-3)
    np.testing.assert_allclose(X.drop(columns=high).min(), 0.0, atol=1e-3)
    np.testing.assert_allclose(X.max(), 1.0, atol=1e-3)
    X = make_synthetic("f3", random_state=0).X
    np.testing.assert_allclose(X.min(), -1.0, atol=1e-3)


def test_sample_is_determined_by_the_seed() -> None:
    one, two, other = (make_synthetic("f3", 50, random_state=seed) for seed in (7, 7, 8))
    pd.testing.assert_frame_equal(one.X, two.X)
    pd.testing.assert_series_equal(one.y, two.y)
    assert not one.X.equals(other.X)
    from_generator = make_synthetic("f3", 50, random_state=np.random.default_rng(7))
    pd.testing.assert_series_equal(one.y, from_generator.y)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", [5.0, 0.5])
def test_signal_to_noise(name: str, ratio: float) -> None:
    data = make_synthetic(name, 200_000, signal_to_noise=ratio, random_state=1)
    noise = data.y - data.f
    assert data.f.var() / noise.var() == pytest.approx(ratio, rel=0.02)
    assert data.f.var() == pytest.approx(ratio * data.noise_variance, rel=0.02)


def test_no_noise() -> None:
    data = make_synthetic("f1", 20, signal_to_noise=float("inf"), random_state=0)
    np.testing.assert_array_equal(data.y, data.f)


@pytest.mark.parametrize("name", NAMES)
def test_components_sum_to_the_function(name: str) -> None:
    data = make_synthetic(name, 100, random_state=2)
    p = data.X.shape[1]
    subsets = [s for size in range(5) for s in combinations(range(p), size)]
    total = sum(true_component(name, features, data.X) for features in subsets)
    np.testing.assert_allclose(total, data.f, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "features"),
    [("f1", (0, 1)), ("f2", (1,)), ("f2", (6, 8)), ("f3", (0, 1)), ("f3", (2, 3)), ("f3", (3, 4))],
)
def test_components_average_to_zero_along_each_feature(
    name: str, features: tuple[int, ...]
) -> None:
    data = make_synthetic(name, 1, random_state=3)
    for feature in features:
        x = np.repeat(data.X.to_numpy(), 4000, axis=0)
        low, high = (0.6, 1.0) if name == "f2" and feature in (3, 4, 7, 9) else (0.0, 1.0)
        low = -1.0 if name == "f3" else low
        x[:, feature] = low + (high - low) * (np.arange(4000) + 0.5) / 4000  # midpoint rule
        assert true_component(name, features, x).mean() == pytest.approx(0, abs=1e-5)


def test_f1_closed_forms() -> None:
    x = make_synthetic("f1", 50, random_state=4).X.to_numpy()
    sine = (1 - np.cos(np.pi * x[:, 0])) / (np.pi * x[:, 0])  # E sin(pi x1 X2)
    grid = (np.arange(20000) + 0.5) / 20000
    mean = np.mean((1 - np.cos(np.pi * grid)) / (np.pi * grid))
    expected = {
        (): 10 + 20 * (1 / 3 - 0.45 + 0.18) + 12.5 + 10 * mean,
        (0,): 10 * (x[:, 0] - 0.5) + 10 * (sine - mean),
        (2,): 20 * (x[:, 2] ** 2 - 0.9 * x[:, 2] - 1 / 3 + 0.45),
        (4,): 5 * (x[:, 4] - 0.5),
    }
    for features, values in expected.items():
        np.testing.assert_allclose(true_component("f1", features, x), values, atol=1e-7)


def test_f2_closed_forms() -> None:
    x = make_synthetic("f2", 50, random_state=4).X.to_numpy()
    inverse = np.log(1 / 0.6) / 0.4  # E 1 / X10
    root = 2 * (1 - np.sqrt(0.6)) / 0.4  # E 1 / sqrt(X8)
    pair = -(x[:, 8] - 0.5) * inverse * (np.sqrt(x[:, 6]) - 2 / 3) * root
    np.testing.assert_allclose(true_component("f2", (6, 8), x), pair, atol=1e-8)
    np.testing.assert_allclose(
        true_component("f2", (1, 6), x), -(x[:, 1] - 0.5) * (x[:, 6] - 0.5), atol=1e-12
    )


def test_f3_closed_forms() -> None:
    x = make_synthetic("f3", 50, random_state=4).X.to_numpy()
    one, two, three = x[:, 0], x[:, 1], np.abs(x[:, 2])
    main = np.cosh(one) * np.e - np.e * np.sinh(1)  # of E[exp|x1 - X2|] = e cosh(x1) - 1
    power = (three**2 - 1) / (2 * np.log(three))  # E |x3|^(2 |X4|)
    mean = np.e * np.sinh(1) - 1
    pair = np.exp(np.abs(one - two)) - np.e * (np.cosh(one) + np.cosh(two)) + 2 + mean
    expected = {
        (0,): main,
        (0, 1): pair,
        (2,): (three / 2 - 1 / 4) - (power - np.log(3) / 2),
        (9,): 1 / (1 + x[:, 9] ** 2) - np.pi / 4,
    }
    for features, values in expected.items():
        np.testing.assert_allclose(true_component("f3", features, x), values, atol=1e-9)


@pytest.mark.parametrize("features", [(4,), (4, 6), (3, 4), (4, 6, 7), (3, 4, 6, 7)])
def test_f3_logarithm_against_independent_formula(features: tuple[int, ...]) -> None:
    x = make_synthetic("f3", 60, random_state=6).X.to_numpy(copy=True)
    x[:10] /= 100  # near the singularity
    values = true_component("f3", features, x)
    np.testing.assert_allclose(values, log_component(features, x), atol=1e-6)


@pytest.mark.parametrize("features", [(5,), (0, 5), (0, 8), (8, 9), (0, 1, 2)])
def test_absent_components_are_exactly_zero(features: tuple[int, ...]) -> None:
    assert not component_at_random("f3", features).any()


@pytest.mark.parametrize(("name", "p", "signals"), [("f1", 5, 6), ("f2", 10, 20), ("f3", 10, 18)])
def test_importance(name: str, p: int, signals: int) -> None:
    importance, variance = true_importance(name), true_variance(name)
    keys = [s for size in (1, 2) for s in combinations(range(p), size)]
    assert list(importance) == list(variance) == keys
    assert sum(value > 0 for value in importance.values()) == signals
    assert all((importance[key] == 0) == (variance[key] == 0) for key in keys)
    assert all(importance[key] ** 2 <= variance[key] for key in keys)


def test_importance_closed_forms() -> None:
    assert true_importance("f1")[(4,)] == pytest.approx(5 / 4)
    assert true_variance("f1")[(4,)] == pytest.approx(25 / 12)
    assert true_importance("f2")[(1, 6)] == pytest.approx(1 / 16, rel=1e-3)
    assert true_importance("f3")[(1, 2)] == pytest.approx(1 / 16, rel=1e-3)
    assert true_variance("f3")[(8,)] == pytest.approx(1 / 3)


@pytest.mark.parametrize("features", [(3,), (0, 1), (6, 8), (3, 4)])
def test_norms_agree_with_monte_carlo(features: tuple[int, ...]) -> None:
    name = "f2" if features == (6, 8) else "f3"
    values = component_at_random(name, features, n=10_000)
    assert np.abs(values).mean() == pytest.approx(true_importance(name)[features], rel=0.05)
    assert np.mean(values**2) == pytest.approx(true_variance(name)[features], rel=0.08)


def test_variance_of_f1_is_the_sum_of_the_components() -> None:
    data = make_synthetic("f1", 10, signal_to_noise=1.0, random_state=0)
    assert sum(true_variance("f1").values()) == pytest.approx(data.noise_variance, rel=1e-9)


def test_wrong_arguments() -> None:
    x = np.zeros((3, 5))
    with pytest.raises(ValueError, match=r"^name: must be one of f1, f2, f3, found 'f4'"):
        make_synthetic("f4")
    with pytest.raises(ValueError, match=r"^signal_to_noise: must be positive, found 0"):
        make_synthetic("f1", signal_to_noise=0)
    with pytest.raises(ValueError, match=r"^features: must be distinct indices from 0 to 4"):
        true_component("f1", (5,), x)
    with pytest.raises(ValueError, match=r"^features: must be distinct"):
        true_component("f1", (1, 1), x)
    with pytest.raises(ValueError, match=r"^X: must have shape \(n, 5\), found \(3, 4\)"):
        true_component("f1", (1,), x[:, :4])
