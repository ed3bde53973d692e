"""Formulas of a spreadsheet: where a value lies among nodes, interpolation, and links."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from tpnn.loss.links import LARGEST_SCORE
from tpnn.table.axis import Axis


class Range(NamedTuple):
    """A block of cells on a sheet, given by its first and last row and column, from 1."""

    sheet: str
    first_row: int
    first_column: int
    last_row: int
    last_column: int

    def __str__(self) -> str:
        """Write it with its sheet, so that it means the same in every cell.

        >>> str(Range("it's", 2, 1, 5, 28))
        "'it''s'!$A$2:$AB$5"
        """
        quoted = self.sheet.replace("'", "''")
        first = f"${column_letters(self.first_column)}${self.first_row}"
        last = f"${column_letters(self.last_column)}${self.last_row}"
        return f"'{quoted}'!{first}:{last}"


def column_letters(number: int) -> str:
    """Letters of a column, from 1.

    >>> column_letters(1), column_letters(26), column_letters(27), column_letters(703)
    ('A', 'Z', 'AA', 'AAA')
    """
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def level_formula(value: str, labels: Range, are_text: bool) -> str:
    """Place of a level among the labels, from 1; 0 for an unseen one, "" for a missing one.

    MATCH would ignore case and read wildcards, so texts are compared by EXACT. A number never
    equals a text, unless all levels are texts of numbers.
    """
    places = f"(ROW({labels})-{labels.first_row - 1})"
    texts = f'SUMPRODUCT(EXACT({labels},{value}&"")*ISTEXT({labels})*{places})'
    if are_text:
        return f'IF(ISBLANK({value}),"",{texts})'
    numbers = f"SUMPRODUCT(ISNUMBER({labels})*({labels}={value})*{places})"
    return f'IF(ISBLANK({value}),"",IF(ISNUMBER({value}),{numbers},{texts}))'


def node_formula(value: str, axis: Axis, nodes: Range) -> str:
    """Node at or below a value, from 1; 0 where every component is zero.

    ``value`` is a cell with a number, or empty where the value is missing. For a nominal feature it
    has the place of the level, and ``nodes`` the node of each level; else ``nodes`` are the nodes.
    """
    missing = axis.missing_node + 1 if axis.has_missing else 0
    if axis.groups is not None:
        unseen = axis.unseen_node + 1 if axis.has_unseen else 0
        found = f"IF({value}=0,{unseen},INDEX({nodes},{value}))"
    elif axis.n_regular == 0:
        found = "0"
    else:
        number = f"IF(ISNUMBER({value}),MEDIAN({value},MIN({nodes}),MAX({nodes})),NA())"
        found = f"MATCH({number},{nodes},1)"
        if axis.levels is not None:  # an ordered level that fit has not seen has no place
            found = f"IF({value}=0,0,{found})"
    return f'IF({value}="",{missing},{found})'


def share_formula(value: str, node: str, axis: Axis, nodes: Range) -> str:
    """How far a value lies towards the next node, from 0 to 1."""
    if axis.groups is not None or axis.n_regular < 2:
        return "0"
    low, high = f"INDEX({nodes},{node})", f"INDEX({nodes},{node}+1)"
    inside = f"AND({node}>0,{node}<{axis.n_regular})"
    share = f"MAX(0,MIN(1,({value}-{low})/({high}-{low})))"
    return f'IF({value}="",0,IF({inside},{share},0))'


def component_formula(
    nodes: list[str], shares: list[str], sizes: list[int], values: Range, is_smooth: list[bool]
) -> str:
    """Multilinear interpolation in a block of values.

    Rows of the block are the cells of all features but the last, in row-major order; its columns
    are the nodes of the last feature. A single feature has its nodes in the rows.
    """
    corners = []
    for corner in product(*((0, 1) if smooth else (0,) for smooth in is_smooth)):
        weights = [
            f"{share}" if up else f"(1-{share})"
            for share, up, smooth in zip(shares, corner, is_smooth, strict=True)
            if smooth
        ]
        at = [
            f"MIN({node}+1,{size})" if up else node
            for node, up, size in zip(nodes, corner, sizes, strict=True)
        ]
        corners.append("*".join([*weights, f"INDEX({values},{_place(at, sizes)})"]))
    return f"IF(MIN({','.join(nodes)})=0,0,{'+'.join(corners)})"


def _place(at: list[str], sizes: list[int]) -> str:
    """Row and column of a cell in its block.

    >>> _place(["B2", "C2", "D2"], [4, 5, 6])
    '(B2-1)*5+C2,D2'
    """
    if len(at) == 1:
        return f"{at[0]},1"
    row = at[0]
    for node, size in zip(at[1:-1], sizes[1:-1], strict=True):
        row = f"({row}-1)*{size}+{node}"
    return f"{row},{at[-1]}"


def link_formula(link: str, raws: list[str], output: int) -> str:
    """Prediction from the raw scores of all outputs."""
    raw, all_raws = raws[output], f"{raws[0]}:{raws[-1]}"
    if link == "log":
        return f"EXP(MEDIAN({-LARGEST_SCORE:g},{raw},{LARGEST_SCORE:g}))"
    if link == "logit":
        return f"IF({raw}>=0,1,EXP(-ABS({raw})))/(1+EXP(-ABS({raw})))"
    if link == "softmax":
        shares = f"SUMPRODUCT(EXP({all_raws}-MAX({all_raws})))"
        return f"EXP({raw}-MAX({all_raws}))/{shares}"
    if link == "quantiles":
        return f"SMALL({all_raws},{output + 1})"
    return raw
