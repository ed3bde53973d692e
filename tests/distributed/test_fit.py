"""Fits on a cluster of Ray with two workers: the bits of one process, whatever is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import Descent, TPNNClassifier, TPNNRegressor, TPNNSurvival, distributed
from tpnn.distributed import cluster as cluster_module
from tpnn.distributed.cluster import Cluster
from tpnn.distributed.storage import Storage

ray = pytest.importorskip("ray", reason="fits on a cluster need Ray")

SETTINGS = {**QUICK, "order": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error",
        object_store_memory=100_000_000,
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small table in two files."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(400, 3)).round(2), columns=["a", "b", "c"])
    frame["level"] = rng.choice(["x", "y", None], 400)
    frame["weight"] = rng.integers(0, 3, 400).astype(float)
    frame["y"] = np.sin(frame.a) + frame.b * (frame.level == "x") + 0.1 * rng.normal(size=400)
    folder = tmp_path_factory.mktemp("table")
    frame[:150].to_parquet(folder / "1.parquet")
    frame[150:].to_parquet(folder / "2.parquet")
    frame.assign(y=np.where(frame.y > 0, "yes", "no")).to_parquet(folder / "labels.pq")
    return str(folder)


def assert_same(one: Any, other: Any) -> None:
    """Two fitted estimators have the same model in every bit, from the same rows."""
    a, b = one.model_, other.model_
    assert a.components == b.components
    assert np.array_equal(a.intercepts, b.intercepts)
    assert all(np.array_equal(x, y) for x, y in zip(a.tables, b.tables, strict=True))
    assert a.provenance.fingerprint == b.provenance.fingerprint
    assert a.provenance.scores == b.provenance.scores


@pytest.mark.usefixtures("cluster")
class TestOnACluster:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_numbers(self, path: str, workers: int, tmp_path: Path) -> None:
        expected = TPNNRegressor(**SETTINGS).fit(f"{path}/*.parquet", "y")
        found = distributed.fit(
            TPNNRegressor(**SETTINGS), f"{path}/*.parquet", storage=tmp_path, workers=workers
        )
        assert_same(found, expected)
        assert (tmp_path / "tpnn.json").exists()

    def test_two_classes(self, path: str, tmp_path: Path) -> None:
        expected = TPNNClassifier(**SETTINGS).fit(f"{path}/labels.pq", "y")
        found = distributed.fit(TPNNClassifier(**SETTINGS), f"{path}/labels.pq", storage=tmp_path)
        assert_same(found, expected)

    def test_weights_and_a_worker_that_is_lost(
        self, path: str, tmp_path: Path, monkeypatch: Any
    ) -> None:
        """One is lost while it answers, another between two answers; workers add in two levels."""
        monkeypatch.setattr(cluster_module, "MOST_ANSWERS_AT_ONCE", 1)
        teams, ask = [], Cluster.ask

        def ask_and_kill(team: Cluster, requests: Any) -> Any:
            teams.append(team)
            if len(teams) in (40, 90):
                ray.kill(team.workers[len(teams) == 90])
            return ask(team, requests)

        monkeypatch.setattr(Cluster, "ask", ask_and_kill)
        files = f"{path}/*.parquet"
        found = distributed.fit(
            TPNNRegressor(**SETTINGS), files, storage=tmp_path, workers=2, weight="weight"
        )
        assert teams[0].n_replaced == 2
        assert_same(found, TPNNRegressor(**SETTINGS).fit(files, "y", sample_weight="weight"))

    def test_a_worker_that_dies_each_time_ends_the_fit(
        self, path: str, tmp_path: Path, monkeypatch: Any
    ) -> None:
        send = Cluster._send

        def send_and_kill(team: Cluster, number: int, method: str, argument: Any) -> Any:
            pending = send(team, number, method, argument)
            ray.kill(team.workers[number])
            return pending

        monkeypatch.setattr(Cluster, "_send", send_and_kill)
        with pytest.raises(RuntimeError, match="^workers: one that is lost is replaced, found 3"):
            distributed.fit(
                TPNNRegressor(**SETTINGS), f"{path}/*.parquet", storage=tmp_path, workers=1
            )

    def test_too_few_cores(self, path: str, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(cluster_module, "SECONDS_TO_START", 0.2)
        with pytest.raises(TimeoutError, match="^workers: 9 free cores are needed, found too few"):
            distributed.fit(
                TPNNRegressor(**SETTINGS), f"{path}/*.parquet", storage=tmp_path, workers=9
            )
