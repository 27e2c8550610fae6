"""The joint node predictor: row efficiencies learned from whole steps of many devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from perfmodel.features.step import StepSample
from perfmodel.features.step_table import StepTable, step_table
from perfmodel.predictors.node_network import (
    EFFECTS,
    NodeNetwork,
    TableTensors,
    batches,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class NodeNet:
    """Learns :class:`NodeNetwork` from measured steps.

    Parameters
    ----------
    seed : int
    epochs : int
        Passes over the samples.
    batch_size : int
        Steps a batch, about.
    learning_rate : float
        Highest rate of the one-cycle schedule.
    shrinkage : float
        Weight of the squared device effects in the loss.
    tolerance : float
        Logarithmic error up to which the loss is quadratic.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        epochs: int = 12,
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        shrinkage: float = 0.03,
        tolerance: float = 0.1,
        widths: tuple[int, int] = (96, 48),
    ) -> None:
        self.seed = seed
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.shrinkage = shrinkage
        self.tolerance = tolerance
        self.widths = widths

    def fit(
        self, samples: Sequence[StepSample], *, report: Callable[[str], None] | None = None
    ) -> Self:
        """Learn from measured steps."""
        table = step_table([sample.step for sample in samples])
        logs = np.log([sample.step_time_s for sample in samples])
        weights = np.array([sample.weight for sample in samples])
        return self.fit_table(table, logs, weights, np.arange(len(samples)), report=report)

    def fit_table(
        self,
        table: StepTable,
        log_times: FloatArray,
        weights: FloatArray,
        steps: IntArray,
        *,
        report: Callable[[str], None] | None = None,
    ) -> Self:
        """Learn from some steps of a table."""
        torch.manual_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        used = np.unique(table.sketch_of[steps])
        rows = np.concatenate(
            [np.arange(table.start[k], table.start[k] + table.length[k]) for k in used]
        )
        self.mean_ = torch.from_numpy(table.rows[rows].mean(axis=0))
        self.scale_ = torch.from_numpy(table.rows[rows].std(axis=0) + 1e-3)
        self.devices_ = tuple(sorted({table.devices[i] for i in steps}))
        network = NodeNetwork(len(self.devices_), wide=self.widths[0], narrow=self.widths[1])
        tensors = TableTensors.of(table, self.mean_, self.scale_)
        device = self._device_codes(table.devices)
        target = torch.from_numpy(log_times.astype(np.float32))
        weight = torch.from_numpy(weights.astype(np.float32))
        plan = batches(table.sketch_of, steps, self.batch_size, np.arange(len(table.sketches)))
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=self.learning_rate, weight_decay=1e-4
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.learning_rate, total_steps=(len(plan) + 2) * self.epochs, pct_start=0.15
        )
        for epoch in range(self.epochs):
            errors = []
            for batch in batches(
                table.sketch_of, steps, self.batch_size, rng.permutation(len(table.sketches))
            ):
                chosen = torch.from_numpy(batch.steps)
                error = network(tensors, batch, device[chosen]) - target[chosen]
                w = weight[chosen]
                robust = nn.functional.huber_loss(
                    error, torch.zeros_like(error), reduction="none", delta=self.tolerance
                )
                loss = (w * robust).sum() / w.sum() / self.tolerance
                loss = (
                    loss
                    + self.shrinkage * (network.effect**2).mean()
                    + 0.1 * self.shrinkage * (network.by_fact**2).mean()
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                if schedule.last_epoch < schedule.total_steps - 1:
                    schedule.step()
                errors.append(float(error.detach().abs().mean()))
            if report is not None:
                report(f"epoch {epoch + 1}: mean |log error| {np.mean(errors):.4f}")
        self.network_ = network.eval()
        return self

    def _device_codes(self, devices: Sequence[str]) -> torch.Tensor:
        code = {name: i for i, name in enumerate(self.devices_)}
        return torch.tensor([code.get(name, len(self.devices_)) for name in devices])

    @torch.no_grad()
    def log_times(
        self, table: StepTable, steps: IntArray | None = None, *, shares: bool = False
    ) -> Any:
        """Return log step times, and the shares of the device effects in them."""
        steps = np.arange(len(table.devices)) if steps is None else steps
        tensors = TableTensors.of(table, self.mean_, self.scale_)
        device = self._device_codes(table.devices)
        out = np.zeros(len(table.devices))
        share = np.zeros((len(table.devices), EFFECTS))
        for batch in batches(table.sketch_of, steps, 256, np.arange(len(table.sketches))):
            times = self.network_.row_times(tensors, batch, device[torch.from_numpy(batch.steps)])
            part = torch.zeros(len(batch.steps), EFFECTS)
            part[:, 2] = part[:, 2].index_add(0, times.step, times.launch_s)
            flat = torch.zeros(len(batch.steps) * 2).index_add_(
                0, times.step * 2 + times.kind, times.work_s
            )
            part[:, :2] = flat.reshape(-1, 2)
            total = part.sum(dim=1).clamp_min(1e-9)
            out[batch.steps] = torch.log(total).numpy()
            share[batch.steps] = (part / total[:, None]).numpy()
        return (out[steps], share[steps]) if shares else out[steps]
