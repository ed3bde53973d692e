"""A notebook that runs in a real kernel, with a small fitted model in its first cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SETUP = """
import numpy as np, pandas as pd
from tpnn import Explanation, Grow, TPNNRegressor, plots
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "income", "debt"])
y = X["age"] + X["income"] * X["debt"]
quick = dict(solver=Grow(max_rounds=5), n_bags=2, random_state=0)
model = TPNNRegressor(interactions="all", verbose=0, **quick).fit(X, y)
explanation = model.explain(X)
"""

OUTPUTS = ("stream", "display_data", "execute_result")
Cell = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """Run the text of a cell in a kernel of Jupyter and return its outputs."""
    pytest.importorskip("ipykernel", reason="a kernel of Jupyter is needed")
    pytest.importorskip("ipywidgets", reason="a bar of Jupyter is a widget")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(tmp_path_factory.mktemp("notebook")))

    def run(text: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        reply = client.execute_interactive(text, timeout=300, output_hook=messages.append)
        assert reply["content"]["status"] == "ok", reply["content"]
        return [message["content"] for message in messages if message["msg_type"] in OUTPUTS]

    try:
        run(f"import sys; sys.path[:0] = {[str(Path(path).resolve()) for path in sys.path]}")
        run(SETUP)
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
