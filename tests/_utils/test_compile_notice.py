"""Announcements: one line when our own loops are compiled, for those who can see it."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numba as nb
import pytest

from tpnn._utils import compile as _announce
from tpnn._utils.compile import announcer, announcing, has_screen


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcer(), "_announced", set())


def compile_function_of(module: str) -> None:
    def increment(x: Any) -> Any:
        return x + 1

    increment.__module__ = module
    nb.njit(increment)(1)


def test_each_kind_of_work_is_announced_once() -> None:
    said: list[str] = []
    with announcing(said.append):
        for module in (
            "tpnn.solvers.grow.a",
            "tpnn.solvers.problem.b",
            "tpnn.model.c",
            "tpnn.model.d",
        ):
            compile_function_of(module)
    assert [line.split(":")[0] for line in said] == [
        "Compiling the loops that fit",
        "Compiling the loops that predict large tables",
    ]


def test_code_that_is_not_kept_is_compiled_in_every_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    with announcing(said.append):
        compile_function_of("tpnn.solvers.grow.a")  # without a cache
        announcer()._announced.clear()
        kept = SimpleNamespace(py_func=compile_function_of, _cache=object())
        monkeypatch.setattr(compile_function_of, "__module__", "tpnn.solvers.grow.a")
        announcer().on_start(SimpleNamespace(data={"dispatcher": kept}))
    assert [line.rpartition(", ")[2] for line in said] == [
        "in every process.",
        "once for each installation.",
    ]


def test_a_fit_that_ended_hears_nothing_more_however_fits_overlap() -> None:
    said: dict[str, list[str]] = {"first": [], "second": []}
    first, second = (announcing(lines.append) for lines in said.values())
    with ExitStack() as outer:
        outer.enter_context(first)
        second.__enter__()
    try:
        compile_function_of("tpnn.solvers.grow.a")
    finally:
        second.__exit__(None, None, None)
    compile_function_of("tpnn.model.a")
    assert {name: len(lines) for name, lines in said.items()} == {"first": 0, "second": 1}


def test_loops_of_others_are_not_announced() -> None:
    said: list[str] = []
    with announcing(said.append):
        compile_function_of("another.library")
    assert said == []


def test_a_logger_that_listens_gets_the_line_alone(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    with announcing(said.append), caplog.at_level(logging.INFO, "tpnn"):
        compile_function_of("tpnn.solvers.grow.a")
    assert [record.levelname for record in caplog.records if record.name == "tpnn"] == ["INFO"]
    assert said == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_outside_a_fit_the_line_goes_to_the_screen(
    is_seen: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_announce, "has_screen", lambda: is_seen)
    compile_function_of("tpnn.model.a")
    assert capsys.readouterr().err.count("Compiling the loops") == is_seen


def test_a_program_without_stderr_has_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert not has_screen()
