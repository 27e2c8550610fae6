"""Steps that are really run here: by every compiler that a CPU has, through one runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfmodel.capture.program import make_program
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.machine_load import SystemLoad
from perfmodel.errors import MeasurementError, OutOfDeviceMemoryError
from perfmodel.graph.job import Job
from perfmodel.profilers.described import described_device
from perfmodel.profilers.measure import measure_job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.runtime import MemoryPeak, StepTime, TelemetryReading
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.replay import Recording, ReplayRuntime
from perfmodel.profilers.steps.arithmetic import matrix_units
from perfmodel.profilers.steps.compiled import inductor_program
from perfmodel.profilers.timing import TimingPolicy
from perfmodel.types import Compiler, Mode, Precision
from perfmodel.zoo.moved import bundle_on
from perfmodel.zoo.resolve import build_bundle, program_of

QUICK = MeasureSettings(
    threads=1, policy=TimingPolicy(known_samples=5, max_samples=6, attempts=1), profiled_steps=1
)
DEVICE = Catalog.default().get("A100-SXM4-80GB")


def test_openvino_runs_the_exported_file() -> None:
    job = Job(model="zoo/mlp", batch_size=4, compiler=Compiler.OPENVINO)
    measurement, graph = measure_job(job, DEVICE, QUICK)
    assert measurement.step.compiler is Compiler.OPENVINO
    assert measurement.step.step_time_s > 0
    assert measurement.step.provenance.software["openvino"]
    assert "openvino_precision=f32" in measurement.step.provenance.notes
    # Three products; OpenVINO may name a layer after the tensor it writes, and reorders apart.
    assert measurement.joined_share + sum(measurement.unjoined.values()) > 0
    assert measurement.operators
    assert {graph.nodes[record.node].op for record in measurement.operators} & {"addmm", "mm"}


def test_a_step_is_recorded_as_the_device_told_it() -> None:
    """A replayed GPU stands in: facts, times, memory and power are those of the recording."""
    runtime = ReplayRuntime(
        Recording(
            facts=DeviceFacts(
                name="NVIDIA A100-SXM4-80GB", backend="cuda", driver="580.65", memory_bytes=85e9
            ),
            steps=[StepTime(wall_s=0.010, device_s=0.008)],
            memory=[MemoryPeak(allocated_bytes=3e9, reserved_bytes=4e9, method="allocator")],
            telemetry=[
                TelemetryReading(
                    energy_j=10.0, mean_power_w=200.0, clock_hz=1.41e9, temperature_c=55.0,
                    power_limit_w=400.0, throttle_reasons=("thermal",), source="nvml",
                )
            ],
        )
    )  # fmt: skip
    device = described_device(runtime)
    assert (device.accelerator.name, device.in_catalog) == ("A100-SXM4-80GB", True)
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=4)
    measurement, _ = measure_job(job, device.accelerator, QUICK, runtime=runtime)
    step = measurement.step
    assert (step.step_time_s, step.device_time_s) == (0.010, 0.008)
    assert (step.peak_memory_bytes, step.reserved_memory_bytes) == (3e9, 4e9)
    # 10 J over 5 steps.
    assert step.energy_j == pytest.approx(10.0 / len(step.samples_s))
    assert step.throttle_reasons == ("thermal",)
    assert step.noisy
    assert step.provenance.software["driver"] == "580.65"
    assert "tf32=off" in step.provenance.notes


def test_a_device_that_ran_nothing_idled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of an accelerator, on a machine whose trace holds no kernels at all."""
    monkeypatch.setattr(ReplayRuntime, "asynchronous", True)
    runtime = ReplayRuntime(
        Recording(
            facts=DeviceFacts(name="NVIDIA L4", backend="cuda"),
            steps=[StepTime(wall_s=0.010, device_s=0.001)],
            memory=[MemoryPeak(allocated_bytes=1e9, reserved_bytes=1e9, method="allocator")],
        )
    )
    measurement, _ = measure_job(Job(model="zoo/mlp"), DEVICE, QUICK, runtime=runtime)
    assert measurement.step.device_busy_s == 0.0
    assert measurement.step.idle_share == 1.0
    assert measurement.joined_share == 0.0


@pytest.mark.parametrize(
    "facts",
    [
        DeviceFacts(name="cpu-of-somebody-96c", backend="cpu"),
        DeviceFacts(name="NVIDIA X900", backend="cuda", memory_bytes=48e9),
    ],
)
def test_a_recording_of_what_nobody_knows_cannot_be_measured(facts: DeviceFacts) -> None:
    with pytest.raises(MeasurementError, match="recording"):
        described_device(ReplayRuntime(Recording(facts=facts)))


def test_too_little_memory_is_an_outcome_of_its_own() -> None:
    # 10^10 rows of 784 floats: 31 TB, which no machine hands out.
    job = Job(model="zoo/mlp", batch_size=10**10)
    with pytest.raises(OutOfDeviceMemoryError) as caught:
        measure_job(job, DEVICE, QUICK)
    assert caught.value.capacity_bytes == CpuRuntime().facts.memory_bytes


