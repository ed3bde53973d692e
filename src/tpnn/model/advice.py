"""Advice: what a model can tell the people whom it judges."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpnn.lifecycle.recourse.recourse import Recourse
    from tpnn.model.frozen import FrozenModel


class Advice:
    """Methods of a frozen model that answer a single person; each is imported when asked for."""

    def recourse(
        self: FrozenModel,
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
            self, row, target, fixed=fixed, ranges=ranges, max_changes=max_changes, offset=offset
        )
