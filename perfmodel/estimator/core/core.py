"""Jobs, placements and predictions: what every question starts from, each worked out once.

Stand-ins for what takes time refuse what is not in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.sisters import sisters_of
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, NotInTimeError
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement, resolve_placement
from perfmodel.estimator.jobs.capture_terms import go_on
from perfmodel.estimator.jobs.captured_step import CapturedStep, GraphSource, with_batches
from perfmodel.estimator.jobs.prepared_job import PreparedJob, whole_job
from perfmodel.estimator.single.in_order import in_order
from perfmodel.estimator.single.revised import learned_step, revised
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Placement
from perfmodel.predictors.prediction import Prediction, StepModel

#: Pairs of one call of the model: more of them together are hardly cheaper.
_AT_ONCE = 1_024


@dataclass(frozen=True)
class NoModel:
    """A model that never predicts."""

    version: str

    def predict(self, workloads: Sequence[Workload]) -> Sequence[Prediction]:
        """Refuse.

        Raises
        ------
        NotInTimeError
            There is a workload.
        """
        if workloads:
            raise NotInTimeError(
                f"The model {self.version} has not predicted this job on this accelerator yet. "
                "Ask again: it is at work on it."
            )
        return []


class NoCaptures:
    """A source of graphs that captures none."""

    def step(self, job: Job) -> CapturedStep:
        """Refuse.

        Raises
        ------
        NotInTimeError
            Always.
        """
        raise NotInTimeError(
            f"The step of {job.label} is not captured yet, so that not even its arithmetic is "
            "known. It is being captured: ask again. Register jobs with POST /v1/jobs before they "
            "are asked about in a hurry."
        )


#: Operators of all jobs that are kept in memory together: a job with very many takes the room of
#: many jobs.
_MOST_NODES = 4_000_000
#: Of placements; those that people write take some kB.
_MOST_BYTES = 64 * 2**20


class Core:
    """Prepares jobs, looks placements up and predicts; safe to share between threads."""

    def __init__(
        self,
        *,
        accelerators: Catalog,
        model: StepModel,
        graphs: GraphSource,
    ) -> None:
        self.accelerators = accelerators
        self.graphs = graphs
        self._families: dict[str, tuple[AcceleratorSpec, ...]] = {}
        self._jobs: LruCache[str, PreparedJob] = LruCache(
            512,
            weigh=lambda key, job: job.step.captured_operators,
            most_weight=_MOST_NODES,
        )
        self._placements: LruCache[Placement, ResolvedPlacement] = LruCache(
            10_000, weigh=lambda placement, found: placement.rough_bytes, most_weight=_MOST_BYTES
        )
        self.model = model
        self._predicted: LruCache[tuple[str, str], Prediction] = LruCache(65_536)
        #: Answers that rest on no observation; placements are told apart by identity.
        self.answers: LruCache[tuple[str, ResolvedPlacement], Estimate] = LruCache(
            50_000,
            weigh=lambda asked, answer: asked[1].placement.rough_bytes,
            most_weight=2 * _MOST_BYTES,
        )
        #: What was explained of jobs on accelerators, by what model of kernels.
        self.explained: LruCache[tuple[str, str, str], Any] = LruCache(512)
        #: What was worked out of observations of a job: by its family, and by who they are.
        self.evidence: LruCache[tuple[str, tuple[int, ...]], Any] = LruCache(1_024)
        #: By how much longer than predicted observed steps of strangers took: by who they are, with
        #: them.
        self.residuals: LruCache[int, tuple[Observation, tuple[float, float] | None]] = LruCache(
            20_000
        )

    def with_model(self, model: StepModel, accelerators: Catalog) -> Self:
        """Return one that knows the same jobs, and nothing else that this one remembers."""
        other = type(self)(accelerators=accelerators, model=model, graphs=self.graphs)
        other._jobs = self._jobs
        return other

    def with_accelerators(self, accelerators: Catalog) -> Self:
        """Return one over another catalogue that keeps the predictions for equal devices."""
        other = self.with_model(self.model, accelerators)
        before = {spec.name: spec for spec in self.accelerators}
        same = {spec.name for spec in accelerators if before.get(spec.name) == spec}
        named = {spec.name for spec in (*before.values(), *accelerators)}
        # Sisters of what changed are predicted again too.
        changed = [one for one in (*before.values(), *accelerators) if one.name in named - same]
        again = {
            sister.name
            for one in changed
            for known in (self.accelerators, accelerators)
            for sister in sisters_of(one, known)
        }
        # A device that is in neither is the machine that this runs on.
        kept = [pair for pair in self._predicted.items() if pair[0][1] not in again]
        other._predicted.put_all(kept)
        return other

    def non_blocking(self, *, predicting: bool) -> Self:
        """Return one over the same memory that captures nothing, nor predicts unless it may."""
        view = copy(self)
        view.graphs = NoCaptures()
        if not predicting:
            view.model = NoModel(self.model.version)
        return view

    def prepare(self, job: Job) -> PreparedJob:
        """Return a job with its captured step; takes seconds where the job is new."""
        if job.job_type is not None:
            raise InvalidInputError(
                f"The job type {job.job_type!r} has no graph; only its throughput is answered, "
                "from observations of it.",
                pointer="/job/job_type",
            )
        key = job.reference
        known = self._jobs.get(key)
        if known is None:
            step = self._step(job)
            of_all = whole_job(job)
            whole = None if of_all is None else self.prepare(of_all)
            known = PreparedJob(job=job, key=key, step=step, whole=whole)
            self._jobs.put(key, known)
        return known

    def _step(self, job: Job) -> CapturedStep:
        """Return the step of a job, with one graph for any number of micro-batches of a size."""
        if job.accumulation_steps == 1 or job.graph is not None:
            step = self.graphs.step(job.step)
        else:
            step = self.prepare(job.at_batch(job.batch_size, 1)).step
        return with_batches(step, job)

    def prepared(self, job: Job) -> PreparedJob | None:
        """Return a job with its captured step if it is in memory; never waits."""
        return self._jobs.get(job.reference)

    def forget_registered(self) -> None:
        """Forget the jobs of registered graphs, and every answer: a graph may be others' by now.

        What was predicted of them stays, as it rests on the graph alone.
        """
        self._jobs.drop(lambda key, prepared: prepared.job.graph is not None)
        self.answers.drop(lambda key, answer: True)

    def resolve(self, placement: Placement, *, pointer: str = "/placement") -> ResolvedPlacement:
        """Look up the accelerators of a placement; as :func:`resolve_placement`, remembered.

        Parameters
        ----------
        pointer : str
            Where it stands in the request, for errors.
        """
        known = self._placements.get(placement)
        if known is None:
            try:
                known = resolve_placement(placement, self.accelerators)
            except InvalidInputError as error:
                error.pointer = pointer + error.pointer.removeprefix("/placement")
                raise
            self._placements.put(placement, known)
        return known

    def predictions(self, pairs: Sequence[tuple[PreparedJob, AcceleratorSpec]]) -> list[Prediction]:
        """Return the prediction of each job on one accelerator; each pair is predicted once.

        All that are not in memory go to the model together, with the sisters of their
        accelerators: what is answered of a card does not depend on who asked for what before.
        """
        keys = [(prepared.key, accelerator.name) for prepared, accelerator in pairs]
        known = {key: self._predicted.get(key) for key in keys}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if known[key] is None}
        if missing:
            for key, prediction in self._predict(list(missing.values())).items():
                # Two that ask at once get the same object.
                known[key] = self._predicted.keep_first(key, prediction)
        return [found for key in keys if (found := known[key]) is not None]

    def _predict(
        self, pairs: Sequence[tuple[PreparedJob, AcceleratorSpec]]
    ) -> dict[tuple[str, str], Prediction]:
        """Predict jobs on accelerators and on all sisters of these, in their order."""
        groups = {
            (prepared.key, *[one.name for one in family]): (prepared, family)
            for prepared, spec in pairs
            for family in [self._sisters(spec)]
        }
        # Beside a job of which a part is trained stands the whole one, where that is answered.
        each = [
            (one, spec)
            for prepared, family in groups.values()
            for spec in family
            for one in (prepared, prepared.whole)
            if one is not None
        ]
        answers = iter(self._answers_of_model(each))
        found = {}
        for prepared, family in groups.values():
            own = []
            for spec in family:
                part = next(answers)
                whole = None if prepared.whole is None else next(answers)
                own.append(revised(prepared, spec, part, whole))
            for spec, prediction in zip(family, in_order(family, own), strict=True):
                found[prepared.key, spec.name] = prediction
        return found

    def _answers_of_model(
        self, pairs: Sequence[tuple[PreparedJob, AcceleratorSpec]]
    ) -> list[Prediction]:
        found: list[Prediction] = []
        for start in range(0, len(pairs), _AT_ONCE):
            go_on()
            some = pairs[start : start + _AT_ONCE]
            found += self.model.predict([learned_step(*pair) for pair in some])
        return found

    def _sisters(self, spec: AcceleratorSpec) -> tuple[AcceleratorSpec, ...]:
        """Return what is the same chip as an accelerator of the catalogue; others are alone."""
        if spec.name not in self.accelerators or self.accelerators.get(spec.name) is not spec:
            return (spec,)
        if spec.name not in self._families:
            self._families[spec.name] = sisters_of(spec, self.accelerators)
        return self._families[spec.name]

    def known_prediction(
        self, prepared: PreparedJob, accelerator: AcceleratorSpec
    ) -> Prediction | None:
        """Return what is in memory of a job on an accelerator; never runs the model."""
        return self._predicted.get((prepared.key, accelerator.name))

    def recently_predicted(self, most: int) -> list[tuple[PreparedJob, AcceleratorSpec]]:
        """Return the jobs and accelerators that were last asked about, where both are known."""
        pairs = []
        for key, name in self._predicted.recent(most):
            prepared = self._jobs.get(key)
            if prepared is not None and name in self.accelerators:
                pairs.append((prepared, self.accelerators.get(name)))
        return pairs
