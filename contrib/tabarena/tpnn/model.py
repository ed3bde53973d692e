"""The model of TabArena: that of the library."""

from __future__ import annotations

from tpnn import autogluon

TPNNModel = autogluon.TPNNModel
