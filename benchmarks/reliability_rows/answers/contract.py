"""Whatever the document of the API allows or forbids is sent; answers are those that it states.

schemathesis makes the requests, half of them as described and half of them not, and holds what is
answered to the document: status, media type, headers and body. Some members of bodies come from the
examples of the document, so that more than the checks of names is reached.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from _servers import service
from reliability_rows.row import Found, NotHereError

PORT = 18_810
#: Longer than the service lets anything take, however busy the machine is.
_TIMEOUT_S = 180.0
_CHECKS = (
    "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance",
)  # fmt: skip
#: What is no defect, if it is stated and comes with a problem: too little time or room was allowed.
_TOLD = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
#: Retrainings that are entered are not done, since they would take the machine.
_SETTINGS = {"PERFMODEL_RETRAIN_HERE": "false", "PERFMODEL_LOG_LEVEL": "error"}


@dataclass
class Heard:
    """What came of the cases."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    server_errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def measure(count: int) -> Found:
    """Send so many cases, spread over all operations."""
    heard = Heard()
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        shutil.copytree("models", models)
        with service(folder, PORT, models=str(models), settings=_SETTINGS) as server:
            fuzz(f"http://127.0.0.1:{server.port}", count, heard)
    for problem in (*heard.server_errors, *heard.violations):
        print(problem)
    told = {int(one): heard.statuses[one] for one in _TOLD if heard.statuses[one]}
    measured = (
        f"{heard.cases:,} cases: {len(heard.server_errors)} server errors, "
        f"{len(heard.violations)} violations of the document; told what was missing: {told or 0}"
    )
    held = not heard.server_errors and not heard.violations and heard.cases >= count
    return Found(measured=measured, held=held)


def fuzz(url: str, count: int, heard: Heard) -> None:
    """Send cases until there are so many, the operations in turn, each time from other seeds."""
    try:
        import requests
        import schemathesis
    except ImportError as error:
        raise NotHereError(f"{error.name} is not installed; make dev installs it") from error
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [one.ok() for one in schema.get_all_operations()]
    with requests.Session() as session:
        turn = 0
        while heard.cases < count:
            # Some operations have fewer different cases than their share.
            share = max(1, (count - heard.cases) // (2 * len(operations)))
            for operation, mode in _both(operations):
                _send(operation, mode, share, turn, session, heard)
            turn += 1


def _both(operations: list[Any]) -> Iterator[tuple[Any, Any]]:
    from schemathesis import GenerationMode

    for operation in operations:
        yield operation, GenerationMode.POSITIVE
        yield operation, GenerationMode.NEGATIVE


def _send(operation: Any, mode: Any, most: int, turn: int, session: Any, heard: Heard) -> None:
    """Send as many cases of one operation as there are, up to a number."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable

    checked = _checks()

    documented, chance = _documented(operation), random.Random(f"{operation.label} {turn}")

    def one(case: Any) -> None:
        heard.cases += 1
        case.body = mixed(case.body, documented, chance)
        try:
            response = case.call(session=session, timeout=_TIMEOUT_S)
        except OSError as error:
            heard.server_errors.append(f"no answer ({error}): {case.as_curl_command()[:2_000]}")
            return
        heard.statuses[response.status_code] += 1
        _judge(case, response, checked, heard)

    strategy = operation.as_strategy(generation_mode=mode)
    # Nothing is shrunk: a case that fails is kept as it was sent, and the others follow.
    stated = settings(
        max_examples=most, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        seed(turn)(stated(given(case=strategy)(one)))()
    except Unsatisfiable:
        # Some operations take everything: nothing that is sent to them is not as described.
        return


def _documented(operation: Any) -> list[dict[str, Any]]:
    """Return the bodies that the document shows as examples."""
    described = operation.definition.raw.get("requestBody", {}).get("content", {})
    examples = described.get("application/json", {}).get("examples", {})
    return [one["value"] for one in examples.values() if isinstance(one["value"], dict)]


def mixed(body: Any, documented: list[dict[str, Any]], chance: random.Random) -> Any:
    """Return a body that half of the time has some members of an example in place of its own.

    Made-up names are refused before anything is done with the rest; those of examples are not.
    """
    if not documented or not isinstance(body, dict) or chance.random() < 0.5:
        return body
    example = chance.choice(documented)
    taken = {name: value for name, value in example.items() if chance.random() < 0.8}
    return {**body, **taken}


def _checks() -> list[Any]:
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    return [CHECKS.get_one(name) for name in _CHECKS]


def _judge(case: Any, response: Any, checks: list[Any], heard: Heard) -> None:
    from schemathesis.core.failures import Failure, FailureGroup

    said = f"{response.status_code} {case.as_curl_command()[:2_000]}: {response.text[:500]}"
    if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR and not _is_told(response):
        heard.server_errors.append(said)
    try:
        case.validate_response(response, checks=checks)
    except FailureGroup as group:
        heard.violations += [f"{one.title}: {one.message[:500]} {said}" for one in group.exceptions]
    except Failure as one:
        heard.violations.append(f"{one.title}: {one.message[:500]} {said}")


def _is_told(response: Any) -> bool:
    media = response.headers.get("content-type", [""])[0]
    return response.status_code in _TOLD and media.startswith("application/problem+json")
