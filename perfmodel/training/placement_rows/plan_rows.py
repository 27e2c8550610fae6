"""Published training steps of transformers, as columns for the equations of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import (
    Attention,
    DeviceColumns,
    NumberBytes,
    PlanCells,
    PlanColumns,
    PlanGroups,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_constants import Stack
from perfmodel.placement.plan_steps.plan_exchanges import Exchanges, exchanges
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice
from perfmodel.placement.topology.topology import Placement
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape

_ATTENTION = {
    Stack.MEGATRON: Attention.WRITTEN,
    Stack.MEGATRON_CORE: Attention.BY_WARP_GROUPS,
}
Rows = npt.NDArray[np.bool_] | npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PlanRows(Columns):
    """Measured steps of one stack of software.

    Parameters
    ----------
    positions : ndarray of int
        Of each row among the records given.
    sizes, devices : ndarray of str
        Model size (``"24x1024"``, layers x width) and accelerator of each row.
    """

    cells: PlanCells
    between: Exchanges
    step_time_s: FloatArray
    stack: Stack
    positions: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.str_]
    devices: npt.NDArray[np.str_]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.step_time_s)


def plan_rows(records: Sequence[PublishedPlacement], stack: Stack) -> PlanRows | None:
    """Return the steps of one stack among some records; None where there are none.

    Parameters
    ----------
    records : sequence of PublishedPlacement
        Those that are no transformer, share their accelerators or mix kinds are passed over.
    stack : Stack
        ``XLA`` takes the records on TPUs; of the others those that the software of
        :class:`.plan_answer.TransformerTraining` is.
    """
    found = []
    for position, record in enumerate(records):
        shape = _shape(record, stack)
        if shape is not None:
            found.append((position, record, shape))
    if not found:
        return None
    kept = [record for _, record, _ in found]
    shapes = [shape for _, _, shape in found]
    cells = _cells(kept, shapes, stack)
    return PlanRows(
        cells=cells,
        between=exchanges(cells),
        step_time_s=np.array([record.step_time_s for record in kept]),
        stack=stack,
        positions=np.array([position for position, _, _ in found], dtype=np.int64),
        sizes=np.array([f"{shape.layers}x{shape.hidden_size}" for shape in shapes]),
        devices=np.array([record.placement.nodes[0].accelerator for record in kept]),
    )


def _shape(record: PublishedPlacement, stack: Stack) -> TransformerShape | None:
    job, placement = record.job, record.placement
    if job is None or placement.shared_with or placement.plan.data is None:
        return None
    if _stack(record) is not stack:
        return None
    if len({node.accelerator for node in placement.nodes}) > 1:
        return None
    return transformer_shape(job)


def _stack(record: PublishedPlacement) -> Stack | None:
    training = TransformerTraining.of(_job(record))
    if training is None:
        return None
    spec = Catalog.default().get(record.placement.nodes[0].accelerator)
    return training.on([spec]).stack_of(record.placement.plan)


def _job(record: PublishedPlacement) -> Job:
    if record.job is None:
        raise InvalidInputError("A record without a job has no plan.")
    return record.job


def _cells(
    records: Sequence[PublishedPlacement], shapes: Sequence[TransformerShape], stack: Stack
) -> PlanCells:
    jobs = [_job(record) for record in records]
    catalog = Catalog.default()
    devices = [catalog.get(record.placement.nodes[0].accelerator) for record in records]
    precisions = [job.precision for job in jobs]
    return PlanCells(
        shape=ShapeColumns.of(shapes),
        plan=PlanColumns.of(
            [
                job_choice(job, record.placement.plan)
                for job, record in zip(jobs, records, strict=True)
            ]
        ),
        device=DeviceColumns.of(devices, precisions),
        numbers=NumberBytes.of(precisions, [job.optimizer for job in jobs]),
        groups=_groups([record.placement for record in records]),
        fused_attention=np.full(len(jobs), float(_ATTENTION.get(stack, Attention.BY_WARPS))),
    )


def _groups(placements: Sequence[Placement]) -> PlanGroups:
    """Look up the links once for each set of hosts."""
    rows: dict[object, list[int]] = {}
    for row, placement in enumerate(placements):
        rows.setdefault((placement.nodes, placement.network), []).append(row)
    parts = [
        PlanGroups.of(Fabric.of(placements[one[0]]), [placements[row].plan for row in one])
        for one in rows.values()
    ]
    order = np.array([row for one in rows.values() for row in one], dtype=np.int64)
    return PlanGroups.join(parts).take(np.argsort(order))
