"""Page of a validation: tables, calibration, and fields in which a person must write."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pandas as pd

from tpnn.explain.metrics.curves import score_words
from tpnn.explain.plots.style import COLOURS, LABEL_SIZE, TICK_SIZE, axes_or_new, legend_above, tidy
from tpnn.explain.report.data import in_words
from tpnn.explain.report.static import (
    Section,
    field,
    page,
    paragraph,
    picture,
    pictures,
    table,
    unfolded,
)
from tpnn.lifecycle.validate.robustness import MISSING, NOISE_WORD, OTHERS_WORD, Robustness

if TYPE_CHECKING:
    from tpnn.lifecycle.validate.validate import Validation


MOST_PARTS = 5  # of the difference of a group
ANNEX_IV = (  # of the EU AI Act, by number
    "1. General description: purpose, provider, version, how it is used and by whom",
    "2. Elements and development: design choices, data and their origin, human oversight",
    "3. Monitoring, functioning and control: capabilities, limits, foreseeable misuse",
    "4. Why these performance metrics are appropriate",
    "5. Risk management system",
    "6. Changes through the lifecycle",
    "7. Harmonised standards and other specifications applied",
    "8. EU declaration of conformity",
    "9. Post-market monitoring plan",
)
SR_26_2 = (
    "Purpose, use and materiality tier",
    "Conceptual soundness: assumptions, alternatives considered",
    "Data: sources, quality, representativeness",
    "Outcomes analysis: conclusions from the figures in this document",
    "Ongoing monitoring: thresholds, frequency, owner",
    "Governance: developer, validator, approvals, dates",
    "Limitations and compensating controls",
)
TRIPOD_AI = (  # what its parts ask for, in the order of a report
    "Title and abstract: that a prediction model is developed or evaluated, for whom and of what",
    "Introduction: the decision that the model supports, existing models, known inequalities",
    "Data and participants: sources, dates, setting, who is included, treatments received",
    "Outcome and predictors: definitions, when and how they are measured, who was blinded",
    "Sample size: how it was arrived at",
    "Missing data: how they arise, and what was done about them",
    "Analysis: partition of the data, handling of predictors, tuning, internal validation",
    "Class imbalance, and recalibration where it was corrected",
    "Fairness: what was done about differences between groups, and why",
    "Use: output of the model, threshold, what users must know and check",
    "Ethics, patient and public involvement",
    "Open science: funding, conflicts of interest, protocol, registration, data and code",
    "Results: flow of participants, their characteristics, and how these differ between data sets",
    "Interpretation: limitations, use in practice, next steps",
)


def validation_page(validation: Validation) -> str:
    """Write the page."""
    facts = [("Rows", validation.facts["rows"]), ("Weak slices", len(validation.slices)),
             ("Components", len(validation.facts["components"]))]  # fmt: skip
    settings = {**validation.facts, **validation.facts["provenance"].get("settings", {})}
    apart = ("provenance", "reviews")
    lines = [(name, _setting(value)) for name, value in settings.items() if name not in apart]
    reviews = pd.DataFrame(validation.facts["reviews"], columns=["component", "review"])
    rate = f"{100 * validation.false_alarm_rate:g} %"
    challenge = validation.challenge
    sections = [
        Section("Scores", "On rows that the model has not seen, with confidence intervals of 95 %.",
                (table(validation.scores),)),
        *([] if challenge is None else [
            Section("Challenger", f"{challenge.price} The challenger is {challenge.about}.",
                    (table(challenge.scores),))]),
        Section("Calibration", "Mean prediction and mean target, from the smallest to the largest "
                "prediction.",
                (pictures(_curves(validation.calibration)), table(validation.calibration))),
        Section("Weak slices", f"{validation.n_slices} tests on slices of one and two features. If "
                f"the model is right everywhere, the chance of any line here is {rate} at most.",
                (table(validation.slices),)),
        _robust_section(validation.robustness),
        Section("Groups", "Difference of each group's mean raw score from that of all other rows, "
                "and the components and the remainder that it is the sum of.",
                (table(validation.groups), *_group_parts(validation.group_components))),
        *(Section(name, "", (table(frame),)) for name, frame in validation.sheets.items()),
        *([] if reviews.empty else [Section("Reviews of components", "", (table(reviews),))]),
        Section("Settings and provenance", "",
                (table(pd.DataFrame(lines, columns=["setting", "value"])),)),
        Section("EU AI Act, Annex IV", "To be written by a person.", tuple(map(field, ANNEX_IV))),
        Section("SR 26-2", "To be written by a person.", tuple(map(field, SR_26_2))),
        Section("TRIPOD+AI", "Of models for health, to be written by a person: scores with their "
                "intervals, calibration, groups and the full model are in the sections above.",
                tuple(map(field, TRIPOD_AI))),
    ]  # fmt: skip
    return page("Validation", validation.verdict, facts, sections, keep=digest_of(validation))


def digest_of(validation: Validation) -> str:
    """Name under which a browser keeps what is written: of this validation, and no other."""
    return sha256(repr((validation.facts, validation.scores.to_dict())).encode()).hexdigest()[:16]


def _group_parts(parts: pd.DataFrame) -> Iterator[str]:
    """Unfold each group to the largest parts of its difference."""
    keys = [name for name in ("attribute", "group", "output") if name in parts]
    for names, frame in parts.groupby(keys, sort=False) if len(parts) else ():
        largest = frame["difference"].abs().nlargest(MOST_PARTS).index
        heading = ": ".join(map(str, names))
        yield unfolded(heading, table(frame.loc[largest].drop(columns=keys)))


def _setting(value: Any) -> str:
    """Write a fact or a setting; a list begins with its length."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple) and len(value) > 1:
        return f"{len(value)}: {', '.join(map(str, value))}"
    return in_words({"": value})[""]


