"""The joint node predictor: row efficiencies learned from whole steps of many devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step_table import ROW_COLUMNS, SETTING_COLUMNS, StepTable
from perfmodel.predictors.step_models.asked_table import AskedTable
from perfmodel.predictors.step_models.effect_facts import regress_effects
from perfmodel.predictors.step_models.node_network import (
    EFFECTS,
    LAUNCH,
    NodeNetwork,
    RowTimes,
    TableTensors,
    batches,
)

_TICK_S = 1e-9


@dataclass(frozen=True, kw_only=True)
class NodeNetSettings:
    """How to learn.

    Parameters
    ----------
    learning_rate : float
        Highest rate of the one-cycle schedule.
    shrinkage : float
        Weight of the squared device effects in the loss.
    blur : float
        Noise on the inputs that tell devices apart.
    tolerance : float
        Logarithmic error up to which the loss is quadratic.
    """

    seed: int = 0
    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 2e-3
    shrinkage: float = 0.003
    blur: float = 0.05
    tolerance: float = 0.1
    wide: int = 96
    narrow: int = 48


@dataclass(frozen=True, kw_only=True, eq=False)
class RowParts:
    """One step, taken apart.

    Parameters
    ----------
    work_s, launch_s : ndarray, shape (rows,)
        Of all nodes of each row.
    log_times, shares : ndarray, shape (1,) and (1, EFFECTS)
        As :meth:`NodeNet.log_times` answers them.
    """

    work_s: FloatArray
    launch_s: FloatArray
    log_times: FloatArray
    shares: FloatArray


class NodeNet:
    """Learns a :class:`NodeNetwork` from measured steps.

    Attributes
    ----------
    devices_ : tuple of str
        Devices with effects of their own: those of which whole steps were learned from.
    """

    def __init__(self, settings: NodeNetSettings | None = None) -> None:
        self.settings = settings or NodeNetSettings()

    def fit(
        self,
        table: StepTable,
        log_times: FloatArray,
        weights: FloatArray,
        steps: IntArray,
    ) -> Self:
        """Learn from some steps of a table.

        Parameters
        ----------
        log_times, weights : ndarray, shape (steps of the table,)
            Logarithm of seconds; relative weight.
        steps : ndarray of int64
            Which to learn from; whole steps and operators alone.
        """
        chosen = self.settings
        torch.manual_seed(chosen.seed)
        rng = np.random.default_rng(chosen.seed)
        self._standardise(table, steps)
        whole = {table.devices[i] for i in steps[~table.alone[steps]]}
        others = {table.devices[i] for i in steps} - whole
        self.devices_ = (*sorted(whole), *sorted(others))
        network = NodeNetwork(len(self.devices_), wide=chosen.wide, narrow=chosen.narrow)
        tensors = TableTensors.of(table, self.mean_, self.scale_)
        device = self._device_codes(table.devices)
        target = torch.from_numpy(log_times.astype(np.float32))
        weight = torch.from_numpy(weights.astype(np.float32))
        sketches = len(table.sketches)
        order = np.arange(sketches)
        size = len(batches(table.sketch_of, steps, chosen.batch_size, order)) + 2
        optimizer, schedule = _optimizer(network, chosen, size * chosen.epochs)
        for _ in range(chosen.epochs):
            plan = batches(table.sketch_of, steps, chosen.batch_size, rng.permutation(sketches))
            for batch in plan[:size]:
                own = torch.from_numpy(batch.steps)
                error = network(tensors, batch, device[own], blur=chosen.blur) - target[own]
                optimizer.zero_grad()
                self._loss(network, error, weight[own]).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                schedule.step()
        self.network_ = network.eval()
        self._learn_unknown(table, steps)
        # What operators alone say of a device goes into the regression, and no further.
        self.devices_ = self.devices_[: len(whole)]
        self.network_.keep_devices(len(whole))
        return self

    @torch.no_grad()
    def _learn_unknown(self, table: StepTable, steps: IntArray) -> None:
        """Regress the effects of the devices on their facts, for devices never seen."""
        names = np.array(table.devices)[steps]
        first = [int(steps[np.flatnonzero(names == name)[0]]) for name in self.devices_]
        tells = np.ones((len(steps), EFFECTS), dtype=np.bool_)
        tells[:, LAUNCH] = ~table.alone[steps]
        records = np.array([tells[names == name].sum(axis=0) for name in self.devices_])
        effects = self.network_.effect[:-1].numpy().astype(np.float64)
        fitted = regress_effects(table.facts[first].astype(np.float64), effects, records)
        self.network_.typical_effect.copy_(torch.from_numpy(fitted.typical))
        self.network_.by_fact.copy_(torch.from_numpy(fitted.by_fact))
        self.unknown_variance_ = fitted.variance

    def _standardise(self, table: StepTable, steps: IntArray) -> None:
        used = np.zeros(len(table.sketches), dtype=np.bool_)
        used[table.sketch_of[steps]] = True
        chosen = torch.from_numpy(np.flatnonzero(np.repeat(used, table.length)))
        rows = torch.from_numpy(table.rows).index_select(0, chosen)
        deviation, self.mean_ = torch.std_mean(rows, dim=0, correction=0)
        self.scale_ = deviation + 1e-3

    def _loss(
        self, network: NodeNetwork, error: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        tolerance, shrinkage = self.settings.tolerance, self.settings.shrinkage
        robust = nn.functional.huber_loss(
            error, torch.zeros_like(error), reduction="none", delta=tolerance
        )
        fit = (weight * robust).sum() / weight.sum() / tolerance
        return fit + shrinkage * (network.effect**2).mean()

    def _device_codes(self, devices: Sequence[str]) -> torch.Tensor:
        code = {name: i for i, name in enumerate(self.devices_)}
        return torch.tensor([code.get(name, len(self.devices_)) for name in devices])

    @torch.no_grad()
    def log_times(
        self, table: StepTable, steps: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return log step times, and the share of each device effect in them.

        Returns
        -------
        log_times : ndarray, shape (steps,)
        shares : ndarray, shape (steps, EFFECTS)
            Of contractions, traffic and launches; each step adds up to 1.
        """
        steps = np.arange(len(table.devices)) if steps is None else steps
        asked = AskedTable.of(table)
        tensors = asked.tensors(self.mean_, self.scale_)
        device = self._device_codes(table.devices)
        logs, shares = np.zeros(len(table.devices)), np.zeros((len(table.devices), EFFECTS))
        for batch, entries in asked.batches(steps):
            times = self.network_.row_times(tensors, batch, device[entries.chosen], entries=entries)
            parts = _parts(times, len(batch.steps))
            total = parts.sum(dim=1).clamp_min(_TICK_S)
            logs[batch.steps] = torch.log(total).numpy()
            shares[batch.steps] = (parts / total[:, None]).numpy()
        return logs[steps], shares[steps]

    @torch.no_grad()
    def row_parts(self, table: StepTable) -> RowParts:
        """Return the one step of a table, taken apart."""
        tensors = TableTensors.of(table, self.mean_, self.scale_)
        batch = batches(table.sketch_of, np.arange(1), 1, np.arange(1))[0]
        times = self.network_.row_times(tensors, batch, self._device_codes(table.devices))
        parts = _parts(times, 1)
        total = parts.sum(dim=1).clamp_min(_TICK_S)
        return RowParts(
            work_s=times.work_s.numpy().astype(np.float64),
            launch_s=times.launch_s.numpy().astype(np.float64),
            log_times=torch.log(total).numpy().astype(np.float64),
            shares=(parts / total[:, None]).numpy().astype(np.float64),
        )

    def save(self, folder: Path, stem: str) -> None:
        """Write the weights as safetensors and the settings as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {"mean": self.mean_, "scale": self.scale_, **self.network_.state_dict()}
        half = {name: tensor.to(torch.float32).contiguous() for name, tensor in state.items()}
        (folder / f"{stem}.safetensors").write_bytes(save_tensors(half))
        facts = {
            "settings": asdict(self.settings),
            "devices": self.devices_,
            "unknown_variance": self.unknown_variance_.tolist(),
            "row_columns": ROW_COLUMNS,
            "setting_columns": SETTING_COLUMNS[: self.network_.settings],
        }
        (folder / f"{stem}.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, folder: Path, stem: str) -> Self:
        """Read back what :meth:`save` wrote; settings that came later change no answer of it.

        Raises
        ------
        DamagedArtifactError
            Files that cannot be read, or made for columns that this version does not compute.
        """
        path = folder / f"{stem}.safetensors"
        try:
            facts = json.loads((folder / f"{stem}.json").read_text())
            settings = tuple(facts["setting_columns"])
            known = SETTING_COLUMNS[: len(settings)]
            if (tuple(facts["row_columns"]), settings) != (ROW_COLUMNS, known):
                raise ValueError("it was trained on other columns")
            model = cls(NodeNetSettings(**facts["settings"]))
            model.devices_ = tuple(str(name) for name in facts["devices"])
            model.unknown_variance_ = np.array(facts["unknown_variance"], dtype=np.float64)
            state = load_tensors(path.read_bytes())
            model.mean_, model.scale_ = state.pop("mean"), state.pop("scale")
            network = NodeNetwork(
                len(model.devices_),
                wide=model.settings.wide,
                narrow=model.settings.narrow,
                settings=len(settings),
                facts=len(state["by_fact"]),
            )
            network.load_state_dict(state)
            if not all(bool(torch.isfinite(tensor).all()) for tensor in state.values()):
                raise ValueError("it holds weights that are not finite")
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise DamagedArtifactError(
                f"The node network {path} cannot be read: {error}. Train the model again."
            ) from error
        model.network_ = network.eval()
        return model


def _optimizer(
    network: NodeNetwork, settings: NodeNetSettings, updates: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=updates + 1, pct_start=0.15
    )
    return optimizer, schedule


def _parts(times: RowTimes, steps: int) -> torch.Tensor:
    """Seconds of contractions, traffic and launches of each step, shape (steps, EFFECTS)."""
    cells = torch.zeros(steps * EFFECTS)
    cells = cells.index_add_(0, times.step * EFFECTS + times.kind, times.work_s)
    cells = cells.index_add_(0, times.step * EFFECTS + EFFECTS - 1, times.launch_s)
    return cells.reshape(steps, EFFECTS)
