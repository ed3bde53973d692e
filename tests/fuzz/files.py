"""Damaged model files: refused in plain words, or read as a model that predicts finite numbers.

Some of the models were edited, so that their files have logs and what it takes to undo edits.
"""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import tpnn
from tests.fuzz.cases import Numbers, random_case
from tests.fuzz.faults import argument_of
from tests.fuzz.laws import FOLDER, all_compiled, require
from tests.fuzz.outcome import Outcome, failure
from tests.fuzz.random_edits import edited_often
from tests.models import with_remainder
from tpnn import AnovaModel, load
from tpnn.lifecycle.edit import digest
from tpnn.model.archive import _digest, read_document, write_archive

LONGEST_PROVENANCE = 1_000_000  # characters
PROVENANCE_SHARE = 0.2  # of the damages to a header
TREES_SHARE = 0.3  # of the damages to the document of a model with a remainder
N_MODELS = 12  # that are damaged
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 1e308, 65535.0, 0.0)
ODD_PARTS: tuple[Any, ...] = (
    None, -1, 0, 1, 10**9, 65535, 1.5, True, "x", "softmax", "", [], [0], [[0, 0]], {}, {"x": "up"},
    10**30, -0.0, "\ud800", [None], [[]], [[0, 0, 0]], 2**63,
)  # fmt: skip
Bytes = Callable[[bytes, np.random.Generator], bytes]


@lru_cache(maxsize=1)
def originals() -> tuple[tuple[bytes, Any, Numbers], ...]:
    """Files of fitted models of all tasks, each with rows and their raw scores."""
    found: list[tuple[bytes, Any, Numbers]] = []
    seed = 0
    while len(found) < N_MODELS:
        seed, case = seed + 1, random_case(seed)
        if case.faults or case.lacks or case.settings.get("shapes") or case.n_rows < 10:
            continue
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            warnings.simplefilter("ignore")
            model, path = case.fit().model_, Path(folder, "model")
            if len(found) % 4 > 1:
                model = with_remainder(model, is_oblivious=len(found) % 4 == 2)
            if len(found) % 2:
                model = edited_often(model, np.random.default_rng([seed, 7]))
            model.save(path)
            found.append((path.read_bytes(), case.table(), model.raw_scores(case.table())))
    return tuple(found)


def try_file(seed: int) -> Outcome:
    """Damage a file in the way of a seed, and read it."""
    data, table, expected = originals()[seed % N_MODELS]
    rng = np.random.default_rng([seed, 4])
    kind = str(rng.choice(list(DAMAGES), p=SHARES))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        warnings.simplefilter("ignore")
        path = Path(folder, "model")
        path.write_bytes(DAMAGES[kind](data, rng))
        try:
            return Outcome(seed, _read(path, table, expected if kind in RAW else None, data))
        except Exception as error:  # whatever is raised is judged here
            return failure(seed, error)


def _read(path: Path, table: Any, expected: Numbers | None, data: bytes) -> str:
    """Read a file; where nothing in it was crafted, it is refused or the model that it was."""
    try:
        loaded = tpnn.load(path)
    except ValueError as error:
        if argument_of(error) != "path":
            raise
        return "refused: path"
    model = loaded.model_
    _check_log(model, path, data)
    try:
        raw = model.raw_scores(table, np.zeros(_n_rows(table)))
    except (TypeError, ValueError) as error:  # the table no longer fits the damaged names
        if argument_of(error) != "X":
            raise
        return "refused: X"
    _check(model, table, raw)
    if expected is not None:
        require(np.array_equal(raw, expected), "a damaged file predicts what it did")
    return "loaded"


def _check_log(model: AnovaModel, path: Path, data: bytes) -> None:
    """Check that a log is whole or refused, and that the last hash stands for the whole model."""
    for method in (model.log, model.undo):
        try:
            method()
        except ValueError as error:
            require(argument_of(error) in ("edits", "undo"), f"a clear error, not {error}")
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        Path(folder, "model").write_bytes(data)
        old = load(Path(folder, "model")).model_
    if old.edits is None:
        return
    last = old.edits.records[-1]["hash"]
    try:
        found = load(path, last_hash=last).model_
    except ValueError as error:
        require(argument_of(error) in ("edits", "last_hash"), f"a clear error, not {error}")
    else:
        require(digest(found) == digest(old), "the last hash is that of this model alone")
        require(list(found.edits.records) == list(old.edits.records), "and of this log alone")


