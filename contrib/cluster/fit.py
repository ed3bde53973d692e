"""Fit to Parquet files on the workers of the Ray cluster in which this runs, and save the model.

python fit.py s3://bucket/table/ price s3://bucket/run-1/ --workers 8 --output model.tpnn
"""

from __future__ import annotations

import argparse

from tpnn import TPNNRegressor, distributed

MODEL = TPNNRegressor(random_state=0)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("table", help="folder, pattern or address of Parquet files")
parser.add_argument("target", help="column to predict")
parser.add_argument(
    "storage",
    help="folder or address that all machines can write: empty, or of the same fit, which goes on",
)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--output", default="model.tpnn", help="file of the driver's machine")


def main() -> None:
    """Fit and save."""
    asked = parser.parse_args()
    distributed.fit(MODEL, asked.table, asked.target, storage=asked.storage, workers=asked.workers)
    MODEL.model_.save(asked.output)
    print(MODEL.model_)


if __name__ == "__main__":
    main()
