"""Exports: the ways in which a model leaves Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tpnn.export.sheets.rating import RatingTables
    from tpnn.model.frozen import FrozenModel
    from tpnn.model.summary import Summary


class Exports:
    """Methods of a frozen model that write it in another form; each is imported when asked for."""

    def to_sql(
        self: FrozenModel,
        dialect: str,
        table: str | Sequence[str] = "loans",
        key: str | Sequence[str] | None = None,
        contributions: bool = False,
    ) -> str:
        """Query that gives raw scores and predictions in a database; see docs/export.md."""
        from tpnn.export.sql import to_sql

        return to_sql(self, dialect, table, key, contributions)

    def to_code(self: FrozenModel, language: str, contributions: bool = False) -> str:
        """Source file in C, JavaScript or Python that scores one row; see docs/export.md."""
        from tpnn.export.code import to_code

        return to_code(self, language, contributions)

    def to_onnx(
        self: FrozenModel, path: str | os.PathLike[str], contributions: bool = False
    ) -> None:
        """Write the model in the ONNX format, in double precision; see docs/export.md."""
        from tpnn.export.onnx import to_onnx

        to_onnx(self, path, contributions)

    def summary(self: FrozenModel) -> Summary:
        """All components in one table, each with interval, test and held-out loss.

        ``print`` writes it, a notebook shows it; ``to_frame`` has the columns that
        :class:`~tpnn.model.summary.SummaryLine` describes.
        """
        from tpnn.model.summary import summarise

        return summarise(self)

    def to_table(self: FrozenModel) -> pd.DataFrame:
        """All components in one frame, as ``tpnn.export.sheets.tidy.tidy_table`` describes."""
        from tpnn.export.sheets.tidy import tidy_table

        return tidy_table(self)

    def rating_tables(
        self: FrozenModel, X: Any = None, y: Any = None, max_bands: int = 8, base: str = "mode",
        offset: Any = None,
    ) -> RatingTables:  # fmt: skip
        """Write base rate and relativities; see ``tpnn.export.sheets.rating.rating_tables``."""
        from tpnn.export.sheets.rating import rating_tables

        return rating_tables(self, X, y, max_bands, base, offset)

    def to_excel(
        self: FrozenModel, path: str | os.PathLike[str], X: Any = None, offset: Any = None
    ) -> None:
        """Write a spreadsheet that predicts; see ``tpnn.export.sheets.workbook.write_workbook``."""
        from tpnn.export.sheets.workbook import write_workbook

        write_workbook(self, path, X, offset)
