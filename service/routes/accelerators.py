"""``GET /v1/accelerators``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from perfmodel.devices.codec import spec_to_dict
from service.etag import etagged_response
from service.routes.requests import desk_of
from service.schemas import AcceleratorsAnswer

router = APIRouter(tags=["catalogue"])


@router.get(
    "/v1/accelerators",
    summary="Every accelerator by name, with its facts and aliases",
    responses={200: {"model": AcceleratorsAnswer}},
)
async def accelerators(request: Request) -> Response:
    """List the catalogue; each name and alias can stand in a placement."""
    catalog = desk_of(request).estimator.accelerators
    aliases: dict[str, list[str]] = {}
    for alias, name in sorted(catalog.aliases().items()):
        aliases.setdefault(name, []).append(alias)
    listed = [{**spec_to_dict(spec), "aliases": aliases.get(spec.name, [])} for spec in catalog]
    return etagged_response(request, {"accelerators": listed})
