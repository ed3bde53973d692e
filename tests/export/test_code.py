"""Source code gives the model's own numbers, compiled by gcc, in Node and in a plain Python."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed.exports.fits import FITS, fitted
from benchmarks.speed.exports.languages import PROGRAMS, Ran, plain_rows, run_code
from tests.export.cases import (
    INJECTION,
    NAMES,
    TASKS,
    TOLERANCE,
    assert_equal_to_model,
    expected,
    fuzzed_rows,
    model_of,
    remainder_model,
)
from tests.models import random_model, small_model
from tpnn import AnovaModel, ComponentSet
from tpnn.export.code import RESERVED, identifiers
from tpnn.loss.links import LINKS
from tpnn.table.encoder import Feature, LevelRules, TableEncoder
from tpnn.table.table import Table

HOSTILE = [
    INJECTION, "*/ int main", "/* x", "\u2028", "\\", "\\\\'", '"', "'''", '"""', "\n#error\n",
    "??/", "??/\n", "%s%n%d", "${x}", "`${x}`", "</script>", "<!--", "-->", "{{x}}", "# coding: x",
    "-*- coding: utf-16 -*-", "\u202e", "\\N{DASH}", "\\u0041", "\\x41", "//", "__proto__", "int",
    "constructor", "toString", "NAN", "linux", "Age", "age", "AGE", "1", "", " ", "\t", "\x7f",
    "\r", "😀",
]  # fmt: skip


@pytest.fixture(params=PROGRAMS)
def language(request: pytest.FixtureRequest) -> str:
    program = PROGRAMS[request.param]
    if not program.is_installed:
        pytest.skip(f"{program.needs} is not installed")
    return str(request.param)


def scored(language: str, model: AnovaModel, rows: pd.DataFrame, **settings: Any) -> Ran:
    return run_code(language, model, plain_rows(rows), **settings)


@pytest.mark.parametrize("task", TASKS)
def test_code_equals_the_model(task: str, language: str) -> None:
    model = model_of(task)
    rows = fuzzed_rows(model, 3000)
    found = scored(language, model, rows)
    assert not found.refused.any()
    assert_equal_to_model(found.answers, model, rows)


@pytest.mark.parametrize("task", TASKS)
def test_code_equals_a_model_with_a_remainder(task: str, language: str) -> None:
    model = remainder_model(task)
    rows = fuzzed_rows(model, 1000)
    assert_equal_to_model(scored(language, model, rows).answers, model, rows)
    alone = scored(language, model, rows, contributions=False).answers[:, len(model.intercepts) :]
    truth = expected(model, rows)
    unit = TOLERANCE * truth["raw"].std()
    np.testing.assert_allclose(alone, truth["means"], rtol=1e-12, atol=unit)


def test_a_file_speaks_of_a_remainder_where_there_is_one(language: str) -> None:
    without, alone = model_of("regression"), remainder_model("regression").to_code(language)
    assert "remainder" not in without.to_code(language, contributions=True)
    assert "remainder" in alone
    assert "ontributions" not in alone


@pytest.mark.parametrize("task", FITS)
def test_code_of_a_fit_equals_it(task: str) -> None:
    model, rows = fitted(task, n_rows=1000)
    for language, program in PROGRAMS.items():
        if program.is_installed:
            assert_equal_to_model(scored(language, model, rows).answers, model, rows)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_order(order: int, language: str) -> None:
    model = random_model(5, order)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(500, 5)), columns=list(model.feature_names))
    found = scored(language, model, rows)
    truth = expected(model, rows.to_numpy())
    np.testing.assert_allclose(found.answers[:, :1], truth["raw"], rtol=0, atol=1e-13)


def test_a_file_without_contributions_predicts_alone(language: str) -> None:
    model = model_of("several classes")
    rows = fuzzed_rows(model, 50)
    found = scored(language, model, rows, contributions=False)
    assert found.answers.shape == (50, 6)
    np.testing.assert_allclose(found.answers[:, 3:], expected(model, rows)["means"], rtol=1e-12)
    assert "ontributions" not in model.to_code(language)


