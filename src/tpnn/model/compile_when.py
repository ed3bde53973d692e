"""When to compile: numba takes a moment to load, and seconds to compile.

NumPy computes the same bits, so only time counts. Compiling pays off after many predictions, and
nobody knows in advance how many there will be. So the work that NumPy has done is counted, and the
loops are compiled once it took as long as compiling does: at worst twice the optimum.
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
    """Counts the work of NumPy on large tables, and gets compiled loops once they pay off."""

    def __init__(self) -> None:
        self.n_cells = 0
        self.module: Any = None  # the compiled loops
        self._is_closed = False  # numba is absent, or fails

    def loops(self, n_rows: int, cells_per_row: int) -> Any:
        """Return the module of compiled loops where they pay off, else None.

        Each of the rows that are to be predicted reads so many cells of tables.
        """
        if n_rows < MIN_COMPILED_ROWS or self._is_closed:
            return None
        if self.module is None:
            self.n_cells += n_rows * cells_per_row
            self._compile_if_due()
        return self.module

    def _compile_if_due(self) -> None:
        """Get the loops if NumPy has already worked for as long as that takes."""
        spent = self.n_cells / NUMPY_CELLS_PER_SECOND
        wait = SECONDS_TO_LOAD + (0.0 if "numba" in sys.modules else SECONDS_TO_IMPORT)
        if spent < wait:
            return
        try:
            loops = import_module("tpnn.model.interpolate_numba")
            if spent >= wait + SECONDS_TO_COMPILE or loops.are_kept():
                import_module("tpnn._utils.compile").announcer()  # compiling takes seconds: say so
                loops.warm_up()
                self.module = loops
        except Exception:  # numba is absent, or fails to load: NumPy computes the same bits
            self._is_closed = True


ACCOUNT = Account()  # of this process
