"""Source code of a model, compiled and run as a program of its own."""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tpnn import AnovaModel
from tpnn._utils.arrays import FloatArray

Row = Mapping[str, Any]  # of column name to None, bool, int, float or str
INFINITE = {math.inf: "\0infinite\0", -math.inf: "\0minus infinite\0"}
C_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")
MEMBER = re.compile(r"^    (double |const char \*)(\w+);", re.MULTILINE)

C_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char *input;

static double number(void)
{
    double value;
    memcpy(&value, input, sizeof value);
    input += sizeof value;
    return value;
}

const char *text(void)
{
    const char *value = number() < 0 ? NULL : input;
    if (value != NULL) input += strlen(value) + 1;
    return value;
}

int main(int argc, char **argv)
{
    size_t n_rows = (size_t)atol(argv[argc - 2]), size;
    struct tpnn_row *rows = calloc(n_rows, sizeof *rows);
    double (*answers)[1 + WIDTH] = calloc(n_rows, sizeof *answers);
    FILE *file = fopen(argv[argc - 1], "rb");
    fseek(file, 0, SEEK_END);
    size = (size_t)ftell(file);
    rewind(file);
    input = malloc(size);
    if (fread(input, 1, size, file) != size) return 1;
    for (size_t i = 0; i < n_rows; i++) {
READ
    }
    clock_t began = clock();
    for (size_t i = 0; i < n_rows; i++) {
        double *answer = answers[i];
SCORE
    }
    fprintf(stderr, "%.9g", (double)(clock() - began) / CLOCKS_PER_SEC);
    return fwrite(answers, sizeof *answers, n_rows, stdout) != n_rows;
}
"""
NODE_MAIN = """
import fs from "node:fs";
import { score } from "./model.mjs";
const { rows, offsets } = JSON.parse(fs.readFileSync("rows.json"));
const began = process.cpuUsage();
const answers = rows.map((row, i) => {
  try {
    const found = score(row, offsets[i]);
    const more = [found.contributions ?? [], found.remainder ?? []];
    return [found.raw_score, found.prediction, ...more].flat(2);
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) return null;
    throw error;
  }
});
const seconds = process.cpuUsage(began).user / 1e6;
fs.writeFileSync("answers.json", JSON.stringify({ seconds, answers }));
"""
PYTHON_MAIN = """
import json, sys, time
sys.path.insert(0, ".")
from model import score
data = json.load(open("rows.json"))
answers, began = [], time.process_time()
for row, offset in zip(data["rows"], data["offsets"]):
    try:
        answers.append(score(row) if offset is None else score(row, offset))
    except (ValueError, TypeError):
        answers.append(None)
seconds = time.process_time() - began
json.dump({"seconds": seconds, "answers": [
    answer and [answer["raw_score"], answer["prediction"],
                answer.get("contributions", []), answer.get("remainder", [])]
    for answer in answers
]}, open("answers.json", "w"))
"""


class Ran(NamedTuple):
    """What a program answered."""

    # (n_rows, n_answers); raw scores, predictions and, if the file has them, contributions and
    # remainder; NaN for refused rows
    answers: FloatArray
    # (n_rows,); what the program says of each row: 0, or not 0 where it refuses the row
    refused: FloatArray
    seconds: float  # processor time for scoring
    size: int  # bytes of the file


class Job(NamedTuple):
    """Rows to be scored by the source code of a model."""

    model: AnovaModel
    rows: Sequence[Row]
    offsets: Sequence[float | None]
    contributions: bool

    @property
    def n_answers(self) -> int:
        """Numbers that are answered for each row."""
        effects = len(self.model.components) + self.has_remainder if self.contributions else 0
        return (2 + effects) * len(self.model.intercepts)

    @property
    def has_remainder(self) -> bool:
        """Whether there is a number for the remainder beside the contributions."""
        return self.contributions and self.model.remainder is not None


def plain_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as programs read them: dates and durations in seconds, None where a value is missing."""
    plain = rows.astype(object)
    for name in rows:
        kind = rows[name].dtype.kind
        if kind in "mM":
            times = rows[name].to_numpy().astype(f"{kind}8[us]")
            plain[name] = np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
    plain = plain.astype(object)
    records = plain.where(plain.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records]


def run_code(
    language: str,
    model: AnovaModel,
    rows: Sequence[Row],
    offsets: Sequence[float] | None = None,
    contributions: bool = True,
) -> Ran:
    """Write a model in a language, compile the file where that is needed, and score rows with it.

    Dates are given in seconds. ``offsets`` are those of a model whose offset was passed to fit.
    """
    passed = offsets if offsets is not None else [None] * len(rows)
    code = model.to_code(language, contributions=contributions)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(model, rows, passed, contributions)
        answers, seconds = PROGRAMS[language].run(code, job, Path(folder))
    refused = np.isnan(answers).all(1).astype(float)
    if language == "c":
        refused, answers = answers[:, 0], answers[:, 1:]
        answers[refused != 0] = np.nan
    return Ran(answers, refused, seconds, len(code))


