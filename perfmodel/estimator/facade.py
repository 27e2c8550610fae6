"""The Estimator: the verbs that join jobs, a model, observations and placements into answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import answer_of_type
from perfmodel.estimator.jobs.captured_step import GraphSource
from perfmodel.estimator.kernels.kernel_answers import answer_kernels
from perfmodel.estimator.kernels.kernel_question import parse_kernels
from perfmodel.estimator.plans.search import search
from perfmodel.estimator.tables.curve import Curve, CurveQuestion, draw_curve, draw_curve_of_type
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.estimator.tables.filling import fill
from perfmodel.estimator.tables.ranking import Ranking, RankQuestion, rank_placements
from perfmodel.estimator.tables.table import AskedJob, Table
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.predictors.kernels.kernel_times import AnalyticalKernels, KernelModel
from perfmodel.predictors.prediction import StepModel

if TYPE_CHECKING:
    from torch import nn

    from perfmodel.estimator.explain.explain import Explanation
    from perfmodel.estimator.kernels.kernel_answers import KernelTable
    from perfmodel.estimator.single.loading import LoadedModel


class Estimator:
    """Answers what throughput a job will reach on a placement.

    The same question always gets the same answer; every method may be called from any thread.

    Parameters
    ----------
    model : StepModel
        Predicts step times.
    graphs : GraphSource
        Turns jobs into graphs.
    models : sequence of mapping
        Facts of the trained models that are installed, for people.
    problems : sequence of str
        What is wrong with this installation (a damaged model, say), for people.
    kernel_model : KernelModel or None
        Answers for single kernels; None: the analytical one.

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
        models: Sequence[Mapping[str, Any]] = (),
        problems: Sequence[str] = (),
        kernel_model: KernelModel | None = None,
    ) -> None:
        self.core = Core(accelerators=accelerators, model=model, graphs=graphs)
        self.models = tuple(models)
        self.problems = tuple(problems)
        self.kernel_model = kernel_model or AnalyticalKernels()

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
        models : path or str
            A folder, or a URL of fsspec, which a local copy follows now. Holds
            ``<name>/<version>/``; may be missing or empty, then the analytical model answers. A
            damaged version is passed over and named in :attr:`problems`.
        catalog : Catalog or None
            Accelerators; None means the shipped ones and the local CPU.
        graphs : GraphSource or None
            None captures in this process and keeps nothing on disk.
        """
        from perfmodel.estimator.kernels.loading import load_kernels
        from perfmodel.estimator.single.loading import load_model
        from perfmodel.registry.mirror import local_models

        folder = local_models(models)
        loaded, (kernels, problems) = load_model(folder), load_kernels(folder)
        return cls(
            accelerators=_with_devices(Catalog.default() if catalog is None else catalog, loaded),
            model=loaded.model,
            graphs=graphs or _unkept(),
            models=loaded.models,
            problems=(*loaded.problems, *problems),
            kernel_model=kernels,
        )

    @property
    def accelerators(self) -> Catalog:
        """The catalogue."""
        return self.core.accelerators

    @property
    def model_version(self) -> str:
        """Which model answers."""
        return self.core.model.version

    def with_model(self, loaded: LoadedModel) -> Self:
        """Return an estimator that answers with another version of the model.

        Both know the same graphs; nothing else that either remembers reaches the other.

        Parameters
        ----------
        loaded : LoadedModel
            Devices that it was measured on join the catalogue.
        """
        accelerators = _with_devices(self.accelerators, loaded)
        other = self._over(self.core.with_model(loaded.model, accelerators))
        other.models, other.problems = tuple(loaded.models), tuple(loaded.problems)
        return other

    def with_accelerators(self, accelerators: Catalog) -> Self:
        """Return an estimator that answers for another catalogue; this one answers on as it did.

        What was predicted for devices that are the same in both is known to the new one. Answers
        are remembered by the names of devices, so that nothing else may be.
        """
        return self._over(self.core.with_accelerators(accelerators))

    def non_blocking(self, *, predicting: bool = False) -> Self:
        """Return an estimator over the same memory that answers what takes no time, or nothing.

        Where this one would capture a graph, or ask the model unless it may, that one raises
        :class:`~perfmodel.errors.NotInTimeError`.

        Parameters
        ----------
        predicting : bool
            It may still ask the model, for one that answers at once.
        """
        return self._over(self.core.non_blocking(predicting=predicting))

    def _over(self, core: Core) -> Self:
        other = copy(self)
        other.core = core
        return other

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
        resolved = self.core.resolve(placement)
        if job.job_type is not None:
            job_type = ObservedJobType.of(self.core, job, observations)
            return answer_of_type(self.core, job_type, resolved)
        prepared = self.core.prepare(job)
        observed = observed_job(self.core, prepared, observations)
        return answer_cell(self.core, prepared, resolved, observed)

    def estimate_module(
        self,
        module: nn.Module,
        args: Any,
        placement: Placement | str,
        *,
        kwargs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Estimate:
        """Answer for a module of one's own, which is neither changed nor run.

        Parameters
        ----------
        args, kwargs
            One micro-batch of inputs, batch first, real or on the meta device; a tensor stands for
            one alone.
        placement : Placement or str
            The latter in its short form.
        **settings
            Fields of a job, as in a request: ``mode="training"``, ``precision``, ``optimizer``, ...

        Raises
        ------
        InvalidInputError, CaptureError
            A setting that makes no sense; a step that cannot be captured, with the reason.

        Examples
        --------
        >>> estimator.estimate_module(  # doctest: +SKIP
        ...     model, (torch.empty(8, 3, 224, 224),), "8xA100-SXM4-80GB", mode="training")
        """
        from perfmodel.estimator.jobs.capture import prepare_module

        where = parse_placement(placement) if isinstance(placement, str) else placement
        prepared = prepare_module(module, args, kwargs, settings)
        return answer_cell(self.core, prepared, self.core.resolve(where))

    def matrix(
        self,
        jobs: Sequence[AskedJob],
        placements: Sequence[Placement | PerfModelError],
        observations: Mapping[int, Sequence[Observation]] = MappingProxyType({}),
        strangers: Strangers | None = None,
    ) -> Table:
        """Answer every pair of a job and a placement; a bad one fails alone.

        Parameters
        ----------
        jobs, placements : sequence
            An error in place of a job or a placement is carried into the answer; a job may be
            prepared.
        observations : mapping of int to sequence of Observation
            Measured steps by the position of their job; they count for the other jobs too.
        strangers : Strangers or None
            Observed steps of any jobs.

        Returns
        -------
        Table
            Cell by cell equal to :meth:`estimate`.
        """
        return fill(self.core, jobs, placements, observations, strangers).table()

    def curve(
        self,
        job: Job,
        question: CurveQuestion,
        observations: Sequence[Observation] = (),
        strangers: Strangers | None = None,
    ) -> Curve:
        """Return the throughput of a job over the number of accelerators; as :meth:`matrix`.

        Raises
        ------
        InvalidInputError
            As :meth:`estimate`.
        """
        if job.job_type is not None:
            job_type = ObservedJobType.of(self.core, job, observations, strangers)
            return draw_curve_of_type(self.core, job_type, question)
        prepared = self.core.prepare(job)
        observed = observed_job(self.core, prepared, observations, strangers)
        return draw_curve(self.core, prepared, question, observed)

    def rank(
        self,
        job: Job,
        placements: Sequence[Placement | PerfModelError],
        question: RankQuestion,
        observations: Sequence[Observation] = (),
        strangers: Strangers | None = None,
    ) -> Ranking:
        """Rank placements of a job; what was observed as for :meth:`matrix`.

        Parameters
        ----------
        placements : sequence
            An error in place of a placement is carried into the answer.
        """
        return rank_placements(self.core, job, placements, question, observations, strangers)

    def search(
        self,
        job: Job,
        placement: Placement,
        observations: Sequence[Observation] = (),
        strangers: Strangers | None = None,
        *,
        global_batch: int | None = None,
        most: int = 10,
    ) -> PlanRanking:
        """Search the parallel plans of a job on all accelerators of a placement.

        Parameters
        ----------
        placement : Placement
            Its plan does not matter.
        global_batch : int or None
            Samples of a step; None means the job's own batch on every accelerator.

        Raises
        ------
        InvalidInputError
            The job trains no transformer whose dimensions are known, or no plan uses all
            accelerators with this batch.
        """
        prepared = self.core.prepare(job)
        observed = observed_job(self.core, prepared, observations, strangers)
        resolved = self.core.resolve(placement)
        return search(self.core, prepared, resolved, observed, global_batch=global_batch, most=most)

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
        from perfmodel.estimator.explain.explain import explain_answer

        prepared, resolved = self.core.prepare(job), self.core.resolve(placement)
        observed = observed_job(self.core, prepared, observations)
        kernels = self.kernel_model
        return explain_answer(self.core, prepared, resolved, observed, kernels=kernels, most=most)

    def kernels(self, question: Mapping[str, Any]) -> KernelTable:
        """Answer how long single kernels, and collectives, take by their shape.

        Parameters
        ----------
        question : mapping
            ``{"kernels": [{"op", "precision", "shape"}, ...], "accelerators": [...]}``, as
            ``POST /v1/kernels`` takes it.

        Returns
        -------
        KernelTable
            Every pair; what is wrong with a kernel or an accelerator costs its own pairs.

        Raises
        ------
        InvalidInputError
            No kernels, no accelerators, or too many pairs.
        """
        return answer_kernels(parse_kernels(question), self.kernel_model, self.accelerators)


def _unkept() -> GraphSource:
    """Return what knows shipped graphs, captures the rest in this process and keeps nothing."""
    # Imported here: it loads the libraries of databases, which not everybody needs.
    from perfmodel.estimator.jobs.capture import shipped_or_captured
    from perfmodel.estimator.jobs.graph_library import GraphLibrary

    return GraphLibrary(capture=shipped_or_captured)


def _with_devices(accelerators: Catalog, loaded: LoadedModel) -> Catalog:
    """Return a catalogue with the devices that a model was measured on."""
    for device in loaded.devices:
        accelerators = accelerators.with_device(device)
    return accelerators
