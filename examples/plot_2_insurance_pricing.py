"""
Insurance pricing: claim frequency with exposure
================================================

Policies are in force for different lengths of time. A policy of half a year has half the claims of
a full one, so the log of the exposure is a known part of the raw score: an *offset*. With a Poisson
loss every component is the log of a factor that multiplies the rate, which is how tariffs are written.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import mean_poisson_deviance

from tpnn import TPNNRegressor

rng = np.random.default_rng(1)
n = 20_000
X = pd.DataFrame(
    {
        "driver_age": rng.uniform(18, 85, n).round(),
        "vehicle_age": rng.integers(0, 20, n).astype(float),
        "power": rng.gamma(6, 15, n),
        "region": rng.choice(["city", "suburb", "country"], n, p=[0.3, 0.4, 0.3]),
        "exposure": rng.uniform(0.1, 1.0, n),  # years
    }
)


def true_log_rate(X: pd.DataFrame) -> pd.Series:
    """Young drivers are worse, and worse still in a powerful car."""
    young = 1 / (1 + np.exp((X["driver_age"] - 27) / 4))
    region = X["region"].map({"city": 0.35, "suburb": 0.0, "country": -0.25})
    return -1.6 + 1.1 * young + 0.012 * (X["power"] - 90) * young + region


claims = rng.poisson(X["exposure"] * np.exp(true_log_rate(X)))

# %%
# ``exposure`` names the column. It is not a feature: ``fit`` and ``predict`` add its logarithm to the
# raw score, so predictions are for the exposure of each row.

train, test = slice(0, 15_000), slice(15_000, None)
model = TPNNRegressor(objective="poisson", exposure="exposure", random_state=0)
model.fit(X[train], claims[train])

expected = model.predict(X[test])
truth = X["exposure"][test] * np.exp(true_log_rate(X[test]))
constant = X["exposure"][test] * claims[train].sum() / X["exposure"][train].sum()
print(f"claims {claims[test].sum()}, expected {expected.sum():.0f}")
for name, rate in {"constant rate": constant, "model": expected, "truth": truth}.items():
    print(f"{name:14} deviance {mean_poisson_deviance(claims[test], rate):.4f}")

# %%
# A tariff table: the relativities of a main effect, with the suburb as the base level, and the share
# of the policies that they apply to.

region = model.explain().component("region").to_frame(scale="response", reference="suburb")
print(region[["region", "effect", "reference", "density"]].round(3))

# %%
# The rate of a full year by age, for a weak and a strong car, beside the truth.

ages = np.arange(18, 86, 1.0)
for power, colour in {60: "#2a6fbb", 160: "#c3423f"}.items():
    rows = pd.DataFrame({"driver_age": ages, "vehicle_age": 5.0, "power": float(power)})
    rows = rows.assign(region="suburb", exposure=1.0)
    plt.plot(ages, model.predict(rows), color=colour, label=f"{power} horsepower")
    plt.plot(ages, np.exp(true_log_rate(rows)), color=colour, linestyle=":")
plt.xlabel("age of the driver")
plt.ylabel("claims per year (dotted: the truth)")
plt.legend(frameon=False)
