"""The v2 inference protocol of KServe and Triton: questions and answers as tensors.

Clients and gateways that speak to model servers can ask for throughput without learning another
protocol. There is one model, ``perfmodel``; its tensor ``request`` holds questions as in
``POST /v1/predict``, and each output has one element a question.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

import perfmodel
from perfmodel.errors import InvalidInputError, PerfModelError
from service.answering.answerer import Answerer
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.http.bodies import json_response, read_json
from service.http.documentation import json_body
from service.http.errors import problem_of, retry_headers, status_of

#: The only tensor that is read: one question a text.
REQUEST = "request"
#: Most questions of one call.
MOST_QUESTIONS = 10_000


def read_texts(body: Mapping[str, Any], binary: bytes) -> list[bytes]:
    """Return the questions of an inference request.

    Parameters
    ----------
    binary : bytes
        What follows the JSON, where the binary tensor extension is used.
    """
    inputs = body.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise InvalidInputError(f"inputs must hold one tensor, {REQUEST!r}.", pointer="/inputs")
    tensor = inputs[0]
    if tensor.get("name") != REQUEST or tensor.get("datatype") != "BYTES":
        raise InvalidInputError(
            f"The tensor must be {REQUEST!r} of BYTES; got {tensor.get('name')!r} of "
            f"{tensor.get('datatype')!r}.",
            pointer="/inputs/0",
        )
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    texts = _texts(tensor.get("data")) if size is None else _binary_texts(binary, size)
    if len(texts) > MOST_QUESTIONS:
        raise InvalidInputError(
            f"At most {MOST_QUESTIONS} questions a call; got {len(texts)}.", pointer="/inputs/0"
        )
    _check_shape(tensor.get("shape"), len(texts))
    return texts


def _check_shape(shape: Any, count: int) -> None:
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    product = 1
    for extent in shape if whole else ():
        product *= extent
    if not whole or not shape or product != count:
        raise InvalidInputError(
            f"The shape {shape!r} is not that of {count} texts; send [{count}].",
            pointer="/inputs/0/shape",
        )


def _texts(data: Any) -> list[bytes]:
    """Return the texts of a tensor in JSON, flat or nested."""
    if isinstance(data, str):
        return [data.encode()]
    if isinstance(data, list):
        return [text for item in data for text in _texts(item)]
    raise InvalidInputError("data must hold texts, each a question.", pointer="/inputs/0/data")


def _binary_texts(binary: bytes, size: Any) -> list[bytes]:
    """Return the texts of a binary tensor: each its length (4 bytes, little-endian), then it."""
    if type(size) is not int or size != len(binary):
        raise InvalidInputError(
            f"binary_data_size is {size!r}, but {len(binary)} bytes follow the JSON.",
            pointer="/inputs/0/parameters/binary_data_size",
        )
    texts, at = [], 0
    while at < len(binary):
        if at + 4 > len(binary):
            raise _torn()
        (length,) = struct.unpack_from("<I", binary, at)
        at += 4 + length
        if at > len(binary):
            raise _torn()
        texts.append(binary[at - length : at])
    return texts


def _torn() -> InvalidInputError:
    return InvalidInputError("The binary data ends inside a text.", pointer="/inputs/0")


def tensor(name: str, datatype: str, data: Sequence[Any]) -> dict[str, Any]:
    """Return a tensor of one element a question."""
    return {"name": name, "datatype": datatype, "shape": [len(data)], "data": list(data)}


router = APIRouter(prefix="/v2", tags=["v2 inference protocol"])

MODEL = "perfmodel"
_PLATFORM = "perfmodel"
#: Where answers are counted.
_INFER = "/v2/models/{model}/infer"
#: How long the JSON is where binary tensors follow it.
_HEADER_LENGTH = "inference-header-content-length"
#: Outputs: name and type.
_OUTPUTS = (("answer", "BYTES"), ("samples_per_second", "FP64"), ("ok", "BOOL"))


class ServerMetadata(BaseModel):
    """Who answers."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """A tensor of the model; an extent of -1 is any."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """The model, its versions and its tensors."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ModelReady(BaseModel):
    """Whether the model answers."""

    name: str
    ready: bool


class OutputTensor(BaseModel):
    """A column of answers."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]


class InferAnswer(BaseModel):
    """The answers, as tensors."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class V2Error(BaseModel):
    """An error as the protocol writes it."""

    error: str = Field(description="What was wrong, what was got, what to do.")


_QUESTION = (
    '{"job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64}, '
    '"placement": "8xA100-SXM4-80GB"}'
)
_EXAMPLE = {
    "id": "1",
    "inputs": [{"name": REQUEST, "shape": [1], "datatype": "BYTES", "data": [_QUESTION]}],
    "outputs": [{"name": name} for name, _ in _OUTPUTS],
}
_BODY = json_body(
    {"type": "object", "description": "An inference request."}, {"one question": _EXAMPLE}
)
_NO_ROOM: dict[int | str, dict[str, Any]] = {
    503: {"model": V2Error, "description": "Too much waits; `Retry-After` says when to ask again"},
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": V2Error, "description": "Cannot be read"},
    404: {"model": V2Error, "description": "No such model"},
}


