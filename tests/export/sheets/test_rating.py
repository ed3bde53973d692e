"""Rating tables: base times relativities, bands that lose least, losses that are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_poisson_deviance

from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import table_model, with_remainder
from tpnn import AnovaModel, compare
from tpnn.export.sheets.rating import RatingTables
from tpnn.table.table import OffsetColumn

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def by_hand(tables: RatingTables, X: pd.DataFrame) -> np.ndarray:
    """Base times one relativity per frame, the line found by the labels of the bands."""
    banded = tables.banded
    codes = banded.codes(banded.model.encoder.read(X))
    products = np.full(len(X), tables.base)
    for component in banded.tables:
        frame = tables.frames[banded.name(component)]
        names = list(frame)[: len(component)]
        labels = [np.array(banded.bands[j].labels, object)[codes[j]] for j in component]
        line = {tuple(line[:-1]): line[-1] for line in frame[[*names, "relativity"]].to_numpy()}
        products *= [line[key] for key in zip(*labels, strict=True)]
    return products


@pytest.mark.parametrize("base", ["mode", "mean"])
@pytest.mark.parametrize("link", ["log", "logit"])
def test_base_times_relativities_is_the_prediction(link: str, base: str) -> None:
    model = mixed_model(2, link)
    tables = model.rating_tables(base=base, max_bands=4)
    X = fuzzed_rows(model, 300)
    expected = by_hand(tables, X)
    found = tables.predict(X)
    assert np.allclose(found / (1 - found) if link == "logit" else found, expected)


def test_every_level_has_a_line_with_its_band() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"Dept": rng.choice([f"D{k:02}" for k in range(40)], 2000)})
    tables = table_model(X, 1, "log").rating_tables(max_bands=4)
    levels = tables.levels
    assert sorted(levels["level"]) == sorted(set(X["Dept"]))
    relativity = tables.frames["Dept"].set_index("Dept")["relativity"]
    expected = tables.base * levels["band"].map(relativity)
    assert np.allclose(tables.predict(levels.rename(columns={"level": "Dept"})), expected)
    assert "D39" in tables._repr_html_()


ON_NODES = [(1,), (4,), (5,)]  # counts and levels, of which every value is a node


def test_as_many_bands_as_nodes_lose_nothing_on_nodes() -> None:
    model = mixed_model(1).restrict(ON_NODES)
    tables = model.rating_tables(max_bands=1000)
    X = mixed_rows(300)
    assert np.allclose(tables.predict(X), model.predict(X), rtol=1e-12)
    assert tables.losses["variance_lost"].max() < 1e-25


def test_bands_hold_the_mean_of_their_points_and_state_their_loss() -> None:
    model = mixed_model(2)
    tables = model.rating_tables(max_bands=3)
    table = model.to_table()
    for name in ("amount", "town"):
        lines = table[table["component"] == name]
        frame, line = tables.frames[name], tables.losses.set_index("component").loc[name]
        assert len(frame) <= 3 + 2
        assert line["variance"] == pytest.approx((lines["mass"] * lines["effect"] ** 2).sum())
        between = (frame["mass"] * frame["effect"] ** 2).sum()
        assert line["variance_lost"] == pytest.approx(line["variance"] - between)
        assert (frame["mass"] * frame["effect"]).sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("link", ["log", "logit"])
def test_actual_over_expected_and_the_deviance_lost(link: str) -> None:
    model = mixed_model(2, link)
    X = mixed_rows(500, seed=3)
    rng = np.random.default_rng(0)
    means = model.predict(X)
    y = rng.poisson(means) if link == "log" else (rng.random(500) < means).astype(int)
    tables = model.rating_tables(X, y, max_bands=3)
    fitted = tables.predict(X)
    for frame in tables.frames.values():
        assert frame["n_rows"].sum() == 500
        assert frame["actual"].sum() == y.sum()
        assert frame["expected"].sum() == pytest.approx(fitted.sum())
    frame = tables.frames["town"].set_index("town")
    missing = X["town"].isna()
    ratio = y[missing].sum() / fitted[missing].sum()
    assert frame.loc["(missing)", "actual_over_expected"] == pytest.approx(ratio)

    def deviance(mean: np.ndarray) -> float:
        if link == "log":
            logs = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / mean), 0.0)
            return float(2 * np.mean(logs - y + mean))
        return float(-2 * np.mean(np.log(np.where(y == 1, mean, 1 - mean))))

    lost = tables.losses.set_index("component")["deviance_lost"]
    assert lost["(all)"] == pytest.approx(deviance(fitted) - deviance(means))


def motor() -> tuple[AnovaModel, pd.DataFrame, np.ndarray]:
    """A model of counts with an exposure, rows and claims that are a fifth too many."""
    model = mixed_model(2)
    column = OffsetColumn("years", 6, is_exposure=True)
    model = replace(model, encoder=replace(model.encoder, offset_column=column), has_offset=True)
    rng = np.random.default_rng(3)
    X = mixed_rows(800, seed=3).assign(years=rng.uniform(0.1, 1, 800))
    return model, X, rng.poisson(1.2 * model.predict(X))


def test_frames_have_exposure_and_observed_frequency() -> None:
    model, X, y = motor()
    tables = model.rating_tables(X, y, max_bands=4)
    frame = tables.frames["town"].set_index("town")
    codes = tables.banded.codes(model.encoder.read(X))[5]
    groups = np.array(tables.banded.bands[5].labels, object)[codes]
    by_hand = X.assign(y=y, mean=tables.predict(X)).groupby(groups)[["years", "y", "mean"]].sum()
    lines = frame.loc[by_hand.index]
    assert np.allclose(lines["exposure"], by_hand["years"])
    assert np.allclose(lines["observed"], by_hand["y"] / by_hand["years"])
    assert np.allclose(lines["fitted"], by_hand["mean"] / by_hand["years"])


def test_steps_from_the_model_to_a_tariff_that_can_be_filed() -> None:
    model, X, y = motor()
    tables = model.rating_tables(X, y, max_bands=4)
    filed = tables.capped(0.8, 1.25).rounded(2).rebalanced()
    assert filed.steps["step"].tolist() == [
        "model", "put on bands", "capped at 0.8 and 1.25", "rounded to 2 digits", "rebalanced",
    ]  # fmt: skip
    for frame in filed.frames.values():
        assert frame["relativity"].between(0.8 - 1e-9, 1.25 + 1e-9).all()
        assert np.allclose(frame["relativity"] * 100, np.rint(frame["relativity"] * 100))
        assert np.isclose(frame["relativity"], 1).any()
    last = filed.steps.iloc[-1]
    assert last["actual_over_expected"] == pytest.approx(1, abs=1e-9)
    assert filed.predict(X).sum() == pytest.approx(y.sum())
    assert last["deviance"] == pytest.approx(mean_poisson_deviance(y, filed.predict(X)))
    assert filed.steps["deviance"][0] == pytest.approx(mean_poisson_deviance(y, model.predict(X)))
    assert np.allclose(filed.predict(X), by_hand(filed, X) * X["years"])
    some = tables.capped(0.9, 1.1, of=["town"])
    assert some.frames["town"]["relativity"].between(0.9 - 1e-9, 1.1 + 1e-9).all()
    assert np.array_equal(some.frames["count"]["relativity"], tables.frames["count"]["relativity"])
    assert compare({"old": tables, "new": filed}, X).frame["difference"].abs().max() > 0


def test_two_classes_are_rebalanced_too() -> None:
    model = mixed_model(2, "logit")
    X = mixed_rows(400, seed=5)
    y = (np.arange(400) % 5 == 0).astype(int)
    tables = model.rating_tables(max_bands=3)
    balanced = tables.rebalanced(X, y)
    assert balanced.predict(X).sum() == pytest.approx(80)
    assert np.isnan(balanced.steps["deviance"]).all()
    with pytest.raises(ValueError, match="X: rows are needed to balance a tariff"):
        tables.rebalanced()


def test_relativities_are_one_where_the_user_says() -> None:
    model = mixed_model(2)
    base = {"town": "Ulm", "count": 7, "since": "2017-01-01", "amount": None}
    tables = model.rating_tables(base=base, max_bands=4, cuts={"count": [5, 9]})
    X = mixed_rows(1).assign(town="Ulm", count=7.0, since=pd.Timestamp("2017-01-01"), amount=np.nan)
    bands = tables.banded.bands
    for feature, name in ((3, "waited"), (4, "size")):
        label = bands[feature].labels[int(bands[feature].band_masses.argmax())]
        lines = tables.frames[name].set_index(name)
        assert lines.loc[label, "relativity"] == pytest.approx(1)
    for name, label in (("count", "5 to < 9"), ("amount", "(missing)")):
        assert tables.frames[name].set_index(name).loc[label, "relativity"] == pytest.approx(1)
    levels = tables.levels.set_index("level")["relativity"]
    assert levels["Ulm"] == pytest.approx(1)
    pair = tables.frames["count x town"]
    ulm = bands[5].labels[bands[5].locate(model.encoder.columns(model.encoder.read(X))[5])[0]]
    line = pair[(pair["count"] == "5 to < 9") & (pair["town"] == ulm)]
    assert line["relativity"].item() == pytest.approx(1)
    with pytest.raises(ValueError, match="base: must name features of the tables, found 'age'"):
        model.rating_tables(base={"age": 3})
    with pytest.raises(ValueError, match="low: relativities of 1 must stay possible"):
        tables.capped(1.1, 1.2)
    with pytest.raises(ValueError, match="of: must name tables, found 'age'"):
        tables.capped(0.9, 1.2, of=["age"])
    with pytest.raises(ValueError, match="digits: 0 make some relativities 0"):
        replace(tables, base_effects=dict.fromkeys(tables.base_effects, 5.0)).rounded(0)


def test_an_offset_counts_in_predictions_and_in_expected() -> None:
    model = mixed_model(1, has_offset=True).restrict(ON_NODES)
    X, offset = mixed_rows(100), np.linspace(-1, 1, 100)
    y = model.predict(X, offset)
    tables = model.rating_tables(X, y, offset=offset, max_bands=1000)
    assert np.allclose(tables.predict(X, offset), y)
    ratio = tables.frames["town"]["actual_over_expected"].dropna()
    assert np.allclose(ratio, 1)


def test_values_are_in_the_bands_that_their_labels_name() -> None:
    tables = mixed_model(1).rating_tables(max_bands=4)
    frame = tables.frames["count"]
    bands = tables.banded.bands[1]
    for value in np.arange(-1.0, 14.0, 0.25):
        label = frame["count"][bands.locate(np.array([value]))[0]]
        low, _, high = label.partition("to <") if "to" in label else ("", "", "")
        if label.startswith("<"):
            high = label[1:]
        elif label.startswith(">="):
            low = label[2:]
        assert float(low or "-inf") <= value < float(high or "inf")


def test_a_notebook_shows_all_tables_and_runs_no_level() -> None:
    rows = mixed_rows().assign(town="<script>")
    tables = table_model(rows, 1, "log", unit=0.2).rating_tables()
    html = tables._repr_html_()
    assert all(f"<h4>{name}</h4>" in html for name in tables.frames)
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


def test_what_cannot_be_a_rating_table() -> None:
    model = mixed_model(1)
    with pytest.raises(ValueError, match="model: rating tables are for models of rates"):
        mixed_model(1, "identity").rating_tables()
    with pytest.raises(ValueError, match="model: a rating table holds nothing but components"):
        with_remainder(model).rating_tables()
    with pytest.raises(ValueError, match="max_bands: must be a whole number"):
        model.rating_tables(max_bands=0)
    with pytest.raises(ValueError, match="base: must be"):
        model.rating_tables(base="median")
    with pytest.raises(ValueError, match="y: rows are passed as X and y together"):
        model.rating_tables(mixed_rows(5))
    with pytest.raises(ValueError, match="y: numbers of at least 0"):
        model.rating_tables(mixed_rows(5), -np.ones(5))
    with pytest.raises(ValueError, match="y: the labels"):
        mixed_model(1, "logit").rating_tables(mixed_rows(5), np.full(5, 7))
