"""Links: each is the inverse of its inverse, and they agree with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logit, softmax

from tpnn.loss.links import LARGEST_SCORE, LINKS

MEANS = {
    "identity": st.floats(-1e9, 1e9),
    "logit": st.floats(1e-9, 1 - 1e-9),
    "log": st.floats(1e-9, 1e9),
    "softmax": st.floats(1e-3, 1.0),
    "quantiles": st.floats(-1e9, 1e9),
}


def test_every_link_has_its_name() -> None:
    assert LINKS.keys() == MEANS.keys()
    assert all(link.name == name for name, link in LINKS.items())


@pytest.mark.parametrize("name", MEANS)
@given(st.data())
def test_the_inverse_undoes_the_link(name: str, data: st.DataObject) -> None:
    means = data.draw(arrays(float, (3, 4), elements=MEANS[name]))
    if name == "softmax":
        means = means / means.sum(-1, keepdims=True)
    if name == "quantiles":
        means = np.sort(means, axis=-1)
    link = LINKS[name]
    assert np.allclose(link.inverse(link.forward(means)), means, rtol=1e-7)


def test_links_agree_with_scipy() -> None:
    scores = np.array([-800.0, -3.0, 0.0, 3.0, 800.0])
    assert np.allclose(LINKS["logit"].inverse(scores), expit(scores))
    means = np.array([1e-6, 0.2, 0.9])
    assert np.allclose(LINKS["logit"].forward(means), logit(means))
    rows = np.random.default_rng(0).normal(size=(5, 3)) * 300
    assert np.allclose(LINKS["softmax"].inverse(rows), softmax(rows, axis=-1))


@pytest.mark.parametrize("name", ["logit", "log", "softmax"])
def test_extremes_stay_finite(name: str) -> None:
    link = LINKS[name]
    assert np.isfinite(link.forward(np.array([0.0, 1.0]))).all()
    assert np.isfinite(link.inverse(np.array([-1e9, 1e9]))).all()
    assert np.isfinite(np.exp(LARGEST_SCORE) * 1e9)  # room for sums


def test_raw_scores_of_classes_sum_to_zero() -> None:
    """A constant over the classes changes no probability, so one is chosen."""
    means = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    assert np.allclose(LINKS["softmax"].forward(means).sum(-1), 0.0)


@given(arrays(float, (4, 3), elements=st.floats(-1e6, 1e6)))
def test_quantiles_do_not_cross(scores: np.ndarray) -> None:
    found = LINKS["quantiles"].inverse(scores)
    assert (np.diff(found, axis=-1) >= 0).all()
    assert np.array_equal(np.sort(scores, axis=-1), found)
