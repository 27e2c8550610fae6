"""The answer for a single cell: what :mod:`.table` reads off its cells, without the table."""

from __future__ import annotations

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import Observed, ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cells, predicted_cell
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.estimator.tables.estimates import estimate_of
from perfmodel.placement.estimate import Estimate


def answer_cell(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> Estimate:
    """Answer one question about a captured job; without observations it is remembered."""
    if observed is not None:
        return answer_of(predicted_cell(core, prepared, placement), observed)
    known = core.answers.get((prepared.key, placement))
    if known is None:
        known = answer_of(predicted_cell(core, prepared, placement))
        core.answers.put((prepared.key, placement), known)
    return known


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
    if placement.placement.shared_with:
        return None
    found = [core.known_prediction(prepared, a) for a in placement.accelerators]
    predictions = [prediction for prediction in found if prediction is not None]
    if len(predictions) < len(found):
        return None
    answer = answer_of(Cells.one(prepared, placement, predictions), observed)
    if observed is None:
        core.answers.put((prepared.key, placement), answer)
    return answer


def answer_of(cell: Cells, observed: ObservedJob | None = None) -> Estimate:
    """Answer a single cell of which everything is predicted."""
    source = Observed(CAPTURED, [observed]) if observed else CAPTURED
    cell = source.alone(cell)
    (prepared,), (known,), placement = cell.jobs, cell.predictions, cell.placement
    assert placement is not None
    return estimate_of(prepared, placement, list(known.values()), source.step(cell))
