"""Cuboid trees: what a visit adds to a triple, against brute force over the cells of its grid."""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest

from tpnn.solvers.grow.cuboids import SideGrowth, TripleGrowth, TripleRows, grow_triples
from tpnn.solvers.grow.rectangles import MISSING, NOMINAL, ORDERED, UNVISITED_GAIN, TreeSettings

TREE = TreeSettings(
    n_leaves=8, rate=0.5, ridge=2.0, min_mass=1.0, share=1.0, fewest=100, random_first=True
)
SCALES = np.full(2, 2.0**40)
ALL_ORDERED = (ORDERED,) * 3
Box = tuple[tuple[int, int], ...]  # first node and end of each axis


class Side(NamedTuple):
    """Rows of one side before a visit: codes, raw scores, residual and hessian."""

    codes: np.ndarray  # (3, n_rows)
    raw: np.ndarray
    residual: np.ndarray
    hessian: np.ndarray

    def sums(self, sizes: tuple[int, ...], values: np.ndarray) -> np.ndarray:
        """Sum over the rows of each cell of the grid."""
        cells = np.zeros(sizes)
        np.add.at(cells, tuple(self.codes.astype(int)), values)
        return cells

    def gather(self, step: np.ndarray) -> np.ndarray:
        """Value of the grid in each row."""
        return step[tuple(self.codes.astype(int))]


class Visited(NamedTuple):
    """A visit: both sides before it, the state after it, and what it added to the grid."""

    training: Side
    held_out: Side
    growth: TripleGrowth
    step: np.ndarray


def random_side(rng: np.random.Generator, sizes: tuple[int, ...], n_rows: int) -> Side:
    codes = np.array([rng.integers(0, size, n_rows) for size in sizes], np.uint8)
    parity = np.where((codes >= np.array(sizes)[:, None] / 2).sum(0) % 2, 1.0, -1.0)
    noise = rng.normal(size=(2, n_rows))
    return Side(codes, noise[0], parity + 0.5 * noise[1], rng.uniform(0.5, 2.0, n_rows))


def growth_of(training: Side, held_out: Side, n_triples: int, most: int, seed: int) -> TripleGrowth:
    return TripleGrowth(
        tables=np.zeros((n_triples, most, most, most), np.float32),
        training=SideGrowth(*(values.copy() for values in training[1:]), SCALES.copy()),
        held_out=SideGrowth(*(values.copy() for values in held_out[1:]), SCALES.copy()),
        gains=np.full(n_triples, UNVISITED_GAIN),
        confirmed=np.zeros(n_triples),
        changed=np.zeros(n_triples, np.bool_),
        state=np.array([seed], np.uint64),
    )


def visited(
    sizes: tuple[int, ...] = (5, 4, 6),
    kinds: tuple[int, ...] = ALL_ORDERED,
    seed: int = 0,
    tree: TreeSettings = TREE,
) -> Visited:
    rng = np.random.default_rng(seed)
    training, held_out = random_side(rng, sizes, 500), random_side(rng, sizes, 90)
    growth = growth_of(training, held_out, 1, max(sizes), seed)
    rows = TripleRows(
        training.codes, held_out.codes, np.array([[0, 1, 2]]), np.array(sizes), np.array(kinds)
    )
    grow_triples(rows, growth, 1, tree)
    inside = tuple(map(slice, sizes))
    outside = growth.tables[0].copy()
    outside[inside] = 0
    assert not outside.any()  # nodes that a feature lacks stay zero
    return Visited(training, held_out, growth, growth.tables[0][inside].astype(float))


def leaves_of(step: np.ndarray) -> list[Box]:
    """Cuboids of equal values; different leaves have different values almost surely."""
    boxes = []
    for value in np.unique(step):
        cells = np.argwhere(step == value)
        box = tuple(zip(cells.min(0).tolist(), (cells.max(0) + 1).tolist(), strict=True))
        assert len(cells) == np.prod([end - start for start, end in box])
        boxes.append(box)
    return boxes


def part(cells: np.ndarray, box: Box) -> float:
    return float(cells[tuple(slice(*ends) for ends in box)].sum())


