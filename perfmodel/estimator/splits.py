"""The step of a replica that is split over several accelerators."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.repeated_batches import captured_batches
from perfmodel.estimator.replicas import replica_parts
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.plan_steps.plan_constants import Stack
from perfmodel.placement.plan_steps.stage_cut import cut_graph, cut_step_s, refuse_operator_splits
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice, plan_answer
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.topology.topology import BatchSplit, Node, Placement, Plan
from perfmodel.placement.transformers.transformer_graph import graph_shape
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Mode

FloatArray = npt.NDArray[np.float64]

#: Standard deviation in logarithms of the equations: of model sizes left out of their fit; of TPUs
#: left out of theirs; and of accelerators of other kinds, on which nothing was measured.
_SPREAD = {Stack.MEGATRON: 0.07, Stack.TORCH: 0.12, Stack.XLA: 0.15}
_UNMEASURED_SPREAD = 0.3
#: No prediction counts as surer than this, and how much a disagreement widens the interval.
_LEAST_SPREAD, _DOUBT = 0.05, 0.25
_DEVIATIONS = 1.645


def transformer_training(prepared: PreparedJob) -> TransformerTraining | None:
    """Return the transformer that a job trains; None where none is recognised.

    Its dimensions come from the name or config of the model, else from its graph.
    """
    named = TransformerTraining.of(prepared.job)
    if named is not None:
        return named
    job = prepared.job
    shape = graph_shape(prepared.step.graph, micro_batches=captured_batches(job))
    if shape is None:
        return None
    return TransformerTraining(shape=shape, precision=job.precision, optimizer=job.optimizer)


def single_with_plan_engine(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: StepPrediction
) -> StepPrediction:
    r"""Weigh a prediction for one accelerator against the equations for plans, in logarithms.

    :math:`\ln t = (w_1 \ln t_1 + w_2 \ln t_2) / (w_1 + w_2)` with the inverse variances of both.
    On TPUs the equations answer alone.

    Parameters
    ----------
    prepared : PreparedJob
        One of :func:`~perfmodel.estimator.language_models.has_plan_engine`.
    prediction : StepPrediction
        Of the step on it.
    """
    training = TransformerTraining.of(prepared.job)
    if training is None or spec.kind == "cpu":
        return prediction
    training = training.on([spec])
    placement = Placement(nodes=(Node(accelerator=spec.name),))
    fabric = Fabric.of(placement, Catalog({spec.name: spec}, {}))
    choice = job_choice(prepared.job, Plan(data=1))
    equations_s = float(plan_answer(training, fabric, [choice]).step_time_s[0])
    own = math.log(prediction.high_s / prediction.low_s) / (2 * _DEVIATIONS)
    weights = np.array([max(own, _LEAST_SPREAD) ** -2, _spread(training, spec) ** -2])
    logs = np.log([prediction.time_s, equations_s])
    if training.stack is Stack.XLA:
        # No model has learned of TPUs, and the captured program has copies that are fused there.
        weights, logs = weights[1:], logs[1:]
    time_s = float(np.exp(np.average(logs, weights=weights)))
    # Where the two disagree, neither is as sure as it says.
    spread = math.hypot(float(weights.sum() ** -0.5), 0.5 * float(np.ptp(logs)) * _DOUBT)
    half = math.exp(_DEVIATIONS * spread)
    return Prediction(
        time_s=time_s,
        low_s=time_s / half,
        high_s=time_s * half,
        coverage=prediction.coverage,
        basis=Basis.EXTRAPOLATED if training.stack is Stack.XLA else prediction.basis,
        out_of_distribution=prediction.out_of_distribution,
        nearest=tuple(prediction.nearest),
        model_version=prediction.model_version,
        warnings=tuple(prediction.warnings)
        if spec.kind == "gpu"
        else (NO_GPU_WARNING.format(spec.name),),
    )


def _spread(training: TransformerTraining, spec: AcceleratorSpec) -> float:
    return _SPREAD[training.stack] if spec.kind in ("gpu", "tpu") else _UNMEASURED_SPREAD


#: Said of language models on accelerators that the trained model does not cover.
NO_GPU_WARNING = (
    "No step on {0} was measured here: the equations for language models answer, fitted on "
    "published training of them on other accelerators."
)


def split_parts(
    prepared: PreparedJob, placement: ResolvedPlacement, single_s: FloatArray
) -> StepParts:
    """Return the parts of the steps of a job whose replicas are split.

    Parameters
    ----------
    placement : ResolvedPlacement
        Its plan splits a replica.
    single_s : ndarray, shape (levels,)
        The step of one replica on one accelerator, all micro-batches.

    Raises
    ------
    InvalidPlacementError
        Inference, or operators to be split of a model that is no transformer.
    """
    job, plan = prepared.job, placement.fabric.plan
    if job.mode is not Mode.TRAINING:
        raise InvalidPlacementError(
            "A split replica (tensor, pipeline, context, expert) is answered in training; in "
            "inference ask for data parallelism.",
            pointer=f"{placement.pointer}/plan",
        )
    training = transformer_training(prepared)
    if training is None:
        refuse_operator_splits(plan, pointer=placement.pointer)
        return _staged(prepared, placement, single_s)
    _refuse_experts(training.shape.experts, plan, pointer=placement.pointer)
    _refuse_stages(training.shape.layers, plan, pointer=placement.pointer)
    choices = [job_choice(job, plan)] * len(single_s)
    steps = plan_answer(training, placement.fabric, choices, single_s=single_s)
    # What the bound of the arithmetic adds counts as computing.
    beyond = steps.step_time_s - steps.parts.step_time_s
    parts = steps.parts
    return replace(
        parts,
        compute_s=parts.compute_s + beyond,
        # What is waited for beside messages, the launch of the last ones, is communication as well.
        communication_s=np.maximum(parts.communication_s, parts.exposed_communication_s),
    )


def split_warnings(prepared: PreparedJob, placement: ResolvedPlacement) -> tuple[str, ...]:
    """Return what a plan asks for and no library would do, or no equation knows."""
    plan = placement.fabric.plan
    if not placement.is_split:
        return ()
    said = []
    training = transformer_training(prepared) if plan.tensor > 1 else None
    if training is not None and training.shape.heads % plan.tensor:
        said.append(UNEVEN_HEADS_WARNING.format(training.shape.heads, plan.tensor))
    if plan.batch_split is BatchSplit.PROPORTIONAL and len(placement.kinds) > 1:
        said.append(EQUAL_BATCHES_WARNING)
    return tuple(said)


def _refuse_stages(layers: int, plan: Plan, *, pointer: str) -> None:
    """Refuse more chunks of a pipeline than there are layers to cut."""
    chunks = plan.pipeline * plan.virtual_stages
    if chunks <= layers:
        return
    chunked = f" x virtual_stages {plan.virtual_stages}" if plan.virtual_stages > 1 else ""
    raise InvalidPlacementError(
        f"pipeline {plan.pipeline}{chunked} needs {chunks} layers at least; this model has "
        f"{layers}. Ask for fewer stages.",
        pointer=f"{pointer}/plan/pipeline",
    )


def _refuse_experts(experts: int, plan: Plan, *, pointer: str) -> None:
    """Refuse to spread experts that a model does not have, or not evenly."""
    if experts % plan.expert == 0:
        return
    found = f"has {experts} in a layer" if experts > 1 else "has none: each token passes all of it"
    allowed = [str(n) for n in range(1, experts + 1) if experts % n == 0]
    raise InvalidPlacementError(
        f"expert is {plan.expert}, but the experts of this model cannot be spread over so many: it "
        f"{found}. Choose among {', '.join(allowed)}, or leave expert out.",
        pointer=f"{pointer}/plan/expert",
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


#: Said where tensor ranks cannot have whole heads each.
UNEVEN_HEADS_WARNING = (
    "{0} heads are not divided evenly by {1} tensor ranks: libraries refuse that, and the answer "
    "is for equal parts."
)

#: Said where unlike accelerators should get unlike batches, and a replica is on several of them.
EQUAL_BATCHES_WARNING = (
    "Replicas that are split over several accelerators are answered with equal batches; the "
    "slowest kind sets the pace."
)
