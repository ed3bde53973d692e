"""What rows say about a score card: reasons, counts, cut-offs, balance, stability; its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array, IntArray
from tpnn._utils.files import check_path
from tpnn._utils.rules import COUNT, check_parameters
from tpnn.anova.components import Component
from tpnn.export.sheets.bins import BandedModel, Bands, cell_means, check_both, targets_of
from tpnn.loss.links import LINKS
from tpnn.model.archive import read_document, write_archive
from tpnn.model.check import check_model
from tpnn.model.codec import Label, decode, encode
from tpnn.model.model import AnovaModel

if TYPE_CHECKING:
    import pandas as pd

    from tpnn.export.sheets.scorecard import ScoreCard

N_CUTOFFS = 20
SMALLEST_SHARE = 1e-4  # stands for an empty group, whose logarithm must be finite
HALF_ROW = 0.5  # added to both classes of a cell that has one of them alone
FARTHEST = 1 << 40  # points that the base is ever moved


class LostPoints(NamedTuple):
    """One reason why a row does not have a higher score.

    Parameters
    ----------
    component : str
        Feature or pair of features; several with the same code are joined by " + ".
    band : str
        Where the row is.
    lost : int or float
        Points below the reference.
    words : str
        One sentence, for a letter: the text of its code, if it has one.
    code : str
        Code of the reason; empty where none was given.
    """

    component: str
    band: str
    lost: float
    words: str
    code: str = ""

    def __str__(self) -> str:
        return self.words


def reasons(
    card: ScoreCard,
    X: Any,
    n_reasons: int,
    reference: str | Mapping[str, float],
    codes: Mapping[str, Any],
) -> list[list[LostPoints]]:
    """Reasons of every row, as ``ScoreCard.reasons`` describes them."""
    check_parameters({"n_reasons": n_reasons}, {"n_reasons": COUNT})
    cells, n_rows = _cells(card, X)
    marks, since = _marks(card, reference)
    lost = np.array([marks[s] - points[cells[s]] for s, points in card.points.items()])
    grouped = _by_code(card, codes)
    sums = np.array([lost[members].sum(0) for members, _, _ in grouped])
    ranked = np.argsort(-sums, axis=0, kind="stable")[:n_reasons]
    components, names = list(card.points), card.names
    answers: list[list[LostPoints]] = []
    for row in range(n_rows):
        found = []
        for group in (g for g in ranked[:, row] if sums[g, row] > 0):
            members, code, text = grouped[group]
            used = [components[k] for k in members if lost[k, row] > 0]
            name = " + ".join(names[s] for s in used)
            places = [[int(at[row]) for at in cells[s]] for s in used]
            band = " + ".join(card.band_name(s, p) for s, p in zip(used, places, strict=True))
            points = sums[group, row].item()
            plural = "point" if points == 1 else "points"
            words = text or f"{name} ({band}): {round(points, 1):g} {plural} below {since}"
            found.append(LostPoints(name, band, points, words, code))
        answers.append(found)
    return answers


def _cells(card: ScoreCard, X: Any) -> tuple[dict[Component, tuple[IntArray, ...]], int]:
    """Cell of every row in each component, and the number of rows."""
    table = card.banded.model.encoder.read(X)
    codes = card.banded.codes(table)
    return {s: tuple(codes[j] for j in s) for s in card.points}, table.n_rows


def _marks(
    card: ScoreCard, reference: str | Mapping[str, float]
) -> tuple[dict[Component, Any], str]:
    """Points of each component from which losses are counted, and what they are in words."""
    if reference == "best":
        return {s: points.max() for s, points in card.points.items()}, "the best"
    if reference == "mean":
        means = {s: (card.banded.masses(s) * p).sum() for s, p in card.points.items()}
        return means, "the mean"
    names = card.names
    if not isinstance(reference, Mapping) or set(reference) != set(names.values()):
        raise ValueError(
            "reference: must be 'best', 'mean', or the points of every component, found "
            f"{reference!r:.200}. Pass card.reference(X, cutoff)."
        )
    return {s: float(reference[name]) for s, name in names.items()}, "those at the cut-off"


def _by_code(card: ScoreCard, codes: Mapping[str, Any]) -> list[tuple[list[int], str, str]]:
    """Places of the components that share a reason, with its code and its text."""
    names, features = card.names, card.banded.model.feature_names
    possible = {*names.values(), *(features[j] for s in card.points for j in s)}
    groups: dict[Any, tuple[list[int], str, str]] = {}
    wrong: list[str] = [] if isinstance(codes, Mapping) else [f"{codes!r:.200}"]
    for name, pair in codes.items() if not wrong else ():
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if name not in possible or not is_pair or not all(isinstance(x, str | int) for x in pair):
            wrong.append(f"{name!r}: {pair!r:.200}")
    if wrong:
        raise ValueError(
            f"codes: must have a code and a text for features of the card, found {wrong[0]}. Pass "
            f"{{{min(possible)!r}: ('R01', 'Why')}}, for example."
        )
    for k, (component, name) in enumerate(names.items()):
        possible_names = (name, *(features[j] for j in component))
        code, text = next((codes[one] for one in possible_names if one in codes), ("", ""))
        members, _, _ = groups.setdefault(code or (name,), ([], str(code), str(text)))
        members.append(k)
    return list(groups.values())


def reason_codes(card: ScoreCard, codes: Mapping[str, Any]) -> list[str]:
    """Code of each component's reason, its name where it has none."""
    code_of = {k: code for members, code, _ in _by_code(card, codes) for k in members}
    return [code_of[k] or name for k, name in enumerate(card.names.values())]


