"""The joint node predictor: row efficiencies learned from whole steps of many devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step_table import ROW_COLUMNS, SETTING_COLUMNS, StepTable
from perfmodel.predictors.network_weights import UNREADABLE, read_weights, write_weights
from perfmodel.predictors.step_models.asked_table import AskedTable
from perfmodel.predictors.step_models.node_entries import EFFECTS, LAUNCH, Entries
from perfmodel.predictors.step_models.node_network import NodeNetwork, RowTimes
from perfmodel.predictors.step_models.node_settings import NodeNetSettings

_TICK_S = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class RowParts:
    """One step, taken apart.

    Parameters
    ----------
    work_s, launch_s : ndarray, shape (rows,)
        Of all nodes of each row; they add up to the step.
    work_alone_s : float
        All that the device works, which is the step where its host is never late.
    log_times, shares : ndarray, shape (1,) and (1, EFFECTS)
        As :meth:`NodeNet.log_times` answers them.
    """

    work_s: FloatArray
    launch_s: FloatArray
    work_alone_s: float
    log_times: FloatArray
    shares: FloatArray


class NodeNet:
    """Learns a :class:`.node_network.NodeNetwork` from measured steps.

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
        # Imported here: answers need no torch.
        from perfmodel.predictors.step_models.node_learning import learn

        learned = learn(self.settings, table, log_times, weights, steps)
        self.devices_, self.network_ = learned.devices, learned.network
        self.unknown_variance_ = learned.unknown_variance
        return self

    def _device_codes(self, devices: Sequence[str]) -> IntArray:
        code = {name: i for i, name in enumerate(self.devices_)}
        return np.array([code.get(name, len(code)) for name in devices], dtype=np.int64)

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
        device = self._device_codes(table.devices)
        logs, shares = np.zeros(len(table.devices)), np.zeros((len(table.devices), EFFECTS))
        for entries in AskedTable.of(table).batches(steps):
            times = self.network_.row_times(entries, device[entries.steps])
            logs[entries.steps], shares[entries.steps] = _added_up(entries, times)
        return logs[steps], shares[steps]

    def row_parts(self, table: StepTable) -> RowParts:
        """Return the one step of a table, taken apart."""
        (entries,) = AskedTable.of(table).batches(np.arange(1))
        times = self.network_.row_times(entries, self._device_codes(table.devices))
        log_times, shares = _added_up(entries, times)
        work_s = times.work_s.astype(np.float64)
        # A row counts times the derivative of the step, see :mod:`.node_network`.
        share = float(work_s.sum()) / float(np.exp(log_times[0]))
        inverse = 1.0 / float(self.network_.overlap_of(entries)[0])
        return RowParts(
            work_s=work_s,
            launch_s=times.launch_s.astype(np.float64),
            work_alone_s=float(np.exp(log_times[0])) * share**inverse,
            log_times=log_times,
            shares=shares,
        )

    def save(self, folder: Path, stem: str) -> None:
        """Write the weights as safetensors and the settings as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(folder / f"{stem}.safetensors", self.network_.to_weights())
        facts = {
            "settings": asdict(self.settings),
            "devices": self.devices_,
            "unknown_variance": self.unknown_variance_.tolist(),
            "row_columns": ROW_COLUMNS,
            "setting_columns": SETTING_COLUMNS,
        }
        (folder / f"{stem}.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, folder: Path, stem: str) -> Self:
        """Read back what :meth:`save` wrote.

        Raises
        ------
        DamagedArtifactError
            Files that cannot be read, or made for columns that this version does not compute.
        """
        path = folder / f"{stem}.safetensors"
        try:
            facts = json.loads((folder / f"{stem}.json").read_text())
            columns = tuple(facts["row_columns"]), tuple(facts["setting_columns"])
            if columns != (ROW_COLUMNS, SETTING_COLUMNS):
                raise ValueError("it was trained on other columns")
            model = cls(NodeNetSettings(**facts["settings"]))
            model.devices_ = tuple(str(name) for name in facts["devices"])
            model.unknown_variance_ = np.array(facts["unknown_variance"], dtype=np.float64)
            model.network_ = NodeNetwork.of(
                read_weights(path),
                devices=len(model.devices_),
                wide=model.settings.wide,
                narrow=model.settings.narrow,
                overlap=model.settings.overlap,
            )
        except UNREADABLE as error:
            raise DamagedArtifactError(
                f"The node network {path} cannot be read: {error}. Train the model again."
            ) from error
        return model


def _added_up(entries: Entries, times: RowTimes) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the time of each step, and the share of each effect in it."""
    steps = len(entries.steps)
    launches = entries.step * EFFECTS + LAUNCH
    cells = np.bincount(entries.of_kind, weights=times.work_s, minlength=steps * EFFECTS)
    cells += np.bincount(launches, weights=times.launch_s, minlength=steps * EFFECTS)
    parts = cells.reshape(steps, EFFECTS)
    # Column by column: a sum over each row is rounded otherwise where there is one row alone.
    total = np.maximum(parts[:, 0] + parts[:, 1] + parts[:, 2], _TICK_S)
    return np.log(total), parts / total[:, None]
