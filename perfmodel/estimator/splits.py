"""The step of a replica that is split over several accelerators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.replicas import replica_parts
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.plan_answer import TransformerTraining, job_choice, plan_answer
from perfmodel.placement.rank_groups import Dimension
from perfmodel.placement.stage_cut import cut_graph, cut_step_s, refuse_operator_splits
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.transformer_graph import graph_shape
from perfmodel.types import Mode

FloatArray = npt.NDArray[np.float64]


def transformer_training(prepared: PreparedJob) -> TransformerTraining | None:
    """Return the transformer that a job trains; None where none is recognised.

    Its dimensions come from the name or config of the model, else from its graph.

    Parameters
    ----------
    prepared : PreparedJob
    """
    named = TransformerTraining.of(prepared.job)
    if named is not None:
        return named
    shape = graph_shape(prepared.step.graph)
    if shape is None:
        return None
    job = prepared.job
    return TransformerTraining(shape=shape, precision=job.precision, optimizer=job.optimizer)


def split_parts(
    prepared: PreparedJob, placement: ResolvedPlacement, single_s: FloatArray
) -> StepParts:
    """Return the parts of the steps of a job whose replicas are split.

    Parameters
    ----------
    prepared : PreparedJob
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
    choices = [job_choice(job, plan)] * len(single_s)
    steps = plan_answer(training, placement.fabric, choices, single_s=single_s)
    # What the bound of the arithmetic adds counts as computing.
    beyond = steps.step_time_s - steps.parts.step_time_s
    return replace(steps.parts, compute_s=steps.parts.compute_s + beyond)


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
