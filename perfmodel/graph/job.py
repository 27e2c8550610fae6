"""The Job: what a user asks about, before any graph exists; how it is written, and what names it.

Three names, each coarser than the one before: the *reference* of equal jobs, the *family* of jobs
that differ in their batch, and the *word* of a job type, which may carry its batch in its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.graph.training_options.mixed_precision import MixedPrecision
from perfmodel.json_values import MAX_COUNT
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

    def at_batch(self, batch_size: int, accumulation_steps: int) -> Job:
        """Return the job at another batch; itself where that is its own."""
        if (batch_size, accumulation_steps) == (self.batch_size, self.accumulation_steps):
            return self
        return replace(self, batch_size=batch_size, accumulation_steps=accumulation_steps)

    @cached_property
    def content(self) -> bytes:
        """The job as canonical JSON: sorted, without what has its default.

        :func:`~perfmodel.graph.job_form.parse_job` reads it back as an equal job.

        Examples
        --------
        >>> Job(model="timm/resnet50", batch_size=64).content
        b'{"batch_size":64,"mode":"inference","model":"timm/resnet50"}'
        """
        return orjson.dumps(stated_fields(self), option=orjson.OPT_SORT_KEYS)

    @cached_property
    def reference(self) -> str:
        """Its name: a hash of its content, 32 hexadecimal digits."""
        return _digest(self.content)

    @cached_property
    def family(self) -> str:
        """The name that it shares with jobs that differ from it in their batch alone.

        What was observed of one counts for all of them. A registered graph is one step of one
        batch; its jobs have families of their own. What progress depends on (``adaptation``)
        changes no step, and whether a step is that of a ``script`` is said of its observations, not
        of the job.

        Examples
        --------
        >>> small, large = (Job(model="timm/resnet50", batch_size=size) for size in (8, 64))
        >>> small.family == large.family, small.reference == large.reference
        (True, False)
        """
        alike = replace(self, adaptation=None, script=None)
        if self.graph is None:
            alike = replace(alike, batch_size=1, accumulation_steps=1)
        return _digest(b"family " + alike.content)

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


#: Fields that every job states, and those that are left out where nothing is set.
_STATED = ("mode", "batch_size")
_LEFT_OUT = (
    "model", "hf_config", "graph", "job_type", "input", "adaptation", "script", "mixed_precision",
    "adapter", "frozen",
)  # fmt: skip
_FIELDS = tuple(one.name for one in fields(Job))
_LABEL = re.compile(r"(?P<name>.+?) \(batch size (?P<batch>\d+)\)")


def job_to_dict(job: Job) -> dict[str, Any]:
    """Return a job as plain JSON values, which :func:`.job_form.parse_job` reads back.

    Returns
    -------
    dict
        Every field but unset model references and empty mappings.

    Examples
    --------
    >>> from perfmodel.graph.job_form import parse_job
    >>> job = parse_job({"graph": "ab", "mode": "training", "batch_size": 2})
    >>> parse_job(job_to_dict(job)) == job
    True
    """
    plain: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(job, name)
        if (name in _LEFT_OUT and value is None) or value == {}:
            continue
        if isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, MixedPrecision | LowRankAdapter):
            value = value.to_dict()
        elif isinstance(value, tuple):
            value = list(value)
        plain[name] = value.value if isinstance(value, StrEnum) else value
    return plain


def stated_fields(job: Job) -> dict[str, Any]:
    """Return a job as plain JSON values without what has its default.

    Mode and batch size are always there. A field that jobs get later, with a default, leaves what
    is said of older ones as it is.

    Examples
    --------
    >>> stated_fields(Job(model="timm/resnet18", mode=Mode.TRAINING))
    {'model': 'timm/resnet18', 'mode': 'training', 'batch_size': 1}
    """
    return {
        name: value
        for name, value in job_to_dict(job).items()
        if name in _STATED or value != _DEFAULTS.get(name)
    }


#: What a job says that says nothing.
_DEFAULTS = job_to_dict(Job())


def split_label(label: str, batch_size: int = 1) -> tuple[str, int]:
    """Return name and batch size of a job type that carries its batch size in its name.

    Parameters
    ----------
    batch_size : int
        Returned where the label says none.

    Examples
    --------
    >>> split_label("ResNet-50 (batch size 64)")
    ('ResNet-50', 64)
    >>> split_label("A3C", 4)
    ('A3C', 4)
    """
    match = _LABEL.fullmatch(label)
    return (match["name"], int(match["batch"])) if match else (label, batch_size)


def named_job(label: str, batch_size: int, mode: Mode) -> tuple[str, float]:
    """Return name and batch size of a job type in a mode; inference goes by another name.

    Raises
    ------
    InvalidInputError
        An empty name, or a batch size that no job has.
    """
    name, batch_size = split_label(label, batch_size)
    if not name.strip() or not 1 <= batch_size <= MAX_COUNT:
        raise InvalidInputError(
            f"A job type needs a name and a batch size from 1 to {MAX_COUNT}; got {label!r} and "
            f"{batch_size}.",
            pointer="/job/job_type" if not name.strip() else "/job/batch_size",
        )
    return (name if mode is Mode.TRAINING else f"{name} [{mode.value}]"), float(batch_size)


def type_word(job: Job) -> str:
    """Return a word that jobs of one type share, whatever their batches.

    Raises
    ------
    InvalidInputError
        An empty name, or a batch size below 1.
    """
    return "type " + named_job(job.job_type or "", job.batch_size, job.mode)[0]


def type_label(job: Job) -> str:
    """Return the name of a job type with its batch, as neighbours are named; 1 is not said.

    Examples
    --------
    >>> type_label(Job(job_type="LM", mode=Mode.TRAINING, batch_size=20))
    'LM (batch size 20)'
    """
    name, batch_size = named_job(job.job_type or "", job.batch_size, job.mode)
    return name if batch_size == 1 else f"{name} (batch size {batch_size:.0f})"


def own_batch(job: Job) -> int:
    """Return the batch of a job, which may stand in its name."""
    if job.job_type is None:
        return job.batch_size
    return int(named_job(job.job_type, job.batch_size, job.mode)[1])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
