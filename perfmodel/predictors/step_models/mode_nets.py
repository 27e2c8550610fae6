"""The network side of a member: one network for all steps, one for training steps alone.

Published inference outnumbers published training ten to one, on newer releases and other devices.
A network of both is right about devices, since it has met more of them; one of training steps
alone is right about the backward pass. A training step is answered by their weighted mean.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step_table import SETTING_COLUMNS, StepTable
from perfmodel.predictors.step_models.node_net import NodeNet, RowParts
from perfmodel.predictors.step_models.node_settings import NodeNetSettings

#: Training steps below which they get no network of their own.
_FEWEST_STEPS = 500
#: Passes over training steps for one over all steps.
_PASSES = 3
_TRAINING = SETTING_COLUMNS.index("training")


class ModeNets:
    """A network for all steps and one for training steps.

    Parameters
    ----------
    training : NodeNet or None
        None where too few training steps were measured.
    training_share : float
        Weight of ``training`` in the answer of a training step, in [0, 1].
    """

    def __init__(
        self, everything: NodeNet, training: NodeNet | None = None, training_share: float = 0.5
    ) -> None:
        self.everything = everything
        self.training = training
        self.training_share = training_share

    @classmethod
    def fit(
        cls,
        settings: NodeNetSettings,
        table: StepTable,
        log_times: FloatArray,
        weights: FloatArray,
        steps: IntArray,
        *,
        fewest: int = _FEWEST_STEPS,
    ) -> Self:
        """Learn both from some steps of a table, as :meth:`NodeNet.fit` does.

        With fewer than ``fewest`` training steps there is one network for all.
        """
        everything = NodeNet(settings).fit(table, log_times, weights, steps)
        training = steps[is_training(table)[steps]]
        if len(training) < fewest:
            return cls(everything)
        longer = replace(settings, epochs=_PASSES * settings.epochs)
        return cls(everything, NodeNet(longer).fit(table, log_times, weights, training))

    @property
    def unknown_variance_(self) -> FloatArray:
        """Variance of the effects of a device without records, shape (effects,)."""
        return self.everything.unknown_variance_

    def log_times(
        self, table: StepTable, steps: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return log step times, and the share of each device effect in them.

        Returns
        -------
        log_times : ndarray, shape (steps,)
        shares : ndarray, shape (steps, EFFECTS)
        """
        steps = np.arange(len(table.devices)) if steps is None else steps
        logs, shares = self.everything.log_times(table, steps)
        weight = self._weights(table)[steps]
        own = np.flatnonzero(weight > 0)
        if self.training is None or not len(own):
            return logs, shares
        other, other_shares = self.training.log_times(table, steps[own])
        of_training = weight[own]
        logs[own] += of_training * (other - logs[own])
        shares[own] += of_training[:, None] * (other_shares - shares[own])
        return logs, shares

    def training_log_times(self, table: StepTable, steps: IntArray) -> FloatArray:
        """Return what each network says of some training steps, shape (2, steps)."""
        networks = (self.everything, self.training or self.everything)
        return np.stack([network.log_times(table, steps)[0] for network in networks])

    def row_parts(self, table: StepTable) -> RowParts:
        """Return the one step of a table, taken apart; rows add up to its time."""
        one = self.everything.row_parts(table)
        weight = float(self._weights(table)[0])
        if self.training is None or weight == 0.0:
            return one
        other = self.training.row_parts(table)
        log_times = one.log_times + weight * (other.log_times - one.log_times)
        work = one.work_s + weight * (other.work_s - one.work_s)
        launch = one.launch_s + weight * (other.launch_s - one.launch_s)
        alone = one.work_alone_s + weight * (other.work_alone_s - one.work_alone_s)
        scale = float(np.exp(log_times[0])) / max(float(work.sum() + launch.sum()), 1e-12)
        return RowParts(
            work_s=scale * work,
            launch_s=scale * launch,
            work_alone_s=scale * alone,
            log_times=log_times,
            shares=one.shares + weight * (other.shares - one.shares),
        )

    def _weights(self, table: StepTable) -> FloatArray:
        """Return the weight of the network of training steps in each step of a table.

        A device that ran inference alone is better known to the network of both.
        """
        if self.training is None:
            return np.zeros(len(table.devices))
        elsewhere = set(self.everything.devices_) - set(self.training.devices_)
        heard = np.array([name not in elsewhere for name in table.devices])
        return np.asarray(np.where(is_training(table) & heard, self.training_share, 0.0))

    def save(self, folder: Path, stem: str) -> None:
        """Write the networks; how they are mixed is kept by the caller."""
        self.everything.save(folder, stem)
        if self.training is not None:
            self.training.save(folder, _training_stem(stem))

    @classmethod
    def load(cls, folder: Path, stem: str, *, training_share: float | None) -> Self:
        """Read back what :meth:`save` wrote.

        Parameters
        ----------
        training_share : float or None
            None where training steps had no network of their own.

        Raises
        ------
        DamagedArtifactError
            A file that is missing, cannot be read, or was made for other columns.
        """
        everything = NodeNet.load(folder, stem)
        if training_share is None:
            return cls(everything)
        return cls(everything, NodeNet.load(folder, _training_stem(stem)), training_share)


def is_training(table: StepTable) -> npt.NDArray[np.bool_]:
    """Tell which steps of a table are training steps, shape (steps,)."""
    return np.asarray(table.settings[:, _TRAINING] > 0)


def _training_stem(stem: str) -> str:
    return f"{stem}.training"
