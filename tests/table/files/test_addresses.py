"""Tables at addresses: those that pyarrow knows, and others through fsspec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNRegressor
from tpnn.table.files.source import Source

fs = pytest.importorskip("pyarrow.fs")
fsspec = pytest.importorskip("fsspec")
QUICK: Any = {"n_bags": 2, "random_state": 0, "verbose": 0, "order": 1, "bands": False}


@pytest.fixture
def table() -> Iterator[pd.DataFrame]:
    """Rows in three files in the memory of fsspec."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["u", "v"], 300)})
    frame["y"] = frame["a"] + (frame["b"] == "u")
    memory = fsspec.filesystem("memory")
    for number, name in enumerate(("one", "two", "more/three")):
        with memory.open(f"/table/{name}.parquet", "wb") as file:
            frame[100 * number : 100 * number + 100].to_parquet(file)
    yield frame
    memory.rm("/table", recursive=True)


def test_a_fit_to_an_address_is_that_of_the_rows(table: pd.DataFrame) -> None:
    expected = TPNNRegressor(**QUICK).fit(table[["a", "b"]], table["y"])
    found = TPNNRegressor(**QUICK).fit("memory://table", "y")
    for one, other in zip(found.model_.tables, expected.model_.tables, strict=True):
        assert np.array_equal(one, other)
    batches = found.predict_batches("memory://table/*.parquet")
    assert np.allclose(np.concatenate(list(batches)), expected.predict(table[:200]), atol=1e-12)


@pytest.mark.parametrize(
    ("pattern", "n_rows"),
    [("one.parquet", 100), ("*.parquet", 200), ("**/*.parquet", 300), ("*/t*.parquet", 100)],
)
def test_patterns(table: pd.DataFrame, pattern: str, n_rows: int) -> None:
    assert Source(f"memory://table/{pattern}").n_rows == n_rows


@pytest.mark.parametrize("address", ["memory://table/x*.parquet", "memory://nowhere"])
def test_nothing_at_an_address(table: pd.DataFrame, address: str) -> None:
    with pytest.raises(ValueError, match=r"^X: there is nothing at 'memory://"):
        Source(address).n_rows  # noqa: B018


def test_a_store_of_s3(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of its own, which listens on this machine alone."""
    server_of = pytest.importorskip("moto.server").ThreadedMotoServer
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    server = server_of(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        place = "{}:{}".format(*server.get_host_and_port())
        options = f"?scheme=http&endpoint_override={place}&allow_bucket_creation=true"
        store, _ = fs.FileSystem.from_uri(f"s3://bucket/table{options}")
        store.create_dir("bucket")
        for number, name in enumerate(("one", "two")):
            with store.open_output_stream(f"bucket/table/{name}.parquet") as file:
                table[150 * number : 150 * number + 150].to_parquet(file)
        expected = TPNNRegressor(**QUICK).fit(table[["a", "b"]], table["y"]).predict(table)
        for path in ("s3://bucket/table", "s3://bucket/table/*.parquet"):
            found = TPNNRegressor(**QUICK).fit(path + options, "y")
            assert np.array_equal(found.predict(table), expected)
    finally:
        server.stop()


def test_an_unknown_store() -> None:
    with pytest.raises(ValueError, match=r"^X: the store of 'nothing://a/b' cannot be reached"):
        Source("nothing://a/b")