def reference_points(card: ScoreCard, X: Any, cutoff: float, width: float) -> dict[str, float]:
    """Mean points of each component over rows that score slightly above a cut-off."""
    scores, (cells, _) = card.score(X), _cells(card, X)
    near = (scores >= cutoff) & (scores < cutoff + width)
    if not near.any():
        raise ValueError(
            f"cutoff: some rows must score from {cutoff:g} to below {cutoff + width:g}, found "
            f"scores from {scores.min()} to {scores.max()}. Choose another cut-off or width."
        )
    names = card.names
    return {names[s]: float(points[cells[s]][near].mean()) for s, points in card.points.items()}


def is_bad(card: ScoreCard, y: Any, n_rows: int) -> BoolArray:
    """Which rows are of the bad class; both classes are needed."""
    model = card.banded.model
    second = targets_of(model, y, n_rows) == 1
    bad = ~second if card.good == model.classes[1] else second
    if bad.all() or not bad.any():
        raise ValueError(
            f"y: rows of both classes are needed, found {int(bad.sum())} bad ones of {n_rows}. "
            "Pass more rows."
        )
    return np.asarray(bad)


def with_counts(card: ScoreCard, frame: pd.DataFrame, X: Any, y: Any) -> pd.DataFrame:
    """Frame of a card with counts, bad rates, weight of evidence and information value."""
    check_both(X, y)
    cells, n_rows = _cells(card, X)
    bad = is_bad(card, y, n_rows)
    unknown = np.array([np.nan])
    blocks = [(np.array([n_rows]), np.array([bad.sum()]), unknown, unknown)]  # of the base
    for component, points in card.points.items():
        cell = np.ravel_multi_index(cells[component], points.shape)
        n, n_bad = (np.bincount(rows, minlength=points.size) for rows in (cell, cell[bad]))
        blocks.append((n, n_bad, *weights_of_evidence(n - n_bad, n_bad)))
    n, n_bad, woe, iv = map(np.concatenate, zip(*blocks, strict=True))
    rate = np.divide(n_bad, n, out=np.full(len(n), np.nan), where=n > 0)
    return frame.assign(n_rows=n, n_bad=n_bad, bad_rate=rate, woe=woe, iv=iv)


