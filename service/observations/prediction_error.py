"""Hold a prediction against what was then observed."""

from __future__ import annotations

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Throughput
from perfmodel.placement.topology.topology import Placement
from service.metrics.registry import Metrics

#: What stands for placements of several kinds; their combinations are too many to be told apart.
MIXED = "mixed"


def count_observation(
    metrics: Metrics,
    catalog: Catalog,
    seen: Observation,
    predicted: Throughput,
    predicted_step_s: float,
) -> None:
    """Count the error of a prediction, and whether its interval held what was seen.

    Both are of one step, so that their throughputs are inversely as its times:
    ``observed = predicted * predicted_step_time / observed_step_time``.

    Parameters
    ----------
    predicted : Throughput
        Of the same cell, made without observations of the job.
    """
    metrics.observation(
        kind_of(seen.placement, catalog),
        predicted.samples_per_second * predicted_step_s / seen.step_time_s,
        predicted=predicted.samples_per_second,
        low=predicted.low,
        high=predicted.high,
    )


def kind_of(placement: Placement, catalog: Catalog) -> str:
    """Return the accelerator of a placement by its name in the catalogue; MIXED of several."""
    kinds = {catalog.canonical_name(node.accelerator) for node in placement.nodes}
    return kinds.pop() if len(kinds) == 1 else MIXED
