"""Observed cells as a judging set: whole placements, answered as whoever asks is answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.capture import shipped_or_captured
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.loading import LoadedModel
from perfmodel.placement.topology.topology import Placement
from perfmodel.retraining.data.observed_cells import ObservedCell
from perfmodel.retraining.judging.judging_sets import AskedSet
from perfmodel.retraining.judging.version_at_hand import VersionAtHand
from perfmodel.store.state.database import Database
from perfmodel.training.gate.evidence import Answers, JudgingSet

#: Cells that are asked about, those seen first most lately.
MOST_CELLS = 500
#: Fewer tell nothing: each job has something of its own that no model of steps knows.
LEAST_CELLS = 8
NAME = "observations"


def observed_set(
    cells: Sequence[ObservedCell], serving: VersionAtHand, database: Database
) -> AskedSet | None:
    """Return the cells that the version that serves has an answer for; None where they are few.

    No observation is told to either version: what they would say of a new job is compared.
    """
    graphs = GraphLibrary(capture=shipped_or_captured, database=database)
    asked = list(cells)[-MOST_CELLS:]
    known = _answered(asked, serving, graphs)
    usable = [cell for cell, row in zip(asked, known, strict=True) if np.isfinite(row).all()]
    if len(usable) < LEAST_CELLS:
        return None
    judged = JudgingSet(
        name=NAME,
        keys=tuple(f"observed {cell.numbers[0]}" for cell in usable),
        measured_s=np.array([cell.step_time_s for cell in usable]),
        labels={
            "device": tuple(cell.placement.nodes[0].accelerator for cell in usable),
            "mode": tuple(cell.job.mode.value for cell in usable),
            "family": tuple(cell.job.label for cell in usable),
            "placement": tuple(placement_kind(cell.placement) for cell in usable),
            "model": tuple(cell.job.label for cell in usable),
        },
    )

    def answer(version: VersionAtHand) -> Answers:
        rows = np.array(_answered(usable, version, graphs)).reshape(-1, 3)
        return Answers(time_s=rows[:, 0], low_s=rows[:, 1], high_s=rows[:, 2])

    return AskedSet(judged=judged, answer=answer)


def placement_kind(placement: Placement) -> str:
    """Return a word for placements that are alike.

    Examples
    --------
    >>> from perfmodel.placement.topology.parse import parse_placement
    >>> placement_kind(parse_placement("8xH100-SXM5-80GB"))
    'one host'
    """
    if placement.shared_with:
        return "shared"
    if placement.accelerator_count == 1:
        return "one accelerator"
    return "one host" if placement.host_count == 1 else "several hosts"


def _answered(
    cells: Sequence[ObservedCell], version: VersionAtHand, graphs: GraphLibrary
) -> list[tuple[float, float, float]]:
    """Return step time and interval of each cell, seconds; NaN where there is no answer."""
    nothing = (np.nan, np.nan, np.nan)
    if version.model is None:
        return [nothing] * len(cells)
    estimator = _estimator(version, graphs)
    rows = []
    for cell in cells:
        try:
            found = estimator.estimate(cell.job, cell.placement)
        except PerfModelError:
            rows.append(nothing)
            continue
        rate = found.throughput
        rows.append(
            (
                found.step_time_s,
                found.step_time_s * rate.samples_per_second / rate.high,
                found.step_time_s * rate.samples_per_second / rate.low,
            )
        )
    return rows


def _estimator(version: VersionAtHand, graphs: GraphLibrary) -> Estimator:
    assert version.model is not None
    model = version.serving_model
    devices = () if model is None else (*model.devices.values(), *model.adapted.values())
    estimator = Estimator(accelerators=Catalog.default(), model=version.model, graphs=graphs)
    return estimator.with_model(LoadedModel(model=version.model, devices=devices))
