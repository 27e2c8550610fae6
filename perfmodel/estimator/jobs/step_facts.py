"""What answers need of the graph of a step: worked out once, and kept beside it.

Whoever captures a graph has it at hand. All that a prediction, its placement and the bound of the
roofline ask of it is a twentieth of what reading it again would take, for this process and for
others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.features.roofline import NodeWork, keep_node_work, node_work
from perfmodel.features.steps.sketch import StepSketch, keep_sketch, step_sketch
from perfmodel.graph.canonical import is_readable
from perfmodel.graph.cost import cost_table
from perfmodel.graph.ir import Graph, unread_graph
from perfmodel.placement.data_parallel.step_profile import StepProfile, step_profile
from perfmodel.placement.memory.memory_profile import MemoryProfile, memory_profile
from perfmodel.store.array_bytes import from_bytes, to_bytes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepFacts:
    """Facts of the graph of one step.

    Parameters
    ----------
    memory : MemoryProfile
        Where all of a checkpointed part is computed again.
    unpriced : mapping of str to int
        Operators without a cost formula and how often they occur.
    """

    sketch: StepSketch
    work: NodeWork
    profile: StepProfile
    memory: MemoryProfile
    unpriced: Mapping[str, int]

    @classmethod
    def of(cls, graph: Graph) -> StepFacts:
        """Work out the facts of a graph."""
        return cls(
            sketch=step_sketch(graph),
            work=node_work(graph),
            profile=step_profile(graph),
            memory=memory_profile(graph),
            unpriced=dict(cost_table(graph).unpriced),
        )

    def graph(self, read: Callable[[], Graph]) -> Graph:
        """Return the graph of these facts, which is read when somebody looks into it."""
        graph = unread_graph(self.sketch.content_hash, read)
        keep_sketch(graph, self.sketch)
        keep_node_work(graph, self.work)
        return graph

    def to_bytes(self) -> bytes:
        """Return the facts as they are kept.

        Raises
        ------
        ValueError, TypeError
            There is no way to write them.
        """
        arrays: dict[str, Any] = {}
        values: dict[str, Any] = {"unpriced": self.unpriced}
        for name in _PARTS:
            part = getattr(self, name)
            for field in fields(part):
                value = getattr(part, field.name)
                # A text and a list of them are for JSON, which has no number exactly as it is.
                into = values if isinstance(value, str | tuple) else arrays
                into[f"{name}.{field.name}"] = value if into is values else np.asarray(value)
        return to_bytes(arrays, values)

    @classmethod
    def from_bytes(cls, content: bytes) -> StepFacts:
        """Read back what :meth:`to_bytes` gave.

        Raises
        ------
        ValueError
            It is damaged, or was not written by this version.
        """
        arrays, values = from_bytes(content)
        try:
            parts: dict[str, Any] = {
                name: kind(
                    **{f.name: _value(f"{name}.{f.name}", arrays, values) for f in fields(kind)}
                )
                for name, kind in _PARTS.items()
            }
            return cls(**parts, unpriced=values["unpriced"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are no facts of a graph: {error}") from error


_PARTS: Mapping[str, Any] = MappingProxyType(
    {"sketch": StepSketch, "work": NodeWork, "profile": StepProfile, "memory": MemoryProfile}
)


def _value(name: str, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    if name in values:
        value = values[name]
        return tuple(value) if isinstance(value, list) else value
    value = arrays[name]
    return value if np.ndim(value) else value.item()


def facts_to_keep(graph: Graph, canonical: bytes) -> bytes | None:
    """Work out the facts of a graph as they are kept; None where it has to be read for them.

    Whatever is wrong with a graph is left to be found, and told, where it is asked about.

    Parameters
    ----------
    canonical : bytes
        What it was written as; nobody may read it for long, so that it has to be readable.
    """
    if not is_readable(graph, canonical):
        return None
    try:
        return StepFacts.of(graph).to_bytes()
    except Exception:
        logger.exception("the facts of graph %s cannot be kept", graph.content_hash)
        return None


def facts_from(content: bytes | None) -> StepFacts | None:
    """Read facts that were kept; None where there are none, or damaged ones."""
    if not content:
        return None
    try:
        return StepFacts.from_bytes(content)
    except ValueError as error:
        logger.warning("kept facts of a graph are worked out again: %s", error)
        return None
