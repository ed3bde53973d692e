"""What a card does beside scoring: bands as asked for, counts, files, queries, cut-offs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.export.cases import fuzzed_rows as odd_rows
from tests.export.cases import model_of
from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import table_model
from tpnn import scorecard
from tpnn.export.sheets.card_use import bad_probabilities
from tpnn.export.sheets.scorecard import ScoreCard

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def labelled(card: ScoreCard, n_rows: int = 600, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows and labels that the card is right about."""
    X = mixed_rows(n_rows, seed)
    chance = bad_probabilities(card, card.score(X).astype(float))
    bad = np.random.default_rng(seed).random(n_rows) < chance
    classes = card.banded.model.classes
    second_is_bad = card.good == classes[0]
    return X, np.where(bad == second_is_bad, classes[1], classes[0])


@pytest.fixture(scope="module")
def card() -> ScoreCard:
    return scorecard(mixed_model(2, "logit"), score=100, odds=2, max_bands=3)


def test_bands_are_cut_where_the_user_says() -> None:
    model = mixed_model(2, "logit")
    cuts = {"count": [3, 7.5], "since": ["2016-01-01"], "town": [["Ulm", "ulm"], ["+49"]],
            "waited": [pd.Timedelta(hours=48)], "size": [["e", "d"]]}  # fmt: skip
    made = scorecard(model, cuts=cuts, max_bands={"amount": 2})
    bands = {model.feature_names[j]: one for j, one in made.banded.bands.items()}
    assert bands["count"].labels == ("< 3", "3 to < 7.5", ">= 7.5", "(missing)")
    assert bands["since"].labels[:2] == ("< 2016-01-01", ">= 2016-01-01")
    assert bands["waited"].labels[:2] == ("< 2 days", ">= 2 days")
    assert bands["size"].labels[0] == "e | d"
    assert bands["town"].n_regular == 3
    assert bands["amount"].n_regular <= 2
    levels = made.levels.set_index("level").loc[["Ulm", "ulm", "+49"], "band"]
    assert levels["Ulm"] == levels["ulm"] == bands["town"].labels[0]
    assert levels["+49"] == "+49"
    X = fuzzed_rows(model, 500)
    below = X["count"] < 3
    place = made.banded.codes(model.encoder.read(X))[1]
    assert np.array_equal(place == 0, below)


def test_a_cut_between_nodes_makes_a_band_of_its_own() -> None:
    model = mixed_model(1, "logit")
    made = scorecard(model, cuts={"count": [4.2, 4.4]}, pdo=1e5)
    rows = mixed_rows(2).assign(count=[4.2, 4.3])
    whole = model.restrict([(1,)]).raw_scores(rows.assign(count=4.2))[0]
    effect = made.to_frame().query("component == 'count' and band == '4.2 to < 4.4'")["effect"]
    at = made.banded.model.intercepts[0] + effect.iloc[0]
    assert at == pytest.approx(whole)


def test_whole_numbers_are_cut_at_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"late": rng.integers(-2, 9, 300), "share": rng.random(300)})
    model = table_model(X, 1, "logit")
    made = scorecard(replace(model, classes=(0, 1)), max_bands=100, pdo=1e6)
    assert made.banded.bands[0].cuts.tolist() == list(range(-1, 9))
    assert (made.banded.bands[1].cuts % 1 != 0).any()


def test_bands_have_the_share_that_is_asked_for_and_other_points_than_their_neighbours() -> None:
    model = mixed_model(2, "logit")
    made = scorecard(model, min_share=0.2, max_bands=6, pdo=3)
    for feature, bands in made.banded.bands.items():
        regular = bands.band_masses[: bands.n_regular]
        known = bands.band_masses.sum() - bands.band_masses[bands.n_regular :].sum()
        assert bands.n_regular == 1 or regular.min() >= 0.2 * known - 1e-9
        using = [s for s in made.points if feature in s]
        lines = [np.moveaxis(made.points[s], s.index(feature), 0) for s in using]
        for band in range(bands.n_regular - 1):
            assert any((table[band] != table[band + 1]).any() for table in lines)


def test_counts_weights_of_evidence_and_information_are_those_of_pandas(card: ScoreCard) -> None:
    X, y = labelled(card)
    frame = card.to_frame(X, y)
    bad = pd.Series(y != card.good)
    codes = card.banded.codes(card.banded.model.encoder.read(X))
    rows = pd.Series(np.array(card.banded.bands[5].labels, object)[codes[5]])
    table = pd.crosstab(rows, bad)
    lines = frame[frame["component"] == "town"].set_index("band").loc[table.index]
    assert np.array_equal(lines["n_rows"], table.sum(axis=1))
    assert np.array_equal(lines["n_bad"], table[True])
    assert np.allclose(lines["bad_rate"], table[True] / table.sum(axis=1))
    both = (table > 0).all(axis=1)
    shares = table / table.sum()
    woe = np.log(shares[False] / shares[True])
    assert np.allclose(lines["woe"][both], woe[both])
    assert np.allclose(lines["iv"][both], ((shares[False] - shares[True]) * woe)[both])
    assert frame["n_rows"][0] == len(X)
    assert np.isfinite(frame["iv"][1:]).all()
    with pytest.raises(ValueError, match="y: rows are passed as X and y together"):
        card.to_frame(X)
    with pytest.raises(ValueError, match="y: rows of both classes are needed"):
        card.to_frame(X, np.full(len(X), card.good))


