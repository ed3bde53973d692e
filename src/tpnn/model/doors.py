"""Doors: methods of a model that open another room, imported when they are called.

No other module imports upwards. ``AnovaModel`` has each of these functions as a method.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpnn.model.edit_log import Note, refuse
from tpnn.model.thin import thinned

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from tpnn.explain.explanation import Explanation
    from tpnn.explain.report import Report
    from tpnn.export.sheets.rating import RatingTables
    from tpnn.lifecycle.edit.change import Change, Named
    from tpnn.lifecycle.recourse.recourse import Recourse
    from tpnn.model.model import AnovaModel


def explain(model: AnovaModel, X: Any = None, *, hierarchical: bool = False) -> Explanation:
    """Explain the model as a whole or, given rows, on each of them; see ``Explanation``."""
    from tpnn.explain.explanation import Explanation

    return Explanation(model, X, hierarchical=hierarchical)


def report(
    model: AnovaModel,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    **options: Any,
) -> Report:
    """Write or show a page in which the model runs; see ``tpnn.explain.report.write_report``."""
    from tpnn.explain.report import write_report

    return write_report(model, path, X, y, **options)


def to_sql(
    model: AnovaModel,
    dialect: str,
    table: str | Sequence[str] = "loans",
    key: str | Sequence[str] | None = None,
    contributions: bool = False,
    thin: float = 0.0,
) -> str:
    """Query that gives raw scores and predictions in a database; see docs/export.md."""
    from tpnn.export.sql import to_sql

    return to_sql(thinned(model, thin), dialect, table, key, contributions)


def to_code(
    model: AnovaModel, language: str, contributions: bool = False, thin: float = 0.0
) -> str:
    """Source file that scores one row: "c", "javascript", "python" or "pmml"; docs/export.md."""
    from tpnn.export.code import to_code

    return to_code(thinned(model, thin), language, contributions)


def to_onnx(
    model: AnovaModel, path: str | os.PathLike[str], contributions: bool = False, thin: float = 0.0
) -> None:
    """Write the model in the ONNX format, in double precision; see docs/export.md."""
    from tpnn.export.onnx import to_onnx

    to_onnx(thinned(model, thin), path, contributions)


def to_table(model: AnovaModel) -> pd.DataFrame:
    """All components in one frame, as ``tpnn.export.sheets.tidy.tidy_table`` describes."""
    from tpnn.export.sheets.tidy import tidy_table

    return tidy_table(model)


def rating_tables(
    model: AnovaModel,
    X: Any = None,
    y: Any = None,
    max_bands: int | Mapping[str, int] = 8,
    base: Any = "mode",
    offset: Any = None,
    cuts: Mapping[str, Any] | None = None,
    min_share: float = 0.0,
) -> RatingTables:
    """Write base rate and relativities; see ``tpnn.export.sheets.rating.rating_tables``."""
    from tpnn.export.sheets.rating import rating_tables

    return rating_tables(model, X, y, max_bands, base, offset, cuts, min_share)


def to_excel(
    model: AnovaModel,
    path: str | os.PathLike[str],
    X: Any = None,
    offset: Any = None,
    thin: float = 0.0,
) -> None:
    """Write a spreadsheet that predicts; see ``tpnn.export.sheets.workbook.write_workbook``."""
    from tpnn.export.sheets.workbook import write_workbook

    write_workbook(thinned(model, thin), path, X, offset)


def recourse(
    model: AnovaModel,
    row: Any,
    target: Any,
    *,
    fixed: Collection[Any] = (),
    ranges: Mapping[Any, Any] | None = None,
    max_changes: int = 2,
    offset: Any = None,
) -> Recourse:
    """Find the cheapest change of a row that reaches a prediction, or prove there is none.

    See ``tpnn.lifecycle.recourse.recourse.recourse``, and docs/life.md for costs and ranges.
    """
    from tpnn.lifecycle.recourse.recourse import recourse

    return recourse(
        model, row, target, fixed=fixed, ranges=ranges, max_changes=max_changes, offset=offset
    )


def edit(
    model: AnovaModel,
    component: Named,
    *,
    why: str = "",
    by: str = "",
    X: Any = None,
    y: Any = None,
    offset: Any = None,
    **change: Unpack[Change],
) -> AnovaModel:
    """Model in which one component is changed, for some values of its features or for all.

    Every row whose values lie in the range, ends included, changes by exactly the edit, and no
    other row does. The mean of the change moves to the intercept and, for an interaction, to
    its subsets, so that components stay unique.

    Parameters
    ----------
    component : str, int or sequence of them
        Feature of a main effect, or features of an interaction, by name or index.
    why, by : str, optional
        Reason and name, for the log.
    X, y, offset : optional
        Held-out rows, on which the log states the loss before and after.
    **change
        One of ``add=number``, ``set=number``, ``scale=factor``, ``limit=(low, high)``,
        ``flatten=True``, ``smooth=share``, ``points={value: effect}``, ``shape=shape`` and
        ``without=True``; and for which values: ``between=(low, high)``, ``levels=[...]`` or
        ``missing=True``, each a dict by feature for an interaction; and ``output=name`` for
        one of several outputs.
    """
    from tpnn.lifecycle.edit.edit import edited, held_out_rows

    rows = held_out_rows(X, y, offset)
    return edited(model, {**change, "component": component}, Note(why, by), rows)


def undo(model: AnovaModel) -> AnovaModel:
    """Model before the last edit, bit for bit, with the log that it had."""
    from tpnn.lifecycle.edit.edit import undone

    return undone(model)


def log(model: AnovaModel) -> list[dict[str, Any]]:
    """Return the records of all edits, oldest first, if nobody tampered with them.

    Every edit whose former model is known is made again.
    """
    from tpnn.lifecycle.edit.edit import first_fault

    refuse(first_fault(model))
    return [] if model.edits is None else copy.deepcopy(list(model.edits.records))


def restrict(model: AnovaModel, components: Iterable[Named]) -> AnovaModel:
    """Intercept and some of the components; still the unique decomposition of their sum.

    Components are named by their features or by the places of these. The remainder is left out.
    Spreads and bands of these components stay. Everything else that is known belongs to the whole
    sum, and is left out. An edited model notes it in its log.
    """
    from tpnn.lifecycle.edit.edit import with_components

    return with_components(model, components)
