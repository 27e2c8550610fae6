"""The Estimator: joins jobs, graphs, a model and placements into answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.answer import compose
from perfmodel.estimator.at_hand import NO_CAPTURES, NoModel
from perfmodel.estimator.companions import Companions
from perfmodel.estimator.curve import Curve, CurveQuestion
from perfmodel.estimator.curve_points import draw_curve
from perfmodel.estimator.lru import LruCache
from perfmodel.estimator.matrix import MatrixEstimate, fill_matrix
from perfmodel.estimator.model import StepModel, StepPrediction
from perfmodel.estimator.neighbours import neighbours
from perfmodel.estimator.observed import ObservedJob
from perfmodel.estimator.opaque import VERSION as OPAQUE_VERSION
from perfmodel.estimator.opaque import opaque_estimates
from perfmodel.estimator.opaque_curve import draw_opaque_curve
from perfmodel.estimator.opaque_job import OpaqueJob
from perfmodel.estimator.placed import PlacedStep, place
from perfmodel.estimator.plain import is_plain, plain_answer
from perfmodel.estimator.predicted_steps import PredictedSteps
from perfmodel.estimator.ranking import Ranking, RankQuestion, rank_placements
from perfmodel.estimator.rated import CapturedRated, OpaqueRated
from perfmodel.estimator.resolve import ResolvedPlacement, resolve_placement
from perfmodel.estimator.searching import search
from perfmodel.estimator.step import GraphSource, PreparedJob, job_key
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from perfmodel.placement.topology.topology import Placement

if TYPE_CHECKING:
    from perfmodel.estimator.explain import ExplainedStep
    from perfmodel.estimator.explanation import Explanation
    from perfmodel.estimator.loading import LoadedModel


class Estimator:
    """Answers what throughput a job will reach on a placement.

    The same question always gets the same answer; every method may be called from any thread.

    Parameters
    ----------
    accelerators : Catalog
        The catalogue.
    model : StepModel
        Predicts step times.
    graphs : GraphSource
        Turns jobs into graphs.
    job_capacity, prediction_capacity : int
        How many captured jobs and single-accelerator predictions are kept in memory.
    models : sequence of mapping
        Facts of the trained models that are installed, for people.
    problems : sequence of str
        What is wrong with this installation (a damaged model, say), for people.

    Examples
    --------
    >>> from perfmodel import Job
    >>> estimator = Estimator.from_folder("models")  # doctest: +SKIP
    >>> estimator.estimate(job, placement).throughput.samples_per_second  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        accelerators: Catalog,
        model: StepModel,
        graphs: GraphSource,
        job_capacity: int = 512,
        prediction_capacity: int = 200_000,
        models: Sequence[Mapping[str, Any]] = (),
        problems: Sequence[str] = (),
    ) -> None:
        self.accelerators = accelerators
        self.graphs = graphs
        self.models = tuple(models)
        self.problems = tuple(problems)
        self._jobs: LruCache[str, PreparedJob] = LruCache(job_capacity)
        self._placements: LruCache[Placement, ResolvedPlacement] = LruCache(10_000)
        self._predicted = PredictedSteps(model, prediction_capacity)
        self._answers: LruCache[tuple[str, ResolvedPlacement], Estimate] = LruCache(50_000)
        self.explained_steps: LruCache[tuple[str, str], ExplainedStep] = LruCache(512)

    @classmethod
    def from_folder(
        cls,
        models: str | Path,
        *,
        catalog: Catalog | None = None,
        graphs: GraphSource | None = None,
    ) -> Self:
        """Build an estimator from a folder of trained models.

        Parameters
        ----------
        models : path
            Holds ``<name>/<version>/``; may be missing or empty, then the analytical model
            answers. A damaged version is passed over and named in :attr:`problems`.
        catalog : Catalog or None
            Accelerators; None means the shipped ones and the local CPU.
        graphs : GraphSource or None
            None captures in this process and keeps nothing on disk.
        """
        from perfmodel.estimator.capture import capture_in_process
        from perfmodel.estimator.graphs import GraphLibrary
        from perfmodel.estimator.loading import load_model

        loaded = load_model(Path(models))
        accelerators = catalog or Catalog.default()
        for device in loaded.devices:
            accelerators = accelerators.with_device(device)
        return cls(
            accelerators=accelerators,
            model=loaded.model,
            graphs=graphs or GraphLibrary(capture=capture_in_process),
            models=loaded.models,
            problems=loaded.problems,
        )

    @property
    def model(self) -> StepModel:
        """What predicts step times."""
        return self._predicted.model

    @property
    def model_version(self) -> str:
        """Which model answers."""
        return self.model.version

    def with_model(self, loaded: LoadedModel) -> Self:
        """Return an estimator that answers with another version of the model.

        Both know the same graphs; nothing else that either remembers reaches the other.

        Parameters
        ----------
        loaded : LoadedModel
            Devices that it was measured on join the catalogue.
        """
        accelerators = self.accelerators
        for device in loaded.devices:
            accelerators = accelerators.with_device(device)
        other = type(self)(
            accelerators=accelerators,
            model=loaded.model,
            graphs=self.graphs,
            models=loaded.models,
            problems=loaded.problems,
        )
        other._jobs = self._jobs
        return other

    def with_accelerators(self, accelerators: Catalog) -> Self:
        """Return an estimator that answers for another catalogue; this one answers on as it did.

        What was predicted for devices that are the same in both is known to the new one. Answers
        are remembered by the names of devices, so that nothing else may be.
        """
        other = type(self)(
            accelerators=accelerators,
            model=self.model,
            graphs=self.graphs,
            models=self.models,
            problems=self.problems,
        )
        other._jobs = self._jobs
        before = {spec.name: spec for spec in self.accelerators}
        same = {spec.name for spec in accelerators if before.get(spec.name) == spec}
        named = {spec.name for spec in (*before.values(), *accelerators)}
        # A device that is in neither is the machine that this runs on.
        other._predicted.take_over(self._predicted, changed=named - same)
        return other

    def at_hand(self, *, predicting: bool = False) -> Self:
        """Return an estimator over the same memory that answers what takes no time, or nothing.

        Parameters
        ----------
        predicting : bool
            It may still ask the model, for one that answers at once.

        Returns
        -------
        Estimator
            Where this one would capture a graph, or ask the model unless it may, that one raises
            :class:`~perfmodel.errors.NotInTimeError`.
        """
        view = copy(self)
        view.graphs = NO_CAPTURES
        if not predicting:
            view._predicted = self._predicted.asking(NoModel(self.model.version))
        return view

    def has_predicted(self, prepared: PreparedJob, accelerator: AcceleratorSpec) -> bool:
        """Return whether the step of a job on one accelerator is in memory."""
        return self._predicted.known(prepared, accelerator) is not None

    def recently_predicted(self, most: int) -> list[tuple[PreparedJob, AcceleratorSpec]]:
        """Return the jobs and accelerators that were last asked about, as long as both are known.

        Parameters
        ----------
        most : int
            Pairs at most.
        """
        pairs = []
        for key, name in self._predicted.recent(most):
            prepared = self._jobs.get(key)
            if prepared is not None and name in self.accelerators:
                pairs.append((prepared, self.accelerators.get(name)))
        return pairs

    def estimate(
        self, job: Job, placement: Placement, observations: Sequence[Observation] = ()
    ) -> Estimate:
        """Answer one question.

        Parameters
        ----------
        observations : sequence of Observation
            Measured steps of the job, on any placement; they count for this answer alone.

        Raises
        ------
        InvalidInputError
            An unknown model, graph or accelerator, a model that cannot be captured, a placement
            that no model covers, an observation that cannot be true.
        """
        resolved = self.resolve(placement)
        if job.job_type is not None:
            return self.answer_type(self.opaque(job, observations), [resolved])[0]
        prepared = self.prepare(job)
        return self.answer(prepared, resolved, self.observed(prepared, observations))

    def explain(
        self,
        job: Job,
        placement: Placement,
        observations: Sequence[Observation] = (),
        *,
        most: int = 50,
    ) -> Explanation:
        """Explain an answer: which operators take the time, and what lies behind each factor.

        Parameters
        ----------
        observations : sequence of Observation
            As for :meth:`estimate`.
        most : int
            Groups of equal operators at most.

        Returns
        -------
        Explanation
            Its estimate is that of :meth:`estimate`.

        Raises
        ------
        InvalidInputError
            As :meth:`estimate`, and for a job type, which has no operators.
        """
        # Imported here: most callers never ask why.
        from perfmodel.estimator.explain import explain_answer

        prepared, resolved = self.prepare(job), self.resolve(placement)
        observed = self.observed(prepared, observations)
        return explain_answer(self, prepared, resolved, observed, most=most)

    def observed(
        self,
        prepared: PreparedJob,
        observations: Sequence[Observation],
        companions: Companions | None = None,
    ) -> ObservedJob | None:
        """Return what observed steps say about a job; None where there are none.

        Parameters
        ----------
        observations : sequence of Observation
            Of the job, and of others that they name.
        companions : Companions or None
            More observed steps of any jobs.
        """
        if not observations and not companions:
            return None
        return ObservedJob.of(self, prepared, observations, companions)

    def opaque(
        self,
        job: Job,
        observations: Sequence[Observation],
        companions: Companions | None = None,
    ) -> OpaqueJob:
        """Return what observed steps say about a job that is known by its type alone.

        Parameters
        ----------
        job : Job
            With a ``job_type``.
        observations : sequence of Observation
            Of the job, and of others that they name.
        companions : Companions or None
            More observed steps of any jobs.
        """
        return OpaqueJob.of(self, job, observations, companions)

    def answer_type(
        self, opaque: OpaqueJob, placements: Sequence[ResolvedPlacement]
    ) -> list[Estimate]:
        """Answer questions about a job that is known by its type alone, one for each placement."""
        return opaque_estimates(opaque, placements, self.accelerators)

    def curve(
        self,
        job: Job,
        question: CurveQuestion,
        observations: Sequence[Observation] = (),
        companions: Companions | None = None,
    ) -> Curve:
        """Return the throughput of a job over the number of accelerators.

        Parameters
        ----------
        observations : sequence of Observation
            As for :meth:`estimate`.
        companions : Companions or None
            As for :meth:`observed`.

        Raises
        ------
        InvalidInputError
            As :meth:`estimate`.
        """
        if job.job_type is not None:
            return draw_opaque_curve(self, self.opaque(job, observations, companions), question)
        prepared = self.prepare(job)
        observed = self.observed(prepared, observations, companions)
        return draw_curve(self, prepared, question, observed)

    def matrix(
        self,
        jobs: Sequence[Job | PerfModelError],
        placements: Sequence[Placement | PerfModelError],
        observations: Mapping[int, Sequence[Observation]] = MappingProxyType({}),
        companions: Companions | None = None,
    ) -> MatrixEstimate:
        """Answer every pair of a job and a placement; a bad one fails alone.

        Parameters
        ----------
        jobs, placements : sequence
            An error in place of a job or a placement is carried into the answer.
        observations : mapping of int to sequence of Observation
            Measured steps by the position of their job; they count for the other jobs too.
        companions : Companions or None
            As for :meth:`observed`.

        Returns
        -------
        MatrixEstimate
            Cell by cell equal to :meth:`estimate`.
        """
        return fill_matrix(self, jobs, placements, observations, companions)

    def rank(
        self,
        job: Job,
        placements: Sequence[Placement | PerfModelError],
        question: RankQuestion,
        observations: Sequence[Observation] = (),
        companions: Companions | None = None,
    ) -> Ranking:
        """Rank placements of a job, best first.

        Parameters
        ----------
        placements : sequence
            An error in place of a placement is carried into the answer.
        observations : sequence of Observation
            As for :meth:`estimate`.
        companions : Companions or None
            As for :meth:`observed`.
        """
        resolved = [_attempt(self.resolve, placement) for placement in placements]
        if job.job_type is not None:
            of_type = OpaqueRated(self, self.opaque(job, observations, companions))
            return rank_placements(of_type, resolved, question, OPAQUE_VERSION)
        prepared = self.prepare(job)
        observed = self.observed(prepared, observations, companions)
        rated = CapturedRated(self, prepared, observed)
        return rank_placements(rated, resolved, question, self.model_version)

    def search(
        self,
        job: Job,
        placement: Placement,
        observations: Sequence[Observation] = (),
        companions: Companions | None = None,
        *,
        global_batch: int | None = None,
        most: int = 10,
    ) -> PlanRanking:
        """Search the parallel plans of a job on all accelerators of a placement.

        Parameters
        ----------
        placement : Placement
            Its plan does not matter.
        observations : sequence of Observation
            As for :meth:`estimate`.
        companions : Companions or None
            As for :meth:`observed`.
        global_batch : int or None
            Samples of a step; None means the job's own batch on every accelerator.
        most : int
            Plans returned.

        Raises
        ------
        InvalidInputError
            The job trains no transformer whose dimensions are known, or no plan uses all
            accelerators with this batch.
        """
        prepared = self.prepare(job)
        observed = self.observed(prepared, observations, companions)
        resolved = self.resolve(placement)
        return search(self, prepared, resolved, observed, global_batch=global_batch, most=most)

    def prepare(self, job: Job) -> PreparedJob:
        """Return a job with its captured step; takes seconds where the job is new."""
        if job.job_type is not None:
            raise InvalidInputError(
                f"The job type {job.job_type!r} has no graph; only its throughput is answered, "
                "from observations of it.",
                pointer="/job/job_type",
            )
        key = job_key(job)
        known = self._jobs.get(key)
        if known is None:
            known = PreparedJob(job=job, key=key, step=self.graphs.step(job.step))
            self._jobs.put(key, known)
        return known

    def prepared(self, job: Job) -> PreparedJob | None:
        """Return a job with its captured step if it is in memory; never waits."""
        return self._jobs.get(job_key(job))

    def resolve(self, placement: Placement, *, pointer: str = "/placement") -> ResolvedPlacement:
        """Look up the accelerators of a placement.

        Parameters
        ----------
        pointer : str
            JSON pointer to it in the request.

        Raises
        ------
        UnknownAcceleratorError
            A name that the catalogue does not hold.
        InvalidPlacementError
            As :func:`perfmodel.estimator.resolve.resolve_placement`.
        """
        known = self._placements.get(placement)
        if known is None:
            known = resolve_placement(placement, self.accelerators, pointer=pointer)
            self._placements.put(placement, known)
        return known

    def answer(
        self,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        observed: ObservedJob | None = None,
    ) -> Estimate:
        """Answer one question about a prepared job."""
        observed = observed.on(placement) if observed is not None else None
        known = self._known(prepared, placement, observed)
        if known is not None:
            return known
        predictions = self.predictions([(prepared, a) for a in placement.accelerators])
        return self._compose(prepared, placement, predictions, observed)

    def known_answer(
        self,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        observed: ObservedJob | None = None,
    ) -> Estimate | None:
        """Answer from what is in memory, or return None; never runs the model."""
        if observed is not None:
            if not observed.is_ready_on(placement):
                return None
            observed = observed.on(placement)
        known = self._known(prepared, placement, observed)
        if known is not None:
            return known
        if placement.placement.shared_with:
            return None
        found = [self._predicted.known(prepared, a) for a in placement.accelerators]
        predictions = [prediction for prediction in found if prediction is not None]
        if len(predictions) < len(found):
            return None
        return self._compose(prepared, placement, predictions, observed)

    def placed(
        self,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        predictions: Sequence[StepPrediction],
    ) -> PlacedStep:
        """Return the step of a job on a placement from its time on one accelerator of each kind."""
        return place(prepared, placement, predictions, neighbours(self, placement))

    def _compose(
        self,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        predictions: Sequence[StepPrediction],
        observed: ObservedJob | None = None,
    ) -> Estimate:
        if observed is not None and observed.is_alone:
            predictions = observed.single(prepared, placement.kinds, predictions)
        if (observed is None or observed.is_alone) and is_plain(prepared, placement):
            answer = plain_answer(prepared, placement, predictions)
        else:
            placed = self.placed(prepared, placement, predictions)
            if observed is not None and not observed.is_alone:
                placed = observed.correct(prepared, placement, placed)
            answer = compose(prepared, placement, predictions, placed)
        if observed is None:
            self._answers.put((prepared.key, placement), answer)
        return answer

    def _known(
        self, prepared: PreparedJob, placement: ResolvedPlacement, observed: ObservedJob | None
    ) -> Estimate | None:
        """Return an answer that was given before; placements are told apart by identity."""
        return None if observed is not None else self._answers.get((prepared.key, placement))

    def predictions(
        self, pairs: Sequence[tuple[PreparedJob, AcceleratorSpec]]
    ) -> list[StepPrediction]:
        """Return the prediction of each job on one accelerator; each pair is predicted once.

        All that are not in memory go to the model in a single call.
        """
        return self._predicted.of(pairs)


def _attempt(
    resolve: Callable[[Placement], ResolvedPlacement], placement: Placement | PerfModelError
) -> ResolvedPlacement | PerfModelError:
    if isinstance(placement, PerfModelError):
        return placement
    try:
        return resolve(placement)
    except PerfModelError as error:
        return error
