"""What a few measured kernels say about a device: log offsets, shrunk towards none.

A residual ``r = log(measured / predicted)`` of operator group ``g`` on one device is::

    r = a + b_g + (s - 1/2) c_g + e
    a ~ N(0, device^2),  b_g ~ N(0, group^2),  c_g ~ N(0, launch^2),  e ~ N(0, kernel^2)

``a`` is a device that is faster or slower as a whole, ``b_g`` one kind of operator on it, and
``c_g`` its launches: ``s`` in [0, 1] is the part of a call that does not grow with its size. The
posterior mean is a ridge regression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class OffsetPrior:
    """Standard deviations of the log residual, each > 0.

    The defaults are those of devices that were left out of training in turn.

    Parameters
    ----------
    device, group, launch, kernel : float
        Of a device as a whole, of an operator group on it, between its short and its long calls,
        and of single kernels.
    """

    device: float = 0.10
    group: float = 0.10
    launch: float = 0.10
    kernel: float = 0.28


@dataclass(frozen=True, kw_only=True)
class GroupOffset:
    """Log offset of one operator group on one device: ``level + (s - 1/2) launch``."""

    level: float
    launch: float

    def at(self, launch_share: FloatArray) -> FloatArray:
        """Return the log offset of calls by the part of them that does not grow."""
        return self.level + (launch_share - 0.5) * self.launch


def group_offsets(
    groups: Sequence[str],
    residuals: FloatArray,
    launch_share: FloatArray,
    known: Sequence[str],
    prior: OffsetPrior | None = None,
) -> Mapping[str, GroupOffset]:
    """Return the posterior mean of each group's log offset on one device.

    Parameters
    ----------
    groups : sequence of str
        Operator group of each measured kernel.
    residuals : ndarray, shape (kernels,)
        ``log(measured / predicted)``.
    launch_share : ndarray, shape (kernels,)
        Part of each call that does not grow with its size, in [0, 1].
    known : sequence of str
        Groups to answer for; those without a measurement get the device's part alone.

    Raises
    ------
    TrainingError
        A residual that is not finite.

    Examples
    --------
    One kernel, 20 % slow: the posterior moves part of the way.

    >>> found = group_offsets(["gemm"], np.array([0.2]), np.array([0.5]), ["gemm", "moe"])
    >>> 0 < found["moe"].level < found["gemm"].level < 0.2
    True
    """
    prior = OffsetPrior() if prior is None else prior
    if not np.all(np.isfinite(residuals)):
        raise TrainingError("A measured kernel has a residual that is not finite; check its time.")
    names = sorted({*known, *groups})
    count = len(names)
    place = np.array([names.index(group) for group in groups], dtype=np.int64)
    rows = np.arange(len(residuals))
    design = np.zeros((len(residuals), 1 + 2 * count))
    design[:, 0] = 1.0
    design[rows, 1 + place] = 1.0
    design[rows, 1 + count + place] = launch_share - 0.5
    precision = [prior.device**-2, *[prior.group**-2] * count, *[prior.launch**-2] * count]
    normal = design.T @ design / prior.kernel**2 + np.diag(precision)
    effect = np.linalg.solve(normal, design.T @ residuals / prior.kernel**2)
    return {
        name: GroupOffset(
            level=float(effect[0] + effect[1 + column]), launch=float(effect[1 + count + column])
        )
        for column, name in enumerate(names)
    }
