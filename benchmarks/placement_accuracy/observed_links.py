r"""How slow the links of one machine are, from steps that were observed on it.

.. math::

   \hat s = \arg\min_s \sum_i \rho(\hat T_i(s) / T_i - 1) / \sigma^2
   + 2 \ln(1 + (\ln s / \tau)^2)

The first term is the loss under which the constants were fitted. The second is a prior with heavy
tails (Cauchy's): most machines are near to their class, a few carry a hundredth of it, and one
step has to be enough to say so. The minimum is looked for on a grid, since there may be several.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.least_squares import dampened
from perfmodel.training.placement_fits.fit_data_parallel import EXPECTED_ERROR, SMALL_ERROR

#: Width of the prior: half of the machines lie within it.
_USUAL_EFFECT = 0.5
#: From an eighth of the class's slowdown to five hundred times it.
_GRID = np.linspace(-2.0, 6.2, 83)


def observed_slowdown(
    cells: DataParallelCells,
    step_time_s: npt.ArrayLike,
    *,
    straggler: npt.ArrayLike | None = None,
    constants: DataParallelConstants | None = None,
) -> float:
    """Return how many times slower a machine's links are than those of their class.

    Parameters
    ----------
    cells : DataParallelCells
        What ran on the machine.
    step_time_s : array_like
        What was observed, > 0.
    straggler, constants
        As for :class:`.data_parallel.DataParallelCells`.

    Returns
    -------
    float
        1 where the steps say nothing about the links.
    """
    observed = np.asarray(step_time_s, dtype=np.float64)
    loss = 2 * np.log1p((_GRID / _USUAL_EFFECT) ** 2)
    for place, slower in enumerate(np.exp(_GRID)):
        parts = cells.parts(straggler=straggler, link_slowdown=float(slower), constants=constants)
        errors = dampened(parts.step_time_s / observed - 1, SMALL_ERROR) / EXPECTED_ERROR
        loss[place] += float((errors**2).sum())
    return float(np.exp(_GRID[int(np.argmin(loss))]))
