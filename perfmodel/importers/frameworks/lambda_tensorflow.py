"""Import the logs of lambdal/lambda-tensorflow-benchmark: image classifiers on 1 to 8 GPUs.

``lambda_tensorflow.parquet`` has a row a run of ``tf_cnn_benchmarks``: model, mode, precision,
batch of a GPU, GPUs, links, images a second of the whole job. One GPU gives a step, several a
placement of replicas, whose ``settings`` say how they shared variables. Steps of one GPU stand in
``cnn_steps.parquet`` as well (format ``cnn-steps``, which training takes): they are read here to
be judged beside those of several.

``fp32`` is ``tf32`` where the release used it unasked. The link is NVLink where the row says so,
what the cards have by themselves (SXM), or none.

Left out, with the reason: XLA, which is another compiler; input from disk, which is what bounds
half of those runs; parameters on a server; AlexNet, for which no reference workload stands; names
of cards of which the catalogue knows none.

Reference: lambdal/lambda-tensorflow-benchmark, BSD-3-Clause.
"""

from __future__ import annotations

from pathlib import Path

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.importers.jobs.cnn_steps import DEVICES, MODELS, uses_tf32
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, steps_alone
from perfmodel.importers.repeats import one_record_each
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.types import Framework, Mode, Precision

TABLE = PublicTable(
    files=("lambda_tensorflow.parquet", "lambda_tensorflow.csv"),
    source="lambdal/lambda-tensorflow-benchmark logs",
    licence="BSD-3-Clause",
    columns=(
        "device", "xla", "nvlink", "data", "update", "precision", "n_gpus", "mode", "model",
        "batch_per_gpu", "images_per_s", "tf_version",
    ),
)  # fmt: skip
_PRECISION = {"fp32": Precision.FP32, "fp16": Precision.FP16}
_MODE = {"train": Mode.TRAINING, "infer": Mode.INFERENCE}


def read_lambda_tensorflow(path: Path) -> Imported:
    """Read the table, or that of a folder; a step or a placement a row."""
    runs, rejected = TABLE.records(path, _run)
    several = [run for run in runs if run.placement.accelerator_count > 1]
    return Imported(
        steps=one_record_each(steps_alone(runs)),
        placements=tuple(several),
        rejected=rejected,
    )


def _run(row: Row, origin: Origin) -> PublishedPlacement:
    if str(row["xla"]).lower() == "true":
        raise ValueError("XLA is another compiler")
    if text(row, "data") != "syn":
        raise ValueError("input from disk, which may be what bounded it")
    if text(row, "update") != "replicated":
        raise ValueError("parameters on a server")
    gpus, name = count(row, "n_gpus"), text(row, "device")
    spec = Catalog.default().get(DEVICES.get(name, name))
    job = _job(row, supports_tf32=spec.supports(Precision.TF32))
    link = "nvlink" if str(row["nvlink"]).lower() == "true" and gpus > 1 else None
    return PublishedPlacement(
        job=job,
        job_type=text(row, "model"),
        batch_size=job.batch_size,
        placement=Placement(
            nodes=(Node(accelerator=spec.name, count=gpus, link=link),), plan=Plan(data=gpus)
        ),
        step_time_s=gpus * job.batch_size / positive(row, "images_per_s"),
        origin=origin,
        settings={"update": text(row, "update"), "data": text(row, "data")},
    )


def _job(row: Row, *, supports_tf32: bool) -> Job:
    key = text(row, "model")
    if key not in MODELS:
        raise ValueError(f"no reference workload stands for {key!r}")
    release = text(row, "tf_version")
    software = {"framework": Framework.TENSORFLOW.value, "tensorflow": release}
    precision = _PRECISION[text(row, "precision")]
    if precision is Precision.FP32 and supports_tf32 and uses_tf32(software):
        precision = Precision.TF32
    return Job(
        model=MODELS[key],
        mode=_MODE[text(row, "mode")],
        batch_size=count(row, "batch_per_gpu"),
        precision=precision,
        software=software,
    )
