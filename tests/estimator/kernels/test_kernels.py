"""Kernels and collectives by their shape: what is asked, and what is answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_kernels import train_quickly

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.kernels.kernel_answers import kernel_answers
from perfmodel.estimator.kernels.kernel_question import MOST_CELLS, parse_kernel
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_extents import EXTENTS
from perfmodel.features.kernels.kernel_work import FORMULAS
from perfmodel.predictors.kernels.kernel_times import AnalyticalKernels, KernelTimes
from perfmodel.types import Basis

GEMM = {"op": "gemm", "precision": "fp16", "shape": {"m": 512, "n": 1024, "k": 2048}}
GATHER = {"op": "all_gather", "shape": {"size_bytes": 8e8, "ranks": 8}}
SHIPPED = Path(__file__).parents[3] / "models" / "kernels"
_EXPERTS = {"tokens": 8, "hidden": 64, "inter": 64, "top_k": 3, "experts": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of models with a predictor of kernels that learned a known law."""
    found = tmp_path_factory.mktemp("models")
    train_quickly(90, found)
    return found


@pytest.fixture(scope="module")
def trained(folder: Path) -> Estimator:
    return Estimator.from_folder(folder, catalog=Catalog.default())


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Estimator:
    return Estimator.from_folder(tmp_path_factory.mktemp("none"), catalog=Catalog.default())


def ask(estimator: Estimator, kernel: dict[str, Any], *accelerators: str) -> Any:
    """Return the answers to one kernel."""
    table = estimator.kernels({"kernels": [kernel], "accelerators": list(accelerators)})
    assert not table.errors, table.errors
    return table.answers


def test_rates_and_roofline_by_hand(trained: Estimator) -> None:
    (found,) = ask(trained, GEMM, "T4")
    spec = Catalog.default().get("T4")
    flops = 2 * 512 * 1024 * 2048
    moved = 2 * (512 * 2048 + 2048 * 1024 + 512 * 1024)
    assert (found.flops, found.bytes) == (flops, moved)
    assert found.peak_flops_per_s == spec.peak_flops["fp16"]
    assert found.roofline_s == max(flops / 65e12, moved / spec.bandwidth_bytes_per_s)
    assert found.achieved_flops_per_s == pytest.approx(flops / found.time_s)
    assert found.achieved_bytes_per_s == pytest.approx(moved / found.time_s)
    assert 0 < found.low_s <= found.time_s <= found.high_s


def test_the_device_needs_no_more_than_the_call(trained: Estimator, untrained: Estimator) -> None:
    small = {"op": "relu", "precision": "fp16", "shape": {"rows": 1, "width": 16}}
    for estimator in (trained, untrained):
        for kernel in (GEMM, small):
            for one in ask(estimator, kernel, "T4", "A30"):
                assert 0 < one.device_time_s <= one.time_s


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="no model is shipped")
def test_a_short_call_waits_for_its_host_and_not_for_the_device() -> None:
    shipped = Estimator.from_folder(SHIPPED.parent, catalog=Catalog.default())
    norm = {"op": "rms_norm", "precision": "bf16", "shape": {"rows": 16, "width": 4096}}
    (found,) = ask(shipped, norm, "A100-SXM4-80GB")
    # A launch by the device, 2.2 us, and one wait for the sums of rows, 3.2 us.
    assert 5.4e-6 <= found.device_time_s < 6e-6 < 20e-6 < found.time_s
    assert "device_time_s" in found.warnings[0]


def test_what_was_learned_says_what_it_rests_on(trained: Estimator) -> None:
    bases = [one.basis for one in ask(trained, GEMM, "T4", "A30", "Core-i9-10940X")]
    assert bases == [Basis.INTERPOLATED, Basis.EXTRAPOLATED, Basis.ANALYTICAL]
    assert trained.kernels({"kernels": [GEMM], "accelerators": ["T4"]}).model_version.startswith(
        "kernels/"
    )


def test_the_law_is_found_and_the_interval_holds_it(trained: Estimator) -> None:
    (found,) = ask(trained, GEMM, "A30")
    spec = Catalog.default().get("A30")
    # The law of made_up_kernels: 4 us and the roofline at 0.4 + 0.4 log2(2048) / 12 of the peak.
    longest_s = max(found.flops / spec.peak_flops["fp16"], found.bytes / spec.bandwidth_bytes_per_s)
    law_s = 4e-6 + longest_s / (0.4 + 0.4 * 11 / 12)
    assert found.time_s == pytest.approx(law_s, rel=0.3)
    assert found.low_s <= law_s <= found.high_s


