r"""Import published training rates of language models on clusters.

One row is one run: a model, accelerators, how they were used, and a rate in one of three units.
Rows of NVIDIA/Megatron-LM state sizes and plan; those of MaxText and tpu-recipes name the model,
and what they leave out is in :mod:`.llm_training_runs`.

The step takes, in this order, ``step_time_s``; the tokens of a step over ``tok_s_per_dev`` and the
accelerators; or the arithmetic over ``tflops_per_dev`` and the accelerators. Arithmetic of kind
``model`` is that of a forward and a backward pass with the whole square of the scores. A kind that
counts recomputation counts the layers a fourth time.

TPUs are counted in chips. A slice is taken as one host of chips; slices have the rate of the data
centre's network that their makers state for a chip.

Left out, each with its reason: rows that state neither a batch nor a time of a step, models of
unlike layers, accelerators without a name, rates that contradict each other.

Reference: NVIDIA/Megatron-LM (BSD-like), AI-Hypercomputer/maxtext, AI-Hypercomputer/tpu-recipes
(Apache-2.0), Ascend/ModelLink (mixed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.language_models.llm_training_runs import RUNS, Run, config_of, plain_name
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan, Schedule
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Mode, Precision

#: Further columns are read where they are filled; rows say their source.
TABLE = PublicTable(
    files=("llm_training_misc.csv",),
    source="",
    licence="not stated",
    columns=("source", "src", "device", "framework", "model", "precision", "num_devices"),
)

_PRECISION = {"bf16": Precision.AMP_BF16, "fp16": Precision.AMP_FP16, "fp8": Precision.FP8}
#: What a table calls an accelerator begins so.
_DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "A100": "A100-SXM4-80GB",
        "NVIDIA-A100": "A100-SXM4-80GB",
        "H100": "H100-SXM5-80GB",
        "NVIDIA-H100": "H100-SXM5-80GB",
        "H200": "H200-SXM-141GB",
        "B200": "B200-SXM",
        "TPU-v4": "TPU-v4",
        "TPU-v5e": "TPU-v5e",
        "TPU-v5p": "TPU-v5p",
        "TPU-v6e": "TPU-v6e",
        "TPU-v7": "TPU-v7x",
        "TPU7x": "TPU-v7x",
        "Ascend-910B": "Ascend-910B",
    }
)
_LICENCES = {"maxtext": "Apache-2.0", "tpu-recipes": "Apache-2.0", "Megatron": "BSD-3-Clause"}
#: Chips of one slice, and bit/s of the data centre's network for each: v5e two adapters of
#: 100 Gbit/s for eight chips, v5p 50 and v6e 100 Gbit/s a chip as in the makers' tables; v4 is
#: taken as v5e.
_SLICES: Mapping[str, tuple[int, float]] = MappingProxyType(
    {"TPU-v4": (4096, 25e9), "TPU-v5e": (256, 25e9), "TPU-v5p": (8960, 50e9),
     "TPU-v6e": (256, 100e9), "TPU-v7x": (9216, 100e9)}
)  # fmt: skip
_NETWORK_LATENCY_S = 3e-5
_OF_A_HOST, _CHIPS_OF_A_HOST = 8, 4
_MEGATRON_WORDS = 51200
#: Rates of one row that differ by more contradict each other.
_CONTRADICTION = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class _Split:
    """How a row uses its accelerators."""

    plan: Plan
    micro_batch: int
    micro_batches: int
    checkpointing: str
    offloads: bool = False

    @property
    def samples(self) -> int:
        return (self.plan.data or 1) * self.micro_batch * self.micro_batches


def read_llm_training(path: Path) -> Imported:
    """Read the table of published training rates, or that of a folder; one placement a row."""
    placements, rejected = TABLE.records(path, _placement)
    return Imported(placements=tuple(placements), rejected=rejected)


def _placement(row: Row, origin: Origin) -> PublishedPlacement:
    device, devices = _device(row), count(row, "num_devices")
    is_stated = _has(row, "hidden") and _has(row, "layers")
    split = _stated_split(row, devices) if is_stated else _known_split(row, device, devices)
    job = _job(row, device, split)
    source = text(row, "src")
    licence = next((terms for word, terms in _LICENCES.items() if word in source), origin.licence)
    return PublishedPlacement(
        job=job,
        job_type=plain_name(text(row, "model")),
        batch_size=job.batch_size,
        placement=_hosts(row, device, devices, split.plan),
        step_time_s=_step_time_s(row, job, split, devices),
        origin=replace(origin, source=source, licence=licence),
        settings={
            "framework": text(row, "framework"),
            "source": text(row, "source"),
            "recomputation": split.checkpointing,
            "offloads": str(split.offloads).lower(),
        },
    )


def _device(row: Row) -> str:
    written = text(row, "device")
    named = written.replace(" ", "-")
    found = [name for name in _DEVICES if named.startswith(name)]
    if not found:
        raise ValueError(f"the accelerator {written!r} is not named")
    known = _DEVICES[max(found, key=len)]
    return "A100-SXM4-40GB" if "40GB" in named and "A100" in named else known


def _stated_split(row: Row, devices: int) -> _Split:
    """Return the split of a row that states its degrees and its batch."""
    tensor, pipeline, context = (_degree(row, name) for name in ("tp", "pp", "cp"))
    split = tensor * pipeline * context
    if devices % split:
        raise ValueError(f"{devices} accelerators are no multiple of a split over {split}")
    data = devices // split
    if _has(row, "dp") and count(row, "dp") != data:
        raise ValueError(f"the plan has {count(row, 'dp') * split} accelerators, not {devices}")
    micro_batch, micro_batches = _micro_batches(row, data)
    chunks = _degree(row, "vp")
    again = _recomputation(row)
    plan = Plan(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        schedule=Schedule.INTERLEAVED if chunks > 1 and pipeline > 1 else Schedule.ONE_F_ONE_B,
        virtual_stages=chunks if pipeline > 1 else 1,
        # Megatron splits the sequence wherever it recomputes attention alone or nothing.
        sequence_parallel=tensor > 1 and again != "full",
    )
    return _Split(
        plan=plan, micro_batch=micro_batch, micro_batches=micro_batches, checkpointing=again
    )


def _micro_batches(row: Row, data: int) -> tuple[int, int]:
    samples = count(row, "global_batch")
    if samples % data:
        raise ValueError(f"a global batch of {samples} is no multiple of {data} replicas")
    each = samples // data
    if _has(row, "micro_batch"):
        size = count(row, "micro_batch")
    elif _has(row, "grad_accum"):
        size = max(each // count(row, "grad_accum"), 1)
    else:
        raise ValueError("neither the micro-batch nor how many there are is stated")
    if each % size:
        raise ValueError(f"{each} sequences of a replica are no multiple of {size}")
    return size, each // size


def _recomputation(row: Row) -> str:
    kind = str(row.get("flops_kind") or "")
    note = f"{row.get('note') or ''} {row.get('model') or ''}".lower()
    if "selective" in note:
        return "attention"
    if _has(row, "mfu_pct") and _has(row, "hfu_pct"):
        more = positive(row, "hfu_pct") / positive(row, "mfu_pct")
        return "full" if more > 1.15 else "attention" if more > 1.0 else "none"
    return "full" if _counts_recomputation(kind) else "none"


def _counts_recomputation(kind: str) -> bool:
    return any(word in kind.lower() for word in ("hardware", "hfu", "recompute"))


def _known_split(row: Row, device: str, devices: int) -> _Split:
    """Return the split of a run whose scripts are known."""
    name = plain_name(text(row, "model"))
    config_of(name)
    run = RUNS.get((device, name))
    if run is None:
        raise ValueError("the parallel plan and the batch are not stated")
    if _has(row, "seq_len") and count(row, "seq_len") != run.sequence_length:
        raise ValueError("sequences of another length than in the scripts")
    split = run.tensor * run.pipeline
    if devices % split:
        raise ValueError(f"{devices} accelerators are no multiple of a split over {split}")
    data = devices // split
    micro_batch, micro_batches = _batches_of(row, run, devices, data)
    # Tensor ranks there share out what lies between layers as well.
    plan = Plan(
        data=data,
        tensor=run.tensor,
        pipeline=run.pipeline,
        schedule=Schedule.INTERLEAVED if run.virtual_stages > 1 else Schedule.ONE_F_ONE_B,
        virtual_stages=run.virtual_stages,
        zero_stage=run.zero_stage,
        sequence_parallel=run.tensor > 1,
    )
    return _Split(
        plan=plan,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        checkpointing=run.recompute,
        offloads=run.offloads,
    )


def _batches_of(row: Row, run: Run, devices: int, data: int) -> tuple[int, int]:
    """Return the micro-batch of a replica, and how many it works on in a step."""
    if run.micro_batch is not None and run.global_batch is not None:
        each, rest = divmod(run.global_batch, data * run.micro_batch)
        if rest:
            raise ValueError(f"the batch of the scripts does not divide over {data} replicas")
        return run.micro_batch, each
    if _has(row, "tokens_per_step"):
        chip_batch = positive(row, "tokens_per_step") / devices / run.sequence_length
        if chip_batch != round(chip_batch):
            raise ValueError("the tokens of a step are no whole sequences for each chip")
        return round(chip_batch) * run.tensor, 1
    if run.chip_batch is None:
        raise ValueError("the batch is not stated")
    return run.chip_batch * run.tensor, 1


def _job(row: Row, device: str, split: _Split) -> Job:
    return Job(
        **_model(row),
        mode=Mode.TRAINING,
        batch_size=split.micro_batch,
        accumulation_steps=split.micro_batches,
        precision=_precision(row),
        optimizer="adamw",
        sequence_length=_sequence_length(row, device),
        activation_checkpointing=split.checkpointing == "full",
        selective_checkpointing=split.checkpointing == "attention",
    )


def _precision(row: Row) -> Precision:
    word = text(row, "precision").rstrip("?").lower()
    if word not in _PRECISION:
        raise ValueError(f"precision is {word!r}; understood are {', '.join(_PRECISION)}")
    return _PRECISION[word]


def _sequence_length(row: Row, device: str) -> int:
    if _has(row, "hidden") and _has(row, "layers"):
        return count(row, "seq_len")
    return RUNS[device, plain_name(text(row, "model"))].sequence_length


def _model(row: Row) -> Mapping[str, Any]:
    """Return the fields of the job that name the model."""
    if not (_has(row, "hidden") and _has(row, "layers")):
        return {"hf_config": dict(config_of(text(row, "model")))}
    name = plain_name(text(row, "model"))
    if "llama" in name or "mixtral" in name:
        return {"hf_config": _checked(row, dict(config_of(name)))}
    sizes = {
        "num_layers": count(row, "layers"),
        "hidden_size": count(row, "hidden"),
        "num_heads": count(row, "heads"),
        "vocab_size": count(row, "vocab") if _has(row, "vocab") else _MEGATRON_WORDS,
        "max_positions": count(row, "seq_len"),
    }
    return {"model": "zoo/megatron-gpt", "model_kwargs": sizes}


def _checked(row: Row, config: dict[str, Any]) -> dict[str, Any]:
    stated = (count(row, "layers"), count(row, "hidden"))
    if stated != (config["num_hidden_layers"], config["hidden_size"]):
        raise ValueError("the sizes are not those of the model that is named")
    return config


def _hosts(row: Row, device: str, devices: int, plan: Plan) -> Placement:
    if device not in _SLICES:
        own = min(devices, _OF_A_HOST)
        if devices % own:
            raise ValueError(f"{devices} accelerators are no whole hosts of {own}")
        node = Node(accelerator=device, count=own, repeat=devices // own)
        return Placement(nodes=(node,), plan=plan)
    most, bits_per_s = _SLICES[device]
    slices = count(row, "num_slices") if _has(row, "num_slices") else math.ceil(devices / most)
    if devices % slices:
        raise ValueError(f"{devices} chips are no {slices} equal slices")
    chips = devices // slices
    if slices == 1:
        own = min(chips, _CHIPS_OF_A_HOST)
        node = Node(accelerator=device, count=own, repeat=chips // own)
        return Placement(nodes=(node,), plan=plan)
    network = Network(
        bandwidth_bytes_per_s=chips * bits_per_s / 8,
        latency_s=_NETWORK_LATENCY_S,
        rails=chips // _CHIPS_OF_A_HOST,
    )
    node = Node(accelerator=device, count=chips, repeat=slices)
    return Placement(nodes=(node,), network=network, plan=plan)


def _step_time_s(row: Row, job: Job, split: _Split, devices: int) -> float:
    """Return the time of a step by the first unit that is stated; the others must agree."""
    shape = transformer_shape(job)
    if shape is None:
        raise ValueError("the sizes of the model are not understood")
    found = []
    tokens = split.samples * shape.sequence_length
    if _has(row, "step_time_s"):
        found.append(positive(row, "step_time_s"))
    if _has(row, "tok_s_per_dev"):
        found.append(tokens / (positive(row, "tok_s_per_dev") * devices))
    if not found and _has(row, "tflops_per_dev"):
        flops = split.samples * shape.sample_flops
        if _counts_recomputation(str(row.get("flops_kind") or "")):
            words = 6 * tokens * shape.vocabulary * shape.hidden_size
            flops = (flops - words) * 4 / 3 + words
        found.append(flops / (positive(row, "tflops_per_dev") * 1e12 * devices))
    if not found:
        raise ValueError("neither a time nor a rate of a step is stated")
    if max(found) > (1 + _CONTRADICTION) * min(found):
        raise ValueError("the time of a step and the rate of tokens contradict each other")
    if "inconsistent" in str(row.get("note") or ""):
        raise ValueError("the rate contradicts the utilisation beside it")
    return found[0]


def _degree(row: Row, name: str) -> int:
    return count(row, name) if _has(row, name) else 1


def _has(row: Row, name: str) -> bool:
    value = row.get(name)
    return value is not None and str(value).strip() != ""
