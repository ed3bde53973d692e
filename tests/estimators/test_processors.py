"""One seed is one model, whichever processor compiles the loops and chooses the kernels."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tpnn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="kernels of x86"),
]
FIT = """
import sys
import numpy as np
from tpnn import TPNNClassifier, TPNNRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4))
X[:, 3] = rng.integers(0, 4, 400)
score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * X[:, 3] + 0.3 * rng.normal(size=400)
found = {}
for name, kind, y, bands in (
    ("numbers", TPNNRegressor, score, True),
    ("classes", TPNNClassifier, score > 0.3, True),
    ("grown", TPNNRegressor, score, False),
):
    frozen = kind(random_state=0, n_bags=4, bands=bands).fit(X, y).model_
    found[name + " components"] = np.array([str(component) for component in frozen.components])
    found[name + " tables"] = np.concatenate([table.ravel() for table in frozen.tables])
    found[name + " raw scores"] = frozen.raw_scores(X)
np.savez(sys.argv[1], **found)
"""


def fitted(folder: Path, **environment: str) -> dict[str, np.ndarray]:
    """Arrays of two models that are fitted in a process of its own with some variables set."""
    path = folder / "found.npz"
    subprocess.run(
        [sys.executable, "-c", FIT, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(tpnn.__file__).parents[1]), **environment},
        check=True,
    )
    with np.load(path) as arrays:
        return dict(arrays)


def wide_kernels() -> str:
    """Name what NumPy could use of this processor beyond AVX2."""
    used = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return " ".join(name for name in used if "512" in name or name == "X86_V4")


def test_a_seed_gives_the_same_bits_compiled_for_any_processor(tmp_path: Path) -> None:
    own, other = fitted(tmp_path), fitted(tmp_path, NUMBA_CPU_NAME="generic")
    for name, array in own.items():
        assert array.tobytes() == other[name].tobytes(), name


def test_other_kernels_of_numpy_and_blas_move_the_last_digits_alone(tmp_path: Path) -> None:
    own = fitted(tmp_path)
    other = fitted(
        tmp_path, NPY_DISABLE_CPU_FEATURES=wide_kernels(), OPENBLAS_CORETYPE="Nehalem"
    )  # of a library that knows these names
    for name, array in own.items():
        if name.endswith("components"):
            assert list(array) == list(other[name])
        else:
            rounding = 1e-12 if name.startswith("grown") else 1e-11  # posteriors: linear systems
            assert np.allclose(array, other[name], rtol=rounding, atol=rounding), name
