"""Every example of the OpenAPI document is what its schema says, and is answered as described."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from jsonschema import Draft202012Validator
from made_up_products import large_product
from openapi_spec_validator import OpenAPIV31SpecValidator
from trained_version import two_versions

from service.access.scopes import Unscoped, rule_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("openapi")
    two_versions(folder / "models")
    app = make_app(folder, capture=large_product, models=folder / "models")
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


@pytest.fixture(scope="module")
def document(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answers", ROOT / "docs" / "example_answers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["answers"] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _check(document: dict[str, Any], schema: dict[str, Any], value: Any, where: str) -> None:
    whole = {**schema, "components": document["components"]}
    errors = [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(whole).iter_errors(value)
    ]
    assert not errors, f"{where}: {errors[:3]}"


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    # Without the values of the examples, which are most of it and are held to their schemas below.
    plain = json.loads(json.dumps(document), object_hook=_without_value)
    OpenAPIV31SpecValidator(plain).validate()


def _without_value(found: dict[str, Any]) -> dict[str, Any]:
    return {"value": None} if found.keys() == {"value"} else found


def test_every_route_is_described(document: dict[str, Any]) -> None:
    seen = set()
    for key, operation in _operations(document):
        method, path = key.split()
        assert operation["summary"] and operation["description"] and operation["tags"], key
        assert operation["operationId"] not in seen, key
        seen.add(operation["operationId"])
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] != "path" or parameter["example"], f"{key}: {parameter['name']}"
        refusals = {"401", "403", "429"} & set(operation["responses"])
        assert len(refusals) == (0 if rule_of(method, path).needs == Unscoped.OPEN else 3), key
        for status, response in operation["responses"].items():
            if status[0] in "45" and not path.startswith("/v2/models"):
                assert list(response["content"]) == ["application/problem+json"], (key, status)


def test_every_body_and_every_answer_has_examples_that_fit(document: dict[str, Any]) -> None:
    for key, operation in _operations(document):
        contents = {"the request": operation.get("requestBody", {}).get("content", {})}
        contents |= {
            status: response.get("content", {})
            for status, response in operation["responses"].items()
            if status[0] == "2"
        }
        shown = 0
        for where, content in contents.items():
            for media, described in content.items():
                assert described["schema"], f"{key} {where}"
                examples = described.get("examples", {})
                shown += len(examples)
                for name, example in examples.items():
                    at = f"{key} {where} {name!r}"
                    _check(document, described["schema"], example["value"], at)
                assert examples or media != "application/json" or where in ("200", "201", "202"), (
                    f"{key}: {where} has no example"
                )
        is_read = any(content for where, content in contents.items() if where != "the request")
        assert shown or not is_read, f"{key} has no example"
        answered = [
            example
            for where, content in contents.items()
            if where != "the request"
            for described in content.values()
            for example in described.get("examples", {})
        ]
        assert answered or not is_read, f"{key}: no answer has an example; run make docs"


def test_every_example_is_answered_as_described(
    client: TestClient, document: dict[str, Any], script: ModuleType
) -> None:
    by_key = dict(_operations(document))
    asked = set()
    for one in script.ask_everything(client, document):
        asked.add(one.key)
        response, at = one.response, f"{one.key} {one.name!r}"
        described = by_key[one.key]["responses"].get(str(response.status_code))
        assert response.is_success, f"{at}: {response.status_code} {response.text}"
        assert described is not None, f"{at}: {response.status_code} is not described"
        media = response.headers.get("content-type", "").partition(";")[0]
        if response.content:
            value = response.json() if media == "application/json" else response.text
            _check(document, described["content"][media]["schema"], value, at)
        else:
            assert "content" not in described, at
    assert asked == set(by_key)


def test_refusals_are_as_described(client: TestClient, document: dict[str, Any]) -> None:
    problem = {"$ref": "#/components/schemas/RefusedRequest"}
    for path, body, status in (
        ("/v1/predict", {}, 422),
        ("/v1/predict", b"{", 400),
        ("/v1/jobs/none", None, 404),
    ):
        sent = {"content": body} if isinstance(body, bytes) else {"json": body}
        response = client.request("GET" if body is None else "POST", path, **sent)
        assert response.status_code == status
        _check(document, problem, response.json(), path)
