"""Which jobs share one capture, and the name under which its sketch is kept."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

import perfmodel.zoo
from perfmodel.devices.extras import installed_version
from perfmodel.features.steps.sketch import SKETCH_VERSION
from perfmodel.graph.job import Job
from perfmodel.records import as_plain
from perfmodel.types import Compiler, MemoryFormat, Precision
from perfmodel.zoo.references.reference import REGISTER

#: Precisions with the structure of another one: the same operators on items of the same size.
_SAME_STRUCTURE: Mapping[Precision, Precision] = MappingProxyType(
    {Precision.AMP_BF16: Precision.AMP_FP16, Precision.TF32: Precision.FP32}
)

_ZOO_IMPORT = re.compile(r"perfmodel\.zoo\.([\w.]+)")

_FIELDS = (
    "model", "model_kwargs", "hf_config", "mode", "batch_size", "accumulation_steps",
    "precision", "optimizer", "sequence_length", "activation_checkpointing",
)  # fmt: skip


def capture_view(job: Job) -> Job:
    """Return the job whose capture stands for that of a job.

    Layout, compiler and software are put to their defaults: they change how a step runs, not
    which operators it has. (A step in channels-last has one more copy, of its input.)
    """
    return dataclasses.replace(
        job,
        precision=_SAME_STRUCTURE.get(job.precision, job.precision),
        memory_format=MemoryFormat.CHANNELS_FIRST,
        compiler=Compiler.EAGER,
        software={},
    )


def capture_key(job: Job) -> str:
    """Return the name under which the sketch of a job is kept.

    It changes with the fields that a capture reads, with the meaning of a sketch, with the
    versions of the libraries that define the model, and, for reference workloads, with their
    code.

    Returns
    -------
    str
        32 hexadecimal digits; equal for jobs of one :func:`capture_view`.
    """
    view = capture_view(job)
    document: dict[str, Any] = {name: as_plain(getattr(view, name)) for name in _FIELDS}
    document["sketch"] = SKETCH_VERSION
    document["libraries"] = _versions()
    if (job.model or "").startswith("zoo/"):
        document["zoo"] = _zoo_digest(str(job.model).removeprefix("zoo/"))
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:32]


@cache
def _versions() -> dict[str, str]:
    return {name: installed_version(name) or "absent" for name in ("torch", "timm", "transformers")}


@cache
def _zoo_digest(name: str) -> str:
    """Digest of the code of a reference workload, which has no version of its own.

    Of the file that defines it and of those of the zoo that it imports; the register itself,
    which changes with every new workload, is left out.
    """
    workload = REGISTER.get(name)
    if workload is None:
        return "absent"
    folder = Path(perfmodel.zoo.__path__[0])
    digest = hashlib.sha256(workload.location.encode() + workload.family.encode())
    todo = [f"references.{workload.location.partition(':')[0]}"]
    seen = {"references.reference", "bundle"}
    while todo:
        module = todo.pop()
        file = folder / f"{module.replace('.', '/')}.py"
        if module not in seen and file.exists():
            seen.add(module)
            code = file.read_bytes()
            digest.update(module.encode() + b"\0" + code)
            todo += sorted(set(_ZOO_IMPORT.findall(code.decode())), reverse=True)
    return digest.hexdigest()
