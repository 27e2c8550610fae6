r"""Peak memory of one accelerator, whether it fits, and how likely it runs out.

The tensors of a step are counted by liveness (:mod:`.liveness`), divided by a
plan (:mod:`.memory_parts`) and surrounded by what framework and allocator hold
(:mod:`.memory_demand`). That demand ``D`` is what a device with room to spare
would show. Of it ``S`` is certain: parameters, gradients and optimizer state are counted to the
byte, and nothing gives them back. A full device makes the allocator give back what it has cached,
so that a part ``n`` of the rest is enough, and the logarithm of what the rest truly needs is off by
a normal residual:

.. math::

    P(\text{runs out}) = \Phi\Bigl(\frac{1}{\sigma}
    \ln\frac{n (D - S)}{\mathrm{capacity} - S}\Bigr)

with ``n`` and ``sigma`` fitted on runs that ran and on runs that ran out; 1 where ``S`` alone is
more than there is. A step fits where that is one half at most.

The residual is the job's. Where a step of it ran whose need exceeds its room by ``z`` deviations
(the argument of ``Phi``), the residual is at most ``-z``; where one ran out that exceeds it by
``w``, it is above ``-w``. A ``z`` above 0 says that the job is counted too high by that much, a
``w`` below 0 too low, and the residual is one around it. Of a step that exceeds its room by ``x``
deviations

.. math::

    P(\text{runs out}) = 1 - \frac{\Phi(m - x) - \Phi(m - w)}{\Phi(m - z) - \Phi(m - w)},
    \quad m = \min(\max(z, 0), w)

or 0 where ``x`` is not above ``z``, and 1 where it is not below ``w``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.client.answers import Memory
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.placement.memory.liveness import lifetimes
from perfmodel.placement.memory.memory_demand import (
    JobConstants,
    constants_for,
    demand_bytes,
    overhead,
)
from perfmodel.placement.memory.memory_parts import MemoryParts, MemoryPlan, memory_parts
from perfmodel.placement.memory.memory_profile import MemoryProfile, tensors_of
from perfmodel.placement.topology.topology import Offload, Plan
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Mode, Precision

#: Types whose weights take a byte each in inference.
_EIGHT_BITS = frozenset({Precision.INT8, Precision.FP8})

#: Bytes of one score of a word: in 16 bits with its gradient, and both again in fp32.
_WORD_BYTES = 12.0

#: Residuals that many deviations away from the edge are no longer called uncertain.
_CLEAR = 4.0

#: Deviations that stand for no room at all.
_NO_ROOM = 25.0


class ExcessBounds(NamedTuple):
    """By how many deviations steps of a job exceed their room, as far as they were observed.

    Parameters
    ----------
    ran : float
        Those that ran, at most.
    ran_out : float
        Those that ran out of memory, at least; above ``ran``.
    """

    ran: float = -math.inf
    ran_out: float = math.inf


#: Of a job of which no step was observed.
UNBOUNDED = ExcessBounds()


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryColumns:
    """Memory of one accelerator in many cells.

    Parameters
    ----------
    demand_bytes : ndarray, shape (cells,)
        What it would show with room to spare.
    certain_bytes : ndarray, shape (cells,)
        The part of it that nothing gives back.
    capacity_bytes, full_bytes : ndarray, shape (cells,)
        What there is, and what a monitor shows of it at most.
    need_share : ndarray, shape (cells,)
        The part of the rest that is enough.
    deviation : float
        Of the logarithm of what the rest needs, > 0.
    bounds : ExcessBounds
        What was observed of the job.
    """

    demand_bytes: FloatArray
    certain_bytes: FloatArray
    capacity_bytes: FloatArray
    full_bytes: FloatArray
    need_share: FloatArray
    deviation: float
    bounds: ExcessBounds = UNBOUNDED

    @cached_property
    def excess(self) -> FloatArray:
        """By how many deviations what is needed exceeds the room, shape (cells,).

        Where there is no room at all, what is certain was counted wrong if the step ran; more of
        it is no likelier to.
        """
        need_bytes = (self.demand_bytes - self.certain_bytes) * self.need_share
        room_bytes = self.capacity_bytes - self.certain_bytes
        excess = excess_of(need_bytes, room_bytes, self.deviation)
        over = np.log((self.certain_bytes + need_bytes) / self.capacity_bytes) / self.deviation
        return np.where(excess < _NO_ROOM, excess, _NO_ROOM + over)

    @property
    def filled(self) -> FloatArray:
        """How many times the room what is needed takes, shape (cells,)."""
        return np.exp(self.excess * self.deviation)

    @cached_property
    def oom_probability(self) -> FloatArray:
        """How likely each step runs out of memory, shape (cells,)."""
        return oom_probability(self.excess, self.bounds)

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Whether each step is more likely to run than not, shape (cells,)."""
        return self.oom_probability <= 0.5

    @property
    def peak_bytes(self) -> FloatArray:
        """What the device shows at most; above its capacity where the step does not fit."""
        # What was counted too high and ran leaves nothing for others, as far as anyone knows.
        most = np.where(self.excess <= 0, self.full_bytes, self.capacity_bytes)
        return np.where(
            self.fits,
            np.minimum(self.demand_bytes, most),
            np.maximum(self.demand_bytes, self.capacity_bytes),
        )

    def within(self, bounds: ExcessBounds) -> MemoryColumns:
        """Return the same under what was observed of the job; what was asked for last is kept."""
        if bounds == self.bounds:
            return self
        kept: MemoryColumns | None = self.__dict__.get("_within")
        if kept is None or kept.bounds != bounds:
            kept = self.__dict__["_within"] = replace(self, bounds=bounds)
        return kept

    @cached_property
    def first(self) -> Memory:
        """What is said of the first cell; single ones are asked about again and again."""
        return Memory(
            peak_bytes=float(self.peak_bytes[0]),
            capacity_bytes=float(self.capacity_bytes[0]),
            fits=bool(self.fits[0]),
            oom_probability=float(self.oom_probability[0]),
        )

    @property
    def room_bytes(self) -> FloatArray:
        """By how much the demand may grow until the step does not fit; below 0 if it does not."""
        room_bytes = self.capacity_bytes - self.certain_bytes
        if self.bounds != UNBOUNDED:
            room_bytes = room_bytes * math.exp(self.deviation * _excess_at_the_edge(self.bounds))
        return room_bytes / self.need_share + self.certain_bytes - self.demand_bytes


