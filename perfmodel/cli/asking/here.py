"""The estimator of this process as the one who answers, with as little loaded as can be.

Captures of this user are kept for the next command.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.cli.failures import problem
from perfmodel.errors import PerfModelError, UnknownModelVersionError
from perfmodel.json_values import as_object, as_text

if TYPE_CHECKING:
    from perfmodel.estimator import CapturedStep, Estimator, GraphSource
    from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
    from perfmodel.estimator.single.loading import LoadedModel
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job

#: Code that decides what a capture returns, below the package.
_CAPTURES = ("capture", "graph", "zoo", "estimator/jobs/capture.py")
#: A file of captures that has grown beyond this is begun anew.
_MOST_KEPT_BYTES = 512 * 1024 * 1024
#: Captures that no command looked at for so long are removed: other code made them, most likely.
_KEPT_S = 30 * 86_400.0


class KeptGraphs:
    """Knows shipped graphs, captures the rest, and keeps that in the cache of the user.

    ``PERFMODEL_CACHE`` moves that folder. Where it cannot be written, or the libraries of databases
    are absent, every command captures again. Nothing that captures or keeps is loaded before a job
    needs it.
    """

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job."""
        from perfmodel.estimator.jobs.capture import shipped_or_captured
        from perfmodel.estimator.jobs.captured_step import captured_view
        from perfmodel.zoo.shipped.shipped_graphs import is_shipped

        view = captured_view(job)
        if is_shipped(view):
            return shipped_or_captured(view)
        return self._library.step(job)

    @cached_property
    def _library(self) -> GraphSource:
        from perfmodel.estimator.jobs.capture import capture_in_process
        from perfmodel.estimator.jobs.graph_library import GraphLibrary
        from perfmodel.zoo.resolve import check_job

        library = partial(GraphLibrary, capture=capture_in_process, check=check_job)
        try:
            from perfmodel.store.state.database import Database

            return library(database=Database(f"sqlite:///{_file()}"))
        except (ImportError, OSError, PerfModelError):
            return library()


def _file() -> Path:
    """Return the file that captures are kept in; those that nobody used for long are removed."""
    own = os.environ.get("XDG_CACHE_HOME")
    usual = Path(own) / "perfmodel" if own else Path("~/.cache/perfmodel").expanduser()
    folder = Path(os.environ.get("PERFMODEL_CACHE") or usual) / "captures"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_code()}.db"
    if path.exists() and path.stat().st_size > _MOST_KEPT_BYTES:
        path.unlink(missing_ok=True)
    for other in folder.glob("*.db*"):
        with contextlib.suppress(OSError):  # another process was quicker
            if time.time() - other.stat().st_mtime > _KEPT_S:
                other.unlink()
    path.touch()
    return path


def _code() -> str:
    """Return a hash of the code that captures: what other code captured is not what this would."""
    package = Path(__file__).parents[2]
    state = hashlib.blake2b(digest_size=8)
    for name in _CAPTURES:
        path = package / name
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            state.update(source.relative_to(package).as_posix().encode() + b"\0")
            state.update(source.read_bytes())
    return state.hexdigest()


