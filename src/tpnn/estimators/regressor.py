"""TPNNRegressor: numbers, counts, quantiles, one target or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, r2_score

from tpnn._typing import FloatArray
from tpnn.descent.solver import Descent
from tpnn.estimators.base import TPNNEstimator
from tpnn.estimators.checks import check_range, checked_targets, checked_weights
from tpnn.estimators.parameters import refusing_unknown
from tpnn.grow.solver import Grow
from tpnn.loss.losses import Objective, resolve
from tpnn.loss.offset import checked_offset
from tpnn.problem.problem import Task
from tpnn.problem.scaling import Targets
from tpnn.report import FitFacts


class TPNNRegressor(RegressorMixin, TPNNEstimator):
    """Regressor with f(x) = intercept + sum_S f_S(x_S) over ``|S| <= order``, unique components.

    Every f_S averages to exactly zero along each of its features, under the feature's distribution
    in the training rows. This makes the components unique.

    Parameters
    ----------
    order : int, default=2
        Largest number of features in a component.
    interactions : {"auto", "all"}, int, list of tuples or dict, default="auto"
        Components beyond the main effects. "auto" takes all pairs if there are few of them, else
        those that rise above the noise of the residual, and likewise triples and so on up to
        ``order``. A number takes that many of the best pairs. "all" takes every component up to
        ``order``, and a list of tuples of feature names or indices takes those interactions.
        A dict says more, with any of: "count" ("auto", "all" or a number); "method"
        ("histogram", or "nid" to rank pairs by the weights of a neural network); "required"
        (tuples that are always included); "forbidden" (features that no component may contain
        together); "groups" (groups of features within which features may interact).
    max_components : int, optional
        Largest number of components of the model; by default only the interactions are limited, to
        500 of each order.
    selection : {"auto", "noise", "one_se", "none"}, default="auto"
        Which components to drop after fitting: "noise" drops those that held-out rows cannot tell
        from noise, "one_se" drops all that together cost less than a standard error, "none" drops
        nothing. "auto" is "noise" if components were screened, else "none".
    heredity : bool, default=False
        Whether a model that has a component must also have all subsets of it.
    objective : str, dict or callable, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile" (the median),
        "poisson", "gamma" or "tweedie"; a dict with a parameter, ``{"name": "quantile", "levels":
        [0.1, 0.9]}``, ``{"name": "huber", "threshold": 1.0}`` (in standard deviations of y,
        estimated from its quartiles) or ``{"name": "tweedie", "power": 1.5}``; or a torch function
        of y and raw score that returns each row's loss. Poisson, gamma and Tweedie have a log link:
        name the column of exposures as ``exposure``.
    monotone : dict from feature to shape, optional
        "increasing" or "decreasing" makes the whole model monotone in a feature, interactions
        included; "convex" and "concave" work likewise. ``model_.certificate(name)`` proves it.
    categorical : "auto" or list of names or indices, default="auto"
        Columns whose numbers are labels without order. Strings and categories always are.
    min_level_rows : int, default=1
        Levels with fewer rows share one node; a row with an integer weight counts that many times.
    offset : str or int, optional
        Column of X, by name or position, that is a known part of the raw score of each row. It is
        not a feature. ``fit``, ``predict``, ``score`` and ``report`` read it from X, so
        cross-validation, searches and pipelines need no more than the table. The argument
        ``offset`` of these methods is the same as an array; only one of the two may be given.
    exposure : str or int, optional
        Column of X, by name or position, whose logarithm is the offset: positive numbers such as
        the years that a policy was in force. It needs an objective with a log link, and predictions
        are then for the exposure of each row.
    solver : {"auto", "grow", "gradient"}, Grow or Descent, default="auto"
        :class:`Grow` adds bases where the residual still has structure; it is more accurate and
        faster. :class:`Descent` learns bases by gradient descent, as in the paper; it needs torch.
        "grow" and "gradient" are the two with their default parameters; "auto" is "grow", or
        "gradient" with ``device="cuda"``.
    n_bags : int, default=8
        Number of models that are trained on different parts of the rows and averaged. Explanations
        show their spread as bands.
    max_nodes : int or dict from order to int, default=256
        Largest number of nodes per feature; interactions use fewer.
    validation_fraction : float, default=0.15
        Share of the rows that each bag holds out for early stopping.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to train. "cuda" is an NVIDIA card, for :class:`Descent` only; with "auto", it uses a
        card if there is one.
    n_jobs : int, optional
        Number of threads of ``fit``; by default all cores that the process may use; a container's
        quota counts. The model does not depend on it.
    time_limit : float, optional
        Seconds after which the fit ends with the best model so far; it covers search, training,
        purification and selection, and ``history_`` says what was cut short.
    random_state : int, RandomState, Generator or None, default=None
        Seed; the same seed gives the same model, bit for bit.
    verbose : {"auto", 0, 1}, default="auto"
        When to show a progress bar: on a terminal, never, or always.

    Attributes
    ----------
    model_ : AnovaModel
        The fitted model, which needs only NumPy to predict.
    components_ : list of tuple of str
        Feature names of each component.
    intercept_ : float
        Mean of the model under the product of the marginals.
    history_ : list of dict
        History of the fit: what the search tried and decided, and the losses of every bag or step.
        All records have the same keys, so ``pandas.DataFrame(model.history_)`` shows them.
    n_features_in_ : int
        Number of columns of X: the features and, where there is one, the column of the offset.
    feature_names_in_ : array of shape (n_features_in_,)
        Names of these columns, if the table has them; ``model_.feature_names`` are the features.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> data = datasets.make_synthetic("f1", n_samples=500, random_state=0)
    >>> model = TPNNRegressor(n_bags=2, random_state=0).fit(data.X, data.y)
    >>> model.components_[5]
    ('X1', 'X2')
    >>> model.model_.identifiability_error() < 1e-6
    True
    >>> bool(model.score(data.X, data.y) > 0.8)
    True
    """

    @refusing_unknown
    def __init__(
        self,
        order: int | str = "auto",
        interactions: str | int | dict[str, Any] | Sequence[Sequence[int | str]] = "auto",
        max_components: int | None = None,
        selection: str = "auto",
        heredity: bool = False,
        objective: str | Mapping[str, Any] | Callable[[Any, Any], Any] = "squared_error",
        monotone: Mapping[int | str, str] | None = None,
        categorical: str | Sequence[int | str] = "auto",
        min_level_rows: int = 1,
        offset: int | str | None = None,
        exposure: int | str | None = None,
        solver: str | Grow | Descent = "auto",
        n_bags: int | str = "auto",
        max_nodes: int | dict[int, int] = 256,
        validation_fraction: float = 0.15,
        device: str = "auto",
        n_jobs: int | None = None,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: str | int = "auto",
    ) -> None:
        super().__init__(
            order=order, interactions=interactions, max_components=max_components,
            selection=selection, heredity=heredity, monotone=monotone, categorical=categorical,
            min_level_rows=min_level_rows, offset=offset, solver=solver, n_bags=n_bags,
            max_nodes=max_nodes, validation_fraction=validation_fraction, device=device,
            n_jobs=n_jobs, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.objective = objective
        self.exposure = exposure

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit to rows X and targets y.

        Parameters
        ----------
        X : DataFrame of pandas or polars, Arrow table, or array of shape (n_rows, n_features)
            Columns of numbers, dates, strings or categories; missing values get their own node.
        y : array of shape (n_rows,) or (n_rows, n_targets)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row. A weight of zero leaves the row out, and whole numbers act like
            repeated rows. If some weights are not whole, they change the rows' shares of the mass
            but not the number of rows.
        offset : array of shape (n_rows,), optional
            Known part of the raw score; refused where a parameter names a column for it.
        """
        self._begin(offset)
        target, names = checked_targets(y)
        objective = resolve(self.objective, target.shape[1])
        check_range(target, objective)
        _check_exposure(self.exposure, objective)
        weights = checked_weights(sample_weight, len(target))
        targets = Targets(target, weights, checked_offset(offset, len(target)))
        outputs = names if target.shape[1] > 1 else ()
        if objective.n_outputs > 1 and objective.levels:
            outputs = tuple(map(str, objective.levels))
        self._fit(X, targets, Task(objective, outputs))
        return self

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict the target of each row, (n_rows,), or several targets or quantiles at once.

        Several quantiles never cross, because they are sorted. With an exposure, the prediction is
        the expected total for the exposure of each row. ``model_.predict`` returns the same.
        """
        table = self._read(X)
        return self.model_.predict(table, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the loss that the model explains: R^2, or D^2 where another loss was fitted.

        For Poisson, gamma and Tweedie it is the share of the deviance, for several quantiles the
        mean share of the pinball loss.
        """
        predicted = self.predict(X, offset)
        power = resolve(self.objective, n_targets=1).power
        if power is not None:
            return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power))
        if self.model_.link.name != "quantiles":
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        shares = [
            d2_pinball_score(y, column, sample_weight=sample_weight, alpha=float(level))
            for column, level in zip(predicted.T, self.model_.output_names, strict=True)
        ]
        return float(np.mean(shares))

    def _fit_facts(self) -> FitFacts:
        power = resolve(self.objective, n_targets=1).power
        return replace(super()._fit_facts(), power=power)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_exposure(exposure: int | str | None, objective: Objective) -> None:
    if exposure is not None and objective.link.name != "log":
        raise ValueError(
            f"exposure: an objective with a log link is needed (poisson, gamma or tweedie), found "
            f"{objective.name!r}. Change the objective, or pass offset={exposure!r} if the column "
            "is to be added to the raw score."
        )