def test_a_rebalanced_card_expects_what_was_observed(card: ScoreCard) -> None:
    X, y = labelled(card)
    wrong = np.where(np.arange(len(y)) % 4 == 0, card.good, y)
    n_bad = (wrong != card.good).sum()

    def excess(one: ScoreCard, moved: int = 0) -> float:
        return abs(bad_probabilities(one, one.score(X) + float(moved)).sum() - n_bad)

    balanced = card.rebalanced(X, wrong)
    assert balanced.base_points > card.base_points
    assert excess(balanced) < min(excess(balanced, 1), excess(balanced, -1))
    assert balanced.points is card.points
    gaps = np.abs(balanced.log_odds(X) - card.banded.model.raw_scores(X))
    assert gaps.max() <= balanced.max_deviation


def test_cutoffs_approve_those_who_score_at_least_that(card: ScoreCard) -> None:
    X, y = labelled(card)
    scores, bad = card.score(X), y != card.good
    chosen = float(np.median(scores))
    line = card.cutoffs(X, y, at=[chosen]).iloc[0]
    passed = scores >= chosen
    assert line["approval_rate"] == passed.mean()
    assert line["bad_rate"] == bad[passed].mean()
    assert line["bads_refused"] == (bad & ~passed).sum() / bad.sum()
    assert line["goods_refused"] == (~bad & ~passed).sum() / (~bad).sum()
    table = card.cutoffs(X)
    assert table["approval_rate"][0] == 1
    assert 10 < len(table) <= 20
    assert table["expected_bad_rate"].is_monotonic_decreasing


def test_the_psi_of_the_score(card: ScoreCard) -> None:
    X, new = mixed_rows(800, 1), mixed_rows(800, 2).query("amount > 0 or amount != amount")
    frame = card.psi(X, new, n_groups=4)
    scores = [card.score(one) for one in (X, new)]
    edges = np.quantile(scores[0], [0.25, 0.5, 0.75], method="lower")
    p, q = (np.histogram(s, [-np.inf, *edges, np.inf])[0] / len(s) for s in scores)
    assert np.allclose(frame["psi"], (q - p) * np.log(q / p))
    assert card.psi(X, X)["psi"].sum() == 0


def test_reasons_from_the_mean_and_from_the_cut_off(card: ScoreCard) -> None:
    X = mixed_rows(400, seed=2)
    by_mean = card.reasons(X, 1000, "mean")
    frame = card.to_frame()[1:]
    means = (frame["points"] * frame["mass"]).groupby(frame["component"]).sum()
    near = card.reference(X, cutoff=100.0)
    scores = card.score(X)
    rows = np.flatnonzero((scores >= 100) & (scores < 100 + card.pdo))
    assert card.base_points + sum(near.values()) == pytest.approx(scores[rows].mean())
    by_cutoff = card.reasons(X, 1000, near)
    for row in range(20):
        for found, known, words in ((by_mean, means, "the mean"), (by_cutoff, near, "the cut-off")):
            points = {s: p[tuple(card.banded.codes(card.banded.model.encoder.read(X[row : row + 1]))
                                 [j][0] for j in s)] for s, p in card.points.items()}  # fmt: skip
            lost = {name: known[name] - points[s] for s, name in card.names.items()}
            expected = sorted((v for v in lost.values() if v > 0), reverse=True)
            assert np.allclose([one.lost for one in found[row]], expected)
            assert all(str(one).endswith(words) for one in found[row])
    with pytest.raises(ValueError, match="reference: must be 'best', 'mean'"):
        card.reasons(X, reference="worst")
    with pytest.raises(ValueError, match="cutoff: some rows must score"):
        card.reference(X, cutoff=1e6)


