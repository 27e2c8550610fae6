"""What a step waits for its data."""

from __future__ import annotations

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.feeding.input_pipeline import InputPipeline, input_stall
from perfmodel.placement.feeding.input_samples import SampleCost


def stall_s(
    placement: ResolvedPlacement, sample: SampleCost, samples: FloatArray, step_s: FloatArray
) -> FloatArray:
    """Return how long steps wait, seconds.

    Parameters
    ----------
    samples : ndarray
        That the fullest host loads for a step.
    step_s : ndarray
        Without waiting.
    """
    asked = placement.placement
    pipeline = InputPipeline(
        sample=sample,
        cpu_cores=asked.cpu_cores,
        workers=asked.loader_workers,
        storage_bytes_per_s=asked.storage_bytes_per_s,
        locality=asked.storage_locality,
    )
    return input_stall(pipeline, samples, step_s)
