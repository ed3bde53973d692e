"""Summary: the table of all components agrees with what each of them says by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.models import random_model, with_bands, with_evidence
from tpnn import Explanation, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.model.evidence import ComponentTest, ComponentTests
from tpnn.model.summary import SummaryLine

REFERENCE = Path(__file__).parents[1] / "reference" / "version_1"
FROM_FACTS = ["edf", "p_value", "loss_without", "loss_error", "concurvity"]


@pytest.fixture(scope="module")
def fitted(table: Any, quick: Any) -> TPNNRegressor:
    return TPNNRegressor(**{**quick, "order": 2}).fit(*table)


def test_importance_and_shares_are_those_of_the_explanation(fitted: TPNNRegressor) -> None:
    frame, explanation = fitted.summary().to_frame(), fitted.explain()
    assert list(frame) == list(SummaryLine._fields)
    names = [" x ".join(names) for names in explanation.importance()]
    assert frame["component"].tolist() == names
    assert frame["importance"].tolist() == pytest.approx(list(explanation.importance().values()))
    shares = {" x ".join(names): share for names, share in explanation.sobol().items()}
    assert dict(zip(names, frame["share"], strict=True)) == pytest.approx(shares)
    assert (frame["lower"] <= frame["importance"]).all()
    assert (frame["importance"] <= frame["upper"]).all()


def test_the_features_of_the_truth_stand_out(fitted: TPNNRegressor) -> None:
    """All four features matter, and the pair skewed x level; they raise the loss if left out."""
    frame = fitted.summary().to_frame().set_index("component")
    true = ["smooth", "skewed", "atom", "level", "skewed x level"]
    assert (frame.loc[true, "p_value"] < 1e-6).all()
    assert (frame.loc[true, "loss_without"] > fitted.model_.evidence.tests.loss).all()
    assert (frame["edf"] > 0).all()
    assert frame[FROM_FACTS].notna().all(axis=None)


@pytest.mark.parametrize("suffix", ["tpnn", "json"])
def test_a_loaded_model_has_the_same_summary(
    fitted: TPNNRegressor, suffix: str, tmp_path: Path
) -> None:
    path, save = tmp_path / f"model.{suffix}", fitted.model_.save
    (save if suffix == "tpnn" else fitted.model_.to_json)(path)
    loaded = tpnn.load(path)
    assert str(loaded.summary()) == str(fitted.summary()) == str(fitted.model_.summary())
    pd.testing.assert_frame_equal(loaded.summary().to_frame(), fitted.summary().to_frame())


def test_the_text_has_a_header_a_line_per_component_and_notes(fitted: TPNNRegressor) -> None:
    lines = str(fitted.summary()).splitlines()
    assert lines[0].split() == ["rows", "400"]
    assert "link           identity" in lines
    assert "loss           squared_error" in lines
    assert "components     4 of order 1, 5 of order 2" in lines
    start = next(i for i, line in enumerate(lines) if line.startswith("component "))
    assert [line.split("  ")[0] for line in lines[start + 1 : start + 10]] == (
        fitted.summary().to_frame()["component"].tolist()
    )
    assert repr(fitted.summary()) == str(fitted.summary())
    assert "not known" not in str(fitted.summary())


def test_names_cannot_break_the_html() -> None:
    model = random_model(1, 1)
    encoder = replace(model.encoder, names=("<b>x</b>",))
    page = replace(model, encoder=encoder).summary()._repr_html_()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>" not in page


@pytest.mark.parametrize("name", ["regression", "three_classes", "survival", "triples"])
def test_old_files_say_what_they_lack(name: str) -> None:
    found = tpnn.load(REFERENCE / f"{name}.tpnn").summary()
    frame = found.to_frame()
    assert frame[[*FROM_FACTS, "lower", "upper"]].isna().all(axis=None)
    assert frame["importance"].max() > 0
    assert "are not known" in str(found)
    assert "Fit again." in found._repr_html_()


def test_an_edit_makes_facts_void_until_it_is_undone(fitted: TPNNRegressor) -> None:
    edited = fitted.model_.edit("smooth", between=(-0.5, 0.5), add=0.3, why="a test", by="me")
    frame = edited.summary().to_frame().set_index("component")
    assert frame[FROM_FACTS].isna().all(axis=None)
    assert np.isnan(frame.loc["smooth", "lower"])
    assert frame.loc["skewed", "upper"] > 0
    assert "was edited" in str(edited.summary())
    assert str(edited.undo().summary()) == str(fitted.summary())


def test_parts_and_outputs_of_a_model_have_no_facts_of_the_whole(fitted: TPNNRegressor) -> None:
    part = fitted.model_.restrict([(0,), (1,)]).summary()
    assert part.to_frame()[FROM_FACTS].isna().all(axis=None)
    assert "are not known" in str(part)


@pytest.mark.parametrize("link", ["identity", "log"])
def test_shapes_are_those_that_are_proved(link: str) -> None:
    model = random_model(2, 2)
    rising = [np.sort(table, axis=0) for table in model.tables[:2]]
    flat = replace(model, tables=(*rising, 0 * model.tables[2]), link=tpnn.loss.links.LINKS[link])
    frame = flat.summary().to_frame().set_index("component")
    assert frame["shape"].to_dict() == {"x0": "increasing", "x1": "increasing", "x0 x x1": ""}


def test_a_constrained_model_knows_what_its_fit_knew(table: Any, quick: Any) -> None:
    """Components that only the shape needs are there without facts."""
    X, y = table
    model = TPNNRegressor(
        **{**quick, "components": [("smooth",), ("skewed",), ("skewed", "level"), ("level",)]},
        shapes={"skewed": "increasing"},
    ).fit(X, y)
    frame = model.summary().to_frame().set_index("component")
    assert "increasing" in frame.loc["skewed", "shape"]
    assert frame.loc["skewed x level", FROM_FACTS].notna().all()


def test_components_that_a_shape_adds_have_no_facts() -> None:
    from tpnn.model.constrain import constrain

    model = with_bands(random_model(2, 2)).restrict([(0,), (0, 1)])
    facts = ComponentTests("squared_error", 1.0, (ComponentTest(*[0.5] * 5),) * 2)
    shaped = constrain(with_evidence(model, tests=facts), {"x1": "increasing"})
    frame = shaped.summary().to_frame().set_index("component")
    assert frame.loc["x1", FROM_FACTS].isna().all()
    assert (frame.loc[["x0", "x0 x x1"], FROM_FACTS] == 0.5).all(axis=None)


def test_every_task_has_a_summary(table: Any, labels: Any, quick: Any) -> None:
    X, y = table
    options = {**quick, "order": 1}
    three = pd.qcut(y, 3, labels=list("abc"))
    times = np.column_stack([np.exp(y - y.min()), np.ones(len(y))])
    for model, link in (
        (TPNNClassifier(**options).fit(X, labels), "logit"),
        (TPNNClassifier(**options).fit(X, three), "softmax"),
        (TPNNRegressor(**options, objective="poisson").fit(X, np.exp(y / 3).round()), "log"),
        (TPNNSurvival(**options).fit(X, times), "log"),
    ):
        found = model.summary()
        assert found.header["link"] == link
        frame = found.to_frame().set_index("component")
        assert frame[FROM_FACTS].notna().all(axis=None)
        assert frame["p_value"].min() < 1e-6
        assert frame["p_value"].between(0, 1).all()


def test_an_estimator_must_be_fitted() -> None:
    with pytest.raises(Exception, match="not fitted"):
        TPNNRegressor().summary()


def test_an_explanation_of_one_output_keeps_no_facts(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNClassifier(**{**quick, "order": 1}).fit(X, pd.qcut(y, 3, labels=list("abc")))
    assert model.model_.evidence.tests is not None
    assert isinstance(model.explain().of("a"), Explanation)
    assert model.explain().of("a").model.evidence.tests is None
