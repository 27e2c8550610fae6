r"""Why predictions of steps lose: parts of a predicted table made right, one at a time.

The logarithm of measured over predicted is split into what one accelerator of each *kind* is off by
(the mean over batch sizes), what *more accelerators* of the kind are off beside that, and what
*batch sizes* are off beside the mean of their configuration.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from cluster_simulation.goodput_rates import StepTable
from cluster_simulation.rounds import FloatArray
from regret_report.repairs import mean_of_known


def repaired_steps(seen: StepTable, measured: StepTable) -> dict[str, StepTable]:
    """Return the table with each part made right, by the name of the part."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(measured.step_time_s / seen.step_time_s)
    level = mean_of_known(off, axis=2)
    kinds = np.array([one.cluster for one in measured.configurations])
    single = {
        str(kind): int(np.flatnonzero((kinds == kind) & (measured.accelerators == 1))[0])
        for kind in dict.fromkeys(kinds.tolist())
    }
    alone = level[:, [single[kind] for kind in kinds.tolist()]]
    parts = {
        "one accelerator of each kind": _over_sizes(alone, off),
        "what more accelerators bring": _over_sizes(level - alone, off),
        "both": _over_sizes(level, off),
        "what batch sizes bring": off - level[:, :, None],
    }
    for row, name in enumerate(measured.applications):
        own = np.arange(len(off)) == row
        parts[f"all of {name}"] = np.where(own[:, None, None], off, 0.0)
    return {
        name: replace(seen, step_time_s=seen.step_time_s * np.exp(np.nan_to_num(part)))
        for name, part in parts.items()
    }


def _over_sizes(part: FloatArray, off: FloatArray) -> FloatArray:
    return np.broadcast_to(part[:, :, None], off.shape)
