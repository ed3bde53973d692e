"""TPNNRegressor and TPNNClassifier: the scikit-learn estimators, which join all stages."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from tpnn.basis import Activation, Scale
from tpnn.checks import (
    available_memory,
    check_rows,
    checked_offset,
    checked_target,
    checked_weights,
    seed_from,
)
from tpnn.components import Component, ComponentSet, canonical, resolve_interactions
from tpnn.encoding import Table, TableEncoder
from tpnn.explain import Explanation, ShapValues
from tpnn.lookup import CodedComponents
from tpnn.marginals import Marginal
from tpnn.model import AnovaModel
from tpnn.network import ComponentNetwork, start_centres
from tpnn.objectives import OBJECTIVES, Objective
from tpnn.parameters import check_parameters
from tpnn.resampling import distinct_rows, draw_bags, row_keys
from tpnn.solution import Solution
from tpnn.training import GradientSolver, Progress, Schedule, TrainingRows
from tpnn.workers import split

FloatArray = NDArray[np.float64]

NODES_BY_ORDER = {
    1: 65535,
    2: 64,
    3: 24,
    4: 12,
}  # beyond these, finer nodes cost more than they give
BASES_BY_ORDER = {1: 50, 2: 100, 3: 50}
FEWEST_NODES, FEWEST_BASES = 6, 20  # for orders above those listed
PART_SIZE = 400_000  # basis values per network: several networks, so that all cores have work


@dataclass(frozen=True)
class _TrainingSet:
    """Distinct rows on the training scale, in canonical order."""

    table: Table
    where: NDArray[np.intp]  # (n,) rows of the table
    rows: TrainingRows
    start: float  # raw score of the best constant
    shift: float  # y = shift + scale * target
    scale: float


class _TPNN(BaseEstimator):
    """Functional ANOVA model with tensor product neural networks.

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
        solver: str = "auto",
        n_bases: str | int | dict[int, int] = "auto",
        n_bags: int = 8,
        scale: Scale = "centred",
        activation: Activation = "sigmoid",
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
        self.solver = solver
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
        return Explanation(self.model_, None if X is None else self.model_.component_scores(X))

    def shap_values(self, X: Any) -> ShapValues:
        """Exact Shapley values of the raw score under the product of the marginals."""
        return self.explain(X).shap_values(X)

    def _raw_scores(self, X: Any, offset: Any) -> FloatArray:
        check_is_fitted(self)
        table = self.model_.encoder.read(X, type(self).__name__)
        return self.model_.raw_scores(table) + checked_offset(offset, table.n_rows)

    def _fit(
        self,
        X: Any,
        y: FloatArray,
        weights: FloatArray | None,
        offset: Any,
        objective: Objective,
    ) -> None:
        table = Table(X)
        check_rows(table.n_rows, len(y))
        seed = seed_from(self.random_state)
        deadline = time.monotonic() + (self.time_limit or math.inf)
        nodes = self._nodes_by_order(table.n_features)
        self._check_memory(table.n_features, nodes)
        encoder = TableEncoder.fit(table, nodes, weights)
        features = encoder.canonical_order()
        components = self._components(encoder)
        data = self._training_set(
            table, features, y, weights, checked_offset(offset, table.n_rows), objective, seed
        )
        ordered = canonical(components, features)
        with self._progress() as progress:
            solution = self._gradient_solution(
                encoder, ordered, data, objective, seed, deadline, progress
            )
        self.model_ = self._freeze(encoder, components, ordered, solution, data, objective)
        self.components_ = self.model_.component_names
        self.intercept_ = self.model_.intercept
        self.history_ = solution.history
        self.n_features_in_ = table.n_features
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _forget(self) -> None:
        """Drop what an earlier fit left, so that a fit that fails leaves no model behind."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _nodes_by_order(self, n_features: int) -> dict[int, int]:
        orders = range(1, min(self.order, n_features) + 1)
        if isinstance(self.max_nodes, dict):
            return {o: self.max_nodes.get(o, NODES_BY_ORDER.get(o, FEWEST_NODES)) for o in orders}
        return {o: min(self.max_nodes, NODES_BY_ORDER.get(o, FEWEST_NODES)) for o in orders}

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

    def _check_memory(self, n_features: int, nodes: dict[int, int]) -> None:
        """Refuse a component set whose tables and bases cannot fit into memory."""
        needed = 0.0
        for order, most in nodes.items():
            if isinstance(self.interactions, str) or order == 1:
                count = math.comb(n_features, order)
            else:
                count = sum(len(component) == order for component in self.interactions)
            bases = order * most * self._bases(order)
            needed += 16.0 * count * self.n_bags * (most**order + bases)  # bytes, at the peak
        available = available_memory()
        if needed > available:
            raise MemoryError(
                f"interactions: the components of {n_features} features up to order {max(nodes)} "
                f"must fit into memory, they need about {needed / 1e9:.1f} GB and "
                f"{available / 1e9:.1f} GB are free. Lower order, n_bags or max_nodes, or list the "
                "interactions to include."
            )

    def _training_set(
        self,
        table: Table,
        features: Sequence[int],
        y: FloatArray,
        weights: FloatArray | None,
        offset: FloatArray,
        objective: Objective,
        seed: int,
    ) -> _TrainingSet:
        keys = row_keys((table.column(feature) for feature in features), table.n_rows)
        distinct = distinct_rows(keys, np.stack([y, offset]), weights)
        y, offset = y[distinct.rows], offset[distinct.rows]
        shift, scale = 0.0, 1.0
        if objective.standardised:
            shift = float(np.average(y - offset, weights=distinct.weights))
            variance = float(np.average((y - offset - shift) ** 2, weights=distinct.weights))
            scale = math.sqrt(variance) or 1.0
        target, known = (y - shift) / scale, offset / scale
        start = objective.start(target, distinct.weights) - float(known @ distinct.weights)
        bags = draw_bags(distinct, self.n_bags, self.validation_fraction, seed)
        column, known_column = (values[:, None].astype(np.float32) for values in (target, known))
        rows = TrainingRows(column, known_column, *bags)
        return _TrainingSet(table, distinct.rows, rows, start, shift, scale)

    def _gradient_solution(
        self,
        encoder: TableEncoder,
        components: list[Component],
        data: _TrainingSet,
        objective: Objective,
        seed: int,
        deadline: float,
        progress: Progress,
    ) -> Solution:
        networks, coded = [], []
        for order in sorted({len(component) for component in components}):
            axes = encoder.axes[order]
            marginal = Marginal.stack([a.positions for a in axes], [a.weights for a in axes])
            features = np.array([component for component in components if len(component) == order])
            codes = encoder.codes(data.table, order, data.where)
            coded.append(CodedComponents(codes, features, marginal.n_nodes))
            networks.append(self._networks(marginal, features, seed))
        schedule = Schedule(self.learning_rate, self.l2, self.max_steps, self.patience, deadline)
        solver = GradientSolver(networks, coded, data.rows, objective, schedule)
        return solver.fit(data.start, progress)

    def _networks(
        self, marginal: Marginal, features: NDArray[np.intp], seed: int
    ) -> list[ComponentNetwork]:
        """Networks that share the components of one order; shared bases need a single one."""
        count, order = features.shape
        n_bases = self._bases(order)
        centres = start_centres(count, order, n_bases, self.n_bags, self.shared_bases, seed + order)
        per_component = self.n_bags * order * marginal.n_nodes * n_bases
        most = count if self.shared_bases else max(1, PART_SIZE // per_component)
        return [
            ComponentNetwork(
                marginal,
                torch.as_tensor(features[first:last]),
                centres if self.shared_bases else centres[:, first:last].clone(),
                self.shared_bases,
                self.activation,
                self.scale,
            )
            for first, last in split(count, most)
        ]

    def _freeze(
        self,
        encoder: TableEncoder,
        components: ComponentSet,
        ordered: list[Component],
        solution: Solution,
        data: _TrainingSet,
        objective: Objective,
    ) -> AnovaModel:
        """Average the bags, leave the training scale, and put axes and components in user order."""
        frozen = {}
        for given, padded, terms in zip(ordered, solution.tables, solution.terms, strict=True):
            axes = sorted(range(len(given)), key=given.__getitem__)
            component = tuple(given[axis] for axis in axes)
            sizes = (encoder.axes[len(given)][feature].n_nodes for feature in component)
            table = padded.transpose(*axes, -1)[tuple(map(slice, sizes))] * data.scale
            terms = terms._replace(
                features=component,
                b=terms.b[axes],
                gamma=terms.gamma[axes],
                beta=terms.beta * data.scale,
            )
            mean, spread = (np.ascontiguousarray(part) for part in (table.mean(-1), table.std(-1)))
            frozen[component] = (mean, spread, terms)
        tables, spreads, all_terms = zip(
            *(frozen[component] for component in components), strict=True
        )
        intercept = data.shift + data.scale * float(solution.intercepts.mean())
        return AnovaModel(
            encoder,
            components,
            tables,
            spreads,
            intercept,
            objective.link,
            self.activation,
            self.scale,
            all_terms,
        )

    @contextmanager
    def _progress(self) -> Iterator[Progress]:
        """Show a progress bar, by default on a terminal and only when fitting takes a while."""
        shown = sys.stderr.isatty() if self.verbose == "auto" else bool(self.verbose)
        with tqdm(
            total=self.max_steps,
            desc=type(self).__name__,
            unit="step",
            leave=bool(shown),
            disable=not shown,
            delay=0.5 if self.verbose == "auto" else 0.0,
        ) as bar:

            def update(record: dict[str, float]) -> None:
                bar.set_postfix(validation_loss=f"{record['validation_loss']:.4f}", refresh=False)
                bar.update(1)

            yield update
            bar.total = bar.n  # stopped early: the bar is full


class TPNNRegressor(RegressorMixin, _TPNN):
    """Regression by f(x) = intercept + sum_S f_S(x_S), |S| <= order, with unique components.

    Every f_S averages to zero along each of its features under the training marginals, exactly.

    Parameters
    ----------
    order : int, default=2
        Largest number of features in a component.
    interactions : {"auto", "all"} or list of tuples, default="auto"
        Components beyond the main effects: all up to ``order``, or tuples of feature names or
        indices. "auto" includes all.
    solver : {"auto", "gradient"}, default="auto"
        "gradient" learns b, gamma and beta by gradient descent, as the paper does.
    n_bases : int, dict from order to int, or "auto", default="auto"
        Number of bases K of each component.
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
        Step size of Adam.
    l2 : float, default=1e-3
        Ridge penalty on beta.
    max_steps : int, default=2000
        Largest number of full-batch steps.
    patience : int, default=50
        Steps without a better validation loss after which a bag is done.
    validation_fraction : float, default=0.15
        Share of the rows that each bag holds out for early stopping.
    device : {"auto", "cpu"}, default="auto"
        Where to train.
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
        Losses and seconds of every step.
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
        X : DataFrame or array of shape (n_rows, n_features)
            Numeric table.
        y : array of shape (n_rows,)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; zero equals leaving the row out.
        offset : array of shape (n_rows,), optional
            Known part of the raw score.
        """
        self._forget()
        check_parameters(self.get_params())
        target = checked_target(y, np.float64)
        weights = checked_weights(sample_weight, len(target))
        self._fit(X, target, weights, offset, OBJECTIVES["squared_error"])
        return self

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict the target of each row, shape (n_rows,)."""
        return self._raw_scores(X, offset)