def memory_columns(
    parts: MemoryParts,
    accelerators: Sequence[AcceleratorSpec],
    *,
    constants: JobConstants | None = None,
    replicas: npt.ArrayLike = 1.0,
) -> MemoryColumns:
    """Return the memory of a job's step on many accelerators or under many plans.

    Parameters
    ----------
    parts : MemoryParts
        What of its tensors lies on one of them; from :func:`.memory_parts`.
    constants : JobConstants or None
        Of the job; None: nothing is known of it.
    replicas : array_like
        Data-parallel replicas of each cell.
    """
    constants = constants or constants_for(None)
    cells, known = len(accelerators), constants.fitted
    around = overhead(accelerators, constants, replicas)
    demand = np.broadcast_to(demand_bytes(parts, around), (cells,))
    capacity = np.array([spec.memory_bytes for spec in accelerators], dtype=np.float64)
    return MemoryColumns(
        demand_bytes=demand,
        certain_bytes=np.broadcast_to(parts.certain_bytes, (cells,)),
        capacity_bytes=capacity,
        full_bytes=np.where(around.has_allocator, known["full_share"], 1.0) * capacity,
        need_share=np.where(around.has_allocator, known["need_share"], 1.0),
        deviation=known["deviation"],
    )


def memory_estimate(
    profile: MemoryProfile | float, accelerator: AcceleratorSpec, *, job: Job | None = None
) -> Memory:
    """Return the memory of a job's step alone on an accelerator; as :func:`memory_cell`."""
    return memory_cell(profile, accelerator, job=job).first


