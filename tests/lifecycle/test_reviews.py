"""Reviews: what people expected of components is compared, kept, chained and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.models import random_model
from tpnn import TPNNRegressor
from tpnn.lifecycle.edit import digest, review
from tpnn.model.model import AnovaModel


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


def test_bad_reviews_are_refused(fitted: AnovaModel) -> None:
    with pytest.raises(ValueError, match=r"^component: must be one of the model, found"):
        review(fitted, ("up", "town"))
    with pytest.raises(ValueError, match=r"^component: features must be names or indices"):
        review(fitted, "down")
    with pytest.raises(ValueError, match=r"^by: must be text of at most"):
        review(fitted, "up", by=3)  # type: ignore[arg-type]
