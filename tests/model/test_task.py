"""Task: read off a model, it knows the loss, the classes and what valid targets are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.models import random_model
from tpnn import AnovaModel
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import LOG_LOSS, SQUARED_ERROR, quantiles, several_classes
from tpnn.model.evidence import Baseline, Evidence, Provenance
from tpnn.model.task import Task


def with_objective(link: str, objective: object) -> AnovaModel:
    """A model whose provenance says how it was fitted."""
    known = Provenance(
        task="regressor", version="1", date="2026-01-31T12:00:00Z", fingerprint="0" * 64,
        n_rows=1, n_columns=1, settings={"objective": objective},
    )  # fmt: skip
    return replace(random_model(1, 1), link=LINKS[link], provenance=known)


@pytest.mark.parametrize(
    ("link", "objective", "name"),
    [
        ("identity", "huber", "huber"),
        ("identity", {"name": "quantile", "levels": 0.3}, "quantile"),
        ("log", {"name": "tweedie", "power": 1.2}, "tweedie"),
        ("log", "huber", "poisson"),  # of another link: not what the model was fitted by
        ("identity", "my_function", "squared_error"),
        ("identity", {"name": []}, "squared_error"),
        ("identity", {"name": "huber", "threshold": "much"}, "squared_error"),
        ("identity", None, "squared_error"),
    ],
)
def test_the_loss_is_that_of_the_fit_or_the_usual_one_of_the_link(
    link: str, objective: object, name: str
) -> None:
    assert with_objective(link, objective).task.objective.name == name


def test_a_model_without_provenance_has_the_loss_of_its_link() -> None:
    model, several = random_model(1, 1), random_model(1, 1, n_outputs=3)
    found = {
        name: (replace(model, link=LINKS[name]).task.kind) for name in ("identity", "log", "logit")
    }
    assert found == {"identity": "numbers", "log": "rates", "logit": "classes"}
    assert replace(several, link=LINKS["softmax"]).task.n_classes == 3
    hazard = Baseline(np.array([1.0]), np.array([0.0]))
    assert (
        replace(model, link=LINKS["log"], evidence=Evidence(baseline=hazard)).task.kind
        == "survival"
    )


def test_times_and_events_say_that_rates_are_risks() -> None:
    task = replace(random_model(1, 1), link=LINKS["log"]).task
    assert task.told(np.ones(3)).kind == "rates"
    assert task.told(np.ones((3, 2))).kind == "survival"


def test_shares_of_two_classes_are_both_of_them() -> None:
    raw = np.array([-1.0, 0.0, 3.0])
    shares = Task(LOG_LOSS).shares(raw)
    assert shares[:, 1] == pytest.approx(1 / (1 + np.exp(-raw)))
    assert shares.sum(1) == pytest.approx(np.ones(3))
    assert Task(several_classes(3)).shares(np.zeros((1, 3))) == pytest.approx(1 / 3)


def test_codes_are_places_among_the_classes() -> None:
    task = Task(LOG_LOSS, classes=("no", "yes"))
    assert task.codes(np.array(["yes", "no"])).tolist() == [1, 0]
    assert Task(LOG_LOSS, classes=(False, True)).codes([1.0, 0.0]).tolist() == [1, 0]
    with pytest.raises(
        ValueError, match=r"^y: labels must be those of fit, \['no', 'yes'\], found"
    ):
        task.codes([1, 0])


def test_labels_that_a_file_does_not_have_are_read_off_the_targets() -> None:
    assert Task(LOG_LOSS).told(["b", "a", "b"]).classes == ("a", "b")
    several = Task(several_classes(3), outputs=("0", "1", "2"))
    assert several.told([2, 0]).classes == (0, "1", 2)


def test_quantiles_that_cross_are_judged_sorted() -> None:
    """As they are predicted."""
    task, y = Task(quantiles([0.1, 0.9])), np.array([0.0, 1.0])
    raw = np.array([[2.0, -1.0], [0.5, 1.5]])
    assert task.loss(y, raw) == pytest.approx(task.loss(y, np.sort(raw, 1)))


def test_a_loss_that_is_not_finite_is_refused() -> None:
    task = with_objective("log", "gamma").task
    with pytest.raises(ValueError, match=r"^y: the loss gamma of every row must be finite, found"):
        task.loss(np.array([0.0, 1.0]), np.zeros(2))
    with pytest.raises(ValueError, match=r"found NaN or inf in 1 of 2 rows. Pass finite numbers"):
        Task(SQUARED_ERROR).loss(np.array([np.nan, 1.0]), np.zeros(2))