def memory_cell(
    profile: MemoryProfile | float,
    accelerator: AcceleratorSpec,
    *,
    job: Job | None = None,
    constants: JobConstants | None = None,
    plan: Plan | None = None,
    shape: TransformerShape | None = None,
) -> MemoryColumns:
    """Return the memory of a job's step on one of some accelerators, as a single cell.

    Parameters
    ----------
    profile : MemoryProfile or float
        A number is the peak of the tensors, where nothing more is known of them.
    job : Job or None
        Tells workload, precision and software.
    constants : JobConstants or None
        Of the job; None: worked out here.
    plan : Plan or None
        With its degree of data parallelism; None: one accelerator.
    shape : TransformerShape or None
        Dimensions of its model, where they were read off its graph.
    """
    if not isinstance(profile, MemoryProfile):
        profile = tensors_of(profile)
    degrees = memory_plan(plan, 1, job)
    if degrees.expert != 1.0 and shape is not None:
        degrees = replace(degrees, expert_share=share_of_experts(shape))
    if job is not None and Offload.ACTIVATIONS in degrees.offload:
        degrees = replace(degrees, activation_share=activation_share(job, profile, shape))
    known = constants or constants_for(job)
    parts = memory_parts(profile, degrees)
    return memory_columns(parts, [accelerator], constants=known, replicas=degrees.data)


