"""
Read the boosted model you already have
=======================================

:func:`~tpnn.read` turns boosted trees and forests of CatBoost, LightGBM, XGBoost and scikit-learn into
an :class:`~tpnn.AnovaModel`: the components that a person should read, and one remainder for all else.
Nothing is fitted again and nothing is approximated. A leaf of a tree is a box, and the functional ANOVA
of a sum of boxes is known in closed form.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import tpnn
from tpnn import datasets, plots

X, y = datasets.load("calhousing")
train, test = X.index % 5 != 0, X.index % 5 == 0
boosted = HistGradientBoostingRegressor(max_iter=200, random_state=0).fit(X[train], y[train])
print(f"held-out R2 of the trees: {boosted.score(X[test], y[test]):.3f}")

# %%
# The second argument has the rows whose marginals are the measure: every component averages to zero over
# them, along each of its features. Predictions are those of the trees, on every row.

model = tpnn.read(boosted, X[train])
gap = np.abs(model.predict(X[test]) - boosted.predict(X[test])).max()
print(f"largest difference of the predictions: {gap:.0e}")
print(model.summary())

# %%
# The components are steps, because trees are. Prices follow income and location, and the two coordinates
# act together.

plots.components(model.explain(), n_components=6)

# %%
# What is not in a component is in the remainder. It has a size and names.

remainder = model.remainder
print(f"share of the variance in the remainder: {remainder.share:.1%}")
for names, share in remainder.largest[:3]:
    print(f"  {' x '.join(names):30} {share:.2%}")

# %%
# How much of the accuracy is in what you can read? Leave the remainder out, and measure.

core = model.restrict(model.components)
error = {
    name: np.sqrt(np.mean((each.predict(X[test]) - y[test]) ** 2))
    for name, each in {"trees": model, "core alone": core}.items()
}
print({name: round(float(value), 3) for name, value in error.items()})

# %%
# Shapley values of trees are sums over components, so they are exact, too. One house from the average price
# to its own:

figure, panel = plt.subplots(figsize=(8, 4), layout="constrained")
plots.waterfall(model.explain(X[test].iloc[:1]), row=0, ax=panel)
