"""``tpnn explain``: the importance of components, or what moved each row."""

from __future__ import annotations

import argparse

import tpnn
from tpnn.cli.rows import read_rows
from tpnn.cli.writing import Lines, check_output, write_table


def run(given: argparse.Namespace) -> None:
    """Write the importance of all components or, given rows, the contributions to each row."""
    check_output(given.output, given.model, given.data)
    model = tpnn.load_model(given.model)
    if given.data is None:
        write_table(ranking(tpnn.Explanation(model)), given.output)
        return
    local = tpnn.Explanation(model, read_rows(model, given.data, given))
    table = _contributions(local) if given.reasons is None else _reasons(local, given.reasons)
    write_table(table, given.output)


def ranking(explanation: tpnn.Explanation) -> Lines:
    """Components and their importance, largest first."""
    norms = explanation.importance()
    relative, shares = explanation.importance(normalise=True), explanation.sobol()
    return {
        "component": [" x ".join(names) for names in norms],
        "importance": list(norms.values()),
        "relative": [relative[names] for names in norms],
        "variance_share": [shares[names] for names in norms],
    }


def _contributions(local: tpnn.Explanation) -> Lines:
    model = local.model
    columns = [
        " x ".join(names) + (f" ({output})" if output else "")
        for names in model.component_names
        for output in model.output_names or ("",)
    ]
    scores = local.scores.reshape(-1, len(columns)).T.tolist()
    return dict(zip(columns, scores, strict=True))


def _reasons(local: tpnn.Explanation, n_reasons: int) -> Lines:
    lines = [
        (row, rank + 1, reason.feature, reason.words)
        for row, reasons in enumerate(local.reasons(n_reasons))
        for rank, reason in enumerate(reasons)
    ]
    names = ("row", "reason", "feature", "words")
    return {name: [line[place] for line in lines] for place, name in enumerate(names)}
