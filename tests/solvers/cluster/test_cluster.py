"""Workers that are lost, slow or wrong, and bad input; Ray is played by a fake in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from glob import glob
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tests.solvers.cluster.fake_ray import FakeRay
from tests.solvers.cluster.tables import assert_same, write_table
from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, distributed
from tpnn.estimators import distributed as fitting
from tpnn.solvers.cluster import ray as cluster
from tpnn.solvers.cluster.storage import Storage
from tpnn.solvers.cluster.worker import Worker
from tpnn.solvers.states import StatesOnDisk

pyarrow_dataset = pytest.importorskip("pyarrow.dataset", reason="fits on a cluster read Parquet")

SETTINGS = {**QUICK, "order": 1, "bands": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def expected(files: str) -> TPNNRegressor:
    return TPNNRegressor(**SETTINGS).fit(files, "y", sample_weight="weight")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeRay], FakeRay]:
    """Let fits take a fake for Ray."""

    def use(fake: FakeRay) -> FakeRay:
        monkeypatch.setattr(fitting, "import_ray", lambda: fake)
        return fake

    return use


def fitted(files: Any, storage: Path, workers: int = 2, **parameters: Any) -> TPNNRegressor:
    estimator = TPNNRegressor(**SETTINGS | parameters)
    return distributed.fit(estimator, files, storage=storage, workers=workers, weight="weight")


@pytest.mark.parametrize(
    ("call", "fault"),
    [(("read", 2), "dies before"), (("read", 5), "dies after"), (("read", 10), "is slow"),
     (("hold", 1), "dies before"), (("begin", 2), "is slow"), (("answer", 1), "dies after"),
     (("answer", 90), "dies before"), (("answer", 91), "dies after"), (("answer", 92), "is slow")],
)  # fmt: skip
def test_a_lost_worker_changes_no_bit(
    call: tuple[str, int], fault: str, files: str, expected: Any, tmp_path: Path, use: Any
) -> None:
    fake = use(FakeRay({call: fault}))
    assert_same(fitted(files, tmp_path), expected)
    assert not fake.faults
    assert len(fake.handles) == 3
    assert not any(handle.is_alive for handle in fake.handles)  # nothing is left behind


@pytest.mark.parametrize(
    "faults", [{}, {("answer", 30): "dies before"}, {("answer", 31): "dies after"}]
)
def test_many_workers_add_in_two_levels(
    faults: Any, files: str, expected: Any, tmp_path: Path, use: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(cluster, "MOST_ANSWERS_AT_ONCE", 2)
    fake = use(FakeRay(faults))
    assert_same(fitted(files, tmp_path, workers=5), expected)
    assert fake.calls.count("add") > fake.calls.count("answer") / 2
    assert len(fake.handles) == 5 + len(faults)


def test_workers_lost_one_after_the_other_end_the_fit(files: str, tmp_path: Path, use: Any) -> None:
    fake = use(FakeRay({("read", n): "dies before" for n in (1, 2, 3)}))
    with pytest.raises(RuntimeError, match=r"^workers: one that is lost .* found 3 lost one after"):
        fitted(files, tmp_path, workers=1)
    assert not any(handle.is_alive for handle in fake.handles)


def test_too_few_cores(files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay({("version", 2): "is slow"}))
    with pytest.raises(TimeoutError, match=r"^workers: 2 free cores are needed, found too few"):
        fitted(files, tmp_path)


def test_machines_without_the_library(files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay({("version", 1): "dies before"}))
    with pytest.raises(RuntimeError, match=r"^workers: every machine must be able to start one"):
        fitted(files, tmp_path)


def test_other_versions_are_refused(files: str, tmp_path: Path, use: Any, monkeypatch: Any) -> None:
    use(FakeRay())
    monkeypatch.setattr(Worker, "version", lambda worker: "0.0.1")
    with pytest.raises(
        RuntimeError, match=r"^workers: every machine must have tpnn .* \['0.0.1'\]"
    ):
        fitted(files, tmp_path)


def test_what_a_worker_raises_is_raised(
    files: str, tmp_path: Path, use: Any, monkeypatch: Any
) -> None:
    fake = use(FakeRay())

    def hold(worker: Worker, share: Any) -> None:
        worker.storage.read("nowhere.npz")

    monkeypatch.setattr(Worker, "hold", hold)
    with pytest.raises(OSError, match=r"^storage: every machine must be able to read"):
        fitted(files, tmp_path)
    assert len(fake.handles) == 2  # they are not at fault


def test_a_storage_may_be_used_again_for_the_same_fit(
    files: str, expected: Any, tmp_path: Path, use: Any
) -> None:
    use(FakeRay())
    for _ in range(2):
        assert_same(fitted(files, tmp_path), expected)


def test_a_storage_of_another_fit_is_refused(
    files: str, tmp_path: Path, use: Any, monkeypatch: Any
) -> None:
    use(FakeRay())
    fitted(files, tmp_path / "run")
    with pytest.raises(ValueError, match=r"^storage: must be empty .* one with other parameters"):
        fitted(files, tmp_path / "run", random_state=1)
    with pytest.raises(ValueError, match=r"^storage: must be empty .* one with other data in"):
        fitted(write_table(tmp_path), tmp_path / "run")
    monkeypatch.setattr(fitting, "__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"^storage: must be empty .* one with other version in"):
        fitted(files, tmp_path / "run")
    with pytest.raises(ValueError, match=r"^storage: must be empty .* found '1.parquet' in"):
        fitted(files, tmp_path)


def test_a_storage_that_cannot_be_written(files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay())
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^storage: must be a folder that can be written"):
        fitted(files, tmp_path / "file" / "run")


def test_bad_arguments(files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay())
    model = TPNNRegressor(**SETTINGS)
    with pytest.raises(
        ValueError, match=r"^workers: must be a whole number of at least 1, found 0"
    ):
        distributed.fit(model, files, storage=tmp_path, workers=0)
    with pytest.raises(TypeError, match=r"^estimator: must be a TPNNRegressor or a TPNNClassifier"):
        distributed.fit(TPNNSurvival(), files, storage=tmp_path)
    with pytest.raises(ValueError, match=r"^solver: must be Grow, .* found Descent"):
        distributed.fit(TPNNClassifier(solver=Descent()), files, storage=tmp_path)
    with pytest.raises(TypeError, match=r"^source: a path of Parquet files .* found ndarray"):
        distributed.fit(model, np.zeros((3, 1)), storage=tmp_path)
    with pytest.raises(ValueError, match=r"^solver: must be .* found 'newton'"):
        distributed.fit(TPNNRegressor(solver="newton"), files, storage=tmp_path)
    with pytest.raises(ValueError, match=r"^y: must be a column of .* found 'price'"):
        distributed.fit(model, files, "price", storage=tmp_path)
    assert not list(tmp_path.iterdir())  # so that the same folder can be used for the next try


def test_without_ray_or_a_cluster(files: str, tmp_path: Path, monkeypatch: Any) -> None:
    model = TPNNRegressor(**SETTINGS)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^tpnn.distributed: .* by Ray .* \"tpnn\[ray\]\""):
        distributed.fit(model, files, storage=tmp_path)
    alone = FakeRay(has_cluster=False)
    monkeypatch.setitem(sys.modules, "ray", alone)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    with pytest.raises(ConnectionError, match=r"^tpnn.distributed: RAY_ADDRESS .* '10.0.0.9:6379'"):
        distributed.fit(model, files, storage=tmp_path)
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.warns(UserWarning, match=r"^tpnn.distributed: no .* this machine, with 3 workers"):
        distributed.fit(model, files, storage=tmp_path, workers=3)
    assert alone.started["num_cpus"] == 3
    assert_same(model, TPNNRegressor(**SETTINGS).fit(files, "y"))


class StoppedError(Exception):
    """Stands for the end of a driver."""


def stopping(n_states: int, patch: pytest.MonkeyPatch) -> None:
    """Let a driver end after it has written so many states."""
    keep, written = StatesOnDisk.keep, []

    def keep_some(states: StatesOnDisk, *state: Any, **options: Any) -> None:
        keep(states, *state, **options)
        written.append(state)
        if len(written) == n_states:
            raise StoppedError

    patch.setattr(StatesOnDisk, "keep", keep_some)


@pytest.mark.parametrize(
    ("kind", "n_states", "fault"),
    [(TPNNRegressor, 4, {("answer", 40): "dies after"}), (TPNNClassifier, 1, {})],
)
def test_a_driver_that_ended_is_resumed(
    kind: Any, n_states: int, fault: Any, files: str, tmp_path: Path, use: Any
) -> None:
    """It goes on with fewer or more workers than before, which may be lost again."""
    settings = {**SETTINGS, "order": 2, "solver": Grow(max_rounds=120, patience=120)}
    target = "y" if kind is TPNNRegressor else "label"
    expected = kind(**settings).fit(files, target)

    def again(fake: FakeRay, workers: int) -> FakeRay:
        model, faults = kind(**settings), len(use(fake).faults)
        found = distributed.fit(model, files, target, storage=tmp_path, workers=workers)
        assert_same(found, expected)
        assert len(fake.handles) == workers + faults
        return fake

    first = use(FakeRay())
    with pytest.MonkeyPatch.context() as patch:
        stopping(n_states, patch)
        with pytest.raises(StoppedError):
            distributed.fit(kind(**settings), files, target, storage=tmp_path, workers=2)
    assert not any(handle.is_alive for handle in first.handles)
    assert "answer" in again(FakeRay(fault), workers=3).calls
    assert set(again(FakeRay(), workers=1).calls) == {"version", "read"}  # nothing is left to grow


def test_blocks_are_written_once(files: str, tmp_path: Path, use: Any, monkeypatch: Any) -> None:
    use(FakeRay())
    fitted(files, tmp_path)
    written, write = list[str](), Storage.write_bytes
    monkeypatch.setattr(
        Storage, "write_bytes", lambda s, name, data: (written.append(name), write(s, name, data))
    )
    fitted(files, tmp_path)
    assert set(written) <= {"tpnn.json"}


@pytest.mark.parametrize("kind", ["codes", "rows", "bags"])
def test_a_damaged_block_is_named(kind: str, files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay())
    fitted(files, tmp_path)
    block = sorted(tmp_path.glob(f"{kind}-*/*.npz"))[1]
    block.write_bytes(block.read_bytes()[:-100])
    with pytest.raises(OSError, match=rf"found '{block.relative_to(tmp_path)}' missing or damaged"):
        fitted(files, tmp_path)
    block.unlink()
    fitted(files, tmp_path)


def test_a_random_seed_is_remembered(files: str, tmp_path: Path, use: Any) -> None:
    use(FakeRay())
    one, two = (fitted(files, tmp_path, random_state=None) for _ in range(2))
    assert_same(one, two)


class FakeDataset:
    """A dataset of Ray: tables of Arrow, in any order."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    def iter_batches(self, **options: Any) -> Any:
        assert options == {"batch_size": None, "batch_format": "pyarrow"}
        yield from self.blocks


def test_a_dataset_of_ray_is_copied(
    files: str, expected: Any, tmp_path: Path, use: Any, monkeypatch: Any
) -> None:
    use(FakeRay())
    monkeypatch.setitem(sys.modules, "ray.data", SimpleNamespace(Dataset=FakeDataset))
    rows = pyarrow_dataset.dataset(sorted(glob(files))).to_table()
    blocks = [rows[:100], rows[100:100], rows[100:]]
    for source in (FakeDataset(blocks), FakeDataset(blocks[::-1])):
        assert_same(fitted(source, tmp_path / "run"), expected)
    with pytest.raises(ValueError, match=r"^storage: must be empty .* one with other data in"):
        fitted(FakeDataset(blocks[2:]), tmp_path / "run")
    with pytest.raises(ValueError, match=r"^source: rows are needed, found none in the dataset"):
        fitted(FakeDataset(blocks[1:2]), tmp_path / "empty")
    assert not (tmp_path / "empty").exists()
    with pytest.raises(ValueError, match=r"^offset: must be None with a dataset of Ray"):
        distributed.fit(TPNNRegressor(), FakeDataset(blocks), storage=tmp_path, offset=np.ones(400))