def test_what_the_model_refuses_is_refused(language: str) -> None:
    model = model_of("counts")
    bad = {"exposure": [0.0, -1.0, np.nan, np.inf, -np.inf], "holes": [np.inf, -np.inf],
           "code": [np.inf], NAMES["day"]: [np.inf]}  # fmt: skip
    good = plain_rows(fuzzed_rows(model, 1))[0]
    rows = [good] + [{**good, name: value} for name, values in bad.items() for value in values]
    found = run_code(language, model, rows)
    assert (found.refused != 0).tolist() == [False] + [True] * (len(rows) - 1)
    if language == "c":  # which says the number of the column, the exposure being the last
        assert found.refused.tolist() == [0, 10, 10, 10, 10, 10, 2, 2, 7, 4]
    frame = fuzzed_rows(model, 1)
    for name in ("exposure", "holes", "code"):
        for value in bad[name]:
            with pytest.raises(ValueError, match=r"finite"):
                model.raw_scores(frame.assign(**{name: value}))


def test_the_largest_and_smallest_numbers(language: str) -> None:
    model = small_model(1)
    nodes = [np.array([-1.7976931348623157e308, -1e-300, 1e-300, 1.7976931348623157e308]),
             np.array([0.1]), np.array([1e-310, 2e-310, 1.0, 1e200, 1.5e308, 1.6e308])]  # fmt: skip
    pairs = zip(model.encoder.axes[1], nodes, strict=True)
    axes = {1: tuple(replace(axis, values=values) for axis, values in pairs)}
    model = replace(model, encoder=replace(model.encoder, axes=axes))
    values = np.concatenate([*nodes, [0.0, -0.0, 1e-320, 1e300, -1e300, 1.55e308]])
    rows = pd.DataFrame({name: np.roll(values, k) for k, name in enumerate(model.feature_names)})
    found = scored(language, model, rows)
    truth = expected(model, rows.to_numpy())
    np.testing.assert_allclose(found.answers[:, :1], truth["raw"], rtol=0, atol=1e-13)


def model_on(rows: pd.DataFrame, features: Sequence[Feature] | None = None, **settings: Any
             ) -> AnovaModel:  # fmt: skip
    """A model with a random main effect of each column."""
    rules = LevelRules(nominal=settings.pop("nominal", ()))
    encoder = TableEncoder.fit(Table(rows), {1: 50}, rules=rules)
    if features is not None:
        encoder = replace(encoder, features=tuple(features))
    rng = np.random.default_rng(0)
    tables = tuple(rng.normal(size=(axis.n_nodes, 1)) for axis in encoder.axes[1])
    return AnovaModel(
        encoder=encoder,
        components=ComponentSet(tuple((j,) for j in range(len(tables)))),
        tables=tables,
        intercepts=np.array([0.5]),
        link=LINKS["identity"],
        **settings,
    )


def test_hostile_names_and_levels_stay_what_they_are(language: str) -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.choice([*HOSTILE, None], 300) for name in HOSTILE}
    rows = pd.DataFrame({**columns, "number": rng.normal(size=300)})
    model = replace(model_on(rows), link=LINKS["logit"], classes=("*/ ??/ \n", "</script>"))
    new = rows.sample(200, random_state=0, ignore_index=True)
    code = model.to_code(language, contributions=True)
    assert code.isascii()
    assert "</script" not in code or language != "javascript"
    assert_equal_to_model(scored(language, model, new).answers, model, new)


@pytest.mark.filterwarnings("ignore:X. levels")
def test_an_offset_that_was_passed_to_fit_is_an_argument(language: str) -> None:
    model = replace(model_of("regression"), has_offset=True)
    rows, offsets = fuzzed_rows(model, 200), np.random.default_rng(0).normal(size=200)
    found = scored(language, model, rows, offsets=[*offsets[:-2], np.nan, np.inf])
    truth = model.raw_scores(rows, offsets)
    unit = TOLERANCE * truth.std()
    np.testing.assert_allclose(found.answers[:-2, 0], truth[:-2], rtol=0, atol=unit)
    assert (found.refused != 0).tolist() == [False] * 198 + [True] * 2


