"""Import the throughputs that Gavel's simulator uses (``simulation_throughputs.json``).

``{worker type: {job: {partner: rate}}}`` where a job is ``"('ResNet-50 (batch size 64)', 4)"``
(type, accelerators), a worker type is ``k80`` or ``v100`` with or without ``_unconsolidated``,
and the partner is ``null`` for a job alone. A rate is in steps/s; for two jobs on the same
accelerators it is a pair, first that of the outer job.

Two traps. The steps of every worker are added up, so that a job on four accelerators whose steps
take one second has the rate 4. And ``_unconsolidated`` repeats the rates of one accelerator,
which cannot be spread; those copies are left out. Rate 0 means that the jobs did not fit.

``v100`` is taken as the SXM2 with 16 GB of the clouds; the form is not stated. Unconsolidated
workers are taken as one on a host.

Reference: stanford-futuredata/gavel, ``scheduler/simulation_throughputs.json`` and
``scheduler/scripts/profiling``, MIT.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.trained import Trained
from perfmodel.importers.public_tables import PublicTable, find_tables
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, steps_alone
from perfmodel.placement.topology.topology import Neighbour, Node, Placement
from perfmodel.types import Precision

SOURCE = "stanford-futuredata/gavel scheduler/simulation_throughputs.json"
FILES = ("simulation_throughputs.json", "scheduler/simulation_throughputs.json")
ACCELERATORS: Mapping[str, str] = MappingProxyType({"k80": "K80", "v100": "V100-SXM2-16GB"})

_SPREAD = "_unconsolidated"
_TYPE = re.compile(r"(?P<name>.+?)(?: \(batch size (?P<batch>\d+)\))?")


#: Job types that a graph stands for. A3C is a game played on the CPU, and stays a name. The
#: translation Transformer reads Multi30k, sentences of 12 to 13 words of some 3,000 that are not
#: rare, each batch as long as its longest sentence, which is taken to be one of 28 tokens.
JOBS: Mapping[str, Trained] = MappingProxyType(
    {
        "CycleGAN": Trained(model="zoo/cyclegan", optimizer="adam"),
        "LM": Trained(
            model="zoo/lstm-lm",
            optimizer="sgd",
            model_kwargs={"hidden_size": 200, "dropout": 0.2},
            sequence_length=35,
        ),
        "Recommendation": Trained(model="zoo/recommender-autoencoder", optimizer="adam"),
        "ResNet-18": Trained(model="zoo/resnet18-cifar", optimizer="momentum"),
        "ResNet-50": Trained(model="zoo/resnet50-v1.5", optimizer="momentum"),
        "Transformer": Trained(
            model="zoo/transformer-translation",
            optimizer="adam",
            model_kwargs={"vocab_size": 3_000},
            sequence_length=28,
        ),
    }
)
NAMES = frozenset({*JOBS, "A3C"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Subject:
    """A job of the table: its type, batch size and accelerators."""

    label: str
    name: str
    batch_size: int
    accelerators: int


def read_gavel(path: Path) -> Imported:
    """Read the table of throughputs: the JSON file, its folder, or a clone of the repository.

    Returns
    -------
    Imported
        One placement an entry, with ``shared_with`` for pairs; jobs alone on one accelerator
        also as steps. ``line`` is the position of the entry in the file, from 1.

    Raises
    ------
    StoreError
        No such file, or another kind of JSON.
    """
    file = find_tables(path, FILES)[0]
    table = PublicTable(files=FILES, columns=(), source=SOURCE, licence="MIT")
    placements, rejected = table.understood(
        file.name,
        enumerate(_entries(file), start=1),
        lambda entry, origin: _placement(*entry, origin),
    )
    return Imported(steps=steps_alone(placements), placements=tuple(placements), rejected=rejected)


def _entries(file: Path) -> Iterator[tuple[str, str, str, object]]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        for worker, jobs in table.items():
            for job, partners in jobs.items():
                for partner, rate in partners.items():
                    yield worker, job, partner, rate
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise StoreError(f"{file} is no table of worker type, job and partner: {error}") from error


def _placement(
    worker: str, job: str, partner: str, rate: object, origin: Origin
) -> PublishedPlacement:
    kind = worker.removesuffix(_SPREAD)
    if kind not in ACCELERATORS:
        raise ValueError(f"unknown worker type {worker!r}")
    subject = _subject(job)
    trained = JOBS.get(subject.name)
    shared_with = () if partner == "null" else (Neighbour(job_type=_subject(partner).label),)
    is_spread = worker != kind
    if is_spread and subject.accelerators == 1:
        raise ValueError(f"one accelerator cannot be spread: a copy of the entry of {kind}")
    steps_per_second = _rate(rate, alone=not shared_with)
    return PublishedPlacement(
        job=trained.job(subject.batch_size, Precision.FP32) if trained else None,
        job_type=subject.label,
        batch_size=subject.batch_size,
        placement=Placement(
            nodes=(_node(ACCELERATORS[kind], subject.accelerators, is_spread),),
            shared_with=shared_with,
        ),
        # Every worker's steps are counted, so that the rate is that of all of them.
        step_time_s=subject.accelerators / steps_per_second,
        origin=origin,
        settings={"worker": worker},
    )


def _node(accelerator: str, count: int, is_spread: bool) -> Node:
    if is_spread:
        return Node(accelerator=accelerator, count=1, repeat=count)
    return Node(accelerator=accelerator, count=count)


def _subject(key: str) -> _Subject:
    try:
        label, accelerators = ast.literal_eval(key)
        match = _TYPE.fullmatch(label)
    except (ValueError, SyntaxError, TypeError) as error:
        raise ValueError(f"{key!r} is no pair of job type and accelerators") from error
    if match is None or match["name"] not in NAMES:
        raise ValueError(f"unknown job type {label!r}")
    if not isinstance(accelerators, int) or accelerators < 1:
        raise ValueError(f"{key!r} names no number of accelerators")
    return _Subject(
        label=label,
        name=match["name"],
        batch_size=int(match["batch"] or 1),
        accelerators=accelerators,
    )


def _rate(rate: object, *, alone: bool) -> float:
    if not alone:
        if not isinstance(rate, list) or len(rate) != 2:
            raise ValueError("a pair of jobs needs a pair of rates")
        rate = rate[0]
    if not isinstance(rate, int | float) or not math.isfinite(rate):
        raise ValueError(f"{rate!r} is no rate")
    if rate <= 0:
        raise ValueError("did not run: the rate is 0")
    return float(rate)
