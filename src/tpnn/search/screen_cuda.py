"""Screening on an NVIDIA card: the same matrix products in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tpnn._utils.arrays import CodeArray, Float32Array, IntArray
from tpnn._utils.threads import Workers, split

if TYPE_CHECKING:
    from tpnn.search.screen import Columns

BLOCK_ROWS = 32_768


class CardScorer:
    """Scores blocks of interactions on a card, to which codes and residuals are copied once."""

    def __init__(
        self,
        codes: CodeArray,  # (n_features, n_rows)
        residuals: Float32Array,  # (r, K, n_rows): the residual, and copies with random signs
        device: str = "cuda",
    ) -> None:
        self.device = torch.device(device)
        narrow = codes.astype(np.uint8 if codes.max(initial=0) < 256 else np.int32)
        self.codes = torch.as_tensor(narrow, device=self.device)
        self.residuals = torch.as_tensor(residuals, device=self.device)

    def block_scores(
        self,
        columns: Columns,
        parents: IntArray,
        first: int,
        residuals: Float32Array,
        workers: Workers,
    ) -> Float32Array:
        """Return the same scores as ``tpnn.search.screen.block_scores``, without its workers."""
        bases = torch.as_tensor(columns.bases, device=self.device)
        n_features, _, n_bases = bases.shape
        n_parents, n_new = len(parents), n_features - first
        width, lowest = n_bases ** parents.shape[1], int(parents.min(initial=first))
        features = torch.as_tensor(columns.features[lowest:], device=self.device)
        placed = torch.as_tensor(parents - lowest, device=self.device)
        shape = (*residuals.shape[:2], n_parents * width, n_new * n_bases)
        coefficients = torch.zeros(shape, device=self.device)
        variance = torch.zeros((n_parents, n_new), device=self.device)
        numbers = torch.arange(lowest, n_features, device=self.device)[:, None]
        for low, high in split(columns.n_rows, BLOCK_ROWS):
            values = bases[numbers, self.codes[features, low:high].long()]  # (q, n, D)
            products = _row_products(values, placed)  # (m, width, n)
            added = values[len(values) - n_new :]
            new = added.transpose(0, 1).reshape(high - low, -1)
            residual = self.residuals[:, :, low:high]
            for index in np.ndindex(shape[:2]):
                weighted = products * residual[index]
                coefficients[index] += weighted.reshape(-1, high - low) @ new
            energy = products.square().sum(1) * residual[0].square().sum(0)
            variance += energy @ added.square().sum(2).T
        by_function = (*shape[:2], n_parents, width, n_new, n_bases)
        squares = coefficients.square().reshape(by_function).sum((1, 3, 5))
        scores = torch.where(variance > 0, squares / variance, torch.zeros_like(squares))
        result: Float32Array = scores.cpu().numpy()
        return result


def _row_products(values: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """All products (m, D^d, n) of the parents' functions at each row, from values (q, n, D)."""
    along = values.transpose(1, 2)
    products = values.new_ones((len(parents), 1, values.shape[1]))
    for column in parents.T:
        products = products[:, :, None] * along[column][:, None]
        products = products.reshape(len(parents), -1, values.shape[1])
    return products
