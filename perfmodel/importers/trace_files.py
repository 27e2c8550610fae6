"""Import traces: operators with their shapes, and whole steps where the job is named.

A trace says what ran and not of which model: a step becomes a record only with its job, which
whoever imports it must tell. Traces that end too early are refused.
"""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidTraceError, StoreError
from perfmodel.graph.cost.base import PRODUCTS
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
from perfmodel.importers.traced_runs import (
    RankStep,
    rank_step,
    record_of,
    runs_of,
    told_of_runs,
)
from perfmodel.placement.topology.topology import Placement
from perfmodel.traces.analysis.explanation import (
    TraceExplanation,
    devices_that_ran,
    explain_trace,
    listed_devices,
    main_device,
)
from perfmodel.traces.formats.registry import read_traces
from perfmodel.traces.trace import Trace
from perfmodel.types import Mode, Phase, Precision

_SOURCE = "traces"
_LICENCE = "not stated"
#: Of the device time of a trace, below which what is not joined may be part of any operator.
_LEAST_JOINED = 0.95
#: In which types products of a precision are, as a trace tells them.
_COMPUTED: Mapping[Precision, Precision] = MappingProxyType(
    {
        Precision.TF32: Precision.FP32,
        Precision.AMP_FP16: Precision.FP16,
        Precision.AMP_BF16: Precision.BF16,
    }
)


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
    accelerators : mapping of int to AcceleratorSpec
        The same by the number that the trace gives the device, where several ran.
    """

    job: Job | None = None
    placement: Placement | None = None
    accelerator: AcceleratorSpec | None = None
    accelerators: Mapping[int, AcceleratorSpec] = field(
        default_factory=lambda: MappingProxyType({})
    )


def read_trace_files(path: Path) -> Imported:
    """Read a trace, or all traces below a folder; operators alone, since no job is named.

    Raises
    ------
    StoreError
        There is no file.
    """
    return import_traces(files_in([path]), TracedJob())


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return files as they are named, and all files below the folders among them.

    Raises
    ------
    StoreError
        One that does not exist, or a folder without a file.
    """
    found = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        if not files or not path.exists():
            raise StoreError(f"No trace lies in {path}; name a trace or a folder of them.")
        found += files
    return found


def import_traces(files: Sequence[Path], told: TracedJob) -> Imported:
    """Return the records of some traces of one job; a file that is refused is a rejected row.

    Each member of an archive is a file.
    """
    taken = _Taken(told)
    for file in files:
        for name, trace in read_traces(file):
            try:
                taken.take(name, trace)
            except InvalidTraceError as error:
                taken.reject(name, error.message)
    return taken.imported()


class _Taken:
    """Records of the traces so far."""

    def __init__(self, told: TracedJob) -> None:
        self.told = told
        self.kernels: list[PublishedKernel] = []
        self.steps: list[PublishedStep] = []
        self.ranks: list[RankStep] = []
        self.rejected: list[RejectedRow] = []
        self._first: dict[bytes, str] = {}
        self._devices: set[int] = set()

    def reject(self, file: str, reason: str) -> None:
        self.rejected.append(RejectedRow(file=file, line=0, reason=reason))

    def take(self, file: str, trace: Trace | InvalidTraceError) -> None:
        """Take in the operators of a trace, by kind of device, and its step.

        Raises
        ------
        InvalidTraceError
            Nothing can be learned from it.
        """
        if isinstance(trace, InvalidTraceError):
            raise trace
        self._check(file, trace)
        self._devices.update(*devices_that_ran(trace).values())
        found = [
            explain_trace(trace, accelerator=Catalog.default().get(name), devices=devices)
            for name, devices in _kinds(file, trace, self.told).items()
        ]
        for one in found:
            if reason := _not_joined(one):
                self.reject(file, reason)
            else:
                self.kernels += _kernels(one, file, self.rejected)
        self._take_step(file, found)

    def imported(self) -> Imported:
        runs = runs_of(self.ranks)
        return Imported(
            kernels=tuple(self.kernels),
            steps=tuple(self.steps),
            placements=tuple(map(record_of, runs)),
            rejected=tuple(self.rejected),
            notes=(*told_of_runs(runs), *self._absent()),
        )

    def _absent(self) -> Iterator[str]:
        for number in sorted(set(self.told.accelerators) - self._devices):
            yield f"No device {number} ran in these traces: what is said of it stands for nothing."

    def _check(self, file: str, trace: Trace) -> None:
        if not trace.complete:
            raise InvalidTraceError(
                f"{file} ends too early, or lacks times of kernels: its sums are too small to be "
                "learned from. `perfmodel trace` says which."
            )
        if not len(trace.kernels):
            raise InvalidTraceError(f"Nothing ran on a device in {file}.")
        fingerprint = _fingerprint(trace)
        if first := self._first.get(fingerprint):
            raise InvalidTraceError(f"it holds the same kernels at the same times as {first}")
        self._first[fingerprint] = file

    def _take_step(self, file: str, found: Sequence[TraceExplanation]) -> None:
        job, placement = self.told.job, self.told.placement
        if job is None:
            return
        names = [one.accelerator.name for one in found if one.accelerator is not None]
        if reason := _no_step(found[0], placement, names) or _another_job(found[0], job):
            self.reject(file, f"its steps: {reason}")
            return
        step = _step(found[0], job, names[0], file)
        if placement is None:
            self.steps.append(step)
        else:
            self.ranks.append(rank_step(_on(placement, step), found[0].trace))


