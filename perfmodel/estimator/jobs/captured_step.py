r"""The captured step of a job: its graph, and what every answer about it needs.

Jobs that differ in no part of the program share one capture (:func:`captured_view`), and steps of
several micro-batches are told from the graph of one. Micro-batches of a step are alike but for the
first, whose gradients nothing is added to. Of a step of one micro-batch the optimizer is a share o,
and adding all gradients to others would take a share a of it, so that a step of n micro-batches
takes

.. math:: T_n / T_1 = o + (1 - o)\,n + \min(a, o)\,(n - 1)

times as long: no longer than n steps of one micro-batch, which do all of it and n optimizers. What
was measured of a job is known by its step of one micro-batch, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np

from perfmodel.estimator.jobs.step_facts import StepFacts
from perfmodel.graph.in_precision import in_precision, narrow_types, wider_types
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
from perfmodel.types import Compiler, Mode, Precision


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
    micro_batches : int
        Of the step, >= 1; the graph is that of one.
    """

    graph: Graph
    tokens_per_sample: int | None = None
    warnings: tuple[str, ...] = ()
    canonical: bytes | None = field(default=None, repr=False, compare=False)
    packed_facts: bytes | None = field(default=None, repr=False, compare=False)
    facts: StepFacts | None = field(default=None, repr=False, compare=False)
    micro_batches: int = 1

    @cached_property
    def profile(self) -> StepProfile:
        """What a placement needs to know of the step, all its micro-batches.

        Gradients are ready in the last one, so that as much time as before is left behind each of
        them, of a longer step.
        """
        one, more, longer = self._captured, self.micro_batches, self.time_factor
        if more == 1:
            return one
        additions = len(one.gradient_piece_bytes) * (more - 1)
        return replace(
            one,
            input_bytes=one.input_bytes * more,
            node_count=one.node_count * more + additions,
            forward_share=one.forward_share * more / longer,
            backward_share=(one.backward_share * more + self._added) / longer,
            optimizer_share=one.optimizer_share / longer,
            gradient_ready=1.0 - (1.0 - one.gradient_ready) / longer,
        )

    @cached_property
    def time_factor(self) -> float:
        """How many times as long as that of the graph the step is."""
        if self.micro_batches == 1:
            return 1.0
        once = self._captured.optimizer_share
        return once + (1.0 - once) * self.micro_batches + self._added

    @cached_property
    def host_calls(self) -> float:
        """Operators that a host is taken to call.

        As with time, adding gradients up counts no more than the updates that are left out.
        """
        return min(self.profile.node_count, self.captured_operators * self.micro_batches)

    @property
    def captured_operators(self) -> float:
        """Operators of the graph, which is that of one micro-batch."""
        return self._captured.node_count

    @property
    def _added(self) -> float:
        """What adding gradients up takes, over the step of one micro-batch."""
        one = self._captured
        return min(one.adding_share, one.optimizer_share) * (self.micro_batches - 1)

    @cached_property
    def _captured(self) -> StepProfile:
        return self.facts.profile if self.facts else step_profile(self.graph)

    @cached_property
    def memory_profile(self) -> MemoryProfile:
        """What the memory of the step is made of."""
        return self.whole_memory(self.facts.memory if self.facts else memory_profile(self.graph))

    def whole_memory(self, one: MemoryProfile) -> MemoryProfile:
        """Return what the memory of the step is made of from that of its graph.

        From the second micro-batch on the gradients of the ones before are there all the time, and
        a new one only until it is added to them.
        """
        if self.micro_batches == 1:
            return one
        new = np.minimum(one.gradient_corners, one.largest_parameter_bytes)
        return replace(
            one,
            activation_corners=(one.activation_corners + new).max(keepdims=True),
            gradient_corners=np.array([one.gradient_bytes]),
        )

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


#: Precisions whose program is that of another: they change how units of a device compute. What
#: int8 cannot do, training, is refused by the capture, and so left to it.
_SAME_PROGRAM: Mapping[Precision, Precision] = MappingProxyType(
    {Precision.TF32: Precision.FP32, Precision.FP8: Precision.BF16}
)
_SAME_INFERENCE: Mapping[Precision, Precision] = MappingProxyType(
    {**_SAME_PROGRAM, Precision.INT8: Precision.BF16}
)

#: Said where a graph is asked for in another precision than it was captured in.
_OTHER_PRECISION_WARNING = (
    "The graph was captured in another precision than {precision}: it is answered as the same "
    "program on other types. Capture it in {precision} to have its very casts counted."
)

#: Said where a graph has products in types that nothing is known of.
_WIDER_WARNING = (
    "Products in {types} are answered as if they were fp32, for nothing was learned of such types. "
    "They take longer on most devices, many times as long on cards for games and inference."
)


#: Said where a graph has products in types of which the precision does not know.
_NARROW_WARNING = (
    "Products in {types} are answered as {precision}: where they run in eight bits, ask for the "
    "precision {types}."
)


def asked_in(step: CapturedStep, precision: Precision) -> CapturedStep:
    """Return the step of a graph that somebody brought as it is in the precision asked for."""
    graph = in_precision(step.graph, precision)
    said, narrow = [], narrow_types(step.graph)
    if graph is not step.graph and precision not in narrow:
        said.append(_OTHER_PRECISION_WARNING.format(precision=precision.value))
    if wider := wider_types(graph):
        said.append(_WIDER_WARNING.format(types=" and ".join(wider)))
    if others := [one.value for one in narrow if one is not precision]:
        said.append(_NARROW_WARNING.format(types=" and ".join(others), precision=precision.value))
    if not said and graph is step.graph:
        return step
    return CapturedStep(
        graph=graph,
        tokens_per_sample=step.tokens_per_sample,
        warnings=(*step.warnings, *said),
    )


def captured_view(job: Job) -> Job:
    """Return the job that is captured for a job: the same program, and the same for all alike.

    Compiler, versions of software and selective checkpointing are no part of a program, optimizer
    and checkpointing none of inference, some precisions have the program of another one, and of
    several micro-batches one is captured.

    Examples
    --------
    >>> captured_view(Job(model="zoo/one", precision=Precision.TF32)) == Job(model="zoo/one")
    True
    """
    trains = job.mode is Mode.TRAINING
    same = _SAME_PROGRAM if trains else _SAME_INFERENCE
    view = replace(
        job,
        precision=same.get(job.precision, job.precision),
        compiler=Compiler.EAGER,
        software=MappingProxyType({}),
        selective_checkpointing=False,
        accumulation_steps=1,
    )
    return view if trains else replace(view, optimizer="sgd", activation_checkpointing=False)


def with_batches(captured: CapturedStep, job: Job) -> CapturedStep:
    """Return the step of all micro-batches of a job, of which one was captured."""
    if job.accumulation_steps == 1:
        return captured
    return replace(captured, micro_batches=job.accumulation_steps)
