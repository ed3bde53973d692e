"""Reviews: what people expected of components is compared, kept, chained and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import tpnn
from tests.models import random_model
from tpnn import TPNNRegressor
from tpnn.lifecycle.edit import digest, review
from tpnn.model.model import AnovaModel, restricted
from tpnn.model.summary import write_card


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"up": rng.normal(size=300), "town": rng.choice(["A", "B"], 300)})


@pytest.fixture(scope="module")
def fitted(rows: pd.DataFrame) -> AnovaModel:
    shapes = {"up": "increasing"}
    settings: Any = {"n_bags": 2, "order": 1, "random_state": 0, "bands": False}
    return TPNNRegressor(shapes=shapes, **settings).fit(rows, rows["up"]).model_


def test_expected_shapes_are_compared_with_the_whole_model(fitted: AnovaModel) -> None:
    one = review(fitted, "up", expected="increasing", why="as in 2019", by="Ada Bo")
    two = review(review(one, "up", expected="decreasing"), "town", expected="A above B")
    found = [record["found"] for record in two.reviews or ()]
    assert found == ["it holds for all inputs", "it does not hold", "not tested"]
    assert fitted.reviews is None
    assert len(one.reviews or ()) == 1
    assert digest(two) == digest(fitted)
    larger = random_model(3, 2)
    pair = next(names for names in larger.component_names if len(names) == 2)
    (record,) = review(larger, pair, expected="increasing").reviews or ()
    assert (record["component"], record["found"]) == (list(pair), "not tested")


def test_reviews_are_saved_and_shown(
    fitted: AnovaModel, rows: pd.DataFrame, tmp_path: Path
) -> None:
    model = review(fitted, "up", expected="increasing", why="as in 2019", by="Ada Bo")
    model.save(tmp_path / "model.tpnn")
    model.to_json(tmp_path / "model.json")
    for name in ("model.tpnn", "model.json"):
        assert tpnn.load(tmp_path / name).model_.reviews == model.reviews
    words = "as in 2019; increasing expected: it holds for all inputs; Ada Bo"
    assert f"review of up: {words}" in str(model.summary())
    assert words in tpnn.load(tmp_path / "model.tpnn").to_card()
    pack = tpnn.validate(model, rows, rows["up"])
    pack.to_html(tmp_path / "pack.html")
    assert words in (tmp_path / "pack.html").read_text("utf-8")
    assert words in model.report().page
    edited = model.edit("up", scale=0.5)
    assert edited.reviews == model.reviews
    assert "of an earlier version of the model" in str(edited.summary())
    assert "of an earlier version" not in str(model.summary())


@pytest.mark.parametrize("change", [{"why": "forged"}, {"number": 2}, {"previous": "1" * 64}])
def test_a_file_whose_reviews_were_changed_is_refused(
    fitted: AnovaModel, change: Any, tmp_path: Path
) -> None:
    text = review(fitted, "up", why="true", by="Ada Bo").to_json()
    document = json.loads(text or "")
    document["reviews"][0].update(change)
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="review 1 was changed, or one before it is missing"):
        tpnn.load(tmp_path / "model.json")


def test_estimators_and_loaded_models_are_reviewed_as_their_models_are(
    fitted: AnovaModel, rows: pd.DataFrame, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model.tpnn")
    estimator = TPNNRegressor(order=1, n_bags=2, random_state=0, bands=False).fit(rows, rows["up"])
    for given in (tpnn.load(tmp_path / "model.tpnn"), estimator):
        (record,) = review(given, "up", why="as in 2019").reviews or ()
        assert record["model"] == digest(given.model_)


def test_a_card_shows_a_review_on_one_line_without_tags(fitted: AnovaModel) -> None:
    model = review(fitted, "up", why="one\n\n# two | <script>alert(1)</script>")
    card = write_card(model, None, "Model card")
    assert "review of up: one # two \\| \\<script>alert(1)\\</script>" in card


def test_bad_reviews_are_refused(fitted: AnovaModel) -> None:
    with pytest.raises(ValueError, match=r"^component: must have at most 1 features"):
        review(fitted, ("up", "town"))
    with pytest.raises(ValueError, match=r"^component: must be one of the model, found"):
        review(restricted(fitted, [(0,)]), "town")
    for named in (3.5, None, {"a": 1}):
        with pytest.raises(ValueError, match=r"^component: must be a feature or a list"):
            review(fitted, named)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^expected: must be text of at most .* found int"):
        review(fitted, "up", expected=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^model: a fitted EBM, an AnovaModel"):
        review(5, "up")
    with pytest.raises(NotFittedError, match="is not fitted"):
        review(TPNNRegressor(), "up")
    with pytest.raises(ValueError, match=r"^component: features must be names or indices"):
        review(fitted, "down")
    with pytest.raises(ValueError, match=r"^by: must be text of at most"):
        review(fitted, "up", by=3)  # type: ignore[arg-type]
