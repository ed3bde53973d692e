"""Score cards: whole points near the model's log-odds, monotone where the model is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import random_model, table_model, with_remainder
from tpnn import AnovaModel, TPNNClassifier, scorecard
from tpnn.export.sheets.scorecard import ScoreCard, monotone_shift
from tpnn.loss.links import LINKS
from tpnn.model.constrain import constrain

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def classifier(n_features: int, seed: int) -> AnovaModel:
    model = random_model(n_features, 2, seed)
    return replace(model, link=LINKS["logit"], classes=("good", "bad"))


def corner_rows(card: ScoreCard) -> pd.DataFrame:
    """All combinations of nodes, cuts, values just below cuts, and missing values."""
    values = [
        np.concatenate([bands.numbers, bands.cuts, np.nextafter(bands.cuts, -np.inf)])
        for bands in card.banded.bands.values()
    ]
    return pd.DataFrame(list(product(*values)))


@pytest.mark.parametrize("max_bands", [1, 2, 6])
@pytest.mark.parametrize("seed", range(4))
def test_the_stated_deviation_is_the_largest_of_all_corners(seed: int, max_bands: int) -> None:
    model = classifier(3, seed)
    card = scorecard(model, max_bands=max_bands)
    X = corner_rows(card).to_numpy()
    gaps = np.abs(card.log_odds(X) - model.raw_scores(X))
    assert card.is_exact
    assert gaps.max() == pytest.approx(card.max_deviation, abs=1e-9)
    anywhere = np.random.default_rng(0).normal(0, 2, (5000, 3))
    gaps = np.abs(card.log_odds(anywhere) - model.raw_scores(anywhere))
    assert gaps.max() <= card.max_deviation + 1e-9


INVERTED = [("bad", "good"), (0, "Fully paid"), ("Charged Off", "Current"), ("default", "none")]
USUAL = [("good", "bad"), (0, 1), (False, True), ("no default", "default"), ("not fraud", "zzz")]


@pytest.mark.parametrize("classes", INVERTED)
def test_names_that_look_inverted_are_warned_about(classes: tuple[str, str]) -> None:
    model = replace(classifier(2, 0), classes=classes)
    with pytest.warns(UserWarning, match=f"^good: the first class in sorted order, {classes[0]!r}"):
        scorecard(model)
    good = scorecard(model, good=classes[1])
    assert good.to_frame()["band"][0] == f"good: {classes[1]}"


@pytest.mark.filterwarnings("error:good")
@pytest.mark.parametrize("classes", USUAL)
def test_usual_names_need_no_warning(classes: tuple[str, str]) -> None:
    card = scorecard(replace(classifier(2, 0), classes=classes))
    assert card.good == classes[0]


def test_no_fuzzed_row_deviates_by_more() -> None:
    model = mixed_model(2, "logit")
    card = scorecard(model)
    X = fuzzed_rows(model, 20_000)
    gaps = np.abs(card.log_odds(X) - model.raw_scores(X))
    assert 0.1 * card.max_deviation < gaps.max() <= card.max_deviation + 1e-9


def test_the_score_is_the_sum_of_the_lines_of_the_frame() -> None:
    card = scorecard(mixed_model(2, "logit"))
    X = mixed_rows(30, seed=2)
    frame = card.to_frame()
    assert frame["points"].dtype.kind == "i"
    lines = {(a, b): points for a, b, points in frame[["component", "band", "points"]].to_numpy()}
    codes = card.banded.codes(card.banded.model.encoder.read(X))
    names = card.banded.model.feature_names
    for row in range(30):
        total = lines["(base)", "good: 0"]
        for component in card.points:
            labels = [card.banded.bands[j].labels[codes[j][row]] for j in component]
            total += lines[" x ".join(names[j] for j in component), " x ".join(labels)]
        assert total == card.score(X)[row]
    assert {"(missing)", "(unseen level)"} <= set(frame.loc[frame["component"] == "town", "band"])


def test_points_double_the_odds_and_the_good_class_rises() -> None:
    model = classifier(2, 0)
    X = np.random.default_rng(0).normal(size=(50, 2))
    card, turned = scorecard(model), scorecard(model, good="bad")
    raw = model.raw_scores(X)
    assert np.corrcoef(card.score(X), raw)[0, 1] < -0.8
    assert np.corrcoef(turned.score(X), raw)[0, 1] > 0.8
    wide = scorecard(model, pdo=1e6, score=0, odds=3, max_bands=100)
    nodes = corner_rows(wide).to_numpy()[:, :2]
    on_nodes = np.isin(nodes, np.concatenate([a.values for a in model.encoder.axes[1]])).all(1)
    odds = 3 * 2 ** (wide.score(nodes[on_nodes]) / 1e6)
    assert np.allclose(odds, np.exp(-model.raw_scores(nodes[on_nodes])), rtol=1e-5)


@pytest.mark.parametrize("pdo", [2, 20])
@pytest.mark.parametrize("seed", range(6))
def test_points_are_monotone_where_the_model_is_certified(seed: int, pdo: int) -> None:
    model = constrain(classifier(3, seed), {"x0": "increasing", "x1": "decreasing"})
    card = scorecard(model, pdo=pdo, max_bands=4)
    rows = corner_rows(card)
    rows = rows[rows.notna().all(1)]
    for feature, sign in ((0, -1), (1, 1)):
        others = [j for j in range(3) if j != feature]
        ordered = rows.sort_values([*others, feature])
        steps = np.diff(card.score(ordered.to_numpy()))
        same = (ordered[others].diff().abs().sum(axis=1) == 0).to_numpy()[1:]
        assert (sign * steps[same] >= 0).all()
    gaps = np.abs(card.log_odds(rows.to_numpy()) - model.raw_scores(rows.to_numpy()))
    assert gaps.max() <= card.max_deviation + 1e-9


def test_the_shift_is_the_smallest_that_makes_sums_monotone() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        points = {(0,): rng.integers(-3, 4, 3), (0, 1): rng.integers(-2, 3, (3, 2))}

        def is_monotone(shift: np.ndarray, points: dict = points) -> bool:
            sums = points[0,][:, None] + points[0, 1] + shift[:, None]
            return bool((np.diff(sums, axis=0) >= 0).all())

        found = monotone_shift(points, 0, 3, 1)
        tried = [np.array(shift) for shift in product(range(-9, 10), repeat=3)]
        least = min(np.abs(shift).max() for shift in tried if is_monotone(shift))
        assert is_monotone(found)
        assert np.abs(found).max() == least


def test_reasons_are_the_components_that_lose_most() -> None:
    card = scorecard(mixed_model(2, "logit"))
    X = mixed_rows(20, seed=2)
    best = card.base_points + sum(points.max() for points in card.points.values())
    everything = card.reasons(X, n_reasons=100)
    for row, reasons in enumerate(everything):
        assert best - sum(reason.lost for reason in reasons) == card.score(X)[row]
        assert [r.lost for r in reasons] == sorted((r.lost for r in reasons), reverse=True)
        assert card.reasons(X)[row] == reasons[:4]
    reason = everything[0][0]
    assert str(reason) == f"{reason.component} ({reason.band}): {reason.lost} points below the best"


def test_a_fitted_classifier_and_a_notebook(quick: dict) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["<i>", "y"], 300)})
    labels = np.where(rng.random(300) < 1 / (1 + np.exp(-X["a"])), "yes", "no")
    fitted = TPNNClassifier(**quick).fit(X, labels)
    card = scorecard(fitted, good="yes")
    gaps = np.abs(card.log_odds(X) - fitted.decision_function(X))
    assert gaps.max() <= card.max_deviation + 1e-9
    html = card._repr_html_()
    assert "600 points at odds of 50" in html
    assert "<i>" not in html


def test_what_cannot_be_a_score_card() -> None:
    model = mixed_model(1, "logit")
    with pytest.raises(ValueError, match="pdo: must be a positive number"):
        scorecard(model, pdo=0)
    with pytest.raises(ValueError, match="max_bands: must be a whole number"):
        scorecard(model, max_bands=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="model: score cards are for models of two classes"):
        scorecard(mixed_model(1, "log"))
    with pytest.raises(ValueError, match="model: a score card holds nothing but components"):
        scorecard(with_remainder(model))
    with pytest.raises(ValueError, match="good: must be one of two classes"):
        scorecard(model, good="?")
    with pytest.raises(ValueError, match="model: a score card has no offset"):
        scorecard(replace(model, has_offset=True))
    triple = replace(table_model(mixed_rows()[["amount", "count", "town"]], 3, "logit"),
                     classes=(0, 1))  # fmt: skip
    with pytest.raises(ValueError, match="found components of 3 features"):
        scorecard(triple)
