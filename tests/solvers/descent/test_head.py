"""TPNNHead: unique components under its measure, monotone sums, gradients through the inputs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="TPNNHead needs torch")

from tpnn import TPNNHead  # noqa: E402


def make_head(seed: int = 0, **settings: Any) -> TPNNHead:
    """Head in double precision whose parameters are far from their start."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = TPNNHead(4, n_bases=5, **settings).double()
        for parameter in head.parameters():
            parameter.data += 0.5 * torch.randn_like(parameter)
    return head


def inputs(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 4, generator=torch.Generator().manual_seed(seed)).double() ** 2


VARIANTS: list[dict[str, Any]] = [
    {},
    {"scale": "paper"},
    {"activation": "relu"},
    {"shared_bases": True},
    {"n_outputs": 3, "shapes": {0: "increasing", 2: "decreasing"}},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_components_average_to_zero_along_each_input(settings: dict[str, Any]) -> None:
    head = make_head(order=2, **settings)
    head.observe(inputs(300))
    nodes = head.nodes
    for index, component in enumerate(head.components):
        for feature in component:
            rows = inputs(1, seed=index).repeat(len(nodes), 1)
            rows[:, feature] = nodes
            values = head.component_scores(rows)[:, index]  # along one input, the others fixed
            mean = head.masses[feature] @ values
            assert mean.abs().max() < 1e-9 * (1 + values.abs().max())


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_components_and_intercept_sum_to_the_output(settings: dict[str, Any]) -> None:
    head, x = make_head(order=2, **settings), inputs(50)
    total = head.intercept + head.component_scores(x).sum(1)
    torch.testing.assert_close(head(x), total)


@pytest.mark.parametrize("scale", ["centred", "paper"])
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
@pytest.mark.parametrize("seed", range(5))
def test_monotone_on_every_pair_of_rows(seed: int, activation: Any, scale: Any) -> None:
    """Whatever the parameters, also where pairs share the monotone inputs."""
    directions: Any = {0: "increasing", 1: "increasing", 3: "decreasing"}
    head = make_head(seed, order=2, shapes=directions, activation=activation, scale=scale)
    head.observe(inputs(100, seed))
    for feature, direction in directions.items():
        rows = inputs(200, seed)
        higher = rows.clone()
        higher[:, feature] += (1 - higher[:, feature]) * inputs(200, seed + 1)[:, 0]
        change = (head(higher) - head(rows)).squeeze()
        worst = change.min() if direction == "increasing" else -change.max()
        assert worst >= -1e-12


def test_free_head_is_not_monotone() -> None:
    """The same parameters without the constraint: the test above could fail."""
    head = make_head(order=2)
    rows = inputs(200)
    higher = rows.clone()
    higher[:, 0] = 1.0
    change = head(higher) - head(rows)
    assert change.min() < 0 < change.max()


def test_observe_takes_the_mean_of_each_input() -> None:
    head = make_head()
    x = inputs(500)
    head.observe(x)
    torch.testing.assert_close(head.masses.sum(1), torch.ones(4).double())
    torch.testing.assert_close(head.masses @ head.nodes, x.mean(0))


def test_running_measure_moves_in_training_only() -> None:
    head = make_head(marginal="running", momentum=0.5)
    start = head.masses.clone()
    head.eval()(inputs(100))
    torch.testing.assert_close(head.masses, start)
    for _ in range(40):
        head.train()(inputs(100))
    torch.testing.assert_close(head.masses @ head.nodes, inputs(100).mean(0))


def test_gradient_flows_to_the_inputs() -> None:
    head = make_head(order=2, shapes={1: "increasing"})
    x = inputs(6).clamp(0.05, 0.95).requires_grad_()
    assert torch.autograd.gradcheck(head, (x,))


def test_learns_an_interaction() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = TPNNHead(2, order=2, n_bases=10)
    x = torch.rand(500, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, :1] - 0.5) * (x[:, 1:] - 0.5)
    optimiser = torch.optim.Adam(head.parameters(), 0.02)
    for _ in range(300):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(head(x), y).backward()
        optimiser.step()
    importance = head.component_scores(x).abs().mean(0).squeeze()
    assert torch.nn.functional.mse_loss(head(x), y) < 0.02 * y.var()
    assert importance[2] > 5 * importance[:2].max()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 3}, "order: must be 1 or 2, found 3"),
        ({"order": 2, "pairs": [(1, 1)]}, "pairs: must be two different inputs"),
        ({"order": 2, "pairs": [(0, 9)]}, "pairs: must be two different inputs"),
        ({"order": 2, "pairs": [(0, 1, 2)]}, "pairs: must be two different inputs"),
        ({"shapes": {9: "increasing"}}, "shapes: must map inputs 0 to 3"),
        ({"shapes": {1: "up"}}, "shapes: must map inputs 0 to 3"),
        ({"marginal": "normal"}, "marginal: must be one of"),
        ({"activation": "tanh"}, "activation: must be one of"),
        ({"scale": "none"}, "scale: must be one of"),
    ],
)
def test_bad_arguments_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TPNNHead(4, **settings)


def test_chosen_pairs() -> None:
    head = TPNNHead(4, order=2, pairs=[(3, 1)])
    assert head.components == ((0,), (1,), (2,), (3,), (1, 3))
