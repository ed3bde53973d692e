"""AnovaModel: what survives training. Nodes, tables and a link; predicting needs NumPy only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import warn
from tpnn.anova.components import Component, ComponentSet, in_order, resolve_feature
from tpnn.anova.importance import variance
from tpnn.anova.measure import worst_mean
from tpnn.anova.shapes import Certificate, certificate, check_shape
from tpnn.anova.terms import Terms, step_terms
from tpnn.loss.links import Link
from tpnn.loss.row_values import checked_offset, column_offset
from tpnn.model import doors, intervals
from tpnn.model.archive import json_text, write_archive
from tpnn.model.bundles import SumPredictor
from tpnn.model.check import check_model
from tpnn.model.codec import LATER, Document, Label, encode
from tpnn.model.edit_log import Record
from tpnn.model.evidence import Baseline, Evidence, Provenance, map_arrays
from tpnn.model.flat import flatten_tables, squeezed
from tpnn.model.interpolate import Predictor
from tpnn.model.remainder import Remainder, measured, remainder_name
from tpnn.model.summary import summarise
from tpnn.model.task import Task
from tpnn.model.thin import thinned
from tpnn.table.axis import Axis, read_only
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import PERIODIC, Table


class Basis(NamedTuple):
    """The TPNN terms behind the tables of a model, and the basis functions they refer to.

    Parameters
    ----------
    activation : {"sigmoid", "relu"}
        The step that basis functions are made of.
    scale : {"centred", "paper"}
        How they are scaled.
    terms : tuple of Terms, optional
        Terms of each component; None where each table is a sum of steps between nodes.
    """

    activation: str = "sigmoid"
    scale: str = "centred"
    terms: tuple[Terms, ...] | None = None


@dataclass(frozen=True, eq=False)
class EditLog:
    """All edits of a model, oldest first, and the models that undoing them restores."""

    # The chain: for each edit its number, the edit itself, why, by whom and when, what it
    # changed, its effect on held-out rows, the digests of the model before and after, the
    # hash of the record before, and its own.
    records: tuple[Record, ...]
    # the models before the last edits, without their logs; empty if read from JSON
    formers: tuple[AnovaModel, ...] = ()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AnovaModel:
    """A functional ANOVA model f(x) = intercept + sum_S f_S(x_S) + remainder, frozen.

    The components f_S are the core of the model. The remainder is one function that averages to
    zero, too; most models have none.

    Every array has the outputs on its last axis, also where there is only one. What the public
    methods return has that axis only where there are several outputs.

    Its ``predict`` returns means, and so differs from that of two estimators: for a classifier it
    is the probability where :meth:`TPNNClassifier.predict` returns labels, for a survival model the
    relative risk where :meth:`TPNNSurvival.predict` returns its logarithm. Methods of other names
    mean the same as those of the estimators.

    Parameters
    ----------
    encoder : TableEncoder
        Nodes and masses of the features.
    components : ComponentSet
        The subsets S.
    tables : sequence of array of shape (M_1, ..., M_d, n_outputs)
        Values of each f_S on its nodes; between nodes the model interpolates linearly. Read-only.
    intercepts : array of shape (n_outputs,)
        Mean of f under the product of the marginals. Read-only.
    link : Link
        From raw score to prediction.
    basis : Basis
        The TPNN terms behind the tables, where there are any, and the basis they refer to.
    output_names : tuple of str
        Classes, quantiles or targets of a model with several outputs; empty for one output.
    shapes : dict from str to str
        Shape of f along some features, by name: "increasing", "decreasing", "convex", "concave".
    classes : tuple of str, int or float
        Labels of a classifier, sorted; with two labels f is the log-odds of the second.
    has_offset : bool
        Whether the model was fitted with an offset, so that predictions need one too.
    provenance : Provenance, optional
        Where the model comes from, if an estimator fitted it.
    evidence : Evidence
        What the rows of the fit say about the model: spreads over the bags, bands, tests of the
        components, intervals, and the baseline hazard of a survival model. Read-only.
    edits : EditLog, optional
        Edits that led to this model, and what they replaced.
    remainder : Remainder, optional
        What deep trees add to the components, if the model has such a part.
    reviews : tuple of dict, optional
        What people expected of components, and found, as a chain like the log of edits.
    """

    encoder: TableEncoder
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    intercepts: FloatArray
    link: Link
    basis: Basis = field(default_factory=Basis)
    output_names: tuple[str, ...] = ()
    shapes: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[Label, ...] = ()
    has_offset: bool = False
    provenance: Provenance | None = None
    evidence: Evidence = field(default_factory=Evidence)
    edits: EditLog | None = None
    remainder: Remainder | None = None
    reviews: tuple[Record, ...] | None = field(default=None, metadata=LATER)

    explain = doors.explain
    report = doors.report
    edit = doors.edit
    undo = doors.undo
    log = doors.log
    restrict = doors.restrict
    recourse = doors.recourse
    to_sql = doors.to_sql
    to_code = doors.to_code
    to_onnx = doors.to_onnx
    to_excel = doors.to_excel
    to_table = doors.to_table
    rating_tables = doors.rating_tables
    summary = summarise
    predict_interval = intervals.predict_interval
    standard_errors = intervals.standard_errors

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))

    def __getstate__(self) -> dict[str, Any]:
        named = (field.name for field in fields(self))  # no predictors: they are made when used
        return {name: getattr(self, name) for name in named} | {"shapes": dict(self.shapes)}

    def __setstate__(self, state: dict[str, Any]) -> None:  # a pickled array comes back writable
        with_arrays = ("tables", "intercepts", "basis", "evidence", "remainder")
        frozen = {name: map_arrays(read_only, state[name]) for name in with_arrays}
        vars(self).update(state, **frozen, shapes=MappingProxyType(dict(state["shapes"])))

    def __repr__(self) -> str:
        outputs = f", {len(self.intercepts)} outputs" if len(self.intercepts) > 1 else ""
        return (
            f"AnovaModel({len(self.components)} components of {self.encoder.n_features} features, "
            f"order {max(self.components.orders, default=0)}, {self.link.name} link{outputs})"
        )

    def _repr_html_(self) -> str:
        """Show the largest components in a notebook, as small charts."""
        html: str = self.explain()._repr_html_()
        return html

    @cached_property
    def task(self) -> Task:
        """What the model predicts, and the loss that it is judged by."""
        return Task.of(self)

    @property
    def intercept(self) -> Any:
        """Mean of f under the product of the marginals, a float or of shape (n_outputs,)."""
        return float(self.intercepts[0]) if len(self.intercepts) == 1 else self.intercepts

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.encoder.feature_names

    @property
    def required_features(self) -> tuple[str, ...]:
        """Names of the features that the model depends on."""
        used = {feature for component in self.components for feature in component}
        used |= set() if self.remainder is None else set(self.remainder.features)
        return tuple(self.feature_names[feature] for feature in sorted(used))

    @property
    def component_names(self) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""
        return self.components.names(self.feature_names)

    def axes(self, component: Sequence[int]) -> tuple[Axis, ...]:
        """Axes of a component, at the resolution of its order."""
        return tuple(self.encoder.axes[len(component)][feature] for feature in component)

    def raw_scores(self, X: Any, offset: Any = None) -> FloatArray:
        """Intercept, all components and the remainder, shape (n_rows,) or (n_rows, n_outputs).

        This is what ``decision_function`` of a classifier and ``predict`` of a survival estimator
        return. ``offset``, of shape (n_rows,), is a known part of the raw score that is added. A
        model that was fitted with one warns where there is none. If a column of X is the offset,
        it is read from there.
        """
        table = self.encoder.read(X)
        added = offset_of(self, table, offset)
        raw = self._raw(self.encoder.columns(table))
        if added is not None:
            raw += added
        return squeezed(raw.T)

    def _raw(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Raw scores (n_outputs, n_rows), without an offset, of rows that are numbers already."""
        intercepts, predictor = self._beside_trees
        raw = np.empty((len(intercepts), len(columns[0])))
        raw[:] = intercepts[:, None]
        predictor.add(columns, raw)
        if self.remainder is not None:
            raw += self.remainder.trees.scores(columns).T
        return raw

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Mean of the target, the link's inverse of the raw score: numbers, never labels.

        =====================  ==============================  =================================
        fitted by              this ``predict``                the estimator's ``predict``
        =====================  ==============================  =================================
        TPNNRegressor          predicted targets               the same
        TPNNClassifier, 2      probability of the second       labels
                               class, ``classes[1]``
        TPNNClassifier, more   probability of each class       labels
        TPNNSurvival           relative risk, exp(f(x))        log risk, f(x): ``raw_scores``
        =====================  ==============================  =================================
        """
        return self.link.inverse(self.raw_scores(X, offset))

    @property
    def predict_proba(self) -> Callable[..., FloatArray]:
        """Function of X and offset: the probability of each class, shape (n_rows, n_classes).

        It is that of :class:`TPNNClassifier`; a model of another task has no such attribute.
        """
        if self.task.kind != "classes":
            raise AttributeError(
                f"predict_proba: is for classifiers, and this model has the {self.link.name} link. "
                "Use predict."
            )
        return self._class_shares

    def _class_shares(self, X: Any, offset: Any = None) -> FloatArray:
        return self.task.shares(self.raw_scores(X, offset))

    def predict_survival(
        self, X: Any, times: Any, offset: Any = None, strata: Any = None
    ) -> FloatArray:
        """Probability of surviving beyond each time, shape (n_rows, n_times).

        It is that of :class:`TPNNSurvival`: S(t | x) = exp(-H_0(t) exp(f(x))), with the H_0 of the
        stratum of each row where there are strata.
        """
        baseline = baseline_of(self)
        return baseline.survival(self.raw_scores(X, offset), times, strata)

    def component_scores(self, X: Any) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components[, n_outputs]).

        ``intercept + component_scores(X).sum(1) + remainder_scores(X)`` is the raw score.
        """
        table = self.encoder.read(X)
        return column_scores(self, self.encoder.columns(table))

    def remainder_scores(self, X: Any) -> FloatArray:
        """Value of the remainder on every row, shape (n_rows[, n_outputs]); zeros without one."""
        table = self.encoder.read(X)
        if self.remainder is None:
            return squeezed(np.zeros((table.n_rows, len(self.intercepts))))
        columns = self.encoder.columns(table)
        return squeezed(self.remainder.scores(self.encoder.axes, columns))

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.encoder.axes, flatten_tables(tables_by_component(self)))

    @cached_property
    def _limits(self) -> tuple[list[int], FloatArray]:
        """Features with ends, and the values (2, n) beyond which rows are far outside."""
        some, limits = [], []
        for place, feature in enumerate(self.encoder.features):
            if feature.kind != PERIODIC and len(set(feature.ends)) == 2:
                low, high = np.array(feature.ends) / 2  # differences must not overflow
                with np.errstate(over="ignore"):
                    limits.append((3 * low - high, 3 * high - low))
                some.append(place)
        return some, np.array(limits).reshape(-1, 2).T

    @cached_property
    def _beside_trees(self) -> tuple[FloatArray, SumPredictor]:
        """Constants and a sum of tables that make raw scores together with the trees."""
        (intercepts, tables), axes, plain = beside_trees(self), self.encoder.axes, self._predictor
        if self.remainder is not None:
            plain = Predictor(axes, flatten_tables(tables))
        return intercepts, SumPredictor(axes, tables, plain)

    def identifiability_error(self) -> float:
        """Worst ``|mean along an axis|`` of any component, relative to its standard deviation.

        Zero, up to rounding, means that the decomposition is the only one of f with respect to the
        training marginals.
        """
        return max(
            worst_mean(table, [axis.weights for axis in self.axes(component)], scale)
            for tables in tables_by_output(self)
            for scale in [max(np.abs(table).max() for table in tables.values())]
            for component, table in tables.items()
        )

    def certificate(self, feature: str, shape: str | None = None) -> Certificate:
        """Smallest step of f along a feature over all inputs, and where it is.

        Exact up to pairs. With larger components it is a lower bound: their minima are added
        although they share features, so a shape that is certified holds, but one that holds need
        not be certified.

        Beyond its outer nodes f is constant: a monotone f is monotone everywhere, a convex,
        concave or linear one is so between the outer nodes.

        Parameters
        ----------
        feature : str
            Name of the feature.
        shape : str, optional
            "increasing", "decreasing", "convex", "concave" or "linear"; by default what the
            model was constrained to, else increasing.
        """
        index = resolve_feature(feature, self.feature_names, "feature")
        if self.remainder is not None:
            self.remainder.refuse_steps(self.feature_names, [index], "certificate")
        asked = shape or self.shapes.get(self.feature_names[index], "increasing")
        check_shape(self.encoder, index, asked, "shape", is_given=False)
        axes = self.encoder.axes
        found = [certificate(tables, axes, index, asked) for tables in tables_by_output(self)]
        return min(found, key=lambda certificate: certificate.minimum)

    def terms(self) -> list[Terms]:
        """TPNN terms (features, b, gamma, beta) of each component, features by name.

        On the nodes their sum is the table.
        """
        stored = self.basis.terms or [
            step_terms(squeezed(table), self.axes(component))
            for component, table in tables_by_component(self).items()
        ]
        return [
            terms._replace(features=names)
            for names, terms in zip(self.component_names, stored, strict=True)
        ]

    def save(self, path: str | os.PathLike[str], *, sign: Any = None) -> None:
        """Write the model to one file; ``tpnn.load`` reads it back exactly.

        Features that no component has are left out. ``sign`` is an ``Ed25519PrivateKey`` of
        cryptography, or a PEM file with one: ``tpnn.load(path, verify=public_key)`` then makes
        sure that nobody else wrote the file.
        """
        write_archive(path, self._document(), sign)

    def _document(self) -> Document:
        """Document of what is saved; a model that could not be loaded again is refused."""
        model = pruned(self)
        try:
            check_model(model)
        except ValueError as error:
            raise ValueError(
                f"model: one that is saved must be one that can be loaded, but {error}. Undo what "
                "was changed last."
            ) from error
        document: Document = encode(model)
        return document

    def to_json(
        self, path: str | os.PathLike[str] | None = None, *, thin: float = 0.0
    ) -> str | None:
        """Write the model as one JSON document, to a file or, without a path, as text.

        ``tpnn.load`` reads the file back, exactly if ``thin`` is 0; docs/export.md says what thin
        is, and docs/deploy.md has the fields.
        """
        text = json_text(thinned(self, thin)._document())
        if path is None:
            return text
        write_file(path, text.encode())
        return None


