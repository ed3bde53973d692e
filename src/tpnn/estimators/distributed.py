"""fit: an estimator fitted on a cluster, to the same bits as on one machine."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tpnn import __version__
from tpnn._utils.rules import COUNT, check_parameters
from tpnn.estimators.classifier import TPNNClassifier
from tpnn.estimators.fit_record import settings_digest
from tpnn.estimators.inputs import solver_of
from tpnn.estimators.parameters import rules_of
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.solvers.cluster.driver import ClusterBackend
from tpnn.solvers.cluster.passes import read_by
from tpnn.solvers.cluster.ray import Cluster, connect, copied, import_ray, is_of_ray
from tpnn.solvers.cluster.storage import StatesInStorage, Storage
from tpnn.solvers.grow.backend import growing_at
from tpnn.solvers.grow.solver import Grow
from tpnn.table.columns import is_in_files
from tpnn.table.files.reading import using_reader
from tpnn.table.files.source import Source

Estimator = TypeVar("Estimator", TPNNRegressor, TPNNClassifier)


def fit(
    estimator: Estimator,
    source: Any,
    target: Any = "y",
    *,
    storage: str | os.PathLike[str],
    workers: int = 2,
    weight: str | None = None,
    offset: Any = None,
    groups: str | None = None,
) -> Estimator:
    """Fit an estimator to Parquet files; main effects and pairs grow on the workers of a cluster.

    The model is that of ``estimator.fit(source, target)`` in one process, bit for bit, for any
    number of workers on machines of the same kind, and if workers are lost on the way. Workers read
    the table, place nodes, code rows, hold them and add. The driver, which is the process that
    calls this, reads targets and weights, draws bags, and decides what grows. A dataset with a
    filter has no row groups to share out, so that the driver reads it alone. It needs
    ``tpnn[ray]``, and a cluster of Ray; where none runs, one is started on this machine.

    Parameters
    ----------
    estimator : TPNNRegressor or TPNNClassifier
        With the solver ``Grow``, which is the default.
    source : path, pyarrow.dataset.Dataset or ray.data.Dataset
        A Parquet file, a folder of them, a pattern such as ``"data/*.parquet"``, an address such as
        ``"s3://bucket/table/"``, or a dataset of pyarrow. A dataset of Ray is copied to files in
        ``storage`` first.
    target : str or list of str, default="y"
        Column of the target, or columns of several.
    storage : path
        Folder that all machines can read, for coded rows and, after every 50 rounds, states of
        growth; it must be empty, or of the same fit. If the driver is interrupted or killed, the
        same call resumes the fit from there, to the same bits. It may be deleted afterwards.
    workers : int, default=2
        Number of workers, each with one core.
    weight, groups : str, optional
        Columns of weights and of groups, as ``sample_weight`` and ``groups`` of ``fit``.
    offset : array of shape (n_rows,), optional
        Known part of the raw score, as in ``fit``; a column of it is a parameter of the estimator.

    Returns
    -------
    TPNNRegressor or TPNNClassifier
        The same estimator, fitted.

    Examples
    --------
    >>> import ray
    >>> from tpnn import TPNNRegressor, distributed
    >>> ray.init(address="auto")  # doctest: +SKIP
    >>> model = distributed.fit(
    ...     TPNNRegressor(random_state=0), "s3://bucket/table/", "y",
    ...     storage="s3://bucket/run/", workers=64,
    ... )  # doctest: +SKIP
    """
    _check_estimator(estimator)
    check_parameters({"workers": workers}, {"workers": COUNT})
    _check_source(source, offset)
    ray = import_ray()
    arguments = {"target": target, "weight": weight, "groups": groups, "offset": _digest(offset)}
    folder = Storage(storage)
    parameters = settings_digest(type(estimator).__name__, estimator.get_params(deep=False))
    folder.claim({"version": __version__, "parameters": parameters})
    if is_of_ray(source):
        source = copied(source, folder)
    opened = Source(source)
    if opened.copy is not None:
        raise ValueError(
            f"source: all machines must be able to read the files, and CSV files such as "
            f"{opened.words} are copied to this one first. Write them as Parquet, for example with "
            "pyarrow.dataset.write_dataset."
        )
    data = opened.state(), opened.n_rows, opened.names, sorted(arguments.items())
    folder.claim({"data": _digest(data)})  # other rows are told by the state of their files
    n_workers = min(int(workers), opened.n_rows)
    connect(ray, n_workers)
    team = Cluster(ray, folder, n_workers)
    states, reader = StatesInStorage(folder), partial(read_by, folder, team)
    with team, growing_at(ClusterBackend(folder, team)), using_reader(reader):
        return estimator.fit(
            source, target, weight, offset=offset, groups=groups, checkpoint=states
        )


def _check_estimator(estimator: Any) -> None:
    """Refuse estimators whose rows cannot be dealt to several machines."""
    if not isinstance(estimator, TPNNRegressor | TPNNClassifier):
        raise TypeError(
            f"estimator: must be a TPNNRegressor or a TPNNClassifier, found "
            f"{type(estimator).__name__}. Fit others on one machine: the loss of a survival model "
            "couples all rows."
        )
    check_parameters(estimator.get_params(deep=False), rules_of(type(estimator)))
    solver = solver_of(estimator.solver, estimator.device)
    if not isinstance(solver, Grow):
        raise ValueError(
            f"solver: must be Grow, whose sums workers can share, found {type(solver).__name__}. "
            "Pass solver=Grow() and device='cpu', or call estimator.fit."
        )


def _check_source(source: Any, offset: Any) -> None:
    """Refuse tables in memory, and an offset of rows that have no order."""
    if not (is_in_files(source) or is_of_ray(source)):
        raise TypeError(
            f"source: a path of Parquet files or a dataset of pyarrow or Ray is needed, found "
            f"{type(source).__name__}. Write the table to files, or call estimator.fit."
        )
    if is_of_ray(source) and offset is not None:
        raise ValueError(
            "offset: must be None with a dataset of Ray, whose rows have no order, found "
            f"{type(offset).__name__}. Add it as a column, and name that in the estimator."
        )


def _digest(values: Any) -> str:
    """Digest of values, of all those in an array."""
    content = values.tobytes() if isinstance(values, np.ndarray) else repr(values).encode()
    return hashlib.sha256(content).hexdigest()[:16]
