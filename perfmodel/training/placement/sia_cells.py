"""Sia's steps as observed cells: each measured step beside what is predicted without it.

Accelerators of one host synchronise slowly on these clusters, NVLink or not: with V100 and A100 no
faster than across hosts, elsewhere at some 1 to 2 GB/s. They look like containers that reach each
other through the host. So no link inside a host is counted on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.base import PublishedPlacement
from perfmodel.importers.registry import import_format
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.data_parallel.data_parallel import data_parallel_parts
from perfmodel.placement.data_parallel.profile_graph import step_profile
from perfmodel.placement.topology.data_groups import data_groups
from perfmodel.placement.topology.fabric import Fabric
from perfmodel.placement.topology.topology import Node, Placement

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator

FloatArray = npt.NDArray[np.float64]

#: What a host of that time needs to issue one operator.
HOST_S_PER_OPERATOR = 2e-4


class Group(NamedTuple):
    """A job on a cluster."""

    job: str
    cluster: str


class Measured(NamedTuple):
    """Steps with the digits of their placements: ``"14"`` is one accelerator here, four there."""

    steps: ObservedSteps
    placements: npt.NDArray[np.str_]


def sia_groups(data: Path, models: Path = Path("models")) -> dict[Group, Measured]:
    """Read Sia's placements and predict each of them.

    Parameters
    ----------
    data : Path
        Folder of the public tables.
    models : Path
        Folder of the trained models that predict single accelerators; analytical without any.
        None of them was trained on these tables.

    Returns
    -------
    dict
        Steps of every job on every cluster; jobs without a graph are left out.
    """
    # The estimator brings the trained models' libraries, which a fit on read tables does not need.
    from perfmodel.estimator import Estimator

    source = import_format("sia")
    records: dict[Group, list[PublishedPlacement]] = defaultdict(list)
    for record in source.read(data / source.folder).placements:
        if record.job is not None:
            records[Group(record.job_type, record.settings["cluster"])].append(record)
    estimator = Estimator.from_folder(models)
    return {group: _observed(group, rows, estimator) for group, rows in sorted(records.items())}


def _observed(
    group: Group, records: Sequence[PublishedPlacement], estimator: Estimator
) -> Measured:
    first = records[0].job
    assert first is not None
    prepared = estimator.prepare(first)
    profile = step_profile(prepared.step.graph, samples=prepared.samples)
    times = _alone_s(records, estimator)
    compute_s = np.array([times[record.batch_size] for record in records])
    catalog = Catalog.default()
    groups = data_groups([Fabric.of(_apart(r.placement), catalog) for r in records])
    cells = StepCells.of_job(
        data_parallel_parts(profile, compute_s, groups),
        batch_size=[record.batch_size for record in records],
        ranks=groups.ranks,
        hosts=groups.hosts,
        largest_share=groups.largest_share,
        host_s=profile.node_count * HOST_S_PER_OPERATOR,
        window_share=profile.backward_share,
        job=group.job,
        machine=group.cluster,
        fabric=group.cluster,
    )
    steps = ObservedSteps(
        cells=cells,
        step_time_s=np.array([record.step_time_s for record in records]),
        sync_time_s=np.array([record.sync_time_s for record in records], dtype=np.float64),
    )
    return Measured(steps=steps, placements=np.array([_digits(record) for record in records]))


def _apart(placement: Placement) -> Placement:
    """Return the placement without links inside its hosts."""
    return replace(placement, nodes=tuple(replace(n, link="none") for n in placement.nodes))


def _digits(record: PublishedPlacement) -> str:
    return "".join(str(node.count) * node.repeat for node in record.placement.nodes)


def _alone_s(records: Sequence[PublishedPlacement], estimator: Estimator) -> Mapping[int, float]:
    """Return the predicted step of one accelerator for each batch size."""
    times: dict[int, float] = {}
    for record in records:
        if record.batch_size not in times and record.job is not None:
            one = Placement(nodes=(Node(accelerator=record.placement.nodes[0].accelerator),))
            times[record.batch_size] = estimator.estimate(record.job, one).step_time_s
    return times
