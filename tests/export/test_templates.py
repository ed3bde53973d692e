"""Templates are files that run: each is what to_code writes for an example model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed.exports.languages import C_FLAGS
from tpnn import AnovaModel, ComponentSet
from tpnn.anova.trees import TreeBuilder, TreeFeature, Trees
from tpnn.export.code import LANGUAGES, TEMPLATES
from tpnn.export.lowering import MISSING, UNSEEN
from tpnn.loss.links import LINKS
from tpnn.model.remainder import Remainder
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table


def example() -> AnovaModel:
    """Claims by age and town, with an exposure and a remainder of two trees."""
    rows = pd.DataFrame(
        {
            "exposure": [1.0, 0.5, 1.0, 1.0],
            "age": [20.0, 40.0, 60.0, np.nan],
            "town": ["Bonn", "Ulm", "Ulm", "Bonn"],
        }
    )
    encoder = TableEncoder.fit(Table(rows).set_aside(0, True), {1: 8, 2: 8})
    components = ComponentSet(((0,), (1,), (0, 1)))
    shapes = [[encoder.axes[len(s)][j].n_nodes for j in s] for s in components]
    tables = tuple(np.arange(np.prod(shape)).reshape(*shape, 1) / 8 for shape in shapes)
    remainder = Remainder(
        trees=trees_of_age_and_town(),
        constants=np.array([0.5]),
        components=ComponentSet(((1,),)),
        tables=(np.array([[0.25], [-0.25]]),),
        share=0.1,
        worth=0.1,
    )
    return AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=np.array([-1.5]),
        link=LINKS["log"],
        has_offset=True,
        remainder=remainder,
    )


def trees_of_age_and_town() -> Trees:
    """Two trees: one asks for Ulm and then whether age is above 40, the other is a leaf."""
    age = TreeFeature(np.array([40.0]), None, np.ones(4) / 4)
    town = TreeFeature(np.empty(0), np.array([0, 1], np.int32), np.ones(4) / 4)
    builder = TreeBuilder([age, town], 1)
    leaves = [builder.leaf(np.array([value])) for value in (0.5, 1.0, 2.0, 4.0)]
    is_old = builder.question(0, np.array([False, True, False, False]))
    is_ulm = builder.question(1, np.array([False, True, False, False]))
    builder.root(builder.node(is_ulm, leaves[0], builder.node(is_old, leaves[1], leaves[2])))
    builder.root(leaves[3])
    return builder.trees()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_template_holds_the_example(language: str) -> None:
    """After a change of what is written, put this text into the file."""
    template = TEMPLATES / LANGUAGES[language][0]
    assert template.read_text("ascii") == example().to_code(language, contributions=True)


def test_the_template_in_c_compiles() -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    strict = ["-Wconversion", "-Wshadow", "-Wcast-qual", "-fsyntax-only"]
    subprocess.run(["gcc", *C_FLAGS, *strict, str(TEMPLATES / "score.c")], check=True)


def test_the_template_in_javascript_runs(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = tmp_path / "calls.mjs"
    script.write_text(
        f'import {{ score }} from "{(TEMPLATES / "score.mjs").as_uri()}";\n'
        'console.log(score({ age: 30, town: "Ulm", exposure: 1 }).raw_score);\n'
    )
    done = subprocess.run(["node", str(script)], capture_output=True, check=True, text=True)
    rows = pd.DataFrame({"exposure": [1.0], "age": [30.0], "town": ["Ulm"]})
    assert float(done.stdout) == pytest.approx(float(example().raw_scores(rows)[0]), abs=1e-14)


@pytest.mark.parametrize("file", ["score.c", "score.mjs", "score.py"])
def test_codes_are_those_of_the_lowering(file: str) -> None:
    text = (TEMPLATES / file).read_text("ascii")
    pairs = {"score.c": f"TPNN_MISSING = {MISSING}, TPNN_UNSEEN = {UNSEEN}",
             "score.mjs": f"MISSING = {MISSING}, UNSEEN = {UNSEEN};",
             "score.py": f"MISSING, UNSEEN = {MISSING}, {UNSEEN}"}  # fmt: skip
    assert pairs[file] in text
