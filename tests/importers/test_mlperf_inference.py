from pathlib import Path

import pytest

from perfmodel.importers.jobs.mlperf_inference import OFFLINE_BATCH, read_mlperf_inference
from perfmodel.types import Compiler, Mode, Precision

HEADER = (
    "device,n_devices,round,model,scenario,valid,framework,weight_dtype,offline_per_device,"
    "batch1_latency_ms_derived,maxq,mig"
)


def _table(folder: Path, *lines: str) -> Path:
    (folder / "mlperf_inference.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return folder


def test_a_step_is_the_median_of_the_medians_of_rounds(tmp_path: Path) -> None:
    rest = "resnet50,Offline,VALID,TensorRT 8.4,int8"
    lines = [
        f"T4,4,v1.0,{rest},{rate},,False,False" for rate in (5000, 5200, 5400)
    ] + [f"T4,8,v2.0,{rest},6000,,False,False"]  # fmt: skip
    (step,) = read_mlperf_inference(_table(tmp_path, *lines)).steps
    # Medians of rounds: 5200 and 6000.
    assert step.samples_per_second == pytest.approx(5600.0)
    assert (step.repeats, step.accelerator) == (4, "T4")
    assert step.job.batch_size == OFFLINE_BATCH
    assert (step.job.mode, step.job.compiler) == (Mode.INFERENCE, Compiler.TENSORRT)
    assert step.job.precision is Precision.INT8


def test_single_stream_is_one_sample_on_one_accelerator(tmp_path: Path) -> None:
    rest = "resnet50,SingleStream,VALID,TensorRT 8.4,int8,,0.5,False,False"
    found = read_mlperf_inference(_table(tmp_path, f"A10,1,v1.0,{rest}", f"A10,2,v1.0,{rest}"))
    (step,) = found.steps
    assert step.job.batch_size == 1
    # 0.5 ms a sample
    assert step.step_time_s == pytest.approx(0.5e-3)


def test_bert_of_the_last_tenth_of_a_percent_does_not_run_in_int8(tmp_path: Path) -> None:
    rest = "bert-99.9,Offline,VALID,TensorRT 8.6,fp16,800,,False,False"
    lines = [f"{device},1,v3.0,{rest}" for device in ("A30", "H100-SXM5-80GB")]
    steps = read_mlperf_inference(_table(tmp_path, *lines)).steps
    assert [step.job.precision for step in steps] == [Precision.FP16, Precision.FP8]
    assert {step.job.sequence_length for step in steps} == {180}


@pytest.mark.parametrize(
    "line",
    [
        "T4,1,v1.0,resnet50,Offline,VALID,TensorRT 8,int8,5000,,True,False",
        "T4,1,v1.0,resnet50,Offline,VALID,TensorRT 8,int8,5000,,False,True",
        "T4,1,v1.0,resnet50,Offline,INVALID,TensorRT 8,int8,5000,,False,False",
        "T4,1,v1.0,resnet50,Server,VALID,TensorRT 8,int8,5000,,False,False",
        "T4,1,v1.0,resnet50,Offline,VALID,OpenVINO,int8,5000,,False,False",
    ],
)
def test_limited_sliced_invalid_and_other_runs_are_left_out(tmp_path: Path, line: str) -> None:
    assert not read_mlperf_inference(_table(tmp_path, line)).steps


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    rest = "Offline,VALID,TensorRT 8"
    found = read_mlperf_inference(
        _table(
            tmp_path,
            f"T4,1,v1.0,rnnt,{rest},int8,5000,,False,False",
            f"T4,1,v1.0,resnet50,{rest},fp32,5000,,False,False",
            f"MI300X,1,v4.1,resnet50,{rest},int8,5000,,False,False",
        )
    )
    assert not found.steps
    said = [row.reason for row in found.rejected]
    assert "no reference workload stands for 'rnnt'" in said[0]
    assert "'fp32' is not understood" in said[1]
    assert "no NVIDIA GPU" in said[2]