def test_durations_and_levels_of_every_type(language: str) -> None:
    rng = np.random.default_rng(0)
    flags = pd.Categorical(rng.choice([True, False], 300), [False, True], ordered=True)
    rows = pd.DataFrame(
        {
            "wait": rng.integers(-(10**12), 10**12, 300).astype("timedelta64[us]"),
            "ordered": pd.Categorical(rng.choice([3.5, 1, 2], 300), [3.5, 1, 2], ordered=True),
            "truth": flags,
            "empty": np.nan,
        }
    )
    model = model_on(rows)
    new = pd.DataFrame(
        {
            "wait": [*rows["wait"][:4], None],
            "ordered": pd.Categorical([1, 2, 3.5, 7, None]),
            "truth": pd.Categorical([True, False, True, None, None]),
            "empty": [np.nan, 1, np.nan, 0, np.nan],
        }
    )
    truth = expected(model, new)
    found = scored(language, model, new).answers
    np.testing.assert_allclose(found[:, 0], truth["raw"][:, 0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(found[:, 2:], truth["effects"][..., 0], rtol=0, atol=1e-13)


def ran(language: str, model: AnovaModel, calls: str, folder: Path) -> list[str]:
    """Lines that a script prints which has ``score`` and ``show``."""
    opening = {
        "javascript": 'import { score } from "./model.mjs";\nconst show = (row) => {\n  try {'
        " console.log(score(row).raw_score); } catch (error) { console.log(error.message); }\n};\n",
        "python": "import sys\nsys.path.insert(0, '.')\nfrom datetime import *\n"
        "from model import score\n"
        "def show(row):\n    try:\n        print(score(row)['raw_score'])\n"
        "    except (TypeError, ValueError) as error:\n        print(error)\n",
    }
    name, command = {"javascript": ("model.mjs", "node"), "python": ("model.py", sys.executable)}[
        language
    ]
    (folder / name).write_text(model.to_code(language), encoding="ascii")
    script = folder / f"calls{Path(name).suffix}"
    script.write_text(opening[language] + calls)
    done = subprocess.run([command, script.name], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def skip_without(language: str) -> None:
    if not PROGRAMS[language].is_installed:
        pytest.skip(f"{PROGRAMS[language].needs} is not installed")


LARGE = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1]


def test_whole_numbers_that_are_no_doubles(tmp_path: Path) -> None:
    rows = pd.DataFrame({"code": np.repeat(LARGE, 3)})
    model = model_on(rows, nominal=[0])
    truth = model.raw_scores(pd.DataFrame({"code": LARGE})).tolist()
    unseen = model.intercepts[0]
    as_text = run_code("python", model, [{"code": code} for code in LARGE])
    assert as_text.answers[:, 0].tolist() == truth
    lines = ran("python", model, "show({'code': 2.0**53})\nshow({'code': 2**53 + 3})", tmp_path)
    assert "is rounded" in lines[0]
    assert float(lines[1]) == unseen


def test_whole_numbers_are_text_in_c() -> None:
    skip_without("c")
    model = model_on(pd.DataFrame({"code": np.repeat(LARGE, 3)}), nominal=[0])
    truth = model.raw_scores(pd.DataFrame({"code": LARGE})).tolist()
    found = run_code("c", model, [{"code": str(code)} for code in LARGE])
    assert found.answers[:, 0].tolist() == truth


def test_whole_numbers_are_big_in_javascript(tmp_path: Path) -> None:
    skip_without("javascript")
    model = model_on(pd.DataFrame({"code": np.repeat(LARGE, 3)}), nominal=[0])
    truth = model.raw_scores(pd.DataFrame({"code": LARGE})).tolist()
    calls = "".join(f"show({{code: {code}n}});\n" for code in [*LARGE, 2**53 + 3])
    *lines, small, rounded = ran("javascript", model,
        calls + f"show({{code: {2**53 - 1}}});\nshow({{code: {2**53}}});\n", tmp_path)  # fmt: skip
    assert list(map(float, lines)) == [*truth, model.intercepts[0]]
    assert float(small) == truth[0]
    assert "is rounded" in rounded


def text_or_numbers() -> tuple[AnovaModel, list[float]]:
    levels = ("-0", "0.5", "1", "1.0", "1e-05", "a", "nan")
    model = model_on(pd.DataFrame({"code": np.repeat(levels, 3)}))
    model = replace(model, encoder=replace(
        model.encoder, features=(Feature("nominal", levels, are_text=True),)))  # fmt: skip
    truth = [float(model.raw_scores(pd.DataFrame({"code": [value]}))[0])
             for value in (0.5, 1, True, 1e-5, "1", "1.0", "a", "-0", "nan")]  # fmt: skip
    return model, truth


def test_numbers_may_be_compared_as_text_in_python(tmp_path: Path) -> None:
    model, truth = text_or_numbers()
    values = "0.5, 1, True, 1e-5, '1', '1.0', 'a', '-0', 'nan', -0.0"
    lines = ran("python", model, f"for x in ({values}): show({{'code': x}})", tmp_path)
    assert list(map(float, lines)) == [*truth, model.intercepts[0]]


def test_numbers_may_be_compared_as_text_in_javascript(tmp_path: Path) -> None:
    skip_without("javascript")
    model, truth = text_or_numbers()
    values = "0.5, 1, true, 1e-5, '1', '1.0', 'a', '-0', 'nan', -0"
    lines = ran("javascript", model, f"for (const code of [{values}]) show({{code}});", tmp_path)
    assert list(map(float, lines)) == [*truth, model.intercepts[0]]


def test_numbers_are_text_in_c() -> None:
    skip_without("c")
    model, truth = text_or_numbers()
    texts = ["0.5", "1", "1", "1e-05", "1", "1.0", "a", "-0", "nan", "unseen", None]
    found = run_code("c", model, [{"code": text} for text in texts])
    assert found.answers[:, 0].tolist() == [*truth, *[model.intercepts[0]] * 2]


WHEN = "2001-02-03 04:05:06.789"


def time_model() -> tuple[AnovaModel, float]:
    rng = np.random.default_rng(0)
    days = pd.to_datetime(rng.integers(0, 2**31, 100), unit="s")
    model = model_on(pd.DataFrame({"day": days, "level": rng.choice(["a", "b"], 100)}))
    row = pd.DataFrame({"day": [pd.Timestamp(WHEN)], "level": ["a"]})
    return model, float(model.raw_scores(row)[0])


def test_values_of_python(tmp_path: Path) -> None:
    model, truth = time_model()
    when = f"datetime.fromisoformat('{WHEN}')"
    calls = f"""
zone = timezone(timedelta(hours=5))
for day in ({when}, ({when} + timedelta(hours=5)).replace(tzinfo=zone), 981173106.789):
    show({{"day": day, "level": "a"}})
show({{"day": None, "level": float("nan")}})
show({{"day": date(2001, 2, 3), "level": "a"}})
show({{"day": datetime(2001, 2, 3), "level": "a"}})
show({{"day": 0, "level": 1}})
show({{"day": "2001", "level": "a"}})
show({{"day": 0}})
"""
    *numbers, level, day, absent = ran("python", model, calls, tmp_path)
    assert [float(number) for number in numbers[:3]] == pytest.approx([truth] * 3, abs=1e-14)
    assert float(numbers[3]) == model.intercepts[0]
    assert numbers[4] == numbers[5]
    assert level == "row: 'level' must be a level of fit, found 1. Convert it."
    assert day == "row: 'day' must be a number, found '2001'. Convert it."
    assert absent == "row: the column 'level' is needed, found none. Pass None if missing."


def test_values_of_javascript(tmp_path: Path) -> None:
    skip_without("javascript")
    model, truth = time_model()
    calls = f"""
show({{day: new Date("{WHEN.replace(" ", "T")}Z"), level: "a"}});
show({{day: 981173106.789, level: "a"}});
show({{day: new Date("no date"), level: NaN}});
show({{day: null, level: null}});
show({{day: 0, level: 1}});
show({{day: "2001", level: "a"}});
show({{day: 0}});
"""
    first, second, *missing, level, day, absent = ran("javascript", model, calls, tmp_path)
    assert [float(first), float(second)] == pytest.approx([truth] * 2, abs=1e-14)
    assert [float(number) for number in missing] == [model.intercepts[0]] * 2
    assert level == "row: level must be a level of fit, found 1. Convert it."
    assert day == "row: day must be a number, found 2001. Convert it."
    assert absent == "row: the column level is needed, found none. Pass null if missing."


def test_a_model_without_components(language: str) -> None:
    model = model_of("regression").restrict([])
    found = run_code(language, model, [{}, {}])
    assert found.answers.tolist() == [[model.intercept] * 2] * 2


def test_members_are_distinct_and_no_keywords() -> None:
    names = identifiers([*HOSTILE, *RESERVED, "x" * 100, "x" * 101])
    assert len(set(names)) == len(names)
    assert RESERVED.isdisjoint(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{0,45}", name) for name in names)


@pytest.mark.parametrize("level", ["a\0b", "\ud800"])
def test_text_that_c_cannot_hold_is_refused(level: str) -> None:
    model = model_on(pd.DataFrame({"x": ["a", level] * 5}))
    with pytest.raises(ValueError, match="model: text in C must be Unicode without a NUL"):
        model.to_code("c")
    assert model.to_code("python").isascii()
    assert model.to_code("javascript").isascii()


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(
        ValueError, match="language: must be one of c, javascript, python, pmml, found"
    ):
        model_of("regression").to_code("cobol")


def test_the_file_says_what_it_is(language: str) -> None:
    code = model_of("counts").to_code(language)
    heading = code[: code.index("holes") + 2000]
    for words in ("functional ANOVA model", "tpnn", "The prediction is exp(raw score)", '"holes"',
                  "positive, its logarithm is added"):  # fmt: skip
        assert words in heading
    assert not any(name in line for line in code.splitlines()[:2] for name in NAMES.values())
