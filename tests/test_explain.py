from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn import Explanation, TPNNRegressor, plots


@pytest.fixture(scope="module")
def explanation(table: Any, quick: Any) -> Explanation:
    X, y = table
    return TPNNRegressor(**quick).fit(X, y).explain()


@pytest.fixture(scope="module")
def sample(explanation: Explanation, table: Any) -> np.ndarray:
    """Component scores on rows drawn from the product of the marginals."""
    X, _ = table
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.choice(X[name], 40_000) for name in X])
    return explanation.model.component_scores(rows)


def test_importance_is_the_l1_norm(explanation: Explanation, sample: np.ndarray) -> None:
    """Exact under the node masses; between nodes |f| is only nearly linear."""
    importance = explanation.importance()
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert importance[names] == pytest.approx(np.abs(scores).mean(), rel=0.05, abs=1e-3)


def test_sobol_shares_are_variance_shares(explanation: Explanation, sample: np.ndarray) -> None:
    shares = explanation.sobol()
    assert sum(shares.values()) == pytest.approx(1.0)
    total = sample.sum(1).var()
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert shares[names] == pytest.approx(scores.var() / total, abs=0.02)


def test_plots_return_axes(explanation: Explanation) -> None:
    from matplotlib import pyplot

    assert plots.main_effect(explanation, "smooth").get_xlabel() == "smooth"
    heat = plots.pair_effect(explanation, ("level", "smooth"))
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("smooth", "level")
    bars = plots.importance(explanation, n_components=4)
    assert len(bars.patches) == 4
    figure = plots.components(explanation, n_components=5)
    assert len(figure.axes) >= 6
    ax = pyplot.subplots()[1]
    assert plots.main_effect(explanation, ("level",), ax=ax) is ax
    pyplot.close("all")


def test_main_effect_draws_the_table(explanation: Explanation) -> None:
    from matplotlib import pyplot

    axes = plots.main_effect(explanation, "skewed")
    drawn = max(axes.lines, key=lambda line: len(line.get_xdata()))
    axis = explanation.model.encoder.axes[1][1]
    assert np.array_equal(drawn.get_xdata(), axis.values)
    assert np.array_equal(drawn.get_ydata(), explanation.model.tables[1])
    pyplot.close("all")


def test_unknown_component(explanation: Explanation) -> None:
    with pytest.raises(ValueError, match=r"^component: must be one of the model's components"):
        plots.main_effect(explanation, "age")


def test_missing_matplotlib(explanation: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "tpnn\[plots\]"'):
        plots.main_effect(explanation, "smooth")
