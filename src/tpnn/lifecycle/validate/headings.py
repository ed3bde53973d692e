"""Headings under which a person must write, because no software knows the answer."""

from __future__ import annotations

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
