"""Losses of the user: differentiated by torch, and refused where they are no loss of each row."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tpnn.loss.objectives import OBJECTIVES, SQUARED_ERROR, custom

Y = np.random.default_rng(0).gamma(2.0, size=(20, 1))
RAW = np.random.default_rng(1).normal(size=(20, 3))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


CASES: dict[str, tuple[Any, Any]] = {
    "squared error": (lambda y, raw: 0.5 * (raw - y) ** 2, SQUARED_ERROR),
    "poisson": (lambda y, raw: raw.exp() - y * raw, OBJECTIVES["poisson"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_custom_losses_agree_with_ours(case: str, library: str, torch: Any) -> None:
    function, ours = CASES[case]
    theirs = custom(function)
    y, raw, xp = (Y, RAW, np) if library == "numpy" else (*map(torch.as_tensor, (Y, RAW)), torch)
    losses = theirs.losses(y, raw, xp=xp)
    assert isinstance(losses, np.ndarray if library == "numpy" else torch.Tensor)
    assert np.allclose(losses, ours.losses(Y, RAW))
    for a, b in zip(theirs.slopes(y, raw, xp=xp), ours.slopes(Y, RAW), strict=True):
        assert np.allclose(a, b)


def test_a_loss_without_curvature_has_unit_steps(torch: Any) -> None:
    """The absolute error bends nowhere; a second derivative of one makes steps of the slope."""
    gradient, hessian = custom(lambda y, raw: (raw - y).abs()).slopes(Y, RAW)
    assert np.array_equal(gradient, np.sign(RAW - Y))
    assert (hessian == 1).all()


def test_a_loss_that_is_concave_somewhere_keeps_a_positive_curvature(torch: Any) -> None:
    _, hessian = custom(lambda y, raw: torch.log1p((raw - y) ** 2)).slopes(Y, RAW)
    assert (hessian > 0).all()


def test_scores_are_not_changed(torch: Any) -> None:
    raw = torch.as_tensor(RAW.copy())
    custom(lambda y, raw: (raw - y) ** 2).slopes(torch.as_tensor(Y), raw, xp=torch)
    assert np.array_equal(raw, RAW)
    assert not raw.requires_grad


BAD: dict[str, tuple[Any, str]] = {
    "a mean": (
        lambda y, raw: ((raw - y) ** 2).mean(),
        r"return the loss of each row, found shape \(\)",
    ),
    "NumPy": (lambda y, raw: np.square(raw - y), "compute the loss from y and raw by torch"),
    "a number": (lambda y, raw: 1.0, "return a torch tensor, found float"),
    "no gradient": (
        lambda y, raw: (raw - y).detach(),
        "return a loss with a gradient in raw, and this one has none",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_functions_that_are_no_losses(case: str, torch: Any) -> None:
    function, words = BAD[case]
    with pytest.raises(ValueError, match=f"^objective: the function must {words}"):
        custom(function).slopes(Y, RAW)


def test_torch_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'^objective: a function needs torch.*"tpnn\[torch\]"$'):
        custom(lambda y, raw: raw)
