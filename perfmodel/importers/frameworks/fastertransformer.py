"""Import what NVIDIA/FasterTransformer was compared with: BERT, ViT and Swin in frameworks.

``fastertransformer.parquet`` holds the tables of ``docs/*_guide.md``, a cell each: milliseconds of
one pass by batch, length, precision and ``engine``, the title of the column. Read are the columns
of TensorFlow and PyTorch (traced): encoders on one T4, V100 and A100, whose clocks (1,215 MHz of
memory, 1,380 MHz) say that they are an A100 of 40 GB and a V100 on PCIe. BERT is the base model,
ViT that of 384 pixels, Swin the tiny one of 224 (256 in its second version).

Left out, with the reason: FasterTransformer's own kernels, by which no compiler of a job works;
decoders, which are loops over tokens; several GPUs; tables that do not name their GPU; slices.

Reference: NVIDIA/FasterTransformer, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedStep
from perfmodel.importers.repeats import one_record_each
from perfmodel.types import Framework, Mode, Precision

TABLE = PublicTable(
    files=("fastertransformer.parquet", "fastertransformer.csv"),
    source="NVIDIA/FasterTransformer docs",
    licence="Apache-2.0",
    columns=(
        "device_raw", "guide", "headings", "context", "batch", "other_axes", "precision", "engine",
        "value", "unit",
    ),
)  # fmt: skip
_DEVICES: Mapping[str, str] = MappingProxyType(
    {"T4": "T4", "V100": "V100-PCIe-16GB", "A100": "A100-SXM4-40GB"}
)
_PRECISION: Mapping[str, Precision] = MappingProxyType(
    {"FP32": Precision.FP32, "TF32": Precision.TF32, "FP16": Precision.FP16}
)
#: Columns of a framework, and the words of a job for it; the PyTorch is that which
#: FasterTransformer was verified with.
_ENGINES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "TF Latency (ms)": {"framework": Framework.TENSORFLOW.value},
        **dict.fromkeys(
            ("TorchScript Latency (ms)", "torch.jit.trace", "torch latency(ms)"), {"torch": "1.8.0"}
        ),
    }
)
_BERT: Mapping[str, Any] = MappingProxyType({"model_type": "bert", "architectures": ["BertModel"]})


def read_fastertransformer(path: Path) -> Imported:
    """Read the table, or that of a folder; one step a cell."""
    steps, rejected = TABLE.records(path, _step)
    return Imported(steps=one_record_each(steps), rejected=rejected)


def _step(row: Row, origin: Origin) -> PublishedStep:
    guide, engine = text(row, "guide"), text(row, "engine")
    if guide not in ("bert", "vit", "swin"):
        raise ValueError(f"guide {guide}: a loop over tokens, or no GPU is named")
    if engine not in _ENGINES:
        raise ValueError("FasterTransformer's own kernels, or a column of ratios and slices")
    device, word = text(row, "device_raw"), text(row, "precision")
    if device not in _DEVICES or word not in _PRECISION:
        raise ValueError(f"device {device!r} in {word!r} is not understood")
    batch = count(row, "batch")
    job = Job(
        **_model(guide, row),
        mode=Mode.INFERENCE,
        batch_size=batch,
        precision=_PRECISION[word],
        software=dict(_ENGINES[engine]),
    )
    return PublishedStep(
        job=job,
        accelerator=_DEVICES[device],
        samples_per_second=batch / (positive(row, "value") * 1e-3),
        origin=origin,
    )


def _model(guide: str, row: Row) -> Mapping[str, Any]:
    if guide == "vit":
        return {"model": "timm/vit_base_patch16_384"}
    if guide == "swin":
        second = "Swin-V2" in text(row, "headings")
        name = "swinv2_tiny_window8_256" if second else "swin_tiny_patch4_window7_224"
        return {"model": f"timm/{name}"}
    return {"hf_config": _BERT, "sequence_length": int(text(row, "other_axes").split("=")[-1])}
