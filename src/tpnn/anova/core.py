"""The core: components of deep trees that a person should read.

The exact components of the trees are ranked by their variance on coarse grids. The core has the
largest ones, with all their subsets, until they carry nearly all of the variance or are too many to
read. What is left is the remainder of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tpnn._utils.arrays import FloatArray
from tpnn._utils.threads import Workers
from tpnn.anova.boxes import Boxes
from tpnn.anova.components import Component, ComponentSet
from tpnn.table.axis import Axis

COARSE_NODES = {1: 32, 2: 12, 3: 6}  # per feature, in components that are only ranked
MOST_RANKED = {1: 100_000, 2: 20_000, 3: 5_000}  # sets of features that meet in the most leaves


@dataclass(frozen=True)
class CoreRules:
    """How large a core is."""

    share: float  # of the variance, after which it is complete
    most: int  # components; those that are required may be more
    order: int  # largest number of features of a component
    required: tuple[Component, ...] = ()
    most_higher: int = 1_000_000  # components of three and more features, whose grids are large


def variances(
    bags: Sequence[Boxes], axes: Sequence[Axis], order: int, workers: Workers
) -> dict[Component, float]:
    """Variance of each component of trees up to an order, mean over the outputs, largest first.

    The trees are the mean of some bags.
    """
    orders = range(1, order + 1)
    coarse = {d: [axis.coarsened(COARSE_NODES[d]) for axis in axes] for d in orders}
    wanted = [s for d in orders for s in most_frequent(bags, d, MOST_RANKED[d])]
    read = workers.map(lambda boxes: boxes.stacks(wanted, coarse)[1], bags)
    sizes = dict[Component, float]()
    for stacks in zip(*read, strict=True):
        mean: FloatArray = sum(stack.grids for stack in stacks) / len(bags)
        squares = mean**2
        for masses in stacks[0].weights:
            squares = squares * masses
        parts = squares.reshape(len(mean), -1, mean.shape[-1]).sum(1).mean(1)
        sizes |= zip(stacks[0].components, parts.tolist(), strict=True)
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))


def most_frequent(bags: Sequence[Boxes], order: int, most: int) -> list[Component]:
    """Find the sets of so many features that meet in the most leaves."""
    counts = Counter[Component]()
    for boxes in bags:
        counts.update(boxes.subsets(order))
    return sorted(counts, key=lambda s: (-counts[s], s))[:most]


def core_of(sizes: Mapping[Component, float], rules: CoreRules) -> ComponentSet:
    """Largest components with all their subsets; those that would be too many are left out."""
    core = set(ComponentSet(rules.required).with_subsets())
    total, carried = sum(sizes.values()), sum(sizes.get(s, 0.0) for s in core)
    for component in sizes:
        if carried >= rules.share * total:
            break
        new = set(_subsets(component)) - core
        if len(component) > rules.order or len(core) + len(new) > rules.most:
            continue
        if _n_higher(core) + _n_higher(new) > rules.most_higher:
            continue
        core |= new
        carried += sum(sizes.get(s, 0.0) for s in new)
    return ComponentSet(tuple(core))


def _subsets(component: Component) -> Iterable[Component]:
    for order in range(1, len(component) + 1):
        yield from combinations(component, order)


def _n_higher(components: Iterable[Component]) -> int:
    return sum(len(component) > 2 for component in components)
