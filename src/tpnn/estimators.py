"""The scikit-learn face: what all estimators share, and TPNNRegressor."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from tpnn.checks import (
    available_memory,
    check_range,
    check_rows,
    checked_offset,
    checked_targets,
    checked_weights,
    seed_from,
)
from tpnn.components import ComponentSet, resolve_feature, resolve_interactions
from tpnn.encoding import LevelRules, TableEncoder
from tpnn.explain import Explanation, ShapValues
from tpnn.grower import Limits
from tpnn.growing import GrowSolver
from tpnn.marginals import Marginal
from tpnn.model import AnovaModel
from tpnn.objectives import Objective, resolve
from tpnn.parameters import check_parameters
from tpnn.problem import Bagging, Problem, Targets
from tpnn.solution import Progress, Solution
from tpnn.tables import Table

FloatArray = NDArray[np.float64]

NODES_BY_ORDER = {
    1: 65535,
    2: 64,
    3: 24,
    4: 12,
}  # beyond these, finer nodes cost more than they give
BASES_BY_ORDER = {1: 50, 2: 100, 3: 50}
FEWEST_NODES, FEWEST_BASES = 6, 20  # for orders above those listed
FEW_FEATURES = 12  # up to here the growing solver affords twice the nodes in pairs


class TPNNEstimator(BaseEstimator):
    """Functional ANOVA model with tensor product neural networks, for any objective.

    Attributes declared here are set by ``fit``.
    """

    model_: AnovaModel
    components_: list[tuple[str, ...]]
    intercept_: float
    history_: list[dict[str, float]]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self,
        order: int = 2,
        interactions: str | Sequence[Sequence[int | str]] = "auto",
        objective: str | Mapping[str, Any] | Callable[[Any, Any], Any] = "auto",
        monotone: Mapping[int | str, str] | None = None,
        categorical: str | Sequence[int | str] = "auto",
        min_level_rows: int = 1,
        solver: str = "auto",
        growth: str = "auto",
        n_bases: str | int | dict[int, int] = "auto",
        n_bags: int = 8,
        scale: str = "centred",
        activation: str = "sigmoid",
        shared_bases: bool = False,
        max_nodes: int | dict[int, int] = 256,
        learning_rate: float = 0.02,
        l2: float = 1e-3,
        max_steps: int = 2000,
        patience: int = 50,
        validation_fraction: float = 0.15,
        device: str = "auto",
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: str | int = "auto",
    ) -> None:
        self.order = order
        self.interactions = interactions
        self.objective = objective
        self.monotone = monotone
        self.categorical = categorical
        self.min_level_rows = min_level_rows
        self.solver = solver
        self.growth = growth
        self.n_bases = n_bases
        self.n_bags = n_bags
        self.scale = scale
        self.activation = activation
        self.shared_bases = shared_bases
        self.max_nodes = max_nodes
        self.learning_rate = learning_rate
        self.l2 = l2
        self.max_steps = max_steps
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def explain(self, X: Any = None) -> Explanation:
        """Explain the model as a whole or, given rows, on each of them."""
        check_is_fitted(self)
        rows = None if X is None else self.model_.encoder.read(X, type(self).__name__)
        return Explanation(self.model_, rows)

    def shap_values(self, X: Any) -> ShapValues:
        """Exact Shapley values of the raw score under the product of the marginals."""
        return self.explain(X).shap_values()

    def _raw_scores(self, X: Any, offset: Any) -> FloatArray:
        check_is_fitted(self)
        table = self.model_.encoder.read(X, type(self).__name__)
        raw = self.model_.raw_scores(table)
        known = checked_offset(offset, table.n_rows)
        return raw + (known[:, None] if raw.ndim == 2 else known)

    def _fit(
        self, X: Any, targets: Targets, objective: Objective, outputs: tuple[str, ...] = ()
    ) -> None:
        table = Table(X)
        check_rows(table.n_rows, len(targets.y))
        deadline = time.monotonic() + (self.time_limit or math.inf)
        seed = seed_from(self.random_state)
        solver = self._solver_name(table.n_features)
        nodes = self._nodes_by_order(table.n_features, solver)
        encoder = TableEncoder.fit(table, nodes, targets.weights, self._level_rules(table))
        self._check_memory(encoder, solver)
        bagging = Bagging(self.n_bags, self.validation_fraction, seed)
        problem = Problem.build(
            table, encoder, self._components(encoder), targets, objective, bagging
        )
        solve = self._grow if solver == "grow" else self._descend
        solution = solve(problem, seed, deadline)
        self.model_ = problem.freeze(solution, self.activation, self.scale, outputs)
        if self.monotone:
            self.model_ = self.model_.with_shapes(self.monotone)
        self.components_ = self.model_.component_names
        self.intercept_ = self.model_.intercept
        self.history_ = solution.history
        self.n_features_in_ = table.n_features
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _level_rules(self, table: Table) -> LevelRules:
        names = [table.name(feature) for feature in range(table.n_features)]
        listed = [] if isinstance(self.categorical, str) else self.categorical
        nominal = [resolve_feature(feature, names, "categorical") for feature in listed]
        return LevelRules(nominal, self.min_level_rows)

    def _solver_name(self, n_features: int) -> str:
        """Growing, unless something is asked for that only gradient descent does."""
        order = min(self.order, n_features)
        if not isinstance(self.interactions, str):
            order = max(map(len, self.interactions), default=1)
        needs_gradient = {
            "order": order > 2,
            "n_bases": self.n_bases != "auto",
            "scale": self.scale != "centred",
            "activation": self.activation != "sigmoid",
            "shared_bases": self.shared_bases,
            "device": self.device == "cuda",
        }
        asked = [name for name, needed in needs_gradient.items() if needed]
        if self.solver == "grow" and asked:
            raise ValueError(
                f"solver: 'grow' does main effects and pairs of plain centred sigmoids, found "
                f"{asked[0]}={getattr(self, asked[0])!r}. Pass solver='gradient'."
            )
        if self.solver == "auto":
            return "gradient" if asked else "grow"
        return self.solver

    def _grow(self, problem: Problem, seed: int, deadline: float) -> Solution:
        axes = problem.encoder.axes
        most_rounds = 0 if self.growth == "none" else self.max_steps
        limits, from_zero = Limits(deadline, most_rounds, self.patience), self.growth == "auto"
        names = problem.encoder.feature_names
        asked = dict(self.monotone or {})
        shapes = {resolve_feature(j, names, "monotone"): shape for j, shape in asked.items()}
        solver = GrowSolver(
            problem.coded, axes, problem.rows, problem.objective, limits, seed, shapes, from_zero
        )
        with self._progress((1 + from_zero) * self.n_bags, "bag") as progress:
            return solver.fit(problem.start, progress)

    def _descend(self, problem: Problem, seed: int, deadline: float) -> Solution:
        training = _torch_module("training")
        marginals = [Marginal.of(problem.encoder.axes[o]) for o in problem.components.orders]
        bases = {order: self._bases(order) for order in problem.components.orders}
        settings = training.NetworkSettings(bases, self.shared_bases, self.activation, self.scale)
        schedule = training.Schedule(
            self.learning_rate, self.l2, self.max_steps, self.patience, deadline
        )
        solver = training.GradientSolver
        if training.use_card(self.device):
            solver = _torch_module("cuda").CudaSolver
        with self._progress(self.max_steps, "step") as progress:
            solution: Solution = solver(
                problem.coded, marginals, settings, problem.rows, problem.objective, schedule, seed
            ).fit(problem.start, progress)
        return solution

    def _forget(self) -> None:
        """Drop what an earlier fit left, so that a fit that fails leaves no model behind."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _nodes_by_order(self, n_features: int, solver: str) -> dict[int, int]:
        orders = range(1, min(self.order, n_features) + 1)
        finest = dict(NODES_BY_ORDER)
        if solver == "grow" and n_features <= FEW_FEATURES:
            finest[2] *= 2
        nodes: dict[int, int] = {}
        for order in orders:
            most = finest.get(order, FEWEST_NODES)
            if isinstance(self.max_nodes, dict):
                most = self.max_nodes.get(order, most)
            else:
                most = min(most, self.max_nodes)
            nodes[order] = min(most, nodes.get(order - 1, most))  # never finer than a lower order
        return nodes

    def _bases(self, order: int) -> int:
        if self.n_bases == "auto":
            return BASES_BY_ORDER.get(order, FEWEST_BASES)
        if isinstance(self.n_bases, dict):
            return self.n_bases.get(order, BASES_BY_ORDER.get(order, FEWEST_BASES))
        return int(self.n_bases)

    def _components(self, encoder: TableEncoder) -> ComponentSet:
        if isinstance(self.interactions, str):
            return ComponentSet.up_to(encoder.n_features, self.order)
        chosen = resolve_interactions(self.interactions, encoder.feature_names, self.order)
        return ComponentSet.with_mains(encoder.n_features, chosen)

    def _check_memory(self, encoder: TableEncoder, solver: str) -> None:
        """Refuse a component set whose tables and bases cannot fit into memory."""
        needed, n_features = 0.0, encoder.n_features
        for order, axes in encoder.axes.items():
            most = max(axis.n_nodes for axis in axes)
            if isinstance(self.interactions, str) or order == 1:
                count = math.comb(n_features, order)
            else:
                count = sum(len(component) == order for component in self.interactions)
            per_bag = 40.0 * most**order  # bytes, at the peak
            if solver == "gradient":
                per_bag = 16.0 * (most**order + order * most * self._bases(order))
            needed += count * self.n_bags * per_bag
        available = available_memory()
        if needed > available:
            raise MemoryError(
                f"interactions: the components of {n_features} features up to order "
                f"{max(encoder.axes)} "
                f"must fit into memory, they need about {needed / 1e9:.1f} GB and "
                f"{available / 1e9:.1f} GB are free. Lower order, n_bags or max_nodes, or list the "
                "interactions to include."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @contextmanager
    def _progress(self, total: int, unit: str) -> Iterator[Progress]:
        """Show a progress bar, by default on a terminal and only when fitting takes a while."""
        shown = sys.stderr.isatty() if self.verbose == "auto" else bool(self.verbose)
        with tqdm(
            total=total,
            desc=type(self).__name__,
            unit=unit,
            leave=bool(shown),
            disable=not shown,
            delay=0.5 if self.verbose == "auto" else 0.0,
        ) as bar:

            def update(record: dict[str, float]) -> None:
                bar.set_postfix(validation_loss=f"{record['validation_loss']:.4f}", refresh=False)
                bar.update(1)

            yield update
            bar.total = bar.n  # stopped early: the bar is full


class TPNNRegressor(RegressorMixin, TPNNEstimator):
    """Regression by f(x) = intercept + sum_S f_S(x_S), |S| <= order, with unique components.

    Every f_S averages to zero along each of its features under the training marginals, exactly.

    Parameters
    ----------
    order : int, default=2
        Largest number of features in a component.
    interactions : {"auto", "all"} or list of tuples, default="auto"
        Components beyond the main effects: all up to ``order``, or tuples of feature names or
        indices. "auto" includes all.
    objective : str, dict or callable, default="auto"
        "squared_error" (the default), "absolute_error", "huber", "quantile" (the median),
        "poisson", "gamma" or "tweedie"; a dict with a parameter, ``{"name": "quantile", "levels":
        [0.1, 0.9]}``, ``{"name": "huber", "threshold": 1.0}`` (in standard deviations of y) or
        ``{"name": "tweedie", "power": 1.5}``; or a torch function of y and raw score that returns
        each row's loss. Counts, gamma and Tweedie have a log link: pass log exposure as ``offset``.
    monotone : dict from feature to shape, optional
        "increasing" or "decreasing" for the whole function, interactions included, and "convex" or
        "concave" likewise. ``model_.certificate(name)`` proves it.
    categorical : "auto" or list of names or indices, default="auto"
        Columns of numbers that are names. Strings and categories always are.
    min_level_rows : int, default=1
        Levels with fewer rows share one node.
    solver : {"auto", "grow", "gradient"}, default="auto"
        "grow" adds bases where the residual still has structure; it does main effects and pairs and
        is the more accurate and faster one. "gradient" learns b, gamma and beta by gradient
        descent, as the paper does; it needs torch. "auto" grows unless ``order``, ``n_bases``,
        ``scale``, ``activation`` or ``shared_bases`` ask for what only gradient descent does.
    growth : {"auto", "smooth", "none"}, default="auto"
        What the growing solver starts from: "auto" grows every bag from zero and from a smooth
        start, and mixes the two as held-out rows like best; "smooth" grows from the smooth start
        alone; "none" keeps the smooth start. In this order, components get smoother and more
        stable under re-sampling, and sharp surfaces less accurate.
    n_bases : int, dict from order to int, or "auto", default="auto"
        Number of bases K of each component (gradient solver; growth decides by itself).
    n_bags : int, default=8
        Models trained on different parts of the rows and averaged. Their differences are the
        bands of the explanation.
    scale : {"centred", "paper"}, default="centred"
        Whether bases are divided by eta as in the paper.
    activation : {"sigmoid", "relu"}, default="sigmoid"
        Activation of the bases.
    shared_bases : bool, default=False
        Share the bases between all components of one order (NBM-TPNN).
    max_nodes : int or dict from order to int, default=256
        Largest number of nodes of a feature; interactions use fewer.
    learning_rate : float, default=0.02
        Step size of Adam (gradient solver).
    l2 : float, default=1e-3
        Ridge penalty on beta (gradient solver).
    max_steps : int, default=2000
        Largest number of full-batch steps, or of rounds of growth.
    patience : int, default=50
        Steps or rounds without a better validation loss after which a bag is done.
    validation_fraction : float, default=0.15
        Share of the rows that each bag holds out for early stopping.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to train: "cuda" is the gradient solver on an NVIDIA card. "auto" uses a card for the
        gradient solver where there is one.
    time_limit : float, optional
        Seconds after which training stops with the best model so far.
    random_state : int, RandomState, Generator or None, default=None
        Seed; the same seed gives the same model, bit for bit.
    verbose : {"auto", 0, 1}, default="auto"
        Progress bar: on a terminal, never, or always.

    Attributes
    ----------
    model_ : AnovaModel
        The fitted model, frozen.
    components_ : list of tuple of str
        Feature names of each component.
    intercept_ : float
        Mean of the model under the product of the marginals.
    history_ : list of dict
        Losses and seconds of every step, or of every bag that was grown.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        Feature names, where the table has them.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit to rows X and targets y.

        Parameters
        ----------
        X : DataFrame of pandas or polars, Arrow table, or array of shape (n_rows, n_features)
            Columns of numbers, dates, strings or categories; missing values have their own effect.
        y : array of shape (n_rows,) or (n_rows, n_targets)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; zero equals leaving the row out.
        offset : array of shape (n_rows,), optional
            Known part of the raw score.
        """
        self._forget()
        check_parameters(self.get_params())
        target, names = checked_targets(y)
        objective = resolve(self.objective, target.shape[1])
        check_range(target, objective)
        weights = checked_weights(sample_weight, len(target))
        targets = Targets(target, weights, checked_offset(offset, len(target)))
        outputs = names if target.shape[1] > 1 else ()
        if objective.n_outputs > 1 and objective.levels:
            outputs = tuple(map(str, objective.levels))
        self._fit(X, targets, objective, outputs)
        return self

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict the target of each row, (n_rows,), or of several targets or quantiles at once.

        Several quantiles never cross: they are sorted.
        """
        raw = self._raw_scores(X, offset)
        return self.model_.link.inverse(raw)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, or for several quantiles their mean share of the pinball loss explained."""
        predicted = self.predict(X)
        if self.model_.link.name != "quantiles":
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        shares = [
            d2_pinball_score(y, column, sample_weight=sample_weight, alpha=float(level))
            for column, level in zip(predicted.T, self.model_.output_names, strict=True)
        ]
        return float(np.mean(shares))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _torch_module(name: str) -> Any:
    """Import a module of ours that needs torch."""
    try:
        return import_module(f"tpnn.{name}")
    except ImportError as error:
        raise ImportError(
            f"solver: the gradient solver needs torch, and triton on a card ({error}). "
            'Run: pip install "tpnn[torch]"'
        ) from error
