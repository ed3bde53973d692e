"""The options of the page on the command line are those of the parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tpnn.cli.command import MODULES
from tpnn.cli.options import make_parser

PAGE = (Path(__file__).parents[2] / "docs" / "command.md").read_text("utf-8")
LINES = [line.removeprefix("$ ") for line in PAGE.splitlines() if re.match(r"(\$ )?tpnn \w", line)]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_page_is_understood(line: str) -> None:
    given = make_parser().parse_args(shlex.split(line)[1:])
    assert given.command in line


def test_the_page_names_every_command() -> None:
    assert len(LINES) >= 8
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(MODULES)


def test_every_option_on_the_page_exists(capsys: pytest.CaptureFixture[str]) -> None:
    known = set[str]()
    for command in MODULES:
        with pytest.raises(SystemExit):
            make_parser().parse_args([command, "--help"])
        known |= set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known
    hidden = {"--output", "--title", "--target", "--help"}  # in the examples, or plain
    assert known - hidden <= set(re.findall(r"--[a-z][a-z-]+", PAGE))
