"""
Exploring a model in a notebook
===============================

California housing: what drives the price of a house, how sure is the model of it, and why is this
house more expensive than that one? Components and Shapley values are read off the fitted model,
exactly. Only the size of the remainder, the many small effects beside them, is measured on drawn rows.
"""

import matplotlib.pyplot as plt

from tpnn import TPNNRegressor, datasets, plots

X, y = datasets.load("calhousing")
train, test = X.index % 5 != 0, X.index % 5 == 0
model = TPNNRegressor(n_bags=4, random_state=0).fit(X[train], y[train])
print(f"held-out R2 {model.score(X[test], y[test]):.3f}")

# %%
# The whole model first: which components matter, and what they look like. A component's importance
# is its mean absolute effect. Bands cover the true effect over 95 % of the data, on average; grey
# hills show where the data are.

explanation = model.explain()
plots.components(explanation, n_components=6)

# %%
# Numbers instead of pictures: the share of variance of each feature, alone and with its interactions.

for feature, share in list(explanation.sobol_indices().items())[:4]:
    print(f"{feature:11} alone {share.main:.2f}, with interactions {share.total:.2f}")
print(explanation.component("MedInc").to_frame().iloc[::40].round(3))

# %%
# Now single houses. Exact Shapley values of 300 of them on the left, the steps from the average to the
# value of one house on the right.

local = model.explain(X[test].sample(300, random_state=0))
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plots.shap_summary(local, n_features=8, ax=left)
plots.waterfall(local, row=0, ax=right)

# %%
# The same house in words.

for reason in local.reasons(n_reasons=3)[0]:
    print(reason)

# %%
# A word of caution: features depend on each other, so other components could imitate some effects on these
# rows. The model says which.

for names, found in list(model.explain(X[test]).concurvity().items())[:3]:
    print(f"{' x '.join(names):25} {found.share:.2f} through {found.closest}")
