"""Groups: every component is in one, none is too large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tpnn.uncertainty.linear_model import groups


@given(
    components=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 3), st.floats(0, 1)), min_size=1, max_size=30
    ),
    most=st.integers(5, 60),
)
def test_groups_cover_all_components_and_are_small(
    components: list[tuple[int, int, float]], most: int
) -> None:
    sizes, orders, strengths = zip(*components, strict=True)
    found = groups(sizes, orders, strengths, most)
    mains = {number for number, order in enumerate(orders) if order == 1}
    shares = sum(sizes[number] for number in mains) <= most / 2
    for group in found:
        assert sum(sizes[number] for number in group) <= most + max(sizes)
        assert not shares or mains <= set(group)
    each = [number for group in found for number in group]
    once = [number for number in each if not (shares and number in mains)]
    assert sorted({*once, *mains}) == list(range(len(sizes)))
    assert len(once) == len(set(once))
