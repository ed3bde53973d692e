"""
A score card, from the file of loans to the document
=====================================================

A bank signs points, not curves. This recipe reads a file, fits a model whose effects go the way that
a credit committee expects, turns it into a card with bands that people chose, and writes what is
filed: the card as a workbook, as a query, and in a validation report.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tpnn
from tpnn import ScoreCard, TPNNClassifier, scorecard

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
n = 6000
income = rng.lognormal(10, 0.5, n).round(-2)
late = rng.poisson(0.5, n)
years = rng.integers(0, 30, n)
risk = -2.2 + 0.8 * late - (income - 25_000) / 25_000 - 0.03 * years
defaulted = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "default", "repaid")
pd.DataFrame({"income": income, "late": late, "years": years, "outcome": defaulted}).to_csv(
    folder / "loans.csv", index=False
)

# %%
# The committee knows in which direction each feature works, and a card has no remainder.

loans = pd.read_csv(folder / "loans.csv")
X, y = loans.drop(columns="outcome"), loans["outcome"]
train, test = slice(0, 4000), slice(4000, None)
expected = {"income": "increasing", "late": "decreasing", "years": "increasing"}
model = TPNNClassifier(order=1, shapes=expected, remainder=False, n_bags=4, random_state=0)
model.fit(X[train], y[train])

# %%
# Bands: late payments are cut by hand, no band has less than a twentieth of the applicants. Shapes
# are those of the second class in sorted order, here of ``repaid``, which is also the good one.

card = scorecard(
    model, pdo=20, score=600, odds=20, good="repaid", cuts={"late": [1, 2, 3]}, min_share=0.05
)
card = card.rebalanced(X[train], y[train])
print(card.to_frame(X[test], y[test]).round(3).to_string(index=False))

# %%
# Who is approved at which cut-off, and what becomes of them.

cutoffs = card.cutoffs(X[test], y[test])
print(cutoffs.round(3).to_string(index=False))
plt.plot(cutoffs["approval_rate"], cutoffs["expected_bad_rate"], label="expected by the points")
plt.plot(cutoffs["approval_rate"], cutoffs["bad_rate"], ".", label="observed")
plt.xlabel("share approved")
plt.ylabel("share of defaults among them")
plt.legend(frameon=False)

# %%
# A letter to somebody who was refused compares with those who score just above the cut-off.

codes = {"late": ("R14", "Number of late payments"), "income": ("R03", "Income"),
         "years": ("R21", "Length of employment")}  # fmt: skip
cutoff = float(np.quantile(card.score(X[train]), 0.3))
passing = card.reference(X[train], cutoff)
refused = X[test][card.score(X[test]) < cutoff]
for reason in card.reasons(refused[:1], n_reasons=2, reference=passing, codes=codes)[0]:
    print(f"{reason.code}: {reason} ({reason.lost:.0f} points below those who pass)")

# %%
# The documents. The page of ``validate`` judges the card by its own points and contains it.

card.save(folder / "card.tpnn")
card.to_json(folder / "card.json")
card.to_excel(folder / "card.xlsx", X[test][:20])
(folder / "card.sql").write_text(card.to_sql("postgres", table="loans"))
tpnn.validate(card, X[test], y[test]).to_html(folder / "validation.html")
again = ScoreCard.load(folder / "card.tpnn")
assert (again.score(X[test]) == card.score(X[test])).all()
print(*sorted(path.name for path in folder.iterdir()))
