"""The graph of a job out of the shipped library, without PyTorch."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

from perfmodel.devices.extras import installed_version
from perfmodel.errors import CaptureBudgetError, DamagedArtifactError
from perfmodel.graph.by_rule.rules import Point
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.zoo.resolve import check_job
from perfmodel.zoo.shipped.graph_files import GraphFile, GraphFolder
from perfmodel.zoo.shipped.variants import model_key, variant_key

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "graphs"


class ShippedGraph(NamedTuple):
    """A graph as a capture would give it, and the tokens of a sample."""

    graph: Graph
    tokens_per_sample: int | None


def shipped_graph(
    job: Job, *, folder: Path = FOLDER, most_nodes: int | None = None
) -> ShippedGraph | None:
    """Return the graph of a job out of the shipped library; None where it has to be captured.

    All parameters are trained in the graphs of the library. It holds what these versions of the
    libraries make of a model: where others are installed, a capture says what those make of it.

    Parameters
    ----------
    most_nodes : int or None
        Operators that the graph may have; None: any number.

    Raises
    ------
    InvalidInputError
        The job contradicts itself; as a capture would.
    CaptureBudgetError
        There are more operators.
    """
    check_job(job)
    try:
        place = _place(_folder(folder), job)
        found = place and place.graph(job)
    except DamagedArtifactError as error:
        logger.warning("%s It is captured instead.", error.message)
        return None
    if found and most_nodes is not None and len(found.graph.nodes) > most_nodes:
        raise CaptureBudgetError(
            f"The step has more than {most_nodes} operators. State more nodes in capture_budget, "
            "as far as this service allows it, or capture fewer layers.",
            pointer="/job",
        )
    return found


def is_shipped(job: Job, *, folder: Path = FOLDER) -> bool:
    """Tell whether the library has the graph of a job; takes no time worth naming."""
    try:
        return _place(_folder(folder), job) is not None
    except DamagedArtifactError:
        return False


class _Place(NamedTuple):
    """Where the rules of a program lie, and which of its graphs is asked for."""

    file: GraphFile
    variant: str
    number: int
    point: Point

    def graph(self, job: Job) -> ShippedGraph:
        domain = self.file.domains(self.variant)[self.number]
        graph = self.file.graph(self.variant, self.number).at(*self.point)
        return ShippedGraph(graph, domain.tokens_of(job.sequence_length))


def _place(shipped: GraphFolder, job: Job) -> _Place | None:
    if (job.model is None and job.hf_config is None) or not job.trains_all:
        return None
    file = shipped.file(model_key(job))
    if file is None or not _same_libraries(tuple(shipped.index["libraries"].items())):
        return None
    variant = variant_key(job)
    for number, domain in enumerate(file.domains(variant)):
        point = domain.point(job.batch_size, job.sequence_length)
        if point is not None:
            return _Place(file, variant, number, point)
    return None


@cache
def _folder(folder: Path) -> GraphFolder:
    return GraphFolder(folder)


@cache
def _same_libraries(captured_by: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether those libraries that are installed have the versions of the library."""
    return all(installed_release(name) in (None, release) for name, release in captured_by)


def installed_release(library: str) -> str | None:
    """Return the version of an installed library without its build; None where there is none."""
    found = installed_version(library)
    return None if found is None else found.partition("+")[0]
