"""Facts: what is stored comes back, and what makes no sense is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tpnn.model.evidence import ComponentFacts, Facts

KNOWN = ComponentFacts(3.5, 0.01, 1.25, 0.1, 0.75)
FACTS = Facts("poisson", 1.5, (KNOWN, ComponentFacts()))


def test_facts_survive_json() -> None:
    stored = json.loads(json.dumps(FACTS.as_dict(), allow_nan=False))
    found = Facts.of(stored)
    assert found[:2] == FACTS[:2]
    assert found.components[0] == KNOWN
    assert all(map(math.isnan, found.components[1]))
    assert found.first_broken_rule(2) is None


def test_numbers_to_come_are_ignored() -> None:
    stored = FACTS.as_dict()
    assert Facts.of(stored | {"components": [[*KNOWN, 7.0]], "later": 1}).components == (KNOWN,)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"loss_name": 3}, "a name"),
        ({"loss": math.inf}, "be finite"),
        ({"loss": "low"}, "be finite"),
        ({"components": [list(KNOWN)]}, "every component"),
        ({"components": [["3.5", *KNOWN[1:]]] * 2}, "numbers"),
        ({"components": [[math.inf, *KNOWN[1:]]] * 2}, "numbers"),
        ({"components": [[3.5, 1.5, *KNOWN[2:]]] * 2}, "shares"),
        ({"components": [[*KNOWN[:4], -0.1]] * 2}, "shares"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], rule: str) -> None:
    broken = Facts.of(FACTS.as_dict() | change).first_broken_rule(2)
    assert broken is not None
    assert rule in broken
