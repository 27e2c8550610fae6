"""An operator's own accelerators and names for them, in every answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cluster_bodies import job_text
from fastapi.testclient import TestClient
from migrated import migrated_sqlite
from two_hosts import two_hosts
from waiting import until

from service.routes.accelerators import EXAMPLE
from service.schemas.state_bodies import AcceleratorBody, AcceleratorsAnswer, AliasAnswer

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 65_536}
OURS = "Ours-32GB"
PLACE = f"/v1/accelerators/{OURS}"


@pytest.fixture
def hosts(migrated_url: str, tmp_path: Path) -> Iterator[list[TestClient]]:
    with two_hosts(migrated_url, tmp_path) as clients:
        yield clients


@pytest.fixture
def client(shared: TestClient) -> Iterator[TestClient]:
    """A service without devices of an operator, before and after."""
    yield shared
    shared.delete(PLACE)


def _times(client: TestClient, accelerator: str) -> list[float | None]:
    """Return the step time of one job by every route that tells one; None where it is unknown."""
    predict = client.post("/v1/predict", json={"job": JOB, "placement": accelerator}).json()
    matrix = client.post("/v1/matrix", json={"jobs": [JOB], "placements": [accelerator]}).json()
    curve = client.post("/v1/curve", json={"job": JOB, "accelerator": accelerator, "counts": [1]})
    rank = client.post("/v1/rank", json={"job": JOB, "placements": [accelerator]}).json()
    best = (rank.get("best") or [{"estimate": {}}])[0]["estimate"]
    return [
        predict.get("step_time_s"),
        matrix["step_time_s"][0][0],
        curve.json().get("step_time_s", [None])[0],
        best.get("step_time_s"),
    ]


def _until(client: TestClient, accelerator: str, wanted: list[float | None]) -> None:
    """Wait until a service tells the wanted times."""
    until(lambda: _times(client, accelerator) == pytest.approx(wanted, nan_ok=True))


def test_what_is_added_changed_and_removed_counts_everywhere(hosts: list[TestClient]) -> None:
    here, there = hosts

    assert _times(here, OURS) == [None] * 4
    added = here.put(PLACE, json=EXAMPLE)
    assert added.status_code == 201, added.text
    AcceleratorBody.model_validate_json(added.content, strict=True)
    first = _times(here, OURS)
    assert None not in first and max(first) == pytest.approx(min(first))  # type: ignore[type-var]
    _until(there, OURS, first)
    # A thousandth of every rate: 19 MB take 16 ms, beside which no launch counts.
    slower = {
        **EXAMPLE,
        "bandwidth_bytes_per_s": 1.2e9,
        "peak_flops": {"fp32": 2e10, "bf16": 1.6e11},
    }
    assert there.put(PLACE, json=slower).status_code == 200
    second = _times(there, OURS)
    assert all(new > 20 * old for new, old in zip(second, first, strict=True))  # type: ignore[operator]
    _until(here, OURS, second)
    assert here.delete(PLACE).status_code == 204
    assert _times(here, OURS) == [None] * 4
    _until(there, OURS, [None] * 4)
    assert there.delete(PLACE).status_code == 404


def test_aliases_count_everywhere(hosts: list[TestClient]) -> None:
    here, there = hosts

    here.put(PLACE, json=EXAMPLE)
    for name, alias in ((OURS, "gpu:ours"), ("gpu:t4", "old one")):
        made = here.put(f"/v1/accelerators/{name}/aliases/{alias}")
        assert made.status_code == 201, made.text
        AliasAnswer.model_validate_json(made.content, strict=True)
        assert here.put(f"/v1/accelerators/{name}/aliases/{alias}").status_code == 200
        _until(there, alias, _times(here, name))
    # It may come to mean another device, and go with its device.
    assert here.put(f"/v1/accelerators/{OURS}/aliases/old one").status_code == 200
    _until(there, "old one", _times(here, OURS))
    price = here.put("/v1/prices/old one", json={"per_hour": 2.0}).json()
    assert price["accelerator"] == OURS
    assert here.get("/v1/accelerators/old one").json()["aliases"] == ["gpu:ours", "old one"]
    assert here.delete(f"/v1/accelerators/{OURS}/aliases/gpu:ours").status_code == 204
    assert here.delete(f"/v1/accelerators/{OURS}/aliases/gpu:ours").status_code == 404
    assert here.delete(PLACE).status_code == 204
    assert here.get("/v1/prices").json()["prices"] == []
    assert here.get("/v1/accelerators/old one").status_code == 404


def test_what_one_added_may_be_named_to_the_other_at_once(hosts: list[TestClient]) -> None:
    # As `curl` after `curl` to a service of two workers: the second answers before it has looked.
    here, there = hosts
    assert here.put(PLACE, json=EXAMPLE).status_code == 201
    assert there.put(f"{PLACE}/aliases/ours").status_code == 201
    assert here.put("/v1/prices/ours", json={"per_hour": 2.0}).json()["accelerator"] == OURS
    assert there.delete(f"/v1/prices/{OURS}").status_code == 204


def test_the_list_has_a_tag_that_changes_with_it(client: TestClient) -> None:
    first = client.get("/v1/accelerators")
    AcceleratorsAnswer.model_validate_json(first.content, strict=True)
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/v1/accelerators", headers=tag).status_code == 304
    client.put(PLACE, json=EXAMPLE)
    second = client.get("/v1/accelerators", headers=tag)
    assert second.status_code == 200
    own = [one for one in second.json()["accelerators"] if one["custom"]]
    assert [(one["name"], one["peak_flops"]) for one in own] == [(OURS, EXAMPLE["peak_flops"])]
    assert own[0]["sources"] == {"*": "operator"}


def test_what_is_no_accelerator_is_pointed_at(client: TestClient) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (OURS, {"memory_bytes": 0}, "/memory_bytes"),
        (OURS, {"memory_bytes": "32 GiB"}, "/memory_bytes"),
        # In other units.
        (OURS, {"memory_bytes": 32}, "/memory_bytes"),
        (OURS, {"bandwidth_bytes_per_s": 900}, "/bandwidth_bytes_per_s"),
        (OURS, {"peak_flops": {"fp32": 19.5}}, "/peak_flops/fp32"),
        (OURS, {"clock_hz": 1.4}, "/clock_hz"),
        (OURS, {"peak_flops": {"fp32": 1e308}}, "/peak_flops/fp32"),
        (OURS, {"peak_flops": {}}, "/peak_flops"),
        (OURS, {"peak_flops": {"fp12": 1e12}}, "/peak_flops/fp12"),
        (OURS, {"kind": "quantum"}, "/kind"),
        (OURS, {"link": "string-and-cans"}, "/link"),
        (OURS, {"colour": "red"}, "/colour"),
        (OURS, {"vendor": None}, "/vendor"),
        (OURS, {"name": "Theirs"}, "/name"),
        ("A100-MIG-1g.10gb", {}, ""),
        ("x" * 101, {}, ""),
        ("nul\x00", {}, ""),
    ]
    for name, change, pointer in wrong:
        answer = client.put(f"/v1/accelerators/{quote(name)}", json={**EXAMPLE, **change})
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer
    listed = client.get("/v1/accelerators").json()["accelerators"]
    assert not [one for one in listed if one["custom"]]


def test_the_shipped_catalogue_stays_as_it_is(client: TestClient) -> None:
    client.put(PLACE, json=EXAMPLE)
    for name in ("T4", "tesla t4", "gpu:h100", "cpu", "NVIDIA-A10"):
        path = f"/v1/accelerators/{name}"
        conflicts = [
            client.put(path, json=EXAMPLE),
            client.delete(path),
            client.put(f"{PLACE}/aliases/{name}"),
            client.delete(f"{PLACE}/aliases/{name}"),
        ]
        for answer in conflicts:
            assert answer.status_code == 409, answer.text
            assert answer.json()["type"] == "urn:perfmodel:problem:taken-name"
        assert client.put(f"/v1/accelerators/nothing/aliases/{name}").status_code == 422
    assert client.put("/v1/accelerators/local/aliases/mine").status_code == 422


def test_a_name_of_another_own_device_is_taken(client: TestClient) -> None:
    client.put(PLACE, json=EXAMPLE)
    assert client.put("/v1/accelerators/ours 32gb", json=EXAMPLE).status_code == 422
    assert client.put(f"/v1/accelerators/T4/aliases/{OURS}").status_code == 422


def test_observations_of_a_device_that_is_gone_count_no_longer(
    fresh: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    job_type = {"job_type": "click-rates", "mode": "training", "batch_size": 512}
    fresh.put(PLACE, json=EXAMPLE)
    step_s = 2 * _times(fresh, OURS)[0]  # type: ignore[operator]

    def observe(job: dict[str, Any], placement: str, key: str) -> None:
        sent = {"job": job, "placement": placement, "step_time_s": step_s, "key": key}
        assert fresh.post("/v1/observations", json=[sent]).json()["accepted"] == 1

    # A step on a device that stays says what that one is like, to other jobs too.
    observe(job_type, "T4", "2")
    before = _times(fresh, "T4")
    observe(JOB, OURS, "1")
    observe(job_type, OURS, "1")
    assert f'accelerator="{OURS}"' in fresh.get("/metrics").text
    calibrated = _times(fresh, "T4")
    # The step on another device says little of this one, but it says something.
    assert all(now > 1.001 * old for now, old in zip(calibrated, before, strict=True))  # type: ignore[operator]
    # A device with a thousandth of the rates could not have been as fast as was observed.
    fresh.put(PLACE, json={**EXAMPLE, "peak_flops": {"fp32": 2e8}})
    assert _times(fresh, "T4") == pytest.approx(before)
    caplog.clear()
    fresh.delete(PLACE)
    assert _times(fresh, "T4") == pytest.approx(before)
    # Another batch is weighed anew, and is no news.
    fresh.post("/v1/predict", json={"job": {**JOB, "batch_size": 1024}, "placement": "T4"})
    told = [one.getMessage() for one in caplog.records if "count no longer" in one.getMessage()]
    assert len(told) == 1 and f"Unknown accelerator '{OURS}'" in told[0]
    answer = fresh.post("/v1/predict", json={"job": job_type, "placement": "T4"})
    assert answer.status_code == 200, answer.text


def test_nodes_of_a_cluster_follow(tmp_path: Path) -> None:
    with two_hosts(migrated_sqlite(tmp_path), tmp_path) as hosts:
        _check_that_nodes_follow(hosts)


def _check_that_nodes_follow(hosts: list[TestClient]) -> None:
    here, there = hosts
    body = {
        "Pod": {
            "metadata": {"annotations": {"perfmodel/job": job_text("timm/resnet18", batch_size=5)}},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        },
        "Nodes": {
            "items": [
                {"metadata": {"name": name, "labels": {"perfmodel/accelerator": device}}}
                for name, device in (("a", "T4"), ("b", "our label"))
            ]
        },
    }

    def scores(client: TestClient) -> dict[str, int]:
        answer = client.post("/kubernetes/scheduler/prioritize", json=body)
        return {one["Host"]: one["Score"] for one in answer.json()}

    before = [scores(host) for host in hosts]
    assert before[0]["a"] == 10  # the other node is not known

    here.put(PLACE, json=EXAMPLE)
    here.put(f"{PLACE}/aliases/our label")
    until(lambda: scores(there)["b"] == 10)
    until(lambda: scores(here) == scores(there))
    assert scores(here) != before[0]
    here.delete(PLACE)
    until(lambda: [scores(host) for host in hosts] == before)
