"""The answer for a single cell: what :mod:`.table` reads off its cells, without the table.

And for one accelerator of each kind of a placement, alone with what the job gets of it.
"""

from __future__ import annotations

from dataclasses import replace

from perfmodel.client.answers import Breakdown, Throughput
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import corrected_step
from perfmodel.estimator.evidence.observed_job import ObservedJob, bounds_of
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cell, CellStep
from perfmodel.estimator.placing.memory import tightest_memory
from perfmodel.estimator.placing.placed import predicted_cell
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Plan
from perfmodel.types import RUNG, Basis, Mode


def answer_cell(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> Estimate:
    """Answer one question about a captured job; without observations it is remembered."""
    known = core.answers.get((prepared.key, placement)) if observed is None else None
    return known or _answered(core, predicted_cell(core, prepared, placement), observed)


def answer_from_memory(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> Estimate | None:
    """Answer from what is in memory, or return None; never runs the model."""
    if observed is None:
        known = core.answers.get((prepared.key, placement))
        if known is not None:
            return known
    elif not observed.is_ready_on(placement):
        return None
    in_parts = placement.is_split and prepared.job.mode is Mode.INFERENCE
    if placement.placement.shared_with or in_parts:
        return None
    found = [core.known_prediction(prepared, a) for a in placement.accelerators]
    predictions = [prediction for prediction in found if prediction is not None]
    if len(predictions) < len(found):
        return None
    return _answered(core, Cell(prepared, placement, predictions), observed)


def _answered(core: Core, cell: Cell, observed: ObservedJob | None) -> Estimate:
    """Answer a cell of which everything is predicted."""
    answer = estimate_of(cell, corrected_step(cell, observed), observed)
    if observed is None:
        core.answers.put((cell.prepared.key, cell.placement), answer)
    return answer


def estimate_of(cell: Cell, step: CellStep, observed: ObservedJob | None = None) -> Estimate:
    """Return the answer that says what a step on a placement rests on.

    Parameters
    ----------
    observed : ObservedJob or None
        What is known of its memory; the step is corrected.
    """
    prepared, placement, predictions, *_ = cell
    slowest = predictions[0]
    if len(predictions) > 1:
        slowest = max(predictions, key=lambda p: p.time_s)
    parts, rate, tokens = step.parts, step.samples_per_second, prepared.step.tokens_per_sample
    # What was observed beside its neighbours had room beside them.
    beside_bytes = 0.0 if step.basis is Basis.MEASURED else step.neighbour_bytes
    bounds = bounds_of(observed)
    memory = tightest_memory(prepared, placement, beside_bytes, bounds)
    said = [text for prediction in predictions for text in prediction.warnings]
    said += (*placement.warnings, *step.warnings, *prepared.warnings)
    if observed is not None:
        said += observed.warnings
        if observed.refuses(prepared, placement):
            memory = replace(memory, fits=False, oom_probability=1.0)
            said.append(RAN_OUT_WARNING)
    if memory.fits is False:
        said.append(NO_ROOM_WARNING)
    return Estimate(
        throughput=Throughput(
            samples_per_second=rate,
            low=step.low,
            high=step.high,
            coverage=min([p.coverage for p in predictions]),
            tokens_per_second=None if tokens is None else rate * tokens,
        ),
        step_time_s=step.step_time_s,
        compute_time_s=parts.compute_s,
        sync_time_s=parts.communication_s,
        breakdown=Breakdown(*parts[:4]),
        memory=memory,
        basis=step.basis,
        out_of_distribution=RUNG[step.basis] > RUNG[Basis.CALIBRATED]
        and any([p.out_of_distribution for p in predictions]),
        nearest=tuple(slowest.nearest),
        model_version=slowest.model_version,
        unpriced_operators=prepared.step.unpriced_operators,
        # Each text once, in the order of first mention.
        warnings=tuple(dict.fromkeys(said)),
        neighbours=step.neighbours,
        script_efficiency=step.efficiency,
    )


#: Said where the peak memory exceeds what an accelerator has, less what jobs beside it hold.
NO_ROOM_WARNING = (
    "The step needs more memory than it has of the accelerator; the throughput is what it would "
    "reach if it fitted."
)


def on_one_of_each(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> list[Estimate]:
    """Answer for one accelerator of each kind: slices, shares, power limits and neighbours count.

    What the host shares out among its accelerators, cores and stores, does not.

    Returns
    -------
    list of Estimate
        In the order of ``placement.kinds``.
    """
    asked = placement.placement
    alone = replace(
        asked,
        network=None,
        plan=Plan(),
        cpu_cores=None,
        loader_workers=None,
        storage_bytes_per_s=None,
        storage_locality=None,
    )
    found: dict[str, Estimate] = {}
    for node in asked.nodes:
        one = replace(alone, nodes=(replace(node, count=1, repeat=1),))
        if core.accelerators.get(node.accelerator.partition("/")[0]).kind == "cpu":
            # A CPU computes with its share of the cores of its host.
            cores = asked.cpu_cores and max(1, asked.cpu_cores // node.count)
            one = replace(one, cpu_cores=cores)
        resolved = core.resolve(one)
        (kind,) = resolved.kinds
        if kind.held.name not in found:
            found[kind.held.name] = answer_cell(core, prepared, resolved, observed)
    return list(found.values())


def computing_s(estimate: Estimate) -> float:
    """Return how long a step takes without waiting for its data, seconds."""
    return estimate.step_time_s - estimate.breakdown.input_stall_s
