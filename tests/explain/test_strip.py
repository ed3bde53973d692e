"""The strip of small charts that a notebook shows for a model."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np

from tests.models import random_model
from tpnn import Explanation
from tpnn.explain.strip import HEIGHT, N_CHARTS


def charts(shown: Any) -> list[ElementTree.Element]:
    html = shown._repr_html_()
    assert "<script" not in html
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html)]


def test_the_largest_components_come_first(local: Explanation) -> None:
    ranked = [names for names in local.importance() if len(names) <= 2][:N_CHARTS]
    drawn = charts(local)
    assert [one.get("aria-label") for one in drawn] == [" × ".join(names) for names in ranked]
    assert len(charts(local.model)) == len(drawn)


def test_curves_have_one_scale(local: Explanation) -> None:
    """Heights above the middle are in proportion to the effects."""
    names = {names for names in local.importance() if len(names) <= 2}
    mains = {
        one.get("aria-label"): one for one in charts(local) if (one.get("aria-label"),) in names
    }
    largest = max(float(np.abs(local.component(name).effect).max()) for name in mains)
    for name, chart in mains.items():
        line = next(part for part in chart.iter() if part.tag.endswith("polyline"))
        heights = [float(point.split(",")[1]) for point in str(line.get("points")).split()]
        expected = HEIGHT / 2 * (1 - 0.92 * local.component(name).effect / largest)
        assert np.allclose(heights, expected, atol=0.06)


def test_levels_missing_values_and_several_outputs_are_drawn(mixed_local: Explanation) -> None:
    (town,) = (one for one in charts(mixed_local) if one.get("aria-label") == "town")
    circles = [part for part in town.iter() if part.tag.endswith("circle")]
    assert len(circles) == mixed_local.component("town").effect.size
    assert len(charts(random_model(2, 2, n_outputs=3))) == 3
