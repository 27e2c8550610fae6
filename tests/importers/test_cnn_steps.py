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
    assert step.job.software == {"cuda": "10.0", "torch": "1.2"}
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


def test_keras_flattens_what_vgg_leaves_of_an_image(tmp_path):
    rest = "T4,1,vgg11,train,fp32,16.0"
    lines = [
        f"{rest},{pixels},TF 2.5 Keras,9.0,profet_train_latency.parquet" for pixels in (32, 224)
    ]
    others = f"{rest},224,PyTorch CUDA 10.0,9.0,torchvision_gpu_forks.csv"
    *keras, torch = read_cnn_steps(_table(tmp_path, *lines, others)).steps
    assert [step.job.model for step in keras] == ["zoo/vgg"] * 2
    assert [dict(step.job.model_kwargs) for step in keras] == [
        {"depth": 11, "img_size": 32},
        {"depth": 11},
    ]
    assert torch.job.model == "timm/vgg11"


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


@pytest.mark.parametrize(
    ("device", "framework", "precision"),
    [
        # Ampere has TF32, and these releases use it.
        ("RTX-3090", "TF 1.15", Precision.TF32),
        ("RTX-3090", "TF 2.4", Precision.TF32),
        ("RTX-3090", "PyTorch CUDA 11.1", Precision.TF32),
        ("A100-SXM-40GB", "TF 2.3", Precision.FP32),
        # Turing has none.
        ("RTX-2080Ti", "TF 1.15", Precision.FP32),
    ],
)
def test_full_precision_is_that_which_ran(tmp_path, device, framework, precision):
    line = f"{device},1,resnet50,infer,fp32,8.0,224,{framework},4.0,lambda_tensorflow_logs.csv"
    (step,) = read_cnn_steps(_table(tmp_path, line)).steps
    assert step.job.precision is precision


def test_lua_torch_without_cudnn_is_left_out(tmp_path):
    rest = "8.0,224,Torch7 cudnn none,4.0,cnn_benchmarks_torch7.csv"
    found = read_cnn_steps(_table(tmp_path, f"GTX-1080,1,resnet50,infer,fp32,{rest}"))
    assert not found.steps and "cudnn none" in found.rejected[0].reason


def test_rows_of_one_point_are_one_record(tmp_path):
    rest = "infer,fp32,8.0,224,TF 1.15"
    lines = [
        f"RTX-2080Ti,1,resnet50,{rest},{ms},lambda_tensorflow_logs.csv" for ms in (4.0, 5.0, 8.0)
    ]
    other = f"RTX-2080Ti,1,resnet50,{rest},6.0,u39kun_cnn.csv"
    first, second = read_cnn_steps(_table(tmp_path, *lines, other)).steps
    # 8 images in 4, 5 and 8 ms: 2000, 1600 and 1000 a second.
    assert (first.samples_per_second, first.repeats) == (pytest.approx(1600.0), 3)
    assert first.spread == pytest.approx(1000.0 / 1600.0)
    assert second.repeats == 1
