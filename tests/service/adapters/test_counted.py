"""What schedulers are answered is counted by what it rests on, like everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_bodies import job_text
from held_service import HeldModel, HeldService, held_service

from perfmodel.estimator.single.loading import LoadedModel
from service.adapters import dstack, slurm
from service.adapters.kubernetes.extender import ARGS_EXAMPLE
from service.adapters.kubernetes.pods import JobName
from service.adapters.kubernetes.rates import Device, RateCache
from service.versions import loaded_versions

#: Route, the address of its example, and the cells that it answers.
COUNTED = [
    ("/v1/adapters/slurm", "/v1/adapters/slurm", 2),
    (
        "/v1/adapters/dstack/apply_policies/on_run_apply",
        "/v1/adapters/dstack/apply_policies/on_run_apply",
        2,
    ),
    ("/v2/models/{model}/infer", "/v2/models/perfmodel/infer", 1),
    ("/kubernetes/scheduler/prioritize", "/kubernetes/scheduler/prioritize", 2),
    ("/kubernetes/scheduler/filter", "/kubernetes/scheduler/filter", 2),
    ("/kubernetes/volcano/prioritize", "/kubernetes/volcano/prioritize", 2),
    ("/kubernetes/volcano/predicate", "/kubernetes/volcano/predicate", 1),
    # The nodes that the extender was told of.
    ("/kubernetes/admission/mutate", "/kubernetes/admission/mutate", 2),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldService]:
    folder = tmp_path_factory.mktemp("counted")
    with held_service(folder, models_poll_s=0, kubernetes_wait_s=60) as service:
        body = service.client.post("/kubernetes/scheduler/prioritize", json=ARGS_EXAMPLE)
        assert body.status_code == 200
        yield service


@pytest.mark.parametrize(("route", "address", "cells"), COUNTED)
def test_answers_to_schedulers_are_counted_by_basis(
    service: HeldService, route: str, address: str, cells: int
) -> None:
    content = service.client.get("/openapi.json").json()["paths"][route]["post"]["requestBody"]
    (example,) = content["content"]["application/json"]["examples"].values()
    name = f'perfmodel_answers_total{{basis="interpolated",route="{route}"}}'
    before = service.metrics().get(name, 0)
    assert service.client.post(address, json=example["value"]).status_code == 200
    assert service.metrics()[name] - before == cells


def test_the_examples_are_those_of_the_adapters() -> None:
    assert len(slurm.EXAMPLE["candidates"]) == 2
    assert len(dstack.EXAMPLE["spec"]["configuration"]["resources"]["gpu"]["name"]) == 2


def test_the_scores_of_a_job_are_of_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = JobName(text=job_text("timm/resnet18", batch_size=5))
    t4, h100 = Device(name="T4", count=1), Device(name="H100-SXM5-80GB", count=1)

    async def ask(service: HeldService) -> None:
        dispatcher = service.dispatcher
        book = RateCache(dispatcher)
        before = (await book.cells(name, [t4], wait_s=10))[t4]
        dispatcher.models.reload()
        assert dispatcher.estimator.model_version == "held/2"
        # What was known is repeated as it is until the new version has answered for all of it.
        assert await book.cells(name, [t4], wait_s=0) == {t4: before}
        both = await book.cells(name, [t4, h100], wait_s=10)
        after = both[t4]
        assert before is not None and after is not None and both[h100] is not None
        # Three times the analytical time in place of two.
        assert 3 * after.samples_per_second == pytest.approx(2 * before.samples_per_second)

    slower = HeldModel(version="held/2", times=3)
    facts = ({"model": "held/2", "serving": True},)
    loaded = LoadedModel(model=slower, models=facts)
    monkeypatch.setattr(loaded_versions, "load_model", lambda *_: loaded)
    with held_service(tmp_path, models_poll_s=0) as service:
        asyncio.run(ask(service))
