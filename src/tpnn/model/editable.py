"""Editable: changes of a model by hand; each returns a new model with one more record."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Unpack

    from tpnn.lifecycle.edit.change import Change, Named
    from tpnn.lifecycle.edit.edit import HeldOut
    from tpnn.model.frozen import FrozenModel, Model


class Editable:
    """Methods of a frozen model that change it; docs/editing.md has them all."""

    def edit(
        self: Model,
        component: Named,
        *,
        why: str = "",
        by: str = "",
        X: Any = None,
        y: Any = None,
        offset: Any = None,
        **change: Unpack[Change],
    ) -> Model:
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
            ``flatten=True``, ``smooth=share``, ``points={value: effect}``, ``monotone=shape`` and
            ``without=True``; and for which values: ``between=(low, high)``, ``levels=[...]`` or
            ``missing=True``, each a dict by feature for an interaction; and ``output=name`` for
            one of several outputs.
        """
        from tpnn.lifecycle.edit.edit import Note, edited

        rows = _held_out(X, y, offset)
        return edited(self, component, change, Note(why, by), rows)

    def without(self: Model, component: Named, *, why: str = "", by: str = "") -> Model:
        """Model without one of its components."""
        from tpnn.lifecycle.edit.edit import Note, edited

        return edited(self, component, {"without": True}, Note(why, by))

    def undo(self: Model) -> Model:
        """Model before the last edit, bit for bit, with the log that it had."""
        from tpnn.lifecycle.edit.edit import undone

        return undone(self)

    def replay(
        self: Model, path: str | os.PathLike[str], X: Any = None, y: Any = None, offset: Any = None
    ) -> Model:
        """Model after all edits of a file that ``save_edits`` or a report page has written."""
        from tpnn.lifecycle.edit.files import replayed

        return replayed(self, path, _held_out(X, y, offset))

    def save_edits(self: FrozenModel, path: str | os.PathLike[str]) -> None:
        """Write the edits as JSON; ``replay`` applies them to the model before the first."""
        from tpnn.lifecycle.edit.files import write_edits

        write_edits(self, path)

    def log(self: FrozenModel) -> list[dict[str, Any]]:
        """Return the records of all edits, oldest first, if nobody tampered with them."""
        from tpnn.model.log import check_log

        check_log(self)
        return [] if self.edits is None else copy.deepcopy(list(self.edits.records))

    def digest(self: FrozenModel) -> str:
        """SHA-256 of everything that predictions are made of."""
        from tpnn.model.digest import digest

        return digest(self)


def _held_out(X: Any, y: Any, offset: Any) -> HeldOut | None:
    from tpnn.lifecycle.edit.edit import HeldOut

    if (X is None) != (y is None):
        raise ValueError(
            "X: rows and targets are needed together, found one without the other. "
            "Pass X and y, or neither."
        )
    return None if X is None else HeldOut(X, y, offset)
