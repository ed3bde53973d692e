"""EBMs of the interpret package: the same predictions, as unique components."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import load, purify
from tpnn.lifecycle.foreign.purified import sum_of_ebm


def ebm(kind: str, X: pd.DataFrame, y: Any, **settings: Any) -> Any:
    glassbox = pytest.importorskip(
        "interpret.glassbox", reason="interpret is not installed, see the group benchmarks"
    )
    settings = {"outer_bags": 3, "n_jobs": 1, "max_rounds": 60, "random_state": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # interpret warns of missing values
        return getattr(glassbox, f"ExplainableBoosting{kind}")(**settings).fit(X, y)


@pytest.fixture(scope="module")
def mixed() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    X["town"] = rng.choice(["u", "v", "w"], 500)
    X.loc[::17, "b"] = np.nan
    return X, np.sin(2 * X["a"]) + X["b"].fillna(1) * X["a"] + (X["town"] == "u") * X["a"]


def test_an_ebm_predicts_the_same_purified(mixed: Any) -> None:
    X, y = mixed
    model = ebm("Regressor", X, y, interactions=3)
    pure = purify(model)
    assert pure.identifiability_error() < 1e-9
    assert np.allclose(pure.predict(X), model.predict(X), atol=1e-9)
    on_cuts = X.copy()
    on_cuts["a"] = np.resize(model.bins_[0][0], len(X))
    just_below = on_cuts.assign(a=np.nextafter(on_cuts["a"], -np.inf))
    for rows in (on_cuts, just_below, X.assign(a=1e6), X.assign(a=-1e6)):
        assert np.allclose(pure.predict(rows), model.predict(rows), atol=1e-9)
    assert any(spread.max() > 0 for spread in pure.evidence.spreads)


def test_an_ebm_keeps_main_effects_in_its_pairs_until_purified(mixed: Any) -> None:
    """What purification moves is not zero: the test above would pass on a copy only."""
    X, y = mixed
    model = ebm("Regressor", X, y, interactions=[(0, 1)])
    pair = model.term_scores_[-1][1:-1, 1:-1]
    weights = model.bin_weights_[-1][1:-1, 1:-1]
    mean = (pair * weights).sum(1) / np.maximum(weights.sum(1), 1e-12)
    assert np.abs(mean).max() > 0.05 * pair.std()


def test_an_ebm_without_main_effects(mixed: Any) -> None:
    """The masses of a feature are those of its pair, missing values and skew included."""
    X, y = mixed
    X = X[["a", "b"]].assign(a=np.exp(2 * X["a"]))
    model = ebm("Regressor", X, y, interactions=[(0, 1)], exclude=[(0,), (1,)])
    pure = purify(model)
    assert pure.identifiability_error() < 1e-9
    assert np.allclose(pure.predict(X), model.predict(X), atol=1e-9)
    every = pd.merge(X[["a"]], X[["b"]], how="cross")  # the product of the marginals
    assert pure.intercept == pytest.approx(model.predict(every).mean())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_ebm_classifier_gives_the_same_probabilities(mixed: Any, n_classes: int) -> None:
    X, y = mixed
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    settings = {"interactions": 2} if n_classes == 2 else {"interactions": 0}
    model = ebm("Classifier", X, labels, **settings)
    pure = purify(model)
    probabilities = model.predict_proba(X)
    expected = probabilities[:, 1] if n_classes == 2 else probabilities
    assert np.allclose(pure.predict(X), expected, atol=1e-9)
    assert pure.identifiability_error() < 1e-9
    assert pure.classes == tuple(range(n_classes))


def test_another_measure_keeps_the_predictions_of_an_ebm(mixed: Any) -> None:
    X, y = mixed
    model = ebm("Regressor", X, y, interactions=2)
    moved = purify(model, X=X[X["a"] > 0])
    assert np.allclose(moved.predict(X), model.predict(X), atol=1e-9)
    assert moved.identifiability_error() < 1e-9
    assert moved.intercept != pytest.approx(purify(model).intercept)


def by_hand(link: str = "identity") -> Any:
    """An EBM with one number in three bins and a feature that is in no term, as its fields."""
    scores = np.array([0.0, -1.0, 0.0, 2.0, 0.0])  # missing, three bins, unseen
    return SimpleNamespace(
        link_=link,
        feature_names_in_=["a", "b", "k"],
        term_features_=[(0,)],
        term_scores_=[scores],
        bagged_scores_=[np.stack([scores - 0.1, scores + 0.1])],
        bin_weights_=[np.array([0.0, 2.0, 1.0, 1.0, 0.0])],
        bins_=[[np.array([1.0, 5.0])], [np.array([0.0])], [{"u": 1, "v": 2}]],
        intercept_=np.array([0.5]),
        bagged_intercept_=np.array([0.4, 0.6]),
        term_scores_shape_=None,
    )


def test_bins_become_nodes_on_both_sides_of_a_cut() -> None:
    given = sum_of_ebm(by_hand())
    axis = given.encoder.axes[1][0]
    below = np.nextafter([1.0, 5.0], -np.inf)
    assert axis.values.tolist() == [below[0], 1.0, below[1], 5.0]
    assert np.isnan(axis.numbers[axis.missing]).tolist() == [True]
    assert given.tables[0,][:, 0, 0].tolist() == [-1.0, 0.0, 0.0, 2.0, 0.0]
    assert axis.weights.tolist() == [0.5, 0.125, 0.125, 0.25, 0.0]  # nodes of a bin share its mass
    assert given.intercept.tolist() == [[0.5, 0.4, 0.6]]


def test_features_without_a_term_have_equal_masses() -> None:
    given = sum_of_ebm(by_hand())
    assert given.encoder.axes[1][1].weights.tolist() == [0.5, 0.5, 0.0]
    assert given.encoder.axes[1][2].weights.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert given.encoder.features[2].levels == ("u", "v")


def test_the_mean_and_the_bags_are_purified_together() -> None:
    pure = purify(by_hand())
    rows = pd.DataFrame({"a": [0.0, 1.0, 4.9, 5.0, 99.0], "b": 0.0, "k": "u"})
    assert pure.predict(rows).tolist() == [-0.5, 0.5, 0.5, 2.5, 2.5]
    assert pure.intercept == pytest.approx(0.5 + (-2 * 1.0 + 2.0) / 4)
    assert np.allclose(pure.evidence.spreads[0], 0.0, atol=1e-15)  # the bags differ by a constant


def test_other_links_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^model: an EBM with a link among .* found 'custom'\."):
        purify(by_hand("custom"))


def with_pair(missing: float = 0.0) -> Any:
    """An EBM with one pair, its features in falling order, and coarser cuts in the pair."""
    ebm = by_hand()
    pair = np.zeros((4, 5))  # (missing, u, v, unseen) by (missing, two bins, unseen, none)
    pair[1:3, 1:3] = [[1.0, 2.0], [3.0, 7.0]]
    pair[1:3, 0] = [5.0, 6.0]
    weights = np.zeros((4, 5))
    weights[1:3, 1:3] = [[1.0, 2.0], [3.0, 4.0]]
    weights[1:3, 0] = missing
    ebm.term_features_ = [(2, 0)]
    ebm.term_scores_, ebm.bin_weights_ = [pair[:, :4]], [weights[:, :4]]
    ebm.bagged_scores_ = [np.stack([pair[:, :4]] * 2)]
    ebm.bins_[0] = [np.array([1.0, 5.0]), np.array([5.0])]
    return ebm


def test_pairs_are_turned_to_rising_features() -> None:
    given = sum_of_ebm(with_pair())
    (component,) = given.tables
    assert component == (0, 2)
    below = np.nextafter(5.0, -np.inf)
    assert given.encoder.axes[2][0].values[:2].tolist() == [below, 5.0]
    table = given.tables[0, 2][..., 0, 0]  # (two bins, missing) by (u, v, unseen, missing)
    assert table.tolist() == [[1.0, 3.0, 0.0, 0.0], [2.0, 7.0, 0.0, 0.0], [5.0, 6.0, 0.0, 0.0]]
    assert 1.0 in given.encoder.axes[1][0].values  # the cuts of main effects are there too


def test_masses_of_a_pair_are_summed_over_its_other_feature() -> None:
    given = sum_of_ebm(with_pair())
    assert given.encoder.axes[1][2].weights == pytest.approx([0.3, 0.7, 0.0, 0.0])
    assert given.encoder.axes[2][0].weights == pytest.approx([0.4, 0.6, 0.0])


def test_missing_values_have_a_node_and_the_mass_of_training() -> None:
    plain, gaps = sum_of_ebm(with_pair()), sum_of_ebm(with_pair(missing=5.0))
    assert plain.encoder.axes[2][0].has_missing
    assert plain.encoder.axes[2][0].weights[-1] == 0.0
    assert gaps.encoder.axes[2][0].weights[-1] == pytest.approx(0.5)
    for given in (plain, gaps):
        assert given.tables[0, 2][-1, :2, 0, 0].tolist() == [5.0, 6.0]


def test_unseen_levels_and_first_missing_values_score_as_in_the_ebm(mixed: Any) -> None:
    """Although purification moves what a pair says on average into its main effects."""
    X, y = mixed
    X = X.fillna({"b": 0.0})  # nothing is missing in training
    model = ebm("Regressor", X, y, interactions=[("a", "town"), ("a", "b")])
    pure = purify(model)
    assert pure.identifiability_error() < 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what an EBM has a score for is not new
        for rows in (
            X.assign(town="x"),
            X.assign(town=None),
            X.assign(a=np.nan),
            X.assign(a=np.nan, b=np.nan, town=None),
        ):
            assert np.allclose(pure.predict(rows), model.predict(rows), atol=1e-9)
    moved = purify(model, X=X[:50].assign(town="x"))  # even a measure of unseen levels alone
    assert np.allclose(moved.predict(X), model.predict(X), atol=1e-9)


def test_an_ebm_scores_the_same_when_read_from_a_file(mixed: Any, tmp_path: Path) -> None:
    X, y = mixed
    pure = purify(ebm("Regressor", X, y, interactions=[("a", "town")]))
    pure.save(tmp_path / "model")
    rows = pd.concat([X[:20], X[:20].assign(town="x"), X[:20].assign(town=None)])
    assert np.array_equal(load(tmp_path / "model").model_.predict(rows), pure.predict(rows))
    many = pd.concat([rows] * 1000)  # so many are predicted by compiled loops
    assert np.array_equal(pure.predict(many), np.tile(pure.predict(rows), 1000))


NUMBERS_AS_LEVELS: dict[str, Any] = {
    "integers": lambda codes: codes,
    "floats": lambda codes: codes.astype(float),
    "halves": lambda codes: codes + 0.5,
    "flags": lambda codes: codes == 1,
    "large integers": lambda codes: codes + 2**53,
    "large floats": lambda codes: codes * 1e17,
    "digits": lambda codes: codes.astype(str),
    "categories": lambda codes: pd.Categorical(codes),
    "nullable": lambda codes: pd.array(codes, dtype="Int64"),
}


@pytest.mark.parametrize("case", NUMBERS_AS_LEVELS)
def test_an_ebm_of_numbers_as_levels_reads_its_own_table(case: str) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 300)
    X = pd.DataFrame({"a": rng.normal(size=300), "k": NUMBERS_AS_LEVELS[case](codes)})
    types = ["continuous", "nominal"]
    model = ebm("Regressor", X, codes * X["a"], interactions=[(0, 1)], feature_types=types)
    assert np.allclose(purify(model).predict(X), model.predict(X), atol=1e-9)


def test_levels_of_an_ebm_are_text() -> None:
    rows = pd.DataFrame({"a": 0.0, "b": 0.0, "k": ["u", "v", "u"]})
    ebm = with_pair()
    ebm.bins_[2] = [{"1": 1, "2.5": 2}]
    expected = purify(with_pair()).predict(rows)
    for levels in ([1, 2.5, 1], ["1", "2.5", "1"], pd.Categorical([1, 2.5, 1.0])):
        assert np.allclose(purify(ebm).predict(rows.assign(k=levels)), expected)
