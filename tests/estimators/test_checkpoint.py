"""fit(checkpoint=...): a fit that is killed is resumed by the same call, to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import SMALL
from tpnn import Grow, TPNNClassifier, TPNNRegressor
from tpnn.estimators.fit_record import settings_digest
from tpnn.model.edit_log import digest
from tpnn.solvers import states
from tpnn.solvers.grow import deep
from tpnn.solvers.states import StatesOnDisk

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
Y = np.sin(2 * X.a) + X.a * X.b + 0.1 * rng.normal(size=150)

KILLED = """
import os, signal, sys
import numpy as np
from tests.estimators.test_checkpoint import Y, X, estimator
from tpnn.solvers.states import StatesOnDisk

keep, n_left = StatesOnDisk.keep, [int(sys.argv[2])]
def killing(self, *state, **options):
    keep(self, *state, **options)
    n_left[0] -= 1
    if n_left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
StatesOnDisk.keep = killing
estimator().fit(X, Y, checkpoint=sys.argv[1])
"""


def estimator(**settings: Any) -> TPNNRegressor:
    solver = Grow(max_rounds=120, patience=60)
    return TPNNRegressor(**{**SMALL, "solver": solver, "n_jobs": 1, **settings})


@pytest.fixture(scope="module")
def expected() -> str:
    return digest(estimator().fit(X, Y).model_)


class StoppedError(Exception):
    """Stands for Ctrl-C, which would end the tests too."""


def interrupt_after(n_states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keep, written = StatesOnDisk.keep, []

    def keep_some(self: StatesOnDisk, *state: Any, **options: Any) -> None:
        keep(self, *state, **options)
        written.append(state)
        if len(written) == n_states:
            raise StoppedError

    monkeypatch.setattr(StatesOnDisk, "keep", keep_some)


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_an_interrupted_fit_is_resumed(
    n_states: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(n_states, patch)
        with pytest.raises(StoppedError):
            estimator().fit(X, Y, checkpoint=tmp_path)
    assert digest(estimator(n_jobs=2).fit(X, Y, checkpoint=tmp_path).model_) == expected


@pytest.mark.slow
def test_a_killed_process_is_resumed(expected: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "run"), "3"], env=known, cwd=root, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert digest(estimator().fit(X, Y, checkpoint=tmp_path / "run").model_) == expected


def test_growth_is_not_repeated(
    expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator().fit(X, Y, checkpoint=tmp_path)
    monkeypatch.setattr("tpnn.solvers.grow.forest.RectangleForest.visit", None)
    assert digest(estimator().fit(X, Y, checkpoint=tmp_path).model_) == expected


def test_a_random_seed_is_remembered(tmp_path: Path) -> None:
    fits = [estimator(random_state=None, order=1).fit(X, Y, checkpoint=tmp_path) for _ in range(2)]
    assert digest(fits[0].model_) == digest(fits[1].model_)


def test_a_checkpoint_of_another_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"order": 1, "solver": Grow(max_rounds=10)}
    estimator(**quick).fit(X, Y, checkpoint=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    refused: list[tuple[Any, tuple[Any, Any], str]] = [
        (estimator(**quick), (X, 2 * Y), "rows"),
        (estimator(**quick, n_bags=3), (X, Y), "parameters"),
        (TPNNClassifier(**SMALL), (X, Y > 0), "rows"),
    ]
    for model, rows, what in refused:
        with pytest.raises(
            ValueError, match=f"checkpoint: the folder belongs to a fit of other {what}"
        ):
            model.fit(*rows, checkpoint=tmp_path)
    monkeypatch.setattr("tpnn.estimators.warm_start.__version__", "99")
    with pytest.raises(ValueError, match="the folder belongs to a fit of other version"):
        estimator(**quick).fit(X, Y, checkpoint=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_folders_that_cannot_serve_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"must be an empty folder .*found 'file'"):
        estimator().fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(OSError, match="checkpoint: must be a folder, or one that can be made"):
        estimator().fit(X, Y, checkpoint=tmp_path / "file")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(states, "write_file", full)
    with pytest.raises(OSError, match=r"has room, found .*No space left on device"):
        estimator().fit(X, Y, checkpoint=tmp_path / "new")


def of_other_values(data: bytes) -> bytes:
    """File of a growth with one number moved."""
    seal, _, content = data.partition(b"\n")
    with np.load(BytesIO(content)) as file:
        arrays: dict[str, Any] = dict(file)
    name = next(name for name in arrays if arrays[name].dtype.kind == "f" and arrays[name].size)
    arrays[name] = arrays[name] + 1.0
    changed = BytesIO()
    np.savez(changed, **arrays)
    return seal + b"\n" + changed.getvalue()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:50],
    "empty": lambda data: b"",
    "no seal": lambda data: data.partition(b"\n")[2],
    "other bytes": lambda data: data[:-5] + bytes(5),
    "other values": of_other_values,
    "more": lambda data: data + b" ",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    """Also where what it holds could be read."""
    quick = {"order": 1, "solver": Grow(max_rounds=10)}
    estimator(**quick).fit(X, Y, checkpoint=tmp_path)
    kinds = ("*.npz",) if damage == "other values" else ("*.npz", "fit.json")
    for kind in kinds:
        before = {path: path.read_bytes() for path in tmp_path.glob(kind)}
        for path, data in before.items():
            path.write_bytes(DAMAGES[damage](data))
        with pytest.raises(ValueError, match=r"^checkpoint: its files must be as they were writ"):
            estimator(**quick).fit(X, Y, checkpoint=tmp_path)
        for path, data in before.items():
            path.write_bytes(data)


def test_a_growth_does_not_go_on_from_another_one(tmp_path: Path) -> None:
    quick = {"order": 1, "solver": Grow(max_rounds=10)}
    estimator(**quick).fit(X, Y, checkpoint=tmp_path)
    one, other, *_ = sorted(tmp_path.glob("*.npz"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(ValueError, match=r"^checkpoint: .* is damaged or not its own\. Delete it"):
        estimator(**quick).fit(X, Y, checkpoint=tmp_path)


def test_settings_are_the_same_by_what_they_hold() -> None:
    def scaled(factor: float) -> Any:
        return lambda y, raw: factor * (y - raw) ** 2

    def told(**settings: Any) -> str:
        return settings_digest("regression", settings)

    assert told(a=[1, (2, "b")]) == told(a=np.array([1, (2, "b")], dtype=object))
    assert told(a=1, n_jobs=2) == told(a=1, n_jobs=3)
    assert told(objective=scaled(1.0)) == told(objective=scaled(1.0))
    assert told(objective=scaled(1.0)) != told(objective=scaled(2.0))
    assert told(objective=lambda y, raw: y - raw) != told(objective=lambda y, raw: raw - y)
    assert told(solver=Grow(l2=0.1)) != told(solver=Grow(l2=0.2))


@pytest.mark.parametrize("stage", ["deep trees", "1 state", "4 states"])
def test_a_fit_with_deep_trees_is_resumed(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees grow again, and what is mixed with them goes on where it was."""
    settings = {"remainder": True, "max_components": 2}
    whole = estimator(**settings).fit(X, Y).model_
    assert whole.remainder is not None
    with monkeypatch.context() as patch:
        if stage == "deep trees":
            grow, grown = deep.grow_tree, []

            def grow_some(*arguments: Any) -> Any:
                grown.append(grow(*arguments))
                if len(grown) == 40:
                    raise StoppedError
                return grown[-1]

            patch.setattr(deep, "grow_tree", grow_some)
        else:
            interrupt_after(int(stage[0]), patch)
        with pytest.raises(StoppedError):
            estimator(**settings).fit(X, Y, checkpoint=tmp_path)
    again = estimator(n_jobs=2, **settings).fit(X, Y, checkpoint=tmp_path)
    assert digest(again.model_) == digest(whole)
