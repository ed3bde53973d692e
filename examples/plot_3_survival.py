"""
Survival: times until an event, some of them censored
=====================================================

Patients are followed until an event or until the study ends. :class:`~tpnn.TPNNSurvival` is Cox's
model with components in place of linear terms: the log of the relative risk is a sum of effects that
can be read one by one.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tpnn
from tpnn import TPNNSurvival

rng = np.random.default_rng(2)
n = 2000
X = pd.DataFrame(
    {
        "age": rng.uniform(30, 80, n),
        "marker": rng.lognormal(0, 0.6, n),
        "treated": rng.choice(["no", "yes"], n),
    }
)


def true_log_risk(X: pd.DataFrame) -> pd.Series:
    """Risk rises beyond 55 and with the marker up to a plateau; treatment lowers it."""
    late = np.maximum(X["age"] - 55, 0) / 15
    return late + 1.5 * np.minimum(X["marker"], 2) - 0.7 * (X["treated"] == "yes")


life = rng.exponential(20 * np.exp(-true_log_risk(X)))
followed = rng.uniform(1, 12, n)
y = pd.DataFrame({"years": np.minimum(life, followed), "event": life <= followed})
print(f"{y['event'].mean():.0%} of the patients have the event, the others are censored")

# %%
# ``score`` is the concordance index: how often the patient at higher risk has the event first.

train, test = slice(0, 1500), slice(1500, None)
model = TPNNSurvival(order=1, random_state=0).fit(X[train], y[train])
print(f"held-out concordance {model.score(X[test], y[test]):.3f}")
print(f"correlation with the true log risk "
      f"{np.corrcoef(model.predict(X[test]), true_log_risk(X[test]))[0, 1]:.3f}")  # fmt: skip

# %%
# Left and middle: effects on the log risk. Right: survival curves of three patients, solid as fitted,
# dotted as simulated.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
explanation = model.explain()
explanation.plot("age", ax=left)
explanation.plot("marker", ax=middle)
patients = pd.DataFrame({"age": [40, 60, 75.0], "marker": [0.7, 1.0, 1.8], "treated": "no"})
times = np.linspace(0, 10, 60)
curves = model.predict_survival(patients, times)
for row, curve in enumerate(curves):
    label = f"age {patients['age'][row]:.0f}, marker {patients['marker'][row]}"
    (line,) = right.step(times, curve, where="post", label=label)
    truth = np.exp(-times / 20 * np.exp(true_log_risk(patients)[row]))
    right.plot(times, truth, ":", color=line.get_color())
right.set(xlabel="years", ylabel="probability of no event", ylim=(0, 1))
right.legend(frameon=False, fontsize=8)

# %%
# How good the curves are at 2, 5 and 8 years, on patients that the model has not seen: Brier score
# beside that of one curve for all, how often of two patients the one with the event by then had the
# higher risk, and the share with the event, as observed and as expected.

held_out = X[test].reset_index(drop=True), y[test].reset_index(drop=True)
print(tpnn.metrics.at_times(model.model_, *held_out, times=[2, 5, 8]).scores.round(3))

# %%
# Whether effects stay the same over time, and whether treating above a risk is worth it. Intervals of
# the curves of the three patients at 5 years, and their median times, complete the account.

hazards = tpnn.metrics.proportional_hazards(model.model_, *held_out)
print(hazards[["component", "chi2", "p_value"]].round(3))
print(
    tpnn.metrics.net_benefit(model.model_, *held_out, thresholds=[0.2, 0.5, 0.8], time=5).round(3)
)
lower, upper = model.predict_survival_interval(patients, times=[5])
for row, median in enumerate(model.predict_time(patients)):
    interval = f"{lower[row, 0]:.2f} to {upper[row, 0]:.2f}"
    print(f"age {patients['age'][row]:.0f}: survives 5 years {interval}, median {median:.1f} years")
