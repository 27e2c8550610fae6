"""Write the answers that the OpenAPI document shows, as the service with its models gives them.

.venv/bin/python docs/example_answers.py
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from httpx import Response

from service.openapi.document import ANSWERS_FILE
from service.serve import app_from_settings
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

#: What is set comes before what is read, then what is changed, and what is removed last.
_ORDER = ("post", "put", "get", "patch", "delete")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00")
_CHANGE = re.compile(r'"change_id":"[0-9a-f]{16}"')
_SHOWN_ITEMS = 2
_SHOWN_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What an example of the document was answered.

    Parameters
    ----------
    key : str
        Method and path, as the document has it.
    name : str
        Of the example.
    body : JSON value
        What was sent.
    response : Response
    """

    key: str
    name: str
    body: Any
    response: Response


def ask_everything(client: TestClient, document: dict[str, Any]) -> Iterator[Answered]:
    """Send every example of an OpenAPI document, and ask every route that takes no body."""
    begun = _begin_an_operation(client, document)
    yield begun
    stated = {"/v1/operations": begun.response.json()["id"]}
    described = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    # Of what is removed, the inner things first.
    described.sort(key=lambda one: (_ORDER.index(one[0]), -len(one[1]) * (one[0] == "delete")))
    for method, path, operation in described:
        for name, body in _bodies(operation).items():
            response = client.request(method, _address(path, operation, stated), json=body)
            yield Answered(key=f"{method.upper()} {path}", name=name, body=body, response=response)
            if (method, path) == ("post", "/v1/retrain"):
                # Its name is drawn at random, unlike those of what is named by its content.
                stated[path] = response.json()["id"]


def _begin_an_operation(client: TestClient, document: dict[str, Any]) -> Answered:
    [body, *_] = _bodies(document["paths"]["/v1/jobs"]["post"]).values()
    later = {"Prefer": "respond-async"}
    response = client.post("/v1/jobs", json=body, headers=later)
    until = time.monotonic() + 120
    place = response.headers["Location"]
    while client.get(place).json()["state"] in ("waiting", "running"):
        assert time.monotonic() < until, "the operation does not end"
        time.sleep(0.02)
    return Answered(key="POST /v1/jobs", name="answered later", body=body, response=response)


def _bodies(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = {name: one["value"] for name, one in content.get("examples", {}).items()}
    return examples or {"an answer": None}


def _address(path: str, operation: dict[str, Any], stated: dict[str, str]) -> str:
    query = []
    for parameter in operation.get("parameters", ()):
        name, example = parameter["name"], parameter.get("example")
        if parameter["in"] == "path":
            known = [value for prefix, value in stated.items() if path.startswith(prefix)]
            path = path.replace(f"{{{name}}}", str(known[0] if known else example))
        elif parameter["in"] == "query" and example is not None:
            query.append(f"{name}={example}")
    return path + ("?" + "&".join(query) if query else "")


def answers() -> dict[str, Any]:
    """Return what the service answers to its own examples, by route, status and name."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/examples.db"
        models = _with_an_older_version(Path(folder) / "models")
        app = app_from_settings(Settings(models=models, database=database, retrain_here=False))
        with TestClient(app) as client:
            for one in ask_everything(client, client.get("/openapi.json").json()):
                response = one.response
                assert response.is_success, f"{one.key} {one.name}: {response.text}"
                if response.content:
                    by_status = found.setdefault(one.key, {})
                    by_name = by_status.setdefault(str(response.status_code), {})
                    by_name[one.name] = _shown(response)
    return found


def _with_an_older_version(models: Path) -> Path:
    """Copy the models that are shipped, with the version that examples name beside them."""
    shutil.copytree(ROOT / "models", models)
    named = json.loads(ANSWERS_FILE.read_text())["parameters"][
        "/v1/models/{name}/{version} version"
    ]
    shutil.copytree(max((models / "default").iterdir()), models / "default" / named)
    return models


def _shown(response: Response) -> Any:
    if "json" not in response.headers["content-type"]:
        return "".join(line + "\n" for line in response.text.splitlines()[:_SHOWN_LINES])
    text = _TIME.sub("2026-01-01T12:00:00.000+00:00", response.text)
    text = _CHANGE.sub('"change_id":"0123456789abcdef"', text)
    return _shortened(json.loads(text))


def _shortened(value: Any) -> Any:
    """Leave long lists of objects at their first ones."""
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_shortened(one) for one in value[:_SHOWN_ITEMS]]
    return value


def main() -> None:
    """Write the answers, and leave the parameters as they are."""
    kept = json.loads(ANSWERS_FILE.read_text())
    written = {"parameters": kept["parameters"], "answers": answers()}
    ANSWERS_FILE.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
