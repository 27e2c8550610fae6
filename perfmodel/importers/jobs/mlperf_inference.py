"""Import the inference results of MLPerf: tuned engines, mostly TensorRT in int8.

``mlperf_inference.parquet`` has a row for each valid run of the closed division. Read are runs of
TensorRT on NVIDIA GPUs at their usual power limit, not on slices of them:

* *Offline*, where engines take as many samples at once as suits them: a step of
  :data:`OFFLINE_BATCH` samples at the rate of one accelerator;
* *SingleStream* on one accelerator: a step of one sample at its mean latency.

Runs of one accelerator, model and type are one record: the median of the medians of the rounds.

The rows of BERT pad nothing: a sequence counts with :data:`_SQUAD_TOKENS` tokens, about the mean of
what is asked, not with the 384 of the longest. On Hopper the answers of 99.9 % of BERT run in fp8,
though the rows name the type of the weights that were handed in, fp16.

Left out: models for which no reference workload stands, runs whose type is not stated.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedStep
from perfmodel.types import Compiler, Mode, Precision

TABLE = PublicTable(
    files=("mlperf_inference.parquet", "mlperf_inference.csv"),
    source="mlcommons/inference_results_*",
    licence="Apache-2.0",
    columns=(
        "device", "n_devices", "round", "model", "scenario", "valid", "framework", "weight_dtype",
        "offline_per_device", "batch1_latency_ms_derived", "maxq", "mig",
    ),
)  # fmt: skip
#: Samples that stand for as many at once as suit an engine.
OFFLINE_BATCH = 1024

#: Tokens of a sequence without padding, about the mean of the questions of SQuAD.
_SQUAD_TOKENS = 180
_BERT = ("zoo/bert-large-squad", _SQUAD_TOKENS)
#: Reference workload and length of the models of the table.
MODELS: Mapping[str, tuple[str, int | None]] = MappingProxyType(
    {
        "resnet50": ("zoo/resnet50-v1.5", None),
        "resnet": ("zoo/resnet50-v1.5", None),
        "bert-99": _BERT,
        "bert-99.9": _BERT,
    }
)
_TYPES = {"int8": Precision.INT8, "int8,fp16": Precision.INT8, "fp16": Precision.FP16,
          "fp8": Precision.FP8}  # fmt: skip
#: What must reproduce 99.9 % of the accuracy of fp32 did not run in int8.
_EXACT = "bert-99.9"
_SCENARIOS = ("Offline", "SingleStream")


class _Run(NamedTuple):
    job: Job
    accelerator: str
    round: str
    samples_per_second: float
    origin: Origin


def read_mlperf_inference(path: Path) -> Imported:
    """Read the table of runs, or that of a folder; one step for each job on an accelerator."""
    runs, rejected = TABLE.records(path, _run, _is_wanted)
    together: dict[tuple[str, str, int, Precision], list[_Run]] = {}
    for run in runs:
        job = run.job
        key = (job.model or "", run.accelerator, job.batch_size, job.precision)
        together.setdefault(key, []).append(run)
    return Imported(steps=tuple(map(_step, together.values())), rejected=rejected)


def _is_wanted(row: Row) -> bool:
    alone = row["scenario"] != "SingleStream" or row["n_devices"] in (1, 1.0, "1", "1.0")
    limited = {str(row[name]).lower() for name in ("maxq", "mig")} != {"false"}
    engine = "TensorRT" in str(row["framework"])
    return row["scenario"] in _SCENARIOS and row["valid"] == "VALID" and engine and alone and (
        not limited
    )  # fmt: skip


def _run(row: Row, origin: Origin) -> _Run:
    name = text(row, "model")
    if name not in MODELS:
        raise ValueError(f"no reference workload stands for {name!r}")
    model, length = MODELS[name]
    spec = _device(text(row, "device"))
    offline = text(row, "scenario") == "Offline"
    if offline:
        rate = positive(row, "offline_per_device")
    else:
        rate = 1e3 / positive(row, "batch1_latency_ms_derived")
    job = Job(
        model=model,
        mode=Mode.INFERENCE,
        batch_size=OFFLINE_BATCH if offline else 1,
        precision=_precision(name, text(row, "weight_dtype").lower(), spec),
        compiler=Compiler.TENSORRT,
        sequence_length=length,
    )
    count(row, "n_devices")
    return _Run(job, spec.name, text(row, "round"), rate, origin)


@cache
def _device(written: str) -> AcceleratorSpec:
    spec = Catalog.default().get(written)
    if (spec.vendor, spec.kind) != ("NVIDIA", "gpu"):
        raise ValueError(f"{written!r} is no NVIDIA GPU")
    return spec


def _precision(name: str, written: str, spec: AcceleratorSpec) -> Precision:
    if written not in _TYPES:
        raise ValueError(f"the type {written!r} is not understood")
    if name != _EXACT:
        return _TYPES[written]
    return Precision.FP8 if spec.architecture.startswith("Hopper") else Precision.FP16


def _step(runs: list[_Run]) -> PublishedStep:
    rounds: dict[str, list[float]] = {}
    for run in runs:
        rounds.setdefault(run.round, []).append(run.samples_per_second)
    rates = [run.samples_per_second for run in runs]
    middle = statistics.median(statistics.median(of_round) for of_round in rounds.values())
    return PublishedStep(
        job=runs[0].job,
        accelerator=runs[0].accelerator,
        samples_per_second=middle,
        origin=runs[0].origin,
        repeats=len(rates),
        spread=(max(rates) - min(rates)) / middle,
    )
