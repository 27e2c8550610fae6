"""Fit the constants of collectives on published tables.

Robust least squares of the logarithm of times, with a prior on every constant: an operation, a link
class or a generation of links without a table keeps what is typical. What a prior says is stated
beside it; all are in logarithms or logits, so that no constant leaves its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.importers.kernels.aiconfigurator import SOURCE as AICONFIGURATOR
from perfmodel.importers.kernels.vidur import SOURCE as VIDUR
from perfmodel.placement.collectives.collective_constants import (
    Collective,
    CollectiveConstants,
    InSwitchConstants,
    OperationConstants,
)
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.placement.topology.links import LinkClass
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_fits.host_memory import fit_host_memory
from perfmodel.training.placement_fits.robust_scale import logit, sigmoid
from perfmodel.training.placement_rows.collective_rows import CollectiveCells, read_cells

#: Scatter of log times around the model; beyond it residuals count by their size, not its square.
_SCATTER = 0.08
#: Sizes that a series (one operation of so many ranks over one link) counts as at most.
_SERIES = 21
_STEPS = 40

_CLASSES = tuple(link for link in LinkClass if link is not LinkClass.NONE)
#: Operations with parameters of their own. A broadcast has no table and moves as an all-gather.
_OPERATIONS = tuple(op for op in Collective if op is not Collective.BROADCAST)
_COPIED = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER,
           Collective.ALL_TO_ALL)  # fmt: skip

#: Share of the link that long messages reach. Makers' and operators' public tests: three quarters
#: of NVLink, somewhat less over PCIe, most of an InfiniBand adapter, half of TCP.
_TYPICAL_EFFICIENCY: Mapping[LinkClass, float] = MappingProxyType(
    {
        LinkClass.NVSWITCH: 0.78,
        LinkClass.NVLINK: 0.75,
        LinkClass.NVLINK_PAIR: 0.75,
        LinkClass.XGMI: 0.7,
        LinkClass.PCIE: 0.7,
        LinkClass.ICI: 0.8,
        LinkClass.RDMA: 0.85,
        LinkClass.ETHERNET: 0.6,
        LinkClass.HOST_MEMORY: 0.5,
    }
)

#: Latency that the library adds to each hop between hosts, seconds: a proxy thread posts and polls;
#: sockets cross the kernel twice.
_HOP_OVERHEAD_S: Mapping[LinkClass, float] = MappingProxyType(
    {LinkClass.RDMA: 3e-6, LinkClass.ETHERNET: 2e-5}
)

#: The cores that drive these links copy beside it; over PCIe and between hosts a copy is hidden,
#: and a torus has engines of its own.
_COPY_SCALE: Mapping[LinkClass, float] = MappingProxyType(
    {
        LinkClass.NVSWITCH: 1.0,
        LinkClass.NVLINK: 1.0,
        LinkClass.NVLINK_PAIR: 1.0,
        LinkClass.XGMI: 1.0,
    }
)

#: Hop within a collective over the one-way latency of a small message of its own.
_TYPICAL_LATENCY_SCALE = 0.45


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    """Unknowns of one kind: one for each of what, where the prior has them, how wide it is."""

    name: str
    by: str
    mean: tuple[float, ...]
    width: float


class _Unknowns:
    """The unknowns that cells can tell, as one vector, and the constants that a vector means.

    Unknowns of operations and link classes without a row keep their priors.
    """

    def __init__(self, cells: CollectiveCells) -> None:
        names, first = np.unique(cells.links, return_index=True)
        latency = cells.groups.intra_latency_s[first].tolist()
        self._stated = dict(zip(names.tolist(), latency, strict=True))
        self._blocks = _blocks(len(names))
        seen = {
            "operation": np.isin([str(op) for op in _OPERATIONS], cells.collectives),
            "class": np.isin([int(link) for link in _CLASSES], cells.groups.intra_class),
        }
        told = [seen.get(block.by, np.ones(len(block.mean), dtype=bool)) for block in self._blocks]
        self._told = np.concatenate(told)
        self._typical = np.concatenate([np.array(block.mean) for block in self._blocks])
        width = [np.full(len(block.mean), block.width) for block in self._blocks]
        self.mean = self._typical[self._told]
        self.width = np.concatenate(width)[self._told]

    def constants(self, vector: FloatArray) -> CollectiveConstants:
        """Return the constants of a vector."""
        whole = self._typical.copy()
        whole[self._told] = vector
        parts, first = {}, 0
        for block in self._blocks:
            parts[block.name] = whole[first : first + len(block.mean)]
            first += len(block.mean)
        links = zip(self._stated.items(), np.exp(parts["link_latency"]).tolist(), strict=True)
        return CollectiveConstants(
            operations=_operations(parts),
            in_switch=_in_switch(parts["switch"]),
            efficiency=_efficiency(parts["class_efficiency"], parts["operation_efficiency"]),
            fill_scale=_per_class(np.exp(parts["fill_scale"])),
            copy_scale=_COPY_SCALE,
            latency_scale=_per_class(np.exp(parts["latency_scale"])),
            link_latency_s={name: stated * factor for (name, stated), factor in links},
            hop_overhead_s=_HOP_OVERHEAD_S,
        )


def fit_constants(cells: CollectiveCells) -> CollectiveConstants:
    """Return the constants that fit cells best.

    Ranks on CPUs teach the constants of their own class of links alone, once those of
    accelerators stand: their library is another one.

    Parameters
    ----------
    cells : CollectiveCells
        Those that are not plain do not count.
    """
    on_cores = cells.groups.intra_class == LinkClass.HOST_MEMORY
    constants = _fit_accelerators(cells.take(cells.plain & ~on_cores))
    return fit_host_memory(cells.take(cells.plain & on_cores), constants)


def _fit_accelerators(plain: CollectiveCells) -> CollectiveConstants:
    unknowns = _Unknowns(plain)
    parts = [plain.take(mask) for _, mask in plain.by_collective()]
    logs = [np.log(part.time_s) for part in parts]
    weights = [_weights(part) for part in parts]

    def residuals(vector: FloatArray) -> FloatArray:
        constants = unknowns.constants(vector)
        off = [
            weight * dampened((np.log(part.predicted_s(constants)) - log) / _SCATTER, 1.0)
            for part, log, weight in zip(parts, logs, weights, strict=True)
        ]
        return np.concatenate([*off, (vector - unknowns.mean) / unknowns.width])

    return unknowns.constants(least_squares(residuals, unknowns.mean, steps=_STEPS))


def _weights(cells: CollectiveCells) -> FloatArray:
    """Return weights under which long tables of one series do not outvote short ones."""
    series = np.array(
        [
            f"{pair} {link} {ranks:g}"
            for pair, link, ranks in zip(cells.pairs, cells.links, cells.groups.ranks, strict=True)
        ]
    )
    _, which, counts = np.unique(series, return_inverse=True, return_counts=True)
    return np.asarray(np.sqrt(np.minimum(1.0, _SERIES / counts[which])))


def fit(data: Path, profiles: Path | None = None) -> dict[str, Any]:
    """Fit on all tables of a folder, and on own measurements."""
    cells = read_cells(data, profiles)
    constants = rounded(as_plain(fit_constants(cells)))
    own = "; own profiles" if profiles is not None else ""
    source = f"{AICONFIGURATOR} comm; {VIDUR}/network{own}"
    return document("collectives", constants, source, int(cells.plain.sum()))


def _blocks(link_count: int) -> tuple[_Block, ...]:
    each = len(_OPERATIONS)

    def operations(name: str, mean: float, width: float) -> _Block:
        return _Block(name=name, by="operation", mean=(mean,) * each, width=width)

    efficiency = tuple(logit(_TYPICAL_EFFICIENCY[link]) for link in _CLASSES)
    scale = (float(np.log(_TYPICAL_LATENCY_SCALE)),) * len(_CLASSES)
    return (
        _Block(name="class_efficiency", by="class", mean=efficiency, width=0.5),
        operations("operation_efficiency", 0.0, 0.25),
        operations("copy", logit(0.4), 1.0),
        # Seconds per terabyte: memory of these devices moves some TB/s.
        operations("fixed", float(np.log(0.1)), 1.0),
        operations("launch", float(np.log(7)), 0.4),
        operations("hop", 0.0, 0.3),
        # Two changes of protocol: from a few kilobytes on, and about where the transfer takes
        # longer than the latency.
        operations("first_height", -1.0, 1.0),
        operations("first_width", -5.0, 1.0),
        operations("second_height", 1.0, 1.0),
        operations("second_width", 1.0, 1.0),
        _Block(name="fill_scale", by="class", mean=(0.0,) * len(_CLASSES), width=1.0),
        _Block(name="latency_scale", by="class", mean=scale, width=0.5),
        _Block(name="link_latency", by="link", mean=(0.0,) * link_count, width=0.4),
        _Block(
            name="switch",
            by="switch",
            mean=(logit(0.6), float(np.log(14)), float(np.log(0.1))),
            width=0.6,
        ),
    )


def _operations(parts: Mapping[str, FloatArray]) -> Mapping[Collective, OperationConstants]:
    found: dict[Collective, OperationConstants] = {}
    for position, op in enumerate(_OPERATIONS):
        column = {
            name: values[position] for name, values in parts.items() if len(values) > position
        }
        copied = float(sigmoid(column["copy"])) if op in _COPIED else 0.0
        found[op] = OperationConstants(
            launch_hops=float(np.exp(column["launch"])),
            hop_factor=float(np.exp(column["hop"])),
            copy_share=copied,
            fixed_s_per_byte=float(np.exp(column["fixed"])) * 1e-12,
            fill_heights=_exp(column["first_height"], column["second_height"]),
            fill_widths=_exp(column["first_width"], column["second_width"]),
        )
    gather = found[Collective.ALL_GATHER]
    found[Collective.BROADCAST] = OperationConstants(
        launch_hops=gather.launch_hops,
        hop_factor=gather.hop_factor,
        copy_share=0.0,
        fixed_s_per_byte=gather.fixed_s_per_byte,
        fill_heights=gather.fill_heights,
        fill_widths=gather.fill_widths,
    )
    return found


def _in_switch(values: FloatArray) -> InSwitchConstants:
    return InSwitchConstants(
        efficiency=float(sigmoid(values[0])),
        launch_hops=float(np.exp(values[1])),
        fixed_s_per_byte=float(np.exp(values[2])) * 1e-12,
    )


def _efficiency(
    of_class: FloatArray, of_operation: FloatArray
) -> Mapping[LinkClass, Mapping[Collective, float]]:
    table = sigmoid(of_class[:, None] + of_operation[None, :])
    found: dict[LinkClass, Mapping[Collective, float]] = {}
    for link, row in zip(_CLASSES, table.tolist(), strict=True):
        shares = dict(zip(_OPERATIONS, row, strict=True))
        found[link] = {**shares, Collective.BROADCAST: shares[Collective.ALL_GATHER]}
    return found


def _per_class(values: FloatArray) -> Mapping[LinkClass, float]:
    return dict(zip(_CLASSES, values.tolist(), strict=True))


def _exp(*values: float) -> tuple[float, ...]:
    return tuple(float(np.exp(value)) for value in values)
