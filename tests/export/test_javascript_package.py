"""The package of JavaScript reads JSON, predicts and explains as the library does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.export.test_r import models

PACKAGE = Path(__file__).parents[2] / "contrib" / "js"
SCRIPT = """
import {readFileSync, readdirSync, writeFileSync} from "node:fs";
import {explain, load, predict, rawScores} from "MODULE";

const folder = process.argv[2];
for (const name of readdirSync(folder).filter(name => name.endsWith(".rows"))) {
  const model = load(readFileSync(`${folder}/${name.replace(".rows", ".json")}`, "utf8"));
  const rows = JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
  const found = rows.map(row => ({
    response: predict(model, row), link: rawScores(model, row),
    parts: explain(model, row).map(part => part.values),
  }));
  writeFileSync(`${folder}/${name}.found`, JSON.stringify(found));
}
"""

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON holds them: null where missing, dates as ISO text."""
    return json.loads(rows.to_json(orient="records", date_format="iso", double_precision=15))


@needs_node
@pytest.mark.filterwarnings("ignore:X. levels or missing values")
def test_javascript_predicts_what_the_library_predicts(tmp_path: Path) -> None:
    cases = models()
    for name, (model, rows) in cases.items():
        model.to_json(tmp_path / f"{name}.json")
        (tmp_path / f"{name}.rows").write_text(json.dumps(records(rows)))
    script = tmp_path / "script.mjs"
    script.write_text(SCRIPT.replace("MODULE", (PACKAGE / "index.mjs").as_uri()))
    ended = subprocess.run(["node", script, tmp_path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for name, (model, rows) in cases.items():
        found = json.loads((tmp_path / f"{name}.rows.found").read_text())
        table = pd.DataFrame(records(rows))
        if "since" in table:
            table["since"] = pd.to_datetime(table["since"]).dt.tz_localize(None)
        table = table.to_numpy(float) if name == "unnamed" else table
        scores = np.asarray(model.component_scores(table))
        rest = np.asarray(model.remainder_scores(table))[:, None]
        parts = scores if model.remainder is None else np.concatenate([scores, rest], 1)
        expected = {
            "response": model.predict(table),
            "link": model.raw_scores(table),
            "parts": parts,
        }
        for kind, values in expected.items():
            of_kind = np.array([row[kind] for row in found]).reshape(values.shape)
            assert np.allclose(of_kind, values, rtol=1e-12, atol=1e-12), (name, kind)


@needs_node
def test_what_is_missing_is_said(tmp_path: Path) -> None:
    model, _ = models()["exposure"]
    model.to_json(tmp_path / "model.json")
    script = f"""
import {{readFileSync}} from "node:fs";
import {{load, predict}} from "{(PACKAGE / "index.mjs").as_uri()}";
predict(load(readFileSync("{tmp_path / "model.json"}", "utf8")), {{}});
"""
    (tmp_path / "script.mjs").write_text(script)
    ended = subprocess.run(["node", tmp_path / "script.mjs"], capture_output=True, text=True)
    assert "is needed; null is a missing value" in ended.stderr


def test_the_package_has_the_version_of_the_library() -> None:
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == tpnn.__version__
