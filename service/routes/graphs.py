"""``/v1/graphs``: captured graphs and ONNX files are registered, listed, shown and corrected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Query, Request, Response

from perfmodel.errors import InvalidGraphError, InvalidInputError, MissingExtraError
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.graph.canonical import from_json
from perfmodel.graph.cost import cost_table
from perfmodel.graph.ir import Graph
from perfmodel.requests import MAX_COUNT
from perfmodel.types import Mode, Precision
from service.access.access_policy import caller_of, is_administrator, owner_shown
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.graphs.corrections import GraphCorrections, refuse_others
from service.graphs.onnx_upload import read_onnx
from service.graphs.registered import RegisteredGraphs
from service.http.bodies import etagged_response, json_response, media_type
from service.http.documentation import json_body, problems
from service.http.errors import UnsupportedMediaError, not_found
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.state_bodies import GraphAnswer, GraphJson, GraphsAnswer, GraphShown

router = APIRouter(tags=["graphs"])

ONNX_MEDIA_TYPES = ("application/octet-stream", "application/onnx", "application/x-onnx")
_MEDIA_TYPES = ("application/json", *ONNX_MEDIA_TYPES)

GRAPH_EXAMPLE: dict[str, Any] = {
    "format": 1,
    "nodes": [["mm", "forward", [0, 1], [2], {}, "head"]],
    "source": {"model": "one matrix product"},
    "tensors": [
        [[8, 512], "float32", "input", 0],
        [[512, 1000], "float32", "parameter", 1],
        [[8, 1000], "float32", "activation", 2],
    ],
}

_BODY = json_body(
    {"type": "object", "description": "As `perfmodel capture` writes it."},
    {"one product": GRAPH_EXAMPLE},
)
_BODY["requestBody"]["content"]["application/octet-stream"] = {
    "schema": {"type": "string", "format": "binary", "description": "An ONNX file."}
}


@router.post(
    "/v1/graphs",
    summary="Register a captured graph or an ONNX file",
    status_code=201,
    responses={
        200: {"model": GraphAnswer, "description": "Registered before"},
        201: {"model": GraphAnswer},
        **problems(400, 409, 413, 415, 422, 501, 503),
    },
    openapi_extra=_BODY,
)
async def register(
    request: Request,
    batch_size: Annotated[
        int | None,
        Query(ge=1, le=MAX_COUNT, description="Samples of the step; a captured graph may say it."),
    ] = None,
    mode: Annotated[
        Mode | None, Query(description="What the step does; a captured graph may say it.")
    ] = None,
    optimizer: Annotated[str, Query(description="ONNX training only.")] = "sgd",
    precision: Annotated[Precision | None, Query(description="ONNX only.")] = None,
    dimensions: Annotated[
        str | None,
        Query(description='Extents of dynamic ONNX dimensions: `{"sequence": 128}`.'),
    ] = None,
    tokens_per_sample: Annotated[int | None, Query(ge=1, le=MAX_COUNT)] = None,
) -> Response:
    """Keep a graph; jobs then refer to it by its content hash.

    A captured graph is sent as JSON, an ONNX file as it is. The file is read in a process of its
    own under bounds, its weights are ignored, data outside it is never followed and nothing in it
    is executed.
    """
    dispatcher = dispatcher_of(request)
    kind = media_type(request)
    if kind not in _MEDIA_TYPES:
        raise UnsupportedMediaError(
            f"The body is {kind or 'of no stated type'!r}; send a captured graph as "
            "application/json or an ONNX file as application/octet-stream.",
            allowed=_MEDIA_TYPES,
        )
    body = await request.body()
    if kind in ONNX_MEDIA_TYPES:
        capture = {
            "batch_size": batch_size,
            "mode": (mode or Mode.INFERENCE).value,
            "optimizer": optimizer,
            "precision": precision.value if precision else None,
            "dimensions": _dimensions(dimensions),
        }
        state = request.app.state
        body = await dispatcher.threads.captures.run(
            read_onnx, body, capture, state.settings.onnx_budget, state.turns
        )
    stated = {"mode": mode, "batch_size": batch_size, "tokens_per_sample": tokens_per_sample}
    owner = caller_of(request)
    answer = await dispatcher.threads.run(_register, dispatcher, body, stated, owner)
    return json_response(answer, 201 if answer["created"] else 200)


@router.get(
    "/v1/graphs",
    summary="Registered graphs, newest first",
    responses={200: {"model": GraphsAnswer}, **problems(422, 503)},
)
@in_threads
def graphs(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List graphs in pages: those that this key registered, of an administrator's all."""
    registered = RegisteredGraphs(dispatcher_of(request).state.database)
    page = registered.page(owner=owner_shown(request), cursor=cursor, limit=limit)
    return page_response("graphs", page, dict)


