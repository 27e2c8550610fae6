"""The captured step of a job: its graph and what every answer about it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from perfmodel.estimator.jobs.repeated_batches import RepeatedBatches
from perfmodel.estimator.jobs.step_facts import StepFacts
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.placement.data_parallel.gradient_buckets import (
    BUCKET_BYTES,
    GradientBuckets,
    gradient_buckets,
)
from perfmodel.placement.data_parallel.step_profile import StepProfile, step_profile
from perfmodel.placement.data_parallel.streams import BucketNumbers
from perfmodel.placement.memory.memory_profile import MemoryProfile, memory_profile


@dataclass(frozen=True, kw_only=True)
class CapturedStep:
    """The graph of one step of a job.

    Parameters
    ----------
    tokens_per_sample : int or None
        Where a sample is a sequence.
    warnings : tuple of str
        What the capture left out.
    canonical, packed_facts : bytes or None
        The graph as canonical JSON, and its facts as they are kept, where whoever captured it had
        them at hand; for whoever keeps them, and not remembered beyond that.
    facts : StepFacts or None
        Facts of the graph that are known already; all others are worked out of it.
    repeated : RepeatedBatches or None
        The step has more micro-batches than the graph.
    """

    graph: Graph
    tokens_per_sample: int | None = None
    warnings: tuple[str, ...] = ()
    canonical: bytes | None = field(default=None, repr=False, compare=False)
    packed_facts: bytes | None = field(default=None, repr=False, compare=False)
    facts: StepFacts | None = field(default=None, repr=False, compare=False)
    repeated: RepeatedBatches | None = None

    @cached_property
    def profile(self) -> StepProfile:
        """What a placement needs to know of the step, all its micro-batches."""
        return self.repeated.profile(self._captured) if self.repeated else self._captured

    @cached_property
    def time_factor(self) -> float:
        """How many times as long as that of the graph the step is."""
        return self.repeated.time_factor(self._captured) if self.repeated else 1.0

    @cached_property
    def _captured(self) -> StepProfile:
        return self.facts.profile if self.facts else step_profile(self.graph, samples=1)

    @cached_property
    def memory_profile(self) -> MemoryProfile:
        """What the memory of the step is made of."""
        return self.whole_memory(self.facts.memory if self.facts else memory_profile(self.graph))

    def whole_memory(self, captured: MemoryProfile) -> MemoryProfile:
        """Return what the memory of the step is made of from that of its graph."""
        return self.repeated.memory(captured) if self.repeated else captured

    @cached_property
    def buckets(self) -> GradientBuckets:
        """Its gradients, as data-parallel replicas share them."""
        return gradient_buckets(self.profile)

    @cached_property
    def gathered_units(self) -> GradientBuckets:
        """The same, cut so that the parameters of each can be gathered for themselves.

        Where few parameters are trained all others are gathered too: in units as large as buckets.
        """
        whole, trained = self.profile.parameter_bytes, self.profile.gradient_bytes
        if not 0 < trained < whole:
            return self.buckets
        return gradient_buckets(self.profile, bucket_bytes=BUCKET_BYTES * trained / whole)

    @cached_property
    def bucket_numbers(self) -> BucketNumbers:
        """The same as plain numbers."""
        return BucketNumbers.of(self.buckets)

    @cached_property
    def unpriced_operators(self) -> Mapping[str, int]:
        """Operators without a cost formula and how often they occur."""
        if self.facts:
            return self.facts.unpriced
        from perfmodel.graph.cost import cost_table

        return dict(cost_table(self.graph).unpriced)


class GraphSource(Protocol):
    """Where the graphs of jobs come from."""

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of one micro-batch of a job; may take seconds.

        Raises
        ------
        InvalidInputError
            No such model or graph, or one that cannot be captured.
        """