def _check(model: AnovaModel, table: Any, raw: Numbers) -> None:
    """Check a model of which nothing is known but that it was read."""
    require(np.isfinite(raw).all(), "raw scores are finite")
    require(np.isfinite(model.predict(table, np.zeros(len(raw)))).all(), "predictions are finite")
    with all_compiled():
        fast = model.raw_scores(table, np.zeros(len(raw)))
    tables = [*model.tables, *(() if model.remainder is None else model.remainder.tables)]
    scale = float(np.abs(raw).max(initial=0)) + sum(float(np.abs(t).max()) for t in tables)
    require(np.allclose(fast, raw, rtol=0, atol=1e-9 * scale), "compiled scores are those of NumPy")
    if model.remainder is not None:
        few = [column[:3] for column in model.encoder.columns(model.encoder.read(table))]
        shapley = model.remainder.shapley(model.encoder.axes, few)
        require(np.isfinite(shapley).all(), "Shapley values of the remainder are finite")
    require(repr(model) and model.component_names is not None, "repr")
    if model.provenance is not None:
        require(len(str(model.provenance.as_dict())) < LONGEST_PROVENANCE, "it is of moderate size")


def _n_rows(table: Any) -> int:
    return int(getattr(table, "shape", (len(table),))[0])


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 9)):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut the end off, or the beginning."""
    place = int(rng.integers(len(data)))
    return data[:place] if rng.random() < 0.8 else data[place:]


def splice(data: bytes, rng: np.random.Generator) -> bytes:
    """Put a piece of the file in place of another, which need not be as long."""
    first, second, third = np.sort(rng.integers(len(data), size=3))
    piece = data[first:second] if rng.random() < 0.7 else rng.bytes(int(rng.integers(100)))
    return data[:second] + piece + data[third:]


def craft(data: bytes, rng: np.random.Generator) -> bytes:
    """Change the document and compute the checksum anew."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        document = read_document(path)
        for _ in range(rng.integers(1, 4)):
            damage(document, rng)
        write_archive(path, document)
        return path.read_bytes()