def weights_of_evidence(good: IntArray, bad: IntArray) -> tuple[FloatArray, FloatArray]:
    """Weight of evidence and information value of each cell, from its counts.

    >>> woe, iv = weights_of_evidence(np.array([30, 10]), np.array([5, 5]))
    >>> woe.round(4).tolist(), iv.round(4).tolist()
    ([0.4055, -0.6931], [0.1014, 0.1733])
    """
    added = np.where((good == 0) | (bad == 0), HALF_ROW, 0.0)
    shares = (good + added) / good.sum(), (bad + added) / bad.sum()
    woe = np.log(shares[0] / shares[1])
    is_empty = good + bad == 0
    iv = np.where(is_empty, 0.0, (shares[0] - shares[1]) * woe)
    return np.where(is_empty, np.nan, woe), iv


def balanced_base(card: ScoreCard, X: Any, y: Any) -> int:
    """Points of every row with which the expected number of bad rows is nearest to the observed."""
    scores = card.score(X).astype(np.float64)
    n_bad = int(is_bad(card, y, len(scores)).sum())

    def excess(shift: int) -> float:
        return float(bad_probabilities(card, scores + shift).sum()) - n_bad

    low, high = -FARTHEST, FARTHEST  # fewer bad rows are expected at higher scores
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return card.base_points + min((low, high), key=lambda shift: abs(excess(shift)))


def bad_probabilities(card: ScoreCard, scores: FloatArray) -> FloatArray:
    """Probability of the bad class that scores stand for."""
    return LINKS["logit"].inverse(-card.odds_of(scores))


def cutoff_table(card: ScoreCard, X: Any, y: Any, at: Sequence[float] | None) -> pd.DataFrame:
    """One line for every cut-off."""
    import pandas as pd

    scores = card.score(X).astype(np.float64)
    ranks = np.arange(N_CUTOFFS) / N_CUTOFFS
    chosen = np.unique(np.quantile(scores, ranks, method="lower")) if at is None else np.array(at)
    expected = bad_probabilities(card, scores)
    bad = None if y is None else is_bad(card, y, len(scores))
    lines = []
    for cutoff in chosen.tolist():
        passed = scores >= cutoff
        n_passed = int(passed.sum())
        line = {"cutoff": cutoff, "n_approved": n_passed, "approval_rate": float(passed.mean()),
                "expected_bad_rate": _mean(expected[passed])}  # fmt: skip
        if bad is not None:
            line |= {"bad_rate": _mean(bad[passed]), "bads_refused": _mean(~passed[bad]),
                     "goods_refused": _mean(~passed[~bad])}  # fmt: skip
        lines.append(line)
    return pd.DataFrame(lines)


def _mean(values: FloatArray | BoolArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def score_psi(card: ScoreCard, X: Any, new: Any, n_groups: int) -> pd.DataFrame:
    """Shares of old and new rows by groups of scores, and what each adds to the index."""
    import pandas as pd

    check_parameters({"n_groups": n_groups}, {"n_groups": COUNT})
    then, now = card.score(X), card.score(new)
    ranks = np.arange(1, n_groups) / n_groups
    edges = np.unique(np.quantile(then, ranks, method="lower"))
    edges = edges[edges > then.min()]
    shares = [
        np.bincount(np.searchsorted(edges, scores, side="right"), minlength=len(edges) + 1)
        / len(scores)
        for scores in (then, now)
    ]
    ends = [f"< {edges[0]}", *(f"{a} to < {b}" for a, b in pairwise(edges)),
            f">= {edges[-1]}"] if len(edges) else ["all scores"]  # fmt: skip
    parts = stability_parts(*shares)
    return pd.DataFrame({"score": ends, "share": shares[0], "new_share": shares[1], "psi": parts})


def stability_parts(old: FloatArray, new: FloatArray) -> FloatArray:
    """Parts of the population stability index by group: (q - p) log(q / p) of the shares.

    >>> stability_parts(np.array([0.5, 0.5]), np.array([0.6, 0.4])).sum().round(4).item()
    0.0405
    """
    is_used = (old > 0) | (new > 0)
    p, q = (np.maximum(share, SMALLEST_SHARE) for share in (old, new))
    return np.where(is_used, (q - p) * np.log(q / p), 0.0)


FORMAT, VERSION = "tpnn-scorecard", 1


def card_document(card: ScoreCard) -> dict[str, Any]:
    """Card as values of JSON, without the model."""
    names = card.banded.model.feature_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "good": card.good,
        "pdo": card.pdo,
        "reference_score": card.reference_score,
        "reference_odds": card.reference_odds,
        "base_points": card.base_points,
        "max_deviation": card.max_deviation,
        "features": [_feature_document(card, feature) for feature in card.banded.bands],
        "components": [
            {"features": [names[j] for j in component], "points": points.tolist()}
            for component, points in card.points.items()
        ],
    }


