"""copied: the rows of a dataset of Ray as Parquet files in a storage."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from typing import Any

from tpnn.solvers.cluster.storage import Storage

FOLDER = "table"


def is_of_ray(source: Any) -> bool:
    """Whether a source is a dataset of Ray, which is then imported already."""
    data = sys.modules.get("ray.data")
    return data is not None and isinstance(source, data.Dataset)


def copied(source: Any, storage: Storage) -> Any:
    """Return a dataset of pyarrow with the rows of a dataset of Ray.

    Each of its blocks becomes a file, whose name tells the content: what an earlier call has
    written is not written again, and the order in which Ray yields blocks does not matter.
    """
    import pyarrow as pa
    from pyarrow import dataset, parquet

    copies, names = Counter[str](), list[str]()
    for block in source.iter_batches(batch_size=None, batch_format="pyarrow"):
        if not block.num_rows:
            continue
        stream = pa.BufferOutputStream()
        parquet.write_table(block, stream)
        content = stream.getvalue()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        names.append(f"{FOLDER}/{digest}-{copies[digest]}.parquet")
        copies[digest] += 1
        if not storage.has(names[-1]):
            storage.write_bytes(names[-1], content)
    if not names:
        raise ValueError(
            "source: rows are needed, found none in the dataset of Ray. Check what it reads, and "
            "its filters."
        )
    paths = [f"{storage.folder}/{name}" for name in sorted(names)]
    return dataset.dataset(paths, filesystem=storage.files, format="parquet")
