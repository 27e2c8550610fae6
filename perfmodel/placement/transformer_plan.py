r"""Time of one training step of a GPT under a parallel plan, from its dimensions.

The model is that of Megatron: l layers of width h with a heads over s tokens and V words, split
over t (tensor), p (pipeline) and d (data) accelerators; n micro-batches of b sequences for each
replica. With b s = r tokens of a micro-batch::

    step   = n head + (n + p - 1) (l / p) layer                       (1F1B)
             + 2 (n + p - 1) send + update + gradients + overhead

The last stage has the output layer beside its layers and sets the pace: each of the n - 1 further
micro-batches takes its time, and the first one passes through all stages. The bubble is
``(p - 1) (l / p) layer``.

A layer of one micro-batch is as slow as the device or as the host that launches its kernels::

    layer  = max(compute + reduce, launch)
    compute = k (24 r h^2 / t) / (e_g F)       products with the weights (QKV 3, out 1, MLP 8)
            + k (4 r s h / t) / (e_a F)        scores and their product with the values
            + k 6 c                            start and tail of six products
            + k q_h 2 r h (1 + 1/t)/2 / W      activations: half of them are split
            + k q_a 2 b a s^2 / t / W          scores in fp16
    reduce = j (c_r log2 t + 2 (t-1)/t 2 r h / (e_l N))     ring all-reduce, t > 1
    launch = c_1 + j c_2 log2 t

where F, W and N are the peak rate, the memory bandwidth and the link bandwidth (one direction);
k = 3 passes, one forward and two for the gradients, and 4 where activations are recomputed;
j = 4 all-reduces, and 6 where they are recomputed. And::

    head      = max(3 (2 r h V / t) / (e_h F) + q_v 2 r V / t / W, c_h)
    update    = q_u (params of a rank) / W                   Adam with fp32 copies, in bytes
    gradients = 2 (d-1)/d 2 (params of a rank) / (e_l N) + c_d        fp16, d > 1
    send      = c_p + 2 r h / (e_l N)                        p > 1

with ``params of a rank = (12 h^2 l / p + h V) / t``.

Left out: overlap of communication with arithmetic, links between hosts, sharding of the
optimizer, interleaved schedules, context and expert parallelism.

Reference: Shoeybi et al., Megatron-LM, 2019 (splitting); Narayanan et al., Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM, 2021 (1F1B, FLOPs, recomputation);
Thakur et al., Optimization of Collective Communication Operations in MPICH, 2005 (ring).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, InvalidPlacementError
from perfmodel.placement.topology import Plan
from perfmodel.types import Precision

FloatArray = npt.NDArray[np.float64]

#: Words that Megatron pads GPT-2's 50,257 to.
VOCABULARY = 51200
_HALF_BYTES = 2
_PRODUCTS = 6  # QKV, scores, values, out, and two of the MLP


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerPlan:
    """One training step: a GPT, its batch, its plan and the device.

    Parameters
    ----------
    layers, hidden_size, heads, sequence_length, vocabulary : int
        Dimensions of the model.
    micro_batch : int
        Sequences of a micro-batch of one replica, >= 1.
    micro_batches : int
        Micro-batches of a replica and step, >= 1.
    tensor, pipeline, data : int
        Degrees, >= 1; ``pipeline`` divides the layers.
    recomputes : bool
        Activations are recomputed in the backward pass.
    peak_flops : float
        Peak rate of matrix work in FLOP/s.
    memory_bytes_per_s, link_bytes_per_s : float
        Bandwidth of the memory, and of one device to its neighbours in one direction.

    Raises
    ------
    InvalidInputError
        A number that is not above zero.
    InvalidPlacementError
        Stages that do not divide the layers.
    """

    layers: int
    hidden_size: int
    heads: int
    sequence_length: int
    micro_batch: int
    micro_batches: int
    peak_flops: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    vocabulary: int = VOCABULARY
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    recomputes: bool = False

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "recomputes" and not 0 < value < float("inf"):
                raise InvalidInputError(f"{one.name} of a plan must be above 0; got {value}.")
        if self.layers % self.pipeline:
            raise InvalidPlacementError(
                f"{self.layers} layers do not divide into {self.pipeline} pipeline stages.",
                pointer="/placement/plan/pipeline",
            )

    @classmethod
    def of(
        cls,
        accelerator: AcceleratorSpec,
        plan: Plan,
        *,
        layers: int,
        hidden_size: int,
        heads: int,
        sequence_length: int,
        micro_batch: int,
        micro_batches: int,
        vocabulary: int = VOCABULARY,
        precision: Precision = Precision.FP16,
        recomputes: bool = False,
    ) -> TransformerPlan:
        """Return the step of a plan on an accelerator of the catalogue.

        Raises
        ------
        InvalidPlacementError
            No bandwidth of links in the catalogue, or a plan without a degree of data parallelism.
        """
        if accelerator.link_bandwidth_bytes_per_s is None:
            raise InvalidPlacementError(f"The catalogue states no links of {accelerator.name}.")
        if plan.data is None:
            raise InvalidPlacementError("The plan states no degree of data parallelism.")
        return cls(
            layers=layers,
            hidden_size=hidden_size,
            heads=heads,
            sequence_length=sequence_length,
            vocabulary=vocabulary,
            micro_batch=micro_batch,
            micro_batches=micro_batches,
            tensor=plan.tensor,
            pipeline=plan.pipeline,
            data=plan.data,
            recomputes=recomputes,
            peak_flops=accelerator.flops_per_s(precision),
            memory_bytes_per_s=accelerator.bandwidth_bytes_per_s,
            link_bytes_per_s=accelerator.link_bandwidth_bytes_per_s,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTable:
    """Columns of many plans; each of shape (plans,), named as in :class:`TransformerPlan`."""

    layers: FloatArray
    hidden_size: FloatArray
    heads: FloatArray
    sequence_length: FloatArray
    vocabulary: FloatArray
    micro_batch: FloatArray
    micro_batches: FloatArray
    tensor: FloatArray
    pipeline: FloatArray
    data: FloatArray
    recomputes: FloatArray
    peak_flops: FloatArray
    memory_bytes_per_s: FloatArray
    link_bytes_per_s: FloatArray

    @classmethod
    def of(cls, plans: Sequence[TransformerPlan]) -> PlanTable:
        """Return the columns of some plans."""
        return cls(
            **{
                one.name: np.array([getattr(plan, one.name) for plan in plans], dtype=np.float64)
                for one in fields(cls)
            }
        )

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> PlanTable:
        """Return some of the plans, by a mask or by positions."""
        return PlanTable(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def __len__(self) -> int:
        """Return the number of plans."""
        return len(self.layers)

    @property
    def tokens(self) -> FloatArray:
        """Tokens of a micro-batch of one replica."""
        return self.micro_batch * self.sequence_length

    @property
    def passes(self) -> FloatArray:
        """Work of a layer in forward passes: 3, or 4 with recomputation."""
        return 3.0 + self.recomputes

    @property
    def reductions(self) -> FloatArray:
        """All-reduces of a layer and micro-batch between the ranks of a tensor split."""
        return np.where(self.tensor > 1, 4.0 + 2.0 * self.recomputes, 0.0)

    @property
    def rank_parameters(self) -> FloatArray:
        """Parameters that one rank holds."""
        blocks = 12.0 * self.hidden_size**2 * self.layers / self.pipeline
        return (blocks + self.hidden_size * self.vocabulary) / self.tensor

    @property
    def model_flops(self) -> FloatArray:
        """Arithmetic of a whole step without recomputation, over all replicas.

        :math:`3 n d r (24 l h^2 + 4 l s h + 2 h V)`
        """
        h, s = self.hidden_size, self.sequence_length
        token = self.layers * (24 * h**2 + 4 * s * h) + 2 * h * self.vocabulary
        return 3.0 * self.micro_batches * self.data * self.tokens * token

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of the plan."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanConstants:
    """What the equations leave open; the defaults are where a fit begins.

    Names of the equations stand in brackets. The defaults are counted where that is possible:
    outside of products a forward pass reads and writes the activations 18 times (two norms twice
    each, two dropouts with residual three times, GELU over four widths twice) and the scores six
    times (softmax, dropout and the products around them). Large products reach some 0.86 of the
    peak of an A100.

    Parameters
    ----------
    weight_efficiency, score_efficiency, head_efficiency, link_efficiency : float
        Shares of the peak that large enough work reaches, in (0, 1) [e_g, e_a, e_h, e_l].
    product_latency_s : float
        Start and tail of one product [c].
    activation_passes, score_passes, head_passes : float
        How often a tensor goes through memory in one pass [q_h, q_a] or in all [q_v].
    layer_launch_s, reduce_launch_s, head_launch_s : float
        Time of the host for the kernels of a layer, an all-reduce, the output [c_1, c_2, c_h].
    reduce_latency_s, send_latency_s, gradient_latency_s : float
        Latencies [c_r, c_p, c_d].
    update_bytes : float
        Memory traffic of the optimizer for one parameter [q_u].
    overhead_s : float
        Once a step.
    """

    weight_efficiency: float = 0.86
    score_efficiency: float = 0.6
    head_efficiency: float = 0.6
    link_efficiency: float = 0.6
    product_latency_s: float = 1e-5
    activation_passes: float = 18.0
    score_passes: float = 6.0
    head_passes: float = 10.0
    layer_launch_s: float = 3e-3
    reduce_launch_s: float = 5e-5
    head_launch_s: float = 3e-3
    reduce_latency_s: float = 3e-5
    send_latency_s: float = 5e-5
    gradient_latency_s: float = 1e-3
    update_bytes: float = 30.0
    overhead_s: float = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTimes:
    """Parts of a step, each of shape (plans,), in seconds; ``step_time_s`` is their sum.

    Parameters
    ----------
    layers_s : ndarray
        Layers on the critical path, bubble included.
    bubble_s : ndarray
        Part of them that a pipeline of one stage would not have.
    head_s, sends_s, update_s, gradients_s, overhead_s : ndarray
    layer_compute_s, layer_launch_s : ndarray
        One layer of one micro-batch by the device, and by the host.
    """

    layers_s: FloatArray
    bubble_s: FloatArray
    head_s: FloatArray
    sends_s: FloatArray
    update_s: FloatArray
    gradients_s: FloatArray
    overhead_s: FloatArray
    layer_compute_s: FloatArray
    layer_launch_s: FloatArray

    @property
    def step_time_s(self) -> FloatArray:
        """Time of the whole step."""
        return (
            self.layers_s
            + self.head_s
            + self.sends_s
            + self.update_s
            + self.gradients_s
            + self.overhead_s
        )


def plan_times(plans: PlanTable, constants: PlanConstants) -> PlanTimes:
    """Return the time of every plan, by parts.

    Parameters
    ----------
    plans : PlanTable
    constants : PlanConstants

    Returns
    -------
    PlanTimes

    Examples
    --------
    Two stages and four micro-batches: five slots of half the layers instead of four of all.

    >>> one = dict(layers=8, hidden_size=512, heads=8, sequence_length=256, micro_batch=1,
    ...            peak_flops=1e14, memory_bytes_per_s=1e12, link_bytes_per_s=1e11)
    >>> plans = PlanTable.of([TransformerPlan(**one, micro_batches=4),
    ...                       TransformerPlan(**one, micro_batches=4, pipeline=2)])
    >>> whole, split = plan_times(plans, PlanConstants()).layers_s
    >>> float(split / whole) == 5 / 8
    True
    """
    compute = layer_compute_s(plans, constants) + layer_reduce_s(plans, constants)
    launch = layer_launch_s(plans, constants)
    slot = plans.layers / plans.pipeline * np.maximum(compute, launch)
    slots = plans.micro_batches + plans.pipeline - 1
    return PlanTimes(
        layers_s=slots * slot,
        bubble_s=(plans.pipeline - 1) * slot,
        head_s=plans.micro_batches * head_s(plans, constants),
        sends_s=np.where(plans.pipeline > 1, 2 * slots * send_s(plans, constants), 0.0),
        update_s=plans.rank_parameters * constants.update_bytes / plans.memory_bytes_per_s,
        gradients_s=gradients_s(plans, constants),
        overhead_s=np.full(len(plans), constants.overhead_s),
        layer_compute_s=compute,
        layer_launch_s=launch,
    )


def layer_compute_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the arithmetic and memory time of one layer of one micro-batch."""
    h, s, t = plans.hidden_size, plans.sequence_length, plans.tensor
    weights = 24 * plans.tokens * h**2 / t / (constants.weight_efficiency * plans.peak_flops)
    scores = 4 * plans.tokens * s * h / t / (constants.score_efficiency * plans.peak_flops)
    activations = _HALF_BYTES * plans.tokens * h * (1 + 1 / t) / 2
    score_bytes = _HALF_BYTES * plans.micro_batch * plans.heads * s**2 / t
    traffic = constants.activation_passes * activations + constants.score_passes * score_bytes
    latency = _PRODUCTS * constants.product_latency_s
    return plans.passes * (weights + scores + latency + traffic / plans.memory_bytes_per_s)


