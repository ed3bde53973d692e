"""Read a model that AnovaModel.to_json wrote, and predict rows: the standard library is enough."""

import json
import math
from bisect import bisect_left, bisect_right


def load(path):
    """Read the document, whose fields docs/deploy.md describes."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def number(feature, value):
    """Return the number of a level, else the value: nan where missing, None if unseen."""
    if value is None or value != value:
        return math.nan
    if not feature["levels"]:
        return value
    levels = {level: number for number, level in enumerate(feature["levels"])}
    if feature["are_text"] and not isinstance(value, str):
        value = str(value).removesuffix(".0")
    return levels.get(value)


def place(feature, axis, value):
    """Lower node of a value and how far it lies towards the next one; None where f_S is 0."""
    nodes, n_nodes, value = axis["values"], len(axis["values"]), number(feature, value)
    if value != value:  # missing: the last node, if the fit has seen any
        return (n_nodes, 0.0) if axis["has_missing"] else None
    if feature["levels"]:
        if value is None:  # a level that the fit has not seen
            return (n_nodes - 1, 0.0) if axis["has_unseen"] else None
        if axis["level_nodes"] is not None:
            return axis["level_nodes"][value], 0.0
    if n_nodes < 2:
        return (0, 0.0) if nodes else None
    turns = math.floor(value / nodes[-1]) if axis["kind"] == "periodic number" else 0
    x = min(max(value - turns * nodes[-1], nodes[0]), nodes[-1])  # constant beyond the outer nodes
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
    """Intercept, offset, components and remainder, for each output; a row is a dict by name."""
    encoder = model["encoder"]
    column = encoder["offset_column"]
    if column is not None:
        known = row[f"x{column['place']}" if column["name"] is None else column["name"]]
        offset = math.log(known) if column["is_exposure"] else known
    scores = [intercept + offset for intercept in model["intercepts"]]
    add_components(scores, model, encoder, row, 1)
    if model["remainder"]:
        add_trees(scores, model["remainder"], encoder, row)
        add_components(scores, model["remainder"], encoder, row, -1)  # which the trees hold, too
    return scores


def add_components(scores, part, encoder, row, sign):
    """Add the components of a model, or take those of its remainder away."""
    names = feature_names(encoder)
    for component, table in zip(part["components"], part["tables"], strict=True):
        axes = encoder["axes"][str(len(component))]
        places = [place(encoder["features"][j], axes[j], row[names[j]]) for j in component]
        if None not in places:
            for k in range(len(scores)):
                scores[k] += sign * interpolate(table, places, k)


def code(feature, codes, value):
    """Which answers of a question belong to a value: the last ones are of unseen and missing."""
    n_codes, value = len(codes["masses"]), number(feature, value)
    if value is None or value != value:
        return n_codes - (2 if value is None else 1)
    return bisect_left(codes["ends"], value) if codes["groups"] is None else codes["groups"][value]


def add_trees(scores, remainder, encoder, row):
    """Add the sum of the trees less its mean."""
    trees, names, answers, start = remainder["trees"], feature_names(encoder), [], 0
    for j in trees["asked"]:
        codes = trees["features"][j]
        answers.append(trees["right"][start + code(encoder["features"][j], codes, row[names[j]])])
        start += len(codes["masses"])
    for k in range(len(scores)):
        scores[k] -= remainder["constants"][k]
    for node in trees["roots"]:
        while node >= 0:  # else it is leaf -1 - node
            node = trees["children"][node][answers[trees["questions"][node]]]
        for k in range(len(scores)):
            scores[k] += trees["values"][-1 - node][k]


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
