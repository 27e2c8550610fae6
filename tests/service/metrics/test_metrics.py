"""What is counted, logged and tagged, and that none of it leaks what a caller made up."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from guarded_service import make_app

from service.http import logs
from service.metrics.registry import Metrics

QUESTION = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "placement": "A100-SXM4-80GB",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return make_app(tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def scraped(client: TestClient) -> dict[str, float]:
    return samples(client.get("/metrics").text)


REQUESTS = 'perfmodel_requests_total{{method="{}",route="{}",status="{}"}}'


def test_requests_are_counted_by_route_method_and_status(client: TestClient) -> None:
    before = scraped(client)
    for body in (QUESTION, QUESTION, {}):
        client.post("/v1/predict", json=body)
    after = scraped(client)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown[REQUESTS.format("POST", "/v1/predict", 200)] == 2
    assert grown[REQUESTS.format("POST", "/v1/predict", 422)] == 1
    assert grown['perfmodel_request_seconds_count{route="/v1/predict"}'] == 3
    assert grown['perfmodel_request_seconds_bucket{le="+Inf",route="/v1/predict"}'] == 3
    assert after['perfmodel_request_seconds_sum{route="/v1/predict"}'] > 0


def test_labels_are_bounded_whatever_callers_make_up(client: TestClient) -> None:
    for number in range(50):
        client.get(f"/made/up/{number}")
        client.request(f"BREW{number}", "/v1/predict")
        client.get(f"/v2/models/{number}")
    names = [name for name in scraped(client) if name.startswith("perfmodel_requests_total")]
    assert not [name for name in names if "made" in name or "BREW" in name or "/49" in name]
    assert len(names) < 30


def test_answers_are_counted_by_what_they_rest_on(client: TestClient) -> None:
    name = 'perfmodel_answers_total{{basis="analytical",route="{}"}}'
    before = scraped(client)
    client.post("/v1/predict", json=QUESTION)
    client.post("/v1/predict", json=QUESTION)
    matrix = {"jobs": [QUESTION["job"]] * 2, "placements": ["A10", "T4", "no such thing"]}
    assert client.post("/v1/matrix", json=matrix).status_code == 200
    after = scraped(client)
    assert after[name.format("/v1/predict")] - before.get(name.format("/v1/predict"), 0) == 2
    # Two jobs on two placements; the third placement has no answer and no basis.
    assert after[name.format("/v1/matrix")] - before.get(name.format("/v1/matrix"), 0) == 4


def test_predictions_are_held_against_observations() -> None:
    metrics = Metrics()
    # |110 - 100| / 100 = 0.1 inside its interval; |300 - 100| / 100 = 2 outside of it.
    metrics.observation("A10", 100.0, predicted=110.0, low=90.0, high=130.0)
    metrics.observation("A10", 100.0, predicted=300.0, low=250.0, high=350.0)
    for nonsense in (0.0, -1.0, math.nan, math.inf):
        metrics.observation("A10", nonsense, predicted=1.0, low=1.0, high=1.0)
        metrics.observation("A10", 1.0, predicted=nonsense, low=1.0, high=1.0)
    found = samples(metrics.exposition().decode())
    error = "perfmodel_prediction_error_ratio"
    assert found[f'{error}_count{{accelerator="A10"}}'] == 2
    assert found[f'{error}_sum{{accelerator="A10"}}'] == pytest.approx(2.1)
    assert found[f'{error}_bucket{{accelerator="A10",le="0.1"}}'] == 1
    covered = 'perfmodel_observed_predictions_total{{accelerator="A10",covered="{}"}}'
    assert [found[covered.format(word)] for word in ("yes", "no")] == [1, 1]


def test_observations_that_are_sent_are_held_against_predictions(client: TestClient) -> None:
    answer = client.post("/v1/predict", json=QUESTION).json()
    # A step that takes 1.25 times as long has 0.8 of the throughput:
    # |p - 0.8 p| / (0.8 p) = 0.25.
    seen = {**QUESTION, "step_time_s": 1.25 * answer["step_time_s"], "key": "a"}
    # A millionth of the predicted time is beyond the peak of any accelerator: not believed.
    doubtful = {**QUESTION, "step_time_s": 1e-6 * answer["step_time_s"], "key": "b"}
    for _ in range(2):  # sent again, it counts once
        sent = client.post("/v1/observations", json={"observations": [seen, doubtful]})
        assert sent.status_code == 200, sent.text
    found = scraped(client)
    name = 'perfmodel_prediction_error_ratio_{}{{accelerator="A100-SXM4-80GB"}}'
    assert found[name.format("count")] == 1
    assert found[name.format("sum")] == pytest.approx(0.25)


def test_queues_and_the_age_of_the_model_are_told() -> None:
    metrics = Metrics()
    metrics.queue("answer").inc()
    metrics.queue("answer").inc()
    metrics.queue("answer").dec()
    facts = [{"serving": False, "created_at": "2020-01-01T00:00:00+00:00"}]
    facts.append({"serving": True, "created_at": "1970-01-02T00:00:00+00:00"})
    metrics.serve_model("default/2", facts)
    found = samples(metrics.exposition().decode())
    assert found['perfmodel_queue_depth{queue="answer"}'] == 1
    # One day after the epoch.
    name = "perfmodel_model_created_timestamp_seconds"
    assert found[f'{name}{{model="default/2"}}'] == 86_400
    metrics.serve_model("roofline", [])
    found = samples(metrics.exposition().decode())
    assert found == {**found, f'{name}{{model="roofline"}}': 0.0}
    assert f'{name}{{model="default/2"}}' not in found


def test_workers_are_added_up(tmp_path: Path) -> None:
    worker = (
        "import sys\n"
        "from service.metrics.registry import Metrics\n"
        "metrics = Metrics()\n"
        "metrics.request('/v1/predict', 'POST', 200, 0.001)\n"
        "metrics.queue('answer').inc()\n"
        "metrics.model_store(not sys.argv[1:], 1.0)\n"
        "print(metrics.exposition().decode())"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", worker, *said],
            capture_output=True, text=True, check=True, env=environment,
        ).stdout
        for said in (["away"], [])
    ]  # fmt: skip
    name = REQUESTS.format("POST", "/v1/predict", 200)
    assert [samples(text)[name] for text in outputs] == [1, 2]
    # What waited in one that has ended waits no more, and what it saw last is past.
    found = [samples(text) for text in outputs]
    assert [one['perfmodel_queue_depth{queue="answer"}'] for one in found] == [1, 1]
    assert [one["perfmodel_model_store_up"] for one in found] == [0, 1]


@pytest.mark.parametrize("sent", ["abc-123", "00-4bf92f3577b34da6a3ce929d0e0e4736", "a" * 128])
def test_the_identifier_of_a_request_comes_back(client: TestClient, sent: str) -> None:
    for path in ("/v1/models", "/nowhere"):
        assert client.get(path, headers={"X-Request-ID": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", [None, "", "a b", 'x"y', "a" * 129, "é"])
def test_a_request_without_a_good_identifier_gets_one(client: TestClient, sent: str | None) -> None:
    headers = {} if sent is None else {"X-Request-ID": sent.encode("latin-1")}
    found = {
        client.get("/v2/health/live", headers=headers).headers["x-request-id"] for _ in range(20)
    }
    assert len(found) == 20
    assert sent not in found


def test_an_error_of_the_service_names_its_request(app: FastAPI, client: TestClient) -> None:
    async def breaks() -> None:
        raise RuntimeError("secret detail")

    app.add_api_route("/v2/breaks", breaks)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    logging.getLogger().addHandler(handler)
    try:
        response = client.get("/v2/breaks", headers={"X-Request-ID": "r-1"})
    finally:
        logging.getLogger().removeHandler(handler)
        app.router.routes.pop()
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "r-1"
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {line["request_id"] for line in lines} == {"r-1"}
    assert any("secret detail" in line.get("traceback", "") for line in lines)
    assert scraped(client)[REQUESTS.format("GET", "/v2/breaks", 500)] == 1


def test_the_log_names_what_went_wrong_and_nothing_else(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perfmodel.request")
    client.get("/v1/models")
    client.get("/v1/nothing")
    client.post("/v1/predict", json=QUESTION, headers={"Sec-Fetch-Site": "cross-site"})
    (record,) = [r for r in caplog.records if r.name == "perfmodel.request"]
    facts: dict[str, Any] = record.facts  # type: ignore[attr-defined]
    assert (facts["path"], facts["status"]) == ("/v1/predict", 403)


def test_a_line_of_the_log_is_one_object() -> None:
    stream = io.StringIO()
    root, handlers, level = logging.getLogger(), logging.getLogger().handlers[:], logging.root.level
    try:
        logs.configure(stream=stream)
        logging.getLogger("x").warning("two\nlines %s", "é", extra={"facts": {"path": "/\n"}})
        logging.getLogger("uvicorn.error").error("down")
        logging.getLogger("x").info("not this")
        logging.getLogger("service.x").debug("nor this")
        logging.getLogger("service.x").info("ours")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    first, second, ours = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert first.items() >= {"level": "warning", "logger": "x", "message": "two\nlines é"}.items()
    assert (first["path"], second["message"], ours["message"]) == ("/\n", "down", "ours")


def test_a_flood_of_refusals_is_a_few_lines_a_second(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, stream = 0.0, io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    handler.addFilter(logs.AtMost(per_s=3, clock=lambda: now))
    logger = logging.getLogger("perfmodel.request")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.INFO)
    for second in range(3):
        now = second + 0.5
        for number in range(20):
            headers = {"Sec-Fetch-Site": "cross-site"}
            client.post(f"/v1/{number}/predict", json=QUESTION, headers=headers)
    said = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert [text.partition("(")[2] for text in said] == [
        "", "", "", "17 like it were left out before)", "", "",
        "17 like it were left out before)", "", "",
    ]  # fmt: skip


def test_lines_of_other_kinds_and_of_answers_pass_a_flood() -> None:
    bound = logs.AtMost(per_s=1, clock=lambda: 0.0)

    def passes(line: int, status: int | None = None) -> bool:
        facts = {} if status is None else {"facts": {"status": status}}
        return bound.filter(logging.makeLogRecord({"pathname": "a.py", "lineno": line, **facts}))

    assert [passes(1, 429), passes(1, 429), passes(1, 503), passes(2), passes(2)] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert all(passes(1, 200) for _ in range(5))


def test_large_answers_are_compressed_where_that_is_wanted(client: TestClient) -> None:
    plain = client.get("/v1/accelerators", headers={"Accept-Encoding": "identity"})
    packed = client.get("/v1/accelerators", headers={"Accept-Encoding": "gzip"})
    small = client.get("/v2/health/live", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 3
    assert packed.json() == plain.json()
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize("path", ["/v1/accelerators", "/v1/models"])
def test_what_a_caller_has_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    # Of the bytes alone: the same from every worker and after every start.
    assert tag == f'W/"{hashlib.blake2b(first.content, digest_size=12).hexdigest()}"'
    again = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content


TRACED = """
import sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from fastapi.testclient import TestClient
from guarded_service import make_app
with TestClient(make_app(Path(sys.argv[1]))) as client:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    client.get("/v1/models", headers={"traceparent": parent})
servers = [s for s in exporter.get_finished_spans() if s.kind is trace.SpanKind.SERVER]
print([(s.name, f"{s.context.trace_id:x}") for s in servers])
"""


def test_requests_are_traced_where_a_tracer_is_set_up(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra telemetry is not installed")
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    run = subprocess.run(
        [sys.executable, "-c", TRACED, str(tmp_path)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[('GET /v1/models', '4bf92f3577b34da6a3ce929d0e0e4736')]"


ROOT = Path(__file__).resolve().parents[3]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"perfmodel_[a-z_]+[a-z]", text))


@pytest.mark.parametrize("page", ["examples/grafana/perfmodel.json", "docs/monitoring.md"])
def test_what_the_dashboard_and_the_page_speak_of_is_counted(page: str, client: TestClient) -> None:
    client.post("/v1/predict", json=QUESTION)
    counted = names_in(client.get("/metrics").text)
    text = (ROOT / page).read_text()
    families = {name.removesuffix("_bucket").removesuffix("_total") for name in counted}
    asked = {name.removesuffix("_bucket").removesuffix("_total") for name in names_in(text)}
    assert asked <= families, asked - families
    assert len(asked) >= 8


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads((ROOT / "examples/grafana/perfmodel.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert all(text.count("(") == text.count(")") for text in expressions)
    assert all(text.count("{") == text.count("}") for text in expressions)
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in panels
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "panels lie on one another"
    assert max(x for x, _ in cells) < 24
