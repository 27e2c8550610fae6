"""An estimator for another catalogue: nothing is answered from what was known of the old one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict
from perfmodel.errors import InvalidInputError, UnknownAcceleratorError
from perfmodel.estimator import Estimator
from perfmodel.estimator.core.resolved_placement import resolve_placement
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import RAN_OUT_S, Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode

OURS = spec_from_dict(
    {
        "name": "Ours-64GB", "kind": "gpu", "vendor": "us", "architecture": "v1",
        "form_factor": "PCIe", "peak_flops": {"fp32": 1e13}, "memory_bytes": 64 * 2**30,
        "bandwidth_bytes_per_s": 1e12, "core_count": 64, "clock_hz": 1.5e9,
    }
)  # fmt: skip
JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64)
PLACEMENTS = (
    "Ours-64GB",
    {"nodes": [{"accelerator": "Ours-64GB"}], "fraction": 0.5},
    {"nodes": [{"accelerator": "Ours-64GB"}], "shared_with": ["ResNet-18 (batch size 64)"]},
)


@pytest.fixture
def analytical(graphs: Any) -> Estimator:
    catalog = Catalog.default().with_own([OURS], {})
    return Estimator(accelerators=catalog, model=AnalyticalModel(), graphs=graphs)


def _answers(estimator: Estimator) -> list[Any]:
    return [estimator.estimate(JOB, parse_placement(placement)) for placement in PLACEMENTS]


@pytest.mark.parametrize(
    "changed", [{"peak_flops": {"fp32": 2e13}}, {"memory_bytes": 2.0**28}], ids=["peak", "memory"]
)
def test_an_edited_device_is_answered_as_if_it_had_never_been_another(
    analytical: Estimator, graphs: Any, changed: dict[str, Any]
) -> None:
    before = _answers(analytical)
    catalog = analytical.accelerators.with_own([replace(OURS, **changed)], {})
    edited = _answers(analytical.with_accelerators(catalog))
    fresh = Estimator(accelerators=catalog, model=AnalyticalModel(), graphs=graphs)
    assert edited == _answers(fresh)
    assert all(new != old for new, old in zip(edited, before, strict=True))
    # Who holds the old one is answered as before.
    assert _answers(analytical) == before


def test_a_device_that_is_gone_is_unknown(analytical: Estimator) -> None:
    _answers(analytical)
    without = analytical.with_accelerators(analytical.accelerators.shipped)
    with pytest.raises(UnknownAcceleratorError):
        without.estimate(JOB, parse_placement("Ours-64GB"))


def test_what_was_predicted_for_other_devices_is_still_known(
    estimator: Estimator, model: Any
) -> None:
    asked = [parse_placement(name) for name in ("T4", "A10")]
    before = [estimator.estimate(JOB, placement) for placement in asked]
    calls = len(model.calls)
    other = estimator.with_accelerators(estimator.accelerators.with_own([OURS], {"old": "T4"}))
    assert [other.estimate(JOB, placement) for placement in asked] == before
    assert other.estimate(JOB, parse_placement("old")).throughput == before[0].throughput
    assert len(model.calls) == calls
    other.estimate(JOB, parse_placement("Ours-64GB"))
    assert len(model.calls) == calls + 1


def test_a_power_limit_that_limits_nothing_is_said() -> None:
    for limit, said in (("", 0), (" power=250", 0), (" power=400", 0), (" power=25000", 1)):
        placement = parse_placement(f"A100-SXM4-40GB{limit}")
        warnings = resolve_placement(placement, Catalog.default()).warnings
        assert sum("limits nothing" in text for text in warnings) == said


def test_a_limit_that_limits_nothing_is_as_if_it_were_not_stated() -> None:
    catalog = Catalog.default()
    for text, plain in (
        ("4xT4 power=70", "4xT4"), ("4xT4 power=300", "4xT4"), ("T4 fraction=1", "T4"),
        ("T4+A100-SXM4-40GB power=400", "T4+A100-SXM4-40GB"),
    ):  # fmt: skip
        found, expected = (resolve_placement(parse_placement(p), catalog) for p in (text, plain))
        assert (found.named, found.is_slowed) == (expected.named, expected.is_slowed)
    for text in ("4xT4 power=69", "T4+A100-SXM4-40GB power=100"):
        found = resolve_placement(parse_placement(text), catalog)
        assert found.is_slowed and found.named.power_limit_w


def test_a_step_under_a_limit_that_limits_nothing_is_one_of_the_same_cell(
    estimator: Estimator,
) -> None:
    for job in (JOB, Job(job_type="ours", mode=Mode.TRAINING, batch_size=64)):
        for text in ("T4 power=70", "T4 fraction=1"):
            seen = Observation(
                placement=parse_placement(text), batch_size=job.batch_size, step_time_s=0.01
            )
            found = estimator.estimate(job, parse_placement("T4"), [seen])
            assert found.basis is Basis.MEASURED
            assert found.step_time_s == pytest.approx(0.01, rel=0.05)


def test_errors_point_where_a_placement_stands_now_whoever_asked_before(
    estimator: Estimator,
) -> None:
    split = parse_placement("2xA10 tp=2")
    seen = Observation(placement=split, batch_size=8, step_time_s=0.1)
    job, one = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=8), parse_placement("A10")
    for before in ((), (replace(seen, placement=one, step_time_s=RAN_OUT_S),)):
        with pytest.raises(InvalidInputError) as told:
            estimator.estimate(job, one, (*before, seen))
        assert told.value.pointer == f"/observations/{len(before)}/placement/plan/tensor"
        with pytest.raises(InvalidInputError) as asked:
            estimator.estimate(job, split)
        assert asked.value.pointer == "/placement/plan/tensor"


def test_micro_batches_of_a_size_share_their_graph(graphs: Any) -> None:
    asked: list[Job] = []

    class Source:
        def step(self, job: Job) -> Any:
            asked.append(job)
            return graphs.step(job)

    core = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=Source()).core
    steps = [core.prepare(JOB.at_batch(64, count)).step for count in (3, 1, 1000)]
    assert [job.accumulation_steps for job in asked] == [1]
    assert len({id(step.graph) for step in steps}) == 1
    assert [step.micro_batches for step in steps] == [3, 1, 1000]
    # They take the room of that graph, not of as many graphs.
    assert len({step.captured_operators for step in steps}) == 1
