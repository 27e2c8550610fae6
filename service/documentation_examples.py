"""Put answers that were really given into an OpenAPI document.

``example_answers.json`` holds them: ``docs/example_answers.py`` writes it, a test holds it to the
schemas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

ANSWERS_FILE = Path(__file__).with_name("example_answers.json")


def describe(document: dict[str, Any]) -> None:
    """Add examples of answers, and of the parameters of paths.

    Parameters
    ----------
    document : dict
        Changed in place.
    """
    examples = orjson.loads(ANSWERS_FILE.read_bytes())
    parameters: dict[str, str] = examples["parameters"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            key = f"{method.upper()} {path}"
            for status, given in examples["answers"].get(key, {}).items():
                _add(operation["responses"].get(status, {}), given)
            for parameter in operation.get("parameters", ()):
                stated = parameters.get(f"{path} {parameter['name']}")
                if stated is not None:
                    parameter["example"] = stated


def _add(response: dict[str, Any], given: dict[str, Any]) -> None:
    for described in response.get("content", {}).values():
        described["examples"] = {name: {"value": value} for name, value in given.items()}
