"""A job with its captured step: everything about it that no placement changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.features.roofline import node_work
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.feeding.input_samples import collate_s
from perfmodel.placement.memory.liveness import computed_again
from perfmodel.placement.memory.memory_demand import JobConstants, constants_for
from perfmodel.placement.memory.memory_profile import MemoryProfile, memory_profile
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Mode, Precision

T = TypeVar("T")

#: Facts of one job that are kept; most jobs are asked about on a handful of accelerators.
_MOST_FACTS = 2_048


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedJob:
    """A job with its captured step: everything about it that no placement changes.

    Parameters
    ----------
    key : str
        The reference of the job.
    whole : PreparedJob or None
        What :func:`whole_job` returns.
    """

    job: Job
    key: str
    step: CapturedStep
    whole: PreparedJob | None = None
    warnings: tuple[str, ...] = field(init=False)
    #: What was worked out of it on accelerators, see :meth:`once`.
    facts: dict[Any, tuple[AcceleratorSpec, Any]] = field(
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
        said = (*self.step.warnings, *missing, *_no_cache(self.job))
        object.__setattr__(self, "warnings", said)

    @cached_property
    def family(self) -> str:
        """What it shares with jobs that differ in their batch alone, and with what they reached."""
        return self.job.family

    @cached_property
    def samples(self) -> int:
        """Samples of one replica in one step, all micro-batches."""
        return self.job.batch_size * self.job.accumulation_steps

    @cached_property
    def collate_s(self) -> float:
        """What putting the samples of a step together takes of one core, seconds."""
        # The graph's inputs are those of one micro-batch.
        return collate_s(self.step.graph) * self.job.accumulation_steps

    @cached_property
    def memory_profile(self) -> MemoryProfile:
        """What the memory of the step is made of."""
        if not self.job.selective_checkpointing:
            return self.step.memory_profile
        of_graph = memory_profile(self.step.graph, selective_checkpointing=True)
        return self.step.whole_memory(of_graph)

    @cached_property
    def computed_again(self) -> list[int]:
        """Nodes that checkpointing of attention alone runs again; other ones are in the graph."""
        return computed_again(self.step.graph) if self.job.selective_checkpointing else []

    @cached_property
    def memory_constants(self) -> JobConstants:
        """What the job says of the memory around its tensors."""
        return constants_for(self.job)

    @cached_property
    def is_language_model(self) -> bool:
        """Whether the equations for plans know jobs like it, whatever part of it is trained."""
        return is_language_model(self.job)

    @cached_property
    def has_plan_engine(self) -> bool:
        """Whether the equations for plans, fitted on language models, answer for the job."""
        return self.is_language_model and self.job.trains_all

    @cached_property
    def is_usual(self) -> bool:
        """Whether replicas of it share gradients as those of any other job: what many columns say.

        The equations for plans answer for some jobs; others say how they share, or train few of
        their parameters.
        """
        job = self.job
        return not self.has_plan_engine and job.mixed_precision is None and job.trains_all

    @cached_property
    def trained_share(self) -> float:
        """Part of the parameters that is trained, where the job says that it is not all of them."""
        if self.job.trains_all:
            return 1.0
        profile = self.step.profile
        return profile.gradient_bytes / max(profile.parameter_bytes, profile.gradient_bytes, 1.0)

    @cached_property
    def straggler(self) -> float:
        """Relative spread of the times of equal replicas."""
        return fitted_constants().straggler_of(self.job.model)

    def once(self, accelerator: AcceleratorSpec, key: Any, find: Callable[[], T]) -> T:
        """Return what holds of the job on an accelerator, worked out when it is first asked for.

        Parameters
        ----------
        key : hashable
            Names the accelerator, what is asked of the job on it, and whatever else it depends on.
        """
        known = self.facts.get(key)
        # A device that was edited keeps its name.
        if known is None or known[0] is not accelerator:
            if len(self.facts) >= _MOST_FACTS:
                self.facts.clear()
            known = self.facts[key] = (accelerator, find())
        found: T = known[1]
        return found

    def work_out(self) -> None:
        """Work out what every answer needs, so that none in a hurry has to."""
        _ = node_work(self.step.graph), self.step.buckets, self.straggler
        _ = self.memory_profile, self.memory_constants

    def on(self, accelerator: AcceleratorSpec) -> Workload:
        """Return the step of the graph on an accelerator, which is of one micro-batch."""
        job = self.job
        return Workload(
            graph=self.step.graph,
            accelerator=accelerator,
            mode=job.mode,
            batch_size=job.batch_size,
            precision=accelerator.computed_as(job.arithmetic),
            memory_format=job.memory_format,
            compiler=job.compiler.answered_as,
            software=job.software,
            threads=accelerator.core_count if accelerator.kind == "cpu" else None,
        )


def _no_cache(job: Job) -> tuple[str, ...]:
    """Say of one token in inference that nothing came before it."""
    is_one = job.mode is Mode.INFERENCE and job.sequence_length == 1
    return (ONE_TOKEN_WARNING,) if is_one and transformer_shape(job) is not None else ()


#: Said where a language model is asked for one token, which is not the step that writes text.
ONE_TOKEN_WARNING = (
    "sequence_length 1 is answered as a text of one token: no keys and values of tokens before it "
    "are read, as in writing text. Ask for zoo/gpt2-decode where such a step is meant."
)


_DECODERS = ("zoo/mpt", "zoo/megatron-gpt", "zoo/gpt", "zoo/opt")
_DECODER_TYPES = frozenset(
    (
        "gpt2", "opt", "gpt_neox", "llama", "mistral", "mixtral", "qwen2", "qwen3", "mpt", "gemma",
        "qwen3_moe", "gpt_oss", "deepseek_v3", "nemotron",
    )
)  # fmt: skip


def whole_job(job: Job) -> Job | None:
    """Return a job with all its parameters trained, where the equations answer for that alone."""
    if job.trains_all or not is_language_model(job):
        return None
    return replace(job, adapter=None, frozen=None)


def is_language_model(job: Job) -> bool:
    """Tell whether a job is of those that the equations for plans were fitted on.

    They are causal language models trained in 16 bits; the name or config says so.
    """
    if job.mode is not Mode.TRAINING:
        return False
    if job.arithmetic in (Precision.FP32, Precision.TF32):
        return False
    kind = str((job.hf_config or {}).get("model_type", ""))
    is_decoder = (job.model or "").startswith(_DECODERS) or kind in _DECODER_TYPES
    return is_decoder and transformer_shape(job) is not None
