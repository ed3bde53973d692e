"""Checkpoint: a folder from which a fit that was killed is resumed by the same call.

It holds the states of all growths, each written in one step after every 50 rounds, and what
identifies the fit. What is not growth, such as the search, is repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpnn import __version__
from tpnn.estimators.fit_record import rows_digest, settings_digest
from tpnn.estimators.settings import FitPlan
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.states import FilesInFolder, StateFiles, StatesOnDisk

IDENTITY = "fit.json"


def with_checkpoint(plan: FitPlan, folder: Any, asked: Mapping[str, Any], task: str) -> FitPlan:
    """Return the plan of a fit whose growths are kept in a folder, and resumed if they are there.

    ``asked`` are the parameters of the estimator and what it starts from. In place of the path of a
    folder, files that are elsewhere may be passed.
    """
    files: StateFiles = folder if isinstance(folder, StateFiles) else FilesInFolder(checked(folder))
    inputs = plan.inputs
    identity = {
        "version": __version__,
        "rows": rows_digest(RowSums(inputs.table), inputs.targets),
        "parameters": settings_digest(task, asked),
    }
    seed = agreed_seed(files, identity, inputs.settings.seed)
    inputs = inputs._replace(settings=replace(inputs.settings, seed=seed))
    return plan._replace(inputs=inputs, states=StatesOnDisk(files, plan.states.known))


def checked(folder: Any) -> Path:
    """Return the folder of a checkpoint, which is made if it is not there."""
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(
            f"checkpoint: must be the path of a folder, found {folder!r}. Pass for example "
            "checkpoint='run/'."
        )
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"checkpoint: must be a folder, or one that can be made, found {os.fspath(path)!r} "
            f"({error}). Pass another one."
        ) from error
    return path


def agreed_seed(files: StateFiles, identity: Mapping[str, str], seed: int) -> int:
    """Return the seed of the fit in a checkpoint; a new one is marked as that of this fit.

    A checkpoint of another fit is refused.
    """
    found, folder = files.read(IDENTITY), files.path("")
    if found is None:
        others = files.names()
        if others:
            raise ValueError(
                f"{files.argument}: must be an empty folder or one of an earlier call, found "
                f"{others[0]!r} in {folder!r}. Pass another folder."
            )
        files.write(IDENTITY, json.dumps({**identity, "seed": seed}).encode())
        return seed
    known = json.loads(found)
    for what in identity:
        if known.get(what) != identity[what]:
            raise ValueError(
                f"{files.argument}: the folder belongs to a fit of other {what}, found "
                f"{folder!r}. Repeat that call as it was, or pass another folder."
            )
    return int(known["seed"])
