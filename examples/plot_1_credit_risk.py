"""
Credit risk: few monotone components and reason codes
=====================================================

A lender wants a model that a committee can read: a handful of effects, none of them against common
sense, and for every refusal the reasons in words. We simulate applicants whose true risk is known.
"""

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from tpnn import TPNNClassifier, plots

rng = np.random.default_rng(0)
n = 4000
X = pd.DataFrame(
    {
        "utilisation": rng.beta(1.5, 3, n),
        "late_payments": rng.poisson(0.5, n),
        "months_on_file": rng.gamma(3, 40, n),
        "income": rng.lognormal(10.3, 0.5, n).round(-2),
        "inquiries": rng.poisson(1.2, n),
        "purpose": rng.choice(["car", "home", "education", "other"], n, p=[0.4, 0.3, 0.1, 0.2]),
    }
)
log_odds = (
    -2.2
    + 3.0 * X["utilisation"]
    + 0.9 * np.minimum(X["late_payments"], 3)
    - 0.8 * np.log(X["income"] / 30_000)
    - 0.006 * np.minimum(X["months_on_file"], 200)
    + 0.5 * (X["purpose"] == "other")
)
y = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "unpaid", "paid")
X.loc[rng.random(n) < 0.1, "income"] = np.nan  # some applicants do not state it

# %%
# Directions that a regulator expects, and at most six components. With two classes the model explains the
# log-odds of the second in alphabetical order, here "unpaid". The directions hold for the whole function:
# ``certificate`` returns the smallest step over all possible applicants.

model = TPNNClassifier(
    shapes={
        "utilisation": "increasing",
        "late_payments": "increasing",
        "income": "decreasing",
        "months_on_file": "decreasing",
    },
    max_components=6,
    random_state=0,
).fit(X[:3000], y[:3000])

unpaid, probability = y[3000:] == "unpaid", model.predict_proba(X[3000:])[:, 1]
print(f"held-out AUROC {roc_auc_score(unpaid, probability):.3f}")
print(f"AUROC of the truth {roc_auc_score(unpaid, log_odds[3000:]):.3f}")
for feature in ("utilisation", "late_payments", "income", "months_on_file"):
    print(f"{feature:15} smallest step {model.model_.certificate(feature).minimum:.2g}")

# %%
# The whole model fits into one figure. Missing incomes are the point on the right.

plots.components(model.explain(), n_components=6)

# %%
# The applicant with the highest risk, and the reasons: exact Shapley values of the log-odds in words.
# ``adverse="high"`` lists only what counts against the applicant.

riskiest = [int(np.argmax(model.decision_function(X[3000:])))]
for reason in model.explain(X[3000:].iloc[riskiest]).reasons(n_reasons=4, adverse="high")[0]:
    print(reason)
