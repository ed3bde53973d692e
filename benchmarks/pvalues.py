"""p-values of components that are zero, and of some that are not: ``python -m benchmarks.pvalues``.

Every table is a fit and one line of ``pvalues.jsonl``; what has a line is not measured again. All
features are uniform. The truth is a strong effect of ``a``, a weak one of ``b`` and, if pairs are
fitted, a weak one of ``a x b``; everything else is zero.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from benchmarks.say import say
from evaluation.cells import Line, append, read
from evaluation.tables import markdown
from tpnn import TPNNClassifier, TPNNRegressor

LINES = Path(__file__).parent / "pvalues.jsonl"
FEATURES = list("abcde")
WEAK_MAIN, WEAK_PAIR = 0.25, 0.5  # largest value of b, factor of the pair
N_BAGS = 4  # fewer than by default, so that 200 tables are affordable
LEVELS = (0.01, 0.05, 0.1, 0.5)


class Setting(NamedTuple):
    """What is fitted to which rows."""

    task: str
    order: int
    n_rows: int
    correlation: float


SETTINGS = (
    Setting("regression", 1, 500, 0.5),
    Setting("uneven noise", 1, 500, 0.0),
    Setting("two classes", 1, 1000, 0.5),
    Setting("poisson", 1, 500, 0.5),
    Setting("regression", 2, 500, 0.5),
)
TRUE_IMPORTANCE = {  # E|f| of what is not zero
    "a": 2 / np.pi,
    "b": WEAK_MAIN / 2,
    "a x b": WEAK_PAIR / np.pi,
}


def sample(setting: Setting, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows and targets; the logarithms of rates and half of the log-odds have the same effects."""
    rng = np.random.default_rng(seed)
    own, common = rng.normal(size=(setting.n_rows, 5)), rng.normal(size=(setting.n_rows, 1))
    share = setting.correlation
    X = pd.DataFrame(ndtr(np.sqrt(1 - share) * own + np.sqrt(share) * common), columns=FEATURES)
    wave, line = np.sin(2 * np.pi * X["a"]), 2 * X["b"] - 1
    f = wave + WEAK_MAIN * line + (setting.order > 1) * WEAK_PAIR * wave * line
    if setting.task == "two classes":
        return X, rng.random(setting.n_rows) < 1 / (1 + np.exp(-f))
    if setting.task == "poisson":
        return X, rng.poisson(np.exp(f))
    noise = rng.normal(size=setting.n_rows)
    return X, f + (noise if setting.task == "regression" else noise * (0.5 + X["c"]))


def measure(setting: Setting, seed: int) -> Line:
    """Fit a table; p-value and interval of the importance of every component."""
    X, y = sample(setting, seed)
    estimator: Any = TPNNClassifier if setting.task == "two classes" else TPNNRegressor
    options: dict[str, Any] = {"n_bags": N_BAGS, "random_state": seed, "verbose": 0}
    options |= {"objective": "poisson"} if setting.task == "poisson" else {}
    model = estimator(order=setting.order, **options).fit(X, y)
    frame = model.summary().to_frame()
    shown = frame[["component", "p_value", "importance", "lower", "upper"]].to_numpy().tolist()
    lines = [[name, *(float(f"{value:.4g}") for value in values)] for name, *values in shown]
    return {**setting._asdict(), "seed": seed, "components": lines}


def as_table(lines: Sequence[Line]) -> str:
    """Shares of p-values below some levels, power and coverage in per cent, by setting."""
    head = ["task", "order", "rows", "correlation", "tables", "zero components",
            *(f"p < {level}" for level in LEVELS), "power for b", "power for a x b",
            "importance covered"]  # fmt: skip
    rows = []
    for setting in SETTINGS:
        found = [s for line in lines if _setting(line) == setting for s in line["components"]]
        if found:
            n_tables = sum(_setting(line) == setting for line in lines)
            rows.append([*map(str, setting), str(n_tables), *_figures(found)])
    return markdown([head, *rows])


def _setting(line: Line) -> Setting:
    return Setting(*(line[name] for name in Setting._fields))


def _figures(found: Sequence[Any]) -> list[str]:
    def below(wanted: Sequence[float], level: float) -> str:
        return f"{100 * np.mean(np.array(wanted) < level):.1f}" if len(wanted) else ""

    zero = [p for name, p, *_ in found if name not in TRUE_IMPORTANCE]
    weak = ([p for name, p, *_ in found if name == wanted] for wanted in ("b", "a x b"))
    covered = [
        lower <= TRUE_IMPORTANCE[name] <= upper
        for name, _, _, lower, upper in found
        if name in TRUE_IMPORTANCE
    ]
    return [
        str(len(zero)),
        *(below(zero, level) for level in LEVELS),
        *(below(p_values, 0.05) for p_values in weak),
        f"{100 * np.mean(covered):.1f}",
    ]


def main() -> None:
    """Measure what has no line yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pvalues", description=__doc__)
    parser.add_argument("--tables", type=int, default=200, help="of each setting, 200 by default")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of the results")
    given = parser.parse_args()
    known = {(_setting(line), line["seed"]) for line in read(given.lines)}
    for setting in SETTINGS:
        for seed in range(given.tables):
            if (setting, seed) not in known:
                append(given.lines, measure(setting, seed))
        say(", ".join(map(str, setting)))
    print(as_table(read(given.lines)))


if __name__ == "__main__":
    main()
