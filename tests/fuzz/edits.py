"""Edit files that nobody should write: clear errors, or models that live on."""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np

from tests.fuzz.faults import argument_of
from tests.fuzz.laws import FOLDER
from tests.fuzz.outcome import Outcome, failure
from tests.fuzz.random_edits import check_edited, random_edit
from tpnn import load
from tpnn.lifecycle.edit import replay

HOSTILE = 0.6  # share of the files of which parts are replaced
OF_EDIT = re.compile(r"edit \d+ of '.*?': (.*)", re.DOTALL)


def try_edits(seed: int) -> Outcome:
    """Replay a file of random edits, of which parts may be odd."""
    from tests.fuzz.files import originals, replace_part

    originals_, rng = originals(), np.random.default_rng([seed, 5])
    data, table, _ = originals_[seed % len(originals_)]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        warnings.simplefilter("ignore")
        path = Path(folder, "model")
        path.write_bytes(data)
        model = load(path).model_
        edits = [random_edit(model, rng) for _ in range(rng.integers(1, 4))]
        document = {"format": "tpnn-edits", "version": 1, "edits": edits}
        if rng.random() < HOSTILE:
            key = "edits" if rng.random() < 0.9 else str(rng.choice(list(document)))
            replace_part(document, key, rng)
        file = Path(folder, "edits.json")
        file.write_text(json.dumps(document))
        try:
            new = replay(model, file)
        except Exception as error:  # whatever is raised is judged here
            return _refused(seed, error)
        try:
            check_edited(model, new, table, Path(folder))
        except Exception as error:
            return failure(seed, error)
    return Outcome(seed, "edited")


def _refused(seed: int, error: Exception) -> Outcome:
    found = OF_EDIT.fullmatch(str(error))
    argument = argument_of(type(error)(found[1]) if found else error)
    return failure(seed, error) if argument is None else Outcome(seed, f"refused: {argument}")
