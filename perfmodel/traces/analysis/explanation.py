"""All that a trace says, put together: what the command prints and profilers keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.analysis.operator_work import PricedOperator, priced_operators, unpriced
from perfmodel.traces.analysis.operators import (
    TracedOperator,
    joined_share,
    most_answered,
    priced_calls,
    traced_operators,
)
from perfmodel.traces.analysis.steps import Steps, find_steps
from perfmodel.traces.analysis.timeline import DeviceTime, device_times, doubled_share
from perfmodel.traces.joining.phases import forward_calls
from perfmodel.traces.trace import PHASES, Kernels, Trace
from perfmodel.traces.traced_devices import TracedDevice

#: Share of the device time of a trace outside of its steps from which on it is said.
_MUCH_OUTSIDE = 0.01
#: Share of time beside others of one queue from which on it is said; launches that overlap on
#: purpose (programmatic dependent launch) stay below.
_DOUBLED = 0.25
#: Below it times of kernels are not told apart well enough from each other by whom they are.
_ENOUGH_JOINED = 0.95


@dataclass(frozen=True, kw_only=True)
class TraceExplanation:
    """What a trace says.

    Parameters
    ----------
    device : TracedDevice or None
        The one that ran most; None where the trace names none.
    accelerator : AcceleratorSpec or None
        What the catalogue knows of it.
    steps : Steps
        All that were found; ``step_count`` of them are explained, or summed up where there is none.
    times : tuple of DeviceTime
        Over the explained steps; empty without a timeline.
    operators : tuple of PricedOperator
        Over the explained steps, longest first.
    joined_share : float
        Of device time launched during the trace, in [0, 1].
    """

    trace: Trace
    device: TracedDevice | None
    accelerator: AcceleratorSpec | None
    steps: Steps
    step_count: int
    times: tuple[DeviceTime, ...]
    operators: tuple[PricedOperator, ...]
    joined_share: float
    notes: tuple[str, ...]

    @property
    def device_time_s(self) -> float:
        """Of all operators together."""
        return sum(one.operator.time_s for one in self.operators)

    @property
    def trace_device_time_s(self) -> float:
        """Of all that devices ran during the trace, inside of the explained steps or not."""
        return int(self.trace.kernels.duration_ns.sum()) / 1e9


def explain_trace(
    trace: Trace,
    *,
    accelerator: AcceleratorSpec | None = None,
    step: int | None = None,
    devices: Collection[int] | None = None,
) -> TraceExplanation:
    """Say what a trace says: steps, where time went, operators with their work.

    Parameters
    ----------
    accelerator : AcceleratorSpec or None
        What the user knows the device to be; None takes what the trace tells.
    step : int or None
        Position of the step to look at; None for all together.
    devices : collection of int or None
        Devices to look at, as the trace counts them; None for all together.

    Raises
    ------
    InvalidInputError
        There is no such step, or nothing ran on these devices.
    """
    steps = find_steps(trace)
    chosen = _chosen(steps, step)
    start_ns = steps.windows[chosen[0]].start_ns if chosen else 0
    end_ns = steps.windows[chosen[-1]].end_ns if chosen else 0
    kernels = trace.kernels
    rows = np.flatnonzero(np.isin(steps.of_kernel, chosen) if chosen else kernels.duration_ns >= 0)
    if devices is not None:
        rows = rows[np.isin(kernels.device[rows], list(devices))]
        _check_ran(trace, devices)
    device = main_device(trace, devices)
    spec = accelerator or _specification(device, Catalog.default())
    if len(kernels):
        found = traced_operators(trace, rows)
    else:
        found = host_operators(trace, start_ns, end_ns)
    notes = [*trace.notes, *_notes(trace, device, steps, accelerator)]
    if devices is None:
        notes += _several_kinds(trace)
    if step is None and chosen:
        notes += _outside(steps, kernels)
    try:
        priced = priced_operators(found, spec)
    except MissingExtraError as error:
        priced = tuple(unpriced(one, "torch is not installed") for one in found)
        notes.append(error.message)
    notes += _beyond_peak(priced, spec)
    share = joined_share(found)
    if share < _ENOUGH_JOINED:
        notes.append(_unjoined(trace, share))
    return TraceExplanation(
        trace=trace,
        device=device,
        accelerator=spec,
        steps=steps,
        step_count=len(chosen) or trace.summed_steps,
        times=tuple(
            one
            for one in (device_times(kernels, start_ns, end_ns) if chosen else ())
            if devices is None or one.device in devices
        ),
        operators=priced,
        joined_share=share,
        notes=tuple(notes),
    )


def devices_that_ran(
    trace: Trace, told: Mapping[int, AcceleratorSpec] = MappingProxyType({})
) -> dict[str, tuple[int, ...]]:
    """Return the accelerators that ran anything with the numbers of their devices, busiest first.

    Parameters
    ----------
    told : mapping of int to AcceleratorSpec
        What the user knows devices to be.

    Returns
    -------
    dict of str to tuple of int
        ``""`` has the devices of which nobody tells what they are.
    """
    kernels = trace.kernels
    numbers, position = np.unique(kernels.device, return_inverse=True)
    busy = np.bincount(position, weights=kernels.duration_ns, minlength=len(numbers))
    found: dict[str, tuple[int, ...]] = {}
    for number in numbers[np.argsort(-busy, kind="stable")].tolist():
        described = _described(trace, number)
        name = (described.accelerator if described is not None else None) or ""
        name = told[number].name if number in told else name
        found[name] = (*found.get(name, ()), number)
    return found


def _check_ran(trace: Trace, devices: Collection[int]) -> None:
    ran = np.unique(trace.kernels.device).tolist()
    if not set(devices) & set(ran):
        raise InvalidInputError(
            f"Nothing ran on device {', '.join(map(str, devices))}; what ran did so on "
            f"{', '.join(map(str, ran[:20])) or 'none'}."
        )


def main_device(trace: Trace, devices: Collection[int] | None = None) -> TracedDevice | None:
    """Return the device that ran most, of all or of some, as far as the trace describes it."""
    if not trace.devices:
        return None
    kernels = trace.kernels
    known = kernels.device >= 0
    if devices is not None:
        known &= np.isin(kernels.device, list(devices))
    if known.any():
        # Numbers of devices may be any; what a file says must not decide how much memory is taken.
        numbers, position = np.unique(kernels.device[known], return_inverse=True)
        busy = np.bincount(position, weights=kernels.duration_ns[known])
        return _described(trace, int(numbers[np.argmax(busy)]))
    return trace.devices[0]


def _described(trace: Trace, number: int) -> TracedDevice | None:
    """Return the device of a number.

    Kernels of AMD devices are counted from another origin than the list of devices: where all
    devices of a trace are alike, any of them describes the one that ran.
    """
    alike = len({replace(one, index=0) for one in trace.devices}) == 1
    return trace.device(number) or (trace.devices[0] if alike else None)


def _specification(device: TracedDevice | None, catalog: Catalog) -> AcceleratorSpec | None:
    if device is None or device.accelerator is None:
        return None
    return catalog.get(device.accelerator)


def _chosen(steps: Steps, step: int | None) -> list[int]:
    count = len(steps.windows)
    if step is None:
        return list(range(count))
    if not 0 <= step < count:
        raise InvalidInputError(
            f"There is no step {step}; the trace has {count} steps, counted from 0."
        )
    return [step]


def _notes(
    trace: Trace, device: TracedDevice | None, steps: Steps, given: AcceleratorSpec | None
) -> Sequence[str]:
    found = []
    if steps.found == "repetition":
        found.append(
            f"The trace marks no steps. Its {'kernels' if len(trace.kernels) else 'calls'} repeat "
            f"{len(steps.windows)} times, and each time is taken for a step; the layers of a model "
            "may repeat as well."
        )
    elif steps.found == "whole" and steps.windows:
        found.append(
            "The trace marks no steps, and no repetition was found in what ran; all of it "
            "is taken for one."
        )
    if device is not None and device.guessed and given is None:
        found.append(
            f"The driver calls the device {device.name!r}; that it is a {device.accelerator} is a "
            "guess from its cores, memory and architecture. --accelerator says it."
        )
    elif given is None and (device is None or device.accelerator is None):
        found.append(
            f"The trace {_unknown(device)}: no roofline and no predictions. --accelerator NAME "
            "says which it was."
        )
    doubled = doubled_share(trace.kernels)
    if doubled > _DOUBLED:
        found.append(
            f"During {100 * doubled:.0f} % of their time kernels ran beside others of their own "
            "queue, which runs one after the other: the file holds events twice or several "
            "processes, and sums over it are too large, or branches of a graph that it does not "
            "tell of."
        )
    if not len(trace.kernels) and len(trace.operators):
        found.append("Nothing ran on a device: times are those of calls on the host.")
    return found


def _several_kinds(trace: Trace) -> Sequence[str]:
    kinds = {name: numbers for name, numbers in devices_that_ran(trace).items() if name}
    if len(kinds) < 2:
        return ()
    return (
        f"Devices of several kinds ran ({listed_devices(kinds)}): rates and rooflines of operators "
        "are as if all had run on the first of them. --device NUMBER looks at one alone.",
    )


def listed_devices(kinds: Mapping[str, Sequence[int]]) -> str:
    """Return accelerators with the numbers of their devices, for messages."""
    return ", ".join(
        f"{name} as device {' and '.join(map(str, numbers[:8]))}" for name, numbers in kinds.items()
    )


def _unknown(device: TracedDevice | None) -> str:
    """Return how a trace names a device that the catalogue does not know."""
    if device is None or not device.name:
        return "names no device"
    if device.partial and device.memory_bytes:
        return (
            f"calls its device {device.name!r} and gives it {device.memory_bytes / 2**30:.1f} GiB, "
            "which that device does not have: a part of one (MIG, vGPU), or another"
        )
    return f"calls its device {device.name!r}, which is not in the catalogue"


def _outside(steps: Steps, kernels: Kernels) -> Sequence[str]:
    outside_ns = int(kernels.duration_ns[steps.of_kernel < 0].sum())
    share = outside_ns / max(int(kernels.duration_ns.sum()), 1)
    if share < _MUCH_OUTSIDE:
        return ()
    return (
        f"{100 * share:.1f} % of the device time of the trace lies outside of its steps and is not "
        "counted: launched before the trace began, or not between the marks of a step.",
    )


def _beyond_peak(
    operators: Sequence[PricedOperator], spec: AcceleratorSpec | None
) -> Sequence[str]:
    beyond = [one for one in operators if one.beyond_peak]
    if not beyond or spec is None:
        return ()
    worst = max(beyond, key=lambda one: one.peak_share or 0.0)
    return (
        f"{len(beyond)} operators computed more than the peak of a {spec.name}, "
        f"{worst.operator.name} {worst.peak_share:.3g} times as much: it was another device "
        "(--accelerator), a narrower type than that of the operands, or the times are too short. "
        "They are not imported.",
    )


def _unjoined(trace: Trace, share: float) -> str:
    why = (
        "the calls around them are not in the trace"
        if len(trace.operators)
        else "the trace holds no operators, only what the device did"
    )
    return f"Only {100 * share:.1f} % of device time could be joined to operators: {why}."


def host_operators(trace: Trace, start_ns: int, end_ns: int) -> tuple[TracedOperator, ...]:
    """Return the outermost priced calls in a window with the time they took, longest first.

    Calls around them hand work on, calls inside are their parts. Of a trace that tells no times at
    all, as execution traces do not, all calls are counted and take none.
    """
    operators = trace.operators
    told = (operators.start_ns >= start_ns) & (operators.start_ns < end_ns)
    told &= operators.duration_ns >= 0
    told |= bool((operators.start_ns < 0).all())
    rows = np.flatnonzero(told & _outermost(trace))
    keys = [column[rows] for column in (operators.name, operators.arguments, operators.phase)]
    order = np.lexsort(keys[::-1])
    edges = np.flatnonzero(np.any([np.diff(key[order]) != 0 for key in keys], axis=0)) + 1
    groups = np.split(rows[order], edges) if len(rows) else []
    forward = forward_calls(operators)
    found = [_operator(trace, calls, forward) for calls in groups]
    return tuple(sorted(found, key=lambda one: (-one.time_s, -one.calls)))


def _outermost(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which calls are priced and not inside of one that is."""
    operators = trace.operators
    own = priced_calls(trace)
    inside = np.zeros(len(operators), dtype=np.bool_)
    current = operators.parent.copy()
    waiting = np.flatnonzero(current >= 0)
    while len(waiting):
        inside[waiting] |= own[current[waiting]]
        current[waiting] = operators.parent[current[waiting]]
        waiting = waiting[current[waiting] >= 0]
    return np.asarray(own & ~inside)


def _operator(
    trace: Trace, calls: npt.NDArray[np.int64], forward: npt.NDArray[np.int32]
) -> TracedOperator:
    """Return calls that are alike as one operator."""
    operators, first = trace.operators, int(calls[0])
    time_s = int(np.maximum(operators.duration_ns[calls], 0).sum()) / 1e9
    name = trace.name_of(first)
    entry = REGISTER.get(canonical_op(name))
    return TracedOperator(
        name=name,
        op=canonical_op(name),
        op_class=(OpClass.OTHER if entry is None else entry.op_class).value,
        phase=PHASES[max(int(operators.phase[first]), 0)],
        arguments=trace.arguments_of(first),
        calls=len(calls),
        kernels=0,
        time_s=time_s,
        alone_s=time_s / len(calls),
        joined=True,
        kernel_names=(),
        forward=most_answered(trace, forward[calls]),
    )
