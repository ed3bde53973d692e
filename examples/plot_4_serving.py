"""
Serving: save, load and predict with NumPy alone
================================================

A fitted model is a set of grids of values, and trees if it has a remainder. ``save`` writes them to
one file without pickle, so loading it cannot run code, and a service needs nothing but NumPy to answer.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tpnn

X, y = tpnn.datasets.load("abalone")
model = tpnn.TPNNRegressor(random_state=0).fit(X, y)
path = Path(tempfile.mkdtemp()) / "abalone.tpnn"
model.model_.save(path)
print(f"{path.stat().st_size / 1e6:.1f} MB, {len(model.components_)} components")

# %%
# The loaded model has the same raw scores, bit for bit. Rows are a DataFrame with the columns of
# ``fit``, in any order, dicts with their names as keys, or plain lists in the order of ``fit``.

served = tpnn.load(path)
print(np.array_equal(served.predict(X), model.predict(X)))
print(served.feature_names_in_)
print(served.predict([["M", 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15]]))

# %%
# Proof that NumPy is enough: a fresh Python loads the model, predicts, and lists which of
# tpnn's requirements it has imported. A service can leave the others out and install ``tpnn-runtime``.

program = f"""
import sys, tpnn
model = tpnn.load({str(path)!r})
print(model.predict([["M", 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15]]))
required = "numpy scipy pandas sklearn numba joblib threadpoolctl tqdm narwhals psutil".split()
print([name for name in required if name in sys.modules])
"""
print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)

# %%
# How long an answer takes, by the number of rows asked for at once. From 50,000 rows on the
# compiled predictor takes over where numba is installed.

sizes = [1, 10, 100, 1_000, 10_000, 100_000]
table = X.sample(max(sizes), replace=True, random_state=0)
served.predict(table)  # compile once
milliseconds = []
for size in sizes:
    rows, tries = table[:size], []
    for _ in range(7):
        begin = time.perf_counter()
        served.predict(rows)
        tries.append(1000 * (time.perf_counter() - begin))
    milliseconds.append(np.median(tries))
plt.loglog(sizes, milliseconds, "o-", color="#2a6fbb")
plt.xlabel("rows in one call")
plt.ylabel("milliseconds (median of 7 calls)")
plt.grid(alpha=0.3)
