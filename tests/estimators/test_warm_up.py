"""warmup, by what fits compile after it."""

from __future__ import annotations

import subprocess
import sys

AFTER = """
import gc
import numba
import numpy as np
import pandas as pd
import tpnn

def compiled():
    kinds = [f for f in gc.get_objects() if isinstance(f, numba.core.dispatcher.Dispatcher)]
    ours = [f for f in kinds if f.py_func.__module__.startswith("tpnn.")]
    return {(f.py_func.__qualname__, str(s)) for f in ours for s in f.signatures}

tpnn.warmup()
before = compiled()
rng = np.random.default_rng(1)
X = pd.DataFrame(rng.normal(size=(700, 4)), columns=list("abcd"))
X["e"] = rng.choice(["x", "y"], 700)
X.loc[::9, "b"] = np.nan
y = X.a * X.c + (X.e == "x") + rng.normal(size=700)
quick = {"solver": tpnn.Grow(max_rounds=20), "n_bags": 3}
tpnn.TPNNRegressor(**quick).fit(X, y).predict(X)
for n_classes in (2, 4):
    tpnn.TPNNClassifier(**quick).fit(X, pd.qcut(y, n_classes, labels=False)).predict_proba(X)
print(len(before) > 20, sorted(compiled() - before))
"""


def test_default_fits_compile_nothing_after_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True []"
