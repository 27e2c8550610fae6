"""Import the union of published steps of image classifiers on many accelerators.

``cnn_steps.parquet`` joins tables of several repositories, a row each: ``step_ms`` of the whole
job, ``batch_global`` samples a step, and what ran. Read are the steps on one accelerator of

=========================  =========================================================================
torchvision_gpu_forks      forks of ryujaehun/pytorch-gpu-benchmark: PyTorch, batch 12 a GPU
u39kun_cnn                 u39kun/deep-learning-benchmark: PyTorch, TensorFlow, Caffe2
lambda_tensorflow_logs     lambdal/lambda-tensorflow-benchmark: ``tf_cnn_benchmarks``, TensorFlow
mxnet_perf_raw             the performance page of MXNet
cnn_benchmarks_torch7      jcjohnson/cnn-benchmarks: Lua Torch
profet_train_latency       PROFET: Keras on TensorFlow, inputs of 32 to 256 pixels
=========================  =========================================================================

``software["framework"]`` says what ran where it was not PyTorch. Rows on CUDA 10 and 11.1 were
taken when PyTorch 1.2 and 1.8 were new. ``fp32`` is ``tf32`` where the accelerator has it and the
release used it without being asked: NVIDIA's TensorFlow 1.15, TensorFlow from 2.4 on, and PyTorch
from 1.7 on, whose convolutions do. Rows of one point are one record, their median.

Keras flattens what VGG's poolings leave, where the other tables pool it to 7 x 7; PROFET's rows of
it are of ``zoo/vgg``. In its profiles of VGG11 the time of ``ResourceApplyGradientDescent`` grows
with the image as weights do there, from 32 to 164 million.

Left out: TensorRT (its rows do not say which accelerator of a family ran), XLA beside plain
TensorFlow, Lua Torch without cuDNN, networks for which no reference workload stands, and jobs on
several accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedStep
from perfmodel.importers.repeats import one_record_each
from perfmodel.types import Mode, Precision

TABLE = PublicTable(
    files=("cnn_steps.parquet", "cnn_steps.csv"),
    source="cnn-steps",
    licence="as the part of the union",
    columns=(
        "device", "n_devices", "model_key", "mode", "precision", "batch_global", "input",
        "framework", "step_ms", "source_file",
    ),
)  # fmt: skip

#: Reference workload by the key of a network: letters and digits of its name.
MODELS: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: f"timm/{name}"
            for name in (
                "densenet121", "densenet161", "densenet169", "densenet201", "resnet18", "resnet34",
                "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19",
            )
        },
        **{f"vgg{depth}bn": f"timm/vgg{depth}_bn" for depth in (11, 13, 16, 19)},
        "inception3": "timm/inception_v3",
        "inceptionv3": "timm/inception_v3",
        "inception4": "timm/inception_v4",
        "inceptionresnetv2": "timm/inception_resnet_v2",
        "mnasnet05": "timm/mnasnet_050",
        "mnasnet075": "timm/mnasnet_075",
        "mnasnet10": "timm/mnasnet_100",
        "mobilenetv3large": "timm/mobilenetv3_large_100",
        "mobilenetv3small": "timm/mobilenetv3_small_100",
        "resnext5032x4d": "timm/resnext50_32x4d",
        "resnext10132x8d": "timm/resnext101_32x8d",
        "resnext10164x4d": "timm/resnext101_64x4d",
        "wideresnet1012": "timm/wide_resnet101_2",
    }
)  # fmt: skip
#: Depth of networks of which PROFET's rows are of ``zoo/vgg``.
_KERAS_VGG = {f"vgg{depth}": depth for depth in (11, 13, 16, 19)}
#: Input of networks whose usual one is not 224 pixels; the tables take it.
_PIXELS = {"timm/inception_v3": 299, "timm/inception_v4": 299, "timm/inception_resnet_v2": 299}

_FRAMEWORKS = {
    "pytorch": "pytorch", "tf": "tensorflow", "tensorflow": "tensorflow", "mxnet": "mxnet",
    "torch7": "torch7", "caffe2": "caffe2",
}  # fmt: skip
_SOURCES = (
    "torchvision_gpu_forks.csv", "u39kun_cnn.csv", "lambda_tensorflow_logs.csv",
    "mxnet_perf_raw.csv", "cnn_benchmarks_torch7.csv", "profet_train_latency.parquet",
)  # fmt: skip
_PRECISION = {"fp32": Precision.FP32, "fp16": Precision.FP16}
#: Names under which the tables list accelerators that the catalogue calls otherwise.
DEVICES = {"A100-SXM-40GB": "A100-SXM4-40GB", "V100": "V100-SXM2-16GB"}
#: Releases of PyTorch that rows say in other words.
_RELEASES = {"CUDA 10.0": "1.2", "CUDA 11.1": "1.8", "old script 2018": "1.0", "mixed": "1.2"}
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def read_cnn_steps(path: Path) -> Imported:
    """Read the union, or that of a folder; one step a row on one accelerator."""
    steps, rejected = TABLE.records(path, _step, _is_on_one)
    return Imported(steps=one_record_each(steps), rejected=rejected)


def _is_on_one(row: Row) -> bool:
    known = str(row["source_file"]).split(" ")[0] in _SOURCES
    return known and count(row, "n_devices") == 1


def software_of(words: str) -> dict[str, str]:
    """Return what a column ``framework`` says, as the software of a job.

    Raises
    ------
    ValueError
        A framework that is not known, or XLA, which is another compiler.

    Examples
    --------
    >>> software_of("TF 2.4"), software_of("PyTorch torch 2.3.1;ROCm 6.1.40093-20e892f82")
    ({'framework': 'tensorflow', 'tensorflow': '2.4'}, {'torch': '2.3.1'})
    >>> software_of("PyTorch CUDA 11.1")
    {'cuda': '11.1', 'torch': '1.8'}
    """
    first, _, rest = words.partition(" ")
    framework, version = _FRAMEWORKS.get(first.lower()), _VERSION.search(words)
    if framework is None or "XLA" in words or "cudnn none" in words:
        raise ValueError(f"framework {words!r} is not understood")
    if framework != "pytorch":
        return {"framework": framework, **({framework: version[0]} if version else {})}
    stated = {"cuda" if "CUDA" in words else "torch": version[0]} if version else {}
    return stated | ({"torch": _RELEASES[rest]} if rest in _RELEASES else {})


def uses_tf32(software: Mapping[str, str]) -> bool:
    """Tell whether a release computes fp32 in TF32 where it can, unless it is told not to.

    Examples
    --------
    >>> uses_tf32({"torch": "1.8"}), uses_tf32({"framework": "tensorflow", "tensorflow": "2.3"})
    (True, False)
    """
    if software.get("framework") == "tensorflow":
        version = _numbers(software.get("tensorflow", "0"))
        return version >= (2, 4) or version == (1, 15)
    return "framework" not in software and _numbers(software.get("torch", "0")) >= (1, 7)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _step(row: Row, origin: Origin) -> PublishedStep:
    key = text(row, "model_key")
    if key not in MODELS:
        raise ValueError(f"no reference workload stands for {key!r}")
    device = text(row, "device")
    mode = Mode.INFERENCE if text(row, "mode") == "infer" else Mode.TRAINING
    source = text(row, "source_file").split(" ")[0]
    model, model_kwargs = _workload(key, source, row["input"])
    batch = count(row, "batch_global")
    spec = Catalog.default().get(DEVICES.get(device, device))
    software = software_of(text(row, "framework"))
    precision = _PRECISION[text(row, "precision")]
    if precision is Precision.FP32 and spec.supports(Precision.TF32) and uses_tf32(software):
        precision = Precision.TF32
    job = Job(
        model=model,
        model_kwargs=model_kwargs,
        mode=mode,
        batch_size=batch,
        precision=precision,
        software=software,
    )
    return PublishedStep(
        job=job,
        accelerator=spec.name,
        samples_per_second=batch / (positive(row, "step_ms") * 1e-3),
        origin=replace(origin, source=f"{origin.source} {source}"),
    )


def _workload(key: str, source: str, stated: object) -> tuple[str, dict[str, int]]:
    """Return what stands for a network, and its arguments."""
    model, keras = MODELS[key], source.startswith("profet")
    usual = _PIXELS.get(model, 224)
    pixels = int(str(stated)) if keras else usual
    arguments = {"img_size": pixels} if pixels != usual else {}
    if keras and key in _KERAS_VGG:
        return "zoo/vgg", {"depth": _KERAS_VGG[key], **arguments}
    return model, arguments
