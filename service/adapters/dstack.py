"""dstack's REST plugin: runs keep to the accelerators that their job fits on.

``DSTACK_PLUGIN_SERVICE_URI`` is the address of the service and ``/v1/adapters/dstack``, optionally
with the accelerators to choose from behind it: ``/v1/adapters/dstack/H100,A100,L4``. A run says
what it is in its environment: ``PERFMODEL_JOB`` is the reference of a registered job, or its JSON.

``resources.gpu.name`` becomes the list of those accelerators that the job fits on, fastest first;
the price decides among them, as dstack has it. What was named by the user is narrowed down and
never widened. Everything else of a run, and every run that cannot be judged, is returned as it
came: dstack refuses a run whose plugin does not answer, so that this one always does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/adapters/dstack", tags=["schedulers"])

#: Variable of a run's environment that says what the job is.
JOB = "PERFMODEL_JOB"
_MOST_CANDIDATES = 64
#: What makers call 80 GB may be some percent more or less of it.
_OFF = 0.1
#: Where answers are counted, with and without named accelerators.
_COUNTED = f"{router.prefix}/apply_policies/on_run_apply"


class SpecAnswer(BaseModel):
    """The specification to apply."""

    spec: dict[str, Any]
    error: str | None = Field(default=None, description="Always null: no run is refused.")


class SpecRequest(BaseModel):
    """What a user wants to apply."""

    user: str
    project: str
    spec: dict[str, Any]


EXAMPLE: dict[str, Any] = {
    "user": "me",
    "project": "main",
    "spec": {
        "configuration": {
            "type": "task",
            "env": {JOB: '{"model": "timm/resnet50", "mode": "training", "batch_size": 64}'},
            "resources": {"gpu": {"name": ["V100", "A100"], "count": {"min": 4, "max": 4}}},
        }
    },
}

_DOCUMENTED: dict[str, Any] = {
    "responses": {200: {"model": SpecAnswer}, **problems(400, 413, 415, 422)},
    "openapi_extra": json_body(SpecRequest.model_json_schema(), {"a task": EXAMPLE}),
}


@router.post("/apply_policies/on_run_apply", summary="Narrow a dstack run down", **_DOCUMENTED)
async def on_run_apply(request: Request) -> Response:
    """Return the specification of a run with the accelerators that its job fits on."""
    return await _answer(request, ())


@router.post(
    "/{accelerators}/apply_policies/on_run_apply",
    summary="Narrow a dstack run down to some of the named accelerators",
    **_DOCUMENTED,
)
async def on_run_apply_among(request: Request, accelerators: str) -> Response:
    """As without names; they are what a run chooses from that names none itself."""
    return await _answer(request, tuple(name for name in accelerators.split(",") if name))


@router.post("/apply_policies/on_fleet_apply", summary="Return a dstack fleet", **_DOCUMENTED)
@router.post("/apply_policies/on_volume_apply", summary="Return a dstack volume", **_DOCUMENTED)
@router.post("/apply_policies/on_gateway_apply", summary="Return a dstack gateway", **_DOCUMENTED)
async def on_other_apply(request: Request) -> Response:
    """Return a specification as it came."""
    return json_response({"spec": _spec(await json_of(request)), "error": None})


async def _answer(request: Request, candidates: Sequence[str]) -> Response:
    spec = _spec(await json_of(request))
    dispatcher = dispatcher_of(request)
    try:
        spec = await dispatcher.threads.run(_narrowed, dispatcher, spec, candidates)
    except PerfModelError as problem:
        logger.info("a run of dstack is left as it is: %s", problem)
    except Exception:
        logger.exception("a run of dstack is left as it is")
    return json_response({"spec": spec, "error": None})


def _spec(body: Any) -> Mapping[str, Any]:
    spec = body.get("spec") if isinstance(body, dict) else None
    if not isinstance(spec, dict):
        raise InvalidInputError("A request of dstack's plugin has a spec.", pointer="/spec")
    return spec


def _narrowed(
    dispatcher: Dispatcher, spec: Mapping[str, Any], candidates: Sequence[str]
) -> Mapping[str, Any]:
    """Return the specification with the names that fit, or as it is where nothing is to be said.

    Raises
    ------
    PerfModelError
        A job that cannot be read, or more names than are looked at.
    """
    configuration = _object(spec.get("configuration"))
    resources = _object(configuration.get("resources"))
    written = _object(configuration.get("env")).get(JOB)
    stated = resources.get("gpu")
    gpu = _object(stated)
    names = _names(gpu.get("name") or list(candidates))
    # Accelerators in a form that is not dstack's own are not written anew.
    if not isinstance(written, str) or not names or (stated is not None and stated is not gpu):
        return spec
    if len(names) > _MOST_CANDIDATES:
        raise InvalidInputError(
            f"At most {_MOST_CANDIDATES} accelerators are compared; got {len(names)}."
        )
    fitting = _fitting(dispatcher, written, names, configuration, gpu)
    if not fitting:
        return spec
    gpu = {**gpu, "name": fitting}
    return {
        **spec,
        "configuration": {**configuration, "resources": {**resources, "gpu": gpu}},
    }


def _names(value: Any) -> list[str]:
    written = [value] if isinstance(value, str) else value
    return [one for one in written if isinstance(one, str)] if isinstance(written, list) else []


def _fitting(
    dispatcher: Dispatcher,
    text: str,
    names: Sequence[str],
    configuration: Mapping[str, Any],
    gpu: Mapping[str, Any],
) -> list[str]:
    answerer = dispatcher.models.serving
    written = answerer.job_written(_job(text.strip()))
    catalog, spread = answerer.estimator.accelerators, _placement(configuration, gpu)
    known = {name: _card(catalog, name, gpu) for name in names if name in catalog}
    placements = [
        parse_placement({"nodes": [{"accelerator": one, **spread}]}) for one in known.values()
    ]
    if not known:
        return []
    matrix = answerer.row(parse_job(written), placements)
    dispatcher.metrics.table(_COUNTED, matrix.basis)
    dispatcher.shadow.asked.note_row(written, placements)
    judged = {
        name: (float(matrix.samples_per_second[0, column]), bool(matrix.fits[0, column]))
        for column, name in enumerate(known)
        if matrix.answered[0, column]
    }
    if not any(fits for _, fits in judged.values()):
        return []
    fitting = [name for name, (_, fits) in judged.items() if fits]
    fitting.sort(key=lambda name: -judged[name][0])
    # What cannot be judged is neither praised nor taken away.
    return [*fitting, *(name for name in names if name not in judged)]


def _job(text: str) -> Any:
    try:
        return orjson.loads(text) if text.startswith("{") else text
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"{JOB} is not JSON: {error}.") from error


def _card(catalog: Catalog, name: str, gpu: Mapping[str, Any]) -> str:
    """Return the card of a name that has the memory which a run asks for, where one has.

    dstack calls cards of two sizes by one name, and tells them apart by their memory alone.
    """
    memory = _object(gpu.get("memory"))
    low, high = (_gib(memory.get(end)) for end in ("min", "max"))
    least, most = (low or 0.0) * (1 - _OFF), (high or math.inf) * (1 + _OFF)
    meant = (catalog.canonical_name(name), *catalog.other_meanings(name))
    within = [one for one in meant if least <= catalog.get(one).memory_bytes / 2**30 <= most]
    return name if meant[0] in within or not within else within[0]


def _gib(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _placement(configuration: Mapping[str, Any], gpu: Mapping[str, Any]) -> dict[str, int]:
    count = gpu.get("count")
    least = _object(count).get("min", count)
    nodes = configuration.get("nodes")
    return {
        "count": least if isinstance(least, int) and least >= 1 else 1,
        "repeat": nodes if isinstance(nodes, int) and nodes >= 1 else 1,
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
