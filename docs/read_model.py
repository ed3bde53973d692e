"""Read a model that AnovaModel.to_json wrote, and predict rows: the standard library is enough."""

import json
import math
from bisect import bisect_right


def load(path):
    """Read the document, whose fields docs/deploy.md describes."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def place(feature, axis, value):
    """Lower node of a value and how far it lies towards the next one; None where f_S is 0."""
    nodes, n_nodes = axis["values"], len(axis["values"])
    if value is None or value != value:  # missing: the last node, if the fit has seen any
        return (n_nodes, 0.0) if axis["has_missing"] else None
    if feature["levels"]:
        levels = {level: number for number, level in enumerate(feature["levels"])}
        if feature["are_text"] and not isinstance(value, str):
            value = str(value).removesuffix(".0")
        value = levels.get(value)
        if value is None:  # a level that the fit has not seen
            return (n_nodes - 1, 0.0) if axis["has_unseen"] else None
        if axis["level_nodes"] is not None:
            return axis["level_nodes"][value], 0.0
    if n_nodes < 2:
        return (0, 0.0) if nodes else None
    x = min(max(value, nodes[0]), nodes[-1])  # constant beyond the outer nodes
    lower = min(bisect_right(nodes, x), n_nodes - 1) - 1
    return lower, (x / 2 - nodes[lower] / 2) / (nodes[lower + 1] / 2 - nodes[lower] / 2)


def interpolate(grid, places, output):
    """Interpolate linearly along one feature after the other."""
    if not places:
        return grid[output]
    (node, share), rest = places[0], places[1:]
    below = interpolate(grid[node], rest, output)
    return below + share * (interpolate(grid[node + 1], rest, output) - below) if share else below


def feature_names(encoder):
    """Names of the features; without names they are x and the position of the column."""
    kept, column = encoder["kept"], encoder["offset_column"]
    places = kept["places"] if kept else range(len(encoder["features"]))
    numbered = [f"x{p + (column is not None and p >= column['place'])}" for p in places]
    return encoder["names"] or numbered


def raw_scores(model, row, offset=0.0):
    """Intercept, offset and all components, for each output; a row is a dict of values by name."""
    encoder, names = model["encoder"], feature_names(model["encoder"])
    column = encoder["offset_column"]
    if column is not None:
        known = row[f"x{column['place']}" if column["name"] is None else column["name"]]
        offset = math.log(known) if column["is_exposure"] else known
    scores = [intercept + offset for intercept in model["intercepts"]]
    for component, table in zip(model["components"], model["tables"], strict=True):
        axes = encoder["axes"][str(len(component))]
        places = [place(encoder["features"][j], axes[j], row[names[j]]) for j in component]
        if None not in places:
            for k in range(len(scores)):
                scores[k] += interpolate(table, places, k)
    return scores


def predict(model, row, offset=0.0):
    """Prediction for each output, as AnovaModel.predict returns it."""
    scores, link = raw_scores(model, row, offset), model["link"]
    if link == "softmax":
        odds = [math.exp(score - max(scores)) for score in scores]
        return [share / sum(odds) for share in odds]
    if link == "log":
        return [math.exp(min(max(score, -300.0), 300.0)) for score in scores]
    if link == "logit":
        decays = [(score, math.exp(-abs(score))) for score in scores]
        return [(1.0 if score >= 0 else decay) / (1.0 + decay) for score, decay in decays]
    return sorted(scores) if link == "quantiles" else scores