def restricted(
    model: AnovaModel, components: Iterable[Component], remainder: Remainder | None = None
) -> AnovaModel:
    """Intercept, some of the components and the given remainder, without a log."""
    chosen = ComponentSet(tuple(components))
    places = [place for place, s in enumerate(model.components) if s in set(chosen)]
    terms = model.basis.terms
    return changed(
        model,
        components=chosen,
        tables=tuple(model.tables[place] for place in places),
        basis=model.basis._replace(terms=terms and tuple(terms[place] for place in places)),
        evidence=model.evidence.of_components(places),
        remainder=remainder,
    )


def changed(model: AnovaModel, **other: Any) -> AnovaModel:
    """Model with other fields, without what is known about the old one only.

    Evidence, terms behind the tables, scores in the provenance and the log of edits belong to
    the model that they came with. They are left out, unless they are passed. The same trees have
    another share of the variance beside other components, and nobody knows their worth.

    Parameters
    ----------
    model : AnovaModel
        The old model.
    **other
        Fields of the new model, by name. Pass ``evidence=Evidence(...)`` with what still holds.
    """
    void = {
        "basis": model.basis._replace(terms=None),
        "provenance": model.provenance and replace(model.provenance, scores={}),
        "evidence": Evidence(),
        "edits": None,
    }
    new, old = replace(model, **void | other), model.remainder
    rest = new.remainder
    if old is None or rest is None or not np.array_equal(old.trees.values, rest.trees.values):
        return new
    before, after = core_variances(model, new)
    rest = replace(rest, worth=0.0)
    if before == 0 or rest.share in (0, 1):  # the shares do not say how large the remainder is
        return measured(replace(new, remainder=rest))
    return replace(new, remainder=rest.beside(before, after))