def memory_plan(plan: Plan | None, accelerator_count: int, job: Job | None = None) -> MemoryPlan:
    """Return the degrees of a plan on some accelerators.

    Parameters
    ----------
    plan : Plan or None
        None: data parallel.
    accelerator_count : int
        What ``plan.data`` is taken from where it says None.
    job : Job or None
        Its accumulation steps are the micro-batches of a pipeline.
    """
    plan = plan or Plan()
    others = plan.tensor * plan.pipeline * plan.context
    return MemoryPlan(
        data=float(plan.data or max(1, accelerator_count // others)),
        tensor=float(plan.tensor),
        pipeline=float(plan.pipeline),
        context=float(plan.context),
        expert=float(plan.expert),
        expert_share=expert_share(job) if plan.expert > 1 else 0.0,
        zero_stage=float(plan.zero_stage),
        sequence_parallel=plan.sequence_parallel,
        micro_batches=1.0 if job is None else float(job.accumulation_steps),
        schedule=plan.schedule,
        virtual_stages=float(plan.virtual_stages),
        **kept_otherwise(plan, job),
        has_copies=job is not None and has_copies(job),
    )


def has_copies(job: Job) -> bool:
    """Tell whether a step keeps its parameters in 16 bits until the backward pass.

    Those of layers that are computed again are cast again.
    """
    if job.mode is not Mode.TRAINING or job.activation_checkpointing:
        return False
    return job.arithmetic.is_autocast


def kept_otherwise(plan: Plan | None, job: Job | None) -> dict[str, Any]:
    """Return fields of a :class:`MemoryPlan`: what is kept elsewhere or in other types than usual.

    Parameters
    ----------
    plan : Plan or None
        None: shards and places are the usual ones.
    """
    mixed = None if job is None else job.mixed_precision
    said: dict[str, Any] = {}
    if plan is not None:
        said |= {"replicate": float(plan.replicate), "offload": plan.offload}
    if job is not None and job.mode is Mode.INFERENCE and job.precision in _EIGHT_BITS:
        # The graph has them in 16 bits, what runs in 8.
        said["kept"] = 0.5
    if mixed is not None:
        said |= {"kept": mixed.kept_over_computed, "buffers": mixed.buffers_over_computed}
    return said


def activation_share(
    job: Job, profile: MemoryProfile, shape: TransformerShape | None = None
) -> float:
    r"""Return what is left of a step's activations where those of layers that wait are offloaded.

    Two of l layers, and the scores of the words, which no layer holds.

    Parameters
    ----------
    shape : TransformerShape or None
        Dimensions of the model; None: those that its name or config tells.

    Returns
    -------
    float
        Share of the peak, in (0, 1]; 1 where the layers of the model are not known.
    """
    shape = shape or transformer_shape(job)
    most = float(profile.activation_corners.max(initial=0.0))
    if shape is None or most <= 0:
        return 1.0
    words = _WORD_BYTES * job.batch_size * shape.sequence_length * shape.vocabulary
    beside = min(words * shape.has_head / most, 0.9)
    return beside + (1.0 - beside) * min(1.0, 2.0 / shape.layers)


def expert_share(job: Job | None) -> float:
    """Return the part of the parameters of a job that belongs to experts.

    Parameters
    ----------
    job : Job or None
        Of a model whose dimensions its name or config tells; 0 for others.
    """
    return share_of_experts(None if job is None else transformer_shape(job))


def share_of_experts(shape: TransformerShape | None) -> float:
    """Return the part of the parameters of a model that belongs to experts; 0 where not known."""
    if shape is None or shape.experts == 1:
        return 0.0
    layers = shape.mixture_share * shape.layers
    experts = layers * shape.experts * shape.expert_parameters
    return experts / shape.parameter_count


def excess_of(need_bytes: FloatArray, room_bytes: FloatArray, deviation: float) -> FloatArray:
    """Return by how many deviations a need exceeds the room for it, 25 at most.

    Parameters
    ----------
    need_bytes : ndarray, shape (cells,)
        > 0.
    room_bytes : ndarray, shape (cells,)
        Where it is not above 0, there is none.
    deviation : float
        Of the logarithm of the need, > 0.

    Examples
    --------
    >>> excess_of(np.array([8.0, 1.0]), np.array([8.0, -2.0]), 0.1).tolist()
    [0.0, 25.0]
    """
    room = np.maximum(room_bytes, need_bytes * math.exp(-_NO_ROOM * deviation))
    return np.minimum(np.log(need_bytes / room) / deviation, _NO_ROOM)


def oom_probability(excess: FloatArray, bounds: ExcessBounds = UNBOUNDED) -> FloatArray:
    """Return how likely a need is above the room for it, 0 or 1 where it is clear.

    Parameters
    ----------
    excess : ndarray, shape (cells,)
        Deviations by which the need exceeds the room; from :func:`excess_of`.
    bounds : ExcessBounds
        By how many it did in observed steps of the job.

    Examples
    --------
    >>> oom_probability(np.array([-9.0, 0.0, 9.0])).tolist()
    [0.0, 0.5, 1.0]
    >>> oom_probability(np.array([2.0, 8.0]), ExcessBounds(ran=2.0)).tolist()
    [0.0, 1.0]
    >>> oom_probability(np.array([-8.0, -2.0]), ExcessBounds(ran_out=-2.0)).tolist()
    [0.0, 1.0]
    """
    middle, ran_at_all, out_at_all = _left(bounds)
    least, most = max(bounds.ran, middle - _CLEAR), min(bounds.ran_out, middle + _CLEAR)
    left = max(ran_at_all - out_at_all, sys.float_info.min)
    inside = [
        1.0 - (_beyond(x - middle) - out_at_all) / left for x in excess.clip(least, most).tolist()
    ]
    return np.where(excess > most, 1.0, np.where(excess <= least, 0.0, inside))


def _excess_at_the_edge(bounds: ExcessBounds) -> float:
    """Return the excess at which a step is as likely to run as not."""
    middle, ran_at_all, out_at_all = _left(bounds)
    return middle - NormalDist().inv_cdf((ran_at_all + out_at_all) / 2)


def _left(bounds: ExcessBounds) -> tuple[float, float, float]:
    """Return the middle of the normal law that is left, and how much of it lies below each end."""
    middle = min(max(bounds.ran, 0.0), bounds.ran_out)
    return middle, _beyond(bounds.ran - middle), _beyond(bounds.ran_out - middle)


def _beyond(deviations: float) -> float:
    """Return the chance that a normal residual is larger."""
    return 0.5 * math.erfc(deviations / math.sqrt(2))


def peak_tensor_bytes(graph: Graph) -> float:
    """Return the most bytes that the tensors of a step alone occupy at one time."""
    if not graph.tensors:
        return 0.0
    lives = lifetimes(graph)
    return float(lives.occupied(np.ones(len(lives.held), dtype=np.bool_)).max())
