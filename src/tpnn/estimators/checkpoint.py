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

import numpy as np

from tpnn import __version__
from tpnn.estimators.warm_start import Begun, rows_digest
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.states import FilesInFolder, StateFiles, StatesOnDisk, digest_of

IDENTITY = "fit.json"
UNCOMPARED = ("n_jobs", "verbose")  # parameters that change no model


def with_checkpoint(begun: Begun, folder: Any, asked: Mapping[str, Any], task: str) -> Begun:
    """Return how a fit begins whose growths are kept in a folder, and resumed if they are there.

    ``asked`` are the parameters of the estimator and what it starts from. In place of the path of a
    folder, files that are elsewhere may be passed.
    """
    files: StateFiles = folder if isinstance(folder, StateFiles) else FilesInFolder(checked(folder))
    identity = {
        "version": __version__,
        "rows": rows_digest(RowSums(begun.given.table), begun.given.targets),
        "parameters": digest_of_parameters(asked, task),
    }
    settings = begun.given.settings
    seed = agreed_seed(files, identity, settings.seed)
    given = begun.given._replace(settings=replace(settings, seed=seed))
    return begun._replace(given=given, states=StatesOnDisk(files, begun.states.known))


def digest_of_parameters(asked: Mapping[str, Any], task: str) -> str:
    """Digest of what a fit was asked for, but for what changes no model."""
    compared = {name: value for name, value in asked.items() if name not in UNCOMPARED}
    return digest_of((task, plain(compared)))


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


def plain(value: Any) -> Any:
    """Return a parameter as lists, numbers and text, for a digest."""
    if isinstance(value, Mapping):
        return [[plain(name), plain(item)] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if hasattr(value, "get_params"):
        return [type(value).__name__, plain(value.get_params())]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [type(value).__name__, getattr(value, "__qualname__", "")]
