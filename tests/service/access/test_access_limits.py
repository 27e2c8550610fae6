"""Rates, the audit log, callers without keys, and where the service may listen."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import CREATED, Guarded, guarded_service, make_app

from perfmodel.errors import InvalidInputError, StoreError
from service.access import install
from service.access.access_policy import MAX_CALLERS, Entry, Policy, RateLimiter, Refusal
from service.access.audit import AuditLog
from service.access.install import check_binding
from service.access.key_file import KeyFile
from service.access.keys import new_key

guarded = pytest.fixture(scope="module")(guarded_service)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_grants_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(rate_per_s=10, burst_s=2, clock=clock)
    # 10 a second for 2 s may go at once: 20.
    assert sum(limiter.wait_s("a") == 0 for _ in range(30)) == 20
    assert limiter.wait_s("a") == pytest.approx(0.1)
    clock.now += 0.55  # 5.5 tokens more
    assert sum(limiter.wait_s("a") == 0 for _ in range(30)) == 5


def test_over_any_time_a_caller_gets_at_most_burst_plus_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(rate_per_s=7, burst_s=1, clock=clock)
    granted = 0
    for _ in range(1_000):
        clock.now += 0.01
        granted += limiter.wait_s("a") == 0
    # 10 s at 7 a second after 7 at once.
    assert 70 <= granted <= 77


def test_callers_do_not_share_a_bucket_and_may_have_a_rate_of_their_own() -> None:
    limiter = RateLimiter(rate_per_s=1, burst_s=1, clock=Clock())
    assert [limiter.wait_s("a"), limiter.wait_s("a"), limiter.wait_s("b")] == [0, 1, 0]
    assert [limiter.wait_s("c", 0.5), limiter.wait_s("c", 0.5)] == [0, 2]
    assert RateLimiter(rate_per_s=0, clock=Clock()).wait_s("a") == 0


def test_the_callers_that_are_remembered_are_bounded() -> None:
    limiter = RateLimiter(rate_per_s=1, clock=Clock())
    for number in range(MAX_CALLERS + 50):
        limiter.wait_s(str(number))
    assert len(limiter._buckets) == MAX_CALLERS


def test_a_key_that_asks_too_often_is_told_when_to_come_back(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "RateLimiter", partial(RateLimiter, clock=Clock()))
    keys = KeyFile(guarded.folder / "keys.json")
    token, key = new_key("slow", ["predict"], created_at=CREATED, rate_per_s=0.5)
    keys.add(key)
    app = make_app(guarded.folder)
    with TestClient(app) as client:
        headers = {"X-API-Key": token}
        assert client.get("/v1/models", headers=headers).status_code == 200
        refused = client.get("/v1/models", headers=headers)
        others = client.get("/v1/models", headers=guarded.bearer("predict"))
    assert refused.status_code == 429
    # Half a request a second: the next one in two seconds.
    assert refused.headers["retry-after"] == "2"
    assert refused.json()["type"] == "urn:perfmodel:problem:too-many-requests"
    assert others.status_code == 200


def test_what_administrators_do_is_written_down(guarded: Guarded) -> None:
    audit = guarded.folder / "audit.jsonl"
    guarded.client.get("/v1/models", headers=guarded.bearer("admin"))
    assert not audit.exists()
    guarded.client.delete("/v1/prices", headers=guarded.bearer("admin"))
    guarded.client.delete("/v1/prices", headers=guarded.bearer("predict"))
    done, refused = [json.loads(line) for line in audit.read_text().splitlines()]
    key = next(key for key in KeyFile(guarded.folder / "keys.json").all() if key.name == "admin")
    assert done.items() >= {"by": key.key_id, "action": "DELETE /v1/prices"}.items()
    assert done["status"] not in (401, 403)
    assert refused["status"] == 403
    assert refused["by"] != key.key_id


def test_audit_lines_are_added_and_a_full_disk_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(tmp_path / "deep" / "audit.jsonl")
    log.append("one", by="a", status=200)
    AuditLog(log.path).append("two", by="b")
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(line["action"], line["by"]) for line in lines] == [("one", "a"), ("two", "b")]
    AuditLog(tmp_path).append("three", by="c")  # a folder cannot be written to
    assert "three" in caplog.text


@pytest.mark.parametrize("header", ["bearer", "x-api-key", "basic"])
def test_a_key_may_be_shown_in_three_ways(guarded: Guarded, header: str) -> None:
    token = guarded.tokens["predict"]
    ask: dict[str, Any] = {
        "bearer": {"headers": {"Authorization": f"bearer  {token}"}},
        "x-api-key": {"headers": {"X-API-Key": token}},
        "basic": {"auth": ("anybody", token)},
    }[header]
    assert guarded.client.get("/v1/models", **ask).status_code == 200


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Bearer pmk_x", "Basic", "Basic !!", "Basic Og==", "Digest x"],
)
def test_nonsense_in_place_of_a_key_is_refused(guarded: Guarded, value: str) -> None:
    response = guarded.client.get("/v1/models", headers={"Authorization": value})
    assert response.status_code == 401
    assert [v.split()[0] for v in response.headers.get_list("www-authenticate")] == [
        "Bearer",
        "Basic",
    ]


def policy(tmp_path: Path, **settings: Any) -> Policy:
    return Policy(keys=KeyFile(tmp_path / "keys.json"), limiter=RateLimiter(), **settings)


def request(server: str, method: str = "POST", *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    client = ("192.0.2.7", 5)
    return {"method": method, "headers": list(headers), "server": (server, 80), "client": client}


@pytest.mark.parametrize(
    ("server", "insecure", "let_in"),
    [
        ("127.0.0.1", False, True),
        ("127.8.8.8", False, True),
        ("::1", False, True),
        ("/run/perfmodel.sock", False, True),
        ("192.0.2.1", False, False),
        ("fe80::1%eth0", False, False),
        ("192.0.2.1", True, True),
    ],
)
def test_without_keys_only_the_loopback_is_answered(
    tmp_path: Path, server: str, insecure: bool, let_in: bool
) -> None:
    decision = policy(tmp_path, insecure=insecure).decide(request(server), "/v1/predict")
    assert isinstance(decision, Entry) is let_in
    if isinstance(decision, Refusal):
        assert decision.content["status"] == 403
        assert "keys create" in decision.content["detail"]


def test_the_first_key_closes_the_door_for_good(tmp_path: Path) -> None:
    clock = Clock()
    keys = KeyFile(tmp_path / "keys.json", clock=clock)
    door = Policy(keys=keys, limiter=RateLimiter(), insecure=True)
    assert isinstance(door.decide(request("127.0.0.1"), "/v1/predict"), Entry)
    _, key = new_key("first", ["predict"], created_at=CREATED)
    keys.add(key)
    keys.revoke(key.key_id)
    refused = door.decide(request("127.0.0.1"), "/v1/predict")
    assert isinstance(refused, Refusal)
    assert refused.content["status"] == 401
    (tmp_path / "keys.json").unlink()
    clock.now += 10
    assert isinstance(door.decide(request("127.0.0.1"), "/v1/predict"), Refusal)


def test_a_page_of_another_site_may_not_use_the_loopback(tmp_path: Path) -> None:
    cross = (b"sec-fetch-site", b"cross-site")
    door = policy(tmp_path)
    assert isinstance(door.decide(request("::1", "POST", cross), "/v1/predict"), Refusal)
    assert isinstance(door.decide(request("::1", "GET", cross), "/v1/models"), Entry)


def test_some_paths_may_be_opened_and_keys_demanded_from_the_start(tmp_path: Path) -> None:
    door = policy(tmp_path, required=True, open_paths={"/hook"})
    assert isinstance(door.decide(request("192.0.2.1"), "/hook"), Entry)
    assert isinstance(door.decide(request("192.0.2.1"), "/hook/x"), Refusal)
    assert isinstance(door.decide(request("127.0.0.1"), "/v1/predict"), Refusal)


def test_listening_for_everybody_needs_a_key_or_a_word(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    check_binding("127.0.0.1", keys)
    check_binding("::1", keys)
    check_binding("0.0.0.0", keys, insecure=True)
    for host in ("0.0.0.0", "::", "192.0.2.1", ""):
        with pytest.raises(InvalidInputError, match="--insecure"):
            check_binding(host, keys)
    _, key = new_key("a", ["predict"], created_at=CREATED)
    keys.add(key)
    check_binding("0.0.0.0", keys)
    keys.revoke(key.key_id)
    with pytest.raises(InvalidInputError, match="no keys"):
        check_binding("0.0.0.0", keys)


def test_no_service_starts_on_keys_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("?")
    with pytest.raises(StoreError):
        make_app(tmp_path)
