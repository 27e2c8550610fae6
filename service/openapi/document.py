"""The OpenAPI document of the service: keys, deadlines, later answers and examples added to it.

``example_answers.json`` holds answers that were really given: ``docs/example_answers.py`` writes
it, a test holds it to the schemas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.access.scopes import Unscoped, rule_of
from service.answering.questions import MOST_MS
from service.http.documentation import TEMPLATE, schema_ref
from service.http.errors import PROBLEM_MEDIA_TYPE
from service.operations.middleware import KINDS
from service.schemas.answer_bodies import RefusedRequest
from service.schemas.question_bodies import (
    CurveRequest,
    ExplainRequest,
    JobRequest,
    KernelsRequest,
    MatrixRequest,
    PlacementsRequest,
    PredictRequest,
    PriceRequest,
    RankRequest,
    ReportsRequest,
    StateRequest,
)

ANSWERS_FILE = Path(__file__).with_name("example_answers.json")

#: Questions that may state a deadline.
_TIMED: tuple[type[BaseModel], ...] = (
    PredictRequest,
    MatrixRequest,
    CurveRequest,
    RankRequest,
    ExplainRequest,
)
_MODELS: tuple[type[BaseModel], ...] = (
    *_TIMED,
    PlacementsRequest,
    KernelsRequest,
    JobRequest,
    PriceRequest,
    ReportsRequest,
    StateRequest,
    RefusedRequest,
)
_DEADLINE: dict[str, Any] = {
    "name": "X-Deadline-Ms",
    "in": "header",
    "required": False,
    "description": "What `deadline_ms` says, where the body does not.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_MS},
}
_PREFER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`respond-async` answers 202 at once and keeps the answer as an operation; "
    "`respond-async, wait=10` does so after 10 s.",
    "schema": {"type": "string"},
    "example": "respond-async",
}
_ACCEPTED: dict[str, Any] = {
    "description": "Kept: `Location` is the operation to ask for",
    "content": {"application/json": {"schema": schema_ref("OperationEntry")}},
}
_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`perfmodel keys create`"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "basic": {"type": "http", "scheme": "basic", "description": "The key as the password"},
}
_PROBLEM = {PROBLEM_MEDIA_TYPE: {"schema": schema_ref("RefusedRequest")}}
_RETRY = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
_REFUSALS: dict[str, Any] = {
    "401": {"description": "No key, or one that is not known", "content": _PROBLEM},
    "403": {"description": "The key lacks the scope", "content": _PROBLEM},
    "429": {"description": "Too many requests", "headers": _RETRY, "content": _PROBLEM},
}
_WRONG: dict[str, Any] = {"description": "Cannot be answered", "content": _PROBLEM}


def install(app: FastAPI) -> None:
    """Let an app describe itself so."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template=TEMPLATE
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    document["components"]["securitySchemes"] = _SCHEMES
    examples = orjson.loads(ANSWERS_FILE.read_bytes())
    for path, methods in document["paths"].items():
        _describe_deadline(methods.get("post", {}))
        if path in KINDS and "post" in methods:
            methods["post"].setdefault("parameters", []).append(_PREFER)
            methods["post"]["responses"]["202"] = _ACCEPTED
        for method, operation in methods.items():
            _describe_access(operation, rule_of(method.upper(), path).needs)
            _add_examples(operation, method, path, examples)
    # The framework describes errors of its own, which no route answers with.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def _describe_deadline(operation: dict[str, Any]) -> None:
    """Say of a question that its deadline may stand in a header."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    if schema in [schema_ref(model.__name__) for model in _TIMED]:
        operation.setdefault("parameters", []).append(_DEADLINE)


def _describe_access(operation: dict[str, Any], needs: str) -> None:
    responses = operation["responses"]
    if "application/json" in responses.get("422", {}).get("content", {}):
        responses["422"] = _WRONG
    if needs == Unscoped.OPEN:
        operation["security"] = []
        return
    # Without keys, the first: no key is needed on the loopback as long as none was made.
    operation["security"] = [{}, *({name: []} for name in _SCHEMES)]
    operation["x-scope"] = "admin" if needs == Unscoped.UNLISTED else str(needs)
    for status, refusal in _REFUSALS.items():
        responses.setdefault(status, refusal)


def _add_examples(
    operation: dict[str, Any], method: str, path: str, examples: dict[str, Any]
) -> None:
    """Add examples of answers, and of the parameters of the path."""
    for status, given in examples["answers"].get(f"{method.upper()} {path}", {}).items():
        for described in operation["responses"].get(status, {}).get("content", {}).values():
            described["examples"] = {name: {"value": value} for name, value in given.items()}
    for parameter in operation.get("parameters", ()):
        stated = examples["parameters"].get(f"{path} {parameter['name']}")
        if stated is not None:
            parameter["example"] = stated
