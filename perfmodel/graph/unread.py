"""Graphs that are read when somebody first looks into them.

What most answers need of a graph is kept beside it. Its nodes and tensors, which take longer to
read than to answer by, are for the few that look at them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph

#: Under which name the way to read a graph lies in it.
_READ = "_read"
_FIELDS = ("nodes", "tensors", "source")
#: One at a time: threads that ask for the same graph are to see the same nodes.
_READING = Lock()


def unread_graph(content_hash: str, read: Callable[[], Graph]) -> Graph:
    """Return a graph whose hash is known, and that is read when it is first looked into.

    Parameters
    ----------
    read : callable
        Returns the graph; what it raises, whoever looks raises.

    Returns
    -------
    Graph
        Like any other, once it was looked into.

    Examples
    --------
    >>> from perfmodel.graph.ir import Graph
    >>> graph = unread_graph("ab", lambda: Graph(nodes=(), tensors=()))
    >>> graph.content_hash, is_unread(graph), graph.nodes, is_unread(graph)
    ('ab', True, (), False)
    """
    from perfmodel.graph.ir import Graph

    graph = object.__new__(Graph)
    vars(graph).update({"content_hash": content_hash, _READ: read})
    return graph


def is_unread(graph: Graph) -> bool:
    """Return whether a graph was not looked into yet."""
    return _READ in vars(graph)


def looked_into(graph: Graph, name: str) -> Any:
    """Return an attribute that a graph lacks, once it was read.

    Raises
    ------
    AttributeError
        No graph has such an attribute.
    """
    if name not in _FIELDS:
        raise AttributeError(f"a graph has no attribute {name!r}")
    kept = vars(graph)
    with _READING:
        read = kept.get(_READ)
        if read is not None:
            found = read()
            kept.update({field: getattr(found, field) for field in _FIELDS})
            del kept[_READ]
    return kept[name]
