"""The model that is always there: roofline over a typical efficiency, nothing learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import node_roofline
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

#: Share of the roofline that whole steps typically reach, and the shares between which nine in
#: ten lie. Stated from experience with eager steps of common networks on data-centre GPUs and
#: server CPUs, not fitted; a trained model replaces them by learned ones.
TYPICAL_EFFICIENCY = 0.4
EFFICIENCY_RANGE = (0.1, 0.85)

#: Time that one operator call costs besides its work: dispatch on the host and launch.
LAUNCH_S = 5e-6

_HOW = (
    f"the time is the roofline of the operators over a typical efficiency of {TYPICAL_EFFICIENCY}."
)
WARNING = f"No trained model is loaded: {_HOW}"
#: Where a trained model is loaded, and this one was asked for.
ASKED_FOR_WARNING = f"The analytical model answers: {_HOW}"


class AnalyticalModel:
    """Answers ``roofline / efficiency`` for any workload on any accelerator.

    Parameters
    ----------
    warning : str
        Why it answers.
    """

    version = "roofline"

    def __init__(self, warning: str = WARNING) -> None:
        self._roofline = RooflinePredictor(launch_s=LAUNCH_S)
        self._warnings = (warning,)

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        """Return one prediction for each workload, in order."""
        worst, best = EFFICIENCY_RANGE
        return [
            Prediction(
                time_s=time_s / TYPICAL_EFFICIENCY,
                low_s=time_s / best,
                high_s=time_s / worst,
                coverage=COVERAGE,
                basis=Basis.ANALYTICAL,
                out_of_distribution=True,
                nearest=(),
                model_version=self.version,
                warnings=self._warnings,
            )
            for time_s in self._roofline.predict(workloads).tolist()
        ]

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
    launch_s = np.where(calls, LAUNCH_S, 0.0)
    nodes = parts_of_nodes(workload, node_roofline(workload).roofline_s, launch_s)
    stages = (
        Stage(name=ROOFLINE, time_s=nodes.roofline_s),
        Stage(name="launches", time_s=float(nodes.time_s.sum())),
        Stage(name="typical efficiency", time_s=answer_s),
    )
    return StepExplanation(stages=stages, nodes=nodes)
