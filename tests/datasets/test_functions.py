"""The synthetic functions: the paper's formulas, and what their terms claim of themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.datasets.synthetic import FUNCTIONS, SyntheticFunction, Term, get_function


def points(function: SyntheticFunction, n: int = 50) -> np.ndarray:
    lower, upper = np.transpose(function.bounds)
    return np.random.default_rng(0).uniform(lower, upper, size=(n, len(lower)))


def test_f1_written_out() -> None:
    x = points(FUNCTIONS["f1"])
    x1, x2, x3, x4, x5 = x.T
    expected = 10 * x1 + 10 * x2 + 20 * (x3 - 0.3) * (x3 - 0.6) + 20 * x4 + 5 * x5
    np.testing.assert_allclose(FUNCTIONS["f1"](x), expected + 10 * np.sin(np.pi * x1 * x2))


def test_f2_written_out() -> None:
    x = points(FUNCTIONS["f2"])
    x1, x2, x3, x4, x5, _, x7, x8, x9, x10 = x.T
    expected = np.pi ** (x1 * x2) * np.sqrt(2 * x3) - np.arcsin(x4) + np.log(x3 + x5)
    expected -= x9 / x10 * np.sqrt(x7 / x8) + x2 * x7
    np.testing.assert_allclose(FUNCTIONS["f2"](x), expected)


def test_f3_written_out() -> None:
    x = points(FUNCTIONS["f3"])
    x1, x2, x3, x4, x5, _, x7, x8, x9, x10 = x.T
    expected = np.exp(np.abs(x1 - x2)) + np.abs(x2 * x3) - np.abs(x3) ** (2 * np.abs(x4))
    expected += np.log(x4**2 + x5**2 + x7**2 + x8**2) + x9 + 1 / (1 + x10**2)
    np.testing.assert_allclose(FUNCTIONS["f3"](x), expected)


TERMS = [
    (function, term, f"{name} {term.features}")
    for name, function in FUNCTIONS.items()
    for term in function.terms
]


@pytest.mark.parametrize(
    ("function", "term"), [case[:2] for case in TERMS], ids=[case[2] for case in TERMS]
)
def test_terms_are_even_where_they_say_so(function: SyntheticFunction, term: Term) -> None:
    x = points(function)[:, list(term.features)]
    flips = [np.where(np.arange(x.shape[1]) == j, -1, 1) for j in range(x.shape[1])]
    if term.even:
        assert all(function.bounds[j][0] == -function.bounds[j][1] for j in term.features)
        for flip in flips:
            np.testing.assert_allclose(term.function(*(x * flip).T), term.function(*x.T))
    elif all(function.bounds[j][0] < 0 for j in term.features):
        odd = [not np.allclose(term.function(*(x * f).T), term.function(*x.T)) for f in flips]
        assert any(odd) or len(term.features) == 1


def test_terms_with_a_kink_have_it_on_the_diagonal() -> None:
    kinked = [term for _, term, _ in TERMS if term.diagonal_kink]
    assert [term.features for term in kinked] == [(0, 1)]
    at, step = np.linspace(-0.9, 0.9, 7), 1e-6
    left, right = (kinked[0].function(at, at + side) for side in (-step, step))
    middle = kinked[0].function(at, at)
    assert ((left + right - 2 * middle) / step > 1).all()  # a smooth term would give about step


def test_unknown_names() -> None:
    assert get_function("f2") is FUNCTIONS["f2"]
    with pytest.raises(ValueError, match=r"^name: must be one of f1, f2, f3, found 'f0'\."):
        get_function("f0")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_terms_broadcast_over_grids(name: str) -> None:
    """Quadrature calls them with one axis for each feature."""
    function = FUNCTIONS[name]
    x = points(function, 3)
    for term in function.terms:
        axes = np.meshgrid(*(x[:, j] for j in term.features), indexing="ij", sparse=True)
        values = term.function(*axes)
        assert values.shape == (3,) * len(term.features)
        diagonal = values[(np.arange(3),) * len(term.features)]
        np.testing.assert_allclose(diagonal, term.function(*(x[:, j] for j in term.features)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_features_of_terms_exist(name: str) -> None:
    function = FUNCTIONS[name]
    used = {j for term in function.terms for j in term.features}
    assert used <= set(range(len(function.bounds)))
    assert all(low < high for low, high in function.bounds)
    assert set(range(len(function.bounds))) - used == (set() if name == "f1" else {5})
