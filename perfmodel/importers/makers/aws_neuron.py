"""Import the performance pages of AWS Neuron: Inferentia and Trainium, all versions of the pages.

``aws_neuron.parquet`` holds their tables, a row of a page each. Encoders and ResNet-50 in inference
are read as steps of one chip, training on ``trn1.32xlarge`` as placements
(:mod:`.neuron_training`); releases are jobs of their own (``software["neuron"]``).

Cores of a chip run a model each. How many calls were under way follows from rate and median latency
(Little's law); it has to be one, one a core, or two a core, of which one waits::

    batch = batch of a call * min(calls, cores of the chip)

Rows of ``trn1.32xlarge`` that keep two calls under way ran on one of its chips. The compiler turns
whole graphs into programs: ``inductor`` stands for it. What it does with fp32 (products in bf16) is
``amp_bf16``, as the pages of Trainium state and as Inferentia, which has no fp32, has to.

Left out, with the reason: loops over tokens; models without a reference; several chips of an
instance and pipelines over them; XLM-RoBERTa, whose times are those of moving its scores.

Reference: aws-neuron/aws-neuron-sdk, ``general/benchmarks``, CC-BY-SA-4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.hub_models.names import hub_model
from perfmodel.graph.job import Job
from perfmodel.importers.makers.neuron_training import training_placement
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, PublishedStep
from perfmodel.importers.repeats import newest_placements, one_record_each
from perfmodel.types import Compiler, Framework, Mode, Precision

TABLE = PublicTable(
    files=("aws_neuron.parquet", "aws_neuron.csv"),
    source="aws-neuron/aws-neuron-sdk general/benchmarks",
    licence="CC-BY-SA-4.0",
    columns=(
        "Model", "Model details", "Framework", "Inst. Type", "Batch Size", "Latency P50 (ms)",
        "Neuron Version", "Task", "Model Data Type", "Performance [seq/sec]",
    ),
)  # fmt: skip
_RATES = ("Avg Throughput (/sec)", "Throughput (/sec)", "Throughput (inference/sec)")
#: Chip of an instance and cores of the chip; of the largest the rows say that one chip worked.
_CHIPS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "inf1.xlarge": ("Inferentia1", 4),
        "inf1.2xlarge": ("Inferentia1", 4),
        "inf2.xlarge": ("Inferentia2", 2),
        "inf2.8xlarge": ("Inferentia2", 2),
        "trn1.2xlarge": ("Trainium1", 2),
        "trn1.32xlarge": ("Trainium1", 2),
    }
)
#: How far rate times latency may lie from a whole number of calls.
_OFF = 0.06
_TOKENS = 128
_TASKS = (None, "Raw Output (AutoModel)", "Sequence Classification")
_BODIES: Mapping[str, str] = MappingProxyType(
    {
        "bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "albert": "Albert",
        "camembert": "Camembert", "electra": "Electra", "gpt2": "GPT2",
    }
)  # fmt: skip


def read_aws_neuron(path: Path) -> Imported:
    """Read the table, or that of a folder; a step or a placement a row."""
    found, rejected = TABLE.records(path, _record)
    return Imported(
        steps=one_record_each(one for one in found if isinstance(one, PublishedStep)),
        placements=newest_placements(one for one in found if isinstance(one, PublishedPlacement)),
        rejected=rejected,
    )


def _record(row: Row, origin: Origin) -> PublishedStep | PublishedPlacement:
    if row["Performance [seq/sec]"] is not None:
        return training_placement(row, origin)
    return _step(row, origin)


def _step(row: Row, origin: Origin) -> PublishedStep:
    stated = [name for name in _RATES if row.get(name) is not None]
    if not stated:
        raise ValueError("a loop over tokens, or no rate")
    instance = text(row, "Inst. Type")
    if instance not in _CHIPS:
        raise ValueError(f"{instance}: several chips of an instance")
    chip, cores = _CHIPS[instance]
    rate, batch = positive(row, stated[0]), count(row, "Batch Size")
    calls = _calls(rate * positive(row, "Latency P50 (ms)") * 1e-3 / batch, cores)
    job = Job(
        **_model(row),
        mode=Mode.INFERENCE,
        batch_size=batch * min(calls, cores),
        precision=_precision(row, chip),
        compiler=Compiler.INDUCTOR,
        software=_software(row),
    )
    return PublishedStep(job=job, accelerator=chip, samples_per_second=rate, origin=origin)


def _calls(under_way: float, cores: int) -> int:
    for calls in (1, cores, 2 * cores):
        if abs(under_way / calls - 1) <= _OFF:
            return calls
    raise ValueError(f"{under_way:.2f} calls under way are none or two for each of {cores} cores")


def _model(row: Row) -> Mapping[str, Any]:
    if row["Task"] not in _TASKS:
        raise ValueError(f"task {row['Task']!r} is not understood")
    name = text(row, "Model")
    if name == "Resnet-50":
        return {"model": "timm/resnet50"}
    key = _named(name, str(row["Model details"] or ""))
    known = hub_model(key)
    if known is None or known.config["model_type"] not in _BODIES:
        raise ValueError(f"no reference stands for the model {name!r}")
    classifies = row["Task"] == "Sequence Classification" or "finetuned" in key
    head = "ForSequenceClassification" if classifies else "Model"
    body = _BODIES[known.config["model_type"]]
    return {
        "hf_config": {**known.config, "architectures": [f"{body}{head}"]},
        "sequence_length": _length(row),
    }


def _named(name: str, details: str) -> str:
    """Return the name of the hub in ``BERT base (bert-base-cased)`` or in the details beside."""
    if "(" in name:
        return name.partition("(")[2].rstrip(")")
    if name == "BERT base":
        return next((word for word in details.split(", ") if "bert" in word), name)
    return name


def _length(row: Row) -> int:
    """Return the tokens of a sample; the first pages of Trainium state them in their text alone."""
    for name in ("Sequence Length", "Seq. Length"):
        if row.get(name) is not None:
            return count(row, name)
    return _TOKENS


def _precision(row: Row, chip: str) -> Precision:
    stated = str(row["Model Data Type"] or row["Model details"] or "").split(",")[0].lower()
    if stated == "fp32" and (chip == "Inferentia1" or row.get("Compilation Autocast Data Type")):
        return Precision.AMP_BF16
    try:
        return {"bf16": Precision.BF16, "fp16": Precision.FP16}[stated]
    except KeyError:
        raise ValueError(f"precision {stated!r} is not understood") from None


def _software(row: Row) -> dict[str, str]:
    software = {"neuron": text(row, "Neuron Version")}
    framework = text(row, "Framework").split(" ")[0].lower()
    if framework == Framework.TENSORFLOW.value:
        software["framework"] = framework
    return software
