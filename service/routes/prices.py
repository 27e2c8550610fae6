"""``GET /v1/prices``, ``PUT`` and ``DELETE /v1/prices/{accelerator}``."""

from __future__ import annotations

import re
from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from perfmodel.client.records import Price
from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_number, as_object, as_text
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import etagged_response, json_of, json_response
from service.http.documentation import json_body, problems
from service.http.errors import not_found
from service.routes.in_threads import in_threads
from service.schemas.question_bodies import PriceRequest
from service.schemas.state_bodies import PriceEntry, PricesAnswer
from service.versions.own_catalog import own_catalog_of

router = APIRouter(tags=["prices"])

_CURRENCY = re.compile(r"[A-Z]{3}")
_EXAMPLES = {"an hour": {"per_hour": 2.5, "currency": "EUR"}}


@router.get(
    "/v1/prices",
    summary="What an hour of each accelerator costs here",
    responses={200: {"model": PricesAnswer}, **problems(503)},
)
@in_threads
def prices(request: Request) -> Response:
    """List the prices that were set; rankings by cost use them unless told otherwise."""
    found = dispatcher_of(request).state.prices.all()
    return etagged_response(request, {"prices": [asdict(price) for price in found.values()]})


@router.put(
    "/v1/prices/{accelerator}",
    summary="Set the price of an accelerator",
    responses={200: {"model": PriceEntry}, **problems(400, 413, 415, 422, 503)},
    openapi_extra=json_body(PriceRequest, _EXAMPLES),
)
async def put_price(request: Request, accelerator: str) -> Response:
    """Set what an hour of one accelerator costs; any of its names will do."""
    fields = as_object(await json_of(request), "", what="A price", known=("per_hour", "currency"))
    if "per_hour" not in fields:
        raise InvalidInputError("A price needs the field 'per_hour'.", pointer="/per_hour")
    currency = as_text("currency", fields.get("currency", "USD"), "/currency")
    if not _CURRENCY.fullmatch(currency):
        raise InvalidInputError(
            f"currency is a code of three letters, such as EUR; got {currency!r}.",
            pointer="/currency",
        )
    threads = dispatcher_of(request).threads
    price = Price(
        accelerator=await threads.run(own_catalog_of(request).named, accelerator),
        per_hour=as_number("per_hour", fields["per_hour"], "/per_hour"),
        currency=currency,
    )
    await threads.run(dispatcher_of(request).state.prices.put, price)
    return json_response(asdict(price))


@router.delete(
    "/v1/prices/{accelerator}",
    summary="Forget the price of an accelerator",
    status_code=204,
    responses={**problems(404, 422, 503)},
)
@in_threads
def delete_price(request: Request, accelerator: str) -> Response:
    """Forget a price."""
    name = own_catalog_of(request).named(accelerator)
    if not dispatcher_of(request).state.prices.remove(name):
        raise not_found(f"No price of {name} was set.")
    return Response(status_code=204)
