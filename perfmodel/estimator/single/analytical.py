"""The model that is always there: roofline over a typical efficiency, nothing learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import (
    PROGRAM_CALL_S,
    PROGRAM_EFFICIENCY,
    is_program,
    node_roofline,
    step_bound_s,
)
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import FUSING
from perfmodel.features.steps.step_work import step_work
from perfmodel.graph.workload import Workload
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.explanation import (
    ROOFLINE,
    Accelerators,
    Stage,
    StepExplanation,
    parts_of_nodes,
)
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.roofline import RooflinePredictor
from perfmodel.types import Basis

#: Share of the roofline that operators typically reach, and time that calling one costs at the
#: same share: 30 us of the host in all. Fitted to published steps outside of the lockbox
#: (docs/adr/0067); nearly the same on GPUs alone, with each device left out.
TYPICAL_EFFICIENCY = 0.6
LAUNCH_S = 18e-6
#: Between which nine in ten of those steps lie, of GPUs and of CPUs alike: a step may take three
#: times as long, and one whose operands stay in the cache a quarter.
EFFICIENCY_RANGE = (0.2, 2.4)
_FASTEST, _SLOWEST = (TYPICAL_EFFICIENCY / end for end in reversed(EFFICIENCY_RANGE))

_HOW = (
    f"the time is the roofline of the operators over a typical efficiency of {TYPICAL_EFFICIENCY}."
)
WARNING = f"No trained model is loaded: {_HOW}"
#: Where a trained model is loaded, and this one was asked for.
ASKED_FOR_WARNING = f"The analytical model answers: {_HOW}"


class AnalyticalModel:
    """Answers ``(roofline + launches) / efficiency`` for any workload on any accelerator.

    Of a step that a compiler fuses the kernels count in place of the operators; one that runs as a
    program of its accelerator (:func:`.is_program`) is called once. Its warning says why
    it answers.
    """

    version = "roofline"

    def __init__(self, warning: str = WARNING) -> None:
        self._roofline = RooflinePredictor(launch_s=LAUNCH_S)
        self._warnings = (warning,)

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        """Return one prediction for each workload, in order."""
        return [
            Prediction(
                time_s=max(time_s, bound_s),
                low_s=max(_FASTEST * time_s, bound_s),
                high_s=max(_SLOWEST * time_s, bound_s),
                coverage=COVERAGE,
                basis=Basis.ANALYTICAL,
                out_of_distribution=True,
                nearest=(),
                model_version=self.version,
                warnings=self._warnings,
            )
            for time_s, bound_s in map(self._work, workloads)
        ]

    def _work(self, workload: Workload) -> tuple[float, float]:
        """Return the time that a step typically takes, and the one that none can beat."""
        bound_s = step_bound_s(workload)
        if is_program(workload):
            work_s = float(node_roofline(workload).roofline_s.sum())
            return PROGRAM_CALL_S + work_s / PROGRAM_EFFICIENCY, bound_s
        if workload.compiler not in FUSING:
            return float(self._roofline.predict([workload])[0]) / TYPICAL_EFFICIENCY, bound_s
        work = step_work([Step.of(workload)])
        work_s = float(work.roofline_s[0] + LAUNCH_S * work.calls[0])
        return work_s / TYPICAL_EFFICIENCY, bound_s

    def explain(self, workload: Workload, accelerators: Accelerators) -> StepExplanation:
        """Return how the answer for a workload came about: it is additive all the way."""
        return explain_roofline(workload, self.predict([workload])[0].time_s)


def explain_roofline(workload: Workload, answer_s: float) -> StepExplanation:
    """Explain an answer by the formulas of the operators alone.

    Parameters
    ----------
    answer_s : float
        What the roofline and the launches lack of it is given to all operators alike.
    """
    calls = ~node_table(workload.graph).is_view
    if is_program(workload):
        calls[np.flatnonzero(calls)[1:]] = False
    launch_s = np.where(calls, LAUNCH_S, 0.0)
    nodes = parts_of_nodes(workload, node_roofline(workload).roofline_s, launch_s)
    stages = (
        Stage(name=ROOFLINE, time_s=nodes.roofline_s),
        Stage(name="launches", time_s=float(nodes.time_s.sum())),
        Stage(name="typical efficiency", time_s=answer_s),
    )
    return StepExplanation(stages=stages, nodes=nodes)
