"""AnovaModel: what it computes is the sum of its tables, and nobody can change it."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tests.models import interpolate_slowly, random_model, small_model, with_bands, with_evidence
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, load
from tpnn.loss.links import LINKS
from tpnn.model.constrain import constrain
from tpnn.model.evidence import Baseline
from tpnn.model.model import tables_by_component
from tpnn.table.encoder import Feature

ROWS = np.random.default_rng(9).normal(size=(50, 3)) * 2


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_scores_interpolate_linearly_between_nodes(order: int, n_outputs: int) -> None:
    model = small_model(order, n_outputs)
    expected = np.array([interpolate_slowly(model, row) for row in ROWS])
    assert np.allclose(model.raw_scores(ROWS).reshape(50, n_outputs), expected)


@pytest.mark.parametrize(("n_outputs", "last"), [(1, ()), (3, (3,))])
def test_only_what_methods_return_drops_the_axis_of_one_output(
    n_outputs: int, last: tuple[int, ...]
) -> None:
    model = small_model(2, n_outputs)
    assert len(model.intercepts) == n_outputs
    assert model.intercepts.shape == (n_outputs,)
    assert all(table.shape[-1] == n_outputs for table in (*model.tables, *model.evidence.spreads))
    assert model.raw_scores(ROWS).shape == model.predict(ROWS).shape == (50, *last)
    assert model.component_scores(ROWS).shape == (50, 6, *last)
    assert np.shape(model.intercept) == last
    assert isinstance(model.intercept, float) == (n_outputs == 1)
    total = model.intercept + model.component_scores(ROWS).sum(1)
    assert np.allclose(total, model.raw_scores(ROWS))


def test_each_output_is_a_model_of_its_own() -> None:
    model = small_model(3, 3)
    for k in range(3):
        one = replace(
            model,
            tables=tuple(table[..., [k]] for table in model.tables),
            intercepts=model.intercepts[[k]],
            output_names=(),
        )
        assert np.array_equal(one.raw_scores(ROWS), model.raw_scores(ROWS)[:, k])
        assert np.array_equal(one.component_scores(ROWS), model.component_scores(ROWS)[..., k])
        for alone, among in zip(one.terms(), model.terms(), strict=True):
            assert np.array_equal(alone.beta, among.beta[:, k])


def test_no_rows_give_no_scores() -> None:
    model = small_model(2)
    assert model.raw_scores(np.empty((0, 3))).shape == (0,)
    assert model.component_scores(np.empty((0, 3))).shape == (0, 6)


@pytest.mark.parametrize("link", ["identity", "logit", "log"])
def test_predict_is_the_inverse_link_of_the_raw_score_and_its_offset(link: str) -> None:
    model = replace(small_model(2), link=LINKS[link])
    offset = np.linspace(-1, 1, len(ROWS))
    expected = {
        "identity": lambda raw: raw, "logit": lambda raw: 1 / (1 + np.exp(-raw)), "log": np.exp,
    }[link](model.raw_scores(ROWS) + offset)  # fmt: skip
    assert np.allclose(model.predict(ROWS, offset), expected)


def test_predict_proba_of_classifiers_alone() -> None:
    two = replace(small_model(2), link=LINKS["logit"])
    assert np.array_equal(two.predict_proba(ROWS)[:, 1], two.predict(ROWS))
    assert two.predict_proba(ROWS).sum(1) == pytest.approx(1.0)
    three = replace(small_model(2, 3), link=LINKS["softmax"])
    assert np.array_equal(three.predict_proba(ROWS), three.predict(ROWS))
    assert not hasattr(small_model(2), "predict_proba")
    with pytest.raises(AttributeError, match=r"^predict_proba: is for classifiers, and "):
        _ = small_model(2).predict_proba


def test_survival_from_a_baseline_by_hand() -> None:
    """S(t) = exp(-H_0(t) exp(f)), where H_0 is 0, then 0.5 from t=1 on and 2 from t=3 on."""
    baseline = Baseline(np.array([1.0, 3.0]), np.log([0.5, 2.0]))
    model = with_evidence(replace(small_model(2), link=LINKS["log"]), baseline=baseline)
    risk, offset = model.predict(ROWS), np.linspace(-1, 1, len(ROWS))
    expected = np.exp(-risk[:, None] * [0.0, 0.5, 0.5, 2.0, 2.0])
    assert model.predict_survival(ROWS, [0.9, 1.0, 2.9, 3.0, 99.0]) == pytest.approx(expected)
    shifted = model.predict_survival(ROWS, [1.0], offset)[:, 0]
    assert shifted == pytest.approx(np.exp(-0.5 * risk * np.exp(offset)))


def test_a_baseline_does_not_outlive_its_components() -> None:
    baseline = Baseline(np.array([1.0]), np.array([0.0]))
    model = with_evidence(replace(small_model(2), link=LINKS["log"]), baseline=baseline)
    for other in (model.restrict([(0,)]), constrain(model, {"x0": "increasing"})):
        with pytest.raises(ValueError, match=r"^baseline: this model has no baseline"):
            other.predict_survival(ROWS, [1.0])


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_offset_is_added_to_every_output(n_outputs: int) -> None:
    model, offset = small_model(2, n_outputs), np.linspace(-1, 1, len(ROWS))
    known = offset if n_outputs == 1 else offset[:, None]
    assert model.raw_scores(ROWS, offset) == pytest.approx(model.raw_scores(ROWS) + known)
    with pytest.raises(ValueError, match=r"^offset: one finite number per row is needed"):
        model.predict(ROWS, offset[:3])


def arrays_of(model: AnovaModel) -> list[np.ndarray]:
    terms = [array for terms in model.basis.terms or () for array in terms[1:]]
    known = [array for posterior in model.evidence.posteriors or () for array in posterior.arrays]
    frozen = [*model.tables, *model.evidence.spreads, model.intercepts, *terms, *known]
    return [*frozen, *(x for x in model.evidence.baseline or () if isinstance(x, np.ndarray))]


def saved_and_loaded(model: AnovaModel, path: Any) -> AnovaModel:
    model.save(path)
    return load(path).model_


@pytest.mark.parametrize(
    "again",
    [
        lambda model, _: model,
        saved_and_loaded,
        lambda model, _: copy.copy(model),
        lambda model, _: copy.deepcopy(model),
        lambda model, _: pickle.loads(pickle.dumps(model)),
        lambda model, _: replace(model, classes=("no", "yes")),
    ],
    ids=["made", "loaded", "copied", "copied deeply", "unpickled", "replaced"],
)
def test_arrays_are_read_only(again: Any, tmp_path: Any) -> None:
    starts = np.array([0, 2], np.int32)
    baseline = Baseline(np.arange(3.0), np.arange(3.0), np.ones(3), ("a", "b"), starts)
    original = with_evidence(
        replace(with_bands(small_model(2)), link=LINKS["log"]), baseline=baseline
    )
    expected = original.raw_scores(ROWS)  # so that it holds predictors, which are not copied
    model = again(original, tmp_path / "model.tpnn")
    assert len(arrays_of(model)) == len(arrays_of(original))
    for array in arrays_of(model):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    assert np.array_equal(model.raw_scores(ROWS), expected)


@pytest.mark.parametrize(
    "again", [lambda m: m, copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_dicts_are_read_only(again: Any, tmp_path: Any) -> None:
    X = ROWS[:40]
    model = TPNNRegressor(shapes={0: "increasing"}, **QUICK).fit(X, X[:, 0]).model_
    edited = model.edit("x0", add=0.1, why="a test", by="me")
    for known in map(again, (model, edited, edited.undo())):
        provenance = known.provenance
        for frozen in (known.shapes, known.encoder.axes, provenance.settings, provenance.scores):
            with pytest.raises(TypeError, match="does not support item assignment"):
                frozen["x0"] = "decreasing"
            assert not hasattr(frozen, "clear")
        known.save(tmp_path / "saved")
        known.to_json(tmp_path / "saved.json")
        for name in ("saved", "saved.json"):
            loaded = load(tmp_path / name).model_
            assert loaded.shapes == known.shapes == {"x0": "increasing"}
            assert loaded.provenance.as_dict() == provenance.as_dict()


def test_fields_cannot_be_replaced_in_place() -> None:
    model = small_model(1)
    with pytest.raises(FrozenInstanceError):
        model.link = LINKS["log"]  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        AnovaModel(model.encoder, model.components)  # type: ignore[misc]


def test_the_arrays_of_the_caller_stay_writable() -> None:
    model = small_model(1)
    mine = [table.copy() for table in model.tables]
    replace(model, tables=tuple(mine))
    assert all(table.flags.writeable for table in mine)


def test_a_pickle_holds_no_predictor() -> None:
    model = small_model(2)
    before = len(pickle.dumps(model))
    model.raw_scores(ROWS)
    assert len(pickle.dumps(model)) == before


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_restrict_keeps_the_intercept_and_some_components(n_outputs: int) -> None:
    model = small_model(2, n_outputs)
    kept = [(1, 2), (0,)]
    few = model.restrict(kept)
    places = [model.components.components.index(s) for s in ((0,), (1, 2))]
    assert few.components == ComponentSet(((0,), (1, 2)))
    expected = model.component_scores(ROWS)[:, places]
    assert np.array_equal(few.component_scores(ROWS), expected)
    assert np.allclose(few.raw_scores(ROWS), model.intercept + expected.sum(1))
    assert few.evidence.spreads is not None
    assert model.evidence.spreads is not None
    for new, place in zip(few.evidence.spreads, places, strict=True):
        assert np.array_equal(new, model.evidence.spreads[place])
    if n_outputs == 1:
        assert model.basis.terms is not None
        assert few.basis.terms is not None
        for new_terms, place in zip(few.basis.terms, places, strict=True):
            assert np.array_equal(new_terms.beta, model.basis.terms[place].beta)


def test_restricting_to_all_components_changes_nothing() -> None:
    model = random_model(3, 2)
    again = model.restrict(model.components)
    assert np.array_equal(again.raw_scores(ROWS), model.raw_scores(ROWS))
    assert again.restrict([(0,)]).component_names == [("x0",)]


def test_identifiability_error_sees_a_violation() -> None:
    model = random_model(3, 2)
    assert model.identifiability_error() < 1e-12
    shifted = tuple(table + 0.01 for table in model.tables)
    assert replace(model, tables=shifted).identifiability_error() > 1e-3


def test_identifiability_error_is_that_of_the_worst_output() -> None:
    model = random_model(3, 2, n_outputs=2)
    assert model.identifiability_error() < 1e-12
    only_second = tuple(table + np.array([0.0, 0.01]) for table in model.tables)
    assert replace(model, tables=only_second).identifiability_error() > 1e-3


def test_certificate_is_the_smallest_step_over_all_outputs_and_inputs() -> None:
    """By brute force over the nodes of all features."""
    model = random_model(3, 2, n_outputs=2)
    axes = model.encoder.axes[1]
    grid = np.stack([g.ravel() for g in np.meshgrid(*(a.values for a in axes), indexing="ij")], 1)
    values = model.raw_scores(grid).reshape(*(axis.n_nodes for axis in axes), 2)
    for feature, name in enumerate(model.feature_names):
        steps = np.diff(values, axis=feature)
        assert model.certificate(name).minimum == pytest.approx(steps.min())
        assert model.certificate(name, "decreasing").minimum == pytest.approx(-steps.max())
        assert model.certificate(name).holds == bool(steps.min() >= 0)


@pytest.mark.parametrize(
    ("feature", "shape", "words"),
    [
        ("x0", "up", r"^shape: must be one of increasing, .*, found 'up'\. Pass 'increasing'"),
        ("age", None, r"^feature: features must be names or indices of columns, found 'age'"),
    ],
)
def test_certificates_that_cannot_be_given(feature: str, shape: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_model(1).certificate(feature, shape)


def test_a_shape_needs_an_order() -> None:
    model = small_model(1)
    features = (Feature("nominal", ("a", "b")), *model.encoder.features[1:])
    nominal = replace(model, encoder=replace(model.encoder, features=features))
    with pytest.raises(ValueError, match=r"^shape: a shape needs an order, found the nominal .*x0"):
        nominal.certificate("x0")


def test_the_certificate_asks_for_the_shape_that_the_model_has() -> None:
    model = replace(random_model(2, 1), shapes={"x1": "decreasing"})
    assert model.certificate("x1").shape == "decreasing"
    assert model.certificate("x0").shape == "increasing"


def test_terms_are_stored_or_the_steps_of_the_tables() -> None:
    model = small_model(2)
    assert model.basis.terms is not None
    for named, stored in zip(model.terms(), model.basis.terms, strict=True):
        assert named.beta is stored.beta
        assert named.features == tuple(model.feature_names[j] for j in stored.features)
    pure = random_model(2, 2)
    for terms, (component, table) in zip(
        pure.terms(), tables_by_component(pure).items(), strict=True
    ):
        product = np.ones(len(terms.beta))
        for axis, b, gamma in zip(pure.axes(component), terms.b, terms.gamma, strict=True):
            with np.errstate(over="ignore"):
                steps = 1 / (1 + np.exp(-(axis.positions[:, None] - b) / gamma))
            product = product[..., None, :] * (axis.weights @ steps - steps)
        assert np.allclose(product @ terms.beta, table[..., 0], atol=1e-12)


def test_representation_is_short() -> None:
    assert repr(small_model(2)) == "AnovaModel(6 components of 3 features, order 2, identity link)"
    several = repr(small_model(1, 3))
    assert several == "AnovaModel(3 components of 3 features, order 1, identity link, 3 outputs)"


def test_estimators_freeze_models_with_the_outputs_inside(table: Any, quick: Any) -> None:
    X, y = table
    few = {**quick, "order": 1}
    several = TPNNRegressor(**few).fit(X, np.column_stack([y, -y])).model_
    assert len(several.intercepts) == len(several.output_names) == 2
    three = TPNNClassifier(**few).fit(X, np.digitize(y, np.quantile(y, [0.3, 0.6]))).model_
    assert three.tables[0].shape[-1] == len(three.intercepts) == 3
    one = TPNNRegressor(**few).fit(X, y)
    assert one.model_.tables[0].shape[-1] == len(one.model_.intercepts) == 1
    assert one.intercept_ == one.model_.intercept
    with pytest.raises(ValueError, match="read-only"):
        one.model_.tables[0][:] = 0


def test_whatever_is_in_a_model_is_shown_in_a_line() -> None:
    X = ROWS[:40]
    fitted = TPNNRegressor(**QUICK).fit(X, X[:, 0])
    model = fitted.model_
    assert repr(model.encoder) == "TableEncoder(3 features, orders [1, 2])"
    assert repr(model.encoder.axes[1][0]) == "Axis(number, 32 nodes)"
    shown = [
        model.evidence.calibration,
        model.evidence.posteriors[0],
        *fitted.explain(X).reasons()[0],
    ]
    assert all(len(repr(part)) < 100 for part in shown)
    assert not any(re.search(r"\d{7}", repr(part)) for part in shown)
