"""SelectionPath: refitted models from sparse to full, and the loss of each on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpnn.model.model import AnovaModel


@dataclass(frozen=True)
class Step:
    """A model on the path from sparse to full.

    Parameters
    ----------
    n_components : int
        Number of its components.
    added : tuple of tuple of str
        The components that the next sparser model lacks.
    loss : float
        Held-out loss in the units of training: half the squared error over the variance of y;
        pinball and Huber loss of y in standard deviations; losses with a log link relative to their
        dispersion; log-loss unchanged. It is that of single bags before any shape is imposed.
    standard_error : float
        Standard error of the difference between this loss and that of the full model.
    """

    n_components: int
    added: tuple[tuple[str, ...], ...]
    loss: float
    standard_error: float


@dataclass(frozen=True, kw_only=True, repr=False)
class SelectionPath:
    """Refitted models of about ten sizes, and the loss of each on rows that did not rank them.

    Parameters
    ----------
    steps : list of Step
        The models, sparsest first; the last one has all fitted components.
    landmarks : dict from str to Step
        Models of all fitted components up to an order: "order 1", "order 2".
    chosen : int
        Number of components of the fitted model.
    refitted : function of a number of components
        Makes the model of the best components.
    """

    steps: list[Step]
    landmarks: dict[str, Step]
    chosen: int
    refitted: Callable[[int], AnovaModel]

    def __repr__(self) -> str:
        return f"SelectionPath({len(self.steps)} models, chosen: {self.chosen} components)"

    def model(self, n_components: int) -> AnovaModel:
        """Model of the best components, of any number, fitted again without the others.

        All held-out rows rank its components; for the losses of the steps half of them do. A model
        that a search found is that of a fit with this number as ``max_components``. Where deep
        trees found the components, it is another one: ``max_components`` takes the components with
        the largest variance in the trees and may keep a remainder, which holds the others; here
        held-out rows choose among the core, and the model does without trees and remainder.
        """
        return self.refitted(n_components)

    def one_standard_error(self) -> Step:
        """Sparsest step whose loss is within one standard error of the lowest."""
        lowest = min(step.loss for step in self.steps)
        return next(step for step in self.steps if step.loss <= lowest + step.standard_error)