def damage(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Change one number of an array, its length or type, or one plain part of a document."""
    if document.get("remainder") and rng.random() < TREES_SHARE:
        rewire(document["remainder"], rng)
        return
    kind = rng.integers(4)
    places = list(_arrays_in(document))
    if kind == 3 or not places:
        key = str(rng.choice(sorted(document)))
        has_provenance = document.get("provenance") is not None
        if has_provenance and rng.random() < PROVENANCE_SHARE:
            key = "provenance"
        replace_part(document, key, rng)
        return
    parent, key = places[rng.integers(len(places))]
    array = parent[key].copy()
    if kind == 0 and array.size:
        odd = rng.choice(ODD_NUMBERS)
        with np.errstate(invalid="ignore"):
            array.flat[rng.integers(array.size)] = np.asarray(odd).astype(array.dtype)
    elif kind == 1 and array.ndim:
        array = array[: rng.integers(len(array) + 1)]
    elif array.dtype.kind != "U":  # text, after an earlier damage, stays text
        with np.errstate(invalid="ignore"):
            array = array.astype(rng.choice(["f4", "i8", "u1", "c16", "U3"]))
    parent[key] = array


def rewire(remainder: Any, rng: np.random.Generator) -> None:
    """Lead ways in trees elsewhere: into circles, to nowhere, to nodes that others lead to."""
    trees = remainder.get("trees") if isinstance(remainder, dict) else None
    wired = trees.get("children") if isinstance(trees, dict) else None
    if not isinstance(wired, np.ndarray) or wired.dtype != np.int32 or not wired.size:
        return  # after an earlier damage
    children, n_nodes = wired.copy(), len(wired)
    places = rng.integers(children.size, size=rng.integers(1, 4))
    kind = rng.integers(3)
    if kind == 0:
        children.flat[places] = rng.integers(-n_nodes - 3, n_nodes + 3, len(places))
    elif kind == 1:
        children.flat[places] = np.roll(children.flat[places], 1)
    else:  # a circle of its own, with as many ways as nodes and leaves
        circle = rng.choice(n_nodes, size=min(int(rng.integers(1, 4)), n_nodes), replace=False)
        children[circle, 0] = np.roll(circle, 1)
    trees["children"] = children


def _arrays_in(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every dict or list in a document that holds an array, and under which key."""
    for key in part if isinstance(part, dict) else range(len(part)):
        if isinstance(part[key], np.ndarray):
            yield part, key
        elif isinstance(part[key], dict | list):
            yield from _arrays_in(part[key])


def replace_part(place: Any, key: Any, rng: np.random.Generator) -> None:
    """Put something odd in place of a part, or of one within it, or leave that out."""
    while isinstance(place[key], list | dict) and place[key] and rng.random() < 0.8:
        place = place[key]
        names = sorted(place) if isinstance(place, dict) else range(len(place))
        key = names[int(rng.integers(len(names)))]
    if rng.random() < 0.1:
        del place[key]
    else:
        place[key] = deepcopy(ODD_PARTS[rng.integers(len(ODD_PARTS))])


def craft_json(data: bytes, rng: np.random.Generator) -> bytes:
    """Change parts of the JSON form, or its bytes."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        text = tpnn.load(path).model_.to_json() or ""
    if rng.random() < 0.2:
        return RAW[str(rng.choice(list(RAW)))](text.encode(), rng)
    document = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        replace_part(document, str(rng.choice(sorted(document))), rng)
    return json.dumps(document).encode()


def rewrite(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace, add or leave out an entry of the archive, and compute the checksum anew."""
    entries = _entries(data)
    name = str(rng.choice(list(entries)))
    odd = ODD_ENTRIES[rng.integers(len(ODD_ENTRIES))]
    if odd is None:
        entries.pop(name)
    else:
        entries[name if rng.random() < 0.9 else "more.npy"] = odd
    return _packed(entries)


def craft_header(data: bytes, rng: np.random.Generator) -> bytes:
    """Change where arrays belong and which numbers they have, and compute the checksum anew."""
    entries = _entries(data)
    header = json.loads(entries["header.json"])
    replace_part(header, "arrays", rng)
    return _packed(entries | {"header.json": json.dumps(header).encode()})


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = (name for name in archive.namelist() if name != "digest.txt")
        return {name: archive.read(name) for name in names}


def _packed(entries: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (entries | {"digest.txt": _digest(entries).encode()}).items():
            archive.writestr(name, content)
    return packed.getvalue()


def _array_file(described: str, content: bytes = b"") -> bytes:
    """Return the bytes of an array file with a header that may lie about what follows."""
    header = described.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


ODD_ENTRIES: tuple[bytes | None, ...] = (
    None, b"", b"[" * 50_000, b"{}", b"null", b"\xff\xfe", bytes(1 << 16),
    json.dumps({"format": "tpnn-model", "version": 99}).encode(),
    json.dumps({"format": "tpnn-model", "version": 1}).encode(),
    json.dumps({"format": "tpnn-model", "version": "one"}).encode(),
    _array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
    _array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,)}"),
    _array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8)),
    _array_file("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    _array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", bytes(8)),
    _array_file("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", bytes(8)),
    _array_file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    _array_file("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3)}", bytes(48)),
    _array_file("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    _array_file("not a dict"),
)  # fmt: skip
RAW: dict[str, Bytes] = {"bits": flip_bits, "cut": truncate, "splice": splice}
DAMAGES: dict[str, Bytes] = RAW | {
    "craft": craft,
    "header": craft_header,
    "rewrite": rewrite,
    "json": craft_json,
}
SHARES = (0.1, 0.1, 0.1, 0.35, 0.1, 0.1, 0.15)  # of the damages, in this order
