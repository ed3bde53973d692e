"""A model that is edited in a notebook's cell, in a browser, comes back to Python edited."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import tpnn
from tests.explain.report.browser import chromium
from tests.explain.report.editing import PREDICTIONS, choose, explain_edit, fill
from tests.notebook.conftest import SETUP
from tpnn.explain.report.writing import PAGE, in_frame
from tpnn.lifecycle.edit import widget
from tpnn.lifecycle.edit.edit import replayed

EQUAL = 1e-5
CELLS = (
    SETUP + "import tpnn\ntpnn.editor(model, X, y)",
    "from tpnn.lifecycle.edit import save_edits\nmodel.edited_.save('edited.tpnn')\n"
    "save_edits(model.edited_, 'edits.json')",
)
HOST = """<!doctype html><title>Notebook</title><div id="cell"></div><script type="module">
  const {default: {render}} = await import("data:text/javascript," + encodeURIComponent(%s));
  window.sent = [];
  window.state = {page: %s, error: ""}, window.listeners = {};
  const model = {get: name => state[name], set: (_, value) => sent.push(value),
                 save_changes: () => {}, on: (name, listener) => { listeners[name] = listener; }};
  render({model, el: document.getElementById("cell")});</script>"""

# Whenever JupyterLab asks something, in the way of the page:
CLOSE_DIALOGS = """const close = () => document.querySelectorAll(".jp-Dialog").forEach(dialog =>
    (dialog.querySelector(".jp-mod-reject, .jp-mod-accept") || dialog).click());
  close();
  new MutationObserver(close).observe(document.body, {childList: true});"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("downloads")) as opened:
        yield opened


@pytest.fixture(scope="module")
def fitted() -> tuple[tpnn.TPNNRegressor, pd.DataFrame, pd.Series]:
    names: dict[str, Any] = {}
    exec(SETUP, names)
    return names["model"], names["X"], names["y"]


def wait(driver: Any, condition: Any, seconds: int = 200) -> Any:
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(driver, seconds).until(condition)


def edit_in_frame(driver: Any) -> Any:
    """Edit the report in the frame as a person does, and return what it predicts then."""
    frame = wait(driver, lambda d: d.find_elements("css selector", "iframe[srcdoc]"))[-1]
    driver.switch_to.frame(frame)
    try:
        wait(driver, lambda d: d.execute_script("return Boolean(window.report)"))
        choose(driver, "age")
        fill(driver, edit_from=0, operation="add", edit_value=0.5)
        choose(driver, "income × debt")
        fill(driver, operation="scale", edit_value=0.25)
        explain_edit(driver, "half of it is noise", "Ada")
        return np.array(driver.execute_script(PREDICTIONS))[:, 0]
    finally:
        driver.switch_to.default_content()


def test_the_frame_sends_its_edits(fitted: Any, driver: Any, tmp_path: Path) -> None:
    """What the page sends is the model that it shows, once it has been quiet for a while."""
    model, X, y = fitted
    script, page = (PAGE / "widget.js").read_text(), in_frame(model.report(None, X, y).page)
    texts = (json.dumps(text).replace("</", "<\\/") for text in (script, page))
    (tmp_path / "host.html").write_text(HOST % tuple(texts), encoding="utf-8")
    driver.get((tmp_path / "host.html").as_uri())
    shown = edit_in_frame(driver)
    wait(driver, lambda d: d.execute_script("return sent.length && sent.at(-1).includes('Ada')"))
    alert = driver.find_element("css selector", "p[role=alert]")
    assert not alert.is_displayed()
    driver.execute_script("state.error = 'refused <b>'; listeners['change:error']()")
    assert alert.text == "refused <b>"
    assert len(driver.execute_script("return sent")) <= 3  # not each letter of a reason
    edits = json.loads(driver.execute_script("return sent.at(-1)"))
    edited = replayed(model.model_, edits, "the page")
    assert np.abs(edited.predict(X) - shown).max() < EQUAL
    assert [one["why"] for one in edited.log()] == ["", "half of it is noise"]


