"""The local CPU: really measured, at small sizes, and cached by what changes the figures."""

import itertools
import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfmodel.devices import cpu_bench
from perfmodel.devices.cpu_bench import Effort, Rates, best_time_s
from perfmodel.devices.cpu_facts import CpuFacts
from perfmodel.devices.local_cpu import LocalCpu, cache_folder, spec_of
from perfmodel.devices.machine_load import LoadMeter

QUICK = Effort(gemm_size=256, gemm_budget_s=0.02, stream_bytes=2**24, stream_budget_s=0.02)
FACTS = CpuFacts(
    model="Toy(R) T-1000+ 8-Core Processor",
    vendor="Toy",
    machine="x86_64",
    core_count=8,
    thread_count=16,
    cache_bytes_by_level=((1, 2**18), (2, 2**22), (3, 2**25)),
    memory_bytes=2**35,
    clock_hz=3e9,
    flags=("avx2",),
)


RATES = Rates(
    gemm_flops_per_s={"fp32": 2e11, "bf16": 4e11, "fp16": 3e9, "fp64": 1e11},
    bandwidth_bytes_per_s=4e10,
    engine="toy",
)


class CountedMeasure:
    """Counts how often it was asked; what it says is no matter to what is kept of it."""

    calls = 0

    def __call__(self, effort):
        self.calls += 1
        return RATES


def local_in(folder, effort=QUICK, measure=None):
    return LocalCpu(cache=folder, effort=effort, measure=measure or CountedMeasure())


def test_this_machine_is_measured_and_described(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_bench, "_PROBE_BUDGET_S", 0.03)  # for figures that are not kept
    local = LocalCpu(cache=tmp_path, effort=QUICK)
    spec = local.describe()
    assert spec.kind == "cpu"
    assert spec.name.startswith("cpu-") and spec.name.endswith(f"-{spec.core_count}c")
    # No CPU does a PFLOP/s, or reads 10 TB/s.
    assert 0 < spec.peak_flops["fp32"] < 1e15
    assert 0 < spec.bandwidth_bytes_per_s < 1e13
    assert spec.memory_bytes > 2**28
    assert spec.sources["peak_flops"].startswith("measured")


def test_the_description_is_cached_and_refreshed_on_demand(tmp_path):
    measure = CountedMeasure()
    local = local_in(tmp_path, measure=measure)
    assert local.cached() is None
    first = local.describe()
    assert local.describe() == first == local.cached()
    assert local_in(tmp_path, measure=measure).describe() == first
    assert measure.calls == 1
    local.describe(refresh=True)
    assert measure.calls == 2


def test_what_was_measured_beside_others_is_measured_again_and_the_higher_rates_kept(tmp_path):
    half = {rate: flops / 2 for rate, flops in RATES.gemm_flops_per_s.items()}
    beside_others = replace(
        RATES, gemm_flops_per_s=half, bandwidth_bytes_per_s=5e10, other_share=0.4
    )
    told = iter([beside_others, RATES])
    local = local_in(tmp_path, measure=lambda effort: next(told))
    first = local.describe()
    assert "Others used 40% of the machine" in first.notes
    assert local.describe() == first  # at once: nobody waits for the same again
    (kept,) = (tmp_path / "devices").iterdir()
    os.utime(kept, (0, 0))
    quiet = local.describe()
    assert quiet.peak_flops["fp32"] == 2e11
    assert quiet.bandwidth_bytes_per_s == 5e10
    assert "Others used" not in quiet.notes
    os.utime(kept, (0, 0))
    assert local.describe() == quiet  # for good


def test_the_load_of_others_is_measured_with_the_rates():
    class Busy(LoadMeter):
        started = False

        def start(self):
            self.started = True

        def other_share(self):
            assert self.started
            return 0.25

    assert cpu_bench.measure_cpu(QUICK, Busy()).other_share == 0.25


def test_another_effort_is_another_measurement(tmp_path):
    local_in(tmp_path).describe()
    other = Effort(gemm_size=128, gemm_budget_s=0.01, stream_bytes=2**22, stream_budget_s=0.01)
    assert local_in(tmp_path, effort=other).cached() is None


def test_a_damaged_cache_is_measured_again(tmp_path):
    measure = CountedMeasure()
    local = local_in(tmp_path, measure=measure)
    local.describe()
    (stored,) = tmp_path.glob("devices/*.json")
    for calls, damage in enumerate(("", "{", "[]", '{"key": 1}', "null"), start=2):
        stored.write_text(damage)
        assert local.describe().kind == "cpu"
        assert measure.calls == calls
        assert json.loads(stored.read_text())["spec"]["kind"] == "cpu"


def test_a_cached_nonsense_number_is_not_believed(tmp_path):
    local = local_in(tmp_path)
    local.describe()
    (stored,) = tmp_path.glob("devices/*.json")
    content = json.loads(stored.read_text())
    content["spec"]["bandwidth_bytes_per_s"] = -1
    stored.write_text(json.dumps(content))
    assert local.cached() is None


def test_a_cache_that_cannot_be_written_costs_no_answer(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert local_in(blocked).describe().kind == "cpu"


def test_no_draft_is_left_behind(tmp_path):
    local_in(tmp_path).describe()
    assert [path.suffix for path in (tmp_path / "devices").iterdir()] == [".json"]


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERFMODEL_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "perfmodel"
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_type_slower_than_fp32_is_left_out_and_named():
    spec = spec_of(FACTS, RATES)
    # fp64 stays although slower: it cannot be computed in fp32.
    assert dict(spec.peak_flops) == {"fp32": 2e11, "bf16": 4e11, "fp64": 1e11}
    assert "fp16 3e9" in spec.notes or "fp16 3.0e9" in spec.notes
    assert spec.name == "cpu-toy-t-1000-plus-8c"
    assert spec.cache_bytes == 2**25


@pytest.fixture
def ticking(monkeypatch):
    """Let a millisecond pass from each look at the clock to the next."""
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: 1e-3 * next(looks))
    monkeypatch.setattr(cpu_bench, "time", clock)


def test_numpy_measures_where_torch_is_absent(ticking):
    rates = cpu_bench._measure_numpy(QUICK)
    assert rates.engine.startswith("numpy")
    # 2 x 256^3 FLOP a millisecond; of the streams the one over three arrays of 16 MiB.
    flops_per_s = pytest.approx(2 * 256**3 / 1e-3)
    assert rates.gemm_flops_per_s == {"fp32": flops_per_s, "fp64": flops_per_s}
    assert rates.bandwidth_bytes_per_s == pytest.approx(3 * 2**24 / 1e-3)


def test_torch_measures_by_the_same_arithmetic(ticking):
    torch = pytest.importorskip("torch")
    rates = cpu_bench._measure_torch(torch, QUICK)
    assert rates.gemm_flops_per_s["fp32"] == pytest.approx(2 * 256**3 / 1e-3)
    assert rates.bandwidth_bytes_per_s == pytest.approx(3 * 2**24 / 1e-3)


def test_best_time_repeats_short_calls_and_not_long_ones(ticking):
    calls = []
    best_time_s(lambda: calls.append(1), budget_s=0.0)
    assert len(calls) == 1  # the warm-up alone was over the budget
    calls.clear()
    assert best_time_s(lambda: calls.append(1), budget_s=0.005) == pytest.approx(1e-3)
    assert len(calls) == 4  # warm-up and three repeats
