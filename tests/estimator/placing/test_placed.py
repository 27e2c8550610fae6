"""From the time of one accelerator to the step of a placement: laws that every answer keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError, InvalidPlacementError
from perfmodel.estimator import Estimator
from perfmodel.estimator.placing.cells import Cell
from perfmodel.estimator.placing.placed import captured_step, placed_step, predicted_cell
from perfmodel.estimator.placing.slowdowns import UNKNOWN_LOAD_WARNING
from perfmodel.estimator.placing.split_replica import SPLIT_BY_MEGATRON_WARNING
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.sharing.job_load import load_of
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Mode, Precision

#: 1 us a sample: 2,000 samples take 2 ms, and 67 MB of gradients several ms over PCIe.
JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)


def _on(estimator: Estimator, placement: Any, job: Job = JOB) -> Estimate:
    return estimator.estimate(job, parse_placement(placement))


def test_one_accelerator_is_the_prediction(estimator: Estimator) -> None:
    one = _on(estimator, "A10")
    assert one.step_time_s == pytest.approx(2e-3)
    assert one.breakdown.exposed_communication_s == one.breakdown.overhead_s == 0


def test_throughput_per_accelerator_never_rises_with_the_count(estimator: Estimator) -> None:
    counts = (1, 2, 4, 8)
    each = [_on(estimator, f"{n}xA10").throughput.samples_per_second / n for n in counts]
    assert each == sorted(each, reverse=True)
    assert each[-1] < each[0]


def test_more_bandwidth_never_hurts(estimator: Estimator) -> None:
    times = [
        _on(estimator, f"2x(8xA100-SXM4-80GB)@{network}").step_time_s
        for network in ("eth-10g", "eth-25g", "ib-100g", "ib-200g", "ib-400g")
    ]
    assert times == sorted(times, reverse=True)
    assert times[-1] < times[0]


def test_the_interval_of_several_is_wider_and_contains_the_answer(estimator: Estimator) -> None:
    one, eight = (_on(estimator, p).throughput for p in ("A10", "8xA10"))
    assert eight.low < eight.samples_per_second < eight.high
    assert eight.high / eight.low > one.high / one.low


@pytest.mark.parametrize("text", ["8xA10", "2x(8xA10)@eth-10g", "8xA10 zero=3", "4xA10+4xT4"])
def test_several_are_never_surer_than_one(estimator: Estimator, text: str) -> None:
    core = estimator.core
    prepared = core.prepare(JOB)
    cell = predicted_cell(core, prepared, core.resolve(parse_placement(text)))
    # Four times as long or a quarter of it: the links' share of a step is not as unsure.
    far = [replace(p, low_s=p.time_s / 4, high_s=p.time_s * 4) for p in cell.predictions]
    for found in (
        captured_step(cell._replace(predictions=far)),
        placed_step(prepared, cell.placement, far),
    ):
        assert found.parts.exposed_communication_s > 0.1 * found.step_time_s
        assert found.low <= found.samples_per_second / 4
        assert found.high >= found.samples_per_second * 4
        assert found.half_width >= np.log(4)


def test_splits_that_rest_on_one_accelerator_are_no_surer_than_it(estimator: Estimator) -> None:
    core = estimator.core
    job = Job(model="zoo/megatron-gpt", mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    cell = predicted_cell(
        core, core.prepare(job), core.resolve(parse_placement("8xA100-SXM4-80GB tp=2"))
    )
    far = [replace(p, low_s=p.time_s / 4, high_s=p.time_s * 4) for p in cell.predictions]
    found = captured_step(cell._replace(predictions=far))
    assert found.low <= found.samples_per_second / 4
    assert found.high >= found.samples_per_second * 4


def test_hosts_far_apart_are_extrapolated(estimator: Estimator) -> None:
    assert _on(estimator, "8xA10").basis is Basis.INTERPOLATED
    assert _on(estimator, "2x(4xA10)@ib-100g").basis is Basis.EXTRAPOLATED


def test_a_slice_is_slower_than_the_whole_and_holds_less(estimator: Estimator) -> None:
    whole, half, seventh = (
        _on(estimator, f"A100-SXM4-40GB{part}") for part in ("", "/3g.20gb", "/1g.5gb")
    )
    assert whole.step_time_s < half.step_time_s < seventh.step_time_s
    # 1g.5gb holds an eighth of 40 GB.
    assert seventh.memory.capacity_bytes == pytest.approx(whole.memory.capacity_bytes / 8)
    assert seventh.basis is Basis.ANALYTICAL


def test_a_card_and_a_slice_of_another_wait_for_the_slice(estimator: Estimator) -> None:
    names = ("A100-SXM4-40GB", "A100-SXM4-40GB/3g.20gb")
    _, part, both = (
        _on(estimator, {"nodes": [{"accelerator": name} for name in nodes], "network": "ib-400g"})
        for nodes in ((names[0],), (names[1],), names)
    )
    assert both.breakdown.compute_s == part.breakdown.compute_s


def test_a_share_of_a_slice_is_refused(estimator: Estimator) -> None:
    placement = {"nodes": [{"accelerator": "A100-SXM4-40GB/1g.5gb"}], "fraction": 0.5}
    with pytest.raises(InvalidPlacementError, match="already") as refused:
        _on(estimator, placement)
    assert refused.value.pointer == "/placement/fraction"


def test_slices_exchange_gradients_through_the_memory_of_the_host(estimator: Estimator) -> None:
    cards, slices, through_host = (
        _on(estimator, f"2xA100-SXM4-40GB{written}").sync_time_s
        for written in ("", "/3g.20gb", "[none]")
    )
    assert cards < slices
    assert slices == pytest.approx(through_host, rel=0.2)
    with pytest.raises(InvalidPlacementError, match="memory of the host") as refused:
        _on(estimator, "2xA100-SXM4-40GB/3g.20gb[nvlink3]")
    assert refused.value.pointer == "/placement/nodes/0/link"


def test_a_pipeline_has_no_more_stages_than_layers(estimator: Estimator) -> None:
    job = Job(
        model="zoo/megatron-gpt", model_kwargs={"num_layers": 4}, mode=Mode.TRAINING,
        precision=Precision.FP16,
    )  # fmt: skip
    assert _on(estimator, "4xA10 pp=4", job).step_time_s > 0
    for written in ("8xA10 pp=8", "4xA10 pp=4 schedule=interleaved vp=2"):
        with pytest.raises(InvalidPlacementError, match="needs 8 layers at least") as refused:
            _on(estimator, written, job)
        assert refused.value.pointer == "/placement/plan/pipeline"


def test_the_ends_of_a_model_may_be_chunks_of_their_own(estimator: Estimator) -> None:
    job = Job(
        model="zoo/megatron-gpt", model_kwargs={"num_layers": 4}, mode=Mode.TRAINING,
        precision=Precision.FP16, accumulation_steps=6,
    )  # fmt: skip
    assert _on(estimator, "3xA10 pp=3 schedule=interleaved vp=2", job).step_time_s > 0


def test_what_libraries_would_refuse_is_said(estimator: Estimator) -> None:
    job = Job(
        model="zoo/megatron-gpt", model_kwargs={"num_heads": 16}, mode=Mode.TRAINING,
        precision=Precision.FP16,
    )  # fmt: skip

    def said(placement: Any) -> str:
        return " ".join(_on(estimator, placement, job).warnings)

    assert "16 heads" in said("3xA10 tp=3") and "heads" not in said("4xA10 tp=4")
    assert "AMD" in said("A10+MI100@ib-100g") and "makers" not in said("A10+T4@ib-100g")
    nodes = [{"accelerator": "A10", "count": 2}, {"accelerator": "T4", "count": 2}]
    plan = {"tensor": 2, "batch_split": "proportional"}
    assert "equal batches" in said({"nodes": nodes, "network": "ib-100g", "plan": plan})


def test_no_more_is_exposed_than_is_communicated(estimator: Estimator) -> None:
    job = Job(model="zoo/megatron-gpt", mode=Mode.TRAINING, precision=Precision.FP16)
    for written in ("8xA10", "2x(4xA10)@eth-10g zero=1", "2x(4xA10)@eth-1g zero=3", "8xA10 tp=2"):
        found = _on(estimator, written, job)
        assert found.breakdown.exposed_communication_s <= found.sync_time_s


def test_language_models_share_unequal_accelerators_too(estimator: Estimator) -> None:
    job = Job(model="zoo/megatron-gpt", mode=Mode.TRAINING, precision=Precision.FP16, batch_size=8)
    nodes = [{"accelerator": "A10", "count": 2}, {"accelerator": "H100-SXM5-80GB", "count": 2}]
    prepared = estimator.core.prepare(job)
    (counted,) = estimator.core.model.predict([prepared.on(estimator.accelerators.get("A10"))])
    slow, fast = (replace(counted, time_s=t, low_s=t, high_s=t) for t in (0.6, 0.3))

    def computes_s(split: str) -> float:
        asked = {"nodes": nodes, "network": "ib-400g", "plan": {"batch_split": split}}
        placement = estimator.core.resolve(parse_placement(asked))
        return captured_step(Cell(prepared, placement, [slow, fast])).parts.compute_s

    # Of 32 samples the fast two take twice as many as the slow ones: 11 and 5 of each pair, so that
    # the slow ones finish after 5 / 8, and the fast ones after 11 / 16 of 0.6 s.
    assert computes_s("proportional") == pytest.approx(11 / 16 * computes_s("equal"), rel=0.04)


def test_a_power_limit_slows_down_and_never_speeds_up(estimator: Estimator) -> None:
    def under(limit_w: float | None) -> Estimate:
        return _on(estimator, {"nodes": [{"accelerator": "A10"}], "power_limit_w": limit_w})

    free, capped, generous = under(None), under(75.0), under(1000.0)
    assert generous.step_time_s == free.step_time_s < capped.step_time_s
    assert capped.basis is Basis.ANALYTICAL


def test_a_neighbour_slows_down_and_two_more_so(estimator: Estimator) -> None:
    neighbour = {"model": "zoo/two", "mode": "training", "batch_size": 64}

    def beside(*jobs: Any, sharing: str = "mps") -> float:
        nodes = [{"accelerator": "V100-SXM2-16GB"}]
        placement = {"nodes": nodes, "shared_with": list(jobs), "sharing": sharing}
        return _on(estimator, placement).step_time_s

    alone, one, two = beside(), beside(neighbour), beside(neighbour, "LM (batch size 20)")
    assert alone < one < two
    assert beside(neighbour, sharing="time_slicing") > alone


@pytest.mark.parametrize(
    ("kind", "beside", "guessed"),
    [
        ("V100-SXM2-16GB", ["nonsense job"], "nonsense job"),
        ("V100-SXM2-16GB", ["ResNet-50 (batch size 64)"], None),
        # How busy it keeps a K80 and a V100 was measured, and nothing else.
        ("T4", ["ResNet-50 (batch size 64)"], "ResNet-50 (batch size 64)"),
        ("V100-SXM2-16GB", [{"model": "zoo/two", "mode": "training", "batch_size": 64}], None),
        ("V100-SXM2-16GB", ["odd", "LM (batch size 20)", "even"], "even, odd"),
    ],
)
def test_a_neighbour_whose_load_is_a_guess_is_named(
    estimator: Estimator, kind: str, beside: list[Any], guessed: str | None
) -> None:
    placement = parse_placement({"nodes": [{"accelerator": kind}], "shared_with": beside})
    said = [] if guessed is None else [UNKNOWN_LOAD_WARNING.format(guessed)]
    for found in (
        estimator.estimate(JOB, placement).warnings, estimator.matrix([JOB], [placement]).warnings,
    ):  # fmt: skip
        assert [text for text in found if text.startswith("How busy")] == said


def test_both_jobs_are_answered_and_have_to_fit_together(estimator: Estimator) -> None:
    neighbour = {"model": "zoo/two", "mode": "training", "batch_size": 64}
    nodes = [{"accelerator": "V100-SXM2-16GB"}]
    answer = _on(estimator, {"nodes": nodes, "shared_with": [neighbour, "A3C"]})
    other, named = answer.neighbours
    assert (other.name, named.name) == ("zoo/two", "A3C")
    assert min(other.slowdown, named.slowdown) > 1
    # 64 samples of 1 us alone.
    assert other.step_time_s == pytest.approx(64e-6 * other.slowdown)
    assert named.step_time_s is None
    assert any("memory of A3C is not known" in text for text in answer.warnings)
    # Swapped, each is what the other said of it.
    small = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64)
    large = {"model": "zoo/two", "mode": "training", "batch_size": 2000}
    pair = _on(estimator, {"nodes": nodes, "shared_with": [neighbour]})
    swapped = _on(estimator, {"nodes": nodes, "shared_with": [large]}, small)
    assert swapped.step_time_s == pytest.approx(pair.neighbours[0].step_time_s)
    assert swapped.neighbours[0].step_time_s == pytest.approx(pair.step_time_s)
    # 25,000 samples take some 11 GB alone; two such jobs do not fit 16.
    crowd = {**neighbour, "batch_size": 25_000}
    alone = _on(estimator, {"nodes": nodes}, replace(JOB, batch_size=25_000))
    both = _on(
        estimator,
        {"nodes": nodes, "shared_with": [crowd]},
        replace(JOB, batch_size=25_000),
    )
    assert both.memory.peak_bytes == alone.memory.peak_bytes
    assert alone.memory.fits
    assert not both.memory.fits


def test_a_bad_neighbour_is_refused_where_it_stands(estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError) as refused:
        _on(estimator, {"nodes": [{"accelerator": "T4"}], "shared_with": [{"model": "zoo/two"}]})
    assert str(refused.value.pointer).startswith("/placement/shared_with/0")


def test_a_step_waits_for_its_data(estimator: Estimator) -> None:
    # 2,000 samples of 1 ms on 4 cores take 500 ms, the step 2 ms.
    job = Job(
        model="zoo/two", mode=Mode.TRAINING, batch_size=2000,
        input={"cpu_s": 1e-3, "stored_bytes": 0.0, "files": 0.0},
    )  # fmt: skip
    answer = _on(estimator, {"nodes": [{"accelerator": "A10"}], "cpu_cores": 4}, job)
    assert answer.step_time_s == pytest.approx(0.5)
    assert answer.breakdown.input_stall_s == pytest.approx(0.498)
    assert any("waits for its data" in text for text in answer.warnings)
    assert answer.basis is Basis.ANALYTICAL
    # What is stated of a sample is taken as sure to a quarter: 400 to 625 ms.
    rate = answer.throughput
    assert rate.high == pytest.approx(2000 / 0.4)
    assert rate.low == pytest.approx(2000 / 0.625)


def test_a_guessed_sample_is_sure_to_a_factor_of_two(estimator: Estimator) -> None:
    known = {"cpu_s": 1e-3, "stored_bytes": 0.0, "files": 0.0}
    widths = []
    for stated in (known, {"cpu_s": 1e-3}):
        job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000, input=stated)
        rate = _on(estimator, "A10 cores=4", job).throughput
        widths.append(rate.high / rate.low)
    # Loading decides at both ends: 1.25 squared, and 2 squared.
    assert widths == pytest.approx([1.25**2, 4.0])


def test_feeding_that_may_be_late_lowers_the_low_end_alone(estimator: Estimator) -> None:
    # The step takes 4 ms, at best 3.2 and at worst 5. 4,000 samples of 0.75 us on one core take
    # 3 ms and nothing waits; but samples are guessed, and at worst they take 6 ms.
    job = Job(model="zoo/one", batch_size=4000, input={"cpu_s": 0.75e-6})
    alone, fed = _on(estimator, "A10", job), _on(estimator, "A10 cores=1", job)
    assert fed.breakdown == alone.breakdown
    assert (fed.basis, fed.warnings) == (alone.basis, alone.warnings)
    assert fed.throughput.high == pytest.approx(alone.throughput.high)
    assert alone.throughput.low == pytest.approx(4000 / 5e-3)
    assert fed.throughput.low == pytest.approx(4000 / 6e-3)


def test_special_cells_of_a_matrix_are_those_of_single_answers(estimator: Estimator) -> None:
    written = (
        "A10", "8xA10", "2x(4xA10)@eth-10g", "2xA10+2xT4", "A100-SXM4-40GB/1g.5gb",
        {"nodes": [{"accelerator": "A10"}], "power_limit_w": 100.0},
        {"nodes": [{"accelerator": "A10", "count": 2}], "plan": {"zero_stage": 3}},
    )  # fmt: skip
    placements = [parse_placement(form) for form in written]
    jobs = [JOB, Job(model="zoo/one", batch_size=8)]
    matrix = estimator.matrix(jobs, placements)
    for row, job in enumerate(jobs):
        for column, placement in enumerate(placements):
            single = estimator.estimate(job, placement)
            cell = row, column
            assert matrix.step_time_s[cell] == pytest.approx(single.step_time_s, rel=1e-12)
            found = [getattr(matrix, name)[cell] for name in ("samples_per_second", "low", "high")]
            wanted = single.throughput
            np.testing.assert_allclose(
                found, [wanted.samples_per_second, wanted.low, wanted.high], rtol=1e-12
            )
            assert matrix.peak_bytes[cell] == pytest.approx(single.memory.peak_bytes)
            assert list(Basis)[matrix.basis[cell]] is single.basis
            assert set(single.warnings) <= set(matrix.warnings)


def test_parameters_shared_in_inference_are_gathered(estimator: Estimator) -> None:
    job = Job(model="zoo/one", batch_size=8)
    whole, shared = (
        estimator.estimate(job, parse_placement(f"2x(4xA10)@eth-10g{plan}"))
        for plan in ("", " zero=3")
    )
    assert whole.sync_time_s == 0.0 < shared.breakdown.exposed_communication_s
    assert shared.step_time_s > whole.step_time_s
    assert shared.throughput.samples_per_second == pytest.approx(64 / shared.step_time_s)
    # Stages 1 and 2 share what inference has not.
    for stage in (1, 2):
        same = estimator.estimate(job, parse_placement(f"2x(4xA10)@eth-10g zero={stage}"))
        assert same.throughput == whole.throughput


def test_matrices_and_curves_gather_too(estimator: Estimator) -> None:
    job = Job(model="zoo/one", batch_size=8)
    placement = parse_placement("4xA10 zero=3")
    alone = estimator.estimate(job, placement)
    cell = estimator.matrix([job], [placement])
    assert float(cell.step_time_s[0, 0]) == pytest.approx(alone.step_time_s)
    assert float(cell.low[0, 0]) == pytest.approx(alone.throughput.low)
    question = CurveQuestion(accelerator="A10", counts=(4,), zero_stage=3)
    point = estimator.curve(job, question)
    assert float(point.samples_per_second[0]) == pytest.approx(alone.throughput.samples_per_second)
    assert float(point.high[0]) == pytest.approx(alone.throughput.high)


def test_a_cpu_computes_with_the_cores_that_it_has(estimator: Estimator) -> None:
    texts = ("EPYC-9654", "EPYC-9654 cores=96", "EPYC-9654 cores=48", "EPYC-9654 cores=8")
    times = [_on(estimator, text).step_time_s for text in texts]
    # All cores are the whole; 8 of 96 compute for at most twelve times as long.
    assert times[0] == times[1] <= times[2] < times[3] <= 12 * times[0]
    fewer = _on(estimator, "EPYC-9654 cores=8")
    assert fewer.basis is Basis.ANALYTICAL
    assert fewer.memory == _on(estimator, "EPYC-9654").memory
    # Two sockets share the cores of their host.
    both = estimator.core.resolve(parse_placement("2xEPYC-9654 cores=96"))
    assert both.kinds[0].held.core_count == 48


def test_cores_beside_a_gpu_are_not_its_own(estimator: Estimator) -> None:
    assert estimator.core.resolve(parse_placement("A10 cores=2")).kinds[0].part is None


def test_half_of_the_cores_slow_down_work_below_the_peaks(estimator: Estimator) -> None:
    # Half of the SMs draw all of the bandwidth, but only part of the time goes to drawing it.
    job = replace(JOB, precision=Precision.TF32)
    whole, half = (_on(estimator, text, job) for text in ("H100", "H100 fraction=0.5"))
    prepared = estimator.core.prepare(job)
    load = load_of(prepared.on(estimator.accelerators.get("H100")), whole.step_time_s)
    moving = load.memory_bound_share * load.at_peak_share
    expected = load.device_share * (moving + (1 - moving) / 0.5)
    assert load.memory_bound_share > moving
    assert half.step_time_s / whole.step_time_s == pytest.approx(expected)


def test_a_limit_that_limits_nothing_leaves_the_answer_alone(estimator: Estimator) -> None:
    # The board of an A10 takes 150 W.
    free, above, below = (_on(estimator, f"A10{text}") for text in ("", " power=150", " power=100"))
    assert above == free
    assert below.basis is Basis.ANALYTICAL
    assert below.step_time_s > free.step_time_s


def _slower(estimator: Estimator, times: float) -> Estimator:
    """Return an estimator whose steps on one accelerator take so many times as long."""
    core = estimator.core

    class Slower:
        version = "slower/1"

        def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
            return [
                replace(p, time_s=times * p.time_s, low_s=times * p.low_s, high_s=times * p.high_s)
                for p in core.model.predict(workloads)
            ]

    return Estimator(accelerators=core.accelerators, model=Slower(), graphs=core.graphs)


def test_split_language_models_on_new_accelerators_need_no_prediction_for_one(
    estimator: Estimator,
) -> None:
    other = _slower(estimator, 10)
    job = Job(model="zoo/megatron-gpt", mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    older, newer = "8xA100-SXM4-80GB tp=2", "8xH100-SXM5-80GB tp=2"
    fast, slow = (
        [_on(one, written, job).step_time_s for written in (older, newer)]
        for one in (estimator, other)
    )
    assert slow[0] > 1.05 * fast[0]
    assert slow[1] == fast[1]
    rate = _on(estimator, newer, job).throughput
    assert rate.high / rate.low == pytest.approx(np.exp(2 * 0.3))


def test_who_splits_is_asked_where_nobody_says(estimator: Estimator) -> None:
    job = Job(model="zoo/gpt2", mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    own, core = (replace(job, software=said) for said in ({"torch": "2.9"}, {"megatron": "0.14"}))
    found = [_on(estimator, "8xH100-SXM5-80GB tp=4", one) for one in (job, core, own)]
    assert [SPLIT_BY_MEGATRON_WARNING in one.warnings for one in found] == [True, False, False]
    assert found[0].step_time_s == found[1].step_time_s < found[2].step_time_s
    for written in ("8xH100-SXM5-80GB", "8xA100-SXM4-80GB tp=4"):
        assert SPLIT_BY_MEGATRON_WARNING not in _on(estimator, written, job).warnings


@pytest.mark.parametrize("plan", ["tp=2", "pp=2"])
def test_two_halves_of_what_predictions_scale_are_no_faster_than_half_of_it(
    estimator: Estimator, plan: str
) -> None:
    # The equations do not answer for fp32: a prediction, far above the arithmetic, sets the scale.
    job = Job(model="zoo/gpt2", mode=Mode.TRAINING, batch_size=1, sequence_length=128)
    on_host = "xH100-SXM5-80GB"
    whole, halves = (
        _on(_slower(estimator, 1e6), text, job).step_time_s
        for text in (f"1{on_host}", f"2{on_host} {plan}")
    )
    assert halves > whole / 2


def test_what_slows_one_accelerator_slows_split_language_models(estimator: Estimator) -> None:
    job = Job(model="zoo/megatron-gpt", mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    nodes = [{"accelerator": "H100-SXM5-80GB", "count": 8}]
    free: dict[str, Any] = {"nodes": nodes, "plan": {"tensor": 2}}
    limited = {**free, "power_limit_w": 250.0}
    assert _on(estimator, limited, job).step_time_s > _on(estimator, free, job).step_time_s
