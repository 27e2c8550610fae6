"""Ray's autoscaler, version 1: prefer the node type that a job runs fastest on.

Ray calls the function that ``RAY_AUTOSCALER_UTILIZATION_SCORER`` names for each node type and
launches the one with the highest score; set it to
``perfmodel.adapters.ray.utilization_scorer``. The variable ``PERFMODEL_RAY`` says the rest, as
JSON or as the path of a file with it::

    {"url": "http://127.0.0.1:8000",
     "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
     "node_types": {"gpu.a100": "8xA100-SXM4-80GB", "gpu.v100": "4xV100-SXM2-16GB"}}

The score is Ray's own with the relative throughput of an accelerator times the share of the
node's accelerators that would be used, put before Ray's balance of resources. It still keeps
nodes with accelerators away from work that needs none. Without an answer all node types count the
same, and Ray's own score decides.

Left out: version 2 of the autoscaler, which has no such hook.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import Answers, JobForm, NoAnswerError, Service
from perfmodel.adapters.measured.numbers import stated_number
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.json_values import refuse_unknown
from perfmodel.placement.topology.parse import parse_placement

LOG = logging.getLogger(__name__)

#: Where the configuration is.
VARIABLE = "PERFMODEL_RAY"
_SETTINGS = ("url", "job", "node_types", "timeout_s")
#: How long answers are kept.
_REFRESH_S = 300.0

Resources = Mapping[str, float]
#: Ray's own scorer.
Scorer = Callable[..., "tuple[Any, ...] | None"]


class NodeSpeeds:
    """Relative throughput of one accelerator of each node type.

    Parameters
    ----------
    node_types : mapping of str to str
        Placement of a whole node of each type.

    Raises
    ------
    InvalidInputError
        One that is no placement.
    """

    def __init__(self, answers: Answers, job: JobForm, node_types: Mapping[str, str]) -> None:
        self._answers = answers
        self._job = job
        self._node_types = dict(node_types)
        self._counts = {
            name: parse_placement(one, pointer=f"/node_types/{name}").accelerator_count
            for name, one in self._node_types.items()
        }
        self._speeds: dict[str, float] = {}
        self._asked_at: float | None = None

    @classmethod
    def from_environment(cls) -> NodeSpeeds:
        """Read the configuration.

        Raises
        ------
        InvalidInputError
            It is missing or is no such JSON.
        """
        written = os.environ.get(VARIABLE, "")
        try:
            text = written if written.lstrip().startswith("{") else Path(written).read_text()
            told = json.loads(text)
            refuse_unknown(told, _SETTINGS, "")
            timeout_s = stated_number(told.get("timeout_s", 2.0), "timeout_s")
            service = Service(told["url"], timeout_s=timeout_s)
            return cls(service, dict(told["job"]), dict(told["node_types"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{VARIABLE} must be JSON with {', '.join(_SETTINGS)}, or the path of a file with "
                f"it: {error!r}."
            ) from error

    def of(self, node_type: str) -> float:
        """Return the speed of a node type, 1 for the fastest.

        0 for one that the job does not fit on or that has no answer; 1 for all without any.
        """
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at > _REFRESH_S:
            self._asked_at = now
            self._ask()
        return self._speeds.get(node_type, 0.0) if self._speeds else 1.0

    def _ask(self) -> None:
        try:
            [cells] = self._answers.cells([self._job], list(self._node_types.values()))
        except NoAnswerError as error:
            LOG.warning("Ray goes on without predictions: %s", error)
            return
        rates = {
            name: 0.0 if cell is None or cell.fits is False else cell.samples_per_second / count
            for (name, count), cell in zip(self._counts.items(), cells, strict=True)
        }
        fastest = max(rates.values(), default=0.0)
        if fastest > 0:
            self._speeds = {name: rate / fastest for name, rate in rates.items()}


def scored(
    own: tuple[Any, ...] | None,
    speed: float,
    node_resources: Resources,
    resources: Sequence[Resources],
) -> tuple[Any, ...] | None:
    """Return Ray's own score with the speed of a node type put into it.

    Parameters
    ----------
    own : tuple or None
        ``(gpu_ok, matching resource types, least utilisation, mean utilisation)``.
    speed : float
        Of one accelerator, 0 to 1.
    node_resources : mapping
        Of a node of the type.
    resources : sequence of mapping
        What is asked for.

    Returns
    -------
    tuple or None
        None where Ray's own is.

    Examples
    --------
    >>> scored((True, 2, 0.5, 1.0), 0.8, {"GPU": 4}, [{"GPU": 1}, {"GPU": 1}])
    (True, 2, 0.4, 0.5, 1.0)
    """
    if own is None:
        return None
    held = float(node_resources.get("GPU", 0.0))
    wanted = sum(float(bundle.get("GPU", 0.0)) for bundle in resources)
    useful = speed * min(1.0, wanted / held) if held > 0 and wanted > 0 else 0.0
    return (*own[:2], useful, *own[2:])


def utilization_scorer(
    node_resources: Resources,
    resources: Sequence[Resources],
    node_type: str,
    *,
    node_availability_summary: Any,
) -> tuple[Any, ...] | None:
    """Score a node type for Ray's autoscaler; the highest is launched."""
    own = _rays_own()(
        node_resources, resources, node_type, node_availability_summary=node_availability_summary
    )
    speeds = _speeds()
    speed = 1.0 if speeds is None else speeds.of(node_type)
    return scored(own, speed, node_resources, resources)


@lru_cache(maxsize=1)
def _rays_own() -> Scorer:
    module = importlib.import_module("ray.autoscaler._private.resource_demand_scheduler")
    own: Scorer = module._default_utilization_scorer
    return own


@lru_cache(maxsize=1)
def _speeds() -> NodeSpeeds | None:
    try:
        return NodeSpeeds.from_environment()
    except PerfModelError as error:
        LOG.warning("Ray goes on without predictions: %s", error)
        return None
