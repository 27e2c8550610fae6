"""What is learned of collectives: efficiencies, latencies and the cost of filling a pipe.

The constants are values: replace some to ask about other software or another fabric,
``dataclasses.replace(CollectiveConstants.fitted(), ...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants, refused
from perfmodel.placement.topology.links import LinkClass


class Collective(StrEnum):
    """Operations that a group of accelerators carries out together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    SEND_RECV = "send_recv"


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationConstants:
    """What is learned of one operation, whatever the link.

    Parameters
    ----------
    launch_hops : float
        Start of the operation, in latencies of a hop.
    hop_factor : float
        Latency of one of its steps, in latencies of a hop.
    copy_share : float
        Copy of a rank's own shard, as a share of the time that its link would take for it, 0 to 1.
    fixed_s_per_byte : float
        Work on each byte of the payload that no link speeds up (reduction, copies in memory).
    fill_heights, fill_widths : tuple of float
        Further latencies paid once a message outgrows one protocol for the next, and the ratio of
        transfer to latency at which half of each is paid.
    """

    launch_hops: float
    hop_factor: float
    copy_share: float
    fixed_s_per_byte: float
    fill_heights: tuple[float, ...]
    fill_widths: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class InSwitchConstants:
    """Reduction inside the switch (NVLink SHARP).

    Parameters
    ----------
    efficiency : float
        Of the link, each rank sending and receiving the payload once; in (0, 1].
    launch_hops : float
        Start and the way through the switch, in latencies of a hop.
    fixed_s_per_byte : float
        Work on each byte that no link speeds up.
    least_bytes_per_s : float
        Links of the first generation whose switch reduces. The columns of a group do not name
        generations; those before it are slower.
    """

    efficiency: float
    launch_hops: float
    fixed_s_per_byte: float
    least_bytes_per_s: float = 4e11


@dataclass(frozen=True, kw_only=True)
class CollectiveConstants:
    """All that is learned of collectives.

    Parameters
    ----------
    efficiency : mapping of LinkClass to mapping of Collective to float
        Share of the link's rate that long messages reach, in (0, 1].
    fill_scale, copy_scale : mapping of LinkClass to float
        Multiply the heights and the copy shares of the operations.
    latency_scale : mapping of LinkClass to float
        Latency of a hop within a collective over the latency that is stated for the link inside
        a host.
    link_latency_s : mapping of str to float
        Latencies that were learned for links of :data:`.links.LINKS`; see
        :mod:`perfmodel.placement.fabric.host_link`.
    hop_overhead_s : mapping of LinkClass to float
        What the library adds to each hop between hosts (proxy threads, sockets).
    tree_hop : float
        Latency of a level of a tree inside a host, in latencies of a hop.
    least_latency_s : float
        Scaled latency that the start of an operation is reckoned with at least.
    """

    operations: Mapping[Collective, OperationConstants]
    in_switch: InSwitchConstants
    efficiency: Mapping[LinkClass, Mapping[Collective, float]]
    fill_scale: Mapping[LinkClass, float]
    copy_scale: Mapping[LinkClass, float]
    latency_scale: Mapping[LinkClass, float]
    link_latency_s: Mapping[str, float]
    hop_overhead_s: Mapping[LinkClass, float]
    tree_hop: float = 2.5
    least_latency_s: float = 7e-7

    @classmethod
    @cache
    def fitted(cls) -> CollectiveConstants:
        """Return the constants fitted on published tables (NCCL as PyTorch calls it)."""
        return cls.from_dict(fitted("collectives"))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CollectiveConstants:
        """Read constants; raises DamagedArtifactError where a value is missing or means nothing."""
        found = read_constants(cls, values, least=0.0)
        with refused("collectives"):
            shares = [found.efficiency[link][op] for link in found.efficiency for op in Collective]
            if not all(0 < share <= 1 for share in (found.in_switch.efficiency, *shares)):
                raise ValueError("a share of a link that is none")
            if found.operations.keys() != set(Collective):
                raise ValueError("an operation is missing")
        return found

    @cached_property
    def by_link(self) -> Mapping[str, FloatArray]:
        """Scales by their names, and efficiencies by their operations, of each link class."""
        shares = {
            op.value: _by_position({link: by_op[op] for link, by_op in self.efficiency.items()})
            for op in Collective
        }
        scales = {name: _by_position(getattr(self, name), usual) for name, usual in _USUAL.items()}
        return shares | scales


#: Tables by link class, with what holds for classes that they leave out.
_USUAL: Mapping[str, float] = MappingProxyType(
    {"fill_scale": 1.0, "copy_scale": 0.0, "latency_scale": 1.0, "hop_overhead_s": 0.0}
)


def _by_position(values: Mapping[LinkClass, float], default: float = 1.0) -> FloatArray:
    table = np.full(len(LinkClass), default)
    for link, value in values.items():
        table[int(link)] = value
    return table
