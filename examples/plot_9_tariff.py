"""
A tariff, from the file of policies to the workbook
====================================================

Claims come in numbers and in sizes. This recipe fits a model of each, multiplies them into one
tariff, puts it on bands, caps and rounds its relativities, brings it back into balance, and shows
who pays more and who pays less than before.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tpnn
from tpnn import TPNNRegressor

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
n = 12_000
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 85, n),
        "power": rng.choice([40, 55, 70, 90, 120], n),
        "region": rng.choice(["city", "suburb", "country"], n, p=[0.3, 0.4, 0.3]),
        "years": rng.uniform(0.1, 1.0, n).round(2),  # in force
    }
)
young = 1 / (1 + np.exp((policies["age"] - 27) / 4))
region = policies["region"].map({"city": 0.35, "suburb": 0.0, "country": -0.25})
claims = rng.poisson(policies["years"] * np.exp(-1.5 + 1.1 * young + region))
sizes = rng.gamma(1.5, np.exp(6.5 + policies["power"] / 150) / 1.5) * rng.choice(
    [1, 12], n, p=[0.98, 0.02]
)
policies.assign(claims=claims, paid=np.where(claims > 0, sizes * claims, 0.0)).to_csv(
    folder / "policies.csv", index=False
)

# %%
# Numbers with their exposure, and sizes of claims, capped where a few large ones would decide. What
# the cap takes away is a loading.

table = pd.read_csv(folder / "policies.csv")
X, features = table[["age", "power", "region", "years"]], ["age", "power", "region"]
settings = {"order": 1, "remainder": False, "n_bags": 4, "random_state": 0}
frequency = TPNNRegressor(objective="poisson", exposure="years", **settings).fit(X, table["claims"])

hit = table[table["claims"] > 0]
size = hit["paid"] / hit["claims"]
cap = size.quantile(0.98)
severity = TPNNRegressor(objective="gamma", **settings)
severity.fit(hit[features], size.clip(upper=cap), sample_weight=hit["claims"])
loading = hit["paid"].sum() / (size.clip(upper=cap) * hit["claims"]).sum()
print(f"sizes capped at {cap:,.0f}, loading {loading:.3f}")

# %%
# One tariff: its prediction is the product, and its components explain the premium.

tariff = tpnn.tariff(frequency, severity, loading=loading)
product = frequency.predict(X) * severity.predict(X[features]) * loading
assert np.allclose(tariff.predict(X), product)
print(*tariff.explain(X[:1]).reasons(scale="response")[0], sep="\n")

# %%
# Bands and base levels by hand, then caps, rounding and balance, each with what it costs.

tables = tariff.rating_tables(
    X, table["paid"], cuts={"age": [21, 25, 30, 50, 70]}, base={"region": "suburb", "age": 40}
)
filed = tables.capped(0.6, 2.5).rounded(2).rebalanced()
print(filed.steps.round(4).to_string(index=False))
lines = filed.frames["age"]
print(
    lines[["age", "relativity", "exposure", "observed", "fitted"]].round(2).to_string(index=False)
)

# %%
# One way: observed and fitted premium per year by band, with the exposure as bars.

shown = lines[lines["exposure"] > 0]
figure, axes = plt.subplots()
bars = axes.twinx()
bars.bar(shown["age"], shown["exposure"], color="#d9d9d9", zorder=0)
bars.set_ylabel("years of exposure")
axes.set_zorder(bars.get_zorder() + 1)
axes.patch.set_visible(False)
axes.plot(shown["age"], shown["observed"], "o-", color="#c3423f", label="observed")
axes.plot(shown["age"], shown["fitted"], "o-", color="#2a6fbb", label="fitted")
axes.set_ylabel("premium per year")
axes.legend(frameon=False)

# %%
# Dislocation: who pays more or less than under the old tariff, a flat rate by region.

by_region = table.groupby("region")["paid"].sum() / table.groupby("region")["years"].sum()
old = (X["region"].map(by_region) * X["years"]).to_numpy()
change = tpnn.compare({"old": old, "new": filed.predict(X)}, X)
table_of_changes = change.dislocation()
print(table_of_changes.round(3).to_string(index=False))
print(change.dislocation(by="power").round(3).to_string(index=False))
figure, axes = plt.subplots()
axes.barh(table_of_changes["band"], table_of_changes["share"], color="#2a6fbb")
axes.set_xlabel("share of the policies")
axes.set_ylabel("change of the premium")

# %%
# The workbook asks for the features and the years in force, looks relativities up and multiplies.

filed.to_excel(folder / "tariff.xlsx", X[:20])
tpnn.validate(filed, X[:4000], table["paid"][:4000]).to_html(folder / "validation.html")
print(*sorted(path.name for path in folder.iterdir()))
