"""Observations are removed, left out and taken in again, by those who may; answers follow."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import CREATED, make_app

from perfmodel.requests import parse_job
from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.schemas.state_bodies import (
    ObservationsAnswer,
    ObservationsChanged,
    ObservationsRemoved,
)

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
OTHER: dict[str, Any] = {**JOB, "model": "timm/resnet18"}
TYPE: dict[str, Any] = {"job_type": "click-rates", "mode": "training", "batch_size": 512}
A100 = "A100-SXM4-80GB"


@dataclass(frozen=True)
class Caller:
    """Somebody with a key."""

    client: TestClient
    key_id: str
    token: str

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.client.request(method, path, json=body, headers=headers)

    def observe(self, *sent: dict[str, Any]) -> list[str]:
        answer = self("POST", "/v1/observations", list(sent))
        assert answer.status_code == 200, answer.text
        return [item["status"] for item in answer.json()["observations"]]

    def take(self, query: str, state: str | None = None) -> int:
        """Remove what a query means, or give it a state; return how many."""
        if state is None:
            answer = self("DELETE", f"/v1/observations?{query}")
            model, word = ObservationsRemoved, "removed"
        else:
            answer = self("PATCH", f"/v1/observations?{query}", {"state": state})
            model, word = ObservationsChanged, "changed"
        assert answer.status_code == 200, answer.text
        model.model_validate_json(answer.content, strict=True)
        return int(answer.json()[word])

    def listed(self, query: str = "") -> list[dict[str, Any]]:
        answer = self("GET", f"/v1/observations?{query}")
        ObservationsAnswer.model_validate_json(answer.content, strict=True)
        found: list[dict[str, Any]] = answer.json()["observations"]
        return found

    def answers(self) -> list[bytes]:
        """Return what is said of some jobs, one that nobody observes among them."""
        asked = [
            ("/v1/predict", {"job": JOB, "placement": A100}),
            ("/v1/predict", {"job": {**JOB, "batch_size": 32}, "placement": f"8x{A100}"}),
            ("/v1/predict", {"job": OTHER, "placement": f"4x{A100}"}),
            ("/v1/matrix", {"jobs": [JOB, OTHER, TYPE], "placements": [A100, f"8x{A100}"]}),
            ("/v1/rank", {"job": JOB, "placements": [A100, "T4"]}),
        ]
        return [self("POST", path, body).content for path, body in asked]


@dataclass(frozen=True)
class World:
    """A service with an administrator and two who report."""

    folder: Path
    admin: Caller
    one: Caller
    other: Caller


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    keys = KeyFile(tmp_path / "keys.json")
    made = {}
    for name, scope in (("admin", "admin"), ("one", "observe"), ("other", "observe")):
        token, key = new_key(name, [scope], created_at=CREATED)
        keys.add(key)
        made[name] = token, key.key_id
    with TestClient(make_app(tmp_path, keys=tmp_path / "keys.json")) as client:
        callers = {
            name: Caller(client=client, key_id=key_id, token=token)
            for name, (token, key_id) in made.items()
        }
        yield World(folder=tmp_path, **callers)


@pytest.fixture
def step(world: World) -> Callable[..., dict[str, Any]]:
    """Return what makes an observation that is believed: a step twice as long as predicted."""
    asked = world.admin("POST", "/v1/predict", {"job": JOB, "placement": A100})
    predicted_s = asked.json()["step_time_s"]

    def make(key: str, *, job: dict[str, Any] = JOB, factor: float = 2.0) -> dict[str, Any]:
        return {"job": job, "placement": A100, "step_time_s": factor * predicted_s, "key": key}

    return make


Make = Callable[..., dict[str, Any]]


def test_it_is_kept_who_reported(world: World, step: Make) -> None:
    assert world.one.observe(step("1")) == ["accepted"]
    # The same key of another: neither stands in the way of the other.
    assert world.other.observe(step("1", factor=3.0)) == ["accepted"]
    assert world.other.observe(step("1", factor=3.0)) == ["known"]
    assert world.other.observe(step("1", factor=4.0)) == ["refused"]
    # Nobody is believed who it is because of what is sent.
    assert world.one.observe({**step("2"), "reporter": world.other.key_id}, step("3")) == [
        "refused", "accepted",
    ]  # fmt: skip
    assert [(seen["reporter"], seen["key"]) for seen in world.one.listed()] == [
        (world.one.key_id, "3"), (world.other.key_id, "1"), (world.one.key_id, "1"),
    ]  # fmt: skip
    state = world.admin.client.app.state.dispatcher.state  # type: ignore[attr-defined]
    assert {seen.reporter for seen in state.feed.of(None)} == {
        world.one.key_id, world.other.key_id,
    }  # fmt: skip


def test_without_keys_a_guest_reports_and_takes_back(tmp_path: Path) -> None:
    with TestClient(make_app(tmp_path)) as client:
        sent = [{"job": TYPE, "placement": A100, "step_time_s": 0.2}]
        assert client.post("/v1/observations", json=sent).json()["accepted"] == 1
        (seen,) = client.get("/v1/observations").json()["observations"]
        assert seen["reporter"] == "guest"
        assert client.delete("/v1/observations?reporter=guest").json() == {"removed": 1}


@pytest.mark.parametrize("by", ["one", "admin"])
def test_answers_are_as_if_what_is_removed_had_never_been_there(
    world: World, step: Make, by: str
) -> None:
    world.other.observe(step("theirs", factor=1.5))
    before, rows = world.admin.answers(), world.admin.listed()
    world.one.observe(
        step("a"),
        step("b", job={**JOB, "batch_size": 32}),
        step("c", job=OTHER),
        {"job": TYPE, "placement": A100, "step_time_s": 0.2, "key": "d"},
    )
    assert all(now != then for now, then in zip(world.admin.answers(), before, strict=True))
    caller: Caller = getattr(world, by)
    assert caller.take(f"reporter={world.one.key_id}") == 4
    assert world.admin.answers() == before
    assert world.admin.listed() == rows
    # As it is gone, it can be reported again.
    assert world.one.observe(step("a")) == ["accepted"]


def test_what_is_left_out_counts_nowhere_and_counts_again(world: World, step: Make) -> None:
    before = world.admin.answers()
    world.one.observe(step("a"), step("b", factor=2.5))
    observed = world.admin.answers()
    assert world.one.take("key=a", "excluded") == 1
    assert world.one.take("key=b", "excluded") == 1
    assert world.admin.answers() == before
    assert {seen["state"] for seen in world.one.listed()} == {"excluded"}
    assert world.admin("GET", "/v1/accuracy").json()["points"] == []
    # It stands: sent again it stays out.
    assert world.one.observe(step("a")) == ["known"]
    assert world.admin.answers() == before
    assert world.one.take("state=excluded", "accepted") == 2
    assert world.admin.answers() == observed


def test_only_administrators_take_in_what_is_not_believed(world: World, step: Make) -> None:
    assert world.one.observe(step("a", factor=1e4)) == ["quarantined"]
    assert world.one.take("key=a", "accepted") == 0
    # By way of leaving it out neither.
    assert world.one.take("key=a", "excluded") == 0
    before = world.admin.answers()
    assert world.admin.take("state=quarantined", "accepted") == 1
    (seen,) = world.one.listed("state=accepted")
    assert "200 times" in seen["reason"]
    assert world.admin.answers() != before


def test_what_is_faster_than_its_arithmetic_counts_for_nothing_ever(
    world: World, step: Make
) -> None:
    before = world.admin.answers()
    assert world.one.observe(step("a", factor=1e-6)) == ["quarantined"]
    assert world.admin.take("key=a", "accepted") == 1
    assert world.admin.answers() == before


def test_others_are_out_of_reach(world: World, step: Make) -> None:
    world.one.observe(step("a"))
    world.other.observe(step("a"))
    for method, body in (("DELETE", None), ("PATCH", {"state": "excluded"})):
        path = f"/v1/observations?reporter={world.other.key_id}"
        refused = world.one(method, path, body)
        assert refused.status_code == 403, refused.text
        assert "another reporter" in refused.json()["detail"]
        assert world.one(method, "/v1/observations?reporter=", body).status_code == 403
    before = world.other.listed(f"reporter={world.other.key_id}")
    assert len(before) == 1
    assert world.one.take("key=a", "excluded") == 1
    assert world.one.take("after=2020-01-01T00:00:00Z") == 1
    assert world.admin.listed() == before


def test_an_open_path_makes_nobody_an_administrator(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    token, key = new_key("boss", ["admin"], created_at=CREATED)
    keys.add(key)
    open_paths = ("/v1/observations",)
    sent = [{"job": TYPE, "placement": A100, "step_time_s": 0.2}]
    with TestClient(make_app(tmp_path, keys=keys.path)) as client:
        Caller(client=client, key_id=key.key_id, token=token).observe(*sent)
    with TestClient(make_app(tmp_path, keys=keys.path, open_paths=open_paths)) as client:
        assert client.post("/v1/observations", json=sent).json()["accepted"] == 1
        assert client.delete(f"/v1/observations?reporter={key.key_id}").status_code == 403
        assert client.delete("/v1/observations?state=accepted").json() == {"removed": 1}
        (left,) = client.get("/v1/observations").json()["observations"]
        assert left["reporter"] == key.key_id
    assert '"action":"DELETE /v1/observations"' in (tmp_path / "audit.jsonl").read_text()


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "/query"),
        ("jobs=1", "/query"),
        ("key=a&reportr=one", "/query"),
        ("key=a&limit=10", "/query"),
        ("job=nobody", "/query/job"),
        ("before=yesterday", "/query/before"),
        ("after=2026-01-01T00:00:00", "/query/after"),
        ("after=2026-01-01T00:00:00+01:00", "/query/after"),
        ("key=%00", "/query/key"),
        ("reporter=%0a", "/query/reporter"),
        (f"key={'x' * 201}", "/query/key"),
        ("state=lost", "/query/state"),
    ],
)
def test_what_cannot_be_meant_is_refused(world: World, query: str, pointer: str) -> None:
    for method, body in (("DELETE", None), ("PATCH", {"state": "excluded"})):
        answer = world.admin(method, f"/v1/observations?{query}", body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("body", [{}, {"state": "quarantined"}, {"state": 1}, [], {"stat": "x"}])
def test_a_state_that_cannot_be_given_is_refused(world: World, body: Any) -> None:
    answer = world.admin("PATCH", "/v1/observations?key=a", body)
    assert answer.status_code == 422


def test_times_are_those_of_receipt(world: World, step: Make) -> None:
    world.one.observe(step("a"))
    (seen,) = world.one.listed()
    at = seen["received_at"].replace("+00:00", "Z")
    assert len(world.one.listed(f"after={at}")) == 1
    assert world.one.listed(f"before={at}") == []
    assert world.one.take(f"before={at}") == 0
    assert world.one.take(f"after={at}&before=2999-01-01T00:00:00%2B05:30") == 1


def test_the_list_takes_the_same_words(world: World, step: Make) -> None:
    world.one.observe(step("a"), step("b", job=OTHER))
    world.other.observe(step("a"))
    ref = world.one.listed("key=b")[0]["job"]
    assert [seen["key"] for seen in world.other.listed(f"job={ref}")] == ["b"]
    assert len(world.other.listed("key=a")) == 2
    assert len(world.other.listed(f"key=a&reporter={world.one.key_id}")) == 1
    assert world.other.listed("reporter=nobody") == []


def test_what_is_taken_back_is_in_the_audit_log(world: World, step: Make) -> None:
    world.one.observe(step("a"))
    world.one.take("key=a", "excluded")
    world.one("DELETE", f"/v1/observations?reporter={world.other.key_id}")
    world.one.take("key=a")
    lines = [json.loads(line) for line in (world.folder / "audit.jsonl").read_text().splitlines()]
    assert [(line["by"], line["action"], line["query"], line["status"]) for line in lines] == [
        (world.one.key_id, "PATCH /v1/observations", "key=a", 200),
        (world.one.key_id, "DELETE /v1/observations", f"reporter={world.other.key_id}", 403),
        (world.one.key_id, "DELETE /v1/observations", "key=a", 200),
    ]


def test_any_sequence_ends_as_a_plain_list_says(world: World, step: Make) -> None:
    """Post, remove, leave out and take in at random, beside a dictionary that does the same."""
    drawn = random.Random(20)
    kept: dict[tuple[str, str], str] = {}
    for _ in range(120):
        caller = drawn.choice((world.one, world.other, world.admin))
        key, what = drawn.choice("abcd"), drawn.randrange(5)
        mine = [at for at in kept if at[1] == key and caller in (world.admin, by(world, at[0]))]
        if what == 0:
            assert caller.take(f"key={key}") == len(mine)
            for at in mine:
                del kept[at]
        elif what in (1, 2):
            to, out_of = [("excluded", "accepted"), ("accepted", "excluded")][what - 1]
            moved = [at for at in mine if kept[at] == out_of]
            assert caller.take(f"key={key}", to) == len(moved)
            kept.update(dict.fromkeys(moved, to))
        else:
            at = (caller.key_id, key)
            assert caller.observe(step(key)) == ["known" if at in kept else "accepted"]
            kept.setdefault(at, "accepted")
        counting = {at for at, state in kept.items() if state == "accepted"}
        state = world.admin.client.app.state.dispatcher.state  # type: ignore[attr-defined]
        seen = state.feed.of(parse_job(JOB).family)
        assert sorted(one.reporter for one in seen) == sorted(at[0] for at in counting)
        found = {(seen["reporter"], seen["key"]): seen["state"] for seen in world.admin.listed()}
        assert found == kept


def by(world: World, key_id: str) -> Caller:
    return next(c for c in (world.one, world.other, world.admin) if c.key_id == key_id)
