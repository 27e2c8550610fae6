"""Columns of transformer training steps under plans: what every formula of the plans reads.

One element of every array is one step: a transformer, a batch, a plan, a device and the groups of
accelerators that communicate. A rank is one accelerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.graph.training_options.mixed_precision import NUMBER_BYTES, MixedPrecision
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.topology.topology import Plan, Schedule
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Engine, Precision

#: Codes of the schedules in columns.
SCHEDULES: tuple[Schedule, ...] = tuple(Schedule)


class Checkpointing(IntEnum):
    """Which activations are computed again in the backward pass."""

    NONE = 0
    #: The scores of attention alone.
    SELECTIVE = 1
    #: Everything but the input of each layer.
    FULL = 2


class Attention(IntEnum):
    """How the scores of attention are computed."""

    #: They are written to memory, the whole square.
    WRITTEN = 0
    #: They stay on the chip; single warps feed its matrix units.
    BY_WARPS = 1
    #: They stay on the chip; groups of warps feed its units, and pass over the masked half.
    BY_WARP_GROUPS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChoice:
    """A plan with the batch that it is carried out on.

    Parameters
    ----------
    plan : Plan
        With a degree of data parallelism.
    micro_batch : int
        Samples of a micro-batch of one replica, >= 1.
    micro_batches : int
        Micro-batches of a replica and step, >= 1.

    Raises
    ------
    InvalidPlacementError
        A plan without a degree of data parallelism, or numbers below 1.
    """

    plan: Plan
    micro_batch: int
    micro_batches: int
    checkpointing: Checkpointing = Checkpointing.NONE

    def __post_init__(self) -> None:
        if self.plan.data is None:
            raise InvalidPlacementError(
                "The plan states no degree of data parallelism.", pointer="/placement/plan/data"
            )
        if self.micro_batch < 1 or self.micro_batches < 1:
            raise InvalidPlacementError(
                f"A plan needs at least one sample and one micro-batch; got {self.micro_batch} "
                f"and {self.micro_batches}."
            )


#: What a choice says itself; its plan says the rest.
_OF_CHOICE = frozenset({"micro_batch", "micro_batches", "checkpointing"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeColumns(Columns):
    """Columns of :class:`.transformer_shape.TransformerShape`."""

    layers: FloatArray
    hidden_size: FloatArray
    heads: FloatArray
    attention_width: FloatArray
    key_value_width: FloatArray
    sequence_length: FloatArray
    vocabulary: FloatArray
    has_head: FloatArray
    attention_weights: FloatArray
    router_weights: FloatArray
    expert_weights: FloatArray
    experts: FloatArray
    experts_per_token: FloatArray
    mixture_share: FloatArray
    shared_parameters: FloatArray
    expert_parameters: FloatArray
    embedding_parameters: FloatArray
    head_parameters: FloatArray
    other_parameters: FloatArray
    shared_activation_bytes: FloatArray
    split_activation_bytes: FloatArray
    score_activation_bytes: FloatArray
    sample_flops: FloatArray

    @classmethod
    def of(cls, shapes: Sequence[TransformerShape]) -> ShapeColumns:
        """Return the columns of some transformers."""
        values = {one.name: [getattr(shape, one.name) for shape in shapes] for one in fields(cls)}
        return cls(**{name: np.array(one, dtype=np.float64) for name, one in values.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanColumns(Columns):
    """Columns of :class:`PlanChoice` and its plan; ``schedule`` is a position in SCHEDULES."""

    data: FloatArray
    tensor: FloatArray
    pipeline: FloatArray
    expert: FloatArray
    context: FloatArray
    zero_stage: FloatArray
    sequence_parallel: FloatArray
    schedule: FloatArray
    virtual_stages: FloatArray
    micro_batch: FloatArray
    micro_batches: FloatArray
    checkpointing: FloatArray
    replicate: FloatArray

    @classmethod
    def of(cls, choices: Sequence[PlanChoice]) -> PlanColumns:
        """Return the columns of some choices."""
        table: dict[str, list[Any]] = {one.name: [] for one in fields(cls)}
        for choice in choices:
            for name, column in table.items():
                column.append(getattr(choice if name in _OF_CHOICE else choice.plan, name))
        table["schedule"] = [SCHEDULES.index(schedule) for schedule in table["schedule"]]
        return cls(**{name: np.array(one, dtype=np.float64) for name, one in table.items()})

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of each plan."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def shards(self) -> FloatArray:
        """Ranks that share out what a ZeRO stage shares."""
        return self.data * self.context / self.replicate

    @property
    def samples(self) -> FloatArray:
        """Samples of a step, over all replicas."""
        return self.data * self.micro_batch * self.micro_batches


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceColumns(Columns):
    """What the formulas read of a device.

    Parameters
    ----------
    peak_flops : ndarray
        Rate of matrix work in the job's precision, FLOP/s.
    output_flops : ndarray
        The same of the output layer, which jobs in 8 bits compute in 16.
    score_flops : ndarray
        The same where single warps issue it, as attention does whose scores stay on the chip.
    core_hz : ndarray
        Cores (multiprocessors) times clock: what work on single numbers follows.
    tflops_per_w : ndarray
        Peak over power limit: how hard the limit holds matrix work back.
    reached_share : ndarray
        Of the peak, that the fastest product reached which was measured; 1 where none was.
    """

    peak_flops: FloatArray
    output_flops: FloatArray
    score_flops: FloatArray
    memory_bytes_per_s: FloatArray
    memory_bytes: FloatArray
    core_hz: FloatArray
    tflops_per_w: FloatArray
    reached_share: FloatArray

    @classmethod
    def of(
        cls, accelerators: Sequence[AcceleratorSpec], precisions: Sequence[Precision]
    ) -> DeviceColumns:
        """Return the columns of some devices at some precisions."""
        rates = [a.flops_per_s(p) for a, p in zip(accelerators, precisions, strict=True)]
        fastest = [a.fastest_share(p) for a, p in zip(accelerators, precisions, strict=True)]
        watts = [_watts(a) for a in accelerators]
        by_warps = [_warp_flops(a) for a in accelerators]
        in_16 = [Precision.BF16 if p is Precision.FP8 else p for p in precisions]
        wide = [a.flops_per_s(p) for a, p in zip(accelerators, in_16, strict=True)]
        return cls(
            peak_flops=np.array(rates, dtype=np.float64),
            output_flops=np.array(wide, dtype=np.float64),
            # Scores are computed in 16 bits too.
            score_flops=np.minimum(wide, by_warps),
            core_hz=np.array([_core_hz(a) for a in accelerators]),
            tflops_per_w=np.array(rates, dtype=np.float64) / 1e12 / np.array(watts),
            reached_share=np.array(fastest),
            memory_bytes_per_s=np.array([a.bandwidth_bytes_per_s for a in accelerators]),
            memory_bytes=np.array([a.memory_bytes for a in accelerators]),
        )


def _core_hz(accelerator: AcceleratorSpec) -> float:
    if accelerator.core_count and accelerator.clock_hz:
        return accelerator.core_count * accelerator.clock_hz
    # A core of a GPU adds and multiplies 64 to 128 numbers in a cycle.
    return accelerator.flops_per_s(Precision.FP32, Engine.VECTOR) / 256


def _warp_flops(accelerator: AcceleratorSpec) -> float:
    """Return what the matrix units do at the instructions of single warps, FLOP/s.

    The units of Ampere take all that they can do that way. Since Hopper groups of warps feed them
    twice to four times as much, which products do and attention kernels before 2024 do not.
    """
    if accelerator.vendor != "NVIDIA":
        return float("inf")
    return _WARP_FLOPS_PER_CYCLE * _core_hz(accelerator)


def _watts(accelerator: AcceleratorSpec) -> float:
    # Where no limit is stated it is taken to hold back as little as that of an A100.
    half = accelerator.flops_per_s(Precision.FP16)
    return accelerator.tdp_w or half / 1e12 / _USUAL_TFLOPS_PER_W


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberBytes(Columns):
    """Bytes of one number of each kind.

    Parameters
    ----------
    work : ndarray
        Of activations, and of weights as products read them.
    parameter : ndarray
        Of weights as the optimizer keeps them on the rank.
    gradient : ndarray
        As it is kept.
    reduced : ndarray
        Of a gradient on its way between replicas.
    state : ndarray
        Of the optimizer's state for one parameter.
    cast : ndarray
        Memory traffic for one input of a product that is cast for it: 8 bits are read as 16 and
        written twice, as they are and transposed for the backward pass.
    """

    work: FloatArray
    parameter: FloatArray
    gradient: FloatArray
    reduced: FloatArray
    state: FloatArray
    cast: FloatArray

    def trained(self, share: float, mixed: MixedPrecision | None = None) -> NumberBytes:
        """Return the bytes for each parameter where but a share is trained, or types are stated.

        Parameters
        ----------
        share : float
            Of the parameters, in (0, 1].
        mixed : MixedPrecision or None
            In which types they are computed with and reduced; they are kept in fp32 then.
        """
        kept = _FP32_BYTES / self.parameter if mixed else np.ones(self.parameter.shape)
        reduced = np.full(kept.shape, NUMBER_BYTES[mixed.reduce]) if mixed else self.reduced
        return replace(
            self,
            parameter=self.parameter * kept,
            gradient=share * kept * self.gradient,
            reduced=share * reduced,
            state=share * kept * self.state,
        )

    @classmethod
    def of(cls, precisions: Sequence[Precision], optimizers: Sequence[str]) -> NumberBytes:
        """Return what PyTorch keeps: ``amp_*`` and fp8 hold fp32 weights, others their own type.

        Examples
        --------
        >>> kept = NumberBytes.of([Precision.AMP_BF16, Precision.BF16], ["adamw", "sgd"])
        >>> kept.state.tolist(), kept.work.tolist()
        ([8.0, 0.0], [2.0, 2.0])
        """
        work = np.array([_WORK_BYTES.get(one, 2.0) for one in precisions])
        own = np.array([one in (Precision.FP16, Precision.BF16) for one in precisions])
        parameter = np.where(own, 2.0, 4.0)
        vectors = np.array([_STATE_VECTORS.get(one, 2.0) for one in optimizers])
        return cls(
            work=work,
            parameter=parameter,
            gradient=parameter,
            reduced=parameter,
            state=vectors * parameter,
            cast=np.array([_CAST_BYTES if one is Precision.FP8 else 0.0 for one in precisions]),
        )


_USUAL_TFLOPS_PER_W = 0.78
#: Of a multiprocessor of Ampere (GA100) in 16 bits: 1,024 products that are added up.
_WARP_FLOPS_PER_CYCLE = 2048.0
_CAST_BYTES = 2.0 + 1.0 + 1.0
_FP32_BYTES = 4.0
#: Others hold activations in 16 bits.
_WORK_BYTES = {Precision.FP32: 4.0, Precision.TF32: 4.0}
#: Vectors of the width of a parameter that an optimizer keeps. Adafactor's rows and columns of
#: second moments are next to nothing.
_STATE_VECTORS = {"sgd": 0.0, "momentum": 1.0, "adam": 2.0, "adamw": 2.0, "lamb": 2.0,
                  "adafactor": 0.0}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanGroups(Columns):
    """Accelerators that communicate with each other, by what for; one row a plan.

    Parameters
    ----------
    tensor, context, expert : CommGroups
        Ranks of one split.
    pipeline : CommGroups
        Two neighbouring stages.
    data : CommGroups
        Ranks that share out the same parameters: all that hold them, but where groups of them do.
    replicate : CommGroups
        Ranks of such groups that hold the same shard.
    expert_data : CommGroups
        All ranks that hold the same experts.
    """

    tensor: CommGroups
    context: CommGroups
    expert: CommGroups
    pipeline: CommGroups
    data: CommGroups
    replicate: CommGroups
    expert_data: CommGroups

    @classmethod
    def of(cls, fabric: Fabric, plans: Sequence[Plan]) -> PlanGroups:
        """Return the slowest groups of each dimension of some plans for one set of hosts."""
        # Plans of equal degrees have equal groups.
        degrees = [(p.data, p.tensor, p.pipeline, p.context, p.expert, p.replicate) for p in plans]
        first = dict(zip(reversed(degrees), reversed(plans), strict=True))
        place = {key: position for position, key in enumerate(first)}
        rows = np.array([place[key] for key in degrees], dtype=np.int64)
        distinct = list(first.values())
        return cls(
            **{
                name: fabric.slowest_groups(dimension, distinct).take(rows)
                for name, dimension in _DIMENSIONS.items()
            }
        )


_DIMENSIONS = {
    "tensor": Dimension.TENSOR,
    "context": Dimension.CONTEXT,
    "expert": Dimension.EXPERT,
    "pipeline": Dimension.PIPELINE,
    "data": Dimension.SHARD,
    "replicate": Dimension.REPLICATE,
    "expert_data": Dimension.EXPERT_DATA,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanCells(Columns):
    """Steps under plans, as columns of equal length.

    Parameters
    ----------
    fused_attention : ndarray
        Codes of :class:`Attention`.
    """

    shape: ShapeColumns
    plan: PlanColumns
    device: DeviceColumns
    numbers: NumberBytes
    groups: PlanGroups
    fused_attention: FloatArray

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.plan.data)

    @property
    def tokens(self) -> FloatArray:
        """Tokens of a micro-batch on one rank."""
        return self.plan.micro_batch * self.shape.sequence_length / self.plan.context

    @property
    def sequence_parts(self) -> FloatArray:
        """Parts that tensor ranks split the rows between layers into."""
        return np.where(self.plan.sequence_parallel > 0, self.plan.tensor, 1.0)

    @property
    def least_time_s(self) -> FloatArray:
        """Time below which no step can end: its arithmetic at the peak of all ranks."""
        return (
            self.plan.samples
            * self.shape.sample_flops
            / (self.plan.accelerators * self.device.peak_flops)
        )
