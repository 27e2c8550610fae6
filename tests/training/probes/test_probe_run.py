"""From planned workloads to a service that answers for a card it did not know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from guarded_service import make_app
from made_measurements import Measure, when_asked
from running import running

from perfmodel.client import Client, NotFoundError
from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.cpu_bench import Rates
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.drivers.identity import describe
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.described import DescribedDevice, save_entry
from perfmodel.profilers.measure import measure_job
from perfmodel.profilers.profiling import ProfileEvent
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.runtime import MemoryPeak, StepTime
from perfmodel.profilers.runtime.replay import Recording, ReplayRuntime
from perfmodel.profilers.timing import TimingPolicy
from perfmodel.profilers.wire import workload_key
from perfmodel.profilers.worker import Failure, Success
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.probes.probe_candidates import Probe
from perfmodel.training.probes.probe_run import measure_probes, planned_steps, tell_service
from perfmodel.types import Mode

FACTS = DeviceFacts(
    name="NVIDIA X900", backend="cuda", memory_bytes=48 * 2**30, architecture="sm_120",
    found_by=("nvml",),
)  # fmt: skip
CARD = DescribedDevice(
    accelerator=describe(
        FACTS,
        Rates(
            gemm_flops_per_s={"fp32": 5e13, "bf16": 2e14},
            bandwidth_bytes_per_s=1e12,
            engine="recorded",
        ),
    ),
    in_catalog=False,
)
JOBS = [
    Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=8),
    Job(model="zoo/mlp", batch_size=4),
]
PROBES = [Probe(job=job, expected_error=0.1, measuring_s=20.0) for job in JOBS]
SETTINGS = MeasureSettings(
    threads=1, policy=TimingPolicy(known_samples=5, max_samples=5, attempts=1), profiled_steps=1
)
STEP_S = 1e-4


def replayed(job: Job, device: AcceleratorSpec, settings: MeasureSettings) -> Success | Failure:
    """Measure a step whose times were recorded on the card."""
    recording = Recording(
        facts=FACTS,
        steps=[StepTime(wall_s=STEP_S, device_s=8e-5)],
        memory=[MemoryPeak(allocated_bytes=1e9, reserved_bytes=2e9, method="allocator")],
    )
    runtime = ReplayRuntime(recording)
    measurement, _ = measure_job(job, device, settings, runtime=runtime)
    return Success(measurement=measurement, graph_json="{}")


def test_probes_are_measured_until_the_time_is_spent(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    now_s = iter([0.0, 0.0, 45.0, 60.0])
    probed = measure_probes(
        PROBES, store=store, device=CARD, settings=SETTINGS, budget_s=60.0,
        begin=when_asked(replayed), clock_s=lambda: next(now_s),
    )  # fmt: skip
    # The second would begin at 45 s of 60, and takes longer than is left.
    assert (probed.finished, probed.left_over, probed.elapsed_s) == (1, 1, 60.0)
    key = workload_key(stated_fields(JOBS[0]), accelerator="X900", threads=1)
    assert store.finished_keys("X900") == {key}


def test_what_failed_before_is_said_and_measured_again_where_asked(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    events: list[ProfileEvent] = []

    def probed(measure: Measure, *, retry_failed: bool = False) -> tuple[int, int, int]:
        found = measure_probes(
            PROBES[:1], store=store, device=CARD, settings=SETTINGS, budget_s=60.0,
            begin=when_asked(measure), on_event=events.append, retry_failed=retry_failed,
        )  # fmt: skip
        return found.finished, found.skipped, found.failed

    def broken(job: Job, device: AcceleratorSpec, settings: MeasureSettings) -> Failure:
        return Failure(kind="crash", reason="no compiler")

    assert probed(broken) == (0, 0, 1)
    assert probed(replayed) == (0, 1, 0)
    assert events[-1].failed_before == "no compiler"
    assert probed(replayed, retry_failed=True) == (1, 0, 0)
    assert probed(broken, retry_failed=True) == (0, 1, 0)


def test_a_service_answers_for_a_card_that_it_did_not_know(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    measure_probes(
        PROBES,
        store=store,
        device=CARD,
        settings=SETTINGS,
        budget_s=600.0,
        begin=when_asked(replayed),
    )
    steps = planned_steps(store.steps("X900"), JOBS)
    assert planned_steps(steps, [replace(JOBS[0], batch_size=99)]) == []
    assert len(steps) == 2
    with running(make_app(tmp_path)) as url, Client(url, timeout_s=60.0) as client:
        with pytest.raises(NotFoundError):
            client.accelerator("X900")
        assert tell_service(client, CARD, steps).accepted == 2
        assert client.accelerator("NVIDIA X900").memory_bytes == 48 * 2**30
        # Told again, nothing counts twice.
        assert tell_service(client, CARD, steps).known == 2
        job = {"model": "zoo/mlp", "mode": "training", "batch_size": 8}
        answer = client.predict(job, "1xX900")
        assert answer.basis == "measured"
        assert answer.step_time_s == pytest.approx(STEP_S, rel=0.05)


def test_an_unknown_card_leaves_its_entry_beside_its_records(tmp_path: Path) -> None:
    path = save_entry(tmp_path, CARD)
    assert path == tmp_path / "X900" / "accelerator.json"
    entry = {"name": "X900", **orjson.loads(path.read_bytes())}
    assert spec_from_dict(entry) == CARD.accelerator
    assert save_entry(tmp_path, replace(CARD, in_catalog=True)) is None
