from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.cnn_steps import read_cnn_steps
from perfmodel.types import Mode, Precision

HEADER = (
    "device,n_devices,model_key,mode,precision,batch_global,input,framework,step_ms,source_file"
)


def _table(folder: Path, *lines: str) -> Path:
    (folder / "cnn_steps.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return folder


def test_a_row_is_a_step(tmp_path):
    what = "GTX-1080Ti,1,resnet50,train (fwd+bwd),fp16,12.0,224"
    line = f"{what},PyTorch CUDA 10.0,60.0,torchvision_gpu_forks.csv"
    (step,) = read_cnn_steps(_table(tmp_path, line)).steps
    assert step.accelerator == "GTX-1080Ti"
    assert step.job.model == "timm/resnet50"
    assert (step.job.mode, step.job.precision) == (Mode.TRAINING, Precision.FP16)
    assert step.job.software == {"cuda": "10.0"}
    # 12 images in 60 ms
    assert step.samples_per_second == pytest.approx(200.0)


def test_another_framework_is_said(tmp_path):
    line = "V100,1,inceptionv3,infer,fp32,32.0,224,MXNet 1.2,40.0,mxnet_perf_raw.csv"
    (step,) = read_cnn_steps(_table(tmp_path, line)).steps
    assert step.job.software == {"framework": "mxnet", "mxnet": "1.2"}
    assert step.accelerator == "V100-SXM2-16GB"
    assert step.job.model_kwargs == {}


def test_profet_states_the_size_of_images(tmp_path):
    source = "profet_train_latency.parquet (median of 9)"
    line = f"T4,1,resnet18,train,fp32,16.0,64,TF 2.5 Keras,9.0,{source}"
    (step,) = read_cnn_steps(_table(tmp_path, line)).steps
    assert step.job.model_kwargs == {"img_size": 64}


def test_what_is_not_understood_is_said(tmp_path):
    rest = "infer,fp32,8.0,224"
    found = read_cnn_steps(
        _table(
            tmp_path,
            f"V100,1,alexnet,{rest},MXNet 1.2,4.0,mxnet_perf_raw.csv",
            f"RTX-3090,1,resnet50,{rest},TF 1.15 XLA,4.0,lambda_tensorflow_logs.csv",
            f"RTX-9999,1,resnet50,{rest},TF 1.15,4.0,lambda_tensorflow_logs.csv",
        )
    )
    assert not found.steps
    reasons = [row.reason for row in found.rejected]
    assert "no reference workload stands for 'alexnet'" in reasons[0]
    assert "XLA" in reasons[1]
    assert "RTX-9999" in reasons[2]


def test_several_accelerators_are_left_out(tmp_path):
    rest = "resnet50,infer,fp32,8.0,224,TF 1.15,4.0,lambda_tensorflow_logs.csv"
    found = read_cnn_steps(_table(tmp_path, f"RTX-3090,2,{rest}"))
    assert (found.steps, found.rejected) == ((), ())


def test_without_a_table_it_says_what_it_looks_for(tmp_path):
    with pytest.raises(StoreError, match=r"cnn_steps\.parquet"):
        read_cnn_steps(tmp_path)
