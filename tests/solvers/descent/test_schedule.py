"""Schedule: learning rates, Adam with a ridge on beta alone, and the log of a run."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradient descent needs torch")

from tpnn.anova.measure import Marginal  # noqa: E402
from tpnn.solvers.descent.networks import ComponentNetwork, start_centres  # noqa: E402
from tpnn.solvers.descent.schedule import HALVING_STEP, Schedule, TrainingLog, make_adam  # noqa: E402
from tpnn.solvers.solution import Limits, NoProgress  # noqa: E402


def network() -> ComponentNetwork:
    marginal = Marginal.stack([np.linspace(0, 1, 5)] * 2, [np.full(5, 0.2)] * 2)
    centres = start_centres(2, 1, 3, 1, False, 0)
    made = ComponentNetwork(
        marginal, torch.arange(2)[:, None], centres, False, "sigmoid", "centred"
    )
    with torch.no_grad():
        made.coefficients.normal_(generator=torch.Generator().manual_seed(0))
    return made


def test_adam_is_that_of_the_formula() -> None:
    """Kingma and Ba (2015), written out, with l2 * beta added to the gradient of beta alone."""
    trained, l2, rate = network(), 0.1, 0.05
    optimiser = make_adam([trained], l2)
    for group in optimiser.param_groups:
        group["lr"] = rate
    expected = {name: p.detach().clone().double() for name, p in trained.named_parameters()}
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in expected.items()}
    for step in range(1, 8):
        optimiser.zero_grad()
        trained().square().sum().backward()
        for name, parameter in trained.named_parameters():
            gradient = parameter.grad.double()
            if name == "coefficients":
                gradient = gradient + l2 * expected[name]
            first, second = moments[name]
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            moments[name] = first, second
            size = (second / (1 - 0.999**step)).sqrt() + 1e-8
            expected[name] = expected[name] - rate * first / (1 - 0.9**step) / size
        optimiser.step()
    for name, parameter in trained.named_parameters():
        assert torch.allclose(parameter.double(), expected[name], atol=1e-4)


def test_the_learning_rate_halves_at_its_step() -> None:
    schedule = Schedule(0.02, 0.0, 10, 5)
    assert schedule.rate(0) == 0.02
    assert schedule.rate(HALVING_STEP) == 0.01


def stopped_at(limits: Limits, max_steps: int, patience: int, losses: list[float]) -> int:
    """Step at which the log of a run with such held-out losses ends it."""
    log = TrainingLog(Schedule(0.02, 0.0, max_steps, patience), limits, NoProgress(), 2)
    for step, loss in enumerate(losses):
        log.record(np.ones(2, np.float32), np.full(2, loss, np.float32))
        if log.must_stop():
            return step
    raise AssertionError("the run goes on")


def test_steps_patience_and_time_end_a_run() -> None:
    falling = [1.0 / (1 + step) for step in range(50)]
    cancelled = Limits()
    cancelled.cancelled.set()
    assert stopped_at(Limits(), 3, 9, falling) == 3
    assert stopped_at(Limits(), 99, 2, [1.0, 0.5, 0.5, 0.5, 0.1]) == 3
    assert stopped_at(Limits(deadline=0.0), 3, 9, falling) == 0
    assert stopped_at(cancelled, 3, 9, falling) == 0


def test_the_log_keeps_every_step() -> None:
    run = TrainingLog(Schedule(0.02, 0.0, 9, 9), Limits(), NoProgress(), 2)
    for loss in (1.0, 0.5, 0.7):
        best = run.record(np.full(2, 2 * loss, np.float32), np.array([loss, 1.0], np.float32))
    assert best.tolist() == [False, False]
    assert [event.step for event in run.events] == [0, 1, 2]
    assert run.events[1].training_loss == 1.0
    assert run.events[1].validation_loss == 0.75
