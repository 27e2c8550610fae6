"""The step of a replica that is split over several accelerators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.replicas import replica_parts
from perfmodel.estimator.single.plan_engine import needs_no_single, transformer_training
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.plan_steps.layer_time import MOST_EXPERTS
from perfmodel.placement.plan_steps.plan_cells import NumberBytes
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import PlanStep
from perfmodel.placement.plan_steps.stage_cut import cut_graph, cut_step_s, refuse_operator_splits
from perfmodel.placement.plans.plan_answer import (
    TransformerTraining,
    job_choice,
    plan_answer,
    with_computing,
)
from perfmodel.placement.topology.topology import BatchSplit, Plan
from perfmodel.placement.transformers.tensor_rank import rank_job, sizes_of
from perfmodel.types import Mode

#: Half width in logarithms of the time of tensor ranks in inference over that of one accelerator.
_OF_RANKS = 0.2
#: Half width in logarithms of a plan's time over that of one accelerator, of plans left out.
_OF_A_PLAN = 0.18
#: And of what the equations answer by themselves, of devices and of models left out: of dense
#: models, and of mixtures of experts, whose releases differ by as much.
_OF_EQUATIONS = {False: 0.30, True: 0.46}


def split_step(
    prepared: PreparedJob, placement: ResolvedPlacement, single_s: FloatArray, slowed: float
) -> tuple[StepParts, float]:
    """Return the steps of a job whose replicas are split, or that the equations for plans answer.

    Parameters
    ----------
    single_s : ndarray, shape (levels,)
        The step of one replica on one accelerator, all micro-batches; of tensor ranks in inference
        that of a rank.
    slowed : float
        How many times as long that takes as on accelerators that nothing limits or shares.

    Returns
    -------
    parts : StepParts
        Arrays of shape (levels,).
    half_width : float
        What the plan adds to the half width of the interval, in logarithms.

    Raises
    ------
    InvalidPlacementError
        Operators to be split of a model that is no transformer, or what no inference does.
    """
    job, plan = prepared.job, placement.fabric.plan
    if job.mode is Mode.INFERENCE:
        _refuse_in_inference(plan)
        if plan.tensor > 1:
            return _inference(prepared, placement, single_s), _OF_RANKS
        return _staged(prepared, placement, single_s), _OF_A_PLAN
    training = transformer_training(prepared)
    if training is None:
        refuse_operator_splits(plan, pointer="/placement")
        return _staged(prepared, placement, single_s), _OF_A_PLAN
    _refuse_experts(training.shape.experts, plan)
    _refuse_stages(training.shape.layers, plan)
    choices = [job_choice(job, plan)] * len(single_s)
    if needs_no_single(prepared, training.on(placement.fabric.accelerators), plan):
        steps = with_computing(plan_answer(training, placement.fabric, choices), slowed)
        half_width = _OF_EQUATIONS[training.shape.experts > 1]
    else:
        steps = plan_answer(training, placement.fabric, choices, single_s=single_s)
        half_width = _OF_A_PLAN
    return answered_parts(steps), half_width


def part_of_one(
    core: Core, prepared: PreparedJob, placement: ResolvedPlacement
) -> PreparedJob | None:
    """Return the part of a job that one accelerator of a placement is predicted to carry out.

    What a tensor rank has of it in inference; None where that is all of the job.

    Raises
    ------
    InvalidPlacementError
        A model that cannot be divided so.
    """
    if not is_carried_in_parts(prepared, placement):
        return None
    return core.prepare(rank_job(prepared.job, placement.fabric.plan.tensor))


def is_carried_in_parts(prepared: PreparedJob, placement: ResolvedPlacement) -> bool:
    """Tell whether accelerators are predicted to carry out parts of a job, not all of it."""
    return prepared.job.mode is Mode.INFERENCE and placement.fabric.plan.tensor > 1


def _inference(
    prepared: PreparedJob, placement: ResolvedPlacement, rank_s: FloatArray
) -> StepParts:
    """Return the forward pass of tensor ranks, one batch after the other through all stages.

    Ranks reduce twice a layer, gather the scores of the words, and hand on to the next stage;
    nothing is computed meanwhile.
    """
    job, plan, fabric = prepared.job, placement.fabric.plan, placement.fabric
    sizes, known = sizes_of(job), PlanConstants.fitted(Stack.TORCH)
    _refuse_stages(sizes["num_hidden_layers"], plan)
    number = NumberBytes.of([job.arithmetic], [job.optimizer]).work
    one = number * prepared.samples * (prepared.step.tokens_per_sample or 1)
    rows, ranks = one * sizes["hidden_size"], fabric.slowest_group(Dimension.TENSOR)
    reduced_s = collective_time_s(Collective.ALL_REDUCE, rows, ranks)
    gathered_s = collective_time_s(Collective.ALL_GATHER, one * sizes["vocab_size"], ranks)
    exchange_s = 2 * sizes["num_hidden_layers"] * known.reduce_factor * reduced_s + gathered_s
    if plan.pipeline > 1:
        pair = fabric.slowest_group(Dimension.PIPELINE)
        sent_s = known.send_factor * collective_time_s(Collective.SEND_RECV, rows, pair)
        exchange_s = exchange_s + (plan.pipeline - 1) * (sent_s + known.send_latency_s)
    shown_s = np.broadcast_to(exchange_s, rank_s.shape)
    return StepParts.of(rank_s, exposed_communication_s=shown_s, communication_s=shown_s)


def answered_parts(steps: PlanStep) -> StepParts:
    """Return the parts of steps that the equations for plans tell, as answers state them."""
    parts = steps.parts
    return replace(
        parts,
        # What the bound of the arithmetic adds counts as computing.
        compute_s=parts.compute_s + (steps.step_time_s - parts.step_time_s),
        # What is waited for beside messages, the launch of the last ones, is communication as well;
        # of several at a time no more counts than the step has time for.
        communication_s=np.clip(
            parts.communication_s, parts.exposed_communication_s, steps.step_time_s
        ),
    )


def split_warnings(prepared: PreparedJob, placement: ResolvedPlacement) -> tuple[str, ...]:
    """Return what a plan that splits asks for and no library would do, or no equation knows."""
    plan, said = placement.fabric.plan, []
    if prepared.job.mode is Mode.INFERENCE:
        return (ONE_BATCH_WARNING,) if plan.pipeline > 1 else ()
    is_asked = plan.tensor > 1 or prepared.has_plan_engine
    training = transformer_training(prepared) if is_asked else None
    if training is not None and training.shape.heads % plan.tensor:
        said.append(UNEVEN_HEADS_WARNING.format(training.shape.heads, plan.tensor))
    if training is not None and is_left_to_megatron(prepared, training, placement, plan):
        said.append(SPLIT_BY_MEGATRON_WARNING)
    if training is not None:
        said += experts_warnings(training, plan)
    if plan.batch_split is BatchSplit.PROPORTIONAL and len(placement.kinds) > 1:
        said.append(EQUAL_BATCHES_WARNING)
    return tuple(said)


def experts_warnings(training: TransformerTraining, plan: Plan) -> tuple[str, ...]:
    """Return what nobody knows of a split whose ranks hold more experts than any published."""
    held = training.shape.experts // plan.expert
    return (MANY_EXPERTS_WARNING.format(held),) if held > MOST_EXPERTS else ()


def is_left_to_megatron(
    prepared: PreparedJob,
    training: TransformerTraining,
    placement: ResolvedPlacement,
    plan: Plan,
) -> bool:
    """Tell whether a plan is answered as Megatron carries it out, and nobody said that it does."""
    on_these = training.on(placement.fabric.accelerators)
    return training.stack is Stack.TORCH and needs_no_single(prepared, on_these, plan)


#: What splits replicas in training alone, and what it is in inference.
_IN_INFERENCE = (("context", 1), ("expert", 1), ("zero_stage", 0), ("sequence_parallel", False))


def _refuse_in_inference(plan: Plan) -> None:
    """Refuse what splits a replica in training alone."""
    for word, usual in _IN_INFERENCE:
        if getattr(plan, word) != usual:
            raise InvalidPlacementError(
                f"{word} of a split replica is answered in training; in inference it is {usual:d}. "
                "Ask for tensor, pipeline and data.",
                pointer=f"/placement/plan/{word}",
            )


def _refuse_stages(layers: int, plan: Plan) -> None:
    """Refuse more chunks of a pipeline than there are layers to cut.

    Where stages hold several chunks, the token table and the output layer may be a chunk each, as
    Megatron counts them: 126 layers go in 128 chunks.
    """
    chunks = plan.pipeline * plan.virtual_stages
    if chunks <= layers + (2 if plan.virtual_stages > 1 else 0):
        return
    chunked = f" x virtual_stages {plan.virtual_stages}" if plan.virtual_stages > 1 else ""
    raise InvalidPlacementError(
        f"pipeline {plan.pipeline}{chunked} needs {chunks} layers at least; this model has "
        f"{layers}. Ask for fewer stages.",
        pointer="/placement/plan/pipeline",
    )


def _refuse_experts(experts: int, plan: Plan) -> None:
    """Refuse to spread experts that a model does not have, or not evenly."""
    if experts % plan.expert == 0:
        return
    found = f"has {experts} in a layer" if experts > 1 else "has none: each token passes all of it"
    allowed = [str(n) for n in range(1, experts + 1) if experts % n == 0]
    raise InvalidPlacementError(
        f"expert is {plan.expert}, but the experts of this model cannot be spread over so many: it "
        f"{found}. Choose among {', '.join(allowed)}, or leave expert out.",
        pointer="/placement/plan/expert",
        allowed=tuple(allowed),
    )


def _staged(prepared: PreparedJob, placement: ResolvedPlacement, single_s: FloatArray) -> StepParts:
    """Cut the graph of any model into pipeline stages; replicas of the pipeline share gradients."""
    job, plan, fabric = prepared.job, placement.fabric.plan, placement.fabric
    cut = cut_graph(prepared.step.graph, plan.pipeline)
    pair = fabric.slowest_group(Dimension.PIPELINE)
    each = [cut_step_s(cut, plan, float(s), job.accumulation_steps, pair) for s in single_s]
    return replica_parts(
        [np.array(each)],
        fabric.slowest_group(Dimension.DATA),
        prepared.step.buckets,
        mode=job.mode,
        zero_stage=plan.zero_stage,
        accumulation_steps=job.accumulation_steps,
        straggler=prepared.straggler,
    )


#: Said where stages of a pipeline wait for each other.
ONE_BATCH_WARNING = (
    "One batch passes all stages before the next one: with as many in flight as there are stages, "
    "up to as many times the throughput is reached, at the same time of a step."
)

#: Said where tensor ranks cannot have whole heads each.
UNEVEN_HEADS_WARNING = (
    "{0} heads are not divided evenly by {1} tensor ranks: libraries refuse that, and the answer "
    "is for equal parts."
)

#: Said where nobody says which software splits a language model. How much longer PyTorch takes is
#: that of seven splits that torchtitan published.
SPLIT_BY_MEGATRON_WARNING = (
    "The split is answered as Megatron carries it out, up to 2.4 times faster than PyTorch does. "
    'State in software which one it is: {"megatron": "0.14"} or {"torch": "2.9"}.'
)

#: Said where ranks hold more experts than those of any published split.
MANY_EXPERTS_WARNING = (
    f"Each rank holds {{0}} experts of a layer, and those of published splits {MOST_EXPERTS} at "
    "most: how long a layer waits for so many is not known. Spread them with ep."
)

#: Said where unlike accelerators should get unlike batches, and a replica is on several of them.
EQUAL_BATCHES_WARNING = (
    "Replicas that are split over several accelerators are answered with equal batches; the "
    "slowest kind sets the pace."
)