def _call(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(command, capture_output=True, cwd=folder)
    if done.returncode:
        raise AssertionError(done.stderr.decode()[-4000:])
    return done


def _run_c(code: str, job: Job, folder: Path) -> tuple[FloatArray, float]:
    members = MEMBER.findall(code[code.index("struct tpnn_row {") :].split("\n};")[0])
    main = C_MAIN.replace("READ", _reads(members)).replace("SCORE", _scores(job))
    (folder / "model.c").write_text(code, encoding="ascii")
    (folder / "main.c").write_text(
        '#include "model.c"\n' + main.replace("WIDTH", str(job.n_answers)), encoding="ascii"
    )
    (folder / "rows.bin").write_bytes(
        b"".join(
            _packed(value) if kind == "double " else _packed_text(value)
            for row, offset in zip(job.rows, job.offsets, strict=True)
            for value, (kind, _) in zip(_values(job.model, row, offset), members, strict=True)
        )
    )
    _call(["gcc", *C_FLAGS, "main.c", "-o", "main", "-lm"], folder)
    done = _call(["./main", str(len(job.rows)), "rows.bin"], folder)
    answers = np.frombuffer(done.stdout).reshape(len(job.rows), -1).copy()
    return answers, float(done.stderr)


def _values(model: AnovaModel, row: Row, offset: float | None) -> list[Any]:
    """Values in the order of the struct's members: features that are used, then an offset."""
    values = [row[name] for name in model.required_features]
    column = model.encoder.offset_column
    if column is not None:
        return [*values, row[column.name or f"x{column.place}"]]
    return values if offset is None else [*values, offset]


def _reads(members: Sequence[tuple[str, str]]) -> str:
    call = {"double ": "number()", "const char *": "text()"}
    return "\n".join(f"        rows[i].{name} = {call[kind]};" for kind, name in members)


def _scores(job: Job) -> str:
    k = len(job.model.intercepts)
    calls = [f"tpnn_predict(&rows[i], answer + {1 + k})"]
    if job.contributions:
        calls.append("tpnn_raw_scores(&rows[i], answer + 1)")
        calls.append(f"tpnn_contributions(&rows[i], answer + {1 + 2 * k})")
    if job.has_remainder:
        calls.append(f"tpnn_remainder(&rows[i], answer + {1 + job.n_answers - k})")
    return "".join(f"        if (answer[0] == 0) answer[0] = {call};\n" for call in calls)


def _packed(number: float | None) -> bytes:
    return struct.pack("d", math.nan if number is None else number)


def _packed_text(text: str | None) -> bytes:
    return _packed(-1.0) if text is None else _packed(1.0) + text.encode() + b"\0"


def _run_script(name: str, main: str, command: Sequence[str]) -> Callable[..., Any]:
    def run(code: str, job: Job, folder: Path) -> tuple[FloatArray, float]:
        (folder / name).write_text(code, encoding="ascii")
        (folder / f"main{Path(name).suffix}").write_text(main)
        data = {
            "rows": [{name: _plain(value) for name, value in row.items()} for row in job.rows],
            "offsets": [_plain(offset) for offset in job.offsets],
        }
        (folder / "rows.json").write_text(_json(data))
        _call([*command, f"main{Path(name).suffix}"], folder)
        found = json.loads((folder / "answers.json").read_text())
        answers = np.full((len(job.rows), job.n_answers), np.nan)
        for number, answer in enumerate(found["answers"]):
            if answer is not None:
                answers[number] = np.hstack([np.ravel(part) for part in answer])
        return answers, found["seconds"]

    return run


def _plain(value: Any) -> Any:
    """Value that JSON knows: NaN becomes None, and infinities become words of our own."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else INFINITE[value]


def _json(data: Any) -> str:
    """JSON in which infinities are numbers that are too large for a double."""
    text = json.dumps(data, allow_nan=False)
    for number, word in INFINITE.items():
        text = text.replace(json.dumps(word), f"{'-' * (number < 0)}1e999")
    return text


class Program(NamedTuple):
    """How source code of one language is run, and what is needed for it."""

    needs: str
    run: Callable[[str, Job, Path], tuple[FloatArray, float]]

    @property
    def is_installed(self) -> bool:
        """Whether it can be run here."""
        return shutil.which(self.needs) is not None


PROGRAMS = {
    "c": Program("gcc", _run_c),
    "javascript": Program("node", _run_script("model.mjs", NODE_MAIN, ["node"])),
    "python": Program(sys.executable, _run_script("model.py", PYTHON_MAIN, [sys.executable, "-I"])),
}
