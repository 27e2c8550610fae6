"""The Estimate: an answer that explains itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from perfmodel.client import answers
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
class Estimate(answers.Estimate):
    """What throughput a job will reach on a placement, and what that rests on.

    The form that the client reads, with its rung as one of ours.
    """

    basis: Basis

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain |= {name: asdict(plain[name]) for name in ("throughput", "breakdown", "memory")}
        plain |= {name: list(plain[name]) for name in ("nearest", "warnings")}
        return plain | {
            "basis": self.basis.value,
            "unpriced_operators": dict(self.unpriced_operators),
            "neighbours": [asdict(neighbour) for neighbour in self.neighbours],
        }