class _NoSuchModelError(InvalidInputError):
    """Another model than ours."""


@router.get("", response_model=ServerMetadata, summary="Who answers")
async def server() -> ServerMetadata:
    """Tell name, version and extensions."""
    return ServerMetadata(
        name=MODEL, version=perfmodel.__version__, extensions=["binary_tensor_data"]
    )


@router.get("/models/{model}", responses={200: {"model": ModelMetadata}, **_ERRORS})
async def metadata(request: Request, model: str) -> Response:
    """Describe the model and its tensors."""
    return await _answered(_metadata, dispatcher_of(request), model)


@router.get("/models/{model}/ready", responses={200: {"model": ModelReady}, **_ERRORS})
async def model_ready(request: Request, model: str) -> Response:
    """Tell whether the model answers; it does from the start."""

    async def ready() -> dict[str, Any]:
        _check_model(model)
        return {"name": model, "ready": True}

    return await _answered(ready)


@router.post(
    "/models/{model}/infer",
    summary="Answer questions that come as a tensor",
    responses={200: {"model": InferAnswer}, **_ERRORS, **_NO_ROOM},
    openapi_extra=_BODY,
)
async def infer(request: Request, model: str) -> Response:
    """Answer each question; a bad one costs its own elements only."""
    return await _answered(_infer, request, model)


async def _answered(action: Callable[..., Awaitable[Any]], *args: Any) -> Response:
    """Run a route; errors become what the protocol wants of them."""
    try:
        return json_response(await action(*args))
    except _NoSuchModelError as error:
        return json_response({"error": error.message}, HTTPStatus.NOT_FOUND)
    except InvalidInputError as error:
        return json_response({"error": error.message}, HTTPStatus.BAD_REQUEST)
    except PerfModelError as error:
        response = json_response({"error": error.message}, status_of(error))
        response.headers.update(retry_headers(response.status_code))
        return response


def _check_model(model: str) -> None:
    if model != MODEL:
        raise _NoSuchModelError(f"There is no model {model!r} here; ask {MODEL!r}.")


async def _metadata(dispatcher: Dispatcher, model: str) -> dict[str, Any]:
    _check_model(model)
    return {
        "name": MODEL,
        "versions": [dispatcher.estimator.model_version],
        "platform": _PLATFORM,
        "inputs": [{"name": REQUEST, "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in _OUTPUTS],
    }


async def _infer(request: Request, model: str) -> dict[str, Any]:
    _check_model(model)
    content, binary = _split(await request.body(), request.headers.get(_HEADER_LENGTH))
    body = read_json(content)
    if not isinstance(body, dict):
        raise InvalidInputError(f"An inference request is an object; got {type(body).__name__}.")
    wanted = _wanted(body.get("outputs"))
    dispatcher = dispatcher_of(request)
    answerer = dispatcher.models.serving
    answers = [await _answer(dispatcher, answerer, text) for text in read_texts(body, binary)]
    columns: dict[str, list[Any]] = {
        "answer": [orjson.dumps(answer).decode() for answer in answers],
        "samples_per_second": [_rate(answer) for answer in answers],
        "ok": [_rate(answer) is not None for answer in answers],
    }
    answered: dict[str, Any] = {"model_name": MODEL, "model_version": answerer.version}
    if isinstance(body.get("id"), str):
        answered["id"] = body["id"]
    kinds = dict(_OUTPUTS)
    return {**answered, "outputs": [tensor(name, kinds[name], columns[name]) for name in wanted]}


async def _answer(dispatcher: Dispatcher, answerer: Answerer, question: bytes) -> dict[str, Any]:
    try:
        answer = await dispatcher.predict(question, route=_INFER, answerer=answerer)
    except PerfModelError as error:
        # What there is no room for is no fault of a question: the call is to be made again.
        if status_of(error) == HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return problem_of(error)
    return answer.to_dict()


def _rate(answer: dict[str, Any]) -> float | None:
    rate: float | None = answer.get("throughput", {}).get("samples_per_second")
    return rate


def _split(body: bytes, stated: str | None) -> tuple[bytes, bytes]:
    """Return the JSON of a body and the binary tensors that follow it."""
    if stated is None:
        return body, b""
    with contextlib.suppress(ValueError):
        length = int(stated)
        if 0 <= length <= len(body):
            return body[:length], body[length:]
    raise InvalidInputError(
        f"Inference-Header-Content-Length is {stated!r}; the body has {len(body)} bytes."
    )


def _wanted(outputs: Any) -> list[str]:
    """Return the names of the outputs that are asked for; all without any."""
    known = [name for name, _ in _OUTPUTS]
    if outputs is None or outputs == []:
        return known
    if not isinstance(outputs, list):
        raise InvalidInputError("outputs is a list of names.", pointer="/outputs")
    names = [o.get("name") if isinstance(o, dict) else None for o in outputs]
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"There is no output {name!r}; there are {', '.join(known)}.",
                pointer="/outputs",
                allowed=known,
            )
    return [str(name) for name in names]
