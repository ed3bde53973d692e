"""Run a command in this process."""

from __future__ import annotations

from typing import Any

from tpnn.cli import main


def run(*arguments: Any) -> int:
    """Exit code of ``tpnn`` with these arguments."""
    return main([str(argument) for argument in arguments])
