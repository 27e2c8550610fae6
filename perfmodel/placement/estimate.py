"""The Estimate: an answer that explains itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.types import Basis


class StepNumbers(NamedTuple):
    """Parts of one step in seconds, as :class:`StepParts` has them in columns."""

    compute_s: float
    exposed_communication_s: float = 0.0
    input_stall_s: float = 0.0
    overhead_s: float = 0.0
    communication_s: float = 0.0

    @property
    def step_time_s(self) -> float:
        """Time of the whole step: the parts that do not overlap."""
        exposed = self.compute_s + self.exposed_communication_s
        return exposed + self.input_stall_s + self.overhead_s


@dataclass(frozen=True, kw_only=True, slots=True)
class StepParts(Columns):
    """Parts of steps, seconds; arrays of one shape, or that broadcast to one.

    Parameters
    ----------
    compute_s : ndarray
        The slowest accelerator computes, bubbles of a pipeline included.
    exposed_communication_s : ndarray
        Communication that no computation hides.
    input_stall_s, overhead_s : ndarray
        Waiting for data; everything else (host, stragglers).
    communication_s : ndarray
        All communication, hidden or not.
    """

    compute_s: FloatArray
    exposed_communication_s: FloatArray
    input_stall_s: FloatArray
    overhead_s: FloatArray
    communication_s: FloatArray

    @classmethod
    def of(cls, compute_s: FloatArray, **others: FloatArray) -> Self:
        """Return the parts of steps; those that are not named take no time.

        Examples
        --------
        >>> parts = StepParts.of(np.array([0.2]), overhead_s=np.array([0.1]))
        >>> parts.step_time_s.round(3).tolist(), parts.communication_s.tolist()
        ([0.3], [0.0])
        """
        nothing = np.zeros(np.shape(compute_s))
        stated = {"compute_s": compute_s, **others}
        return cls(**{one.name: stated.get(one.name, nothing) for one in fields(cls)})

    @property
    def step_time_s(self) -> FloatArray:
        """Time of the whole step: the parts that do not overlap."""
        exposed = self.compute_s + self.exposed_communication_s
        return exposed + self.input_stall_s + self.overhead_s

    def each(self, change: Callable[[FloatArray], Any]) -> Self:
        """Return the parts with each of them changed alike."""
        return type(self)(**{one.name: change(getattr(self, one.name)) for one in fields(self)})

    def take(self, rows: Any) -> Self:
        """Return the parts of some steps, by whatever indexes an array of their shape."""
        shape = np.shape(self.step_time_s)
        parts = {one.name: getattr(self, one.name) for one in fields(self)}
        return type(self)(**{n: np.broadcast_to(part, shape)[rows] for n, part in parts.items()})

    def at(self, index: Any) -> StepNumbers:
        """Return the parts of one step as plain numbers."""
        return StepNumbers(*(float(getattr(self, one.name)[index]) for one in fields(self)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Throughput:
    """Samples per second of the whole job, with an interval.

    Parameters
    ----------
    samples_per_second, low, high : float
        Point and interval, ``low <= samples_per_second <= high``.
    coverage : float
        Share of true values that intervals of this kind contain, in (0, 1).
    tokens_per_second : float or None
        Where a sample has a number of tokens.
    """

    samples_per_second: float
    low: float
    high: float
    coverage: float
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time of one step goes, in seconds; the parts add up to the step time.

    As the first of :class:`StepNumbers`: of communication only what is exposed counts.
    """

    compute_s: float
    exposed_communication_s: float = 0.0
    input_stall_s: float = 0.0
    overhead_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Memory of one accelerator.

    ``peak_bytes`` and ``fits`` are None for a job of which no graph is known, and
    ``oom_probability`` while the model behind it states no uncertainty.
    """

    peak_bytes: float | None
    capacity_bytes: float
    fits: bool | None
    oom_probability: float | None = None

    def that_fits(self) -> Self:
        """Return the memory of a step that was seen to run."""
        peak = (
            self.peak_bytes
            if self.peak_bytes is None
            else min(self.peak_bytes, self.capacity_bytes)
        )
        return replace(self, peak_bytes=peak, fits=True, oom_probability=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourEstimate:
    """What a job on the same accelerators suffers from the one that was asked about.

    Parameters
    ----------
    name : str
        Its model or job type.
    slowdown : float
        How many times as long its step takes beside all the others, >= 1.
    step_time_s : float or None
        That step; None for a job known by its type alone.
    """

    name: str
    slowdown: float
    step_time_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What throughput a job will reach on a placement, and what that rests on.

    Parameters
    ----------
    step_time_s : float
        Whole optimizer step (training) or pass (inference), all micro-batches.
    compute_time_s, sync_time_s : float
        The part that computes and the part that synchronises; they may overlap.
    out_of_distribution : bool
        The workload lies outside what the predictor has seen.
    nearest : tuple of str
        Most similar measured workloads, best first.
    model_version : str
        ``"<name>/<version>"`` of the artefact, or ``"roofline"``.
    unpriced_operators : mapping of str to int
        Operators without a cost formula and how often they occur.
    neighbours : tuple of NeighbourEstimate
        Jobs on the same accelerators, in the order of the placement.
    script_efficiency : float or None
        Time that is predicted of the step over the time that it takes, as observed steps of the job
        let it appear: what is left beside loading, logging and waiting. None without any.
    """

    throughput: Throughput
    step_time_s: float
    compute_time_s: float
    sync_time_s: float
    breakdown: Breakdown
    memory: MemoryEstimate
    basis: Basis
    out_of_distribution: bool
    model_version: str
    nearest: tuple[str, ...] = ()
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    neighbours: tuple[NeighbourEstimate, ...] = ()
    script_efficiency: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        plain = {
            name: asdict(getattr(self, name)) for name in ("throughput", "breakdown", "memory")
        }
        return {
            "throughput": plain["throughput"],
            "step_time_s": self.step_time_s,
            "compute_time_s": self.compute_time_s,
            "sync_time_s": self.sync_time_s,
            "breakdown": plain["breakdown"],
            "memory": plain["memory"],
            "basis": self.basis.value,
            "out_of_distribution": self.out_of_distribution,
            "nearest": list(self.nearest),
            "model_version": self.model_version,
            "unpriced_operators": dict(self.unpriced_operators),
            "warnings": list(self.warnings),
            "neighbours": [asdict(neighbour) for neighbour in self.neighbours],
            "script_efficiency": self.script_efficiency,
        }