def test_reasons_with_the_same_code_are_one(card: ScoreCard) -> None:
    X = mixed_rows(50, seed=3)
    codes = {"town": ("R1", "Where you live"), "amount": ("R2", "Too much"),
             "count": ("R2", "Too much")}  # fmt: skip
    for found in card.reasons(X, 1000, "mean", codes):
        used = [one.code for one in found if one.code]
        assert len(used) == len(set(used))
        assert {str(one) for one in found if one.code} <= {"Where you live", "Too much"}
    alone = card.reasons(X, 1000, "best", {"town": ("R1", "Where you live")})
    lost = {s: p.max() - p for s, p in card.points.items()}
    place = card.banded.codes(card.banded.model.encoder.read(X))
    with_town = [s for s in card.points if 5 in s]
    for row, found in enumerate(alone):
        expected = sum(lost[s][tuple(place[j][row] for j in s)] for s in with_town)
        assert sum(one.lost for one in found if one.code == "R1") == expected
    with pytest.raises(ValueError, match="codes: must have a code and a text"):
        card.reasons(X, codes={"twon": ("R1", "Where you live")})


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_a_query_gives_the_score_and_the_points(dialect: str) -> None:
    model = model_of("two classes")
    short = [s for s in model.components if len(s) < 3]
    made = scorecard(replace(model.restrict(short), classes=(0, 1)), max_bands=4, good=0)
    rows = odd_rows(model, 400)
    query = made.to_sql(dialect, key="id")
    if dialect == "duckdb":
        duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
        with duckdb.connect() as database:
            database.register("loans", rows)
            answer = database.execute(query).fetchall()
    else:
        with closing(sqlite3.connect(":memory:")) as database:
            rows.to_sql("loans", database, index=False)
            answer = database.execute(query).fetchall()
    lines = np.array(sorted(answer), dtype=float)
    assert np.array_equal(lines[:, 1], made.score(rows))
    assert np.array_equal(lines[:, 2:].sum(1) + made.base_points, lines[:, 1])
    assert '"points(' in query
    with pytest.raises(ValueError, match="dialect: must be one of"):
        made.to_sql("oracle7")


def scored_by_json(document: dict[str, Any], row: pd.Series) -> int:
    """Score of a row by the written card alone, as another system would."""
    band = {}
    for feature in document["features"]:
        value = row[feature["name"]]
        if pd.isna(value):
            band[feature["name"]] = feature["missing"]
        elif "levels" in feature:
            known = dict(feature["levels"])
            band[feature["name"]] = known.get(value, feature["unseen"])
        else:
            if feature["kind"] == "date":
                value = value.timestamp()
            elif feature["kind"] == "duration":
                value = value.total_seconds()
            band[feature["name"]] = sum(value >= cut for cut in feature["cuts"])
    total = document["base_points"]
    for component in document["components"]:
        points = component["points"]
        for name in component["features"]:
            points = points[band[name]]
        total += points
    return total


def test_another_system_scores_by_the_json(card: ScoreCard, tmp_path: Path) -> None:
    card.to_json(tmp_path / "card.json")
    document = json.loads((tmp_path / "card.json").read_text())
    X = fuzzed_rows(card.banded.model, 300)
    assert [scored_by_json(document, row) for _, row in X.iterrows()] == card.score(X).tolist()
    assert (document["good"], document["pdo"]) == (0, 20)


def test_a_saved_card_is_the_same_card(card: ScoreCard, tmp_path: Path) -> None:
    path = tmp_path / "card.tpnn"
    X, y = labelled(card)
    balanced = card.rebalanced(X, np.where(y == 0, 1, 0))
    balanced.save(path)
    again = ScoreCard.load(path)
    assert repr(again) == repr(balanced)
    assert np.array_equal(again.score(X), balanced.score(X))
    pd.testing.assert_frame_equal(again.to_frame(X, y), balanced.to_frame(X, y))
    assert again.reasons(X[:5]) == balanced.reasons(X[:5])
    whole = tpnn.load(path).model_
    assert np.array_equal(whole.raw_scores(X), card.banded.model.raw_scores(X))
    card.banded.model.save(path)
    with pytest.raises(ValueError, match="path: must be a complete score card"):
        ScoreCard.load(path)


def test_what_cannot_be_bands() -> None:
    model = mixed_model(1, "logit")
    for cuts, message in (
        ({"age": [1]}, "cuts: must name features of the model, found 'age'"),
        ({"count": [3, 2]}, "cuts: those of 'count' must increase"),
        ({"count": ["x"]}, "cuts: values of 'count' must be numbers"),
        ({"town": ["Ulm", ["ulm", "Ulm"]]}, "cuts: a level can be in one band only, found 'Ulm'"),
        ({"town": [["Bonn"]]}, "cuts: must be levels of 'town', found 'Bonn'"),
        ({"town": "Ulm"}, "cuts: 'town' has levels, so its bands are lists of them"),
    ):
        with pytest.raises(ValueError, match=message):
            scorecard(model, cuts=cuts)
    with pytest.raises(ValueError, match=r"min_share: must be a share from 0 to 0\.5"):
        scorecard(model, min_share=0.7)
    with pytest.raises(ValueError, match="max_bands: must name features of the model, found 'age'"):
        scorecard(model, max_bands={"age": 3})
