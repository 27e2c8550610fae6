"""Language models on one accelerator: predictions weighed against the equations for plans.

The equations were fitted on models whose point-wise work is written in few kernels (MPT, GPT of
Megatron). A step whose activations, norms or rotations are written as many operators moves more,
and where each operator is a kernel of its own, that waits for the memory::

    excess = m max(0, point-wise traffic of the graph - (a r l h + b r V + c P)) / bandwidth

for m micro-batches of r tokens, l layers of width h, V words and P parameters; adding gradients to
those of the micro-batches before comes on top. What the fitted models move was counted in their
captured steps (MPT of 125 million to 7 billion parameters, 16 bits mixed, AdamW), not measured: per
token, layer and feature a = 189 bytes, a third more where activations are computed again; per token
and word b = 42; per parameter, which each micro-batch casts, c = 14.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.cost.base import OpClass
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_constants import Stack
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice, plan_answer
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.placement.transformers.transformer_graph import graph_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Compiler

#: Standard deviation in logarithms of the equations: of model sizes left out of their fit; of TPUs
#: left out of theirs; and of accelerators of other kinds, on which nothing was measured.
_SPREAD = {
    Stack.MEGATRON: 0.07, Stack.MEGATRON_CORE: 0.15, Stack.TORCH: 0.12, Stack.XLA: 0.15,
}  # fmt: skip
_UNMEASURED_SPREAD = 0.3
#: What it adds that no compiled step was fitted: root mean square of what they are off on three of
#: torchtitan's in 16 bits and on GPT-2.
_COMPILED_SPREAD = 0.14
#: No prediction counts as surer than this: root mean square of what predictions are off, in
#: logarithms, on 140 steps of MPT and of torchtitan's Llamas (0.2 on A100, 0.4 to 0.9 on H100; long
#: sequences worst). And how much a disagreement widens the interval.
_LEAST_SPREAD, _DOUBT = 0.4, 0.25


def transformer_training(prepared: PreparedJob) -> TransformerTraining | None:
    """Return the transformer that a job trains; None where none is recognised.

    Its dimensions come from the name or config of the model, else from its graph. Where predictions
    for one accelerator set the scale, the software of that one step carries every plan out: the
    ratio of two would count as scaling what they differ by.
    """
    found = _recognised(prepared)
    if found is None or prepared.has_plan_engine or found.stack is not Stack.TORCH:
        return found
    return replace(found, split_stack=Stack.TORCH)


def _recognised(prepared: PreparedJob) -> TransformerTraining | None:
    job, share = prepared.job, prepared.trained_share
    named = TransformerTraining.of(job)
    if named is not None:
        return replace(named, trained_share=share) if share < 1 else named
    shape = graph_shape(prepared.step.graph)
    if shape is None:
        return None
    return TransformerTraining(
        shape=shape,
        precision=job.arithmetic,
        optimizer=job.optimizer,
        mixed_precision=job.mixed_precision,
        trained_share=share,
    )


def needs_no_single(prepared: PreparedJob, training: TransformerTraining, plan: Plan) -> bool:
    """Tell whether the equations answer for a plan, whatever one accelerator is predicted to take.

    Those of Megatron's core were fitted on whole steps of language models as they are published;
    to scale them by predictions for one accelerator, which these models hardly fit, quadruples
    their error.

    Parameters
    ----------
    training : TransformerTraining
        On the accelerators of the placement.
    """
    return prepared.has_plan_engine and training.stack_of(plan) is Stack.MEGATRON_CORE


def single_with_plan_engine(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction
) -> Prediction:
    r"""Weigh a prediction for one accelerator against the equations for plans, in logarithms.

    :math:`\ln t = (w_1 \ln t_1 + w_2 \ln t_2) / (w_1 + w_2)` with the inverse variances of both.
    What they count is what fused kernels move: compiled steps take them as they are, and where
    operators run one by one what those move besides is added. On TPUs and NPUs, of whose steps no
    model has learned, the equations answer alone.

    Parameters
    ----------
    prepared : PreparedJob
        One that ``has_plan_engine``.
    prediction : Prediction
        Of the step on it.
    """
    training = TransformerTraining.of(prepared.job)
    if training is None or spec.kind == "cpu":
        return prediction
    training = training.on([spec])
    placement = Placement(nodes=(Node(accelerator=spec.name),))
    fabric = Fabric.of(placement, Catalog({spec.name: spec}, {}))
    choice = job_choice(prepared.job, Plan(data=1))
    step = plan_answer(training, fabric, [choice])
    equations_s = float(step.step_time_s[0])
    other = _SPREAD[training.stack] if spec.kind in ("gpu", "tpu") else _UNMEASURED_SPREAD
    if prepared.job.compiler is Compiler.INDUCTOR:
        other = math.hypot(other, _COMPILED_SPREAD)
    elif training.stack is Stack.TORCH and spec.kind == "gpu":
        # What is added is as unsure as it is large: these are not the steps that were fitted.
        added = math.log1p(unfused_s(prepared, training.shape, spec) / equations_s)
        equations_s, other = equations_s * math.exp(added), math.hypot(other, added)
    own = math.log(prediction.high_s / prediction.low_s) / (2 * DEVIATIONS)
    weights = np.array([max(own, _LEAST_SPREAD) ** -2, other**-2])
    logs = np.log([prediction.time_s, equations_s])
    if spec.kind != "gpu":
        weights, logs = weights[1:], logs[1:]
    time_s = float(np.exp(np.average(logs, weights=weights)))
    # Where the two disagree, neither is as sure as it says.
    spread = math.hypot(float(weights.sum() ** -0.5), 0.5 * float(np.ptp(logs)) * _DOUBT)
    half = math.exp(DEVIATIONS * spread)
    return replace(
        prediction,
        time_s=time_s,
        low_s=max(time_s / half, min(time_s, float(step.least_time_s[0]))),
        high_s=time_s * half,
        basis=Basis.EXTRAPOLATED if training.stack is Stack.XLA else prediction.basis,
        warnings=prediction.warnings if spec.kind == "gpu" else (NO_GPU_WARNING.format(spec.name),),
    )


#: Said of language models on accelerators that the trained model does not cover.
NO_GPU_WARNING = (
    "No step on {0} was measured here: the equations for language models answer, fitted on "
    "published training of them on other accelerators."
)


#: Classes of operators whose traffic the equations count themselves, or that move nothing.
_COUNTED = (OpClass.MATMUL, OpClass.ATTENTION, OpClass.OPTIMIZER, OpClass.VIEW)
_POINTWISE = np.array([one not in _COUNTED for one in OP_CLASSES])

_LAYER_BYTES, _WORD_BYTES, _PARAMETER_BYTES = 189.0, 42.0, 14.0
_RECOMPUTED = 4 / 3


def unfused_s(prepared: PreparedJob, shape: TransformerShape, spec: AcceleratorSpec) -> float:
    """Return the least time of what a step moves besides the fitted models, seconds.

    Its job trains a transformer of that shape, and its operators run one by one.
    """
    sketch = step_sketch(prepared.step.graph)
    traffic = float((sketch.traffic_bytes * sketch.count)[_POINTWISE[sketch.op_class]].sum())
    tokens, count = prepared.job.batch_size * shape.sequence_length, prepared.job.accumulation_steps
    again = _RECOMPUTED if prepared.job.activation_checkpointing else 1.0
    fitted = (
        again * _LAYER_BYTES * tokens * shape.layers * shape.hidden_size
        + _WORD_BYTES * tokens * shape.vocabulary
        + _PARAMETER_BYTES * shape.parameter_count
    )
    excess = count * max(traffic - fitted, 0.0)
    # Gradients of all micro-batches but one are added to others: two are read, one is written.
    excess += (count - 1) * 3.0 * prepared.step.profile.gradient_bytes
    return excess / spec.bandwidth_bytes_per_s
