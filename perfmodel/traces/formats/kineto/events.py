"""Events of Kineto as rows: operators, kernels, and what launched them.

Read are complete events (``"ph": "X"``) of operators, annotations, calls of the runtime and work of
devices, under the category names of every version since PyTorch 1.8.1. Times are microseconds, with
three decimals in newer traces. Flows (``ac2g``, ``fwdbwd``), counters and Python frames are passed
over: correlation ids and sequence numbers say the same as the flows.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.kineto.arguments import kineto_arguments
from perfmodel.traces.joining.nesting import Launches
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS
from perfmodel.traces.trace import UNKNOWN, KernelKind, TracedStep

_OPERATOR, _CALL, _DEVICE = range(3)
_KINDS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("cpu_op", "Operator", "operator", "user_annotation"), _OPERATOR),
        **dict.fromkeys(("Runtime", "runtime", "hpu_op"), _CALL),
        **dict.fromkeys(
            ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"), _DEVICE),
    }
)  # fmt: skip
#: Ends of the categories of calls: ``cuda_runtime``, ``xpu_driver``, ``privateuse1_runtime`` ...
_CALLS = ("_runtime", "_driver")
_COPIES = frozenset({"gpu_memcpy", "Memcpy"})
_MEMSETS = frozenset({"gpu_memset", "Memset"})
_COUNTERS = "cuda_profiler_range"
#: Categories of events that tell nothing which others do not.
_PASSED_OVER = frozenset(
    {_COUNTERS, "Trace", "overhead", "python_function", "gpu_user_annotation", "cuda_sync",
     "cuda_event"}
)  # fmt: skip
#: What kernels of a collective, and those of a CUDA graph, tell beside their times.
_COLLECTIVE, _GRAPH = "Collective name", "graph id"
#: Calls of the runtime that put work on a device, by a part of their names.
_LAUNCHING = (
    "Launch", "Memcpy", "Memset", "memcpy", "memset", "MemPrefetch", "Enqueue", "MemoryCopy",
    "MemoryFill", "submit",
)  # fmt: skip
_STEP = "ProfilerStep#"
#: Events that last, whole and as a pair.
_LASTING = ("X", "B")
_DIGITS = 20
_CATEGORIES = 100
_NONE: Mapping[str, Any] = MappingProxyType({})


class KinetoRows:
    """Turns events into rows of a trace.

    Parameters
    ----------
    builder : TraceBuilder
        Takes operators, kernels and steps.
    file : str
        Named in messages.
    """

    def __init__(self, builder: TraceBuilder, file: str) -> None:
        self.builder = builder
        self.file = file
        self.seen = 0
        self._counted: Counter[str] = Counter()
        self._marks: dict[str, int] = {}
        self._threads: dict[tuple[Any, Any], int] = {}
        self._argument_bytes = 0
        self._arguments_left_out = 0
        self._of_several = 0
        self._untimed: Counter[int] = Counter()
        self._unread: Counter[str] = Counter()
        self._launches = {name: array(code) for name, code in Launches.CODES.items()}
        self._operator_external = array("q")
        self._kernel_external = array("q")
        self._kernel_correlation = array("q")

    def add(self, events: list[Any]) -> None:
        """Take in some events.

        Raises
        ------
        InvalidTraceError
            One that is no event, or whose times are none.
        """
        self.seen += len(events)
        if self.seen > self.builder.limits.events:
            raise InvalidTraceError(
                f"{self.file} has more than {self.builder.limits.events} events; trace fewer steps."
            )
        handlers = (self._operator, self._call, self._device)
        for event in events:
            if not isinstance(event, dict):
                raise InvalidTraceError(
                    f"{self.file} lists {str(event)[:60]!r} among its events, which is no object."
                )
            category, kind = event.get("cat"), None
            if isinstance(category, str):
                kind = _KINDS.get(category, _CALL if category.endswith(_CALLS) else None)
            if kind is None or event.get("ph") != "X":
                self._pass_over(event, category)
                continue
            args = event.get("args", _NONE)
            handlers[kind](event, args if isinstance(args, dict) else _NONE)

    def part_processes(self) -> None:
        """Forget ids that calls of several processes bear, as in traces that were merged."""
        processes: dict[Any, int] = {}
        process = np.array([processes.setdefault(pid, len(processes)) for pid, _ in self._threads])
        ids = np.frombuffer(self._launches["correlation"], dtype=np.int64)
        if len(processes) < 2 or not len(ids):
            return
        of_call = process[np.frombuffer(self._launches["thread"], dtype=np.int32)]
        pairs = np.unique(np.stack((ids, of_call)), axis=1)[0]
        shared = np.unique(pairs[1:][(pairs[1:] == pairs[:-1]) & (pairs[1:] >= 0)])
        for row in np.flatnonzero(np.isin(self._kernel_correlation, shared)).tolist():
            self._kernel_correlation[row] = self._kernel_external[row] = UNKNOWN
            self._of_several += 1

    def earliest_launch_ns(self) -> int:
        """Return when the first call was made that put work on a device."""
        return min(self._launches["start_ns"], default=LATEST_NS)

    def launches(self, origin_ns: int) -> Launches:
        """Return the calls of the runtime that put work on devices, counted from an origin."""
        return Launches.of(self._launches, self._kernel_correlation, origin_ns)

    def external(self) -> tuple[array[int], array[int]]:
        """Return the external ids of operators and of kernels, -1 where they have none."""
        return self._operator_external, self._kernel_external

    def categories(self) -> str:
        """Return what categories were passed over, most frequent first."""
        found = [f"{count} {name}" for name, count in self._counted.most_common(5)]
        if self._untimed:
            found.append(f"{self._untimed.total()} without a time")
        return ", ".join(found)

    @property
    def untimed_kernels(self) -> int:
        """Work of devices that was left out since no time is told of it."""
        return self._untimed[_DEVICE]

    def notes(self) -> list[str]:
        """Return what a reader must know."""
        found = []
        if self._counted[_COUNTERS]:
            found.append(
                f"{self._counted[_COUNTERS]} ranges of hardware counters were left out; while "
                "counters are read, kernels run one by one and are not traced."
            )
        if self._unread:
            unread = ", ".join(f"{count} {name}" for name, count in self._unread.most_common(5))
            found.append(
                f"Events of categories that are not known were left out: {unread}. If a device ran "
                "meanwhile, sums are too small."
            )
        if self._untimed:
            kernels = self.untimed_kernels
            found.append(
                f"{self._untimed.total() - kernels} calls and {kernels} kernels, copies or fills "
                "were left out: the profiler noted no end of them, or no time at all."
                + (" Sums are too small." if kernels else "")
            )
        if self._of_several:
            found.append(
                f"{self._of_several} kernels bear ids that calls of several processes bear: traces "
                "were merged, and what launched these is not told. Give the trace of each process."
            )
        if self._arguments_left_out:
            found.append(
                f"Arguments of {self._arguments_left_out} operator calls were left out: the trace "
                "has too many different ones."
            )
        return found

    def _pass_over(self, event: dict[str, Any], category: Any) -> None:
        """Count an event that is not read; of odd files not by every category."""
        name = str(category)[:40] if category is not None else "without a category"
        known = name in self._counted or len(self._counted) < _CATEGORIES
        name = name if known else "others"
        self._counted[name] += 1
        if event.get("ph") in _LASTING and name not in _PASSED_OVER:
            self._unread[name] += 1

    def _operator(self, event: dict[str, Any], args: Mapping[str, Any]) -> None:
        name = self._name(event)
        times = self._times(event, _OPERATOR)
        if times is None:
            return
        start_ns, duration_ns = times
        # Before PyTorch 1.10 marks of steps were operators like all others.
        if name.startswith(_STEP) and len(self.builder.steps) < self.builder.limits.steps:
            self._step(name, start_ns, duration_ns)
            return
        self.builder.add_operator(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns,
            thread=self._thread(event),
            arguments=self._arguments(args),
            sequence=_number(args.get("Sequence number")),
        )
        self._operator_external.append(_number(args.get("External id")))

    def _step(self, name: str, start_ns: int, duration_ns: int) -> None:
        """Add a step; what several processes mark by one name is one step of all of them."""
        steps = self.builder.steps
        place = self._marks.setdefault(name, len(steps))
        if place < len(steps):
            first, end_ns = steps[place], start_ns + duration_ns
            start_ns = min(first.start_ns, start_ns)
            duration_ns = max(first.start_ns + first.duration_ns, end_ns) - start_ns
        steps[place : place + 1] = [
            TracedStep(name=name, start_ns=start_ns, duration_ns=duration_ns)
        ]

    def _call(self, event: dict[str, Any], args: Mapping[str, Any]) -> None:
        name = self._name(event)
        if not _launches(name):
            return
        times = self._times(event, _CALL)
        if times is None:
            return
        start_ns, duration_ns = times
        rows = self._launches
        rows["correlation"].append(_number(args.get("correlation")))
        rows["start_ns"].append(start_ns)
        rows["duration_ns"].append(duration_ns)
        rows["thread"].append(self._thread(event))
        rows["graph"].append("GraphLaunch" in name)

    def _device(self, event: dict[str, Any], args: Mapping[str, Any]) -> None:
        category, name = event["cat"], self._name(event)
        times = self._times(event, _DEVICE)
        if times is None:
            return
        start_ns, duration_ns = times
        if category in _COPIES:
            kind = KernelKind.COPY
        elif category in _MEMSETS:
            kind = KernelKind.MEMSET
        elif _COLLECTIVE in args:
            kind = KernelKind.COLLECTIVE
        else:
            kind = kernel_kind(name)
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns,
            # Old traces of AMD GPUs tell both as the lane alone that the event is drawn in.
            device=_number(args.get("device", event.get("pid")), 2**31),
            stream=_number(args.get("stream", event.get("tid")), 2**31),
            kind=kind,
            size_bytes=_number(args.get("bytes")),
            graph=_number(args.get(_GRAPH)) > 0,
        )
        self._kernel_correlation.append(_number(args.get("correlation")))
        self._kernel_external.append(_number(args.get("External id", args.get("external id"))))

    def _name(self, event: dict[str, Any]) -> str:
        name = event.get("name")
        if not isinstance(name, str):
            raise InvalidTraceError(f"{self.file} has an event without a name: {str(event)[:120]}.")
        return name

    def _times(self, event: dict[str, Any], kind: int) -> tuple[int, int] | None:
        """Return start and duration in nanoseconds; None where the profiler noted none.

        Before PyTorch 1.13 a call that had not ended has the end 0, so that its duration is
        negative (pytorch/kineto#646), as work of which CUPTI lost the end has. PyTorch 2.12 wrote
        events of neither start nor duration (pytorch/pytorch#188481).
        """
        start: Any = event.get("ts")
        # One that lasts and does not say how long has no end either.
        duration: Any = event.get("dur", -1 if event.get("ph") in _LASTING else 0)
        try:
            start_ns, duration_ns = _nanoseconds(start), _nanoseconds(duration)
        except (TypeError, ValueError, OverflowError):
            start_ns = duration_ns = LATEST_NS
        if start_ns >= 0 > duration_ns > -LATEST_NS or start_ns == duration_ns == 0:
            self._untimed[kind] += 1
            return None
        if not (0 <= start_ns < LATEST_NS and 0 <= duration_ns < LATEST_NS):
            raise InvalidTraceError(
                f"{self.file}: {str(event.get('name'))[:120]!r} has the start {str(start)[:40]} "
                f"and the duration {str(duration)[:40]}; expected microseconds from 0 on. The "
                "clock jumped while the trace was taken, or the file is damaged: take it again."
            )
        return start_ns, duration_ns

    def _thread(self, event: dict[str, Any]) -> int:
        key = (str(event.get("pid")), str(event.get("tid")))
        found = self._threads.get(key)
        if found is None:
            found = self._threads[key] = len(self._threads)
            if found >= self.builder.limits.threads:
                raise InvalidTraceError(
                    f"{self.file} has more than {self.builder.limits.threads} threads, which no "
                    "process has."
                )
        return found

    def _arguments(self, args: Mapping[str, Any]) -> int:
        dims = args.get("Input Dims", args.get("Input dims"))
        if not dims:
            return UNKNOWN
        fields = (
            dims, args.get("Input type"), args.get("Concrete Inputs"), args.get("Input Strides")
        )  # fmt: skip
        try:
            key = orjson.dumps(fields)
        except orjson.JSONEncodeError:
            return UNKNOWN  # numbers of more than 64 bits: no shapes
        known = self.builder.known_arguments(key)
        if known is not None:
            return known
        if self._argument_bytes + len(key) > self.builder.limits.arguments_bytes:
            self._arguments_left_out += 1
            return UNKNOWN
        self._argument_bytes += len(key)
        return self.builder.arguments(key, lambda: kineto_arguments(fields))


@lru_cache(maxsize=4096)
def _launches(name: str) -> bool:
    """Tell whether a call of the runtime puts work on a device."""
    return any(part in name for part in _LAUNCHING)


def _nanoseconds(microseconds: Any) -> int:
    """Return a time, also one in quotes."""
    number = float(microseconds) if type(microseconds) is str else microseconds
    return round(number * 1000)


def _number(value: Any, bound: int = LATEST_NS) -> int:
    """Return a whole number within bounds, also one in quotes, or -1."""
    if type(value) is str and value.isdecimal() and len(value) < _DIGITS:
        value = int(value)
    if type(value) is int and 0 <= value < bound:
        return value
    if type(value) is float and math.isfinite(value) and 0 <= value < bound:
        return int(value)
    return UNKNOWN