def _robust_section(robust: Robustness) -> Section:
    """Write what changes of values do, a table for each kind of change."""
    note = (
        f"What happens when values change, on {robust.n_rows} rows. Changes of predictions are "
        f"absolute; the score is: {score_words(robust.score)}. The draws are the same each time."
    )
    share = f"{100 * robust.noise:g} % of the distance from the lower to the upper tenth"
    parts = [
        paragraph(f"Normal noise in each number; its standard deviation is {share} of the "
                  "training rows."), _changes(robust, NOISE_WORD),
        paragraph("Each feature replaced by the values of other rows."),
        _changes(robust, OTHERS_WORD),
        paragraph("Each feature missing."), _changes(robust, MISSING),
        paragraph(f"{robust.n_outside} rows have values that the fit has not seen. Beyond the "
                  "outer nodes the model stays at the effect of the outer node; a level or missing "
                  "value that is new has no effect."), table(robust.extrapolation),
        paragraph(_worst_words(robust)), table(robust.worst_case),
        table(robust.worst_case_components.sort_values("rise", ascending=False, kind="stable")),
    ]  # fmt: skip
    return Section("Robustness", note, tuple(parts))


def _changes(robust: Robustness, kind: str) -> str:
    frame = robust.changes[robust.changes["change"] == kind].drop(columns="change")
    return table(frame if kind == NOISE_WORD else frame.drop(columns="amount"))


def _worst_words(robust: Robustness) -> str:
    """Say what the worst case is, and whether it is attained."""
    kind = (
        "Features do not interact, so the bound is exact: some values attain it on every row."
        if robust.is_exact
        else "Features interact: each component's bound is exact by itself, but a feature cannot "
        "be at the worst place of several components at once, so the truth lies between a move "
        "that a search attained and the bound, which nothing exceeds."
    )
    kept = robust.decisions_kept
    words = "" if kept is None else f" The decision of {100 * kept:.1f} % of rows cannot change."
    return (
        f"Worst case, on {robust.n_worst_rows} rows: how far the raw score can rise and fall if "
        f"every number moves by at most {100 * robust.noise:g} % of that distance, and its split "
        f"into components. {kind}{words}"
    )


def _curves(calibration: pd.DataFrame) -> Iterator[str]:
    """Draw predictions and targets for each output, over predictions or over time."""
    outputs = calibration.groupby("output", sort=False) if len(calibration) else ()
    for output, frame in outputs:
        name = "time" if "time" in frame else "predicted"
        axes = axes_or_new(None)
        for column, colour in zip(("predicted", "actual"), COLOURS, strict=False):
            axes.plot(frame[name], frame[column], ".-", color=colour, label=column)
        axes.set_xlabel(name, fontsize=LABEL_SIZE)
        axes.xaxis.set_tick_params(labelsize=TICK_SIZE)
        legend_above(axes)
        tidy(axes)
        yield picture(str(output) or "Calibration", axes.figure)
