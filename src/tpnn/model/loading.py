"""load: a model from its file, as an object that predicts as its estimator did.

The log of decisions has a line of JSON for each prediction. Each has its ``number``, the time
``when``, the digest of the ``model``, the hash of its ``input``, the ``prediction``, the
``raw_score``, the ``reasons``, which are the largest contributions to the raw score, the hash of
the record before as ``previous``, and its own ``hash``. So nobody can change, remove or insert a
line that is not the last without the chain showing it, and who keeps a row can prove that a line is
about it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from tpnn._utils.files import check_path, lock
from tpnn.model.archive import read_document
from tpnn.model.check import check_model
from tpnn.model.codec import decode
from tpnn.model.edit_log import FIRST, check_last_hash, digest, record_hash
from tpnn.model.model import AnovaModel, offset_of, part_names, part_scores
from tpnn.model.predicting import Predicts, PredictsClasses, PredictsNumbers, PredictsSurvival
from tpnn.table.table import Table
from tpnn.table.words import originals

N_REASONS = 4
LONGEST_LINE = 1 << 20  # bytes; the last record is looked for in so many
ONE_WRITER = threading.Lock()

cached_digest = lru_cache(maxsize=8)(digest)  # a model cannot be changed in place


def log_decisions(
    path: str | os.PathLike[str], model: AnovaModel, table: Table, offset: Any, predictions: Any
) -> None:
    """Append a record for every row of a table that the encoder has read."""
    hashes, raw = input_hashes(model, table, offset), model.raw_scores(table, offset)
    parts = part_scores(model, model.encoder.columns(table))
    sizes = np.abs(parts.reshape(*parts.shape[:2], -1)).max(2, initial=0.0)
    reasons = np.argsort(-sizes, axis=1, kind="stable")[:, :N_REASONS]
    names, of_model = part_names(model), cached_digest(model)
    with ONE_WRITER, Path(path).open("a+b") as file:
        lock(file)
        number, previous = _last(file)
        lines = []
        for row, input_hash in enumerate(hashes):
            number += 1
            record = {
                "number": number,
                "when": datetime.now(UTC).isoformat(),
                "model": of_model,
                "input": input_hash,
                "prediction": np.asarray(predictions)[row].tolist(),
                "raw_score": np.asarray(raw)[row].tolist(),
                "reasons": [[names[k], parts[row, k].tolist()] for k in reasons[row]],
                "previous": previous,
            }
            previous = record_hash(record)
            lines.append(json.dumps(record | {"hash": previous}, separators=(",", ":")) + "\n")
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())


def input_hashes(model: AnovaModel, X: Any, offset: Any = None) -> list[str]:
    """SHA-256 of each row as the model reads it: its values by feature, and its offset.

    A level counts as its label and a number as a double, so the hash does not depend on the types
    of the columns; columns that the model does not read do not count.
    """
    table = model.encoder.read(X)
    values = {
        name: [_plain(value) for value in _values(model, table, feature)]
        for feature, name in enumerate(model.feature_names)
    }
    known = offset_of(model, table, offset)
    if known is not None:
        values["(offset)"] = known.tolist()
    rows = ({name: column[row] for name, column in values.items()} for row in range(table.n_rows))
    return [hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest() for row in rows]


def _values(model: AnovaModel, table: Table, feature: int) -> Any:
    """Values of a feature: numbers, or labels of levels, also of those that fit has not seen."""
    numbers, levels = model.encoder.numbers(table, feature), model.encoder.features[feature].levels
    if not levels:
        return numbers
    labels, column = originals("", numbers, levels), table.column(feature)
    for row in np.flatnonzero(np.isinf(numbers)):
        code = column.values[row]
        labels[row] = column.levels[int(code)] if column.levels else code
    return labels


def _plain(value: Any) -> Any:
    """Value of JSON: text, or a double; null where it is missing."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return None if np.isnan(number) else number


def _last(file: IO[bytes]) -> tuple[int, str]:
    """Read number and hash of the last record of an open file."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return 0, FIRST
    file.seek(max(0, size - LONGEST_LINE))
    try:
        record = json.loads(file.read().splitlines()[-1])
        return int(record["number"]), str(record["hash"])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"log: must be a log of decisions, found {file.name!r}, whose last line is none "
            f"({error!r}). Pass another path."
        ) from error


def check_decisions(path: str | os.PathLike[str]) -> tuple[int, str]:
    """Count the records of a log of decisions, and return the hash of the last one, too.

    A log that was changed raises ValueError. Only a hash that is kept elsewhere shows that the last
    records were cut off.

    Parameters
    ----------
    path : path
        A file that ``predict(X, log=path)`` of loaded models has written.

    Returns
    -------
    n_records : int
        Number of records.
    last_hash : str
        Hash of the last one; 64 zeros of an empty log.
    """
    previous, number = FIRST, 0
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            is_next = record["number"] == number and record["previous"] == previous
            is_whole = is_next and record["hash"] == record_hash(record)
        except (ValueError, TypeError, LookupError):
            is_whole = False
        if not is_whole:
            raise ValueError(
                f"path: every record must follow the one before, and line {number} of "
                f"{os.fspath(path)!r} does not: it, or a line before it, was changed. Restore the "
                "file from a copy."
            )
        previous = record["hash"]
    return number, previous


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
        Names of the columns that it uses, where they have names; that of an offset is one of them.
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
