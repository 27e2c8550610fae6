"""Import the iteration times that vTrain was validated on (``ground_truth_single.csv``).

One row is one training iteration of a GPT on 2 to 8 A100 of one node: sizes of the model, global
and micro batch, the split into tensor, data and pipeline parallelism, milliseconds.

What the table does not say comes from the configurations published beside it
(``config/validation/single``): activations are recomputed in the backward pass. Training is that
of Megatron: fp16 with Adam. The memory of the A100 is not stated; 80 GB is taken.

Reference: VIA-Research/vTrain, ``data/``, MIT.
"""

from __future__ import annotations

from pathlib import Path

from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, positive
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, steps_alone
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.types import Mode, Precision

ACCELERATOR = "A100-SXM4-80GB"

_GPUS = "# GPUs"
_TIME = "iteration time (ms)"
TABLE = PublicTable(
    files=("ground_truth_single.csv", "data/ground_truth_single.csv"),
    source="VIA-Research/vTrain data/",
    licence="MIT",
    columns=(
        _GPUS, "global batch", "micro batch", "hidden size", "attention heads", "# layers",
        "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism", _TIME,
    ),
)  # fmt: skip
_MOST_OF_A_NODE = 8


def read_vtrain(path: Path) -> Imported:
    """Read the single-node table; rows on one accelerator are steps as well.

    Parameters
    ----------
    path : Path
        ``ground_truth_single.csv``, its folder, or a clone of the repository.
    """
    placements, rejected = TABLE.records(path, _placement)
    return Imported(steps=steps_alone(placements), placements=tuple(placements), rejected=rejected)


def _placement(row: Row, origin: Origin) -> PublishedPlacement:
    gpus = count(row, _GPUS)
    plan = Plan(
        data=count(row, "data parallelism"),
        tensor=count(row, "tensor parallelism"),
        pipeline=count(row, "pipeline parallelism"),
    )
    if gpus > _MOST_OF_A_NODE:
        raise ValueError(f"{gpus} GPUs do not fit one node of {_MOST_OF_A_NODE}")
    if (product := (plan.data or 1) * plan.tensor * plan.pipeline) != gpus:
        raise ValueError(f"the plan needs {product} GPUs, the row names {gpus}")
    job = _job(row, data=plan.data or 1)
    if int(job.model_kwargs["num_layers"]) % plan.pipeline:
        raise ValueError("the layers do not divide into the pipeline stages")
    return PublishedPlacement(
        job=job,
        job_type="megatron-gpt",
        batch_size=job.batch_size,
        placement=Placement(nodes=(Node(accelerator=ACCELERATOR, count=gpus),), plan=plan),
        step_time_s=positive(row, _TIME) / 1e3,
        origin=origin,
        settings={"recomputation": "full", "schedule": "1f1b"},
    )


def _job(row: Row, *, data: int) -> Job:
    global_batch, micro_batch = count(row, "global batch"), count(row, "micro batch")
    if global_batch % (micro_batch * data):
        raise ValueError(
            f"a global batch of {global_batch} is no multiple of {data} x {micro_batch}"
        )
    return Job(
        model="zoo/megatron-gpt",
        model_kwargs={
            "num_layers": count(row, "# layers"),
            "hidden_size": count(row, "hidden size"),
            "num_heads": count(row, "attention heads"),
        },
        mode=Mode.TRAINING,
        batch_size=micro_batch,
        accumulation_steps=global_batch // (micro_batch * data),
        precision=Precision.FP16,
        optimizer="adam",
        sequence_length=count(row, "sequence length"),
        activation_checkpointing=True,
    )