def test_edits_come_back_to_the_estimator(fitted: Any) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    model, X, y = fitted
    shown = tpnn.editor(model, X, y)
    assert model.edited_ is shown.edited_
    assert np.array_equal(model.edited_.predict(X), model.predict(X))
    shown.edits = json.dumps([{"component": ["age"], "add": 2.0, "why": "a test"}])
    assert np.allclose(model.edited_.predict(X), model.predict(X) + 2)
    (record,) = model.edited_.log()
    assert record["why"] == "a test"
    assert record["effect"]["after"] > record["effect"]["before"]
    alone = tpnn.editor(model.model_)
    alone.edits = shown.edits
    assert np.array_equal(alone.edited_.predict(X), model.edited_.predict(X))
    model.fit(X, y)
    assert not hasattr(model, "edited_")  # of another fit


def test_the_page_is_told_of_edits_that_python_refuses(
    fitted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    traitlets = pytest.importorskip("traitlets", reason="traitlets is not installed")
    stand_in = SimpleNamespace(AnyWidget=traitlets.HasTraits)
    monkeypatch.setitem(sys.modules, "anywidget", stand_in)
    monkeypatch.setattr(widget, "_class", widget._class.__wrapped__)
    model, X, _ = fitted
    shown = tpnn.editor(model.model_)
    shown.edits = json.dumps([{"component": ["age"], "add": 2.0}])
    assert shown.error == ""
    for refused in ('[{"component": ["zz"], "add": 1}]', "nope", "5", "[5]"):
        shown.edits = refused
        assert "edited_, which stays as it was" in shown.error
        assert np.allclose(shown.edited_.predict(X), model.predict(X) + 2)
    shown.edits = "[]"
    assert shown.error == ""
    assert np.array_equal(shown.edited_.predict(X), model.model_.predict(X))
    model.model_.save(tmp_path / "model.tpnn")
    loaded = tpnn.load(tmp_path / "model.tpnn")
    assert tpnn.editor(loaded).edited_ is loaded.edited_
    for wrong in (5, None, X):
        with pytest.raises(TypeError, match=r"^model: a fitted EBM, an AnovaModel"):
            tpnn.editor(wrong)
    with pytest.raises(NotFittedError, match="is not fitted"):
        tpnn.editor(tpnn.TPNNRegressor())


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """Address of a JupyterLab with a notebook of two cells."""
    for module in ("jupyterlab", "anywidget", "ipykernel"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    cells = [{"cell_type": "code", "id": f"cell{place}", "metadata": {}, "outputs": [],
              "execution_count": None, "source": text}
             for place, text in enumerate(CELLS)]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "edit.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = os.environ | paths | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
               "--IdentityProvider.token=", "--expose-app-in-browser"]  # fmt: skip
    with (tmp_path / "log.txt").open("w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            while server.poll() is None and not is_listening(port):
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/lab/tree/edit.ipynb?reset"
        finally:
            server.terminate()
            server.wait(30)


def test_a_model_is_edited_in_jupyterlab(
    fitted: Any, lab: str, driver: Any, tmp_path: Path
) -> None:
    """The model that a cell saves after the edits predicts what the frame shows, with a log."""
    driver.get(lab)
    driver.execute_script(CLOSE_DIALOGS)
    status = "return document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status"
    wait(driver, lambda d: d.execute_script(status) == "idle")
    run = "void window.jupyterapp.commands.execute(arguments[0])"
    prompts = "return document.querySelector('.jp-Notebook').innerText.match(/\\[[*\\d]+\\]:/)"

    def is_running(d: Any) -> bool:
        return d.execute_script(prompts) or d.execute_script(run, "notebook:run-all-cells")

    wait(driver, is_running)
    wait(driver, lambda _: (tmp_path / "edits.json").exists())
    shown = edit_in_frame(driver)

    def is_saved(d: Any) -> bool:
        d.execute_script(run, "notebook:run-cell")
        return "Ada" in (tmp_path / "edits.json").read_text()

    wait(driver, is_saved)
    edited, X = tpnn.load(tmp_path / "edited.tpnn").model_, fitted[1]
    assert np.abs(edited.predict(X) - shown).max() < EQUAL
    assert [record["by"] for record in edited.log()] == ["Ada", "Ada"]
    assert all(record["effect"]["n_rows"] == len(X) for record in edited.log())