CASES = [
    pytest.param((5, 4, 6), ALL_ORDERED, id="ordered"),
    pytest.param((5, 4, 6), (ORDERED, MISSING, ORDERED), id="missing"),
    pytest.param((5, 4, 6), (NOMINAL, ORDERED, NOMINAL), id="levels"),
    pytest.param((3, 7, 2), (NOMINAL, NOMINAL, NOMINAL), id="only levels"),
    pytest.param((3, 7, 4), (MISSING, NOMINAL, MISSING), id="levels and missing"),
    pytest.param((1, 4, 6), ALL_ORDERED, id="one node"),
    pytest.param((5, 1, 1), (NOMINAL, ORDERED, ORDERED), id="two of one node"),
    pytest.param((1, 1, 1), ALL_ORDERED, id="one cell"),
    pytest.param((256, 2, 2), ALL_ORDERED, id="all codes of a byte"),
]


@pytest.mark.parametrize(("sizes", "kinds"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_every_leaf_has_its_shrunken_mean(
    sizes: tuple[int, ...], kinds: tuple[int, ...], seed: int
) -> None:
    """The value of a leaf is rate * sum of residuals / (sum of hessians + ridge) of its cells."""
    training, _, _, step = visited(sizes, kinds, seed)
    residual = training.sums(sizes, training.residual)
    hessian = training.sums(sizes, training.hessian)
    values = np.unique(step)
    assert 1 <= len(values) <= TREE.n_leaves
    for value in values:
        inside = step == value
        expected = TREE.rate * residual[inside].sum() / (hessian[inside].sum() + TREE.ridge)
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("sizes", "kinds"), CASES)
@pytest.mark.parametrize("seed", range(2))
def test_both_sides_follow_the_grid(
    sizes: tuple[int, ...], kinds: tuple[int, ...], seed: int
) -> None:
    """Raw scores, residuals and the fall of the held-out loss are those of the step."""
    training, held_out, growth, step = visited(sizes, kinds, seed)
    for before, after in ((training, growth.training), (held_out, growth.held_out)):
        value = before.gather(step)
        np.testing.assert_allclose(after.raw, before.raw + value, atol=1e-12)
        np.testing.assert_allclose(
            after.residual, before.residual - before.hessian * value, atol=1e-12
        )
        np.testing.assert_array_equal(after.hessian, before.hessian)
    value = held_out.gather(step)
    fall = value @ held_out.residual - 0.5 * value**2 @ held_out.hessian
    assert growth.confirmed[0] == pytest.approx(fall, abs=1e-9)
    assert growth.changed[0]


@pytest.mark.parametrize("seed", range(6))
def test_leaves_of_ordered_features_are_cuboids_that_tile_the_grid(seed: int) -> None:
    *_, step = visited(seed=seed)
    boxes = leaves_of(step)  # checks that each is a cuboid
    assert 4 < len(boxes) <= TREE.n_leaves


def all_cuts(box: Box) -> list[tuple[Box, Box]]:
    cuts = []
    for axis, (start, end) in enumerate(box):
        for place in range(start + 1, end):
            low = (*box[:axis], (start, place), *box[axis + 1 :])
            high = (*box[:axis], (place, end), *box[axis + 1 :])
            cuts.append((low, high))
    return cuts


def joined(one: Box, other: Box) -> Box | None:
    """The cuboid that two neighbouring cuboids make, if they make one."""
    apart = [axis for axis in range(3) if one[axis] != other[axis]]
    if len(apart) != 1:
        return None
    (start, end), (again, last) = sorted((one[apart[0]], other[apart[0]]))
    whole = (*one[: apart[0]], (start, last), *one[apart[0] + 1 :])
    return whole if end == again else None


@pytest.mark.parametrize("seed", range(12))
def test_the_cut_after_the_random_ones_is_the_best_of_all(seed: int) -> None:
    """Two features are cut at random, which makes four leaves; the fifth is the best cut of all."""
    training, _, growth, step = visited((4, 3, 5), seed=seed, tree=TREE._replace(n_leaves=5))
    residual = training.sums((4, 3, 5), training.residual)
    hessian = training.sums((4, 3, 5), training.hessian)

    def score(box: Box) -> float:
        return part(residual, box) ** 2 / (part(hessian, box) + TREE.ridge)

    def gain(box: Box, cut: tuple[Box, Box]) -> float:
        is_allowed = min(part(hessian, side) for side in cut) >= TREE.min_mass
        return sum(map(score, cut)) - score(box) if is_allowed else 0.0

    leaves = leaves_of(step)
    assert len(leaves) == 5
    explained = []
    for one, other in combinations(leaves, 2):
        whole = joined(one, other)
        if whole is not None:
            before = [*(leaf for leaf in leaves if leaf not in (one, other)), whole]
            best = max(gain(box, cut) for box in before for cut in all_cuts(box))
            explained.append((gain(whole, (one, other)), best))
    assert any(
        growth.gains[0] == pytest.approx(own, rel=1e-9) and own == pytest.approx(best, rel=1e-9)
        for own, best in explained
    )


def test_a_cut_leaves_enough_mass_on_both_sides() -> None:
    for seed in range(6):
        tree = TREE._replace(min_mass=60.0)
        training, _, _, step = visited(seed=seed, tree=tree)
        *_, finer = visited(seed=seed)
        hessian = training.sums(step.shape, training.hessian)
        assert len(np.unique(step)) <= len(np.unique(finer))
        light = [box for box in leaves_of(step) if part(hessian, box) < 60.0]
        assert len(light) <= 4  # random cuts alone may leave little


def test_levels_are_sorted_by_their_residuals() -> None:
    """Levels that behave alike share a leaf, wherever they stand: two groups of levels suffice."""
    rng = np.random.default_rng(0)
    sizes, sign = (8, 2, 2), np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
    codes = np.array([rng.integers(0, size, 2000) for size in sizes], np.uint8)
    residual = sign[codes[0]] * (2.0 * codes[1] - 1) * (2.0 * codes[2] - 1)
    side = Side(codes, np.zeros(2000), residual, np.ones(2000))
    tree = TREE._replace(rate=0.3)

    def left(kind: int) -> float:
        growth = growth_of(side, side, 1, 8, seed=3)
        kinds = np.array([kind, NOMINAL, NOMINAL])
        rows = TripleRows(codes, codes, np.array([[0, 1, 2]]), np.array(sizes), kinds)
        grow_triples(rows, growth, 25, tree)
        return float((growth.training.residual**2).mean())

    assert left(NOMINAL) < 0.02
    assert left(NOMINAL) < 0.2 * left(ORDERED)


def test_missing_values_can_be_cut_off_from_either_end() -> None:
    """Missing values that behave like the lowest values share leaves with them."""
    seen = set()
    for seed in range(40):
        *_, step = visited((6, 1, 1), (MISSING, ORDERED, ORDERED), seed, TREE._replace(n_leaves=2))
        column = step[:, 0, 0]
        changes = np.flatnonzero(column != np.roll(column, 1))
        assert len(changes) in (0, 2)  # leaves are intervals of the circle that missing closes
        seen.add(bool(column[5] == column[0]))
    assert seen == {True, False}


def test_visits_learn_a_parity_and_keep_account() -> None:
    """After many visits the sides are still those of the sum of all steps, in single precision."""
    rng = np.random.default_rng(1)
    sizes = (4, 4, 4, 4)
    training, held_out = random_side(rng, sizes[:3], 800), random_side(rng, sizes[:3], 300)
    noise = rng.integers(0, 4, (1, 1100)).astype(np.uint8)
    rows = TripleRows(
        np.vstack([training.codes, noise[:, :800]]),
        np.vstack([held_out.codes, noise[:, 800:]]),
        np.array([[0, 1, 2], [0, 1, 3], [1, 2, 3]]),
        np.array(sizes),
        np.zeros(4, np.int64),
    )
    growth = growth_of(training, held_out, 3, 4, seed=5)
    before = (training.residual**2 / training.hessian).mean()
    grow_triples(rows, growth, 80, TREE._replace(rate=0.3, ridge=5.0))
    assert (growth.training.residual**2 / growth.training.hessian).mean() < 0.5 * before
    assert np.argmax(growth.confirmed) == 0
    assert growth.confirmed[0] > 10 * np.abs(growth.confirmed[1:]).max()
    for codes, side, now in (
        (rows.training, training, growth.training),
        (rows.held_out, held_out, growth.held_out),
    ):
        added = np.zeros(side.raw.shape)
        for triple, table in zip(rows.triples, growth.tables, strict=True):
            added += table[tuple(codes[triple].astype(int))]
        np.testing.assert_allclose(now.raw, side.raw + added, atol=1e-5)
        np.testing.assert_allclose(now.residual, side.residual - side.hessian * added, atol=2e-5)
    value = growth.held_out.raw - held_out.raw
    fall = value @ held_out.residual - 0.5 * value**2 @ held_out.hessian
    assert growth.confirmed.sum() == pytest.approx(fall, rel=1e-6)


def test_a_seed_repeats_its_cuboids() -> None:
    first, again, other = (visited(seed=0)[3], visited(seed=0)[3], visited(seed=1)[3])
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_leaf_values_are_bounded() -> None:
    for sizes in product((1, 5), repeat=3):
        *_, step = visited(sizes, tree=TREE._replace(largest=0.01))
        assert np.abs(step).max() <= TREE.rate * 0.01 * (1 + 1e-6)
