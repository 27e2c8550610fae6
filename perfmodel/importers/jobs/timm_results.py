"""Import the benchmark tables of pytorch-image-models (``results/benchmark-*.csv``).

The file name says what ran::

    benchmark-{infer|train}-{fp32|amp|amp_bf16|bf16}-{nchw|nhwc}-pt{NNN}-{cuNNN|cpu}-{device}
    [-dynamo].csv

``pt240`` is PyTorch 2.4.0 and ``pt113`` PyTorch 1.13; ``cu124`` is CUDA 12.4. ``amp`` is fp16
autocast. ``dynamo`` means compiled with inductor.

Reference: huggingface/pytorch-image-models, ``results/README.md``, Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import (
    PublicTable,
    Row,
    count,
    find_tables,
    positive,
    read_rows,
    text,
)
from perfmodel.importers.published import Imported, Origin, PublishedStep, RejectedRow
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

TABLE = PublicTable(
    files=("benchmark-*.csv",),
    source="huggingface/pytorch-image-models results/",
    licence="Apache-2.0",
    columns=(),
)
#: Tables of several such files.
RELEASES = ("timm_rtx3090_old_versions.parquet", "timm_rtx3090_old_versions.csv")

_NAME = re.compile(
    r"benchmark-(?P<mode>infer|train)-(?P<precision>[a-z0-9_]+)-(?P<layout>nchw|nhwc)"
    r"-pt(?P<torch>\d{3})-(?P<cuda>cu\d{3}|cpu)-(?P<device>[a-z0-9_]+)(?P<dynamo>-dynamo)?\.csv"
)
_MODE = {"infer": Mode.INFERENCE, "train": Mode.TRAINING}
_PRECISION = {
    "fp32": Precision.FP32,
    "amp": Precision.AMP_FP16,
    "amp_bf16": Precision.AMP_BF16,
    "bf16": Precision.BF16,
}
_LAYOUT = {"nchw": MemoryFormat.CHANNELS_FIRST, "nhwc": MemoryFormat.CHANNELS_LAST}

#: Catalogue names of devices that the published file names spell in their own way; any other
#: word is looked up in the catalogue, as it stands and as a GeForce card.
DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "rtx3090": "RTX-3090",
        "rtx4090": "RTX-4090",
        "4090": "RTX-4090",
        "pro6000maxq": "RTX-PRO-6000-Max-Q",
        "i9_10940x": "Core-i9-10940X",
    }
)


def read_timm(path: Path) -> Imported:
    """Read one benchmark table, or every one of a folder; one step a row."""
    files = find_tables(path, TABLE.files)
    return _imported((file.name, TABLE.rows(file)) for file in files)


def read_timm_releases(path: Path) -> Imported:
    """Read one table of the rows of several files, whose names stand in its column ``file``."""
    table = find_tables(path, RELEASES)[0]
    by_file: dict[str, list[tuple[int, Row]]] = {}
    for line, row in read_rows(table, ("file", "model")):
        by_file.setdefault(text(row, "file"), []).append((line, row))
    return _imported(by_file.items())


def _imported(files: Iterable[tuple[str, Iterable[tuple[int, Row]]]]) -> Imported:
    steps: list[PublishedStep] = []
    rejected: list[RejectedRow] = []
    for name, rows in files:
        made, others = _steps(name, rows)
        steps += made
        rejected += others
    return Imported(steps=tuple(steps), rejected=tuple(rejected))


def torch_version(digits: str) -> str:
    """Return the PyTorch version that three digits of a file name stand for.

    Examples
    --------
    >>> torch_version("113"), torch_version("240")
    ('1.13', '2.4.0')
    """
    return f"1.{digits[1:]}" if digits[0] == "1" else ".".join(digits)


def accelerator_named(word: str) -> str | None:
    """Return the catalogue name of the device in a file name; None where there is none.

    Examples
    --------
    >>> accelerator_named("4090"), accelerator_named("rtx5090"), accelerator_named("t4")
    ('RTX-4090', 'RTX-5090', 'T4')
    >>> accelerator_named("abacus") is None
    True
    """
    if word in DEVICES:
        return DEVICES[word]
    catalog = Catalog.default()
    for spelling in (word, word.replace("_", "-"), f"RTX-{word}", word.replace("rtx", "RTX-")):
        try:
            return catalog.get(spelling).name
        except UnknownAcceleratorError:
            continue
    return None


def _steps(
    file: str, rows: Iterable[tuple[int, Row]]
) -> tuple[list[PublishedStep], tuple[RejectedRow, ...]]:
    match = _NAME.fullmatch(file)
    accelerator = accelerator_named(match["device"]) if match else None
    if match is None or match["precision"] not in _PRECISION or accelerator is None:
        reason = "the file name does not say mode, precision, layout, versions and a known device"
        return [], (RejectedRow(file=file, line=0, reason=reason),)
    return TABLE.understood(file, rows, lambda row, origin: _step(row, match, accelerator, origin))


def _step(row: Row, match: re.Match[str], accelerator: str, origin: Origin) -> PublishedStep:
    prefix = match["mode"]
    software = {"torch": torch_version(match["torch"])}
    if match["cuda"] != "cpu":
        software["cuda"] = f"{match['cuda'][2:4]}.{match['cuda'][4]}"
    job = Job(
        model=f"timm/{text(row, 'model')}",
        model_kwargs={"img_size": count(row, f"{prefix}_img_size")},
        mode=_MODE[prefix],
        batch_size=count(row, f"{prefix}_batch_size"),
        precision=_PRECISION[match["precision"]],
        memory_format=_LAYOUT[match["layout"]],
        compiler=Compiler.INDUCTOR if match["dynamo"] else Compiler.EAGER,
        software=software,
    )
    return PublishedStep(
        job=job,
        accelerator=accelerator,
        samples_per_second=positive(row, f"{prefix}_samples_per_sec"),
        origin=origin,
        # Published in millions.
        parameter_count=1e6 * positive(row, "param_count") if row.get("param_count") else None,
    )
