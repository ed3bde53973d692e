"""The canonical order of the features, which does not depend on the order of rows or columns.

Columns are sorted by name or, without names, by their nodes and masses. Columns that agree in these
are told apart by the rows in which their values occur: the key of a column is the sum, over the
distinct rows, of the scrambled pair (value, key of the whole row), where the key of a row does not
depend on the order of its columns. Only columns that can be swapped in every row have equal keys.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn.solvers.problem.bits import scrambled
from tpnn.solvers.problem.rows import KeyArray, float_bits, row_keys
from tpnn.solvers.problem.scaling import Targets
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table


def canonical_features(encoder: TableEncoder, table: Table, targets: Targets) -> list[int]:
    """Sort the features in a way that does not depend on the order of rows and columns."""
    keys = [encoder.canonical_key(feature) for feature in range(encoder.n_features)]
    counts = Counter(keys)
    alike = [feature for feature, key in enumerate(keys) if counts[key] > 1]
    tie_breaks = dict.fromkeys(range(encoder.n_features), 0)
    if alike:
        ranks = {key: rank for rank, key in enumerate(sorted(counts))}
        rows = _whole_rows(encoder, table, targets, [ranks[key] for key in keys])
        counted = np.ones(table.n_rows, bool) if targets.weights is None else targets.weights > 0
        tie_breaks |= {j: _column_key(encoder, table, j, rows, counted) for j in alike}
    return sorted(range(encoder.n_features), key=lambda j: (keys[j], tie_breaks[j]))


def _whole_rows(
    encoder: TableEncoder, table: Table, targets: Targets, ranks: list[int]
) -> KeyArray:
    """One key per row, made from its values, targets and offset in any order of the columns."""
    salts = scrambled(np.arange(1, len(ranks) + 1).astype(np.uint64))
    rows = row_keys([*targets.y.T, targets.offset], table.n_rows)
    for feature, rank in enumerate(ranks):
        rows = rows + scrambled(float_bits(encoder.numbers(table, feature)) ^ salts[rank])
    return rows


def _column_key(
    encoder: TableEncoder, table: Table, feature: int, rows: KeyArray, counted: BoolArray
) -> int:
    """Key of a column, given whole rows; repeated rows and rows of weight zero change nothing."""
    bits = float_bits(encoder.numbers(table, feature))
    pairs = scrambled(scrambled(bits) + rows)[counted]
    return int(np.unique(pairs).sum())  # overflow wraps around