class TPNNClassifier(ClassifierMixin, _TPNN):
    """Binary classification: logit P(y = 1 | x) = intercept + sum_S f_S(x_S), components unique.

    Parameters and attributes are those of :class:`TPNNRegressor`, and ``classes_``, the two labels.

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

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit to rows X and labels y; the arguments are those of :meth:`TPNNRegressor.fit`."""
        self._forget()
        check_parameters(self.get_params())
        labels = checked_target(y, None)
        check_classification_targets(labels)
        weights = checked_weights(sample_weight, len(labels))
        classes = np.unique(labels if weights is None else labels[weights > 0])
        if len(classes) != 2:
            raise ValueError(
                f"y: exactly two classes are needed, found {len(classes)} class(es) "
                f"{classes[:5].tolist()}. Only binary classification is supported."
            )
        second = (labels == classes[1]).astype(np.float64)
        self._fit(X, second, weights, offset, OBJECTIVES["log_loss"])
        self.classes_ = classes
        return self

    def decision_function(self, X: Any, offset: Any = None) -> FloatArray:
        """Raw score, the logit of the second class, shape (n_rows,)."""
        return self._raw_scores(X, offset)

    def predict_proba(self, X: Any, offset: Any = None) -> FloatArray:
        """Probability of each class, shape (n_rows, 2)."""
        raw = self.decision_function(X, offset)
        second = self.model_.link.inverse(raw)
        return np.column_stack([1 - second, second])

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """More probable class of each row, shape (n_rows,)."""
        second = self.decision_function(X, offset) > 0
        return np.take(self.classes_, second.astype(int))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