def _feature_document(card: ScoreCard, feature: int) -> dict[str, Any]:
    bands, model = card.banded.bands[feature], card.banded.model
    about = model.encoder.features[feature]
    document: dict[str, Any] = {
        "name": model.feature_names[feature],
        "kind": about.kind,
        "bands": list(bands.labels),
        "missing": bands.n_regular,
    }
    if not bands.has_levels:
        return document | {"cuts": bands.cuts.tolist()}
    of_level = bands.of_point[: len(about.levels)].tolist()
    levels = [list(pair) for pair in zip(about.levels, of_level, strict=True)]
    return document | {"levels": levels, "unseen": bands.n_regular + 1}


class StoredCard(NamedTuple):
    """A card in a file, beside its model."""

    pdo: float
    reference_score: float
    reference_odds: float
    good: Label
    base_points: int
    max_deviation: float
    is_exact: bool
    bands: dict[int, Bands]
    components: tuple[tuple[int, ...], ...]
    points: tuple[Int32Array, ...]  # of each component


def save_card(card: ScoreCard, path: str | os.PathLike[str], sign: Any) -> None:
    """Write the file of the card's model, with the card beside it."""
    stored = StoredCard(
        **{name: getattr(card, name) for name in StoredCard._fields[:7]},
        bands=dict(card.banded.bands),
        components=tuple(card.points),
        points=tuple(points.astype(np.int32) for points in card.points.values()),
    )
    write_archive(path, encode(card.banded.model) | {"card": encode(stored)}, sign)


def read_card(path: str | os.PathLike[str], verify: Any) -> dict[str, Any]:
    """Fields of a card from its file."""
    check_path(path)
    document = read_document(path, verify)
    try:
        model = decode(AnovaModel, document)
        check_model(model)
        card: StoredCard = decode(StoredCard, document["card"])
        points = dict(zip(card.components, card.points, strict=True))
        _check(model, card.bands, points)
        tables = {s: cell_means(model, s, card.bands) for s in model.components}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: must be a complete score card, found {os.fspath(path)!r}, which lacks a part "
            f"of it or has a wrong one ({error!r}). Save the card again."
        ) from error
    fields = {name: getattr(card, name) for name in StoredCard._fields[:7]}
    grouped = BandedModel(model, card.bands, tables, float(model.intercepts[0]))
    whole = {s: table.astype(np.int64) for s, table in points.items()}
    return fields | {"points": whole, "banded": grouped}


def _check(
    model: AnovaModel, bands: Mapping[int, Bands], points: Mapping[Component, Int32Array]
) -> None:
    """Refuse bands and points that do not fit the features of the model, or one another."""
    used = {j for component in (*model.components, *points) for j in component}
    if used != set(bands) or not set(model.components) <= set(points):
        raise ValueError("every feature needs bands, and every component needs points")
    for feature, one in bands.items():
        n_levels, n_points = len(model.encoder.features[feature].levels), len(one.numbers)
        fits = one.has_levels == bool(n_levels) and n_points == len(one.masses) == len(one.of_point)
        if n_levels:
            fits &= n_points == n_levels + 2
        else:
            fits &= len(one.cuts) == one.n_regular - 1 and bool((np.diff(one.cuts) > 0).all())
        if not fits or not set(one.of_point.tolist()) == set(range(one.n_bands)):
            raise ValueError(f"bands of the feature {feature} do not fit its values")
    for component, table in points.items():
        if table.shape != tuple(bands[j].n_bands for j in component):
            raise ValueError(f"points of {component} do not fit its bands")
