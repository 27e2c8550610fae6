"""The Job: what a user asks about, before any graph exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.graph.training_options.mixed_precision import MixedPrecision
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training or inference job, by reference to its model.

    Exactly one of ``model``, ``hf_config``, ``graph`` and ``job_type`` is given.

    Parameters
    ----------
    model : str or None
        ``"timm/<name>"`` or ``"zoo/<name>"``; the name of an open model on a hub is read as its
        ``hf_config``.
    model_kwargs : mapping
        Keyword arguments of the named model (``img_size``, ``num_classes``, ...).
    hf_config : mapping or None
        A transformers config as a dict, with ``model_type`` or ``architectures``.
    graph : str or None
        Content hash of a graph registered earlier.
    job_type : str or None
        Name of a kind of job that is known by measured steps alone.
    batch_size : int
        Samples per replica and micro-batch, >= 1.
    accumulation_steps : int
        Micro-batches per optimizer step, >= 1; training only.
    optimizer : str
        ``"sgd"``, ``"momentum"``, ``"adam"``, ``"adamw"``, ``"adafactor"``, ``"lamb"``.
    sequence_length : int or None
        Tokens per sample, where the model takes sequences; None means its default.
    activation_checkpointing : bool
        The backward pass computes all activations again.
    selective_checkpointing : bool
        It computes only attention again.
    mixed_precision : MixedPrecision or None
        Weights are kept in fp32, and computed with, reduced and buffered in these types; for the
        precision fp32 alone. None: as ``precision`` says.
    adapter : LowRankAdapter or None
        Beside the model's frozen weights low-rank ones are trained.
    frozen : tuple of str or None
        Names of parameters that are not trained, with ``*`` and ``?``.
    software : mapping of str to str
        Versions that matter (``torch``, ``cuda``); empty where unknown. ``framework`` is one of
        :class:`~perfmodel.types.Framework`, and PyTorch where it is not stated.
    input : mapping or None
        How a sample is stored and decoded, as far as it is known.
    adaptation : mapping or None
        What progress depends on: gradient noise, initial batch size, bounds of the batch size.
    script : bool or None
        Whether it loads, logs and waits besides its step (True), or does nothing but its step
        (False). None: what was observed decides. It changes what is answered, not which job it is.
    """

    model: str | None = None
    model_kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    hf_config: Mapping[str, Any] | None = None
    graph: str | None = None
    job_type: str | None = None
    mode: Mode = Mode.INFERENCE
    batch_size: int = 1
    accumulation_steps: int = 1
    precision: Precision = Precision.FP32
    optimizer: str = "sgd"
    memory_format: MemoryFormat = MemoryFormat.CHANNELS_FIRST
    compiler: Compiler = Compiler.EAGER
    sequence_length: int | None = None
    activation_checkpointing: bool = False
    selective_checkpointing: bool = False
    mixed_precision: MixedPrecision | None = None
    adapter: LowRankAdapter | None = None
    frozen: tuple[str, ...] | None = None
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    input: Mapping[str, Any] | None = None
    adaptation: Mapping[str, Any] | None = None
    script: bool | None = None

    @property
    def step(self) -> Job:
        """The same job without what does not change its step on one accelerator."""
        said = (self.input, self.adaptation, self.script, self.mixed_precision)
        if all(one is None for one in said):
            return self
        return replace(
            self, input=None, adaptation=None, script=None, mixed_precision=None,
            precision=self.arithmetic,
        )  # fmt: skip

    @property
    def arithmetic(self) -> Precision:
        """Precision that the step computes in."""
        mixed = self.mixed_precision
        return self.precision if mixed is None else _computed_in(mixed, self.precision)

    @property
    def trains_all(self) -> bool:
        """Whether every parameter of the model is trained, and no other."""
        return self.adapter is None and not self.frozen

    @property
    def label(self) -> str:
        """Short name for people."""
        if self.model:
            return self.model
        if self.job_type:
            return self.job_type
        if self.hf_config:
            # Imported here: jobs are read by processes that know no model of a hub.
            from perfmodel.graph.hub_models.names import hub_name

            kind = self.hf_config.get("model_type", "unknown")
            return hub_name(self.hf_config) or f"hf_config/{kind}"
        return f"graph/{(self.graph or '')[:12]}"


def _computed_in(mixed: MixedPrecision, kept: Precision) -> Precision:
    """Return the precision of work on parameters of a type; fp32 may be computed as TF32."""
    return kept if mixed.parameter is Precision.FP32 else mixed.parameter
