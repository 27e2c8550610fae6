"""The gradients of one job in plain numbers, and the streams that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets


class StreamNumbers(NamedTuple):
    """Streams of one step, as :class:`.replica_streams.Streams` has those of many, seconds."""

    compute_s: float
    exposed_s: float
    communication_s: float


class Reductions(NamedTuple):
    """The gradients of one job on their way over one group of ranks.

    Parameters
    ----------
    communication_s : float
        All buckets, one after the other.
    tails : list of (float, float)
        When the last bucket of each group is ready, as a share of the step, and how long it and
        all that follow take from then on, seconds.
    """

    communication_s: float
    tails: list[tuple[float, float]]

    def end_s(self, alone_s: float) -> float:
        """Return when the last bucket has been worked on.

        It follows without a pause on the group that holds all others up, or on the beginning.

        Parameters
        ----------
        alone_s : float
            Time of the step on one accelerator.
        """
        return max([self.communication_s, *[alone_s * ready + rest for ready, rest in self.tails]])


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketNumbers:
    """The gradients of one job, as :class:`.gradient_buckets.GradientBuckets` has those of many.

    Parameters
    ----------
    groups : tuple of (float, float)
        When the last bucket of a group is ready, as a share of the step, and how many it has.
    sizes_bytes, parameter_sizes_bytes : tuple of float
        Of one bucket of each group, and of the parameters behind it.
    """

    groups: tuple[tuple[float, float], ...]
    sizes_bytes: tuple[float, ...]
    parameter_sizes_bytes: tuple[float, ...]
    pieces: float
    gradient_bytes: float
    forward_share: float
    backward_share: float
    optimizer_share: float

    @classmethod
    def of(cls, buckets: GradientBuckets) -> Self:
        """Return the first job of some columns."""
        filled = buckets.count[0] > 0
        ready, count = buckets.ready[0][filled], buckets.count[0][filled]
        size, gradients = buckets.size_bytes[0][filled], float(buckets.gradient_bytes[0])
        share = float(buckets.parameter_bytes[0]) / max(gradients, 1.0)
        return cls(
            groups=tuple(zip(ready.tolist(), count.tolist(), strict=True)),
            sizes_bytes=tuple(size.tolist()),
            parameter_sizes_bytes=tuple((size * share).tolist()),
            pieces=float(buckets.pieces[0]),
            gradient_bytes=gradients,
            forward_share=float(buckets.forward_share[0]),
            backward_share=float(buckets.backward_share[0]),
            optimizer_share=float(buckets.optimizer_share[0]),
        )

    @property
    def backward_end(self) -> float:
        """Share of the step that has passed when all gradients are ready."""
        return 1 - self.optimizer_share

    def all_buckets_s(self, each_s: Sequence[float]) -> float:
        """Return the time of a collective on every bucket, one after the other.

        Parameters
        ----------
        each_s : sequence of float
            On one bucket of each group.
        """
        return sum([each * count for each, (_, count) in zip(each_s, self.groups, strict=True)])

    def reductions(self, each_s: Sequence[float]) -> Reductions:
        """Return the stream of reductions; :mod:`.replica_streams` has the sum.

        Parameters
        ----------
        each_s : sequence of float
            On one bucket of each group.
        """
        left_s, tails = 0.0, []
        last = self.backward_end
        for each, (ready, count) in zip(reversed(each_s), reversed(self.groups), strict=True):
            tails.append((min(ready, last), each + left_s))
            left_s += count * each
        return Reductions(left_s, tails)
