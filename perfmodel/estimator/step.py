"""A job's step, captured: its graph and what every answer about it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import orjson

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.language_models import has_plan_engine
from perfmodel.estimator.repeated_batches import RepeatedBatches
from perfmodel.estimator.step_facts import StepFacts
from perfmodel.features.node_work import node_work
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.data_parallel.bucket_numbers import BucketNumbers
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets, gradient_buckets
from perfmodel.placement.data_parallel.profile_graph import step_profile
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.estimate import MemoryEstimate
from perfmodel.placement.memory.memory_profile import MemoryProfile, memory_profile
from perfmodel.placement.sharing.job_load import JobLoad


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
        return self.facts.memory if self.facts else memory_profile(self.graph)

    @cached_property
    def buckets(self) -> GradientBuckets:
        """Its gradients, as data-parallel replicas share them."""
        return gradient_buckets(self.profile)

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

        return MappingProxyType(dict(sorted(cost_table(self.graph).unpriced.items())))


class GraphSource(Protocol):
    """Where the graphs of jobs come from."""

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job; may take seconds.

        Raises
        ------
        InvalidInputError
            No such model or graph, or one that cannot be captured.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedJob:
    """A job with its captured step: everything about it that no placement changes.

    Parameters
    ----------
    key : str
        From :func:`job_key`.
    """

    job: Job
    key: str
    step: CapturedStep
    warnings: tuple[str, ...] = field(init=False)
    #: Loads that were worked out, by accelerator, part of it and step time.
    loads: dict[tuple[str, str, float], tuple[AcceleratorSpec, JobLoad]] = field(
        init=False, repr=False, default_factory=dict
    )
    #: Memory that was worked out, by accelerator and plan as :mod:`.answer` tells them apart.
    memories: dict[Any, tuple[AcceleratorSpec, MemoryEstimate]] = field(
        init=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        unpriced = self.step.unpriced_operators
        missing = (
            (
                f"{sum(unpriced.values())} calls of {len(unpriced)} operators have no cost "
                "formula; their time is not in the analytical part of the answer.",
            )
            if unpriced
            else ()
        )
        object.__setattr__(self, "warnings", (*self.step.warnings, *missing))

    @cached_property
    def samples(self) -> int:
        """Samples of one replica in one step, all micro-batches."""
        return self.job.batch_size * self.job.accumulation_steps

    @cached_property
    def captured_samples(self) -> int:
        """Samples of the graph, which may hold fewer micro-batches."""
        repeated = self.step.repeated
        return self.job.batch_size * repeated.captured if repeated else self.samples

    @cached_property
    def memory_profile(self) -> MemoryProfile:
        """What the memory of the step is made of."""
        if not self.job.selective_checkpointing:
            return self.step.memory_profile
        return memory_profile(self.step.graph, selective_checkpointing=True)

    @cached_property
    def has_plan_engine(self) -> bool:
        """Whether the equations for plans, fitted on language models, answer for the job."""
        return has_plan_engine(self.job)

    @cached_property
    def straggler(self) -> float:
        """Relative spread of the times of equal replicas."""
        return fitted_constants().straggler_of(self.job.model)

    def work_out(self) -> None:
        """Work out what every answer needs, so that none in a hurry has to."""
        _ = node_work(self.step.graph), self.step.buckets, self.memory_profile

    def on(self, accelerator: AcceleratorSpec) -> Workload:
        """Return the step of the graph on an accelerator."""
        job = self.job
        return Workload(
            graph=self.step.graph,
            accelerator=accelerator,
            mode=job.mode,
            batch_size=self.captured_samples,
            precision=accelerator.computed_as(job.precision),
            memory_format=job.memory_format,
            compiler=job.compiler,
            software=job.software,
            threads=accelerator.core_count if accelerator.kind == "cpu" else None,
        )


def job_key(job: Job) -> str:
    """Return a hash that equal jobs share and no other does.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    fields = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in vars(job).items()
    }
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
