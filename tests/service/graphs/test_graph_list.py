"""Registered graphs are listed, shown and given back without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from fastapi.testclient import TestClient
from guarded_service import CREATED, make_app
from jsonschema import Draft202012Validator
from sqlalchemy import text

from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.routes.graphs import GRAPH_EXAMPLE
from service.schemas.state_bodies import GraphJson, GraphsAnswer, GraphShown


def _graph(width: int) -> dict[str, Any]:
    """Return one product of 8 x width times width x 1000, without bias."""
    shapes = [[8, width], [width, 1000], [8, 1000]]
    tensors = [
        [shape, *tensor[1:]] for shape, tensor in zip(shapes, GRAPH_EXAMPLE["tensors"], strict=True)
    ]
    return {**GRAPH_EXAMPLE, "tensors": tensors}


def _register(client: TestClient, width: int) -> str:
    answer = client.post("/v1/graphs?batch_size=8&mode=training", json=_graph(width))
    assert answer.status_code == 201, answer.text
    graph: str = answer.json()["graph"]
    return graph


def test_graphs_are_listed_in_pages_newest_first(either: TestClient) -> None:
    hashes = [_register(either, width) for width in (16, 32, 64)]
    first = either.get("/v1/graphs?limit=2")
    GraphsAnswer.model_validate_json(first.content, strict=True)
    second = either.get("/v1/graphs", params={"cursor": first.json()["next_cursor"]}).json()
    listed = [*first.json()["graphs"], *second["graphs"]]
    assert [one["graph"] for one in listed] == hashes[::-1]
    assert second["next_cursor"] is None
    # 8 x 64 times 64 x 1000: 2 * 8 * 64 * 1000 operations, 64 * 1000 parameters.
    newest = listed[0]
    assert (newest["node_count"], newest["parameter_count"]) == (1, 64_000)
    assert newest["flops"] == 1_024_000
    assert (newest["mode"], newest["batch_size"]) == ("training", 8)
    assert newest["source"] == {"model": "one matrix product"}
    assert either.get("/v1/graphs?cursor=x").status_code == 422


def _validate_as_described(client: TestClient, *answers: object) -> None:
    document = client.get("/openapi.json").json()
    ok = document["paths"]["/v1/graphs/{graph}"]["get"]["responses"]["200"]
    schema = ok["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": document["components"]})
    for answer in answers:
        validator.validate(answer)
    assert not validator.is_valid({"format": 1})


def test_one_graph_is_shown_or_given_back_whole(either: TestClient) -> None:
    name = _register(either, 16)
    shown = either.get(f"/v1/graphs/{name}")
    GraphShown.model_validate_json(shown.content, strict=True)
    assert shown.json()["unpriced_operators"] == {}
    whole = either.get(f"/v1/graphs/{name}?form=json")
    GraphJson.model_validate_json(whole.content, strict=True)
    _validate_as_described(either, shown.json(), whole.json())
    assert orjson.loads(whole.content)["tensors"] == _graph(16)["tensors"]
    # What is given back is what was registered.
    again = either.post(
        "/v1/graphs?batch_size=8&mode=training",
        content=whole.content,
        headers={"Content-Type": "application/json"},
    )
    assert (again.status_code, again.json()["graph"]) == (200, name)
    tag = {"If-None-Match": whole.headers["etag"]}
    assert either.get(f"/v1/graphs/{name}?form=json", headers=tag).status_code == 304


def test_a_graph_that_was_captured_here_is_shown_too(client: TestClient) -> None:
    job = {"model": "timm/resnet18", "mode": "inference", "batch_size": 4}
    assert client.post("/v1/jobs", json={"job": job}).status_code == 201
    assert client.get("/v1/graphs").json()["graphs"] == []
    state = client.app.state.dispatcher.state  # type: ignore[attr-defined]
    with state.database.connections.reading() as connection:
        name = connection.execute(text("SELECT hash FROM captures")).scalar_one()
    shown = client.get(f"/v1/graphs/{name}").json()
    assert shown["unpriced_operators"] == {"mylib::fused": 1}
    assert (shown["batch_size"], shown["node_count"]) == (None, 2)


def test_a_graph_from_before_facts_were_kept_gets_them(either: TestClient) -> None:
    _register(either, 16)
    before = either.get("/v1/graphs").json()
    state = either.app.state.dispatcher.state  # type: ignore[attr-defined]
    with state.database.connections.writing() as connection:
        connection.execute(text("UPDATE registrations SET source = NULL, flops = NULL"))
    assert either.get("/v1/graphs").json() == before
    with state.database.connections.reading() as connection:
        assert connection.execute(text("SELECT flops FROM registrations")).scalar_one() > 0


def test_a_graph_that_nobody_registered_is_not_there(either: TestClient) -> None:
    for name in ("0" * 64, "x.y", "é", "%00"):
        assert either.get(f"/v1/graphs/{name}").status_code == 404
        assert either.get(f"/v1/graphs/{name}?form=json").status_code == 404


def test_a_key_is_shown_the_graphs_that_it_registered(tmp_path: Path) -> None:
    keys = {}
    for name, scope in (("one", "predict"), ("other", "predict"), ("boss", "admin")):
        token, key = new_key(name, [scope], created_at=CREATED)
        KeyFile(tmp_path / "keys.json").add(key)
        keys[name] = {"headers": {"authorization": f"Bearer {token}"}}
    with TestClient(make_app(tmp_path)) as client:

        def register(caller: str, width: int) -> str:
            path = "/v1/graphs?batch_size=8&mode=training"
            answer = client.post(path, json=_graph(width), **keys[caller])
            assert answer.status_code in (200, 201), answer.text
            return str(answer.json()["graph"])

        def shown(caller: str) -> tuple[set[str], set[str], set[str]]:
            how = keys[caller]
            listed = {one["graph"] for one in client.get("/v1/graphs", **how).json()["graphs"]}
            paths = {form: f"/v1/graphs/{{}}?form={form}" for form in ("facts", "json")}
            facts, whole = (
                {name for name in every if client.get(path.format(name), **how).status_code == 200}
                for path in paths.values()
            )
            return listed, facts, whole

        first, second, both = register("one", 16), register("other", 32), register("one", 64)
        every = {first, second, both}
        assert shown("other") == ({second},) * 3
        # Who sends the same graph has it anyway.
        assert register("other", 64) == both
        assert shown("other") == ({second, both},) * 3
        assert shown("one") == ({first, both},) * 3
        assert shown("boss") == (every,) * 3
        # Who was told its hash may ask about it, and is suggested none by one that is wrong.
        question = {"job": {"graph": first, "mode": "training", "batch_size": 8}, "placement": "T4"}
        assert client.post("/v1/predict", json=question, **keys["other"]).status_code == 200
        question["job"]["graph"] = f"{first[:-1]}x"  # type: ignore[index]
        assert first not in client.post("/v1/predict", json=question, **keys["other"]).text
