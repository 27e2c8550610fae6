"""Pairs as columns: what two jobs on one accelerator did to each other, in Gavel's table or here.

Device shares come from isolated step times alone: the mean of what the batch sizes of a family say
and what the other kind of accelerator says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.jobs.gavel_throughputs import ACCELERATORS
from perfmodel.importers.own_profiles import read_own_profiles
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.sharing.job_load import (
    Loads,
    job_type_parts,
    share_from_batches,
    share_from_kinds,
)
from perfmodel.placement.topology.topology import Neighbour

#: Where neither batch sizes nor another kind of accelerator say anything.
TYPICAL_SHARE = 0.8
#: The same on a CPU, which no launch keeps waiting.
SHARE_OF_CORES = 1.0


@dataclass(frozen=True, kw_only=True)
class Pairs(Columns):
    """Measured pairs as columns, one row for each direction.

    Parameters
    ----------
    kinds, subjects, partners : ndarray of str, shape (rows,)
        Accelerator and job types.
    step_time_s : ndarray
        Of the subject beside the partner.
    """

    kinds: npt.NDArray[np.str_]
    subjects: npt.NDArray[np.str_]
    partners: npt.NDArray[np.str_]
    subject_loads: Loads
    partner_loads: Loads
    step_time_s: FloatArray

    def __len__(self) -> int:
        return len(self.step_time_s)

    @property
    def log_slowdown(self) -> FloatArray:
        """Logarithm of the measured slowdown of the subject."""
        return np.asarray(np.log(self.step_time_s / self.subject_loads.step_time_s))

    @property
    def pair_names(self) -> list[str]:
        """Both job types in alphabetical order: one name for both directions and every kind."""
        return [
            " beside ".join(sorted(pair)) for pair in zip(self.subjects, self.partners, strict=True)
        ]


def read_pairs(data: Path) -> tuple[Pairs, Mapping[str, Mapping[str, float]]]:
    """Read the pairs on one accelerator and the device share of each job alone.

    Returns
    -------
    pairs : Pairs
        Rows where a rate is missing or either job did not run are left out.
    shares : mapping of str to mapping of str to float
        Kind of accelerator to job type to device share.
    """
    records = [
        p for p in read_format("gavel", data).placements if p.placement.accelerator_count == 1
    ]
    alone: dict[str, dict[str, float]] = defaultdict(dict)
    for record in records:
        if not record.placement.shared_with:
            alone[record.placement.nodes[0].accelerator][record.job_type] = record.step_time_s
    shares = {kind: _device_shares(kind, alone) for kind in alone}
    pairs = _pairs(list(_both_ran(records)), alone, shares)
    if not len(pairs):
        raise TrainingError("The table holds no pair of jobs that both ran on one accelerator.")
    return pairs, shares


def read_own_pairs(profiles: Path) -> tuple[Pairs, Mapping[str, Mapping[str, float]]]:
    """Read the pairs that were measured on CPUs here; as :func:`read_pairs`, but maybe empty.

    A slowdown is over the step that the same process took just before, so that what disturbed the
    machine then and now is in both.
    """
    placements = read_own_profiles(profiles).placements
    records = [one for one in placements if one.settings.get("sharing") == "cores"]
    alone: dict[str, dict[str, float]] = defaultdict(dict)
    for record in records:
        if not record.placement.shared_with:
            alone[record.placement.nodes[0].accelerator][_own_name(record.job)] = record.step_time_s
    shares = {kind: _own_shares(times) for kind, times in alone.items()}
    named = [_named(one, alone) for one in records if one.placement.shared_with]
    return _pairs(named, alone, shares), shares


def _own_name(job: Job | None) -> str:
    assert job is not None
    return f"{job.label} {job.mode} (batch size {job.batch_size})"


def _named(
    record: PublishedPlacement, alone: Mapping[str, Mapping[str, float]]
) -> PublishedPlacement:
    """Return a record whose jobs have names, and a step that is as much slower as it was."""
    (neighbour,) = record.placement.shared_with
    name, other = _own_name(record.job), _own_name(neighbour.job)
    kind = record.placement.nodes[0].accelerator
    slower = record.step_time_s / float(record.settings["alone_step_time_s"])
    return replace(
        record,
        job_type=name,
        placement=replace(record.placement, shared_with=(Neighbour(job_type=other),)),
        step_time_s=alone[kind][name] * slower,
    )


def _own_shares(times: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each job's step in which it keeps its cores busy: all, if untold."""
    return {**dict.fromkeys(times, SHARE_OF_CORES), **_shares_by_batch(times)}


