"""TPNNClassifier: two classes or more."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import warn
from tpnn.estimators.base import TPNNEstimator, whole_or_not
from tpnn.estimators.given_rows import GivenRows
from tpnn.estimators.inputs import checked_target, checked_weights
from tpnn.estimators.parameters import documented, parametrised
from tpnn.loss.objectives import OBJECTIVES, several_classes
from tpnn.model.codec import storable_labels
from tpnn.model.predicting import PredictsClasses, check_class_offset
from tpnn.model.task import Task
from tpnn.table.columns import array_of

FEW_LABELS = 20  # of so few rows each may have a class of its own


@documented
@parametrised
class TPNNClassifier(ClassifierMixin, PredictsClasses, TPNNEstimator):
    """Classifier with logit P(second class | x) = intercept + sum_S f_S(x_S), unique components.

    The second of two classes is ``classes_[1]``: labels are sorted. With more than two, each class
    has a raw score, and a softmax turns the scores into probabilities. The scores are centred over
    the classes, so that they are unique too.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.

    Examples
    --------
    >>> from tpnn import TPNNClassifier, datasets
    >>> data = datasets.make_synthetic("f1", n_samples=500, random_state=0)
    >>> label = np.where(data.y > data.y.median(), "high", "low")
    >>> model = TPNNClassifier(order=1, n_bags=2, random_state=0).fit(data.X, label)
    >>> model.classes_.tolist()
    ['high', 'low']
    >>> bool(model.score(data.X, label) > 0.8)
    True
    """

    class_weight: str | Mapping[Any, float] | None = None

    @whole_or_not
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
        start: Any = None,
        freeze: Any = None,
        nodes: str = "keep",
        checkpoint: Any = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit to rows X and labels y; the arguments are those of :meth:`TPNNRegressor.fit`.

        An offset needs two classes: with more, it would be added to the score of every class, which
        changes no probability.
        """
        warm = self._begin(offset, start, freeze, nodes)
        rows = GivenRows.read(X, y, sample_weight, offset, groups, X_val, y_val)
        read = rows.checked(lambda y: checked_target(_plain_labels(y), None))
        labels, seen = np.concatenate(read), slice(rows.n_rows)
        _check_labels(labels[seen])
        weights = checked_weights(rows.sample_weight, len(labels))
        if self.class_weight is not None:
            by_class = _class_weights(self.class_weight, labels, weights, seen)
            weights = by_class if weights is None else weights * by_class
        classes = np.unique(labels[seen] if weights is None else labels[seen][weights[seen] > 0])
        _check_known(labels, classes, seen)
        if len(classes) < 2:
            raise ValueError(
                f"y: at least two classes are needed, found {len(classes)} class(es) "
                f"{classes.tolist()}. Pass rows of another class too."
            )
        shapes = (self.shapes or {}).values()
        if len(classes) > 2 and any(isinstance(shape, str) for shape in shapes):
            raise ValueError(
                "shapes: two classes are needed, because with more a score that rises need not "
                f"raise the probability, found {len(classes)} classes. Fit each class against the "
                "rest, for example with sklearn.multiclass.OneVsRestClassifier."
            )
        check_class_offset(self.offset if offset is None else offset, len(classes))
        columns = classes[1:] if len(classes) == 2 else classes
        indicators = (labels[:, None] == columns).astype(np.float64)
        targets = rows.weighted(indicators, weights)
        stored = tuple(storable_labels(classes))
        task = Task(OBJECTIVES["log_loss"], classes=stored)
        if len(classes) > 2:
            task = Task(several_classes(len(classes)), tuple(map(str, classes)), stored)
        self._fit(rows, labels, targets, task, warm, checkpoint)
        self.classes_ = classes
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Accuracy: the share of the rows, or of their weight, whose class is predicted."""
        labels, predicted = _plain_labels(y), self.predict(X, offset)
        weights = checked_weights(sample_weight, len(predicted))
        return float(accuracy_score(labels, predicted, sample_weight=weights))


def _check_labels(labels: NDArray[Any]) -> None:
    """Refuse labels of several types, and amounts; warn where most rows have their own class."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would name our line, not that of the user
            check_classification_targets(labels)
    except ValueError as error:
        types = sorted({type(label).__name__ for label in labels.tolist()})
        raise ValueError(
            f"y: labels must be all text, or all whole numbers or booleans, found "
            f"{' and '.join(types)} such as {reprlib.repr(labels[:3].tolist())}. Convert them, for "
            f"example with y.astype(str), or use TPNNRegressor for amounts. ({error})"
        ) from error
    n_classes = len(np.unique(labels))
    if len(labels) > FEW_LABELS and n_classes > len(labels) / 2:
        warn(
            f"y: there are {n_classes} classes in {len(labels)} rows. If these are amounts, use "
            "TPNNRegressor."
        )


def _check_known(labels: NDArray[Any], classes: NDArray[Any], seen: slice) -> None:
    """Refuse labels of X_val that no row of X has."""
    new = np.setdiff1d(labels[seen.stop :], classes)
    if len(new):
        raise ValueError(
            f"y_val: labels must be among those of y, found {reprlib.repr(new.tolist())}. Drop "
            "those rows, or move some of them to X."
        )


def _class_weights(
    class_weight: str | Mapping[Any, float],
    labels: NDArray[Any],
    weights: FloatArray | None,
    seen: slice,
) -> FloatArray:
    """Factor on the weight of every row; "balanced" is mass / (n_classes * mass of its class).

    The masses are those of the rows that are ``seen``, without those of X_val.
    """
    if class_weight != "balanced":
        return np.asarray(compute_sample_weight(class_weight, labels), np.float64)
    classes, members = np.unique(labels, return_inverse=True)
    order = np.arange(len(labels))[seen]
    order = order if weights is None else order[np.argsort(weights[seen])]  # fixes the sums
    factors = None if weights is None else weights[order]
    masses = np.bincount(members[order], factors, minlength=len(classes))
    present = masses > 0
    balanced = masses.sum() / (present.sum() * np.where(present, masses, 1.0))
    return np.asarray(balanced[members], np.float64)


def _plain_labels(y: Any) -> Any:
    """Labels with no missing ones; pandas' nullable integers and booleans keep their type.

    Missing labels are found here because NumPy overlooks masks and nulls in Arrow dictionaries.
    """
    if hasattr(y, "isna"):  # pandas
        missing = y.isna()
    else:
        missing = y.is_null() if hasattr(y, "is_null") else np.ma.getmask(y)
    n_missing = int(np.sum(np.asarray(missing)))
    if n_missing:
        raise ValueError(
            f"y: every row needs a label, found missing labels in {n_missing} of {len(y)} rows. "
            "Drop those rows."
        )
    dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    return array_of(y) if dtype is None or dtype.kind not in "biu" else np.asarray(y, dtype)
