"""``/v1/retrain``: let models be learned anew, watch that, cancel it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response

from perfmodel.errors import InvalidInputError, OvertakenError, UnknownPredictorError
from perfmodel.json_values import as_object, as_text
from perfmodel.predictors.registry import PREDICTORS
from perfmodel.retraining.settings import JOINT_SETTINGS, parse_settings
from perfmodel.retraining.told import retraining_to_dict
from perfmodel.store.artifacts import check_model_name
from perfmodel.store.retraining.retraining_records import Retraining
from service.access.access_policy import caller_of
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems
from service.http.errors import not_found
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.state_bodies import (
    RetrainingEntered,
    RetrainingEntry,
    RetrainingLogAnswer,
    RetrainingsAnswer,
)
from service.settings import Settings
from service.state.state import State

router = APIRouter(prefix="/v1/retrain", tags=["retraining"])

_FIELDS = ("model", "why", "settings")
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "default": "default"},
        "why": {"type": "string", "maxLength": 1_000, "default": ""},
        "settings": {
            "type": "object",
            "properties": {
                "without": _NAMES,
                "without_damaged": {"type": "boolean"},
                "members": {
                    "type": "array",
                    "items": {"enum": [one for one in PREDICTORS if one != "ensemble"]},
                },
                "folds": {"type": "integer", "minimum": 2},
                "seed": {"type": "integer", "minimum": 0},
                "joint": {
                    "type": "object",
                    "properties": {name: {"type": "integer"} for name in JOINT_SETTINGS},
                    "additionalProperties": False,
                },
                "tune": {"type": "integer", "minimum": 0},
                "promote": {"type": "boolean"},
                "shadow": {"type": "boolean"},
                "quick": {"type": "boolean"},
                "margins": {"type": "object", "additionalProperties": {"type": "number"}},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
_EXAMPLES = {
    "a model without a source": {
        "model": "default",
        "why": "three weeks of new records",
        "settings": {"without_damaged": True},
    }
}


@router.post(
    "",
    summary="Let a model be learned anew",
    status_code=202,
    responses={202: {"model": RetrainingEntered}, **problems(400, 413, 415, 422, 503)},
    openapi_extra=json_body(_SCHEMA, _EXAMPLES),
)
async def retrain(request: Request) -> Response:
    """Enter a retraining, which a process of low priority does: it learns, is judged, and serves.

    One of a model is open at a time: where one is, it is answered as it stands, and `created` is
    false. `Location` is where to ask how far it is.
    """
    model, why, settings = _asked(await json_of(request))
    dispatcher, caller = dispatcher_of(request), caller_of(request)
    state = dispatcher.state
    # The first version of a model that settings name is learned so too.
    named = cast(Settings, request.app.state.settings).retrain_model

    def entered() -> dict[str, Any]:
        known = sorted({named, *dispatcher.source.models_of_steps()})
        if model not in known:
            raise UnknownPredictorError(model, known=known, pointer="/model")
        found, created = state.retrainings.start(model, why=why, caller=caller, settings=settings)
        return {**retraining_to_dict(found), "created": created}

    answer = await dispatcher.threads.run(entered)
    response = json_response(answer, 202)
    response.headers["Location"] = f"/v1/retrain/{answer['id']}"
    return response


@router.get(
    "",
    summary="Retrainings, newest first",
    responses={200: {"model": RetrainingsAnswer}, **problems(422, 503)},
)
@in_threads
def retrainings(
    request: Request,
    model: Annotated[str | None, Query(description="Of this model only.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List retrainings with how far they are and what was decided, in pages."""
    state = dispatcher_of(request).state
    page = state.retrainings.page(model=model, cursor=cursor, limit=limit)
    return page_response("retrainings", page, retraining_to_dict)


@router.get(
    "/{name}",
    summary="One retraining",
    responses={200: {"model": RetrainingEntry}, **problems(404, 503)},
)
@in_threads
def retraining(request: Request, name: str) -> Response:
    """Say how far a retraining is, phase by phase, and what the gate decided."""
    return json_response(retraining_to_dict(_found(dispatcher_of(request).state, name)))


@router.get(
    "/{name}/log",
    summary="What a retraining has said",
    responses={200: {"model": RetrainingLogAnswer}, **problems(404, 422, 503)},
)
@in_threads
def log(
    request: Request,
    name: str,
    after: Annotated[int, Query(ge=0, description="`number` of the last line known.")] = 0,
    limit: Limit = 1_000,
) -> Response:
    """Return lines of its log, oldest first, wherever it runs, and while it does."""
    state = dispatcher_of(request).state
    _found(state, name)
    lines = state.retraining_log.lines(name, after=after, limit=limit)
    return json_response({"lines": [asdict(line) for line in lines]})


@router.delete(
    "/{name}",
    summary="End a retraining",
    responses={200: {"model": RetrainingEntry}, **problems(404, 409, 503)},
)
@in_threads
def cancel(request: Request, name: str) -> Response:
    """End a retraining without a result; 409 where it has ended, or its version is published."""
    state = dispatcher_of(request).state
    before = _found(state, name)
    if not state.retrainings.cancel(name):
        raise OvertakenError(
            f"The retraining {name} is {before.state.value}"
            f"{', and its version is being published' if before.state.is_open else ''}; it "
            "cannot be cancelled any more."
        )
    return json_response(retraining_to_dict(_found(state, name)))


def _asked(body: object) -> tuple[str, str, dict[str, Any]]:
    fields = as_object(body, "", what="A retraining", known=_FIELDS)
    model = as_text("model", fields.get("model", "default"), "/model")
    check_model_name(model, pointer="/model")
    why = fields.get("why", "")
    if not isinstance(why, str) or len(why) > 1_000:
        raise InvalidInputError("why must be a text of at most 1000 characters.", pointer="/why")
    return model, why, parse_settings(fields.get("settings", {})).to_dict()


def _found(state: State, name: str) -> Retraining:
    # Not every text can be asked of a database.
    found = state.retrainings.find(name) if name.isalnum() else None
    if found is None:
        raise not_found()
    return found