def _both_ran(records: Sequence[PublishedPlacement]) -> Iterator[PublishedPlacement]:
    """Yield the records of pairs of which both directions have a rate."""
    shared = [record for record in records if record.placement.shared_with]
    ran = {
        (r.placement.nodes[0].accelerator, r.job_type, r.placement.shared_with[0].key)
        for r in shared
    }
    for record in shared:
        kind, partner = record.placement.nodes[0].accelerator, record.placement.shared_with[0].key
        if (kind, partner, record.job_type) in ran:
            yield record


def _pairs(
    records: Sequence[PublishedPlacement],
    alone: Mapping[str, Mapping[str, float]],
    shares: Mapping[str, Mapping[str, float]],
) -> Pairs:
    rows = [
        (kind, r.job_type, r.placement.shared_with[0].key, r.step_time_s)
        for r in records
        for kind in [r.placement.nodes[0].accelerator]
        if {r.job_type, r.placement.shared_with[0].key} <= set(alone[kind])
    ]

    def loads(position: int) -> Loads:
        parts = [job_type_parts(str(row[position])) for row in rows]
        cells = [(row[0], str(row[position])) for row in rows]
        return Loads(
            step_time_s=np.array([alone[kind][name] for kind, name in cells]),
            device_share=np.array([shares[kind][name] for kind, name in cells]),
            log2_batch=np.log2([batch for _, batch in parts]),
            families=np.array([family for family, _ in parts], dtype=np.str_),
        )

    return Pairs(
        kinds=np.array([row[0] for row in rows], dtype=np.str_),
        subjects=np.array([row[1] for row in rows], dtype=np.str_),
        partners=np.array([row[2] for row in rows], dtype=np.str_),
        subject_loads=loads(1),
        partner_loads=loads(2),
        step_time_s=np.array([row[3] for row in rows], dtype=np.float64),
    )


def _device_shares(kind: str, alone: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    by_batch = _shares_by_batch(alone[kind])
    others = [name for name in alone if name != kind and name in ACCELERATORS.values()]
    by_kind: dict[str, float] = {}
    for other in others:
        speed = _speed(alone[kind], alone[other])
        common = [name for name in alone[kind] if name in alone[other]]
        here, there = (np.array([alone[k][name] for name in common]) for k in (kind, other))
        found = share_from_kinds(here, there, speed)
        by_kind.update(zip(common, found.tolist(), strict=True))
    shares = {}
    for name in alone[kind]:
        says = by_batch.get(name, TYPICAL_SHARE)
        shares[name] = (says + by_kind.get(name, says)) / 2
    return shares


def _shares_by_batch(times: Mapping[str, float]) -> dict[str, float]:
    families: dict[str, list[str]] = defaultdict(list)
    for name in times:
        families[job_type_parts(name)[0]].append(name)
    shares: dict[str, float] = {}
    for names in families.values():
        if len(names) < 3:
            continue
        batches = np.array([float(job_type_parts(name)[1]) for name in names])
        found = share_from_batches(batches, np.array([times[name] for name in names]))
        shares.update(zip(names, found.tolist(), strict=True))
    return shares


def _speed(here: Mapping[str, float], there: Mapping[str, float]) -> float:
    """How many times as fast the other kind computes: what the tenth of jobs that gains most gains.

    Not the one job that gains most: its times may be the odd ones.
    """
    ratios = np.array([here[name] / there[name] for name in here if name in there])
    faster = bool(np.median(ratios) > 1)
    return float(np.quantile(ratios, 0.9) if faster else 1 / np.quantile(1 / ratios, 0.9))
