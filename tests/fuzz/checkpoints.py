"""Damaged checkpoints: the fit is refused in plain words, or ends in the same bits."""

from __future__ import annotations

import tempfile
import warnings
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import Case, random_case
from tests.fuzz.faults import argument_of
from tests.fuzz.laws import FOLDER, require
from tests.fuzz.outcome import Outcome, failure
from tpnn.lifecycle.edit import digest

N_FITS = 6  # whose checkpoints are damaged
MOST_ROWS = 100
Files = dict[str, bytes]


@lru_cache(maxsize=1)
def originals() -> tuple[tuple[Case, Files, str], ...]:
    """Fits with the files of their checkpoints, and the digests of their models."""
    found: list[tuple[Case, Files, str]] = []
    seed = 0
    while len(found) < N_FITS:
        seed, case = seed + 1, random_case(seed)
        if case.faults or case.doubts or case.lacks or not 10 <= case.n_rows <= MOST_ROWS:
            continue
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            warnings.simplefilter("ignore")
            model = _fitted(case, folder)
            files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        if len(files) > 2:
            found.append((case, files, digest(model)))
    return tuple(found)


def _fitted(case: Case, folder: str) -> Any:
    estimator, table = case.estimator(), case.table()
    weights = {"sample_weight": case.weights, "offset": case.offset}
    return estimator.fit(table, case.target, **weights, checkpoint=folder).model_


def try_checkpoint(seed: int) -> Outcome:
    """Damage the files of a checkpoint, and repeat the fit."""
    case, files, expected = originals()[seed % N_FITS]
    rng = np.random.default_rng([seed, 6])
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        warnings.simplefilter("ignore")
        for name, data in damaged(files, rng).items():
            Path(folder, name).write_bytes(data)
        try:
            require(
                digest(_fitted(case, folder)) == expected, "a resumed fit ends in the same bits"
            )
        except ValueError as error:
            refused = argument_of(error) == "checkpoint"
            return Outcome(seed, "refused: checkpoint") if refused else failure(seed, error)
        except Exception as error:  # whatever is raised is judged here
            return failure(seed, error)
    return Outcome(seed, "resumed")


def damaged(files: Files, rng: np.random.Generator) -> Files:
    """Files of which one is gone, changed or another one."""
    from tests.fuzz.files import RAW

    names = sorted(files)
    name, other = (str(one) for one in rng.choice(names, 2))
    kind = rng.integers(5)
    if kind == 0:
        return {one: data for one, data in files.items() if one != name or one == "fit.json"}
    if kind == 1:
        return files | {name: files[other]}
    if kind == 2 and name != "fit.json":
        return files | {name: _of_other_values(files[name], rng)}
    return files | {name: RAW[str(rng.choice(list(RAW)))](files[name], rng)}


def _of_other_values(data: bytes, rng: np.random.Generator) -> bytes:
    """File of a growth, valid in itself, with one array cut or moved."""
    seal, _, content = data.partition(b"\n")
    with np.load(BytesIO(content)) as file:
        arrays: dict[str, Any] = dict(file)
    name = str(rng.choice(sorted(arrays)))
    arrays[name] = arrays[name] + 1 if rng.random() < 0.5 else arrays[name].ravel()[:1]
    written = BytesIO()
    np.savez(written, **arrays)
    return seal + b"\n" + written.getvalue()
