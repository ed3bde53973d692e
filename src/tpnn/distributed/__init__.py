"""Fits on several machines: ``tpnn.distributed.fit``.

It is imported when first used: workers, which hold rows, need no estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpnn.distributed.fitting import fit

__all__ = ["fit"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "fit":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tpnn.distributed.fitting import fit

        return fit
