"""Steps in a reduced precision that a device runs slower than in full precision are left out.

Libraries that have no kernels of a precision for a card convert, compute otherwise and convert
back. Such steps say what a library lacks on one card and nothing of the precision: an RX 5700
trains in fp16 at a quarter of its speed in fp32 under a ROCm that does not support it, and a
predictor that learns from it believes so of every card without matrix units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from perfmodel.features.steps.step import StepSample
from perfmodel.types import Precision

#: Under which name what is left out is counted.
EMULATED = "a reduced precision that is slower than fp32"
#: Times that a step takes over its time in fp32 beyond which, and jobs that must say so.
_SLOWER, _LEAST_JOBS = 1.5, 5


def without_emulated(samples: Sequence[StepSample]) -> list[StepSample]:
    """Return the samples of precisions that their devices compute.

    A precision of a device in one source is left out where the median of its jobs takes 1.5 times
    as long as the same job in fp32, and five jobs or more were measured in both.
    """
    times: dict[tuple[object, ...], dict[Precision, list[float]]] = defaultdict(dict)
    for sample in samples:
        of_job = times[(*_runs(sample), sample.model, sample.step.mode, sample.step.batch_size)]
        of_job.setdefault(sample.step.precision, []).append(sample.step_time_s)
    ratios = defaultdict(list)
    for (source, device, *_), by_precision in times.items():
        full = by_precision.pop(Precision.FP32, None)
        if full is None:
            continue
        for precision, seconds in by_precision.items():
            ratios[source, device, precision].append(np.median(seconds) / np.median(full))
    emulated = {
        runs
        for runs, found in ratios.items()
        if len(found) >= _LEAST_JOBS and np.median(found) > _SLOWER
    }
    return [s for s in samples if (*_runs(s), s.step.precision) not in emulated]


def _runs(sample: StepSample) -> tuple[str, str]:
    return sample.source, sample.step.accelerator.name
