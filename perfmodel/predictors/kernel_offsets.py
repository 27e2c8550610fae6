"""What a few measured kernels say about a device: log offsets, shrunk towards none.

A residual ``r = log(measured / predicted)`` of operator group ``g`` on one device is::

    r = a + b_g + e,   a ~ N(0, device^2),  b_g ~ N(0, group^2),  e ~ N(0, kernel^2)

``a`` is a device that is faster or slower as a whole, ``b_g`` one kind of operator on it. The
posterior mean of ``a + b_g`` is a ridge regression on indicator columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.kernel_calls import FloatArray


@dataclass(frozen=True, kw_only=True)
class OffsetPrior:
    """Standard deviations of the log residual, each > 0.

    Parameters
    ----------
    device, group, kernel : float
        Of a device as a whole, of an operator group on it, and of single kernels.
    """

    device: float = 0.15
    group: float = 0.15
    kernel: float = 0.20


def group_offsets(
    groups: Sequence[str],
    residuals: FloatArray,
    known: Sequence[str],
    prior: OffsetPrior | None = None,
) -> Mapping[str, float]:
    """Return the posterior mean of each group's log offset on one device.

    Parameters
    ----------
    groups : sequence of str
        Operator group of each measured kernel.
    residuals : ndarray, shape (kernels,)
        ``log(measured / predicted)``.
    known : sequence of str
        Groups to answer for; those without a measurement get the device's part alone.
    prior : OffsetPrior or None

    Returns
    -------
    mapping of str to float

    Raises
    ------
    TrainingError
        A residual that is not finite.

    Examples
    --------
    One kernel, 20 % slow: the posterior moves part of the way.

    >>> found = group_offsets(["gemm"], np.array([0.2]), ["gemm", "moe"])
    >>> 0 < found["moe"] < found["gemm"] < 0.2
    True
    """
    prior = OffsetPrior() if prior is None else prior
    if not np.all(np.isfinite(residuals)):
        raise TrainingError("A measured kernel has a residual that is not finite; check its time.")
    names = sorted({*known, *groups})
    place = {name: column for column, name in enumerate(names, start=1)}
    design = np.zeros((len(residuals), len(names) + 1))
    design[:, 0] = 1.0
    design[np.arange(len(residuals)), [place[group] for group in groups]] = 1.0
    precision = np.array([prior.device**-2, *[prior.group**-2] * len(names)])
    normal = design.T @ design / prior.kernel**2 + np.diag(precision)
    offsets = np.linalg.solve(normal, design.T @ residuals / prior.kernel**2)
    return {name: float(offsets[0] + offsets[place[name]]) for name in names}
