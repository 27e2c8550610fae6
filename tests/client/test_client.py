"""Every method against the real service."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from perfmodel.client import Client, NotFoundError, RefusedError, questions
from perfmodel.client.forms import Job, Observation, Seen, SeenInMatrix
from perfmodel.errors import InvalidInputError

JOB: Job = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
PLACE = "8xA100-SXM4-80GB"


def test_a_prediction_is_typed(service: Client) -> None:
    found = service.predict(JOB, PLACE)
    # 8 replicas of 64 samples a step.
    assert found.throughput.samples_per_second == pytest.approx(8 * 64 / found.step_time_s)
    assert found.throughput.low <= found.throughput.samples_per_second <= found.throughput.high
    assert found.memory.fits is True
    assert found.basis == "analytical"


def test_an_observation_counts_for_its_question(service: Client) -> None:
    before = service.predict(JOB, PLACE)
    seen: Seen = {
        "placement": PLACE,
        "batch_size": 64,
        "step_time_s": 1.5 * before.step_time_s,
    }
    after = service.predict(JOB, PLACE, observations=[seen])
    assert before.step_time_s < after.step_time_s
    assert (before.basis, after.basis) == ("analytical", "measured")


def test_a_matrix_has_cells_and_problems(service: Client) -> None:
    found = service.matrix([JOB, {**JOB, "batch_size": 0}], ["T4", PLACE, "nonsense"])
    assert (found.jobs, found.placements) == (2, 3)
    cell = found.cell(0, 1)
    assert cell is not None
    alone = service.predict(JOB, PLACE)
    assert cell.samples_per_second == pytest.approx(alone.throughput.samples_per_second)
    for name in ("step_time_s", "compute_time_s", "sync_time_s"):
        assert getattr(cell, name) == pytest.approx(getattr(alone, name))
    assert found.problem(0, 1) is None
    for at, pointer in (((1, 0), "/jobs/1/batch_size"), ((0, 2), "/placements/2")):
        problem = found.problem(*at)
        assert found.cell(*at) is None
        assert problem is not None
        assert problem.errors[0].pointer == pointer


def test_a_curve_a_ranking_and_plans(service: Client) -> None:
    curve = service.curve(JOB, "T4", counts=[1, 2, 4], network="eth-25g")
    assert curve.counts == (1, 2, 4)
    assert curve.efficiency[0] == pytest.approx(1.0)
    alone = service.predict(JOB, "4xT4")
    assert curve.compute_time_s[2] == pytest.approx(alone.compute_time_s)
    assert curve.sync_time_s[2] == pytest.approx(alone.sync_time_s)
    ranking = service.rank(
        JOB, ["T4", "A100-SXM4-80GB"], by="cost", prices={"T4": 0.1, "A100-SXM4-80GB": 9.0}
    )
    assert {one.placement for one in ranking.best} == {0, 1}
    assert ranking.best[0].samples_per_money is not None
    # One product is no transformer: there are no plans of it, and the service says so.
    with pytest.raises(RefusedError, match="."):
        service.rank_plans(JOB, PLACE, global_batch_size=512)


def test_a_memory_that_is_not_known_is_none(service: Client) -> None:
    named: Job = {"job_type": "mystery", "mode": "training", "batch_size": 32}
    seen: Seen = {"placement": "T4", "batch_size": 32, "step_time_s": 0.5}
    in_matrix: SeenInMatrix = {"job": 0, "placement": "T4", "batch_size": 32, "step_time_s": 0.5}
    found = service.matrix([named], ["T4"], observations=[in_matrix])
    cell = found.cell(0, 0)
    assert cell is not None
    assert cell.fits is cell.peak_bytes is None
    curve = service.curve(named, "T4", counts=[1, 2], observations=[seen])
    assert curve.fits == curve.peak_bytes == (None, None)
    assert service.predict(named, "T4", observations=[seen]).memory.fits is None


def test_a_registered_job_stands_for_itself(service: Client) -> None:
    job: Job = {**JOB, "batch_size": 48}
    first, again = service.register_job(job), service.register_job(job)
    assert (first.created, again.created) == (True, False)
    assert first.ref == again.ref
    assert service.job(first.ref).job["model"] == "timm/resnet50"
    assert service.predict(first.ref, "T4") == service.predict(job, "T4")
    with pytest.raises(NotFoundError):
        service.job("0" * 32)


def test_lists_are_fetched_page_by_page(service: Client) -> None:
    refs = {service.register_job({**JOB, "batch_size": 100 + n}).ref for n in range(5)}
    listed = [one.ref for one in service.jobs(limit=2)]
    assert refs <= set(listed)
    assert len(listed) == len(set(listed))
    page = service.jobs_page(limit=2)
    assert [one.ref for one in page.items] == listed[:2]
    assert service.jobs_page(limit=2, cursor=page.next_cursor).items[0].ref == listed[2]


def test_observations_go_out_in_batches_and_count_once(service: Client) -> None:
    job: Job = {**JOB, "batch_size": 56}
    predicted_s = service.predict(job, "T4").step_time_s
    sent: list[Observation] = [
        {"job": job, "placement": "T4", "step_time_s": (1 + n) * predicted_s, "key": f"step-{n}"}
        for n in range(7)
    ]
    taken = service.observe(iter(sent), batch=3)
    assert [one.reason for one in taken.observations] == [None] * 7
    assert [one.key for one in taken.observations] == [f"step-{n}" for n in range(7)]
    assert service.observe(sent, batch=3).known == 7
    ref = service.register_job(job).ref
    stored = list(service.observations(job=ref, limit=3))
    assert {one.key for one in stored} == {f"step-{n}" for n in range(7)}
    assert service.observe([]).observations == ()
    bad: Observation = {**sent[0], "placement": "8xnothing"}
    mixed = service.observe([bad, sent[0]])
    assert [one.status for one in mixed.observations] == ["refused", "known"]
    assert mixed.observations[0].problem is not None
    with pytest.raises(RefusedError, match="nothing"):
        service.observe([bad])
    with pytest.raises(InvalidInputError, match="batch"):
        service.observe(sent, batch=0)


def test_observations_are_taken_back(service: Client) -> None:
    job: Job = {**JOB, "mode": "inference", "batch_size": 57}
    before = service.predict(job, "T4")
    sent: list[Observation] = [
        {"job": job, "placement": "T4", "step_time_s": 2 * before.step_time_s, "key": f"back-{n}"}
        for n in range(3)
    ]
    assert service.observe(sent).accepted == 3
    observed = service.predict(job, "T4")
    assert observed != before
    ref = service.register_job(job).ref
    assert service.exclude_observations(job=ref, after="2020-01-01T00:00:00Z").changed == 3
    assert service.predict(job, "T4") == before
    left_out = list(service.observations(state="excluded", reporter="guest"))
    assert {one.key for one in left_out} == {"back-0", "back-1", "back-2"}
    assert service.accept_observations(state="excluded").changed == 3
    assert service.predict(job, "T4") == observed
    assert service.remove_observations(key="back-1").removed == 1
    assert service.remove_observations(job=ref, before="2999-01-01T00:00:00+00:00").removed == 2
    assert service.predict(job, "T4") == before
    # What is None is not said, and nothing said would mean everything.
    with pytest.raises(RefusedError, match="at least one"):
        service.remove_observations(key=None)


def test_the_catalogue_and_prices(service: Client) -> None:
    listed = service.accelerators()
    found = listed.named("t4")
    assert found is not None
    assert found.memory_bytes == pytest.approx(16e9, rel=0.1)
    assert listed.named("no such thing") is None
    assert service.set_price("T4", 0.35, currency="EUR").currency == "EUR"
    assert ("T4", 0.35) in [(one.accelerator, one.per_hour) for one in service.prices().prices]
    assert service.remove_price("T4") is True
    assert service.remove_price("T4") is False
    assert service.models().serving
    assert service.health().status == "ready"


def test_a_graph_is_registered(service: Client) -> None:
    graph = {
        "format": 1,
        "nodes": [["mm", "forward", [0, 1], [2], {}, "head"]],
        "source": {"model": "one product"},
        "tensors": [
            [[8, 512], "float32", "input", 0],
            [[512, 1000], "float32", "parameter", 1],
            [[8, 1000], "float32", "activation", 2],
        ],
    }
    found = service.upload_graph(graph, batch_size=8)
    # One product: 2 x 8 x 512 x 1000 = 8.192 MFLOP, and 512,000 parameters.
    assert (found.flops, found.parameter_count) == (8_192_000.0, 512_000)
    assert found.graph in {one.graph for one in service.graphs(limit=1)}
    assert service.graph(found.graph).flops == found.flops
    assert service.graph_json(found.graph)["nodes"] == graph["nodes"]
    job: Job = {"graph": found.graph, "mode": "inference", "batch_size": 8}
    assert service.predict(job, "T4").step_time_s > 0


def test_an_explanation_adds_up(service: Client) -> None:
    found = service.explain(JOB, "A100-SXM4-80GB", most=5)
    assert sum(one.time_s for one in found.operator_classes) == pytest.approx(found.compute_time_s)
    assert found.contributions[-1].step_time_s == pytest.approx(found.estimate.step_time_s)
    assert found.roofline.accelerator == "A100-SXM4-80GB"


def test_accuracy_is_what_was_predicted_of_what_was_observed(service: Client) -> None:
    job: Job = {"model": "timm/accuracy", "mode": "training", "batch_size": 8}
    predicted_s = service.predict(job, "A2").step_time_s
    service.observe(
        {"job": job, "placement": "A2", "step_time_s": 2 * predicted_s, "key": f"{n}"}
        for n in range(3)
    )
    found = service.accuracy(accelerator="A2", limit=2)
    assert found.by_accelerator[0].accelerator == "A2"
    # Half of what was measured: |1/2 - 1| = 0.5.
    assert found.by_accelerator[0].mape == pytest.approx(0.5)
    assert len(list(service.accuracy_points(accelerator="A2", limit=2))) == 3


def test_terms_of_an_answer(service: Client) -> None:
    found = service.predict(JOB, PLACE, pin_model="analytical", deadline_ms=60_000)
    assert found.model_version == service.predict(JOB, PLACE).model_version
    with pytest.raises(RefusedError):
        service.curve(JOB, "T4", pin_model="no such version")


def test_what_takes_long_is_begun_and_waited_for(service: Client) -> None:
    begun = service.begin(questions.matrix([JOB], ["T4", PLACE]))
    assert service.wait(begun, timeout_s=60.0) == service.matrix([JOB], ["T4", PLACE])
    assert service.operation(begun.operation.id).has_ended
    assert begun.operation.id in {one.id for one in service.operations(limit=1)}
    assert service.remove_operation(begun.operation.id) is True
    assert service.remove_operation(begun.operation.id) is False
    failed = service.begin(questions.matrix([], ["T4"]))
    with pytest.raises(RefusedError, match="jobs"):
        service.wait(failed, timeout_s=60.0)


def test_an_accelerator_of_ones_own(service: Client) -> None:
    facts = {
        "kind": "npu",
        "vendor": "Example",
        "architecture": "First",
        "form_factor": "PCIe",
        "peak_flops": {"fp32": 2e13},
        "memory_bytes": 3.2e10,
        "bandwidth_bytes_per_s": 1.2e12,
    }
    added = service.put_accelerator("Example-1", facts)
    assert (added.name, added.custom) == ("Example-1", True)
    assert service.put_alias("Example-1", "ex-1").alias == "ex-1"
    assert service.accelerator("ex-1").name == "Example-1"
    assert service.predict(JOB, "Example-1").step_time_s > 0
    assert service.remove_alias("Example-1", "ex-1") is True
    assert service.remove_accelerator("Example-1") is True
    assert service.remove_accelerator("Example-1") is False


def test_a_refusal_says_what_to_do(service: Client) -> None:
    with pytest.raises(RefusedError) as refusal:
        service.predict({**JOB, "precision": "fp12"}, PLACE)  # type: ignore[arg-type]
    error = refusal.value
    assert (error.status, error.pointer) == (422, "/job/precision")
    assert "fp32" in error.allowed
    assert {"fp32", "fp16"} <= set(error.did_you_mean)
    assert error.problem.type.startswith("urn:perfmodel:problem:")
    assert len(error.request_id) == 32
    assert "fp12" in str(error)


def test_what_cannot_be_sent_is_said_before() -> None:
    with pytest.raises(InvalidInputError, match="http://"):
        Client("localhost:8000")
    with pytest.raises(InvalidInputError, match="api_key"):
        Client("http://pmk_key@localhost:8000")
    with pytest.raises(InvalidInputError, match="line end"):
        Client("http://localhost:8000", api_key="pmk_1\n")
    with (
        Client("http://localhost:1") as client,
        pytest.raises(InvalidInputError, match="JSON"),
    ):
        client.predict({**JOB, "batch_size": float("nan")}, PLACE)  # type: ignore[arg-type]


def test_methods_say_what_they_take() -> None:
    assert list(inspect.signature(Client("http://h").predict).parameters) == [
        "job",
        "placement",
        "observations",
        "pin_model",
        "deadline_ms",
        "allow_fallback",
    ]
    assert "throughput" in (Client.predict.__doc__ or "")


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pyarrow", "httpx", "asyncio", "orjson", "click", "pydantic")
    code = f"import sys, perfmodel.client; print([x for x in {heavy!r} if x in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
