"""Answers what throughput a deep-learning job will reach on a placement.

The names below are all that most programs need. Each is imported on first use, so that
``import perfmodel`` alone loads no numeric library.

>>> from perfmodel import Job
>>> Job(model="timm/resnet50", batch_size=64).label
'timm/resnet50'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from perfmodel.errors import PerfModelError
    from perfmodel.estimator import Estimator
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job
    from perfmodel.graph.workload import Workload
    from perfmodel.placement.estimate import Estimate
    from perfmodel.placement.topology.topology import Neighbour, Network, Node, Placement, Plan
    from perfmodel.requests import parse_request

_HOME = {
    "Estimate": "perfmodel.placement.estimate",
    "Estimator": "perfmodel.estimator",
    "Graph": "perfmodel.graph.ir",
    "Job": "perfmodel.graph.job",
    "Neighbour": "perfmodel.placement.topology.topology",
    "Network": "perfmodel.placement.topology.topology",
    "Node": "perfmodel.placement.topology.topology",
    "PerfModelError": "perfmodel.errors",
    "Placement": "perfmodel.placement.topology.topology",
    "Plan": "perfmodel.placement.topology.topology",
    "Workload": "perfmodel.graph.workload",
    "parse_request": "perfmodel.requests",
}

__all__ = [
    "Estimate",
    "Estimator",
    "Graph",
    "Job",
    "Neighbour",
    "Network",
    "Node",
    "PerfModelError",
    "Placement",
    "Plan",
    "Workload",
    "parse_request",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'perfmodel' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
