"""verify: whether a model is the one that a fit to these rows gives, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpnn import __version__
from tpnn.estimators.classifier import TPNNClassifier
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.estimators.survival import TPNNSurvival
from tpnn.model.edit_log import check_log, digest
from tpnn.model.evidence import Provenance
from tpnn.model.model import AnovaModel
from tpnn.solvers.descent.solver import Descent
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.problem.fingerprint import fingerprint

ESTIMATORS = {"regressor": TPNNRegressor, "classifier": TPNNClassifier, "survival": TPNNSurvival}
SOLVERS = {"Grow": Grow, "Descent": Descent}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What ``tpnn.verify`` found.

    Parameters
    ----------
    same_rows : bool
        Whether the rows are those of the fit, by their fingerprint.
    expected : str
        Digest of the model before any edit.
    found : str
        Digest of the model that the same settings give on these rows; empty if the rows are others.
    n_edits : int
        Edits since the fit, all of them in the log.
    versions : tuple of str
        Version of the library that fitted the model, and the one that fitted it again.
    """

    same_rows: bool
    expected: str
    found: str
    n_edits: int
    versions: tuple[str, str]

    @property
    def holds(self) -> bool:
        """Whether rows and model are those of the fit."""
        return self.same_rows and self.found == self.expected

    def __str__(self) -> str:
        if not self.same_rows:
            return "these are not the rows of the fit: their fingerprint is another one"
        then, now = self.versions
        if not self.holds:
            words = f"; version {then} fitted it, and this is {now}" if then != now else ""
            return f"the rows are those of the fit, and fitting again gives another model{words}"
        edits = "" if not self.n_edits else f", before its {self.n_edits} logged edits"
        return f"the rows are those of the fit, and fitting again gives the same bits{edits}"


def verify(
    model: Any, X: Any, y: Any, sample_weight: Any = None, **fit_arguments: Any
) -> Verification:
    """Fit a model again, on the rows that it is said to come from, and compare all bits.

    The fingerprint of the rows is compared first; other rows are not fitted. The settings are those
    in the file. A fit with another version of the library, or of what it builds on, may differ.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        The model. Its log of edits must be whole; what is compared is the model before the first.
    X, y : table and targets
        The training rows, in any order.
    sample_weight : array of shape (n_rows,), optional
        Weights, where the fit had some; the fingerprint does not know them.
    **fit_arguments
        Other arguments that ``fit`` was called with, such as ``offset`` or ``groups``.

    Returns
    -------
    Verification
        ``holds`` says whether all is the same, and ``str()`` says it in words.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X, X[:, 0])
    >>> print(verify(model, X, X[:, 0]))
    the rows are those of the fit, and fitting again gives the same bits
    """
    frozen: AnovaModel = getattr(model, "model_", model)
    fit = frozen.provenance
    expected, n_edits = _before_edits(frozen)
    if fit is None or not expected:
        raise ValueError(
            "model: only a model that an estimator has fitted can be fitted again, and this one "
            "does not say where it comes from. Verify the models that it was made of."
        )
    same_rows, found = fingerprint(X, y) == fit.fingerprint, ""
    if same_rows:
        again = _estimator(fit).fit(X, y, sample_weight=sample_weight, **fit_arguments)
        found = digest(again.model_)
    return Verification(
        same_rows=same_rows,
        expected=expected,
        found=found,
        n_edits=n_edits,
        versions=(fit.version, __version__),
    )


def _before_edits(model: AnovaModel) -> tuple[str, int]:
    """Digest of a model before its first edit, and how many it has."""
    if model.edits is None:
        return digest(model), 0
    check_log(model)
    return model.edits.records[0]["before"], len(model.edits.records)


def _estimator(fit: Provenance) -> Any:
    """Estimator with the settings of a fit."""
    settings = {name: _with_orders(value) for name, value in fit.settings.items()}
    if settings.get("random_state") is None:
        raise ValueError(
            "random_state: a fit without a seed cannot be repeated, and this model was fitted with "
            "None. Fit with random_state=0, for example."
        )
    solver = settings.get("solver")
    if isinstance(solver, Mapping):
        own = {name: _with_orders(value) for name, value in solver.items()}
        settings["solver"] = SOLVERS[own.pop("name")](**own)
    return ESTIMATORS[fit.task](**settings | {"verbose": 0})


def _with_orders(value: Any) -> Any:
    """Return a setting by order, whose keys JSON has made text, with numbers as keys."""
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        return {int(key): item for key, item in value.items()}
    return value
