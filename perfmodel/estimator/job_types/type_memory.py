"""What is known of the memory of a job type: where it ran out of it.

Its need is not known, but of two cells it is often known which is tighter: it needs no less and has
no more room. A cell does not fit that is as tight as one that ran out of memory. One that ran out
counts for nothing where another ran that is as tight: something else held the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import batch_of
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.topology import REPLICAS, Neighbour, Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class TypeCell:
    """What the memory of a cell depends on, of a job that is known by its type alone.

    Parameters
    ----------
    batch_size, micro_batches : int
        Of one replica and step; more need no less.
    room_bytes : float
        What the job holds of the accelerator that has least.
    kinds : frozenset of str
        Of accelerators: a GPU needs other amounts than a TPU.
    ranks : int
        Accelerators; beyond one they hold buckets of gradients.
    plan : Plan
        How they divide the job, but for the degree of data parallelism.
    shared_with : tuple of Neighbour
        Jobs that hold memory beside it.
    """

    batch_size: int
    micro_batches: int
    room_bytes: float
    kinds: frozenset[str]
    ranks: int
    plan: Plan
    shared_with: tuple[Neighbour, ...]

    @classmethod
    def of(cls, placement: ResolvedPlacement, batch_size: int, micro_batches: int) -> Self:
        """Return the cell of a batch on a placement."""
        return cls(
            batch_size=batch_size,
            micro_batches=micro_batches,
            room_bytes=min(float(kind.held.memory_bytes) for kind in placement.kinds),
            kinds=frozenset(kind.held.kind for kind in placement.kinds),
            ranks=placement.count,
            plan=replace(placement.fabric.plan, data=None),
            shared_with=placement.named.shared_with,
        )

    def is_as_tight(self, other: TypeCell) -> bool:
        """Return whether it is sure to need no less than another, with no more room."""
        same = ("kinds", "plan", "shared_with")
        return (
            all(getattr(self, name) == getattr(other, name) for name in same)
            and self.batch_size >= other.batch_size
            and self.micro_batches >= other.micro_batches
            and self.room_bytes <= other.room_bytes
            and self._has_as_many_ranks(other)
        )

    def _has_as_many_ranks(self, other: TypeCell) -> bool:
        # What is shared out becomes less with their number; of the rest each holds all.
        if self.plan == REPLICAS:
            return self.ranks > 1 or other.ranks == 1
        return self.ranks == other.ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class TypeMemory:
    """Cells of a job type that ran out of memory; those of which something tighter ran aside."""

    ran_out: tuple[TypeCell, ...] = ()

    @classmethod
    def of(cls, core: Core, seen: Sequence[Observation]) -> Self:
        """Read what was observed of the job type."""
        if not any(one.ran_out for one in seen):
            return cls()
        cells = [
            (
                one.ran_out,
                TypeCell.of(core.resolve(one.placement), batch_of(one), one.accumulation_steps),
            )
            for one in seen
        ]
        ran = [cell for ran_out, cell in cells if not ran_out]
        return cls(
            ran_out=tuple(
                cell
                for ran_out, cell in cells
                if ran_out and not any(one.is_as_tight(cell) for one in ran)
            )
        )

    def refuses(self, asked: TypeCell) -> bool:
        """Return whether a cell does not fit, as far as that is known."""
        return any(asked.is_as_tight(one) for one in self.ran_out)

    def most_samples(self, placement: ResolvedPlacement) -> int | None:
        """Return the largest batch of one replica that is not refused; None: none is."""
        batches = {one.batch_size for one in self.ran_out}
        refused = (batch for batch in batches if self.refuses(TypeCell.of(placement, batch, 1)))
        least = min(refused, default=None)
        return None if least is None else least - 1