class Here:
    """The estimator of this process answers.

    Parameters
    ----------
    models : Path
        Holds the versions that a question may be pinned to.
    """

    def __init__(self, estimator: Estimator, models: Path) -> None:
        self.estimator = estimator
        self._models = models
        self._pinned: dict[str, Estimator] = {}

    @property
    def problems(self) -> Sequence[str]:
        """Damaged models, say."""
        return self.estimator.problems

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        from perfmodel.requests import parse_query

        asked = dict(as_object(request, "", what="A request"))
        estimator = self._answering(asked.pop("pin_model", None))
        query = parse_query(asked)
        return estimator.estimate(query.job, query.placement, query.observations).to_dict()

    def _answering(self, pinned: object) -> Estimator:
        """Return what answers with a version as a question names it; None: with the usual one."""
        if pinned is None:
            return self.estimator
        from perfmodel.estimator.single.loading import version_names

        name = as_text("pin_model", pinned, "/pin_model")
        if name == self.estimator.model_version:
            return self.estimator
        known = ["analytical", self.estimator.model_version, *version_names(self._models)]
        if name not in known:
            raise UnknownModelVersionError(
                name, known=known, pointer="/pin_model", hint="`perfmodel models` lists them."
            )
        if name not in self._pinned:
            self._pinned[name] = self.estimator.with_model(self._loaded(name))
        return self._pinned[name]

    def _loaded(self, name: str) -> LoadedModel:
        from perfmodel.estimator.single.analytical import ASKED_FOR_WARNING, AnalyticalModel
        from perfmodel.estimator.single.loading import LoadedModel, load_version

        if name == "analytical":
            return LoadedModel(model=AnalyticalModel(ASKED_FOR_WARNING))
        return load_version(self._models, name)

    def compare(self, job: Job, placements: Sequence[str]) -> list[dict[str, Any]]:
        """Answer for each placement; the model is asked about all of them at once."""
        from perfmodel.estimator.tables.estimates import answer_cell

        core = self.estimator.core
        prepared = core.prepare(job)
        resolved = [self._resolved(text) for text in placements]
        found = [one for one in resolved if not isinstance(one, PerfModelError) and one.is_plain]
        core.predictions([(prepared, spec) for one in found for spec in one.accelerators])
        rows: list[dict[str, Any]] = []
        for text, one in zip(placements, resolved, strict=True):
            try:
                if isinstance(one, PerfModelError):
                    raise one
                answer = answer_cell(core, prepared, one).to_dict()
                rows.append({"placement": text, **answer})
            except PerfModelError as error:
                rows.append({"placement": text, "error": problem(error)})
        return rows

    def _resolved(self, text: str) -> ResolvedPlacement | PerfModelError:
        from perfmodel.placement.topology.parse import parse_placement

        try:
            return self.estimator.core.resolve(parse_placement(text))
        except PerfModelError as error:
            return error

    def curve(self, job: Job, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer for growing counts."""
        from perfmodel.estimator.tables.curve import CurveQuestion, doubling_counts
        from perfmodel.placement.topology.networks import named_network

        network = question["network"]
        asked = CurveQuestion(
            accelerator=question["accelerator"],
            counts=tuple(doubling_counts(question["most"])),
            per_host=question["accelerators_per_host"],
            network=None if network is None else named_network(network, pointer="/network"),
            zero_stage=question["zero_stage"],
        )
        return self.estimator.curve(job, asked).to_dict()

    def kernels(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer for every pair of a kernel and an accelerator."""
        return self.estimator.kernels(question).to_dict(problem)

    def accelerators(self, kind: str) -> list[str]:
        """Those of the shipped catalogue."""
        from perfmodel.devices.catalog import Catalog

        return [spec.name for spec in Catalog.default() if kind in ("all", spec.kind)]


class GivenGraph:
    """A source of graphs that knows one more than another source: the one from a file."""

    def __init__(self, graph: Graph, others: GraphSource) -> None:
        self._graph = graph
        self._others = others

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job."""
        from perfmodel.estimator import CapturedStep
        from perfmodel.estimator.jobs.captured_step import asked_in

        if job.graph == self._graph.content_hash:
            tokens = noted_number(self._graph, "tokens_per_sample")
            step = CapturedStep(graph=self._graph, tokens_per_sample=tokens)
            return asked_in(step, job.precision)
        return self._others.step(job)


def estimator_here(models: Path, graph: Graph | None = None) -> Estimator:
    """Return an estimator over a folder of models that keeps its captures for the next command.

    A single question gains nothing from several threads: they wait for each other in calls that
    take microseconds. ``OMP_NUM_THREADS`` says otherwise of captures where it is set.

    Parameters
    ----------
    graph : Graph or None
        One that it shall know, from a file.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from perfmodel.estimator import Estimator
    from perfmodel.predictors.serving.own_process import prepare_process

    prepare_process()
    graphs = KeptGraphs()
    known = graphs if graph is None else GivenGraph(graph, graphs)
    return Estimator.from_folder(models, graphs=known)


def noted_number(graph: Graph, name: str) -> int | None:
    """Return a number that a graph from ``perfmodel capture`` notes in its source, or None."""
    text = graph.source.get(name, "")
    return int(text) if re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) else None