def test_a_type_without_units_is_computed_as_a_wider_one(trained: Estimator) -> None:
    four_bits = {**GEMM, "precision": "nvfp4"}
    new, fp8, neither = ask(trained, four_bits, "B200-SXM", "H100-SXM5-80GB", "A100-SXM4-80GB")
    # Twice the rate of fp8 where there are units for four bits; that of fp8, of bf16 elsewhere.
    assert [one.peak_flops_per_s for one in (new, fp8, neither)] == [2 * 4.5e15, 1979e12, 312e12]
    assert [any("no rate for fp4" in w for w in one.warnings) for one in (new, fp8, neither)] == [
        False, True, True,
    ]  # fmt: skip
    # What was learned on the device is of types that it has; rates of types are those of products.
    assert ask(trained, {**GEMM, "precision": "bf16"}, "T4")[0].basis is not Basis.INTERPOLATED
    added = {"op": "add", "precision": "bf16", "shape": {"rows": 1024, "width": 1024}}
    assert not any("no rate" in warning for warning in ask(trained, added, "T4")[0].warnings)


def test_an_operator_that_nothing_was_learned_of_is_analytical_and_wide(
    trained: Estimator,
) -> None:
    decode = {
        "op": "attention_decode",
        "precision": "bf16",
        "shape": {"batch": 16, "context": 1000, "heads": 32, "head_dim": 128},
    }
    (found,) = ask(trained, decode, "H100-SXM5-80GB")
    assert found.basis is Basis.ANALYTICAL
    assert found.out_of_distribution
    assert found.high_s > 3 * found.low_s
    assert "Nothing was learned" in found.warnings[0]


class _TimedWithTheHost(AnalyticalKernels):
    """As tables in which no call takes less than 30 us."""

    def times(self, calls: KernelCalls) -> KernelTimes:
        found = super().times(calls)
        return replace(found, time_s=found.time_s + 30e-6, high_s=found.high_s + 30e-6)


def test_a_call_that_only_waits_for_its_launch_says_so() -> None:
    spec = Catalog.default().get("A100-SXM4-80GB")
    little, much = (
        parse_kernel({"op": "add", "precision": "fp16", "shape": {"rows": rows, "width": 1024}})
        for rows in (1, 65536)
    )
    pairs = [(0, little, spec), (1, much, spec)]
    said = [one.warnings[-1:] for one in kernel_answers(_TimedWithTheHost(), pairs)]
    assert "timed it with the host" in said[0][0]
    assert "host" not in "".join(said[1])
    assert "host" not in "".join(kernel_answers(AnalyticalKernels(), pairs)[0].warnings)


@pytest.mark.parametrize("op", sorted(FORMULAS))
def test_every_operator_is_answered_from_what_it_needs(untrained: Estimator, op: str) -> None:
    shape = {name: 8 for name in EXTENTS[op].needed}
    (found,) = ask(untrained, {"op": op, "precision": "fp16", "shape": shape}, "H100")
    assert found.bytes > 0
    assert np.isfinite([found.time_s, found.low_s, found.high_s, found.roofline_s]).all()


def test_a_gather_is_never_faster_than_its_link(untrained: Estimator) -> None:
    (found,) = ask(untrained, GATHER, "H100-SXM5-80GB")
    # 7 of 8 shards of 100 MB over 450 GB/s
    assert found.bytes == pytest.approx(7e8)
    assert found.roofline_s == pytest.approx(7e8 / 450e9)
    assert found.time_s > found.roofline_s
    assert found.peak_flops_per_s is None


def test_few_ranks_of_a_mesh_have_the_links_between_them_alone(untrained: Estimator) -> None:
    reduce = {"op": "all_reduce", "shape": {"size_bytes": 1e9, "ranks": 2}}
    (pair,) = ask(untrained, reduce, "MI300X")
    # One of seven links, as placements.md says.
    assert pair.bandwidth_bytes_per_s == pytest.approx(448e9 / 7)
    assert pair.achieved_bytes_per_s < pair.bandwidth_bytes_per_s


def test_two_hosts_are_slower_and_say_which_network_is_meant(untrained: Estimator) -> None:
    (one,) = ask(untrained, GATHER, "H100-SXM5-80GB")
    shape = {**GATHER["shape"], "ranks": 16}  # type: ignore[dict-item]
    (two,) = ask(untrained, {**GATHER, "shape": shape}, "H100-SXM5-80GB")
    assert two.time_s > one.time_s
    assert "No network is stated" in two.warnings[0]
    (stated,) = ask(untrained, {**GATHER, "shape": shape, "network": "eth-25g"}, "H100-SXM5-80GB")
    assert stated.time_s > two.time_s
    assert not stated.warnings


