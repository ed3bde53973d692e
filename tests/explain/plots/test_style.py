"""Style: what all plots share."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from matplotlib import pyplot

from tpnn import Explanation, plots
from tpnn.explain.plots.style import axes_or_new, paler, tidy_names


def test_missing_matplotlib(local: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "tpnn\[plots\]"'):
        plots.main_effect(local, "smooth")


def test_axes_that_are_given_are_used_and_others_are_made() -> None:
    ax = pyplot.subplots()[1]
    assert axes_or_new(ax) is ax
    made = axes_or_new(None, 7.0, 2.0)
    assert made.figure.get_size_inches().tolist() == [7.0, 2.0]


def test_a_paler_colour_is_between_it_and_white() -> None:
    assert paler("#000000") == pytest.approx((0.75, 0.75, 0.75))
    assert paler("#ffffff") == pytest.approx((1.0, 1.0, 1.0))
    assert paler("#ff0000") == pytest.approx((1.0, 0.75, 0.75))


def test_lists_of_names_have_no_line_and_no_ticks() -> None:
    ax = pyplot.subplots()[1]
    tidy_names(ax)
    assert not ax.spines["left"].get_visible()
    assert not ax.spines["top"].get_visible()
    assert ax.spines["bottom"].get_visible()


def test_fonts_are_embedded_and_no_setting_is_changed(local: Explanation, tmp_path: Path) -> None:
    """Type 3 fonts hold drawings of letters; publishers refuse them."""
    before = dict(pyplot.rcParams)
    for name, draw in {"one": local.plot("smooth").figure, "all": plots.components(local)}.items():
        draw.savefig(tmp_path / f"{name}.pdf", metadata={"CreationDate": None})
        page = (tmp_path / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in page
        assert b"/FontFile2" in page
    assert dict(pyplot.rcParams) == before


def test_a_figure_can_be_pickled(local: Explanation) -> None:
    figure = local.plot("smooth").figure
    copy = pickle.loads(pickle.dumps(figure))
    assert copy.axes[0].get_xlabel() == figure.axes[0].get_xlabel() == "smooth"
