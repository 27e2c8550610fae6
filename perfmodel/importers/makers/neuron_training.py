"""Training on Trainium, as the pages of AWS Neuron state it: replicas, or a split over cores.

A ``trn1.32xlarge`` has sixteen chips of two cores, and the pages count cores. Replicas of
BERT-Large and ViT-Base fill a core each, so that a chip has two of their micro-batches::

    batch of a chip = 2 * micro-batch
    micro-batches   = global batch / (cores * micro-batch)

Tensor ranks are an even number of cores, so that a chip is one rank of half as many; replicas share
out the optimizer, as in every recipe of Megatron. ``BF16+SR`` keeps weights in
bf16 and rounds at random (``bf16``), ``BF16+FP32Optimizer`` and ``AMP`` keep them in fp32 beside
(``amp_bf16``). The second phase of BERT reads 512 tokens, the first 128.

Left out, with the reason: degrees that do not come to the cores, models without a reference, rows
that do not name their optimizer, or their sequence where the model does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.language_models.cluster_models import cluster_model
from perfmodel.importers.language_models.cluster_run import ClusterRun
from perfmodel.importers.public_tables import Row, count, positive, text
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.types import Compiler, Mode, Precision

ACCELERATOR = "Trainium1"
_CHIPS, _CORES = 16, 2
_PRECISION: Mapping[str, Precision] = MappingProxyType(
    {
        "FP32": Precision.FP32,
        "BF16+SR": Precision.BF16,
        "Autocast:BF16+SR": Precision.BF16,
        "Autocast:BF16/AMP": Precision.AMP_BF16,
        "Autocast:Amp": Precision.AMP_BF16,
        "Autocast:BF16+FP32Optimizer": Precision.AMP_BF16,
    }
)
_BERT_LARGE: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "bert", "architectures": ["BertForPreTraining"], "hidden_size": 1024,
        "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    }
)  # fmt: skip
_REPLICATED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "HuggingFace BERT-Large Ph1 pre-training": {
            "hf_config": _BERT_LARGE, "sequence_length": 128,
        },
        "HuggingFace BERT-Large Ph2 pre-training": {
            "hf_config": _BERT_LARGE, "sequence_length": 512,
        },
        "HuggingFace ViT-Base fine-tuning": {"model": "timm/vit_base_patch16_224"},
    }
)  # fmt: skip
_DEGREES = re.compile(r"(TP|DP|PP)=(\d+)")


def training_placement(row: Row, origin: Origin) -> PublishedPlacement:
    """Return the record of a row of training; ValueError with the reason where there is none."""
    name, topology = text(row, "Model"), text(row, "Topology")
    if "32xNC(DP)" in topology:
        return _replicas(row, name, origin)
    return _split(row, name.removesuffix(" pre-training"), topology).record(origin)


def _replicas(row: Row, name: str, origin: Origin) -> PublishedPlacement:
    if name not in _REPLICATED:
        raise ValueError(f"no reference stands for the model {name!r}")
    nodes, micro = count(row, "Nodes"), count(row, "Microbatch")
    chips = nodes * _CHIPS
    total = _total(row)
    steps, rest = divmod(total, chips * _CORES * micro)
    if rest or not steps:
        raise ValueError(f"a batch of {total} does not divide over {chips} chips")
    job = Job(
        **_REPLICATED[name],
        mode=Mode.TRAINING,
        batch_size=_CORES * micro,
        accumulation_steps=steps,
        precision=_precision(row),
        optimizer=text(row, "Optimizer").lower(),
        compiler=Compiler.INDUCTOR,
        software={"neuron": text(row, "Neuron Version")},
    )
    return PublishedPlacement(
        job=job,
        job_type=name,
        batch_size=job.batch_size,
        placement=Placement(
            nodes=(Node(accelerator=ACCELERATOR, count=_CHIPS, repeat=nodes),),
            plan=Plan(data=chips),
        ),
        step_time_s=total / positive(row, "Performance [seq/sec]"),
        origin=origin,
    )


def _split(row: Row, name: str, topology: str) -> ClusterRun:
    degrees = {key: int(value) for key, value in _DEGREES.findall(topology)}
    tensor, chips = degrees.get("TP", 1), count(row, "Nodes") * _CHIPS
    cores = tensor * degrees.get("DP", 1) * degrees.get("PP", 1)
    if cores != _CORES * chips or tensor % _CORES:
        raise ValueError(f"{topology} does not come to the {_CORES * chips} cores of {chips} chips")
    length = count(row, "Sequence Length")
    return ClusterRun(
        model=cluster_model(name),
        name=name,
        accelerator=ACCELERATOR,
        accelerators=chips,
        global_batch=_total(row),
        micro_batch=count(row, "Microbatch"),
        sequence_length=length,
        precision=_precision(row),
        tokens_per_s=positive(row, "Performance [seq/sec]") * length,
        tensor=tensor // _CORES,
        pipeline=degrees.get("PP", 1),
        compiler=Compiler.INDUCTOR,
        software={"neuron": text(row, "Neuron Version")},
    )


def _total(row: Row) -> int:
    return count(row, "Global Minibatch" if row.get("Global Minibatch") else "Globalbatch")


def _precision(row: Row) -> Precision:
    stated = text(row, "Training Data-Type")
    if stated not in _PRECISION:
        raise ValueError(f"precision {stated!r} is not understood")
    return _PRECISION[stated]
