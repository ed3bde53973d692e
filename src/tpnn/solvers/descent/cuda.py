"""The gradient solver on an NVIDIA card: each step is one CUDA graph.

The gather is a Triton kernel over blocks of rows. The histogram is a segmented sum: rows are sorted
by cell once per component, and each cell then adds up its own rows in order, without atomics, so
the same seed gives the same model bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tpnn.solvers.descent.networks import (
    ComponentNetwork,
    NetworkSettings,
    make_networks,
    solution_of,
)
from tpnn.solvers.descent.schedule import TIE_SHARE, Schedule, TrainingLog, make_adam
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Progress, Solution

VALUES_PER_NETWORK = 1 << 26  # basis values; large networks need few kernel launches
WARM_UP_STEPS = 3  # before the graph is captured, as CUDA requires


@triton.jit
def _gather_kernel(  # type: ignore[no-untyped-def]
    codes, features, tables, raw, n_rows, n_components, n_cells, n_nodes,
    ORDER: tl.constexpr, N_BAGS: tl.constexpr, BAGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bags = tl.arange(0, BAGS)
    inside = rows < n_rows
    mask = inside[:, None] & (bags < N_BAGS)[None, :]
    place = rows.to(tl.int64)[:, None] * N_BAGS + bags[None, :]
    total = tl.load(raw + place, mask=mask, other=0.0)
    for component in range(n_components):
        cell = tl.zeros((BLOCK,), tl.int64)
        for axis in tl.static_range(ORDER):
            feature = tl.load(features + component * ORDER + axis).to(tl.int64)
            code = tl.load(codes + feature * n_rows + rows, mask=inside, other=0)
            cell = cell * n_nodes + code.to(tl.int64)
        start = (component * n_cells + cell) * N_BAGS
        total += tl.load(tables + start[:, None] + bags[None, :], mask=mask, other=0.0)
    tl.store(raw + place, total, mask=mask)


@triton.jit
def _segment_kernel(  # type: ignore[no-untyped-def]
    order, starts, gradient, sums, n_rows, n_cells,
    N_BAGS: tl.constexpr, BAGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cell = tl.program_id(0)
    component = tl.program_id(1).to(tl.int64)
    bags = tl.arange(0, BAGS)
    low = tl.load(starts + component * (n_cells + 1) + cell)
    high = tl.load(starts + component * (n_cells + 1) + cell + 1)
    total = tl.zeros((BLOCK, BAGS), tl.float32)
    for first in range(low, high, BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = place < high
        row = tl.load(order + component * n_rows + place, mask=inside, other=0).to(tl.int64)
        mask = inside[:, None] & (bags < N_BAGS)[None, :]
        total += tl.load(gradient + row[:, None] * N_BAGS + bags[None, :], mask=mask, other=0.0)
    place = (component * n_cells + cell) * N_BAGS + bags
    tl.store(sums + place, tl.sum(total, 0), mask=bags < N_BAGS)


class CudaComponents:
    """Components of one order over coded rows, on the card."""

    def __init__(
        self,
        codes: Tensor,  # (n_features, n_rows), uint8 or int32
        features: Tensor,  # (n_components, order), int32
        n_nodes: int,  # per axis, padding included
    ) -> None:
        self.codes, self.features, self.n_nodes = codes, features, n_nodes
        self.n_components, self.order = features.shape
        self.n_rows, self.n_cells = codes.shape[1], n_nodes**self.order
        self.rows_by_cell = torch.empty(
            (self.n_components, self.n_rows), dtype=torch.int32, device=codes.device
        )
        self.starts = torch.zeros(
            (self.n_components, self.n_cells + 1), dtype=torch.int32, device=codes.device
        )
        for index in range(self.n_components):
            self._sort(index)

    def gather(self, tables: Tensor, raw: Tensor) -> None:
        """Add the values of grids (n_components, n_cells, n_bags) to ``raw`` (n_rows, n_bags)."""
        n_bags = raw.shape[1]
        block = max(32, 512 // triton.next_power_of_2(n_bags))
        _gather_kernel[(triton.cdiv(self.n_rows, block),)](
            self.codes, self.features, tables, raw, self.n_rows, self.n_components, self.n_cells,
            self.n_nodes, self.order, n_bags, triton.next_power_of_2(n_bags), block,
        )  # fmt: skip

    def histogram(self, gradient: Tensor) -> Tensor:  # (n_components, n_cells, n_bags)
        """Sum ``gradient`` (n_rows, n_bags) over the rows in each cell of each component."""
        n_bags = gradient.shape[1]
        sums = gradient.new_empty(self.n_components, self.n_cells, n_bags)
        block = max(32, 256 // triton.next_power_of_2(n_bags))
        _segment_kernel[(self.n_cells, self.n_components)](
            self.rows_by_cell, self.starts, gradient, sums, self.n_rows, self.n_cells,
            n_bags, triton.next_power_of_2(n_bags), block,
        )  # fmt: skip
        return sums

    def _sort(self, index: int) -> None:
        """Sort the rows by their cell in one component."""
        cells = torch.zeros(self.n_rows, dtype=torch.int32, device=self.codes.device)
        for feature in self.features[index].tolist():
            cells = cells * self.n_nodes + self.codes[feature].int()
        self.rows_by_cell[index] = torch.argsort(cells, stable=True).int()
        counts = torch.bincount(cells, minlength=self.n_cells)
        self.starts[index, 1:] = counts.cumsum(0).int()


class CudaTraining:
    """Trains the networks of all orders on one card; parameters as in ``GradientTraining``."""

    def __init__(
        self,
        problem: Problem,
        settings: NetworkSettings,
        schedule: Schedule,
        limits: Limits,
    ) -> None:
        self.problem, self.settings = problem, settings
        self.schedule, self.limits = schedule, limits
        self.objective, self.n_bags = problem.objective, problem.n_bags
        self.n_lanes = self.n_bags * self.objective.n_outputs  # a lane is one output of one bag

    def fit(self, progress: Progress) -> Solution:
        """Train from the best constants; explain what to do if the card runs out of memory."""
        try:
            self._load()
            return self._train(progress)
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(
                f"device: rows and components must fit into the card's memory, found too little "
                f"({error}). Lower n_bags, max_nodes or the number of interactions, or pass "
                "device='cpu'."
            ) from error

    def _load(self) -> None:
        """Move rows and networks to the card."""
        self.networks: list[ComponentNetwork] = []
        self.parts: list[CudaComponents] = []
        for order in self.problem.coded:
            narrow = order.codes.dtype == np.uint8
            codes = torch.as_tensor(order.codes if narrow else order.codes.astype(np.int32)).cuda()
            for network in make_networks(
                self.problem,
                order.features,
                self.settings,
                self.n_lanes,
                VALUES_PER_NETWORK,
            ):
                self.networks.append(network.cuda())
                self.parts.append(CudaComponents(codes, network.features.int(), order.n_nodes))
        rows = self.problem.rows
        self.y, self.offset, self.training, self.validation = (
            torch.as_tensor(part).cuda()
            for part in (rows.y, rows.offset, rows.training, rows.validation)
        )
        self.parameters = [p for network in self.networks for p in network.parameters()]
        self.best = [p.detach().clone() for p in self.parameters]
        self.best_losses = torch.full((self.n_bags,), torch.inf, device="cuda")
        self.losses = torch.zeros(2, self.n_bags, device="cuda")  # training, validation
        self.done = torch.zeros((), dtype=torch.long, device="cuda")
        self.rate = torch.zeros((), device="cuda")
        self.optimiser = make_adam(self.networks, self.schedule.l2, self.rate)

    def _train(self, progress: Progress) -> Solution:
        """Train until every bag has stopped improving."""
        log = TrainingLog(self.schedule, self.limits, progress, self.n_bags)
        constants = np.tile(self.problem.best_constant, self.n_bags).astype(np.float32)
        self.intercepts = torch.as_tensor(constants).cuda()
        self.best_intercepts = self.intercepts.clone()
        graph: Any = None
        while True:
            if graph is None and len(log.events) == WARM_UP_STEPS:
                graph = self._capture()
            graph.replay() if graph else self._warm_up()
            log.record(*self.losses.cpu().numpy())
            if log.must_stop():
                return self._solution(log.events)

    def _warm_up(self) -> None:
        """Take a step outside the graph, on a separate stream as CUDA requires."""
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record one step."""
        for parameter in self.parameters:
            parameter.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph

    def _step(self) -> None:
        """Evaluate the parameters, keep the best and take a step; nothing waits for the host."""
        tables = [network() for network in self.networks]
        raw = self.offset + self.intercepts
        for part, table in zip(self.parts, tables, strict=True):
            part.gather(table.detach().contiguous(), raw)
        loss: Any = self.objective.losses(self.y, raw, None, torch)
        slopes: Any = self.objective.slopes(self.y, raw, None, torch)
        weights = self.training.repeat_interleave(self.objective.n_outputs, 1)
        gradient, hessian = (slope * weights for slope in slopes)
        for place, weights in zip(self.losses, (self.training, self.validation), strict=True):
            place.copy_((loss * weights).sum(0))
        self._keep(self.losses[1])
        for parameter in self.parameters:
            parameter.grad = None
        for part, table in zip(self.parts, tables, strict=True):
            table.backward(part.histogram(gradient))
        self.intercepts -= gradient.sum(0) / hessian.sum(0)
        self._adam()
        self.done += 1

    @torch.no_grad()
    def _keep(self, validation: Tensor) -> None:
        """Remember the parameters of the bags whose held-out loss is their lowest so far."""
        improved = validation < self.best_losses * (1 - TIE_SHARE * self.best_losses.sign())
        self.best_losses.copy_(torch.where(improved, validation, self.best_losses))
        lanes = improved.repeat_interleave(self.objective.n_outputs)
        intercepts = (self.best_intercepts, self.intercepts)
        for best, now in [intercepts, *zip(self.best, self.parameters, strict=True)]:
            best.copy_(torch.where(lanes.view(-1, *[1] * (now.dim() - 1)), now, best))

    def _adam(self) -> None:
        """Take a step of Adam with the learning rate of the schedule."""
        self.rate.copy_(self.schedule.rate(self.done))
        self.optimiser.step()
        for network in self.networks:
            network.bind()

    def _solution(self, events: list[Event]) -> Solution:
        with torch.no_grad():
            for parameter, best in zip(self.parameters, self.best, strict=True):
                parameter.copy_(best)
        networks = [network.double().cpu() for network in self.networks]
        intercepts = self.best_intercepts.cpu().numpy()
        return solution_of(self.problem, networks, intercepts, events, self.settings)
