from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import tpnn
from tpnn import TPNNRegressor
from tpnn.descent import solver as training


def test_history_tells_what_happened(table: Any, quick: Any) -> None:
    X, y = table
    history = TPNNRegressor(**quick).fit(X, y).history_
    assert [record["step"] for record in history] == list(range(41))
    assert history[-1]["training_loss"] < history[0]["training_loss"]
    assert all(set(record) == set(history[0]) for record in history)


def test_first_step_is_the_best_constant(table: Any, quick: Any) -> None:
    """Before the first step the model is the constant: loss 1/2 on standardised targets."""
    X, y = table
    history = TPNNRegressor(**{**quick, "n_bags": 8}).fit(X, y).history_
    assert history[0]["training_loss"] == pytest.approx(0.5, rel=0.1)


def test_noise_is_not_learned(quick: Any) -> None:
    """Without signal, early stopping goes back to the constant or very near it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    model = TPNNRegressor(**{**quick, "max_steps": 300, "patience": 20}).fit(X, y)
    assert model.predict(X).std() < 0.15
    assert len(model.history_) < 150


def test_patience_stops_every_bag(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**{**quick, "max_steps": 5000, "patience": 5}).fit(X, y)
    assert 6 < len(model.history_) < 5000


def test_best_step_is_kept_not_the_last(table: Any, quick: Any) -> None:
    """Training on after the best step changes nothing: the model is that of the best step."""
    X, y = table
    settings = {**quick, "n_bags": 1, "learning_rate": 0.5}
    long = TPNNRegressor(**{**settings, "max_steps": 150, "patience": 150}).fit(X, y)
    losses = [record["validation_loss"] for record in long.history_]
    best = int(np.argmin(losses))
    assert best < 150
    short = TPNNRegressor(**{**settings, "max_steps": best, "patience": 150}).fit(X, y)
    assert np.array_equal(short.predict(X), long.predict(X))


def test_time_limit_stops_with_a_model(table: Any, quick: Any) -> None:
    X, y = table
    settings = {**quick, "max_steps": 10**7, "patience": 10**7, "time_limit": 0.3}
    began = time.monotonic()
    model = TPNNRegressor(**settings).fit(X, y)
    assert time.monotonic() - began < 20
    assert len(model.history_) < 10**6
    assert model.score(X, y) > 0.3


def test_interrupt_leaves_the_estimator_unfitted(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    model.set_params(max_steps=10**7, patience=10**7)
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_control_c_ends_the_process_promptly(tmp_path: Path) -> None:
    code = (
        "import numpy as np\nfrom tpnn import TPNNRegressor\n"
        "X = np.random.default_rng(0).normal(size=(20000, 6))\n"
        "model = TPNNRegressor(solver='gradient', max_steps=10**7, patience=10**7)\n"
        "TPNNRegressor(max_steps=2, n_bases=2).fit(X, X[:, 0]); print('ready', flush=True)\n"
        "try:\n    model.fit(X, X[:, 0] * X[:, 1])\n"
        "except KeyboardInterrupt:\n    print(hasattr(model, 'model_'), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert output == "False\n"


def test_torch_threads_are_given_back(table: Any, quick: Any) -> None:
    X, y = table
    before = torch.get_num_threads()
    with training.ONE_TORCH_THREAD, training.ONE_TORCH_THREAD:
        assert torch.get_num_threads() == 1
    TPNNRegressor(**quick).fit(X, y)
    assert torch.get_num_threads() == before


def test_result_does_not_depend_on_the_number_of_threads(
    table: Any, quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table
    one = TPNNRegressor(**quick).fit(X, y).predict(X)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})
    assert np.array_equal(TPNNRegressor(**quick).fit(X, y).predict(X), one)


def test_progress_bar(table: Any, quick: Any, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = table
    TPNNRegressor(**quick).fit(X, y)
    TPNNRegressor(**{**quick, "verbose": "auto"}).fit(X, y)
    assert capsys.readouterr() == ("", "")
    TPNNRegressor(**{**quick, "verbose": 1}).fit(X, y)
    shown = capsys.readouterr().err
    assert "TPNNRegressor: 100%" in shown
    assert "validation_loss" in shown


def test_adam_is_adam() -> None:
    ours = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    theirs = torch.nn.Parameter(ours.detach().clone())
    reference = torch.optim.Adam([theirs], lr=0.1)
    optimiser = training.Adam([ours])
    for _ in range(20):
        for parameter in (ours, theirs):
            parameter.grad = None
            (parameter**4).sum().backward()
        optimiser.step(0.1)
        reference.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_repeated_fits_give_the_same_bits() -> None:
    """Small matrices in several threads: torch must not add threads of its own."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 7, (100, 2)).astype(float)
    y = rng.integers(0, 3, 100) + X[:, 0]
    model = TPNNRegressor(solver="gradient", n_bags=1, max_steps=5, random_state=0, verbose=0)
    first = model.fit(X, y).predict(X)
    assert all(np.array_equal(model.fit(X, y).predict(X), first) for _ in range(12))
