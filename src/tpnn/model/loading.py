"""load: a model from its file, as an object that predicts as its estimator did."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tpnn._utils.files import check_path
from tpnn.model.archive import read_document
from tpnn.model.check import check_model
from tpnn.model.codec import decode
from tpnn.model.decision_log import log_decisions
from tpnn.model.edit_log import check_last_hash
from tpnn.model.model import AnovaModel
from tpnn.model.predicting import Predicts, PredictsClasses, PredictsNumbers, PredictsSurvival


class LoadedModel(Predicts):
    """A model from a file; :func:`tpnn.load` makes one of the three subclasses.

    Parameters
    ----------
    model : AnovaModel
        What the file holds.

    Attributes
    ----------
    model_ : AnovaModel
        The frozen model, whose ``provenance`` says where it comes from.
    components_ : list of tuple of str
        Components as tuples of feature names.
    intercept_ : float or array of shape (n_outputs,)
        Mean of the raw score.
    n_features_in_ : int
        Number of columns that a table without names must have.
    feature_names_in_ : array of str
        Names of the columns, where they have names; that of an offset is one of them.
    """

    def __init__(self, model: AnovaModel) -> None:
        self.model_ = model
        self.components_ = model.component_names
        self.intercept_ = model.intercept
        self.n_features_in_ = model.encoder.n_columns
        names = model.encoder.column_names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_!r})"

    def _logged(self, log: Any, X: Any, offset: Any, found: Any, has_std: bool = False) -> Any:
        """Add decisions to their log, if there is one, before anybody sees them."""
        if log is not None:
            check_path(log)
            predictions = found[0] if has_std else found
            log_decisions(log, self.model_, self._read(X), offset, predictions)
        return found


class LoadedRegressor(PredictsNumbers, LoadedModel):
    """A loaded :class:`~tpnn.TPNNRegressor`: ``predict``, ``explain`` and ``shap_values``."""

    def predict(
        self, X: Any, offset: Any = None, return_std: bool = False, *, log: Any = None
    ) -> Any:
        """Predict as the estimator does; ``log`` is a file to which each decision is added.

        docs/deploy.md says what is in it.
        """
        found = super().predict(X, offset, return_std)
        return self._logged(log, X, offset, found, return_std)


class LoadedClassifier(PredictsClasses, LoadedModel):
    """A loaded :class:`~tpnn.TPNNClassifier`: ``predict`` returns labels.

    It has ``predict_proba``, ``decision_function``, ``explain`` and ``shap_values``, too.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted; 0, 1, ... of a model that has none.
    """

    def __init__(self, model: AnovaModel) -> None:
        super().__init__(model)
        self.classes_ = np.array(model.classes or range(max(len(model.intercepts), 2)))

    def predict(self, X: Any, offset: Any = None, *, log: Any = None) -> Any:
        """Most probable class of each row; ``log`` is a file to which each decision is added."""
        return self._logged(log, X, offset, super().predict(X, offset))


class LoadedSurvival(PredictsSurvival, LoadedModel):
    """A loaded :class:`~tpnn.TPNNSurvival`: ``predict`` returns log risks.

    It has ``predict_survival``, ``explain`` and ``shap_values``, too.
    """

    def predict(
        self, X: Any, offset: Any = None, return_std: bool = False, *, log: Any = None
    ) -> Any:
        """Log risk of each row; ``log`` is a file to which each decision is added."""
        found = super().predict(X, offset, return_std)
        return self._logged(log, X, offset, found, return_std)


Loaded = LoadedRegressor | LoadedClassifier | LoadedSurvival
LOADED: dict[str, type[Loaded]] = {
    "regressor": LoadedRegressor,
    "classifier": LoadedClassifier,
    "survival": LoadedSurvival,
}


def load(
    path: str | os.PathLike[str], *, last_hash: str | None = None, verify: Any = None
) -> Loaded:
    """Read a saved model, as an object that predicts as the estimator did that fitted it.

    It reads what ``model_.save`` and ``model_.to_json`` wrote, and needs NumPy alone to predict.
    The file holds numbers and names only; reading it cannot run code. A truncated, changed or newer
    file raises ValueError, and what is no path TypeError.

    A model that no estimator fitted does not say its task. With labels, or with a logit or softmax
    link, it is then a classifier, with a baseline hazard a survival model, and else a regressor.

    Parameters
    ----------
    path : path
        The file.
    last_hash : str, optional
        Hash of the last record in the log of edits, as it was kept elsewhere. A model with another
        log is refused.
    verify : path or Ed25519PublicKey, optional
        Public key, or a PEM file with it. A file that the owner of the private key has not signed
        is refused.

    Returns
    -------
    LoadedRegressor, LoadedClassifier or LoadedSurvival
        Its methods are those of the estimator; ``model_`` is the :class:`~tpnn.AnovaModel`.
    """
    model = read_model(path, verify)
    if last_hash is not None:
        check_last_hash(model, last_hash, "last_hash")
    return LOADED[task_of(model)](model)


def read_model(path: str | os.PathLike[str], verify: Any = None) -> AnovaModel:
    """Read the frozen model of a file, and check every field of it."""
    check_path(path)
    document = read_document(path, verify)
    try:
        model: AnovaModel = decode(AnovaModel, document)
        check_model(model)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise ValueError(
            f"path: must be a complete model, found {os.fspath(path)!r}, which lacks a part of it "
            f"or has a wrong one ({error!r}). Save the model again."
        ) from error
    return model


def task_of(model: AnovaModel) -> str:
    """Which estimator fitted a model: as its provenance says, or as its parts show."""
    if model.provenance is not None:
        return model.provenance.task
    if model.classes:
        return "classifier"
    return {"classes": "classifier", "survival": "survival"}.get(model.task.kind, "regressor")
