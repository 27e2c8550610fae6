"""A job's step on the device of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.graph.job import Job
from perfmodel.profilers.runtime import DeviceRuntime
from perfmodel.profilers.steps.arithmetic import refuse_quantised

if TYPE_CHECKING:
    from perfmodel.capture.program import Program


def program_on(runtime: DeviceRuntime, job: Job) -> tuple[Program, str, str]:
    """Return the step of a job on a device, with the name and the family of its model.

    Raises
    ------
    MeasurementError
        A precision that PyTorch would not compute in.
    """
    from perfmodel.zoo.moved import bundle_on
    from perfmodel.zoo.resolve import build_bundle, program_of

    refuse_quantised(job)
    # Weights are the same in every process: they are made of the same seed.
    bundle = bundle_on(build_bundle(job, device="cpu"), runtime.torch_device)
    return program_of(bundle, job), bundle.name, bundle.family
