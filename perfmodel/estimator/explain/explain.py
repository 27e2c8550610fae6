"""Explain an answer: which operators take the time, and what made it longer than the roofline.

Beside those of operators there are stages of a placement, and of the observations of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from perfmodel.client import answers
from perfmodel.client.answers import Contribution
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import corrected_in_columns
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.explain.arithmetic import model_flops_utilisation, roofline_of
from perfmodel.estimator.explain.nearest import near_observations, near_points
from perfmodel.estimator.explain.operator_shares import StepShares
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cell
from perfmodel.estimator.placing.placed import captured_step, predicted_cell
from perfmodel.estimator.placing.slowdowns import Slowdown
from perfmodel.estimator.single.analytical import explain_roofline
from perfmodel.estimator.single.engine import engine_roofline_s, has_engine_law
from perfmodel.estimator.single.revised import attention_again, has_narrow_products, learned_step
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step_table import FUSING
from perfmodel.graph.workload import Workload
from perfmodel.placement.estimate import Estimate, StepNumbers
from perfmodel.predictors.emulation import emulation
from perfmodel.predictors.explanation import (
    Accelerators,
    MeasuredPoint,
    NodeParts,
    Stage,
    StepExplanation,
)
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.predictors.kernels.step_kernels import step_kernels

#: What observed steps said: those of the job with those of others beside it, or others alone.
OBSERVATIONS, OBSERVATIONS_OF_OTHERS = "observations of this job", "observations of other jobs"
#: What a job that is said to be a script takes beyond its step, where nothing was observed of it.
SCRIPT = "what scripts take besides"


@dataclass(frozen=True, kw_only=True)
class PlacedChain:
    """From the predicted time on one accelerator to the step on all of them.

    Parameters
    ----------
    kind : int
        Position of the kind of accelerator whose step takes longest.
    single_s : float
        Step of one replica on one accelerator of it, as much of it as the job gets.
    stages : tuple of Stage
        After the prediction for this kind; the last is the step of the whole job.
    """

    kind: int
    single_s: float
    stages: tuple[Stage, ...]


def placed_chain(cell: Cell, observed: ObservedJob | None = None) -> PlacedChain:
    """Return what becomes of the predictions of a single cell."""
    prepared, placement, single, *_ = cell
    placed = captured_step(cell)
    slowdowns = placed.slowdowns or [Slowdown()] * len(single)
    alone = [one.time_s * slow.factor for one, slow in zip(single, slowdowns, strict=True)]
    kind = alone.index(max(alone))
    single_s, stages = single[kind].time_s, list[Stage]()
    for name, factor in slowdowns[kind].factors:
        single_s *= factor
        stages.append(Stage(name=name, time_s=single_s))
    parts = placed.parts
    stages += _scaled(placement, prepared, parts)
    if observed is not None or prepared.job.script:
        seen = _what_was_seen(prepared, observed)
        corrected = corrected_in_columns(cell, placed, observed).parts
        stages.append(Stage(name=seen, time_s=corrected.step_time_s))
        single_s *= corrected.compute_s / parts.compute_s
    return PlacedChain(kind=kind, single_s=single_s, stages=tuple(stages))


def _what_was_seen(prepared: PreparedJob, observed: ObservedJob | None) -> str:
    if observed is not None and observed.observations:
        return OBSERVATIONS
    return SCRIPT if prepared.job.script else OBSERVATIONS_OF_OTHERS


def _scaled(placement: ResolvedPlacement, prepared: PreparedJob, parts: StepNumbers) -> list[Stage]:
    split = placement.is_split or prepared.is_language_model
    with_overhead_s = parts.compute_s + parts.overhead_s
    exposed_s = with_overhead_s + parts.exposed_communication_s
    return [
        Stage(name="parallel plan" if split else "division of the batch", time_s=parts.compute_s),
        Stage(name="stragglers and host", time_s=with_overhead_s),
        Stage(name="exposed communication", time_s=exposed_s),
        Stage(name="waiting for data", time_s=parts.step_time_s),
    ]


#: What checkpointing of attention alone computes a second time.
ATTENTION_AGAIN = "attention computed again"

#: What cards of one chip say of each other; nothing where their order is as predicted.
ORDER = "order of cards of one chip"

#: Where the chain of a tuned engine begins.
ENGINE_ROOFLINE = "roofline of the engine"

#: A stage that changes the time by a smaller part is left out.
_NOTHING = 1e-6


@runtime_checkable
class ExplainingModel(Protocol):
    """A model that tells how its answers come about."""

    def explain(self, workload: Workload, accelerators: Accelerators) -> StepExplanation:
        """Return how the answer for a workload came about."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplainedStep:
    """What is remembered of an explanation: not the nodes, but what they add up to."""

    stages: tuple[Stage, ...]
    shares: StepShares
    nearest: tuple[MeasuredPoint, ...]

    @classmethod
    def of(
        cls, workload: Workload, found: StepExplanation, kernels: KernelModel, micro_batches: int
    ) -> ExplainedStep:
        """Add up the nodes, with the work of those whose kernels were learned alone."""
        nodes = with_kernels(workload, found.nodes, kernels)
        shares = StepShares.of(workload.graph, nodes, micro_batches)
        return cls(stages=found.stages, shares=shares, nearest=found.nearest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation(answers.Explanation):
    """An answer, divided over the operators and traced back to the roofline.

    The form that the client reads. Classes and operators stand with most time first, operators as
    many as were asked for; the product of the factors times the first time is that of the estimate,
    which is as it is answered without an explanation.
    """

    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("operator_classes", "operators", "nearest", "contributions"):
            plain[name] = [asdict(item) for item in plain[name]]
        return plain | {
            "estimate": self.estimate.to_dict(),
            "roofline": asdict(self.roofline),
            "warnings": list(self.warnings),
        }


def explain_answer(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
    *,
    kernels: KernelModel,
    most: int,
) -> Explanation:
    """Explain the answer for a prepared job on a placement.

    Where several kinds of accelerators work together, the one whose step takes longest is
    explained: all others wait for it.

    Parameters
    ----------
    kernels : KernelModel
        Divides the step among operators whose kernels it has learned.
    """
    cell = predicted_cell(core, prepared, placement)
    estimate = answer_cell(core, prepared, placement, observed)
    chain = placed_chain(cell, observed)
    kind = placement.kinds[chain.kind]
    accelerator, part = kind.accelerator, kind.part
    predicted = cell.predictions[chain.kind]
    explained = explain_step(core, cell.carried, accelerator, predicted.time_s, kernels)
    stages = [*_predicted(cell.carried, accelerator, explained, predicted.time_s), *chain.stages]
    cores = part.sm_share if part else 1.0
    seen = near_observations(core, prepared, placement, observed)
    return Explanation(
        estimate=estimate,
        compute_time_s=chain.single_s,
        operator_classes=explained.shares.classes(chain.single_s, cores),
        operators=explained.shares.operators(chain.single_s, most, cores),
        roofline=roofline_of(prepared, kind),
        nearest=(*seen, *near_points(prepared.job, explained.nearest)),
        contributions=contributions(stages, estimate.step_time_s),
        model_flops_utilisation=model_flops_utilisation(
            prepared, placement, estimate.throughput.samples_per_second
        ),
        model_version=estimate.model_version,
        warnings=estimate.warnings,
    )


def explain_step(
    core: Core,
    prepared: PreparedJob,
    accelerator: AcceleratorSpec,
    answer_s: float,
    kernels: KernelModel,
) -> ExplainedStep:
    """Explain the time of a job on one accelerator; remembered as long as its model answers.

    Parameters
    ----------
    answer_s : float
        What is predicted, for models that do not explain themselves.
    """
    model, workload = core.model, learned_step(prepared, accelerator)
    count = prepared.job.accumulation_steps
    if not isinstance(model, ExplainingModel):
        return ExplainedStep.of(workload, explain_roofline(workload, answer_s), kernels, count)
    key = (prepared.key, accelerator.name, kernels.version)
    known: ExplainedStep | None = core.explained.get(key)
    if known is None:
        found = model.explain(workload, _finder(core.accelerators))
        known = ExplainedStep.of(workload, found, kernels, count)
        core.explained.put(key, known)
    return known


def contributions(stages: Sequence[Stage], answer_s: float) -> tuple[Contribution, ...]:
    """Turn stages into factors; those that change nothing are left out.

    Parameters
    ----------
    stages : sequence of Stage
        The first is where the chain begins.
    answer_s : float
        Where it ends: the last time, which the stages reach up to rounding.

    Examples
    --------
    >>> stages = [Stage(name=n, time_s=t) for n, t in (("a", 1.0), ("b", 1.0), ("c", 2.0))]
    >>> [(c.name, c.factor) for c in contributions(stages, 2.0)]
    [('a', 1.0), ('c', 2.0)]
    """
    # A step without priced work has a roofline of no time, which no factor leads away from.
    beginning = next((i for i, stage in enumerate(stages) if stage.time_s > 0), len(stages) - 1)
    kept = [stages[beginning]]
    for stage in stages[beginning + 1 :]:
        # Nor is there a factor to no time: all of a step may be the launches of the next stage.
        if stage.time_s > 0 and abs(stage.time_s / kept[-1].time_s - 1.0) > _NOTHING:
            kept.append(stage)
    kept[-1] = Stage(name=kept[-1].name, time_s=answer_s)
    first = Contribution(name=kept[0].name, factor=1.0, step_time_s=kept[0].time_s)
    return (
        first,
        *(
            Contribution(
                name=after.name, factor=after.time_s / before.time_s, step_time_s=after.time_s
            )
            for before, after in pairwise(kept)
        ),
    )


def _finder(catalog: Catalog) -> Accelerators:
    def find(name: str) -> AcceleratorSpec | None:
        try:
            return catalog.get(name)
        except UnknownAcceleratorError:
            return None

    return find


def _predicted(
    prepared: PreparedJob, accelerator: AcceleratorSpec, explained: ExplainedStep, time_s: float
) -> list[Stage]:
    """Return the stages up to the prediction that an answer starts from.

    Those of the model, for all micro-batches, and what is done to its prediction. An engine begins
    with its own kernels: fused, and in the types that it keeps.
    """
    factor, by_engine = prepared.step.time_factor, has_engine_law(prepared.job, accelerator)
    stages = [Stage(name=stage.name, time_s=stage.time_s * factor) for stage in explained.stages]
    if again := attention_again(prepared, accelerator):
        stages.append(Stage(name=ATTENTION_AGAIN, time_s=stages[-1].time_s * (1.0 + again)))
    if by_engine:
        stages = [Stage(name=ENGINE_ROOFLINE, time_s=engine_roofline_s(prepared, accelerator))]
    if emulation(prepared.job.arithmetic, accelerator) is not None:
        last = "emulated arithmetic"
    elif by_engine:
        last = "law of tuned engines"
    elif prepared.is_language_model:
        last = "equations of language models"
    elif has_narrow_products(prepared, accelerator):
        last = "products in 8 bits"
    else:
        last = ORDER
    return [*stages, Stage(name=last, time_s=time_s)]


def with_kernels(workload: Workload, nodes: NodeParts, model: KernelModel) -> NodeParts:
    """Return parts of nodes in which learned kernels stand for the work.

    What a compiler fuses runs no kernels of its own: those steps stay as they are. So do nodes
    whose kernels were not learned on several devices of the maker.
    """
    if workload.compiler in FUSING:
        return nodes
    sketch, spec = step_sketch(workload.graph), workload.accelerator
    found = step_kernels(model, sketch, spec, spec.computed_as(workload.precision))
    row = sketch.class_of_node

    def each(of_row: FloatArray) -> FloatArray:
        return np.append(of_row, 0.0)[row]

    learned = each(found.carries_over.astype(np.float64)) > 0
    work_s = np.where(learned, each(found.time_s), nodes.work_s)
    return replace(nodes, work_s=work_s, by_kernels=learned)
