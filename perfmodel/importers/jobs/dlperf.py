"""Import DLPerf: how fast frameworks train the same two networks on V100 GPUs.

``dlperf_v100.parquet`` holds the tables of the reports of Oneflow-Inc/DLPerf, a cell a row. Read
are the rates of one GPU: ResNet-50 v1.5 on synthetic or decoded images, and the pre-training of
BERT-Base on 128 tokens; rows of one point are one record, their median. Left out: latencies, XLA
beside plain TensorFlow, what is neither fp32 nor mixed precision, and frameworks that
:class:`~perfmodel.types.Framework` does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.jobs.ngc import ngc_software
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedStep
from perfmodel.importers.repeats import one_record_each
from perfmodel.types import Framework, Mode, Precision

ACCELERATOR = "V100-SXM2-16GB"
TABLE = PublicTable(
    files=("dlperf_v100.parquet", "dlperf_v100.csv"),
    source="Oneflow-Inc/DLPerf",
    licence="Apache-2.0",
    columns=(
        "framework", "model", "num_devices", "precision", "unit", "batch_per_device", "value",
        "section", "device",
    ),
)  # fmt: skip
#: What a framework is called; the pages of NVIDIA name theirs last.
_FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        "OneFlow": Framework.ONEFLOW,
        "PyTorch": Framework.PYTORCH,
        "TensorFlow": Framework.TENSORFLOW,
        "NVIDIA DLE TensorFlow": Framework.TENSORFLOW,
        "PaddlePaddle": Framework.PADDLE,
        "MxNet": Framework.MXNET,
        "NVIDIA DLE MxNet": Framework.MXNET,
    }
)
#: The reports are of 2020; PyTorch ran in the container 20.03.
_PYTORCH = ngc_software("20.03")
_PRECISION: Mapping[str, Precision] = MappingProxyType(
    {"FP32": Precision.FP32, "FP16": Precision.AMP_FP16, "AMP": Precision.AMP_FP16}
)
_BERT_BASE: Mapping[str, Any] = MappingProxyType(
    {"model_type": "bert", "architectures": ["BertForPreTraining"]}
)
_TOKENS = 128
_MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "ResNet50 v1.5": {"model": "zoo/resnet50-v1.5", "optimizer": "momentum"},
        "BERT-Base": {
            "hf_config": _BERT_BASE, "sequence_length": _TOKENS, "optimizer": "adamw",
        },
    }
)  # fmt: skip


def read_dlperf(path: Path) -> Imported:
    """Read the table, or that of a folder; one step a row on one GPU."""
    steps, rejected = TABLE.records(path, _step, _is_on_one)
    return Imported(steps=one_record_each(steps), rejected=rejected)


def _is_on_one(row: Row) -> bool:
    if row["unit"] != "samples/s" or not row["num_devices"]:
        return False
    return count(row, "num_devices") == 1


def _step(row: Row, origin: Origin) -> PublishedStep:
    section = text(row, "section").lower()
    if "xla" in section and not any(word in section for word in ("w/o xla", "without xla")):
        raise ValueError("XLA is another compiler")
    if text(row, "device") != ACCELERATOR:
        raise ValueError(f"device {row['device']!r} is not {ACCELERATOR}")
    framework = _known(_FRAMEWORKS, row, "framework")
    job = Job(
        mode=Mode.TRAINING,
        batch_size=count(row, "batch_per_device"),
        precision=_known(_PRECISION, row, "precision"),
        software={"framework": framework.value} if framework is not Framework.PYTORCH else _PYTORCH,
        **_known(_MODELS, row, "model"),
    )
    return PublishedStep(
        job=job,
        accelerator=ACCELERATOR,
        samples_per_second=positive(row, "value"),
        origin=origin,
    )


def _known(words: Mapping[str, Any], row: Row, name: str) -> Any:
    word = text(row, name)
    if word not in words:
        raise ValueError(f"{name} {word!r} is not understood")
    return words[word]
