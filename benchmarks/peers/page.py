"""The page of the comparison: scores, times and rates of prediction as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.peers.data import DATA
from benchmarks.peers.models import EARLY_STOPPED, MODELS, OURS, RIVAL
from evaluation.cells import Line
from evaluation.tables import four_digits, markdown

LARGER_IS_BETTER = ("auroc",)
JUDGED = {"RMSE and log loss": ("rmse", "log_loss"), "AUROC": ("auroc",)}
MISSING = "-"
INTRODUCTION = """# Peers

`python -m benchmarks.peers run` measures, `python -m benchmarks.peers page` writes this page.

Every split is a random 70 : 10 : 20 of the rows. {stopped} train on the first part and
stop by the second, all others fit on both; the third is the test. Strings are ordinal codes and
missing numbers lie below all others, for every model alike. `ebm` is the default of interpret with
`n_jobs=2`, `tpnn-mains` is `order=1`, all other settings of both and of `pygam` are defaults.
`rmse_unseen` is over the test rows whose features occur in no row to fit. The auroc of more than
two classes is the mean of those of one class against the others; `pygam` has no such model. Seconds
and rates of a data set are those of one machine, the one with the most splits of both `tpnn` and
`ebm`. `>` is a lower bound, of fits that were stopped, and `<` an upper one."""


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


class Amount(NamedTuple):
    """A number that is known, or of which a lower (``>``) or an upper (``<``) bound is known."""

    value: float
    sign: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {_number(self.value)}".strip()


UNKNOWN = Amount(np.nan)


def as_page(records: Sequence[Line], further: Sequence[str] = ()) -> str:
    """Return the page of all records, with further parts before failures and places."""
    models = _shown(records)
    done = [record for record in records if "scores" in record]
    stopped = [
        {**record, "fit_seconds": record["timed_out"]}
        for record in records
        if "timed_out" in record
    ]
    parts = [
        INTRODUCTION.format(stopped=_stopped_early(models)),
        *_score_part(done, models),
        *_ratio_part("Seconds of a fit", "fit_seconds", [*done, *stopped], models),
        *_ratio_part("Rows predicted per second", "predict_rows_per_second", done, models),
        *further,
        *_failures(records),
        _places(records),
    ]
    return "\n\n".join(parts) + "\n"


def _shown(records: Iterable[Line]) -> list[str]:
    """Return the models that have columns: we, the rival, and those that have been measured."""
    measured = {OURS[0], OURS[1], RIVAL, *(record["model"] for record in records)}
    return [model for model in MODELS if model in measured]


def _stopped_early(models: Iterable[str]) -> str:
    """Name the models that stop early, all where none of them has been measured.

    >>> _stopped_early(["xgboost", "lightgbm", "catboost"])
    'XGBoost, LightGBM and CatBoost'
    """
    measured = [EARLY_STOPPED[model] for model in models if model in EARLY_STOPPED]
    *names, last = measured or EARLY_STOPPED.values()
    return f"{', '.join(names)} and {last}" if names else last


def _score_part(done: Sequence[Line], models: list[str]) -> list[str]:
    """Return the table of scores, and the counts of wins, ties and losses."""
    header = ["data", "score", "splits", *models]
    lines, verdicts = [header], []
    for (name, score), by_model in _score_groups(done, models).items():
        differences = {model: _difference(by_model, model) for model in OURS}
        verdicts += [(model, score, d.verdict(score)) for model, d in differences.items()]
        cells = [_score_cell(by_model[model], differences.get(model)) for model in models]
        lines.append([name, score, str(len(by_model)), *cells])
    explained = (
        "Means over the splits; in brackets, the mean difference from `ebm` on the same splits and "
        "its standard error (the splits overlap, which makes it too small). Smaller is better but "
        "for auroc."
    )
    counts = [_count(verdicts, model, what) for model in OURS for what in JUDGED]
    return ["## Scores", markdown(lines, padded=True), explained, "\n".join(counts)]


def _score_groups(done: Iterable[Line], models: list[str]) -> dict[tuple[str, str], pd.DataFrame]:
    """Return, for each data set and score, a table of the splits by the models."""
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for record in sorted(done, key=lambda record: DATA.index(record["data"])):
        for score, value in record["scores"].items():
            by_model = values.setdefault((record["data"], score), {})
            by_model.setdefault(record["model"], {})[record["split"]] = value
    return {key: pd.DataFrame(v).reindex(columns=models) for key, v in values.items()}


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


def _ratio_part(title: str, quantity: str, records: Sequence[Line], models: list[str]) -> list[str]:
    """Return a table of a quantity by data set and model, and of ours relative to the rival's."""
    ratio_names = [f"{model} / {RIVAL}" for model in OURS]
    lines = [["data", "rows", "features", "machine", *models, *ratio_names]]
    ratios = []
    for name in DATA:
        everywhere = [record for record in records if record["data"] == name]
        if everywhere:
            machine, cells = _at_one_machine(everywhere)
            values, stopped = (_by_model(cells, what, models) for what in (quantity, "timed_out"))
            means = [_mean(values[model], stopped[model]) for model in models]
            ratios.append([_ratio(values, stopped, model) for model in OURS])
            sizes = [f"{cells[0][size]:,}" for size in ("n_train", "n_features")]
            lines.append([name, *sizes, machine, *map(str, [*means, *ratios[-1]])])
    means = [_geometric_mean([line[i] for line in ratios]) for i in range(len(OURS))]
    blank = [""] * (3 + len(models))
    lines.append(["geometric mean", *blank, *map(str, means)])
    return [f"## {title}", markdown(lines, padded=True)]


