"""An estimator that needs nothing trained: real graphs and placements, a plain model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.roofline import RooflinePredictor
from perfmodel.types import Basis

#: Its own, so that what is frozen does not hang on the constants of the fallback.
EFFICIENCY, LAUNCH_S = 0.4, 5e-6


class StandInModel(AnalyticalModel):
    """The roofline over an efficiency, a little different on each accelerator."""

    version = "stand-in/1"

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:  # type: ignore[override]
        """Return one prediction for each workload."""
        found = []
        times = RooflinePredictor(launch_s=LAUNCH_S).predict(workloads) / EFFICIENCY
        for workload, time_s in zip(workloads, times.tolist(), strict=True):
            name = workload.accelerator.name
            factor = 0.8 + 0.05 * (sum(name.encode()) % 9)
            known = name.startswith(("A100", "V100"))
            found.append(
                Prediction(
                    time_s=time_s * factor,
                    low_s=time_s * factor * (0.85 if known else 0.6),
                    high_s=time_s * factor * (1.2 if known else 1.9),
                    coverage=0.9,
                    basis=Basis.INTERPOLATED if known else Basis.EXTRAPOLATED,
                    out_of_distribution=name.startswith("MI"),
                    nearest=(f"zoo/one on {name}",),
                    model_version=self.version,
                    warnings=(f"Little is known of {name}.",) if not known else (),
                )
            )
        return found


@cache
def stand_in_estimator() -> Estimator:
    """Return the estimator; graphs are captured here and now."""
    return Estimator(
        accelerators=Catalog.default(),
        model=StandInModel(),
        graphs=GraphLibrary(capture=capture_in_process),
    )
