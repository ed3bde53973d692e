"""The page of the comparison: scores, times and rates of prediction as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.peers.data import DATA
from benchmarks.peers.models import MODELS, OURS
from benchmarks.table import markdown

RIVAL = "ebm"
LARGER_IS_BETTER = ("auroc",)
JUDGED = {"RMSE and log loss": ("rmse", "log_loss"), "AUROC": ("auroc",)}
MISSING = "-"
INTRODUCTION = """# Peers

`python -m benchmarks.peers run` measures, `python -m benchmarks.peers page` writes this page.

Every split is a random 70 : 10 : 20 of the rows. XGBoost and LightGBM train on the first part and
stop by the second, all others fit on both; the third is the test. Strings are ordinal codes and
missing numbers lie below all others, for every model alike. `ebm` is the default of interpret with
`n_jobs=2`, `tpnn-mains` is `order=1`, all other settings of both and of `pygam` are defaults.
`rmse_unseen` is over the test rows whose features occur in no row to fit. The multiclass drybean
and the 500 features of madelon are left out for now."""


class Difference(NamedTuple):
    """Mean of paired differences of a score from the rival's, and its standard error."""

    mean: float
    error: float

    def verdict(self, score: str) -> str:
        """Say who is better by one standard error; one split alone says nothing."""
        if np.isnan(self.error):
            return "unknown"
        gain = self.mean if score in LARGER_IS_BETTER else -self.mean
        return "win" if gain > self.error else "loss" if gain < -self.error else "tie"


def as_page(records: Sequence[dict[str, Any]], further: Sequence[str] = ()) -> str:
    """Return the page of all records, with further parts before failures and places."""
    done = [record for record in records if "failed" not in record]
    parts = [
        INTRODUCTION,
        *_score_part(done),
        *_ratio_part("Seconds of a fit", "fit_seconds", done),
        *_ratio_part("Rows predicted per second", "predict_rows_per_second", done),
        *further,
        *_failures(records),
        _places(records),
    ]
    return "\n\n".join(parts) + "\n"


def _score_part(done: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of scores, and the counts of wins, ties and losses."""
    header = ["data", "score", "splits", *MODELS]
    lines, verdicts = [header], []
    for (name, score), by_model in _score_groups(done).items():
        differences = {model: _difference(by_model, model) for model in OURS}
        verdicts += [(model, score, d.verdict(score)) for model, d in differences.items()]
        cells = [_score_cell(by_model[model], differences.get(model)) for model in MODELS]
        lines.append([name, score, str(len(by_model)), *cells])
    explained = (
        "Means over the splits; in brackets, the mean difference from `ebm` on the same splits and "
        "its standard error (the splits overlap, which makes it too small). Smaller is better but "
        "for auroc."
    )
    counts = [_count(verdicts, model, what) for model in OURS for what in JUDGED]
    return ["## Scores", markdown(lines), explained, "\n".join(counts)]


def _score_groups(done: Iterable[dict[str, Any]]) -> dict[tuple[str, str], pd.DataFrame]:
    """Return, for each data set and score, a table of the splits by the models."""
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for record in sorted(done, key=lambda record: DATA.index(record["data"])):
        for score, value in record["scores"].items():
            by_model = values.setdefault((record["data"], score), {})
            by_model.setdefault(record["model"], {})[record["split"]] = value
    return {key: pd.DataFrame(v).reindex(columns=list(MODELS)) for key, v in values.items()}


def _difference(by_model: pd.DataFrame, model: str) -> Difference:
    paired = (by_model[model] - by_model[RIVAL]).dropna().to_numpy()
    n = len(paired)
    mean = float(paired.mean()) if n else np.nan
    return Difference(mean, float(paired.std(ddof=1)) / math.sqrt(n) if n > 1 else np.nan)


def _score_cell(values: pd.Series, difference: Difference | None) -> str:
    mean = _number(values.mean())
    if difference is None or np.isnan(difference.mean):
        return mean
    error = "?" if np.isnan(difference.error) else f"{difference.error:.2g}"
    return f"{mean} ({difference.mean:+.2g} ± {error})"


def _count(verdicts: Iterable[tuple[str, str, str]], model: str, what: str) -> str:
    mine = [verdict for who, score, verdict in verdicts if who == model and score in JUDGED[what]]
    wins, ties, losses, unknown = (mine.count(v) for v in ("win", "tie", "loss", "unknown"))
    return (
        f"- `{model}` against `{RIVAL}` by one standard error, {what}: wins {wins}, ties {ties}, "
        f"losses {losses}, not comparable yet {unknown}."
    )


def _ratio_part(title: str, quantity: str, done: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of a quantity by data set and model, and of ours relative to the rival's."""
    lines = [["data", "rows", "features", *MODELS, *(f"{model} / {RIVAL}" for model in OURS)]]
    ratios = []
    for name in DATA:
        cells = [record for record in done if record["data"] == name]
        if cells:
            by_model = _by_model(cells, quantity)
            ratios.append([_ratio(by_model, model) for model in OURS])
            sizes = [f"{cells[0][size]:,}" for size in ("n_train", "n_features")]
            lines.append([name, *sizes, *map(_number, [*by_model.mean(), *ratios[-1]])])
    means = [_geometric_mean([line[i] for line in ratios]) for i in range(len(OURS))]
    blank = [""] * (2 + len(MODELS))
    lines.append(["geometric mean", *blank, *map(_number, means)])
    return [f"## {title}", markdown(lines)]


def _by_model(cells: Iterable[dict[str, Any]], quantity: str) -> pd.DataFrame:
    table = pd.DataFrame(cells).pivot(index="split", columns="model", values=quantity)
    return table.reindex(columns=list(MODELS))


def _ratio(by_model: pd.DataFrame, model: str) -> float:
    """Return our mean over the rival's, on the splits that both have."""
    paired = by_model[[model, RIVAL]].dropna()
    return float(paired[model].mean() / paired[RIVAL].mean()) if len(paired) else np.nan


def _geometric_mean(ratios: Sequence[float]) -> float:
    known = [ratio for ratio in ratios if not np.isnan(ratio)]
    return float(np.exp(np.mean(np.log(known)))) if known else np.nan


def _number(value: float) -> str:
    if np.isnan(value):
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _failures(records: Iterable[dict[str, Any]]) -> list[str]:
    lines = [
        f"- {record['model']} on {record['data']}, split {record['split']}: {record['failed']}"
        for record in records
        if "failed" in record
    ]
    return ["## Failures", "\n".join(lines)] if lines else []


def _places(records: Iterable[dict[str, Any]]) -> str:
    """Say where and when each version of each library was measured."""
    places: dict[str, dict[str, None]] = {}  # place -> libraries in order of appearance
    for record in records:
        place = "{date}, {cpu}, {cores} cores".format(**record)
        library = "{model} {version}".format(**record)
        places.setdefault(place, {})[library] = None
    return "\n".join(f"- {place}: {', '.join(members)}" for place, members in places.items())
