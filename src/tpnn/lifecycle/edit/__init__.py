"""Edits: changes of a frozen model by hand or by a rule, and the log of them."""

from __future__ import annotations

from tpnn.lifecycle.edit.edit import replay, review, save_edits
from tpnn.model.edit_log import digest

__all__ = ["digest", "replay", "review", "save_edits"]
