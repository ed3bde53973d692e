"""Fits on a real cluster of Ray with two workers: the bits of one process, whatever is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import tpnn
from tests.conftest import QUICK
from tests.solvers.cluster.tables import assert_same, write_table
from tpnn import TPNNClassifier, TPNNRegressor, distributed
from tpnn.solvers.cluster.ray import Cluster

ray = pytest.importorskip("ray", reason="fits on a cluster need Ray")

SETTINGS = {**QUICK, "order": 2, "bands": False}
MESSAGES_BEFORE_A_LOSS = 60

KILLED = """
import os, signal, sys
from tests.solvers.cluster.test_ray import SETTINGS
from tpnn import TPNNRegressor, distributed
from tpnn.solvers.states import StatesOnDisk

keep, n_left = StatesOnDisk.keep, [2]
def killing(states, *state, **options):
    keep(states, *state, **options)
    n_left[0] -= 1
    if n_left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
StatesOnDisk.keep = killing
distributed.fit(TPNNRegressor(**SETTINGS), sys.argv[1], storage=sys.argv[2])
"""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers on this machine, which do not stand back behind other processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        try:
            ray.init(
                num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error",
                object_store_memory=100_000_000,
            )  # fmt: skip
        except (OSError, RuntimeError, ray.exceptions.RayError) as error:  # as in small containers
            pytest.skip(f"a cluster of Ray does not start here: {error}")
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_table(tmp_path_factory.mktemp("table"))


def test_two_classes_by_the_script(files: str, tmp_path: Path, monkeypatch: Any) -> None:
    place = Path(__file__).parents[3] / "contrib" / "cluster" / "fit.py"
    about = spec_from_file_location("fit", place)
    assert about is not None
    assert about.loader is not None
    script: Any = module_from_spec(about)
    about.loader.exec_module(script)
    monkeypatch.setattr(script, "MODEL", TPNNClassifier(**SETTINGS))
    output = str(tmp_path / "model.tpnn")
    arguments = [files, "label", str(tmp_path / "run"), "--workers", "1", "--output", output]
    monkeypatch.setattr(sys, "argv", ["fit.py", *arguments])
    script.main()
    expected = TPNNClassifier(**SETTINGS).fit(files, "label")
    for found, known in zip(tpnn.load(output).model_.tables, expected.model_.tables, strict=True):
        assert (found == known).all()


def test_numbers_with_weights_by_two_workers_of_which_one_is_lost(
    files: str, tmp_path: Path, monkeypatch: Any
) -> None:
    teams, ask = list[Cluster](), Cluster.ask

    def ask_and_kill(team: Cluster, requests: Any) -> Any:
        teams.append(team)
        if len(teams) == MESSAGES_BEFORE_A_LOSS:
            ray.kill(team.workers[1])
        return ask(team, requests)

    monkeypatch.setattr(Cluster, "ask", ask_and_kill)
    found = distributed.fit(
        TPNNRegressor(**SETTINGS), files, storage=tmp_path, workers=2, weight="weight"
    )
    assert teams[0].n_replaced == 1
    assert len(teams) > 2 * MESSAGES_BEFORE_A_LOSS
    assert_same(found, TPNNRegressor(**SETTINGS).fit(files, "y", sample_weight="weight"))


@pytest.mark.slow
def test_a_killed_driver_is_resumed(files: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    known = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
    }
    command = [sys.executable, "-c", KILLED, files, str(tmp_path)]
    ended = subprocess.run(command, env=known, cwd=root, check=False, timeout=300)
    assert ended.returncode == -signal.SIGKILL
    found = distributed.fit(TPNNRegressor(**SETTINGS), files, storage=tmp_path)
    assert_same(found, TPNNRegressor(**SETTINGS).fit(files, "y"))
