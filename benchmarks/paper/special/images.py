"""Images with known concepts: those of CelebA where they are at hand, drawn ones otherwise.

A drawn image has eight concepts, each there or not. The label is a known function of them: six have
a direction, two matter only together, and a twentieth of the labels is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import formats

SIZE = 24  # pixels of a side
CONCEPTS = ("disc", "square", "horizontal", "vertical", "corner", "border", "bright", "noisy")
WEIGHTS = (2.0, -2.0, 1.0, -1.0, 1.5, -1.5, 0.0, 0.0)  # of the label's logit
TOGETHER = 1.5  # both bright and noisy, or neither
WRONG = 0.05
CELEBA_ROWS = 20_000  # images read, of 202,599


class ImageSet(NamedTuple):
    """Images (n, channels, side, side) in [0, 1], concepts (n, q) and label (n,), both 0 or 1."""

    images: NDArray[np.float32]
    concepts: NDArray[np.float32]
    labels: NDArray[np.float32]
    names: tuple[str, ...]
    directions: dict[int, str]


DIRECTIONS = {j: "increasing" if w > 0 else "decreasing" for j, w in enumerate(WEIGHTS) if w}
CELEBA_DIRECTIONS = {
    **dict.fromkeys(("Bald", "Big_Nose", "Goatee", "Mustache"), "increasing"),
    **dict.fromkeys(
        (
            "Arched_Eyebrows", "Attractive", "Heavy_Makeup", "No_Beard", "Wearing_Earrings",
            "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie",
        ),
        "decreasing",
    ),
}  # fmt: skip


def load(n: int, seed: int) -> ImageSet:
    """Return CelebA where ``TPNN_DATA`` has it with its images, else n drawn images."""
    folder = formats.find("celeba")
    if folder is not None and (found := formats.read_celeba(folder)).images is not None:
        return _celeba(found.attributes, found.images)
    return draw(n, seed)


def draw(n: int, seed: int) -> ImageSet:
    """Draw n images."""
    rng = np.random.default_rng(seed)
    concepts = (rng.random((n, len(CONCEPTS))) < 0.5).astype(np.float32)
    images = np.stack([_image(row, rng) for row in concepts])[:, None].astype(np.float32)
    logit = concepts @ np.array(WEIGHTS) + TOGETHER * np.where(
        concepts[:, 6] == concepts[:, 7], 1.0, -1.0
    )
    wrong = rng.random(n) < WRONG
    labels = ((logit > 0) ^ wrong).astype(np.float32)
    return ImageSet(images, concepts, labels, CONCEPTS, DIRECTIONS)


def _image(concepts: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the concepts of one image at places that vary a little."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    disc, square, horizontal, vertical, corner, border, bright, noisy = concepts > 0
    image = np.full((SIZE, SIZE), 0.2)
    shift = rng.integers(-1, 2, size=2)
    image[((rows - 7 - shift[0]) ** 2 + (columns - 7) ** 2 < 9) & disc] = 0.8
    image[(abs(rows - 16) < 3) & (abs(columns - 16 - shift[1]) < 3) & square] = 0.8
    image[(rows == 12 + shift[0]) & horizontal] = 0.7
    image[(columns == 12 + shift[1]) & vertical] = 0.7
    image[(rows > 19) & (columns < 4) & corner] = 0.9
    edge = (rows == 0) | (rows == SIZE - 1) | (columns == 0) | (columns == SIZE - 1)
    image[edge & border] = 0.6
    image += 0.15 * bright + rng.normal(scale=0.12 if noisy else 0.03, size=image.shape)
    return image.clip(0, 1)


def _celeba(attributes: Any, folder: Path) -> ImageSet:
    """Read the first images of CelebA, 64 x 64; the label is Male."""
    from PIL import Image

    chosen = attributes.iloc[:CELEBA_ROWS]
    pictures = []
    for name in chosen.index:
        with Image.open(folder / name) as picture:
            pictures.append(np.asarray(picture.resize((64, 64)), np.float32) / 255)
    names = tuple(column for column in chosen.columns if column != "Male")
    directions = {names.index(n): d for n, d in CELEBA_DIRECTIONS.items() if n in names}
    return ImageSet(
        np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32),
        chosen[list(names)].to_numpy(np.float32),
        chosen["Male"].to_numpy(np.float32),
        names,
        directions,
    )
