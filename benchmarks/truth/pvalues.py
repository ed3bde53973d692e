"""p-values of components with a known truth: ``python -m benchmarks.truth.pvalues``.

Every table is a fit; what has a line is not measured again. All features are uniform. The truth is
a strong effect of ``a``, a weak one of ``b`` and, if pairs are fitted, a weak one of ``a x b``;
everything else is zero.

``--searched`` measures fits that choose their components: 100 tables of each choice, and how many
of them have any component that is zero and has a p-value below 0.05.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from benchmarks.common.cells import Line, complete
from benchmarks.common.markdown import markdown
from tpnn import TPNNClassifier, TPNNRegressor

FEATURES = [*"abcdefghijklmnopqrstuvwxyz", *(f"x{number}" for number in range(8))]
WEAK_MAIN, WEAK_PAIR = 0.25, 0.5  # largest value of b, factor of the pair
N_BAGS = 4  # fewer than by default, so that 200 tables are affordable
LEVEL = 0.05
LEVELS = (0.01, 0.05, 0.1, 0.5)


class Setting(NamedTuple):
    """What is fitted to which rows."""

    task: str
    order: int
    n_rows: int
    correlation: float
    n_features: int = 5
    choice: str = ""  # how components are chosen; all are included without one


SETTINGS = (
    Setting("regression", 1, 500, 0.5),
    Setting("uneven noise", 1, 500, 0.0),
    Setting("two classes", 1, 1000, 0.5),
    Setting("poisson", 1, 500, 0.5),
    Setting("regression", 2, 500, 0.5),
)
CHOICES: dict[str, dict[str, Any]] = {
    "": {},
    "5 best pairs": {"interactions": 5},
    "pairs above the noise": {},
    "triples": {},
    "one standard error": {"selection": "one_se"},
    "4 best components": {"max_components": 4},
}
SEARCHED = (
    Setting("regression", 2, 500, 0.5, 12, "5 best pairs"),
    Setting("regression", 1, 500, 0.5, 10, "one standard error"),
    Setting("regression", 1, 500, 0.5, 10, "4 best components"),
    Setting("regression", 2, 500, 0.5, 34, "pairs above the noise"),
    Setting("regression", 3, 500, 0.5, 6, "triples"),
)
TRUE_IMPORTANCE = {  # E|f| of what is not zero
    "a": 2 / np.pi,
    "b": WEAK_MAIN / 2,
    "a x b": WEAK_PAIR / np.pi,
}


def sample(setting: Setting, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows and targets; the logarithms of rates and half of the log-odds have the same effects."""
    rng = np.random.default_rng(seed)
    n_rows, n_features = setting.n_rows, setting.n_features
    own, common = rng.normal(size=(n_rows, n_features)), rng.normal(size=(n_rows, 1))
    share = setting.correlation
    uniform = ndtr(np.sqrt(1 - share) * own + np.sqrt(share) * common)
    X = pd.DataFrame(uniform, columns=FEATURES[:n_features])
    wave, line = np.sin(2 * np.pi * X["a"]), 2 * X["b"] - 1
    f = wave + WEAK_MAIN * line + (setting.order > 1) * WEAK_PAIR * wave * line
    if setting.task == "two classes":
        return X, rng.random(setting.n_rows) < 1 / (1 + np.exp(-f))
    if setting.task == "poisson":
        return X, rng.poisson(np.exp(f))
    noise = rng.normal(size=setting.n_rows)
    return X, f + (noise if setting.task == "regression" else noise * (0.5 + X["c"]))


def measure(*cell: Any) -> Line:
    """Fit a table; p-value and interval of the importance of every component."""
    setting, seed = Setting(*cell[:-1]), cell[-1]
    X, y = sample(setting, seed)
    estimator: Any = TPNNClassifier if setting.task == "two classes" else TPNNRegressor
    options: dict[str, Any] = {"n_bags": N_BAGS, "random_state": seed, "verbose": 0}
    options |= {"objective": "poisson"} if setting.task == "poisson" else {}
    options |= CHOICES[setting.choice]
    model = estimator(order=setting.order, **options).fit(X, y)
    frame = model.summary().to_frame()
    shown = frame[["component", "p_value", "importance", "lower", "upper"]].to_numpy().tolist()
    lines = [[name, *(float(f"{value:.4g}") for value in values)] for name, *values in shown]
    return {"components": lines}


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
            rows.append([*map(str, setting[:4]), str(n_tables), *_figures(found)])
    return markdown([head, *rows])


def searched_table(lines: Sequence[Line]) -> str:
    """Tables with any p-value of a zero component below 0.05, by order and choice."""
    head = ["choice", "order", "features", "tables", "zero components of the order",
            "below 0.05, %", "tables with any, %", "power for a x b"]  # fmt: skip
    rows = [head]
    for setting in SEARCHED:
        tables = [line["components"] for line in lines if _setting(line) == setting]
        for order in range(1, setting.order + 1) if tables else ():
            zero = [[p for name, p, *_ in table if name not in TRUE_IMPORTANCE
                     and name.count(" x ") == order - 1] for table in tables]  # fmt: skip
            every = np.array([p for table in zero for p in table])
            share = f"{100 * np.mean(every < LEVEL):.1f}" if len(every) else ""
            any_of = 100 * np.mean([min(table, default=1.0) < LEVEL for table in zero])
            pairs = [[p for name, p, *_ in table if name == "a x b"] for table in tables]
            power = 100 * np.mean([min(table, default=1.0) < LEVEL for table in pairs])
            rows.append([setting.choice, str(order), str(setting.n_features), str(len(tables)),
                         str(len(every)), share, f"{any_of:.0f}",
                         f"{power:.0f}" if order == 2 else ""])  # fmt: skip
    return markdown(rows)


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth.pvalues", description=__doc__)
    parser.add_argument("--tables", type=int, default=200, help="of each setting, 200 by default")
    parser.add_argument("--searched", action="store_true", help="fits that choose components")
    given = parser.parse_args()
    settings = SEARCHED if given.searched else SETTINGS
    cells = [(*setting, seed) for setting in settings for seed in range(given.tables)]
    lines = complete("pvalues", (*Setting._fields, "seed"), cells, measure)
    print((searched_table if given.searched else as_table)(lines))


if __name__ == "__main__":
    main()
