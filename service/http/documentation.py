"""What routes say of themselves in OpenAPI: bodies that are read by hand, and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from service.http.errors import PROBLEM_MEDIA_TYPE

#: Where OpenAPI keeps a schema, by its name.
TEMPLATE = "#/components/schemas/{model}"


def schema_ref(name: str) -> dict[str, Any]:
    """Return what stands for a schema of the document."""
    return {"$ref": TEMPLATE.format(model=name)}


def json_body(
    schema: type[BaseModel] | Mapping[str, Any], examples: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe a JSON body that a route reads itself.

    Parameters
    ----------
    schema : type or mapping
        One of the request models that the document holds, or a schema.
    """
    content = {
        "schema": schema_ref(schema.__name__) if isinstance(schema, type) else schema,
        "examples": {name: {"value": value} for name, value in examples.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route may answer with."""
    content = {PROBLEM_MEDIA_TYPE: {"schema": schema_ref("RefusedRequest")}}
    words = {
        400: "Not JSON", 403: "Not yours", 404: "Not there", 409: "Conflicts with what there is",
        413: "Too large", 415: "Not a content type that is read", 422: "Cannot be answered",
        501: "An optional library is missing", 503: "Try again later",
        504: "Not answered by the deadline; goes on in the background",
    }  # fmt: skip
    return {status: {"description": words[status], "content": content} for status in statuses}