@pytest.mark.parametrize(
    ("kernel", "pointer"),
    [
        ({**GEMM, "op": "gem"}, "/kernels/1/op"),
        ({**GEMM, "precision": "fp17"}, "/kernels/1/precision"),
        ({**GEMM, "precision": None}, "/kernels/1/precision"),
        ({**GEMM, "shape": {"m": 1, "n": 1}}, "/kernels/1/shape/k"),
        ({**GEMM, "shape": {"m": 1, "n": 1, "k": 1.5}}, "/kernels/1/shape/k"),
        ({**GEMM, "shape": {"m": 1, "n": 1, "k": 1, "z": 1}}, "/kernels/1/shape/z"),
        ({**GEMM, "link": "nvlink4"}, "/kernels/1/link"),
        ({"op": "moe", "precision": "bf16", "shape": _EXPERTS}, "/kernels/1/shape/top_k"),
        ({**GATHER, "precision": "bf16"}, "/kernels/1/precision"),
        ({**GATHER, "shape": {"size_bytes": 1e6, "ranks": 1}}, "/kernels/1/shape/ranks"),
        ({**GATHER, "link": "no-such-link"}, "/kernels/1/link"),
        ([], "/kernels/1"),
    ],
)
def test_a_bad_kernel_costs_its_own_cells_alone(
    untrained: Estimator, kernel: Any, pointer: str
) -> None:
    table = untrained.kernels({"kernels": [GEMM, kernel], "accelerators": ["T4", "nonsense"]})
    assert [(one.kernel, one.accelerator) for one in table.answers] == [(0, "T4")]
    pointers = {one.error.pointer for one in table.errors if hasattr(one.error, "pointer")}
    assert pointers == {pointer, "/accelerators/1"}
    assert table.accelerators == ("T4", None)


def test_questions_without_an_end_are_refused(untrained: Estimator) -> None:
    for question, pointer in (
        ({"kernels": [], "accelerators": ["T4"]}, "/kernels"),
        ({"kernels": [GEMM], "accelerators": "T4"}, "/accelerators"),
        ({"kernels": [GEMM], "accelerators": ["T4"], "job": {}}, "/job"),
    ):
        with pytest.raises(InvalidInputError) as refused:
            untrained.kernels(question)
        assert refused.value.pointer == pointer
    many = {"kernels": [GEMM] * (MOST_CELLS // 2 + 1), "accelerators": ["T4", "A30"]}
    with pytest.raises(InvalidInputError, match="Send fewer"):
        untrained.kernels(many)


def test_kernels_never_answer_for_steps(folder: Path) -> None:
    assert Estimator.from_folder(folder).model_version == "roofline"


def test_a_damaged_version_is_named_and_the_analytical_one_answers(folder: Path) -> None:
    (version,) = (folder / "kernels").iterdir()
    state = version / "kernels.state.json"
    content = state.read_bytes()
    try:
        state.write_bytes(content[:-20])
        model, problems = load_kernels(folder)
        assert model.version == "roofline"
        assert "kernels.state.json" in problems[0]
    finally:
        state.write_bytes(content)


def test_a_version_in_memory_goes_on(folder: Path) -> None:
    model, _ = load_kernels(folder)
    assert load_kernels(folder, model)[0] is model


def test_a_cpu_without_arithmetic_for_sixteen_bits_takes_as_long_as_its_steps(
    untrained: Estimator,
) -> None:
    names = ("EPYC-7763", "Xeon-Platinum-8480-Plus", "EPYC-9654")
    half = dict(zip(names, ask(untrained, GEMM, *names), strict=True))
    full = dict(zip(names, ask(untrained, {**GEMM, "precision": "fp32"}, *names), strict=True))
    # Products of this size wait for arithmetic alone, at the peak of fp32 in both types.
    for name, factor in (("EPYC-7763", 15.0), ("EPYC-9654", 15.0), (names[1], 1.0)):
        one = half[name]
        assert one.time_s == pytest.approx(factor * full[name].time_s)
        assert one.achieved_flops_per_s == pytest.approx(one.flops / one.time_s)
        assert one.low_s < one.time_s < one.high_s
        assert any("15 times" in said for said in one.warnings) == (factor > 1.0)
    (scattered,) = ask(untrained, {**GEMM, "precision": "bf16"}, "EPYC-9654")
    assert scattered.time_s < full["EPYC-9654"].time_s