def _at_one_machine(records: Iterable[Line]) -> tuple[str, list[Line]]:
    """Return the machine that has the most splits of both us and the rival, and its records."""
    by_machine: dict[str, list[Line]] = {}
    for record in records:
        by_machine.setdefault("{cpu}, {cores} cores".format(**record), []).append(record)
    return max(by_machine.items(), key=lambda item: _n_compared(item[1]))


def _n_compared(records: Iterable[Line]) -> int:
    splits: dict[str, set[int]] = {OURS[0]: set(), RIVAL: set()}
    for record in records:
        splits.setdefault(record["model"], set()).add(record["split"])
    return len(splits[OURS[0]] & splits[RIVAL])


def _by_model(cells: Iterable[Line], quantity: str, models: list[str]) -> pd.DataFrame:
    """Return a quantity by split and model, missing where a cell does not have it."""
    values = [{**record, quantity: record.get(quantity)} for record in cells]
    table = pd.DataFrame(values).pivot(index="split", columns="model", values=quantity)
    return table.reindex(columns=models)


def _mean(values: pd.Series, stopped: pd.Series) -> Amount:
    return Amount(float(values.mean()), ">" if stopped.notna().any() else "")


def _ratio(values: pd.DataFrame, stopped: pd.DataFrame, model: str) -> Amount:
    """Return our mean over the rival's, on the splits that both have."""
    both = values[[model, RIVAL]].dropna().index
    ours, theirs = (_mean(values.loc[both, who], stopped.loc[both, who]) for who in (model, RIVAL))
    if ours.sign and theirs.sign:
        return UNKNOWN
    return Amount(ours.value / theirs.value, ours.sign or ("<" if theirs.sign else ""))


def _geometric_mean(ratios: Iterable[Amount]) -> Amount:
    known = [ratio for ratio in ratios if not np.isnan(ratio.value)]
    signs = {ratio.sign for ratio in known if ratio.sign}
    if not known or len(signs) > 1:
        return UNKNOWN
    return Amount(float(np.exp(np.mean([np.log(ratio.value) for ratio in known]))), "".join(signs))


def _number(value: float) -> str:
    return MISSING if np.isnan(value) else four_digits(value)


def _failures(records: Iterable[Line]) -> list[str]:
    lines = [
        f"- {record['model']} on {record['data']}, split {record['split']}: {reason}"
        for record in records
        if (reason := _failure(record))
    ]
    return ["## Failed or stopped", "\n".join(lines)] if lines else []


def _failure(record: Line) -> str:
    """Say why a cell has no scores, nothing where it has them."""
    if "timed_out" in record:
        return f"timed out after {_number(record['timed_out'])} s"
    return str(record.get("failed", ""))


def _places(records: Iterable[Line]) -> str:
    """Say where and when each version of each library was measured."""
    places: dict[str, dict[str, None]] = {}  # place -> libraries in order of appearance
    for record in records:
        place = "{date}, {cpu}, {cores} cores".format(**record)
        library = "{model} {version}".format(**record)
        places.setdefault(place, {})[library] = None
    return "\n".join(f"- {place}: {', '.join(members)}" for place, members in places.items())
