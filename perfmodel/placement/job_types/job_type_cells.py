"""Measured and asked cells of jobs that are known by a name alone, as columns.

A *job type* is a name; a *job* is a job type at one batch size; a *cell* is a job on one
placement, alone or beside another job. What a name stands for is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray, StrArray
from perfmodel.graph.job import named_job, split_label
from perfmodel.placement.sharing.mig import mig_part, part_accelerator
from perfmodel.placement.topology.topology import Placement, Plan
from perfmodel.types import Mode

#: Speeds are relative to a round device: 10 TFLOP/s in fp32 and 500 GB/s.
_FLOPS_PER_S, _BYTES_PER_S = 1e13, 5e11
#: Networks are relative to 100 Gbit/s of a host, which stands for those not stated too.
_NETWORK_BYTES_PER_S = 1.25e10


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTypeCells(Columns):
    """Cells of job types; arrays of one length.

    Parameters
    ----------
    batch_size : ndarray of float
        Samples per replica, >= 1.
    accelerator : ndarray of str
        Canonical name; several joined by ``+`` where they are mixed.
    log_speed : ndarray of float
        Mean of the logarithms of the slowest accelerator's fp32 peak and memory bandwidth, each
        over that of a round device.
    count, hosts : ndarray of float
        Accelerators and the hosts they are spread over, >= 1.
    network : ndarray of str
        Between the hosts; empty where there is one host or none is stated.
    log_wire : ndarray of float
        Logarithm of the bandwidth of a host's network over 100 Gbit/s; 0 inside one host.
    shares : ndarray of str
        Accelerators of each host where they differ: ``"1+3"``; else empty.
    settings : ndarray of str
        Everything else of a placement, in one word: plan, power limit, fraction.
    partner_type, partner_batch : ndarray of str, of float
        The job beside it; empty and 1 for a job alone.
    """

    job_type: StrArray
    batch_size: FloatArray
    accelerator: StrArray
    log_speed: FloatArray
    count: FloatArray
    hosts: FloatArray
    network: StrArray
    log_wire: FloatArray
    shares: StrArray
    settings: StrArray
    partner_type: StrArray
    partner_batch: FloatArray

    def __len__(self) -> int:
        return len(self.batch_size)

    @property
    def is_shared(self) -> FloatArray:
        """1 for cells beside another job, else 0."""
        return np.asarray(self.partner_type != "", dtype=np.float64)

    def on_one_accelerator(self, which: npt.NDArray[np.bool_] | None = None) -> JobTypeCells:
        """Return the same jobs on one accelerator of the same kind; of some cells alone."""
        chosen = np.ones(len(self), dtype=np.bool_) if which is None else which
        return replace(
            self,
            count=np.where(chosen, 1.0, self.count),
            hosts=np.where(chosen, 1.0, self.hosts),
            network=np.where(chosen, "", self.network),
            log_wire=np.where(chosen, 0.0, self.log_wire),
            shares=np.where(chosen, "", self.shares),
        )

    def label(self, row: int) -> str:
        """Return one cell for people: ``"LM, batch 5, on 2 x K80 over 2 hosts"``."""
        hosts = f" over {self.hosts[row]:.0f} hosts" if self.hosts[row] > 1 else ""
        partner = f" beside {self.partner_type[row]}" if self.partner_type[row] else ""
        where = f"{self.count[row]:.0f} x {self.accelerator[row]}{hosts}{partner}"
        return f"{self.job_type[row]}, batch {self.batch_size[row]:.0f}, on {where}"


def job_type_cells(
    jobs: Sequence[tuple[str, int]],
    placements: Sequence[Placement],
    *,
    catalog: Catalog,
    mode: Mode | Sequence[Mode] = Mode.TRAINING,
) -> JobTypeCells:
    """Describe cells by their jobs and placements.

    Parameters
    ----------
    jobs : sequence of (str, int)
        Job type and batch size of each cell.
    placements : sequence of Placement
        One for each cell; ``shared_with`` names at most one other job.
    mode : Mode or sequence of Mode
        Of all cells, or of each. Inference is another job type than training of the same name.

    Raises
    ------
    InvalidInputError
        An empty name, a batch size below 1, more than one job beside it, or columns of
        different length.
    UnknownAcceleratorError
    """
    if len(jobs) != len(placements):
        raise InvalidInputError(
            f"Each cell needs a job and a placement; got {len(jobs)} and {len(placements)}."
        )
    described = {one: _place(one, catalog) for one in dict.fromkeys(placements)}
    modes = [mode] * len(jobs) if isinstance(mode, Mode) else list(mode)
    in_modes = list(zip(jobs, modes, strict=True))
    named = {(job, of): named_job(*job, of) for job, of in dict.fromkeys(in_modes)}
    rows: list[dict[str, Any]] = [
        {**described[placement], "job_type": name, "batch_size": batch_size}
        for placement, (name, batch_size) in zip(
            placements, (named[one] for one in in_modes), strict=True
        )
    ]
    columns: dict[str, Any] = {
        one.name: np.array(
            [row[one.name] for row in rows], dtype=np.str_ if one.name in _WORDS else np.float64
        )
        for one in fields(JobTypeCells)
    }
    return JobTypeCells(**columns)


_WORDS = ("job_type", "accelerator", "network", "shares", "settings", "partner_type")


def _place(placement: Placement, catalog: Catalog) -> dict[str, Any]:
    """Return what :class:`JobTypeCells` holds of a placement."""
    specs = {spec.name: spec for spec in (_held(n.accelerator, catalog) for n in placement.nodes)}
    network, wire = _wire(placement)
    partner, partner_batch = _partner(placement)
    return {
        "accelerator": "+".join(sorted(specs)),
        "log_speed": min(log_speed(spec) for spec in specs.values()),
        "count": placement.accelerator_count,
        "hosts": placement.host_count,
        "network": network,
        "log_wire": wire,
        "shares": _shares(placement),
        "settings": _settings(placement),
        "partner_type": partner,
        "partner_batch": partner_batch,
    }


def has_accelerators(catalog: Catalog, placement: Placement) -> bool:
    """Return whether a catalogue holds all accelerators of a placement, or those they are of."""
    try:
        for node in placement.nodes:
            _held(node.accelerator, catalog)
    except InvalidInputError:
        return False
    return True


def _held(name: str, catalog: Catalog) -> AcceleratorSpec:
    """Return an accelerator by its name, or the slice of one that is named."""
    whole, profile = catalog.whole_and_profile(name)
    return part_accelerator(whole, mig_part(whole, profile)) if profile else whole


def _wire(placement: Placement) -> tuple[str, float]:
    network = placement.network
    if network is None or placement.host_count == 1:
        return "", 0.0
    rate = network.bandwidth_bytes_per_s / network.oversubscription
    return f"{network.name or ''} {rate:.4g} B/s", float(np.log(rate / _NETWORK_BYTES_PER_S))


def log_speed(spec: AcceleratorSpec) -> float:
    """Return how fast an accelerator is, as :attr:`JobTypeCells.log_speed`."""
    # Nobody says in which precision a job type computes; the plain rate orders devices best.
    rate = spec.peak_flops.get("fp32") or max(spec.peak_flops.values())
    compute, traffic = rate / _FLOPS_PER_S, spec.bandwidth_bytes_per_s / _BYTES_PER_S
    return float(0.5 * (np.log(compute) + np.log(traffic)))


def _partner(placement: Placement) -> tuple[str, int]:
    if len(placement.shared_with) > 1:
        raise InvalidInputError(
            "A job type is answered beside one other job at most; got "
            f"{len(placement.shared_with)}.",
            pointer="/placement/shared_with",
        )
    return split_label(placement.shared_with[0].key) if placement.shared_with else ("", 1)


def _shares(placement: Placement) -> str:
    if len({node.count for node in placement.nodes}) == 1:
        return ""
    return "+".join(f"{node.repeat}x{node.count}" for node in placement.nodes)


def _settings(placement: Placement) -> str:
    words = [
        f"{word}={value:g}"
        for word in ("power_limit_w", "fraction", "cpu_cores", "storage_bytes_per_s")
        if (value := getattr(placement, word)) is not None
    ]
    if placement.plan not in (Plan(), Plan(data=placement.accelerator_count)):
        words.append(repr(placement.plan))
    return " ".join(words)
