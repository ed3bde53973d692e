"""Public file formats of the large data sets, and tables of their shape where they are absent.

Microsoft (MSLR-WEB10K: ``Fold1/{train,vali,test}.txt``) and Yahoo (``set1.{train,valid,test}.txt``)
have one document a line, ``relevance qid:query feature:value ...``, features counted from 1 and
zeros left out. CelebA has ``list_attr_celeba.txt``: the number of images, the names of the 40
attributes, then one image a line with 1 or -1 for each; images lie in ``img_align_celeba``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_files

from tpnn._utils.arrays import FloatArray

RANKING_FILES = {
    "microsoft": ("Fold1/train.txt", "Fold1/vali.txt", "Fold1/test.txt"),
    "yahoo": ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
}
N_FEATURES = {"microsoft": 136, "yahoo": 699}
SYNTHETIC_ROWS = {"microsoft": 20_000, "yahoo": 10_000}  # what two cores afford
INFORMATIVE = 20  # features that matter in a synthetic table
CELEBA_ATTRIBUTES, CELEBA_IMAGES = "list_attr_celeba.txt", "img_align_celeba"


class CelebA(NamedTuple):
    """Attributes of each image, 0 or 1, and where the images lie, None where they do not."""

    attributes: pd.DataFrame
    images: Path | None


def find(name: str) -> Path | None:
    """Return the folder of a data set in ``TPNN_DATA``, None where it is not there."""
    folder = Path(os.environ.get("TPNN_DATA", "")) / name
    return folder if folder.is_dir() else None


def read_ranking(folder: Path, name: str) -> tuple[FloatArray, FloatArray]:
    """Read all parts of a learning-to-rank data set as features (n, p) and relevance (n,)."""
    paths = [str(folder / file) for file in RANKING_FILES[name]]
    parts = load_svmlight_files(paths, n_features=N_FEATURES[name], query_id=True, zero_based=False)
    X = np.concatenate([matrix.toarray() for matrix in parts[0::3]])
    return X, np.concatenate(parts[1::3])


def ranking_alike(name: str, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Draw a table with the shape of a learning-to-rank data set: skewed counts, relevance 0 to 4.

    Main effects and pairs of the first features make the relevance; the others are noise. It says
    nothing about the real data but that the code runs at that width.
    """
    rng = np.random.default_rng(seed)
    n, p = SYNTHETIC_ROWS[name], N_FEATURES[name]
    X = rng.exponential(size=(n, p)) * (rng.random((n, p)) < 0.7)
    u = np.exp(-X[:, :INFORMATIVE])
    signal = u @ rng.normal(size=INFORMATIVE) + 2 * (u[:, 0::2] - 0.6) * (u[:, 1::2] - 0.6) @ (
        rng.normal(size=INFORMATIVE // 2)
    )
    noisy = signal + rng.normal(scale=signal.std(), size=n)
    return X, np.digitize(noisy, np.quantile(noisy, [0.5, 0.8, 0.93, 0.98])).astype(np.float64)


def read_celeba(folder: Path) -> CelebA:
    """Read the attributes of CelebA; 1 and -1 become 1 and 0."""
    table = pd.read_csv(folder / CELEBA_ATTRIBUTES, sep=r"\s+", skiprows=1)
    images = folder / CELEBA_IMAGES
    return CelebA((table > 0).astype(np.int64), images if images.is_dir() else None)
