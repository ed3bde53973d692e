"""Commands for the later life of a model: ``validate``, ``monitor``, ``edit`` and ``read``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpnn
from tpnn._utils.files import write_file
from tpnn.cli.csv_files import CsvFormat, read_rows
from tpnn.cli.frames import features_of, read_scored, read_table, targets_of
from tpnn.cli.output import check_output, counted, print_table, printable
from tpnn.lifecycle.edit.edit import replay

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 12  # of a table on the screen


def run_validate(options: argparse.Namespace) -> None:
    """Print what a validator asks first; write all of it as a page or as JSON."""
    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    X, y = read_scored(model, options)
    answer = tpnn.validate(model, X, y, options.protected or None)
    slices = "no slice" if answer.slices.empty else counted(len(answer.slices), "slice")
    words = f"in which the model is wrong beyond chance ({answer.n_slices} tests)"
    print(f"{counted(answer.facts['rows'], 'row')}, {slices} {words}")
    _print_frame(answer.scores)
    _print_frame(answer.slices, "Weak slices")
    _print_frame(answer.groups, "Groups")
    _write(answer, options.output)


def run_monitor(options: argparse.Namespace) -> None:
    """Print the alarms and how far features and scores moved; write a page or JSON."""
    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    old = None if options.reference is None else read_rows(model, options.reference, options)
    X, y = read_scored(model, options)
    found = tpnn.monitor(model, old, X, y)
    for words in found.alarms or ("no alarm",):
        print(printable(words))
    _print_frame(found.features.sort_values("psi", ascending=False), "Features")
    _print_frame(found.score, "Mean raw score")
    _print_frame(found.calibration, "Targets")
    _write(found, options.output)


def _write(answer: Any, path: str | None) -> None:
    """Write all of an answer as a page or as JSON."""
    if path is not None and Path(path).suffix == ".html":
        answer.to_html(path)
    elif path is not None:
        write_file(path, json.dumps(answer.to_dict(), indent=1, default=str).encode())


def _print_frame(frame: pd.DataFrame, title: str = "") -> None:
    """Print the first lines of a frame, and how many more there are; nothing if it is empty."""
    if frame.empty:
        return
    print(f"\n{title}" if title else "")
    print_table({str(name): frame[name].head(MOST_LINES).tolist() for name in frame})
    if len(frame) > MOST_LINES:
        print(f"... and {len(frame) - MOST_LINES} more; -o FILE writes all of them")


def run_edit(options: argparse.Namespace) -> None:
    """Make the edits of a file, that a report page or ``save_edits`` has written."""
    check_output(options.output, options.model, options.edits, options.data)
    model = tpnn.load(options.model).model_
    rows = () if options.data is None else read_scored(model, options)
    edited = replay(model, options.edits, *rows)
    edited.save(options.output)
    n_edits = len(edited.log()) - len(model.log())
    print(f"{counted(n_edits, 'edit')} made, saved to {options.output}")
    print(f"next: tpnn log {options.output}")


def run_read(options: argparse.Namespace) -> None:
    """Read the trees of another library from its own file."""
    check_output(options.output, options.model, options.data)
    table = read_table(options.data, CsvFormat.of(options), options.categorical)
    if options.target is not None:
        targets_of(table, options)  # refuses a name that is no column
    model = tpnn.read(_trees(options.model), features_of(table, options), link=options.link)
    model.save(options.output)
    n_components = counted(len(model.components), "component")
    rest = "" if model.remainder is None else " and a remainder"
    print(f"{n_components}{rest}, saved to {options.output}")
    print(f"next: tpnn summary {options.output}")


def _trees(path: str) -> Any:
    """Model of another library, from a file that runs no code when it is read."""
    if not Path(path).is_file():
        raise ValueError(f"model: must be a file, found {path!r}. Check the path.")
    suffix = Path(path).suffix
    if suffix == ".cbm":
        from catboost import CatBoost

        return CatBoost().load_model(path)
    if suffix == ".txt":
        from lightgbm import Booster

        return Booster(model_file=path)
    if suffix in (".json", ".ubj"):
        from xgboost import Booster as XgboostBooster

        return XgboostBooster(model_file=path)
    raise ValueError(
        "model: must be a file of CatBoost (.cbm), LightGBM (.txt) or XGBoost (.json, .ubj), found "
        f"{path!r}. Save it from there; models of scikit-learn are read in Python, by tpnn.read."
    )
