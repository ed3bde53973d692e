"""
Images: a readable last layer with ``tpnn.TPNNHead``
====================================================

:class:`~tpnn.TPNNHead` is a functional ANOVA model as a torch layer. Here a small convolutional
network turns an image of a digit into six numbers between 0 and 1, *concepts*, and the head
adds up their effects. What the network looks at is learned; how the concepts become a decision can be
read.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from tpnn import TPNNHead

torch.manual_seed(0)
digits = load_digits()
chosen = (digits.target == 3) | (digits.target == 8)  # is it an 8 or a 3?
images = torch.tensor(digits.images[chosen] / 16, dtype=torch.float32).unsqueeze(1)  # (n, 1, 8, 8)
labels = torch.tensor(digits.target[chosen] == 8, dtype=torch.float32)
train, test = slice(0, 250), slice(250, None)

# %%
# The head goes where the last linear layer would stand. ``marginal="running"`` makes components average
# to zero over the images seen in training.

N_CONCEPTS = 6
concepts = nn.Sequential(
    nn.Conv2d(1, 8, 3),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(8 * 9, N_CONCEPTS),
    nn.Sigmoid(),
)
head = TPNNHead(N_CONCEPTS, order=2, n_bases={1: 10, 2: 4}, marginal="running")
network = nn.Sequential(concepts, head)
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
loss = nn.BCEWithLogitsLoss()
for _ in range(200):
    optimiser.zero_grad()
    loss(network(images[train])[:, 0], labels[train]).backward()
    optimiser.step()

network.eval()
with torch.no_grad():
    head.observe(concepts(images[train]))  # centre over the trained concepts, exactly
    accuracy = ((network(images[test])[:, 0] > 0) == (labels[test] > 0)).float().mean()
    values = concepts(images[test])  # (n, 6)
    scores = head.component_scores(values)[..., 0]  # (n, 21): six concepts, fifteen pairs
print(f"accuracy on {len(values)} new images: {accuracy:.1%}")

# %%
# Components and the intercept sum to the logit. Mean absolute effects rank them.

assert torch.allclose(head.intercept + scores.sum(1), head(values)[:, 0].detach(), atol=1e-4)
ranked = scores.abs().mean(0).argsort(descending=True)
for index in ranked[:4].tolist():
    print(f"component {head.components[index]}: mean effect {scores[:, index].abs().mean():.2f}")

# %%
# The three concepts with the largest main effects: the effect as a function of the concept, and the
# images on which the concept is lowest and highest.

strongest = scores[:, :N_CONCEPTS].abs().mean(0).argsort(descending=True)[:3].tolist()
figure, panels = plt.subplots(
    3, 7, figsize=(10, 4.4), layout="constrained", width_ratios=[2.6, 1, 1, 1, 1, 1, 1]
)
for row, concept in zip(panels, strongest, strict=True):
    order = values[:, concept].argsort()
    row[0].plot(values[order, concept], scores[order, concept], "o-", markersize=2, color="#2a6fbb")
    row[0].set(xlabel=f"concept {concept}", ylabel="log-odds of 8", xlim=(0, 1))
    for panel, place in zip(row[1:], [0, 1, 2, -3, -2, -1], strict=True):
        panel.imshow(images[test][order[place], 0], cmap="gray_r")
        panel.set_axis_off()
panels[0, 2].set_title("lowest", fontsize=9)
panels[0, 5].set_title("highest", fontsize=9)
