from pathlib import Path

import pytest

from perfmodel.importers.jobs.dlperf import read_dlperf
from perfmodel.types import Mode, Precision

HEADER = "framework,model,num_devices,precision,unit,batch_per_device,value,section,device"
V100 = "V100-SXM2-16GB"


def _table(folder: Path, *lines: str) -> Path:
    (folder / "dlperf_v100.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return folder


def test_a_row_on_one_gpu_is_a_step(tmp_path: Path) -> None:
    line = f"OneFlow,ResNet50 v1.5,1.0,AMP,samples/s,256.0,1280.0,All Results,{V100}"
    (step,) = read_dlperf(_table(tmp_path, line)).steps
    assert step.job.model == "zoo/resnet50-v1.5"
    assert (step.job.mode, step.job.precision) == (Mode.TRAINING, Precision.AMP_FP16)
    assert step.job.software == {"framework": "oneflow"}
    assert (step.job.batch_size, step.step_time_s) == (256, pytest.approx(0.2))


def test_bert_is_pre_trained_on_128_tokens(tmp_path: Path) -> None:
    line = f"PyTorch,BERT-Base,1,FP32,samples/s,32,100.0,FP32 & W/O XLA,{V100}"
    (step,) = read_dlperf(_table(tmp_path, line)).steps
    assert step.job.sequence_length == 128
    assert step.job.software == {"torch": "1.5.0", "cuda": "10.2"}
    assert step.job.hf_config is not None and step.job.hf_config["model_type"] == "bert"


def test_repeats_are_one_record(tmp_path: Path) -> None:
    lines = [
        f"OneFlow,BERT-Base,1,FP32,samples/s,32,{rate},All Results,{V100}"
        for rate in (140.0, 150.0, 151.0)
    ]
    (step,) = read_dlperf(_table(tmp_path, *lines)).steps
    assert (step.samples_per_second, step.repeats) == (150.0, 3)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"TensorFlow,BERT-Base,1,FP16,samples/s,64,400.0,FP16 & with xla,{V100}", "XLA"),
        (f"MindSpore,BERT-Base,1,FP32,samples/s,64,118.0,Result,{V100}", "MindSpore"),
        (f"OneFlow,ResNet50 v1.5,1,,samples/s,96,384.0,All Results,{V100}", "no precision"),
        ("OneFlow,BERT-Base,1,FP32,samples/s,64,384.0,All Results,T4", "device 'T4'"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path: Path, line: str, reason: str) -> None:
    found = read_dlperf(_table(tmp_path, line))
    assert not found.steps and reason in found.rejected[0].reason


def test_latencies_and_several_gpus_are_other_records(tmp_path: Path) -> None:
    lines = (
        f"OneFlow,Wide&Deep,1,,ms,,2.4,1 device,{V100}",
        f"OneFlow,BERT-Base,8,FP32,samples/s,64,1100.0,All Results,{V100}",
    )
    found = read_dlperf(_table(tmp_path, *lines))
    assert not found.steps and not found.rejected
