"""``tpnn log``: the edits of a model, and whether anybody tampered with them."""

from __future__ import annotations

import argparse
import json
from typing import Any

import tpnn
from tpnn.cli.writing import counted
from tpnn.model.log import check_log, first_break
from tpnn.model.log_words import edit_words

EMPTY = "not said"


def run(given: argparse.Namespace) -> None:
    """Print all records of the log, as text or as JSON; a broken chain is an error."""
    model = tpnn.load_model(given.model)
    records: list[dict[str, Any]] = [] if model.edits is None else list(model.edits.records)
    if given.json:
        print(json.dumps({"whole": first_break(model) is None, "records": records}))
    else:
        for record in records:
            print("\n".join(_lines(record)), end="\n\n")
    check_log(model)
    if not given.json:
        print(f"{counted(len(records), 'edit')}, the chain is whole; the model is {model.digest()}")


def _lines(record: dict[str, Any]) -> list[str]:
    """Write one record as lines of text."""
    changed, effect = record["changed"], record["effect"]
    sizes = [f"{' x '.join(names)} by up to {size:.6g}" for names, size in changed["components"]]
    removed = [f"{' x '.join(names)} removed" for names in changed["removed"]]
    lost = [f"{name} loses its shape" for name in changed["shapes_lost"]]
    return [
        f"{record['number']}. {edit_words(record['edit'])}",
        f"   why: {record['why'] or EMPTY}",
        f"   by: {record['by'] or EMPTY}, {record['when']}, tpnn {record['version']}",
        f"   changed: {', '.join([*sizes, *removed, *lost]) or 'the intercept alone'}",
        f"   intercept: {_numbers(changed['intercept'][0])} -> {_numbers(changed['intercept'][1])}",
        f"   held-out loss: {_effect_words(effect)}",
        f"   hash: {record['hash']}",
    ]


def _effect_words(effect: dict[str, Any] | None) -> str:
    if effect is None:
        return "unknown, no held-out rows were given"
    words = f"{effect['before']:.6g} -> {effect['after']:.6g}"
    return f"{words} ({effect['loss']}, {effect['n_rows']} rows)"


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
