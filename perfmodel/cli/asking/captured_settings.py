"""With which settings a graph was captured: noted in its source, and held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.cli.asking.here import noted_number
from perfmodel.cli.subjects import job_of
from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import job_to_dict
from perfmodel.graph.noted_settings import HELD_TO, NOTED_AS, NUMBERS, WORDS
from perfmodel.types import Mode

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job

_IN_THE_GRAPH = ("adapter", "frozen")


def noted(graph: Graph, job: Job, tokens_per_sample: int | None = None) -> Graph:
    """Note in the graph's source with which settings it was captured."""
    said = job_to_dict(job)
    said["activation_checkpointing"] = "full" if job.activation_checkpointing else "none"
    names = [name for name in (*WORDS, *NUMBERS) if said.get(name) is not None]
    if job.mode is Mode.INFERENCE:
        names = [name for name in names if name != "optimizer"]
    source = {NOTED_AS.get(name, name): str(said[name]) for name in names}
    if tokens_per_sample is not None:
        source["tokens_per_sample"] = str(tokens_per_sample)
    return replace(graph, source={**graph.source, **source})


def settings_of(graph: Graph) -> dict[str, Any]:
    """Return the settings that a graph from ``perfmodel capture`` notes in its source.

    Raises
    ------
    InvalidInputError
        It holds several micro-batches.
    """
    held = noted_number(graph, "accumulation_steps") or 1
    if held > 1:
        raise InvalidInputError(
            f"The graph holds {held} micro-batches, as earlier versions captured them. Capture the "
            "model again.",
            pointer="/job/graph",
        )
    words = {name: graph.source[name] for name in WORDS if name in graph.source}
    numbers = {name: noted_number(graph, NOTED_AS.get(name, name)) for name in NUMBERS}
    return words | {name: number for name, number in numbers.items() if number is not None}


def job_of_graph(graph: Graph, settings: Mapping[str, Any]) -> Job:
    """Return the job of a captured graph, with the options of a command.

    Raises
    ------
    InvalidInputError
        An option that asks for another program than the one that was captured.
    """
    captured = {"graph": graph.content_hash, **settings_of(graph)}
    asked, was = job_of(captured, settings), job_of(captured, {})
    # What notes its layout notes all that was stated; older files note three settings.
    notes_all = "memory_format" in graph.source
    for name in (one for one in HELD_TO if notes_all or one in graph.source):
        if getattr(asked, name) != getattr(was, name):
            own = graph.source.get(NOTED_AS.get(name, name), "left open")
            raise InvalidInputError(
                f"The graph was captured with {name} {own}, but {settings[name]} is asked for. "
                "Capture the model again with that.",
                pointer=f"/job/{name}",
            )
    for name in _IN_THE_GRAPH:
        if settings.get(name):
            raise InvalidInputError(
                f"What a captured graph trains cannot be changed: leave --{name} out, or capture "
                "the model with it.",
                pointer=f"/job/{name}",
            )
    return asked
