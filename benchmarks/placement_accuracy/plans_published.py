"""Judge whole answers about language models on clusters, each device left out.

Rows of NVIDIA, Google and others: models, plans, counts and devices of their own. Each is asked as
a user would ask, with its job and its placement, of the trained model as it is shipped, which saw
none of them. Constants of compiled steps on TPUs are fitted without the device that is asked; those
of other stacks never saw these rows. Beside them stands the arithmetic at the peak with one
efficiency, that of all other devices of the table, and, where the same model ran on several counts
of one device, the rate of an accelerator on the fewest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from placement_accuracy.line import Line

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.fitted import fitted, standing_in
from perfmodel.placement.plan_steps.plan_constants import Stack
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.training.placement_fits.fit_plans import constants_of, published
from perfmodel.training.placement_rows.plan_rows import plan_rows

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator


#: Rows that are asked where time is short.
_FAST = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """A published row and what was answered.

    Parameters
    ----------
    least_s : float
        Arithmetic at the peak of all accelerators.
    """

    record: PublishedPlacement
    step_s: float
    low_s: float
    high_s: float
    fits: bool | None
    least_s: float


def evaluate(data: Path, *, fast: bool = False, models: Path = Path("models")) -> list[Line]:
    """Return one line for each source of published rates; none without the table.

    Parameters
    ----------
    fast : bool
        A few rows alone.
    models : Path
        Folder of the trained models.
    """
    records = [one for one in published(data, "llm-training") if one.job is not None]
    if fast:
        chosen = np.linspace(0, len(records) - 1, min(_FAST, len(records))).round()
        records = [records[int(row)] for row in np.unique(chosen)]
    if not records:
        return []
    from perfmodel.estimator import Estimator

    estimator = Estimator.from_folder(models)
    asked: list[_Asked] = []
    for device in dict.fromkeys(_device(record) for record in records):
        asked += _left_out(estimator, data, records, device)
    ideal, linear = _at_one_efficiency(asked), _at_the_rate_of_the_fewest(asked)
    unanswered = len(records) - len(asked)
    sources = [_source(one.record) for one in asked]
    found = []
    for source in dict.fromkeys(sources):
        rows = np.array([row for row, name in enumerate(sources) if name == source])
        found.append(_line(source, [asked[row] for row in rows], ideal[rows], linear[rows]))
    if found and unanswered:
        found[0] = replace(found[0], note=f"{found[0].note} {unanswered} rows had no answer.")
    return found


def _left_out(
    estimator: Estimator, data: Path, records: Sequence[PublishedPlacement], device: str
) -> list[_Asked]:
    """Return the answers for a device with what the others say of compiled steps."""
    others = [one for one in published(data, "llm-training") if _device(one) != device]
    rows = plan_rows(others, Stack.XLA)
    instead = dict(fitted("plans"))
    if rows is not None:
        instead[Stack.XLA.value] = asdict(constants_of(rows))
    with standing_in("plans", instead):
        # Nothing that other constants answered may be remembered.
        fresh = type(estimator)(
            accelerators=estimator.accelerators,
            model=estimator.core.model,
            graphs=estimator.core.graphs,
        )
        found = [_ask(fresh, record) for record in records if _device(record) == device]
    return [one for one in found if one is not None]


def _ask(estimator: Estimator, record: PublishedPlacement) -> _Asked | None:
    job = record.job
    assert job is not None
    try:
        answer = estimator.estimate(job, record.placement)
    except PerfModelError:
        return None
    rate, step_s = answer.throughput, answer.step_time_s
    samples = rate.samples_per_second * step_s
    return _Asked(
        record=record,
        step_s=step_s,
        low_s=samples / rate.high,
        high_s=samples / rate.low,
        fits=answer.memory.fits,
        least_s=_least_s(job, record),
    )


def _least_s(job: Job, record: PublishedPlacement) -> float:
    shape = transformer_shape(job)
    assert shape is not None
    spec = Catalog.default().get(record.placement.nodes[0].accelerator)
    samples = (record.placement.plan.data or 1) * job.batch_size * job.accumulation_steps
    peak = record.placement.accelerator_count * spec.flops_per_s(job.precision)
    return samples * shape.sample_flops / peak


def _at_one_efficiency(asked: Sequence[_Asked]) -> FloatArray:
    """Return the arithmetic at the peak over the efficiency of all other devices."""
    least = np.array([one.least_s for one in asked])
    ratio = np.log([one.record.step_time_s for one in asked]) - np.log(least)
    devices = np.array([_device(one.record) for one in asked])
    found = np.full(len(asked), np.nan)
    for device in np.unique(devices):
        held = devices == device
        if not held.all():
            found[held] = least[held] * np.exp(ratio[~held].mean())
    return found


def _at_the_rate_of_the_fewest(asked: Sequence[_Asked]) -> FloatArray:
    """Return the step if all accelerators did as much as where the model ran on the fewest."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for row, one in enumerate(asked):
        record = one.record
        assert record.job is not None
        key = (_device(record), record.job_type, record.job.precision)
        alike.setdefault(key, []).append(row)
    found = np.full(len(asked), np.nan)
    for rows in alike.values():
        first = min(rows, key=lambda row: asked[row].record.placement.accelerator_count)
        done = asked[first].least_s / asked[first].record.step_time_s
        for row in rows:
            if row != first:
                found[row] = asked[row].least_s / done
    return found


def _line(source: str, asked: Sequence[_Asked], ideal: FloatArray, linear: FloatArray) -> Line:
    # What is moved to the host is no part of the question.
    kept = [one for one in asked if one.record.settings["offloads"] != "true"]
    refused = sum(one.fits is False for one in kept)
    return Line(
        name=f"plans-published-{source}",
        title=f"Published training of language models ({source}): whole answers, each device "
        "left out",
        measured=np.array([one.record.step_time_s for one in asked]),
        predicted=np.array([one.step_s for one in asked]),
        low=np.array([one.low_s for one in asked]),
        high=np.array([one.high_s for one in asked]),
        groups=[_device(one.record) for one in asked],
        jobs=[f"{one.record.job_type} {_device(one.record)}" for one in asked],
        baselines={"flops_over_peak": ideal, "linear_from_the_fewest": linear},
        note="Asked as a user does; constants of TPUs come from the other TPUs. All of these ran: "
        f"of {len(kept)} that move nothing to the host {refused} are said not to fit.",
    )


def _device(record: PublishedPlacement) -> str:
    return record.placement.nodes[0].accelerator


def _source(record: PublishedPlacement) -> str:
    """Return a short word for files: the first of the source."""
    return record.settings["source"].split()[0].lower()