def layer_reduce_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the all-reduces of one layer of one micro-batch over a tensor split."""
    t = plans.tensor
    payload = 2 * (t - 1) / t * _HALF_BYTES * plans.tokens * plans.hidden_size
    ring = payload / (constants.link_efficiency * plans.link_bytes_per_s)
    return plans.reductions * (constants.reduce_latency_s * np.log2(t) + ring)


def layer_launch_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the time of the host for the kernels of one layer of one micro-batch."""
    return constants.layer_launch_s + (
        plans.reductions * constants.reduce_launch_s * np.log2(plans.tensor)
    )


def head_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the output layer and the loss of one micro-batch."""
    scores = plans.tokens * plans.vocabulary / plans.tensor
    products = 6 * scores * plans.hidden_size / (constants.head_efficiency * plans.peak_flops)
    traffic = constants.head_passes * _HALF_BYTES * scores / plans.memory_bytes_per_s
    return np.maximum(products + traffic, constants.head_launch_s)


def send_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the send of one micro-batch to the next stage."""
    payload = _HALF_BYTES * plans.tokens * plans.hidden_size
    rate = constants.link_efficiency * plans.link_bytes_per_s
    return constants.send_latency_s + payload / rate


def gradients_s(plans: PlanTable, constants: PlanConstants) -> FloatArray:
    """Return the all-reduce of the gradients over the replicas."""
    d = plans.data
    payload = 2 * (d - 1) / d * _HALF_BYTES * plans.rank_parameters
    ring = payload / (constants.link_efficiency * plans.link_bytes_per_s)
    return np.where(d > 1, ring + constants.gradient_latency_s, 0.0)