def core_variances(*models: AnovaModel) -> list[float]:
    """Sum of the variances of the components of each model, in one unit."""
    tables = [table for model in models for table in model.tables]
    unit = max((float(np.abs(table).max(initial=0.0)) for table in tables), default=0.0) or 1.0
    return [
        sum(
            variance(table, [axis.weights for axis in model.axes(s)], unit)
            for s, table in tables_by_component(model).items()
        )
        for model in models
    ]


def baseline_of(model: AnovaModel) -> Baseline:
    """Baseline hazard of a survival model."""
    if model.evidence.baseline is None:
        raise ValueError(
            "baseline: this model has no baseline hazard. It is one of another task or of a "
            "path, or it was changed after its fit. Use the model_ of a fitted TPNNSurvival."
        )
    return model.evidence.baseline


def offset_of(model: AnovaModel, table: Table, offset: Any = None) -> FloatArray | None:
    """Offset of every row: the column of the table that holds it, or what is passed, or None.

    ``table`` is one that ``encoder.read`` has read.
    """
    column = model.encoder.offset_column
    if column is not None:
        if offset is not None:
            raise ValueError(
                f"offset: {column.words} of X is the offset of this model, so no other one can be "
                "passed. Leave the argument out."
            )
        return column_offset(table, column)
    if model.has_offset and offset is None:
        warn(
            "offset: this model was fitted with an offset and predicts without one, so 0 is used. "
            "Pass the offset of each row, or zeros."
        )
    return None if offset is None else checked_offset(offset, table.n_rows)


