"""OpenAPI of bodies that are read by hand: schemas, examples, and the problem they may get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service import documentation_access, documentation_examples
from service.answering.terms import MOST_MS
from service.errors import PROBLEM_MEDIA_TYPE
from service.operations.kinds import describe as describe_operations
from service.schemas.answer_bodies import Problem
from service.schemas.question_bodies import (
    CurveRequest,
    ExplainRequest,
    MatrixRequest,
    PredictRequest,
    RankRequest,
)

_BODIES: tuple[type[BaseModel], ...] = (
    PredictRequest,
    MatrixRequest,
    CurveRequest,
    RankRequest,
    ExplainRequest,
    Problem,
)
_TEMPLATE = "#/components/schemas/{model}"
#: Bodies that are questions.
_QUESTIONS = [{"$ref": _TEMPLATE.format(model=model.__name__)} for model in _BODIES[:-1]]


def json_body(model: type[BaseModel], examples: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a JSON body that a route reads itself.

    Parameters
    ----------
    model : type
        One of the request models.
    examples : mapping of str to object
        Bodies that are answered, by a short name.
    """
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": _TEMPLATE.format(model=model.__name__)},
                    "examples": {name: {"value": value} for name, value in examples.items()},
                }
            },
        }
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route may answer with."""
    content = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _TEMPLATE.format(model="Problem")}}}
    words = {
        400: "Not JSON", 403: "Not yours", 404: "Not there", 409: "Conflicts with what there is",
        413: "Too large", 415: "Not a content type that is read", 422: "Cannot be answered",
        501: "An optional library is missing", 503: "Try again later",
        504: "Not answered by the deadline; goes on in the background",
    }  # fmt: skip
    return {status: {"description": words[status], "content": content} for status in statuses}


def _describe_deadline(document: dict[str, Any]) -> None:
    """Say of every question that its deadline may stand in a header."""
    header = {
        "name": "X-Deadline-Ms",
        "in": "header",
        "required": False,
        "description": "What `deadline_ms` says, where the body does not.",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_MS},
    }
    for methods in document["paths"].values():
        described = methods.get("post", {})
        body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
        if body.get("schema") in _QUESTIONS:
            described.setdefault("parameters", []).append(header)


def install(app: FastAPI) -> None:
    """Add the schemas of bodies that are read by hand to an app's OpenAPI."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            _, definitions = models_json_schema(
                [(model, "validation") for model in _BODIES], ref_template=_TEMPLATE
            )
            schemas = described.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in definitions["$defs"].items():
                schemas.setdefault(name, schema)
            _describe_deadline(described)
            describe_operations(described)
            documentation_access.describe(described)
            documentation_examples.describe(described)
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
