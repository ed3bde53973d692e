"""compare: differences are exact, and zero where the functions are the same."""

from __future__ import annotations

import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, SGDClassifier

from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import random_model, table_model, with_bands, with_remainder
from tpnn import AnovaModel, TPNNClassifier, compare, purify
from tpnn.model.model import tables_by_component

RNG = np.random.default_rng(0)


def raw(model: AnovaModel, X: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of unseen values, which are meant here
        return model.raw_scores(X)


def split_differently(model: AnovaModel) -> AnovaModel:
    """The same function, with parts of main effects in the pairs and constants everywhere."""
    tables = {s: table.copy() for s, table in tables_by_component(model).items()}
    intercepts = model.intercepts.copy()
    for component in [s for s in tables if len(s) == 2]:
        first = (component[0],)
        if tables[first].shape[0] == tables[component].shape[0]:  # on the same nodes
            tables[component] += 0.7 * tables[first][:, None]
            tables[first] *= 0.3
            break
    for table in tables.values():
        table += 1.5
        intercepts -= 1.5
    return replace(model, tables=tuple(tables.values()), intercepts=intercepts)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_remainder_is_one_part_of_the_difference(n_outputs: int) -> None:
    old, new = (random_model(4, 2, seed, n_outputs) for seed in (1, 2))
    X = RNG.normal(size=(200, 4))
    for pair in ((old, with_remainder(new)), (with_remainder(old), with_remainder(new, seed=1))):
        found = compare({"old": pair[0], "new": pair[1]}, X)
        change = pair[1].raw_scores(X) - pair[0].raw_scores(X)
        rows = found.row_differences()
        parts = rows.to_numpy().reshape(200, -1, n_outputs)
        assert np.allclose(parts.sum(1), change.reshape(200, -1), atol=1e-12)
        assert found.difference.remainder_scores(X).std() > 0.1
        line = found.frame.set_index("component").loc[["remainder"]]
        assert set(line["status"]) == {"gained" if pair[0] is old else "moved"}
        sizes = np.abs(found.difference.remainder_scores(X)).mean(0)
        assert np.allclose(line.sort_values("output")["difference"] if n_outputs > 1 else
                           line["difference"], sizes)  # fmt: skip


def test_models_with_the_same_trees_differ_in_their_cores_alone() -> None:
    model = with_remainder(random_model(4, 2, seed=1))
    X = RNG.normal(size=(200, 4))
    edited = model.edit(("x0", "x1"), without=True).edit("x2", add=1.0, between=(-0.5, None))
    found = compare({"old": model, "new": edited}, X)
    change = edited.raw_scores(X) - model.raw_scores(X)
    assert np.allclose(found.row_differences().sum(axis=1), change, atol=1e-12)
    status = found.frame.set_index("component")["status"]
    assert status["remainder"] == status["x3"] == status["x2 x x3"] == "same"
    assert status["x2"] == status["x0 x x1"] == "moved"
    assert (found.frame.set_index("component")["difference"]["remainder"]) == 0


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_same_function_differs_by_zero_whatever_its_split(n_outputs: int) -> None:
    model = random_model(3, 3, n_outputs=n_outputs)
    other = split_differently(model)
    X = RNG.normal(size=(200, 3))
    assert np.allclose(model.raw_scores(X), other.raw_scores(X))
    assert np.abs(model.component_scores(X) - other.component_scores(X)).max() > 1
    found = compare({"old": model, "new": other}, X)
    assert (found.frame["difference"] == 0).all()
    assert set(found.frame["status"]) == {"same"}
    assert not found.row_differences().to_numpy().any()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_of_a_row_sum_to_that_of_the_raw_scores(order: int) -> None:
    old = table_model(mixed_rows(300, 1), order, "log", 0.3)
    new = table_model(mixed_rows(100, 2)[["town", "size", "amount"]], min(order, 2), "log", 0.2)
    X = fuzzed_rows(mixed_model(), 300)
    found = compare({"old": old, "new": new}, X)
    expected = raw(new, X) - raw(old, X)
    assert np.abs(found.row_differences().sum(axis=1) - expected).max() < 1e-12
    assert found.difference.identifiability_error() < 1e-10
    assert np.abs(found.new.raw_scores(X) - raw(new, X)).max() < 1e-12
    mains = [name for name in found.row_differences() if " x " not in name][1:]
    assert np.abs(found.row_differences()[mains].mean()).max() < 1e-12  # over these rows


def test_components_gained_lost_moved_and_same() -> None:
    nodes = {name: [0.0, 1.0] for name in "abcd"}
    old = purify({"a": [-1, 1], "b": [-2, 2], "c": [0, 1]}, nodes)
    new = purify({"a": [-1, 1], "b": [-3, 3], "d": [0, 1]}, nodes)
    X = pd.DataFrame({name: [0.0, 1.0, 1.0, 0.0] for name in "abcd"})
    frame = compare({"old": old, "new": new}, X).frame.set_index("component")
    status = {"a": "same", "b": "moved", "c": "lost", "d": "gained", "(intercept)": "same"}
    assert frame["status"].to_dict() == status
    assert frame.loc["b", ["old", "new", "difference"]].tolist() == [2, 3, 1]


def test_an_edit_is_the_difference_from_the_model_before_it(tmp_path: Path) -> None:
    """Its component moves by the edit, less its mean; no other one does, and its band is void."""
    frame = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.normal(size=80)})
    before = with_bands(table_model(frame, 2))
    after = before.edit("a", between=(0.0, 1.0), add=0.2, why="expert", by="me")
    found = compare({"before": before, "after": after}, frame)
    status = found.frame.set_index("component")["status"].to_dict()
    assert {name for name, how in status.items() if how == "moved"} <= {"a", "(intercept)"}
    expected = after.raw_scores(frame) - before.raw_scores(frame)
    moved = found.row_differences()
    assert np.abs(moved["a"] - (expected - expected.mean())).max() < 1e-12
    assert np.abs(moved.sum(axis=1) - expected).max() < 1e-12
    found.to_html(tmp_path / "page.html")


