"""``/v1/accelerators``: the catalogue, and what an operator adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import etagged_response, json_of, json_response
from service.http.documentation import json_body, problems
from service.http.errors import not_found
from service.routes.in_threads import in_threads
from service.schemas.state_bodies import (
    AcceleratorBody,
    AcceleratorFacts,
    AcceleratorsAnswer,
    AliasAnswer,
)
from service.versions.own_catalog import own_catalog_of

router = APIRouter(prefix="/v1/accelerators", tags=["catalogue"])

EXAMPLE: dict[str, Any] = {
    "kind": "npu",
    "vendor": "Example",
    "architecture": "First",
    "form_factor": "PCIe",
    "peak_flops": {"fp32": 2e13, "bf16": 1.6e14},
    "memory_bytes": 34_359_738_368,
    "bandwidth_bytes_per_s": 1.2e12,
    "link": "pcie5",
    "link_bandwidth_bytes_per_s": 6.3e10,
}


@router.get(
    "",
    summary="Every accelerator by name, with its facts and aliases",
    responses={200: {"model": AcceleratorsAnswer}},
)
async def accelerators(request: Request) -> Response:
    """List the catalogue; each name and alias can stand in a placement."""
    catalog = own_catalog_of(request).catalog
    aliases = _aliases(catalog)
    listed = [_entry(catalog, spec, aliases.get(spec.name, ())) for spec in catalog]
    return etagged_response(request, {"accelerators": listed})


@router.get(
    "/{name}",
    summary="One accelerator, by any of its names",
    responses={200: {"model": AcceleratorBody}, **problems(404)},
)
async def accelerator(request: Request, name: str) -> Response:
    """Return the facts of an accelerator."""
    catalog = own_catalog_of(request).catalog
    # What this machine is would have to be measured first.
    try:
        spec = catalog.with_local(None).get(name)
    except UnknownAcceleratorError as error:
        raise not_found(error.message) from error
    return etagged_response(request, _one(catalog, spec))


@router.put(
    "/{name}",
    summary="Add an accelerator, or change one that was added",
    responses={
        200: {"model": AcceleratorBody},
        201: {"model": AcceleratorBody},
        **problems(400, 409, 413, 415, 422, 503),
    },
    openapi_extra=json_body(AcceleratorFacts.model_json_schema(), {"an accelerator": EXAMPLE}),
)
async def put(request: Request, name: str) -> Response:
    """Keep the facts of an accelerator; it counts for every answer of every host within 2 s.

    The shipped catalogue stays as it is: a name that it knows, in whatever spelling, is taken.
    """
    facts = await json_of(request)
    own = own_catalog_of(request)
    spec, created = await dispatcher_of(request).threads.run(own.put, name, facts)
    return json_response(_one(own.catalog, spec), 201 if created else 200)


@router.delete(
    "/{name}",
    summary="Remove an accelerator that was added",
    status_code=204,
    responses={**problems(404, 409, 503)},
)
@in_threads
def delete(request: Request, name: str) -> Response:
    """Forget an accelerator, its aliases and its price."""
    if not own_catalog_of(request).remove(name):
        raise not_found()
    return Response(status_code=204)


@router.put(
    "/{name}/aliases/{alias}",
    summary="Give an accelerator another name",
    responses={
        200: {"model": AliasAnswer},
        201: {"model": AliasAnswer},
        **problems(409, 422, 503),
    },
)
@in_threads
def put_alias(request: Request, name: str, alias: str) -> Response:
    """Let a name mean an accelerator of the catalogue; one that was added may come to mean another.

    No body is needed.
    """
    canonical, created = own_catalog_of(request).put_alias(name, alias)
    content = {"accelerator": canonical, "alias": alias}
    return json_response(content, 201 if created else 200)


@router.delete(
    "/{name}/aliases/{alias}",
    summary="Take a name away that was added",
    status_code=204,
    responses={**problems(404, 409, 422, 503)},
)
@in_threads
def delete_alias(request: Request, name: str, alias: str) -> Response:
    """Forget an alias."""
    if not own_catalog_of(request).remove_alias(name, alias):
        raise not_found()
    return Response(status_code=204)


def _aliases(catalog: Catalog) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for alias, name in sorted(catalog.aliases().items()):
        found.setdefault(name, []).append(alias)
    return found


def _one(catalog: Catalog, spec: AcceleratorSpec) -> dict[str, Any]:
    return _entry(catalog, spec, _aliases(catalog).get(spec.name, ()))


def _entry(catalog: Catalog, spec: AcceleratorSpec, aliases: Sequence[str]) -> dict[str, Any]:
    return {
        **spec_to_dict(spec),
        "aliases": list(aliases),
        "custom": spec.name not in catalog.shipped,
    }
