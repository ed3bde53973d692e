"""TPNNEstimator: what the estimators share, from a table to a frozen model."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from tpnn._threads import ONE_BLAS_THREAD
from tpnn._typing import FloatArray
from tpnn.anova.components import (
    ComponentSet,
    InteractionRules,
    resolve_feature,
    resolve_interactions,
)
from tpnn.anova.constraints import MONOTONE
from tpnn.anova.measure import Marginal
from tpnn.estimators.checks import (
    available_memory,
    check_rows,
    seed_from,
)
from tpnn.estimators.pipeline import Fit, grow_solver
from tpnn.explain.explanation import Explanation
from tpnn.grow.bag import Limits
from tpnn.loss.losses import Objective
from tpnn.model.model import AnovaModel, check_shape, storable_labels
from tpnn.problem.problem import Bagging, Problem, Targets
from tpnn.problem.solution import Progress, Solution
from tpnn.report import write_report
from tpnn.search.search import Request, most_components
from tpnn.search.select import Path, Rule, required_components, select
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.frame import Table

NODES_BY_ORDER = {
    1: 65535,
    2: 64,
    3: 24,
    4: 12,
}  # beyond these, finer nodes cost more than they give
BASES_BY_ORDER = {1: 50, 2: 100, 3: 50}
FEWEST_NODES, FEWEST_BASES = 6, 20  # for orders above those listed
GRADIENT_L2 = 1e-3
FEW_FEATURES = 12  # up to here the growing solver affords twice the nodes in pairs


class TPNNEstimator(TransformerMixin, BaseEstimator):
    """Functional ANOVA model with tensor product neural networks, for any objective.

    Attributes declared here are set by ``fit``.
    """

    model_: AnovaModel
    components_: list[tuple[str, ...]]
    intercept_: float
    history_: list[dict[str, Any]]
    _path: Path
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self,
        order: int = 2,
        interactions: str | int | dict[str, Any] | Sequence[Sequence[int | str]] = "auto",
        required_interactions: Sequence[Sequence[int | str]] = (),
        forbidden_interactions: Sequence[Sequence[int | str]] = (),
        interaction_groups: Sequence[Sequence[int | str]] = (),
        max_components: int | None = None,
        selection: str = "auto",
        heredity: bool = False,
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
        l2: str | float = "auto",
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
        self.required_interactions = required_interactions
        self.forbidden_interactions = forbidden_interactions
        self.interaction_groups = interaction_groups
        self.max_components = max_components
        self.selection = selection
        self.heredity = heredity
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
        """Explain the model as a whole or, given rows, on each of them.

        A known ``offset`` of the rows is no component and in none of what explains them.
        """
        check_is_fitted(self)
        rows = None if X is None else self.model_.encoder.read(X, type(self).__name__)
        return Explanation(self.model_, rows)

    def path(self) -> Path:
        """Models from sparse to full by what each component is worth on held-out rows."""
        check_is_fitted(self)
        return self._path

    def transform(self, X: Any) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components * n_outputs).

        Components are features of their own, for another model or a table of scores.
        """
        check_is_fitted(self)
        table = self.model_.encoder.read(X, type(self).__name__)
        scores = self.model_.component_scores(table)
        return scores.reshape(len(scores), math.prod(scores.shape[1:]))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of ``transform``: features joined by " x ", then the output.

        An interaction whose name is that of a column is told apart by " (component)".
        """
        check_is_fitted(self)
        names = [" x ".join(component) for component in self.components_]
        outputs = self.model_.output_names
        named = [f"{name}: {output}" for name in names for output in outputs] if outputs else names
        unique: dict[str, None] = {}
        for name in named:
            while name in unique:
                name += " (component)"
            unique[name] = None
        return np.array(list(unique), dtype=object)

    def shap_values(self, X: Any) -> Any:
        """Exact Shapley values of the raw score under the product of the marginals.

        A ``shap.Explanation`` where shap is installed, else an object with the same fields.
        """
        return self.explain(X).shap_values()

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        title: str = "Model report",
        target: str = "prediction",
        offset: Any = None,
    ) -> None:
        """Write one HTML page in which the model runs, to read and to try.

        Parameters
        ----------
        path : path
            Where to write it.
        X, y : table and targets, optional
            Held-out rows: to score, to measure concurvity and to start from in the page, which
            holds up to 200 of them.
        title : str, default="Model report"
            Heading of the page.
        target : str, default="prediction"
            What is predicted, in words.
        offset : array of shape (n_rows,), optional
            Known part of the raw score of the rows, as in ``predict``: part of their scores and of
            what the page predicts for them.
        """
        check_is_fitted(self)
        write_report(self.model_, path, X, y, title=title, target=target, offset=offset)

    def _raw_scores(self, X: Any, offset: Any) -> FloatArray:
        check_is_fitted(self)
        table = self.model_.encoder.read(X, type(self).__name__)
        return self.model_.raw_scores(table, offset)

    def _fit(
        self,
        X: Any,
        targets: Targets,
        objective: Objective,
        outputs: tuple[str, ...] = (),
        classes: Any = (),
    ) -> None:
        table = Table(X)
        check_rows(table.n_rows, len(targets.y))
        deadline = time.monotonic() + (self.time_limit or math.inf)
        seed = seed_from(self.random_state)
        solver = self._solver_name()
        nodes = self._nodes_by_order(table.n_features, solver)
        encoder = TableEncoder.fit(table, nodes, targets.weights, self._level_rules(table))
        for feature, shape in self._shapes(encoder).items():
            check_shape(encoder, feature, shape, "monotone")
        self._check_memory(encoder, solver)

        mains = ComponentSet.up_to(table.n_features, 1)
        bagging = Bagging(1, self.validation_fraction, seed)
        first = Problem.build(table, encoder, mains, targets, objective, bagging)

        def build(components: ComponentSet, n_bags: int) -> Problem:
            return first.with_components(table, components, replace(bagging, n_bags=n_bags))

        limits = Limits(deadline, self.max_steps, self.patience)
        solve = self._grow if solver == "grow" else self._descend
        fit = Fit(
            build, lambda problem: solve(problem, limits, seed), solver == "gradient", limits, seed,
            self.n_bags, self.device == "cuda",
        )  # fmt: skip
        request = Request.read(self.interactions, self.order, self.max_components)
        rules = self._interaction_rules(encoder.feature_names)
        required = required_components(rules.required, self.heredity, self.max_components)
        if request is None:
            fitted = fit.of(rules.applied(self._listed(encoder)))
        else:
            fitted = fit.searched(request, table.n_features, rules)
        full = fitted.problem.freeze(fitted.solution, self.activation, self.scale, outputs)
        full = replace(full, classes=tuple(storable_labels(classes)))
        asked = mains if self.selection == "auto" and fitted.all_mains else ()
        rule = Rule.read(
            self.selection, self.max_components, self.heredity, fitted.screened, asked,
            required,
        )  # fmt: skip
        with ONE_BLAS_THREAD:
            path = select(fitted.problem, fitted.solution, full, rule, fitted.evident)
        model = path.model(path.chosen)
        self._path = path
        self.model_ = model.with_shapes(self.monotone) if self.monotone else model
        self.components_ = self.model_.component_names
        self.intercept_ = self.model_.intercept
        self.history_ = [*fitted.history, *fitted.solution.history]
        self.n_features_in_ = table.n_features
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _level_rules(self, table: Table) -> LevelRules:
        names = [table.name(feature) for feature in range(table.n_features)]
        listed = [] if isinstance(self.categorical, str) else self.categorical
        nominal = [resolve_feature(feature, names, "categorical") for feature in listed]
        return LevelRules(nominal, self.min_level_rows)

    def _interaction_rules(self, names: Sequence[str]) -> InteractionRules:
        required, forbidden = (
            resolve_interactions(getattr(self, argument), names, order, argument)
            for argument, order in (
                ("required_interactions", self.order),
                ("forbidden_interactions", len(names)),
            )
        )
        for one, other in product(required, forbidden):
            if set(one) >= set(other):
                raise ValueError(
                    f"required_interactions: none may contain a forbidden one, found "
                    f"{tuple(names[j] for j in one)} and {tuple(names[j] for j in other)}. "
                    "Leave one of the two out."
                )
        groups = [
            tuple(resolve_feature(feature, names, "interaction_groups") for feature in group)
            for group in self.interaction_groups
        ]
        return InteractionRules(tuple(forbidden), tuple(groups), tuple(required))

    def _solver_name(self) -> str:
        """Growing, unless something is asked for that only gradient descent does."""
        needs_gradient = {
            "n_bases": self.n_bases != "auto",
            "scale": self.scale != "centred",
            "activation": self.activation != "sigmoid",
            "shared_bases": self.shared_bases,
            "device": self.device == "cuda",
        }
        asked = [name for name, needed in needs_gradient.items() if needed]
        if self.solver == "grow" and asked:
            raise ValueError(
                f"solver: 'grow' decides by itself on plain centred sigmoids, found "
                f"{asked[0]}={getattr(self, asked[0])!r}. Pass solver='gradient'."
            )
        if self.solver == "auto":
            return "gradient" if asked else "grow"
        return self.solver

    def _grow(self, problem: Problem, limits: Limits, seed: int) -> Solution:
        shapes = self._shapes(problem.encoder)
        from_zero = self.growth == "auto"
        l2 = None if isinstance(self.l2, str) else self.l2
        if self.growth == "none":
            limits = replace(limits, max_rounds=0)
        solver = grow_solver(problem, limits, seed, shapes, from_zero, l2)
        with self._progress(solver.n_growths, "bag") as progress:
            return solver.fit(problem.start, progress)

    def _shapes(self, encoder: TableEncoder) -> dict[int, str]:
        asked = dict(self.monotone or {})
        names = encoder.feature_names
        return {resolve_feature(j, names, "monotone"): shape for j, shape in asked.items()}

    def _descend(self, problem: Problem, limits: Limits, seed: int) -> Solution:
        training = _torch_module("solver")
        marginals = [Marginal.of(problem.encoder.axes[o]) for o in problem.components.orders]
        bases = {order: self._bases(order) for order in problem.components.orders}
        shapes = self._shapes(problem.encoder)
        signs = {j: MONOTONE[shape] for j, shape in shapes.items() if shape in MONOTONE}
        settings = training.NetworkSettings(
            bases, self.shared_bases, self.activation, self.scale, signs
        )
        l2 = GRADIENT_L2 if isinstance(self.l2, str) else self.l2
        schedule = training.Schedule(
            self.learning_rate,
            l2,
            self.max_steps,
            self.patience,
            limits.deadline,
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

    def _listed(self, encoder: TableEncoder) -> ComponentSet:
        if not isinstance(self.interactions, list | tuple):
            return ComponentSet.up_to(encoder.n_features, self.order)
        chosen = resolve_interactions(self.interactions, encoder.feature_names, self.order)
        return ComponentSet.with_mains(encoder.n_features, chosen)

    def _check_memory(self, encoder: TableEncoder, solver: str) -> None:
        """Refuse a component set whose tables and bases cannot fit into memory."""
        needed, n_features = 0.0, encoder.n_features
        for order, axes in encoder.axes.items():
            most = max(axis.n_nodes for axis in axes)
            per_bag = 40.0 * most**order  # bytes, at the peak
            if solver == "gradient":
                per_bag = 16.0 * (most**order + order * most * self._bases(order))
            count = most_components(self.interactions, order, n_features, self.max_components)
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


def _torch_module(name: str) -> Any:
    """Import a module of ours that needs torch."""
    try:
        return import_module(f"tpnn.descent.{name}")
    except ImportError as error:
        raise ImportError(
            f"solver: the gradient solver needs torch, and triton on a card ({error}). "
            'Run: pip install "tpnn[torch]"'
        ) from error