@pytest.mark.parametrize("precision", [Precision.FP8, Precision.INT8])
def test_what_would_run_in_another_type_is_refused(precision: Precision) -> None:
    with pytest.raises(MeasurementError, match="would run in bf16"):
        measure_job(Job(model="zoo/mlp", precision=precision), DEVICE, QUICK)


def test_a_cpu_launches_no_graphs_and_only_onnx_runtime_takes_a_provider() -> None:
    job = Job(model="zoo/mlp")
    with pytest.raises(MeasurementError, match="no graphs"):
        measure_job(job, DEVICE, replace(QUICK, device_graphs=True))
    openvino = replace(job, compiler=Compiler.OPENVINO)
    with pytest.raises(MeasurementError, match="without an execution provider"):
        measure_job(openvino, DEVICE, replace(QUICK, provider="cpu"))
    for compiler in (Compiler.EAGER, Compiler.INDUCTOR):
        with pytest.raises(MeasurementError, match="Leave cuda out"):
            measure_job(replace(job, compiler=compiler), DEVICE, replace(QUICK, provider="cuda"))


def test_tf32_is_switched_and_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    with matrix_units(Precision.TF32) as said:
        assert said == "tf32=on"
        assert torch.get_float32_matmul_precision() == "high"
    with matrix_units(Precision.FP32) as said:
        assert said == "tf32=off"
        assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("model", ["zoo/mlp", "zoo/ncf", "zoo/yolov3", "timm/resnet18"])
def test_a_bundle_moves_with_everything_that_its_loss_holds(model: str) -> None:
    """On ``meta`` a tensor that stayed behind on the CPU would fail the step."""
    job = Job(model=model, mode=Mode.TRAINING, batch_size=2)
    if model == "timm/resnet18":
        job = replace(job, model_kwargs={"img_size": 32})
    moved = bundle_on(build_bundle(job, device="cpu"), "meta")
    loss = program_of(moved, job).step()
    assert loss.device.type == "meta"


def test_inductor_compiles_and_says_how_long_it_took() -> None:
    from torch._inductor import config as inductor_config

    module = nn.Sequential(nn.Linear(8, 16), nn.GELU())
    program = make_program(module, (torch.randn(4, 8),), mode=Mode.INFERENCE)
    expected = program.step()
    # Neither vector units are looked for nor headers kept, each of which compiles as long again.
    plain = {"cpp.simdlen": 1, "cpp_cache_precompile_headers": False}
    with inductor_config.patch(plain), inductor_program(program) as compiled:
        assert torch.allclose(compiled.program.step(), expected, atol=1e-5)
        assert compiled.compile_s > 0
        assert compiled.graph_breaks == 0


def test_what_helps_to_compile_has_ended_before_a_step_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The threads of an accelerator, on a device whose kernels need no process to compile."""
    from torch._inductor import async_compile
    from torch._inductor import config as inductor_config

    from perfmodel.profilers.steps import compiled as compiling

    seen: list[int] = []
    shut_down = async_compile.shutdown_compile_workers
    monkeypatch.setattr(compiling, "compile_threads", lambda *_: 2)

    def counted() -> None:
        assert async_compile.AsyncCompile.process_pool() in async_compile._pool_set
        seen.append(async_compile.get_compile_threads())
        shut_down()

    monkeypatch.setattr(async_compile, "shutdown_compile_workers", counted)
    program = make_program(nn.Linear(2, 2), (torch.randn(1, 2),), mode=Mode.INFERENCE)
    plain = {"cpp.simdlen": 1, "cpp_cache_precompile_headers": False}
    with inductor_config.patch(plain), inductor_program(program):
        assert seen == [2]
        assert not async_compile._pool_set


def test_a_missing_compiler_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    def absent() -> str:
        raise InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", absent)
    program = make_program(nn.Linear(2, 2), (torch.randn(1, 2),), mode=Mode.INFERENCE)
    with pytest.raises(MeasurementError, match=r"install g\+\+"), inductor_program(program):
        pass


def test_beside_an_accelerator_others_may_use_half_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SystemLoad, "other_share", lambda self: 0.4)
    job = Job(model="zoo/mlp")
    recording = Recording(
        facts=DeviceFacts(name="NVIDIA L4", backend="cuda"),
        steps=[StepTime(wall_s=0.010, device_s=0.001)],
        memory=[MemoryPeak(allocated_bytes=1e9, reserved_bytes=1e9, method="allocator")],
    )
    monkeypatch.setattr(ReplayRuntime, "asynchronous", True)
    quiet, _ = measure_job(job, DEVICE, QUICK, runtime=ReplayRuntime(recording))
    assert not quiet.step.noisy
    monkeypatch.setattr(ReplayRuntime, "asynchronous", False)
    noisy, _ = measure_job(job, DEVICE, QUICK, runtime=ReplayRuntime(recording))
    assert noisy.step.noisy
