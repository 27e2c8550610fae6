"""Import traces: operators with their shapes, and whole steps where the job is named.

A trace says what ran and not of which model: a step becomes a record only with its job, which
whoever imports it must tell. Traces that end too early are refused.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidTraceError, StoreError
from perfmodel.graph.job import Job
from perfmodel.importers.kernels.traced_calls import UnnamedCallError, traced_call
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedKernel,
    PublishedPlacement,
    PublishedStep,
    RejectedRow,
)
from perfmodel.placement.topology.topology import Placement
from perfmodel.traces.analysis.explanation import (
    TraceExplanation,
    devices_that_ran,
    explain_trace,
)
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import Trace

_SOURCE = "traces"
_LICENCE = "not stated"
#: Of the device time of a trace, below which what is not joined may be part of any operator.
_LEAST_JOINED = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedJob:
    """What a trace does not say of itself.

    Parameters
    ----------
    job : Job or None
        What ran; its batch is that of one replica.
    placement : Placement or None
        Where it ran, if on several accelerators.
    accelerator : AcceleratorSpec or None
        The device, where the trace does not name it.
    """

    job: Job | None = None
    placement: Placement | None = None
    accelerator: AcceleratorSpec | None = None


def read_trace_files(path: Path) -> Imported:
    """Read a trace, or all traces below a folder; operators alone, since no job is named.

    Raises
    ------
    StoreError
        There is no file.
    """
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    if not files or not path.exists():
        raise StoreError(f"No trace lies in {path}; name a trace or a folder of them.")
    return import_traces(files, TracedJob())


def import_traces(files: Sequence[Path], told: TracedJob) -> Imported:
    """Return the records of some traces of one job; a file that is refused is a rejected row."""
    kernels: list[PublishedKernel] = []
    steps: list[PublishedStep] = []
    runs: list[dict[int | None, PublishedPlacement]] = []
    rejected: list[RejectedRow] = []
    read: dict[bytes, Path] = {}
    for file in files:
        try:
            found = _explained(file, told)
        except InvalidTraceError as error:
            rejected.append(RejectedRow(file=file.name, line=0, reason=error.message))
            continue
        fingerprint = _fingerprint(found.trace)
        if fingerprint in read:
            first = read[fingerprint].name
            reason = f"it holds the same kernels at the same times as {first}"
            rejected.append(RejectedRow(file=file.name, line=0, reason=reason))
            continue
        read[fingerprint] = file
        if reason := _not_joined(found):
            rejected.append(RejectedRow(file=file.name, line=0, reason=reason))
        else:
            kernels += _kernels(found, file, rejected)
        if told.job is not None:
            step = _step(found, told.job, told.placement, file, rejected)
            if isinstance(step, PublishedStep):
                steps.append(step)
            elif step is not None:
                _enter(runs, found.trace.rank, step)
    return Imported(
        kernels=tuple(kernels),
        steps=tuple(steps),
        placements=tuple(map(_of_one_run, runs)),
        rejected=tuple(rejected),
    )


def _enter(
    runs: list[dict[int | None, PublishedPlacement]], rank: int | None, step: PublishedPlacement
) -> None:
    """Put the step of a rank into the first run that lacks the rank; of an unknown one, alone."""
    for run in runs:
        if rank is not None and rank not in run and None not in run:
            run[rank] = step
            return
    runs.append({rank: step})


def _of_one_run(ranks: Mapping[int | None, PublishedPlacement]) -> PublishedPlacement:
    """Return the record of a run of which several ranks were traced: they wait for each other."""
    first = next(iter(ranks.values()))
    return replace(first, step_time_s=statistics.median(one.step_time_s for one in ranks.values()))


def _explained(file: Path, told: TracedJob) -> TraceExplanation:
    trace = read_trace(file)
    if not trace.complete:
        raise InvalidTraceError(
            f"{file.name} ends too early, or lacks times of kernels: its sums are too small to be "
            "learned from. `perfmodel trace` says which."
        )
    found = explain_trace(trace, accelerator=told.accelerator)
    if found.accelerator is None:
        raise InvalidTraceError(
            f"{file.name} does not say which accelerator of the catalogue it ran on; "
            "--accelerator NAME does."
        )
    if len(kinds := devices_that_ran(trace)) > 1:
        raise InvalidTraceError(
            f"Devices of several kinds ran in {file.name}: {', '.join(kinds)}. Which ran what is "
            "not kept; record each alone."
        )
    if not len(trace.kernels):
        raise InvalidTraceError(f"Nothing ran on a device in {file.name}.")
    return found


def _fingerprint(trace: Trace) -> bytes:
    """Return what traces of one run have in common, however they are packed and called."""
    kernels = trace.kernels
    digest = hashlib.blake2b("\0".join(trace.names).encode(errors="replace"))
    for column in (kernels.name, kernels.start_ns, kernels.duration_ns, kernels.calls):
        digest.update(column.tobytes())
    return digest.digest()


def _not_joined(found: TraceExplanation) -> str:
    """Return why the operators of a trace are no records; empty where they are."""
    if found.joined_share >= _LEAST_JOINED:
        return ""
    return (
        f"Only {100 * found.joined_share:.1f} % of its device time could be joined to operators; "
        f"{100 * _LEAST_JOINED:.0f} % are needed."
    )


def _kernels(
    found: TraceExplanation, file: Path, rejected: list[RejectedRow]
) -> Iterator[PublishedKernel]:
    assert found.accelerator is not None
    origin = Origin(source=_SOURCE, licence=_LICENCE, file=file.name)
    for one in found.operators:
        operator = one.operator
        try:
            op, dtype, shape = traced_call(one)
        except UnnamedCallError as error:
            rejected.append(
                RejectedRow(file=file.name, line=0, reason=f"{operator.name[:80]}: {error}")
            )
            continue
        if operator.time_s <= 0:
            continue
        if one.beyond_peak:
            reason = f"{operator.name[:80]}: it computed more than a {found.accelerator.name} can"
            rejected.append(RejectedRow(file=file.name, line=0, reason=reason))
            continue
        yield PublishedKernel(
            op=op,
            accelerator=found.accelerator.name,
            dtype=dtype,
            shape=shape,
            time_s=operator.time_per_call_s,
            origin=origin,
            kernel=operator.kernel_names[0][:200],
        )


def _step(
    found: TraceExplanation,
    job: Job,
    placement: Placement | None,
    file: Path,
    rejected: list[RejectedRow],
) -> PublishedStep | PublishedPlacement | None:
    times_s = [one.duration_s for one in found.steps.windows]
    reason = _no_step(found, placement)
    if reason or not times_s:
        rejected.append(RejectedRow(file=file.name, line=0, reason=f"its steps: {reason}"))
        return None
    assert found.accelerator is not None
    origin = Origin(source=_SOURCE, licence=_LICENCE, file=file.name)
    step_time_s = statistics.median(times_s)
    if placement is not None:
        return PublishedPlacement(
            job=job,
            job_type=job.label,
            batch_size=job.batch_size,
            placement=placement,
            step_time_s=step_time_s,
            origin=origin,
        )
    return PublishedStep(
        job=job,
        accelerator=found.accelerator.name,
        samples_per_second=job.batch_size * job.accumulation_steps / step_time_s,
        origin=origin,
        repeats=len(times_s),
        spread=(max(times_s) - min(times_s)) / step_time_s,
    )


def _no_step(found: TraceExplanation, placement: Placement | None) -> str:
    """Return why the steps of a trace are no record; empty where they are one."""
    if found.steps.found == "whole":
        return "the trace marks none, and none was found"
    if found.steps.found == "repetition" and _not_joined(found):
        return "kernels repeat, but so do layers, and no operators tell which it is"
    world = found.trace.world_size or 1
    if found.steps.step_time_s <= 0:
        return "their marks leave no time between them"
    if placement is None and world > 1:
        return f"it is one of {world} ranks; --on PLACEMENT says where they ran"
    if placement is not None and placement.accelerator_count < world:
        return f"it is one of {world} ranks, more than the placement has accelerators"
    return ""
