"""Recorded facts and times in the place of a device, and what records them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar, final

import orjson

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.errors import InvalidInputError, MeasurementError
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime, Event, MemoryPeak, StepTime
from perfmodel.profilers.runtime.telemetry import Telemetry, TelemetryReading

_FORM = "perfmodel-device-recording/1"
_Answer = TypeVar("_Answer")


@dataclass(kw_only=True)
class Recording:
    """What a device answered, each kind of answer in the order of the questions.

    Parameters
    ----------
    steps : list of StepTime
        Answers of :meth:`DeviceRuntime.time`.
    elapsed_s : list of float
        Answers of :meth:`DeviceRuntime.elapsed_s` that were asked for from outside.
    """

    facts: DeviceFacts
    steps: list[StepTime] = field(default_factory=list)
    elapsed_s: list[float] = field(default_factory=list)
    memory: list[MemoryPeak] = field(default_factory=list)
    telemetry: list[TelemetryReading] = field(default_factory=list)

    def to_json(self) -> bytes:
        """Return the recording as JSON."""
        document = {
            "form": _FORM,
            "facts": self.facts.to_dict(),
            "steps": [asdict(one) for one in self.steps],
            "elapsed_s": self.elapsed_s,
            "memory": [asdict(one) for one in self.memory],
            "telemetry": [one.to_dict() for one in self.telemetry],
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_recording(source: Path | bytes) -> Recording:
    """Read what :meth:`Recording.to_json` wrote.

    Raises
    ------
    InvalidInputError
        A file that cannot be read, or JSON of another form.
    """
    try:
        text = source if isinstance(source, bytes) else source.read_bytes()
        document: Mapping[str, Any] = orjson.loads(text)
        if document["form"] != _FORM:
            raise ValueError(f"its form is {document['form']!r}")
        return Recording(
            facts=DeviceFacts(**_with_tuple(document["facts"], "found_by")),
            steps=[StepTime(**one) for one in document["steps"]],
            elapsed_s=[float(one) for one in document["elapsed_s"]],
            memory=[MemoryPeak(**one) for one in document["memory"]],
            telemetry=[
                TelemetryReading(**_with_tuple(one, "throttle_reasons"))
                for one in document["telemetry"]
            ],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        where = "these bytes" if isinstance(source, bytes) else str(source)
        raise InvalidInputError(
            f"No recording of a device ({_FORM}) in {where}: {error}."
        ) from error


def _with_tuple(plain: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**plain, name: tuple(plain.get(name, ()))}


@final
class ReplayRuntime(DeviceRuntime):
    """A device that answers as another one did when it was recorded.

    Steps are run, on the CPU, so that what they return is real; their times are the recorded
    ones. A recording that is shorter than what is asked begins again.

    Raises
    ------
    MeasurementError
        When asked for what the recording does not hold.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = _answers("step times", recording.steps)
        self._elapsed_s = _answers("elapsed times", recording.elapsed_s)
        self._memory = _answers("memory peaks", recording.memory)
        self._telemetry = _ReplayedTelemetry(recording.telemetry)

    @property
    def torch_device(self) -> str:
        """``"cpu"``: the recorded device is not here."""
        return "cpu"

    @property
    def facts(self) -> DeviceFacts:
        """Of the recorded device."""
        return self._recording.facts

    def synchronise(self) -> None:
        """Wait for nothing."""

    def record(self) -> Event:
        """Record nothing; times come from the recording."""
        return object()

    def elapsed_s(self, begin: Event, end: Event) -> float:
        """Return the next recorded time."""
        return next(self._elapsed_s)

    def reset_peak_memory(self) -> None:
        """Forget nothing; marks come from the recording."""

    def peak_memory(self) -> MemoryPeak:
        """Return the next recorded marks."""
        return next(self._memory)

    def release_memory(self) -> None:
        """Release nothing."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Tell whether an error says so in words."""
        return isinstance(error, MemoryError) or "out of memory" in str(error).lower()

    @property
    def telemetry(self) -> Telemetry:
        """The recorded readings, one an interval."""
        return self._telemetry

    def time(self, step: Callable[[], object]) -> StepTime:
        """Run a step and return the next recorded times."""
        step()
        return next(self._steps)


@final
class RecordingRuntime(DeviceRuntime):
    """A device that is asked, and what it answered written down.

    Attributes
    ----------
    recording : Recording
        Grows with each answer.
    """

    def __init__(self, device: DeviceRuntime) -> None:
        self._device = device
        self.recording = Recording(facts=device.facts)
        self._telemetry = _RecordedTelemetry(device.telemetry, self.recording.telemetry)

    @property
    def torch_device(self) -> str:
        """That of the device."""
        return self._device.torch_device

    @property
    def facts(self) -> DeviceFacts:
        """Those of the device."""
        return self._device.facts

    def synchronise(self) -> None:
        """Wait for the device."""
        self._device.synchronise()

    def record(self) -> Event:
        """Record an event of the device."""
        return self._device.record()

    def elapsed_s(self, begin: Event, end: Event) -> float:
        """Return and write down the seconds between two events."""
        self.recording.elapsed_s.append(self._device.elapsed_s(begin, end))
        return self.recording.elapsed_s[-1]

    def reset_peak_memory(self) -> None:
        """Forget the highest marks of the device."""
        self._device.reset_peak_memory()

    def peak_memory(self) -> MemoryPeak:
        """Return and write down the highest marks."""
        self.recording.memory.append(self._device.peak_memory())
        return self.recording.memory[-1]

    def release_memory(self) -> None:
        """Release the device's memory."""
        self._device.release_memory()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Ask the device."""
        return self._device.is_out_of_memory(error)

    @property
    def asynchronous(self) -> bool:
        """As the device."""
        return self._device.asynchronous

    def graph_of(self, step: Callable[[], object]) -> Callable[[], object]:
        """Record a graph of the device; its launches are written down as steps."""
        return self._device.graph_of(step)

    @property
    def telemetry(self) -> Telemetry:
        """That of the device, its readings written down."""
        return self._telemetry

    def time(self, step: Callable[[], object]) -> StepTime:
        """Run a step on the device and write down what it took."""
        self.recording.steps.append(self._device.time(step))
        return self.recording.steps[-1]


@final
class _ReplayedTelemetry(Telemetry):
    def __init__(self, readings: Sequence[TelemetryReading]) -> None:
        self._readings = cycle(readings or (TelemetryReading(),))

    def start(self) -> None:
        pass

    def sample(self) -> None:
        pass

    def stop(self) -> TelemetryReading:
        return next(self._readings)


@final
class _RecordedTelemetry(Telemetry):
    def __init__(self, device: Telemetry, readings: list[TelemetryReading]) -> None:
        self._device = device
        self._readings = readings

    def start(self) -> None:
        self._device.start()

    def sample(self) -> None:
        self._device.sample()

    def stop(self) -> TelemetryReading:
        self._readings.append(self._device.stop())
        return self._readings[-1]


def _answers(what: str, recorded: Sequence[_Answer]) -> Iterator[_Answer]:
    while recorded:
        yield from recorded
    raise MeasurementError(
        f"The recording of this device holds no {what}, which this measurement needs; record it "
        "again with RecordingRuntime around the same measurement."
    )