def glm_rows() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame(RNG.normal(size=(300, 3)), columns=list("abc"))
    return X, X["a"].to_numpy() + RNG.normal(size=300)


@pytest.mark.parametrize("task", ["ridge", "logit", "softmax", "poisson"])
def test_linear_models(task: str) -> None:
    """A GLM differs from itself by zero, and from another by their coefficients."""
    X, y = glm_rows()
    kind, targets = {
        "ridge": (Ridge(), y), "logit": (LogisticRegression(), y > 0),
        "softmax": (LogisticRegression(), np.digitize(y, [-1, 1])),
        "poisson": (PoissonRegressor(), np.exp(y).round()),
    }[task]  # fmt: skip
    one = kind.fit(X, targets)
    two = type(kind)(**kind.get_params()).fit(X[:100], targets[:100])
    assert (compare({"one": one, "same": one}, X).frame["difference"] == 0).all()
    found = compare({"one": one, "two": two}, X).row_differences().to_numpy()
    if task == "softmax":
        expected = two.decision_function(X) - one.decision_function(X)
        expected = expected - expected.mean(1, keepdims=True)
        assert np.allclose(found.reshape(300, -1, 3).sum(1), expected)
        return
    scores = [
        np.log(m.predict(X)) if task == "poisson"
        else m.decision_function(X) if task == "logit" else m.predict(X) for m in (one, two)
    ]  # fmt: skip
    assert np.allclose(found.sum(1), scores[1] - scores[0], atol=1e-12)
    slope = np.ravel(two.coef_ - one.coef_)[1]
    assert np.allclose(found[:, 2], slope * (X["b"] - X["b"].mean()), atol=1e-12)


def test_a_linear_model_of_several_targets() -> None:
    """Its targets get the names of those of the model beside it, in order."""
    X, y = glm_rows()
    targets = np.column_stack([y, X["b"] - y])
    linear = Ridge().fit(X, targets)
    model = replace(random_model(3, 2, n_outputs=2), output_names=("price", "cost"))
    model = replace(model, encoder=replace(model.encoder, names=tuple("abc")))
    for old, new, sign in ((linear, model, 1), (model, linear, -1)):
        found = compare({"old": old, "new": new}, X, targets)
        moved = found.row_differences().T.groupby(level=1).sum().T[["price", "cost"]]
        expected = sign * (model.raw_scores(X) - linear.predict(X))
        assert np.abs(moved.to_numpy() - expected).max() < 1e-12
        assert {"RMSE of price", "RMSE of cost"} <= set(found.scores["score"])
    both = compare({"old": linear, "new": Ridge(9.0).fit(X, targets)}, X, targets)
    assert "R2 of y1" in set(both.scores["score"])
    with pytest.raises(ValueError, match="models: all must have the same outputs"):
        compare({"old": linear, "new": random_model(3, 1, n_outputs=3)}, X)


