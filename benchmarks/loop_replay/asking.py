"""Ask as the service does: predictions of a version, corrected by what was observed so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from loop_replay.arrivals import Arrival

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.features.steps.step import Step
from perfmodel.graph.workload import Workload
from perfmodel.placement.calibration.observation import Observation
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.prediction import Prediction


@dataclass(frozen=True, eq=False)
class JointSteps:
    """A model of steps that the joint predictor alone answers."""

    joint: JointPredictor
    version: str

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        """Return one prediction for each workload, in order."""
        return self.joint.predict([Step.of(workload) for workload in workloads])


@dataclass
class Observations:
    """What was reported so far, as a service stores it."""

    of_family: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))
    on_device: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))

    def add(self, arrival: Arrival) -> None:
        """Take in a report."""
        self.of_family[arrival.family].append(arrival.observation(by_others=False))
        self.on_device[arrival.device].append(arrival.observation(by_others=True))


class Asking:
    """An estimator over one version, whose graphs the next version shares."""

    def __init__(self) -> None:
        self._graphs = GraphLibrary(capture=capture_in_process)
        self._catalog = Catalog.default()
        self._estimators: dict[str, Estimator] = {}

    def serve(self, name: str, joint: JointPredictor, version: str) -> None:
        """Let a version answer under a name."""
        self._estimators[name] = Estimator(
            accelerators=self._catalog, model=JointSteps(joint, version), graphs=self._graphs
        )

    def answer_s(self, name: str, arrival: Arrival, seen: Observations) -> float:
        """Return the step time that a service answers, seconds; NaN where it cannot."""
        estimator = self._estimators[name]
        own = seen.of_family[arrival.family]
        there = seen.on_device[arrival.device]
        strangers = Strangers(estimator.core, there) if there else None
        try:
            prepared = estimator.core.prepare(arrival.job)
            placement = estimator.core.resolve(arrival.placement)
            observed = observed_job(estimator.core, prepared, own, strangers)
            return answer_cell(estimator.core, prepared, placement, observed).step_time_s
        except PerfModelError:
            return float("nan")
