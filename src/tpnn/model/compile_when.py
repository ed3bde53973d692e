"""When compiled loops are worth their price: numba takes a moment to load, and seconds to compile.

NumPy computes the same bits, so the only question is time. Who predicts one large table is done
sooner with NumPy, who predicts many of them is not, and nobody knows in advance. So the work that
NumPy has done is counted, and once it took as long as getting the loops would, they are got. That
costs at most twice the time of somebody who knew.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

MIN_COMPILED_ROWS = 20_000  # below, NumPy needs milliseconds: such predictions are not counted
NUMPY_CELLS_PER_SECOND = 250e6  # that NumPy reads in two threads
SECONDS_TO_IMPORT = 0.25  # numba, where nothing has imported it
SECONDS_TO_LOAD = 0.35  # loops that an earlier process has compiled
SECONDS_TO_COMPILE = 3.0


class Account:
    """What NumPy has spent on large tables, against the price of compiled loops."""

    def __init__(self) -> None:
        self.n_cells = 0
        self.module: Any = None  # the compiled loops, once they are paid
        self._is_closed = False  # numba is absent, or fails

    def loops(self, n_rows: int, cells_per_row: int) -> Any:
        """Return the module of compiled loops where they are worth their price, else None.

        Parameters
        ----------
        n_rows : int
            Rows that are to be predicted now.
        cells_per_row : int
            Cells of tables that each row needs.
        """
        if n_rows < MIN_COMPILED_ROWS or self._is_closed:
            return None
        if self.module is None:
            self.n_cells += n_rows * cells_per_row
            self._buy()
        return self.module

    def _buy(self) -> None:
        """Get the loops if NumPy would need as long for what it has been asked for."""
        spent = self.n_cells / NUMPY_CELLS_PER_SECOND
        price = SECONDS_TO_LOAD + (0.0 if "numba" in sys.modules else SECONDS_TO_IMPORT)
        if spent < price:
            return
        try:
            loops = import_module("tpnn.model.interpolate_numba")
            if spent >= price + SECONDS_TO_COMPILE or loops.are_kept():
                import_module("tpnn._utils.compile").announcer()  # compiling takes seconds: say so
                loops.warm_up()
                self.module = loops
        except Exception:  # numba is absent, or fails to load: NumPy computes the same bits
            self._is_closed = True


ACCOUNT = Account()  # of this process
