"""Comparison by predictions: swap sets, double lift and dislocation are those of pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model
from tpnn import compare, plots, scorecard, validate

RNG = np.random.default_rng(0)
X = mixed_rows(500, seed=1)
MODEL = mixed_model(2, "logit")
Y = (RNG.random(500) < MODEL.predict(X)).astype(int)
NUMBERS = X[["count"]].to_numpy()


class Other:
    """A model of another library: labels by predict, probabilities by predict_proba."""

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.predict_proba(X)[:, 1] > 0.5

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        second = 0.2 + X["count"].to_numpy() / 20
        return np.column_stack([1 - second, second])


def test_any_model_is_compared_by_its_predictions() -> None:
    found = compare({"ours": MODEL, "theirs": Other()}, X, Y)
    ours, theirs = MODEL.predict(X), Other().predict_proba(X)[:, 1]
    scores = found.scores.set_index("score")
    assert scores.loc["AUROC", "ours"] == pytest.approx(roc_auc_score(Y, ours))
    assert scores.loc["Brier score", "theirs"] == pytest.approx(brier_score_loss(Y, theirs))
    losses = (Y - theirs) ** 2 - (Y - ours) ** 2
    line = scores.loc["Brier score"]
    paired = ttest_rel((Y - theirs) ** 2, (Y - ours) ** 2)
    assert line["difference"] == pytest.approx(losses.mean())
    assert line["difference"] / line["standard_error"] == pytest.approx(paired.statistic, rel=0.01)


def test_a_column_of_scores_is_a_model_too() -> None:
    card = scorecard(MODEL, good=0)
    points = -card.score(X)
    for given in (points, list(points), pd.Series(points), lambda table: -card.score(table)):
        found = compare({"card": given, "model": MODEL}, X, Y)
        scores = found.scores.set_index("score")
        assert list(scores.index) == ["AUROC", "KS"]
        assert scores.loc["AUROC", "card"] == pytest.approx(roc_auc_score(Y, points))
    text = np.where(Y == 1, "late", "paid")
    labelled = compare({"a": Other(), "b": DummyClassifier().fit(X, text)}, X, text)
    assert labelled.scores.set_index("score").loc["AUROC", "a"] == pytest.approx(
        roc_auc_score(text == "paid", Other().predict_proba(X)[:, 1])
    )


def test_the_swap_set_counts_pairs_of_decisions() -> None:
    found = compare({"ours": MODEL, "theirs": Other()}, X, Y, threshold=0.4)
    ours, theirs = (m >= 0.4 for m in (MODEL.predict(X), Other().predict_proba(X)[:, 1]))
    table = pd.crosstab(ours, theirs)
    swap = found.swap_set().set_index(["ours", "theirs"])
    for old in (False, True):
        for new in (False, True):
            line = swap.loc["at least" if old else "below", "at least" if new else "below"]
            assert line["n_rows"] == table.loc[old, new]
            assert line["actual"] == pytest.approx(Y[(ours == old) & (theirs == new)].mean())
    by_share = found.swap_set(share=0.3).set_index(["ours", "theirs"])["n_rows"]
    assert by_share["at least"].sum() == pytest.approx(150, abs=1)
    assert by_share["at least", "below"] == pytest.approx(by_share["below", "at least"], abs=30)
    exact = compare({"old": MODEL, "new": MODEL.restrict([(1,)])}, X, Y)
    flips = exact.swap_set().query("old != new")["n_rows"].sum()
    assert flips == len(exact.flips)


def test_double_lift_shows_who_is_right() -> None:
    ours, truth = MODEL.predict(X) * 0 + 0.3, MODEL.predict(X)
    found = compare({"flat": ours, "model": MODEL}, X, truth).double_lift(5)
    ratio = truth / ours
    groups = pd.qcut(ratio, 5)
    assert np.allclose(found["actual"], pd.Series(truth).groupby(groups, observed=True).mean())
    assert np.allclose(found["model prediction"], found["actual"])
    assert np.allclose(found["flat prediction"], 0.3)
    assert found["n_rows"].sum() == 500
    assert found["from"].is_monotonic_increasing
    assert (found["to"] >= found["from"]).all()


def test_the_picture_of_a_dislocation_has_the_shares_of_the_rows(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    old = RNG.uniform(100, 200, 500)
    new = old * RNG.normal(1, 0.15, 500)
    found = compare({"old": old, "new": new}, X)
    edges = [-np.inf, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, np.inf]
    counts = np.histogram(new / old - 1, edges)[0]
    whole = [bar.get_width() for bar in plots.dislocation(found).patches]
    np.testing.assert_allclose(whole, counts / 500)
    axes = plots.dislocation(found, by="size")
    labels = [text.get_text() for text in axes.get_yticklabels()]
    for number, label in enumerate(labels):
        inside = (X["size"] == label).to_numpy()
        expected = np.histogram((new / old - 1)[inside], edges)[0] / inside.sum()
        bars = [bar for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == number]
        np.testing.assert_allclose([bar.get_width() for bar in bars], expected, atol=1e-12)
    assert len(labels) == X["size"].nunique()
    found.to_html(tmp_path / "page.html")
    assert "Dislocation" in (tmp_path / "page.html").read_text("utf-8")
    pyplot.close("all")


def test_dislocation_between_two_tariffs() -> None:
    model = mixed_model(2)
    old = model.rating_tables(max_bands=3)
    new = old.capped(0.8, 1.25)
    found = compare({"old": old, "new": new}, X)
    change = new.predict(X) / old.predict(X) - 1
    table = found.dislocation()
    bins = pd.cut(change, [-np.inf, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, np.inf], right=False)
    assert np.array_equal(table["n_rows"], pd.Series(bins).value_counts(sort=False))
    assert table["new"].sum() == pytest.approx(new.predict(X).sum())
    by_size = found.dislocation(by="size").set_index("size")
    sums = pd.DataFrame({"old": old.predict(X), "new": new.predict(X)}).groupby(
        X["size"].to_numpy(), observed=True).sum()  # fmt: skip
    assert np.allclose(by_size["change"], sums["new"] / sums["old"] - 1)
    assert np.allclose(by_size[table["band"]].sum(axis=1), 1)
    assert 2 <= len(found.dislocation(by="amount")) <= 8
    with pytest.raises(ValueError, match="by: one label for each row"):
        found.dislocation(by=[1, 2])


def test_a_card_and_a_tariff_are_models_of_their_own(tmp_path: Path) -> None:
    card = scorecard(MODEL, good=0, max_bands=3)
    found = compare({"model": MODEL, "card": card}, X)
    expected = card.log_odds(X) - MODEL.raw_scores(X)
    assert np.allclose(found.row_differences().sum(axis=1), expected, atol=1e-11)
    report = validate(card, X, Y)
    chances = 1 / (1 + np.exp(-card.log_odds(X)))
    scores = report.scores.set_index("score")["value"]
    assert scores["AUROC"] == pytest.approx(roc_auc_score(Y, card.score(X) * -1.0))
    assert scores["Brier score"] == pytest.approx(brier_score_loss(Y, chances))
    pd.testing.assert_frame_equal(report.sheets["Score card"], card.to_frame(X, Y))
    page = report.to_html(tmp_path / "page.html").path.read_text("utf-8")
    assert "Score card" in page
    assert "Cut-offs" in page
    assert report.to_dict()["sheets"]["Score card"][0]["points"] == card.base_points


def test_a_page_of_predictions(tmp_path: Path) -> None:
    tree = DecisionTreeClassifier(max_depth=2).fit(NUMBERS, Y)
    line = LogisticRegression().fit(NUMBERS, Y)
    found = compare({"tree": tree, "line": line}, NUMBERS, Y, threshold=0.5)
    page = found.to_html(tmp_path / "page.html").path.read_text("utf-8")
    assert all(title in page for title in ("Scores", "Double lift", "Swap set"))
    assert repr(found) == "RowComparison(tree and line: 500 rows, by predictions)"


def test_what_cannot_be_compared_by_rows() -> None:
    with pytest.raises(TypeError, match=r"models: 'b' must be a fitted model.*found \(3,\)"):
        compare({"a": MODEL, "b": np.zeros(3)}, X)
    found = compare({"a": np.ones(500), "b": np.zeros(500)}, X)
    with pytest.raises(ValueError, match="share: these models decide nothing"):
        found.swap_set()
    with pytest.raises(ValueError, match="share: must be a number above 0 and below 1"):
        found.swap_set(share=2)
    with pytest.raises(ValueError, match="models: changes are relative, and 500 predictions"):
        compare({"a": np.zeros(500), "b": np.ones(500)}, X).dislocation()
    assert found.scores.empty
    several = random_model(2, 1, n_outputs=2)
    rows = RNG.normal(size=(9, 2))
    with pytest.raises(ValueError, match="models: this table is of one prediction"):
        compare({"a": several, "b": several}, rows).swap_set()
