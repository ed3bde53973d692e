"""The plot of a path shows the losses of its steps at their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn import plots
from tpnn.explain.selection_path import SelectionPath, Step


def test_the_path_is_drawn_as_it_is() -> None:
    steps = [
        Step(1, (("a",),), 0.5, 0.02),
        Step(4, (("a", "b"), ("b",)), 0.3, 0.01),
        Step(9, (("c",),), 0.25, 0.0),
    ]
    landmarks = {"order 1": Step(3, (), 0.35, 0.01)}

    def refitted(n_components: int) -> Any:
        raise NotImplementedError

    drawn = SelectionPath(steps=steps, landmarks=landmarks, chosen=4, refitted=refitted)
    axes = plots.path(drawn)
    points = [line.get_xydata() for line in axes.get_lines()]
    expected = [[1, 0.5], [4, 0.3], [9, 0.25]]
    assert any(np.array_equal(line, expected) for line in points)
    assert any(np.array_equal(line, [[3, 0.35]]) for line in points)
    assert any(np.array_equal(line[:, 0], [4, 4]) for line in points)  # the fitted model
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(words) == ["best components", "fitted model", "full, order 2", "order 1"]
    assert not axes.texts  # nothing that a line could run through
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4", "9"]
    with pytest.raises(TypeError, match=r"^path: must be a path of models, found dict"):
        plots.path({})  # type: ignore[arg-type]