def test_a_model_beside_a_glm_and_an_ebm() -> None:
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = glm_rows()
    labels = (y > 0).astype(int)
    ebm = interpret.ExplainableBoostingClassifier(max_rounds=20, outer_bags=2, n_jobs=1)
    ebm.fit(X, labels)
    glm = LogisticRegression().fit(X, labels)
    model = TPNNClassifier(order=1, n_bags=2, random_state=0).fit(X, labels)
    for old, new in ((ebm, model), (glm, model), (glm, ebm)):
        found = compare({"old": old, "new": new}, X, labels)
        expected = new.decision_function(X) - old.decision_function(X)
        assert np.abs(found.row_differences().sum(axis=1) - expected).max() < 1e-10
        flipped = np.flatnonzero(new.predict(X) != old.predict(X))
        assert found.flips["row"].tolist() == flipped.tolist()


def test_rating_tables() -> None:
    model = mixed_model(2)
    rating = model.rating_tables(max_bands=4)
    X = fuzzed_rows(model, 300)
    found = compare({"model": model, "tariff": rating}, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = np.log(rating.predict(X)) - model.raw_scores(X)
    assert np.abs(found.row_differences().sum(axis=1) - expected).max() < 1e-12


def test_scores_are_paired() -> None:
    X, y = glm_rows()
    labels = (y > 0).astype(int)
    one, two = LogisticRegression(C=0.01).fit(X, labels), LogisticRegression().fit(X, labels)
    scores = compare({"one": one, "two": two}, X, labels).scores.set_index("score")
    losses = [(labels - model.predict_proba(X)[:, 1]) ** 2 for model in (one, two)]
    found = scores.loc["Brier score"]
    assert found["one"] == pytest.approx(losses[0].mean())
    truth = ttest_rel(losses[1], losses[0])
    assert found["difference"] / found["standard_error"] == pytest.approx(truth.statistic)
    assert scores.loc["AUROC", "standard_error"] < 0.05
    assert len(compare({"one": one, "two": two}, X).scores) == 0


def test_a_threshold_makes_decisions_of_numbers() -> None:
    old = purify({"a": [0, 2]}, {"a": [0, 2]})
    new = purify({"a": [0, 4]}, {"a": [0, 2]})
    X = pd.DataFrame({"a": [0.0, 0.6, 1.5, 2.0]})
    found = compare({"old": old, "new": new}, X, threshold=1.0)
    assert found.flips["row"].tolist() == [1]
    assert found.flips["largest_difference"].tolist() == ["a"]
    assert len(compare({"old": old, "new": new}, X).flips) == 0


BANDS = re.compile(r'id="\w*PolyCollection_\d')
BARS = re.compile(r'<path [^>]*clip-path[^>]*stroke-width: 4"')  # those of legends are not cut


def test_the_page_is_one_file(tmp_path: Path) -> None:
    names = ["<b>a</b>", "size & town"]
    frame = pd.DataFrame({names[0]: RNG.normal(size=60), names[1]: ["Ulm", "<i>Bonn</i>"] * 30})
    old, new = (with_bands(table_model(frame[:n], 2)) for n in (60, 40))
    written = compare({"old": old, "<new>": new}, frame, RNG.normal(size=60), threshold=0.0)
    page = written.to_html(tmp_path / "page.html").path.read_text("utf-8")
    assert "<b>a</b>" not in page
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert "<i>" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "default-src 'none'; style-src" in page  # nothing else is loaded, no script runs
    assert "<script" not in page
    assert len(BANDS.findall(page)) == 2  # a band for each model and each curve
    assert len(BARS.findall(page)) == 4  # and a bar for each model and each level
    for heading in ("Scores", "Components", "Curves", "Flips"):
        assert f"<h2>{heading}</h2>" in page
    plain = compare({"old": table_model(frame, 1), "new": old}, frame)
    page = plain.to_html(tmp_path / "page.html").path.read_text("utf-8")
    assert not BANDS.findall(page) + BARS.findall(page)


def test_names_are_no_formulas(tmp_path: Path) -> None:
    names = [r"from $\frac$ to", "cost in $"]
    frame = pd.DataFrame({names[0]: RNG.normal(size=60), names[1]: ["$a_{$", "b"] * 30})
    old, new = (table_model(frame[:n], 2) for n in (60, 40))
    found = compare({"old $_$": old, "new": new}, frame)
    page = found.to_html(tmp_path / "page.html").path.read_text("utf-8")
    for name in (*names, "$a_{$", "old $_$"):
        assert f">{name}</text>" in page


def test_the_page_without_matplotlib_has_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = compare({"old": random_model(2, 2), "new": random_model(2, 2, seed=1)}, np.eye(2))
    page = found.to_html(tmp_path / "page.html").path.read_text("utf-8")
    assert "<table>" in page
    assert "<svg" not in page
    assert page.count("pip install &quot;tpnn[plots]&quot;") == 2  # below curves and heat maps


def test_pairs_that_differ_are_heat_maps(tmp_path: Path) -> None:
    """The one that an edit moved, with its levels and where it moved most; no other one."""
    frame = pd.DataFrame({"age": RNG.uniform(20, 80, 200), "town": RNG.choice(["Ulm", "B<n"], 200),
                          "size": RNG.normal(size=200)})  # fmt: skip
    old = table_model(frame, 2)
    new = old.edit(("age", "town"), between={"age": (50, None)}, levels={"town": ["Ulm"]}, add=0.9)
    found = compare({"old": old, "new": new}, frame)
    page = found.to_html(tmp_path / "page.html").path.read_text("utf-8")
    (card,) = re.findall(
        r'<figure class="card picture wide"><h3>age × town</h3>.*?</figure>', page, re.DOTALL
    )
    for word in ("old", "new", "new less old", "Ulm", "B&lt;n"):
        assert f">{word}</text>" in card
    assert page.count("picture wide") == 1
    grid = tables_by_component(found.difference)[(0, 1)][..., 0]
    largest = re.search(r"Largest difference: [+−]([\d.]+) at age = [\d.]+ and town = ", page)
    assert largest is not None
    assert float(largest[1]) == pytest.approx(np.abs(grid).max(), rel=5e-3)  # three digits
    same = compare({"old": old, "new": old}, frame).to_html(tmp_path / "page.html").path
    assert "No pair differs between the two models." in same.read_text("utf-8")


def test_a_pair_of_one_model_is_one_map(tmp_path: Path) -> None:
    """It says which model does not have it, and no map is blank."""
    pair = random_model(2, 2)
    main = pair.restrict([(0,), (1,)])
    X = RNG.normal(size=(40, 2))
    for models, word in (
        ({"A": main, "B": pair}, "Gained: A"),
        ({"A": pair, "B": main}, "Lost: B"),
    ):
        page = compare(models, X).to_html(tmp_path / "page.html").path.read_text("utf-8")
        (card,) = re.findall(r"<h3>[^<]* × [^<]*</h3>.*?</figure>", page, re.DOTALL)
        assert f"{word} does not have it." in card
        assert card.count("<image") == 2  # the map, and the bar of colours


def test_every_output_has_its_charts(tmp_path: Path) -> None:
    old = random_model(2, 2, n_outputs=2)
    new = random_model(2, 2, seed=1, n_outputs=2)
    X = RNG.normal(size=(30, 2))
    page = compare({"old": old, "new": new}, X).to_html(tmp_path / "page.html").path
    titles = re.findall(r"<h3>(.*?)</h3>", page.read_text("utf-8"))
    names = (*old.feature_names, " × ".join(old.feature_names))
    assert sorted(titles) == sorted(f"{n}: output {k}" for n in names for k in (0, 1))


def test_what_cannot_be_compared_is_refused() -> None:
    model, X = random_model(2, 1), RNG.normal(size=(20, 2))
    with pytest.raises(ValueError, match="models: two are needed"):
        compare({"only": model}, X)
    with pytest.raises(ValueError, match="models: all must have the same link"):
        compare({"old": model, "new": replace(model, link=mixed_model().link)}, X)
    with pytest.raises(TypeError, match="linear classifiers must predict probabilities"):
        compare({"old": model, "new": SGDClassifier().fit(X, X[:, 0] > 0)}, X)
    with pytest.raises(TypeError, match="models: 'new' must be a fitted model"):
        compare({"old": model, "new": "a model"}, X)
    glm = Ridge().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="a linear model needs numbers without missing"):
        compare({"old": model, "new": glm}, np.where(X > 1, np.nan, X))
