"""What does not fit because the job ran out of memory where it needed no more, whatever is counted.

Of two cells it is often known which is tighter: it needs no less and has no more room. A cell does
not fit that is as tight as one that ran out of memory. Where a step ran that is as tight as that
one, something else held the memory: then the very cell alone is refused, unless it ran itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.features.arrays import IntArray
from perfmodel.placement.topology.topology import REPLICAS, Neighbour, Plan

#: Said of a cell that is refused by this.
RAN_OUT_WARNING = (
    "The step was observed to run out of memory, or one of the job that needs no more and had no "
    "less room."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TightCell:
    """What the memory of a step of one job depends on.

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
        Jobs that hold memory beside it, in whatever order they were written.
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
            shared_with=tuple(sorted(placement.named.shared_with, key=attrgetter("key"))),
        )

    @property
    def place(self) -> tuple[object, ...]:
        """All but the batch."""
        return self.room_bytes, self.kinds, self.ranks, self.plan, self.shared_with

    def is_as_tight(self, other: TightCell) -> bool:
        """Return whether it is sure to need no less than another, with no more room."""
        return (
            self.batch_size >= other.batch_size
            and self.micro_batches >= other.micro_batches
            and self.is_place_as_tight(other)
        )

    def is_place_as_tight(self, other: TightCell) -> bool:
        """Return whether :meth:`is_as_tight` holds but for their batches."""
        return (
            self.room_bytes <= other.room_bytes
            and (self.kinds, self.plan, self.shared_with)
            == (other.kinds, other.plan, other.shared_with)
            and self._has_as_many_ranks(other)
        )

    def _has_as_many_ranks(self, other: TightCell) -> bool:
        # What is shared out becomes less with their number; of the rest each holds all.
        if self.plan == REPLICAS:
            return self.ranks > 1 or other.ranks == 1
        return self.ranks == other.ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class TightCells:
    """Cells of one job that ran out of memory.

    Parameters
    ----------
    ran_out : tuple of TightCell
        Those of which none that is as tight ran.
    alone : frozenset of TightCell
        The others that never ran themselves.
    ran : frozenset of TightCell
        Those that ran.
    """

    ran_out: tuple[TightCell, ...] = ()
    alone: frozenset[TightCell] = frozenset()
    ran: frozenset[TightCell] = frozenset()

    @classmethod
    def of(
        cls,
        ran: Iterable[TightCell],
        ran_out: Iterable[TightCell],
        doubted: Iterable[TightCell] = (),
    ) -> Self:
        """Judge what was observed of a job.

        Parameters
        ----------
        doubted : iterable of TightCell
            Cells that ran out, but not by what the job is counted to need.
        """
        out, held = frozenset(ran_out), frozenset(ran)
        void = frozenset(cell for cell in out if any(one.is_as_tight(cell) for one in held))
        alone = (void | frozenset(doubted)) - held
        return cls(ran_out=tuple(out - void), alone=alone, ran=held)

    def __bool__(self) -> bool:
        return bool(self.ran_out or self.alone)

    @property
    def without_single_ones(self) -> Self:
        """What says something of other cells, too, and so of steps that need more."""
        return replace(self, alone=frozenset())

    def refuse(self, placement: ResolvedPlacement, batch_size: int, micro_batches: int) -> bool:
        """Return whether a cell does not fit, as far as that is known."""
        if not self:
            return False
        return bool(self.refused(placement, np.array([batch_size]), np.array([micro_batches]))[0])

    def refused(
        self, placement: ResolvedPlacement, batch_size: IntArray, micro_batches: IntArray
    ) -> npt.NDArray[np.bool_]:
        """Return the same of cells of one placement, shape (cells,)."""
        found, here = np.zeros(len(batch_size), dtype=np.bool_), TightCell.of(placement, 1, 1)
        for one in self.ran_out:
            if here.is_place_as_tight(one):
                found |= (batch_size >= one.batch_size) & (micro_batches >= one.micro_batches)
        for one in self.alone:
            if here.place == one.place:
                found |= (batch_size == one.batch_size) & (micro_batches == one.micro_batches)
        return found

    def holds(self, placement: ResolvedPlacement, batch_size: int, micro_batches: int) -> bool:
        """Return whether a cell is known to fit, since one that is as tight ran."""
        cell = TightCell.of(placement, batch_size, micro_batches)
        return any(one.is_as_tight(cell) for one in self.ran)

    def fewer_samples(self, placement: ResolvedPlacement, micro_batches: int, most: int) -> int:
        """Return the largest batch of one replica, up to a most, below all refused ones."""
        batches = {one.batch_size for one in self.ran_out}
        ends = (batch - 1 for batch in batches if self.refuse(placement, batch, micro_batches))
        return min([most, *ends])


#: Of a job that never ran out.
NO_CELLS = TightCells()