def column_scores(model: AnovaModel, columns: Sequence[FloatArray]) -> FloatArray:
    """Component scores of rows that are numbers already, one column for each feature."""
    shape = len(model.components), len(model.intercepts), len(columns[0])
    scores = np.zeros((shape[0] * shape[1], shape[2]))
    model._predictor.add(columns, scores)
    return squeezed(scores.reshape(shape).transpose(2, 0, 1))


def part_scores(model: AnovaModel, columns: Sequence[FloatArray]) -> FloatArray:
    """Component scores of rows that are numbers already and, if there is one, the remainder last.

    The answer is (n_rows, n_components[ + 1][, n_outputs]).
    """
    scores = column_scores(model, columns)
    if model.remainder is None:
        return scores
    rest = squeezed(model.remainder.scores(model.encoder.axes, columns))
    return np.concatenate([scores, rest[:, None]], axis=1)


def row_scores(model: AnovaModel, X: Any) -> FloatArray:
    """``part_scores`` of a table, with the outputs last also where there is one output."""
    scores = part_scores(model, model.encoder.columns(model.encoder.read(X)))
    return scores.reshape(*scores.shape[:2], len(model.intercepts))


def part_names(model: AnovaModel) -> list[str]:
    """Names of what ``part_scores`` has a column for: features joined by " x ", the remainder."""
    names = [" x ".join(names) for names in model.component_names]
    return names if model.remainder is None else [*names, *remainder_name(model.feature_names)]