@router.get(
    "/v1/graphs/{graph}",
    summary="One graph",
    responses={200: {"model": GraphShown | GraphJson}, **problems(404, 422, 503)},
)
@in_threads
def graph(
    request: Request,
    graph: str,
    form: Annotated[
        Literal["facts", "json"],
        Query(description="`json`: the whole graph, as `perfmodel capture` writes it."),
    ] = "facts",
) -> Response:
    """Return what there is to say of a graph, or all of it; there are no weights in it.

    One that this key registered, to an administrator any, those that were captured here too.
    """
    registered = RegisteredGraphs(dispatcher_of(request).state.database)
    # Not every text can be asked of a database.
    if not graph.isalnum():
        raise not_found()
    show: Callable[..., Any] = registered.canonical if form == "json" else registered.show
    found = show(graph, owner_shown(request))
    if found is None:
        raise not_found()
    return etagged_response(request, found)


@router.patch(
    "/v1/graphs/{graph}",
    summary="Correct what was said of a registered graph",
    responses={200: {"model": GraphShown}, **problems(403, 404, 422, 503)},
)
async def correct(
    request: Request,
    graph: str,
    mode: Annotated[Mode | None, Query(description="What the step does.")] = None,
    batch_size: Annotated[
        int | None, Query(ge=1, le=MAX_COUNT, description="Samples of the step.")
    ] = None,
    tokens_per_sample: Annotated[
        int | None, Query(ge=0, le=MAX_COUNT, description="0: a sample is no sequence.")
    ] = None,
) -> Response:
    """State anew how a graph was captured; what is left out stays, and so does the graph.

    The key that registered it first may do so, and administrators. Later answers follow, those of
    other hosts within 2 s; jobs that state what was wrong are refused from then on.
    """
    if not graph.isalnum():
        raise not_found()
    stated = {"mode": mode, "batch_size": batch_size, "tokens_per_sample": tokens_per_sample}
    facts: dict[str, Any] = {name: one for name, one in stated.items() if one is not None}
    if tokens_per_sample == 0:
        facts["tokens_per_sample"] = None
    corrections = cast(GraphCorrections, request.app.state.graph_corrections)
    dispatcher = dispatcher_of(request)
    corrected = await dispatcher.threads.run(
        lambda: corrections.correct(
            graph,
            facts,
            caller=caller_of(request),
            is_administrator=is_administrator(request),
        )
    )
    if not corrected:
        raise not_found()
    shown = RegisteredGraphs(dispatcher.state.database).show
    return json_response(await dispatcher.threads.run(shown, graph))


def _register(
    dispatcher: Dispatcher, canonical: bytes, stated: dict[str, Any], owner: str
) -> dict[str, Any]:
    library = dispatcher.estimator.core.graphs
    if not isinstance(library, GraphLibrary):
        raise MissingExtraError("Registering graphs", extra="serve")
    graph = from_json(canonical)
    if not graph.nodes:
        raise InvalidGraphError("The graph has no operators.", pointer="/nodes")
    registered = RegisteredGraphs(dispatcher.state.database)
    kept = registered.find(graph.content_hash)
    if kept is None:
        created = library.register(
            graph,
            mode=stated["mode"] or _stated_mode(graph),
            batch_size=stated["batch_size"] or _stated_batch_size(graph),
            tokens_per_sample=stated["tokens_per_sample"]
            or _noted_count(graph, "tokens_per_sample"),
            owner=owner,
        )
        registered.note(graph)
        kept = registered.find(graph.content_hash)
        assert kept is not None
    else:
        created = False
        refuse_others(kept, stated)
    if not created:
        registered.keep_owner(graph.content_hash, owner)
    return {
        "graph": graph.content_hash,
        "node_count": len(graph.nodes),
        "parameter_count": graph.parameter_count,
        "flops": float(cost_table(graph).flops.sum()),
        "unpriced_operators": CapturedStep(graph=graph).unpriced_operators,
        "mode": kept.mode,
        "batch_size": kept.batch_size,
        "created": created,
    }


def _stated_mode(graph: Graph) -> Mode:
    stated = graph.source.get("mode")
    return Mode(stated) if stated in tuple(Mode) else Mode.INFERENCE


def _noted_count(graph: Graph, name: str) -> int | None:
    noted = graph.source.get(name, "")
    is_count = noted.isascii() and noted.isdigit() and 1 <= int(noted[:9]) <= MAX_COUNT
    return int(noted) if is_count else None


def _stated_batch_size(graph: Graph) -> int:
    noted = _noted_count(graph, "batch_size")
    if noted is None:
        raise InvalidInputError(
            "batch_size is missing: say how many samples the step was captured with, "
            "as in POST /v1/graphs?batch_size=8.",
            pointer="/query/batch_size",
        )
    return noted


def _dimensions(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(
            f"dimensions is not JSON: {error}.", pointer="/query/dimensions"
        ) from error
    if not isinstance(value, dict) or not all(
        type(extent) is int and 1 <= extent <= MAX_COUNT for extent in value.values()
    ):
        raise InvalidInputError(
            'dimensions must be an object of whole numbers >= 1, such as {"sequence": 128}.',
            pointer="/query/dimensions",
        )
    return value
