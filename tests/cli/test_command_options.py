"""The options of the page on the command line are those of the parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tpnn import TPNNRegressor, TPNNSurvival
from tpnn.anova.shapes import SHAPES
from tpnn.cli.command import COMMANDS, make_parser
from tpnn.estimators.parameters import RULES, rules_of
from tpnn.loss.objectives import objectives_of

PAGE = (Path(__file__).parents[2] / "docs" / "command.md").read_text("utf-8")
LINES = [line.removeprefix("$ ") for line in PAGE.splitlines() if re.match(r"(\$ )?tpnn \w", line)]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_page_is_understood(line: str) -> None:
    given = make_parser().parse_args(shlex.split(line)[1:])
    assert given.command in line


def test_the_page_names_every_command() -> None:
    assert len(LINES) >= 8
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_every_option_on_the_page_exists(capsys: pytest.CaptureFixture[str]) -> None:
    known = set[str]()
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            make_parser().parse_args([command, "--help"])
        known |= set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known
    hidden = {"--output", "--title", "--target", "--help"}  # in the examples, or plain
    assert known - hidden <= set(re.findall(r"--[a-z][a-z-]+", PAGE))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shapes", "a=up"], "--shapes: the shape must be one of increasing, .* found 'up'"),
        (["--shapes", "a"], "--shapes: must be like age=increasing, found 'a'"),
        (["--objective", "foo"], "--objective: must be one of squared_error, .* found 'foo'"),
        (["--objective", "gamma:1"], "--objective: only huber, .* have a parameter, found"),
        (["--objective", "tweedie:7"], "--objective: tweedie needs a number from 1 to 2, .* found"),
        (["--objective", "huber:1,2"], "--objective: huber needs a positive number, .* found"),
        (["--objective", "quantile:0.9,0.1"], "--objective: quantile needs .* increase .* found"),
        (["--objective", "cox:0"], "--objective: cox needs a whole number of at least 1, .* found"),
        (["--objective", "quantile:x"], "--objective: quantile needs numbers .* found"),
        (["--order", "0"], "--order: must be a whole number of at least 1, found '0'"),
        (["--bags", "two"], "--bags: must be a whole number of at least 1, found 'two'"),
        (["--max-components", "0"], "--max-components: must be a whole number .* found '0'"),
        (["--seed", "-1"], "--seed: must be a whole number of at least 0, found '-1'"),
    ],
)
def test_a_wrong_option_is_told_in_options(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(["fit", "data.csv", "--target", "y", *options])
    assert ended.value.code == 2
    assert re.search(f"argument {message}", capsys.readouterr().err)


def test_a_number_of_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["explain", "a.tpnn", "a.csv", "--reasons", "-1"])
    assert "--reasons: must be a whole number of at least 1, found '-1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "tweedie:1",
        "tweedie:2",
        "huber:0.1",
        "quantile:0.5",
        "quantile:0.1,0.5,0.9",
        *objectives_of(),
    ],
)
def test_an_objective_that_is_taken_is_one_of_the_library(text: str) -> None:
    given = make_parser().parse_args(["fit", "a.csv", "--target", "y", "--objective", text])
    assert RULES["objective"].holds(given.objective)


@pytest.mark.parametrize("text", ["cox", "cox:1", "cox_efron:3", "fine_gray", "fine_gray:2"])
def test_an_objective_of_survival_is_one_of_the_library(text: str) -> None:
    given = make_parser().parse_args(["fit", "a.csv", "--target", "y", "--objective", text])
    assert rules_of(TPNNSurvival)["objective"].holds(given.objective)


def test_names_are_those_of_the_library() -> None:
    for shape in SHAPES:
        options = ["--shapes", f"a={shape}"]
        given = make_parser().parse_args(["fit", "a.csv", "--target", "y", *options])
        assert given.shapes == [("a", shape)]
        assert shape in PAGE


def test_defaults_of_a_fit_are_those_of_the_estimators() -> None:
    given = make_parser().parse_args(["fit", "a.csv", "--target", "y"])
    known = TPNNRegressor().get_params()
    assert (given.order, given.bags) == (known["order"], known["n_bags"])
    assert given.max_components is known["max_components"] is None
