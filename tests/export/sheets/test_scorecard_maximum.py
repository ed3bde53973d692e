"""The maximum of a sum of tables: that of all cells, one by one."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpnn.export.sheets import scorecard as maximum
from tpnn.export.sheets.scorecard import largest_sum

PAIRS = list(combinations(range(4), 2))


def tables_of(components: list[tuple[int, ...]], seed: int) -> dict[tuple[int, ...], np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 4)
    return {s: rng.normal(size=[sizes[j] for j in s]) for s in components}


def tried(tables: dict[tuple[int, ...], np.ndarray]) -> float:
    sizes = [max([t.shape[s.index(j)] for s, t in tables.items() if j in s] or [1]) for j in
             range(4)]  # fmt: skip
    return max(
        sum(table[tuple(x[j] for j in s)] for s, table in tables.items())
        for x in product(*map(range, sizes))
    )


@given(st.lists(st.sampled_from([*[(j,) for j in range(4)], *PAIRS]), unique=True),
       st.integers(0, 2**31))  # fmt: skip
def test_it_is_the_maximum_over_all_cells(components: list[tuple[int, ...]], seed: int) -> None:
    tables = tables_of(components, seed)
    largest, is_exact = largest_sum(tables)
    assert is_exact
    assert largest == pytest.approx(tried(tables), abs=1e-12)


def test_without_room_it_is_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maximum, "MAX_CELLS", 9)
    gaps = []
    for seed in range(20):
        tables = tables_of(PAIRS, seed)
        largest, is_exact = largest_sum(tables)
        gaps.append(largest - tried(tables))
        assert gaps[-1] >= -1e-12
        assert not is_exact or gaps[-1] == pytest.approx(0, abs=1e-12)
    assert max(gaps) > 0.01
