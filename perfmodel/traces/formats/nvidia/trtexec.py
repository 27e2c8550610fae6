"""Files of TensorRT's ``trtexec``: times of layers, times of iterations, and what lies beside them.

``--exportProfile`` writes the time of each layer over all iterations, ``--exportTimes`` when each
iteration was enqueued, computed and copied, ``--exportLayerInfo`` the layers of the engine. The
engine explorer of TensorRT (trt-engine-explorer) puts them beside each other, with metadata, under
names that differ in their ends. Times are milliseconds.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.json_sections import json_sections
from perfmodel.traces.formats.nvidia.trtexec_layers import add_layers
from perfmodel.traces.formats.nvidia.trtexec_machine import describe
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace, TracedStep

NAME = "trtexec"
_PROFILE = re.compile(rb'\s*\[\s*\{\s*"count"\s*:')
_TIMES = re.compile(rb'\s*\[\s*\{[^{}\[\]]{0,2000}"(?:startEnqMs|startInMs)"\s*:')
#: Names of bindings may stand before the layers.
_LAYERS = re.compile(rb'\s*\{\s*(?:"Bindings"\s*:\s*\[[^\[\]{}]*+\]\s*,\s*)?"Layers"\s*:\s*\[')
_METADATA = re.compile(
    rb'\s*(?:\{\s*"(?:performance_summary|model_options)"|\[\s*\{\s*"Name".{1,200}"ComputeCapability")',
    re.DOTALL,
)
#: Ends of names of files that belong together; each also with ``.gz``.
PROFILE, TIMES, LAYERS = ".profile.json", ".timing.json", ".graph.json"
_ENDS = (PROFILE, TIMES, LAYERS, ".profile.metadata.json", ".build.metadata.json",
         ".metadata.json")  # fmt: skip
#: Start and end of an iteration's work by what it does, in newer and older versions.
_SPANS = (
    (("startComputeMs", "endComputeMs"), "computeMs", "TensorRT engine", KernelKind.COMPUTE),
    (("startH2dMs", "endH2dMs"), "h2dMs", "Memcpy HtoD", KernelKind.COPY),
    (("startD2hMs", "endD2hMs"), "d2hMs", "Memcpy DtoH", KernelKind.COPY),
    (("startOutMs", "endOutMs"), "outMs", "Memcpy DtoH", KernelKind.COPY),
    (("startInMs", "endInMs"), "inMs", "Memcpy HtoD", KernelKind.COPY),
)


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is of trtexec."""
    return any(pattern.match(head) for pattern in (_PROFILE, _TIMES, _LAYERS, _METADATA))


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read a file of trtexec with those that belong to it.

    Raises
    ------
    InvalidTraceError
        It describes a build or a machine, and no engine; or a value is none.
    """
    from perfmodel.traces.formats.unpacking import read_head

    head = read_head(path, limits)
    if _METADATA.match(head):
        raise InvalidTraceError(
            f"{path.name} describes a machine or a build; give the *{PROFILE} or *{TIMES} that "
            "lies beside it."
        )
    builder = TraceBuilder(NAME, limits)
    beside = _beside(path)
    layers = path if _LAYERS.match(head) else beside.get(LAYERS)
    rows = add_layers(builder, layers, limits) if layers else {}
    if _PROFILE.match(head):
        _add_profile(builder, path, limits, rows)
        if TIMES in beside:
            _note_times(builder, beside[TIMES], limits)
    elif _TIMES.match(head):
        _add_times(builder, path, limits)
    else:
        builder.notes.append("Layers of an engine without times; give the profile for those.")
    describe(builder, beside, limits)
    return builder.build()


def _beside(path: Path) -> Mapping[str, Path]:
    """Return the files that belong to one, by the ends of their names."""
    plain = path.name.removesuffix(".gz")
    end = next((end for end in _ENDS if plain.endswith(end)), None)
    if end is None:
        return {}
    stem = plain.removesuffix(end)
    places = {end: [path.with_name(stem + end + packed) for packed in ("", ".gz")] for end in _ENDS}
    return {end: next(p for p in two if p.is_file()) for end, two in places.items()
            if any(p.is_file() for p in two)}  # fmt: skip


def _add_profile(
    builder: TraceBuilder, path: Path, limits: TraceLimits, rows: Mapping[str, int]
) -> None:
    """Add the time of each layer over all iterations."""
    for entry in _entries(path, limits):
        if "name" not in entry and "count" in entry:
            builder.summed_steps = _count(path.name, entry["count"])
            continue
        name = str(entry.get("name", ""))
        builder.add_kernel(
            name,
            duration_ns=_ns(path.name, name, entry.get("timeMs")),
            calls=builder.summed_steps,
            device=0,
            operator=rows.get(name, UNKNOWN),
        )
    builder.notes.append(
        f"Times of layers, each over {builder.summed_steps} iterations, without a timeline. Layers "
        "are timed one after the other: their sum is more than an undisturbed iteration."
    )


def _add_times(builder: TraceBuilder, path: Path, limits: TraceLimits) -> None:
    """Add iterations: a step from when each was enqueued, and what the device did for it."""
    for number, entry in enumerate(_entries(path, limits)):
        enqueued = ("startEnqMs", "endEnqMs") if "startEnqMs" in entry else _SPANS[-1][0]
        launch_start_ns, launch_duration_ns = _span(path.name, number, entry, enqueued)
        builder.steps.append(
            TracedStep(
                name=f"iteration {number}",
                start_ns=launch_start_ns,
                duration_ns=launch_duration_ns,
            )
        )
        for span, took, name, kind in _SPANS:
            if span[0] not in entry:
                continue
            start_ns, _ = _span(path.name, number, entry, span)
            duration_ns = _ns(path.name, took, entry.get(took))
            if duration_ns or kind is KernelKind.COMPUTE:
                builder.add_kernel(
                    name,
                    start_ns=start_ns,
                    duration_ns=duration_ns,
                    device=0,
                    kind=kind,
                    launch_start_ns=launch_start_ns,
                    launch_duration_ns=launch_duration_ns,
                )
    builder.notes.append(
        "Iterations as wholes: the time of an engine, not of its kernels. Starts are rounded to "
        "six digits, durations are not."
    )


def _note_times(builder: TraceBuilder, path: Path, limits: TraceLimits) -> None:
    """Note how long an iteration takes that nothing disturbs."""
    computed = [_ns(path.name, "computeMs", one.get("computeMs")) for one in _entries(path, limits)]
    if computed:
        builder.notes.append(
            f"By {path.name} an iteration takes {statistics.median(computed) / 1e6:.6g} ms "
            f"undisturbed (median of {len(computed)})."
        )


def _span(
    file: str, number: int, entry: Mapping[str, Any], keys: tuple[str, str]
) -> tuple[int, int]:
    """Return start and duration of a part of an iteration."""
    start_ns, end_ns = (_ns(file, key, entry.get(key)) for key in keys)
    if end_ns < start_ns:
        raise InvalidTraceError(
            f"{file}: iteration {number} has its {keys[1]} before its {keys[0]}; the clock jumped "
            "while it was taken, or the file is damaged: take it again."
        )
    return start_ns, end_ns - start_ns


def _entries(path: Path, limits: TraceLimits) -> Iterator[Mapping[str, Any]]:
    """Yield the elements of an array."""
    for _, _, entries in json_sections(unpacked(path, limits), [()], name=path.name, limits=limits):
        for entry in entries:
            if not isinstance(entry, dict):
                raise InvalidTraceError(
                    f"{path.name} lists {str(entry)[:60]!r} where trtexec writes an object."
                )
            yield entry


def _count(file: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value < 2**31:
        raise InvalidTraceError(f"{file} has {value!r} iterations; expected one or more.")
    return value


def _ns(file: str, what: str, value: Any) -> int:
    """Return milliseconds as whole nanoseconds."""
    if isinstance(value, int | float) and 0 <= value * 1e6 < LATEST_NS:
        return round(value * 1e6)
    raise InvalidTraceError(
        f"{file}: {what[:200]!r} has a time of {str(value)[:60]!r} ms; expected one >= 0."
    )
