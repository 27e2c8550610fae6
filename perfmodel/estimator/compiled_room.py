"""Memory of language models on accelerators whose steps are compiled as a whole."""

from __future__ import annotations

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.estimate import MemoryEstimate
from perfmodel.placement.memory.memory import oom_probability
from perfmodel.placement.plans.compiled_memory import compiled_memory_bytes
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice
from perfmodel.placement.topology.topology import Plan

#: Deviation in logarithms of what is counted: of a few dozen published runs, whose batches are
#: chosen to fill the memory, none needs more than it has, and the fullest fills 99 % of it.
_DEVIATION = 0.1


def compiled_memory(
    prepared: PreparedJob, accelerator: AcceleratorSpec, plan: Plan
) -> MemoryEstimate | None:
    """Return the memory of one accelerator; None where no compiled step is known.

    Steps of the captured program keep copies that a compiler fuses away: casts of scores over the
    vocabulary alone are several times as large.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        As much of it as the job gets.
    plan : Plan
        With its degree of data parallelism.
    """
    if accelerator.kind != "tpu" or not prepared.has_plan_engine:
        return None
    training = TransformerTraining.of(prepared.job)
    if training is None:
        return None
    needed = compiled_memory_bytes(training, job_choice(prepared.job, plan))
    room = np.array([accelerator.memory_bytes], dtype=np.float64)
    probability = float(oom_probability(np.array([needed]), room, _DEVIATION)[0])
    return MemoryEstimate(
        peak_bytes=needed,
        capacity_bytes=float(accelerator.memory_bytes),
        fits=probability <= 0.5,
        oom_probability=probability,
    )