def _kinds(file: str, trace: Trace, told: TracedJob) -> dict[str, tuple[int, ...] | None]:
    """Return the accelerators that ran, with their devices; None stands for all.

    Raises
    ------
    InvalidTraceError
        Nothing tells what a device was, or what is told is of one kind and several ran.
    """
    ran = devices_that_ran(trace, told.accelerators)
    untold = ran.pop("", ())
    if told.accelerator is not None and len(ran) < 2:
        return {told.accelerator.name: None}
    if told.accelerator is not None:
        raise InvalidTraceError(
            f"Devices of several kinds ran in {file}: {listed_devices(ran)}. --accelerator "
            "NUMBER=NAME, once a device, says which is which; without it their names count."
        )
    if not ran and (main := main_device(trace)) is not None and main.accelerator:
        return {main.accelerator: None}
    if not ran or (told_apart := [one for one in untold if one >= 0 or len(ran) > 1]):
        which = f"device {told_apart[0]}" if ran else "it"
        raise InvalidTraceError(
            f"{file} does not say which accelerator of the catalogue {which} ran on; "
            "--accelerator NAME does."
        )
    return dict(ran) if len(ran) > 1 else dict.fromkeys(ran)


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
    found: TraceExplanation, file: str, rejected: list[RejectedRow]
) -> Iterator[PublishedKernel]:
    assert found.accelerator is not None
    origin = Origin(source=_SOURCE, licence=_LICENCE, file=file)
    for one in found.operators:
        operator = one.operator
        try:
            op, dtype, shape = traced_call(one)
        except UnnamedCallError as error:
            rejected.append(RejectedRow(file=file, line=0, reason=f"{operator.name[:80]}: {error}"))
            continue
        if operator.time_s <= 0:
            continue
        if one.beyond_peak:
            reason = f"{operator.name[:80]}: it computed more than a {found.accelerator.name} can"
            rejected.append(RejectedRow(file=file, line=0, reason=reason))
            continue
        yield PublishedKernel(
            op=op,
            accelerator=found.accelerator.name,
            dtype=dtype,
            shape=shape,
            time_s=operator.alone_s or operator.time_per_call_s,
            origin=origin,
            kernel=operator.kernel_names[0][:200],
        )


def _step(found: TraceExplanation, job: Job, accelerator: str, file: str) -> PublishedStep:
    times_s = [one.duration_s for one in found.steps.windows]
    step_time_s = statistics.median(times_s)
    return PublishedStep(
        job=job,
        accelerator=accelerator,
        samples_per_second=job.batch_size * job.accumulation_steps / step_time_s,
        origin=Origin(source=_SOURCE, licence=_LICENCE, file=file),
        repeats=len(times_s),
        spread=(max(times_s) - min(times_s)) / step_time_s,
    )


def _on(placement: Placement, step: PublishedStep) -> PublishedPlacement:
    """Return the step of one rank as that of the placement on which it ran."""
    return PublishedPlacement(
        job=step.job,
        job_type=step.job.label,
        batch_size=step.job.batch_size,
        placement=placement,
        step_time_s=step.step_time_s,
        origin=step.origin,
    )


def _no_step(found: TraceExplanation, placement: Placement | None, ran: Sequence[str]) -> str:
    """Return why the steps of a trace are no record; empty where they are one."""
    if found.steps.found == "whole":
        return "the trace marks none, and none was found"
    if found.steps.found == "repetition" and _not_joined(found):
        return "kernels repeat, but so do layers, and no operators tell which it is"
    if found.steps.step_time_s <= 0:
        return "their marks leave no time between them"
    return _elsewhere(found.trace.world_size or 1, placement, ran)


def _another_job(found: TraceExplanation, job: Job) -> str:
    """Return what in a trace contradicts the job that is said to have run; empty where nothing."""
    if _not_joined(found) or not found.operators:
        return ""
    trains = any(one.operator.phase is not Phase.FORWARD for one in found.operators)
    if trains and job.mode is Mode.INFERENCE:
        return "operators of a backward pass ran, and the job is said to be inference"
    if job.mode is Mode.TRAINING and not trains:
        return "operators of a forward pass alone ran, and the job is said to train"
    computed: defaultdict[Precision, float] = defaultdict(float)
    for one in found.operators:
        if one.operator.op_class in PRODUCTS and one.flops:  # none without shapes and types
            computed[one.precision] += one.flops * one.operator.calls
    most = max(computed, key=lambda one: computed[one], default=job.arithmetic)
    if _COMPUTED.get(most, most) is _COMPUTED.get(job.arithmetic, job.arithmetic):
        return ""
    return f"most of its products are {most.value}, and the job is said to be {job.precision.value}"


def _elsewhere(world: int, placement: Placement | None, ran: Sequence[str]) -> str:
    """Return why a step did not run where it is said to; empty where it may have."""
    if placement is None and world > 1:
        return f"it is one of {world} ranks; --on PLACEMENT says where they ran"
    if placement is None and len(ran) > 1:
        return f"{' and '.join(ran)} ran in it; --on PLACEMENT says where"
    if placement is None:
        return ""
    if placement.accelerator_count < world:
        return f"it is one of {world} ranks, more than the placement has accelerators"
    catalog = Catalog.default()
    named = {catalog.canonical_name(node.accelerator) for node in placement.nodes}
    if others := sorted(set(ran) - named):
        return (
            f"it ran on {', '.join(others)}, and the placement has {', '.join(sorted(named))}; "
            "--accelerator NAME says what it was"
        )
    return ""
