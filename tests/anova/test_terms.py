"""Terms: every centred table is a sum of TPNN terms with narrow steps between its nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from tests.anova.tables import random_axes
from tpnn.anova.measure import centre
from tpnn.anova.terms import Terms, step_terms
from tpnn.table.axis import Axis


def evaluated(terms: Terms, axes: list[Axis]) -> np.ndarray:
    """sum_k beta_k prod_j (eta_jk - s_jk) on the nodes, written out."""
    factors = []
    for axis, b, gamma in zip(axes, terms.b, terms.gamma, strict=True):
        steps = expit((axis.positions[:, None] - b) / gamma)  # (M, K)
        factors.append(axis.weights @ steps - steps)
    letters = "ijl"[: len(axes)]
    products = ",".join(f"{letter}k" for letter in letters)
    return np.einsum(f"k...,{products}->{letters}...", terms.beta, *factors)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_terms_are_the_table(order: int, n_outputs: int | None) -> None:
    rng = np.random.default_rng(order)
    axes = list(random_axes(rng, missing=[1])[order][:order])
    shape = [axis.n_nodes for axis in axes]
    outputs = [] if n_outputs is None else [n_outputs]
    table = centre(rng.normal(size=[*shape, *outputs]), [axis.weights for axis in axes])
    terms = step_terms(table, axes)
    n_terms = int(np.prod([size - 1 for size in shape]))
    assert terms.b.shape == terms.gamma.shape == (order, n_terms)
    assert terms.beta.shape == (n_terms, *outputs)
    assert np.allclose(evaluated(terms, axes), table, atol=1e-10)


def test_one_node_has_no_term() -> None:
    axis = Axis(np.array([3.0]), np.array([1.0]))
    terms = step_terms(np.zeros(1), [axis])
    assert terms.beta.shape == (0,)
    assert terms.b.shape == terms.gamma.shape == (1, 0)


def test_nodes_without_mass_do_not_make_steps_wider_than_gaps() -> None:
    """Two nodes may have the same rank; the width is a part of the smallest positive gap."""
    axis = Axis(np.arange(4.0), np.array([0.5, 0.0, 0.25, 0.25]))
    gaps = np.diff(axis.positions)
    terms = step_terms(np.zeros(4), [axis])
    assert (terms.gamma > 0).all()
    assert terms.gamma.max() < gaps[gaps > 0].min() / 100