def tables_by_component(model: AnovaModel) -> dict[Component, FloatArray]:
    """Tables of shape (M_1, ..., M_d, n_outputs), by component."""
    return dict(zip(model.components, model.tables, strict=True))


def beside_trees(model: AnovaModel) -> tuple[FloatArray, dict[Component, FloatArray]]:
    """Return intercepts (K,) and tables that add up to the raw score with the trees.

    The tables are not pure. Without a remainder they are the components.
    """
    tables, rest = tables_by_component(model), model.remainder
    return (model.intercepts, tables) if rest is None else rest.taken_from(model.intercepts, tables)


def without_trees(model: AnovaModel) -> AnovaModel:
    """Model of intercepts and tables that add up to the raw score with the trees; not pure."""
    intercepts, tables = beside_trees(model)
    return changed(model, **in_order(tables), intercepts=intercepts, remainder=None)


def tables_by_output(model: AnovaModel) -> list[dict[Component, FloatArray]]:
    """Tables of shape (M_1, ..., M_d) of each output, by component."""
    tables = tables_by_component(model)
    return [{s: table[..., k] for s, table in tables.items()} for k in range(len(model.intercepts))]


def pruned(model: AnovaModel) -> AnovaModel:
    """Leave out the features that no component has, so that tables need no such columns.

    Features that have a shape stay. Arrays need all columns of the fit: without names, columns
    are found by their positions.
    """
    wanted = {*model.required_features, *model.shapes}
    kept = [j for j, name in enumerate(model.feature_names) if name in wanted]
    if len(kept) in (0, model.encoder.n_features):
        return model
    number = {feature: position for position, feature in enumerate(kept)}
    terms, evidence = model.basis.terms, model.evidence
    calibration = evidence.calibration and evidence.calibration.renumbered(number)
    return replace(
        model,
        encoder=model.encoder.pick(kept),
        components=model.components.renumbered(number),
        basis=model.basis._replace(
            terms=terms
            and tuple(t._replace(features=tuple(number[j] for j in t.features)) for t in terms)
        ),
        evidence=replace(evidence, calibration=calibration),
        remainder=model.remainder and model.remainder.pick(kept),
    )
