"""The group of all ranks of unlike hosts, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.placement.topology.groups import CommGroups, LinkClass
from perfmodel.placement.topology.hosts import Hosts, reach_bytes_per_s
from perfmodel.placement.topology.links import Link
from perfmodel.placement.topology.networks import network_class
from perfmodel.placement.topology.topology import Network


class WorldLinks(NamedTuple):
    """What joins all ranks of a placement, whatever their number.

    Parameters
    ----------
    hosts, largest_share : float
    intra_class, inter_class : int
    intra_bytes_per_s, intra_latency_s, inter_bytes_per_s, inter_latency_s : float
        As :class:`.groups.CommGroups`.
    """

    hosts: float
    largest_share: float
    intra_class: int
    inter_class: int
    intra_bytes_per_s: float
    intra_latency_s: float
    inter_bytes_per_s: float
    inter_latency_s: float

    def groups(self, ranks: Sequence[int], smallest_share: float = 1.0) -> CommGroups:
        """Return groups of some numbers of ranks over these links.

        Parameters
        ----------
        ranks : sequence of int
        smallest_share : float
            Ranks on the emptiest host.
        """
        count = np.asarray(ranks, dtype=np.float64)
        return CommGroups(
            ranks=count,
            smallest_share=np.full(count.shape, smallest_share),
            **{name: np.full(count.shape, value) for name, value in self._asdict().items()},
        )


def links_of_world(hosts: Sequence[Hosts], network: Network | None) -> WorldLinks:
    """Return the links of :meth:`.fabric.Fabric.slowest_group` of the world.

    Parameters
    ----------
    hosts : sequence of Hosts
        Unlike ones, of which there are at least two.
    network : Network or None
        Between them.
    """
    largest = max(one.count for one in hosts)
    talking = [one for one in hosts if one.count > 1] or list(hosts)
    # As if every host had as many ranks as the fullest: the steady form of replicas.
    rates = [_rate(one.link, largest) for one in talking]
    slowest = min(rates)
    links = [one.link for one, rate in zip(talking, rates, strict=True) if rate == slowest]
    inter, latency_s, between = math.inf, 0.0, LinkClass.NONE
    if network is not None:
        reach = min(reach_bytes_per_s(one, network) for one in hosts)
        fair = network.bandwidth_bytes_per_s / network.oversubscription
        inter, latency_s = min(fair, largest * reach), network.latency_s
        between = network_class(network)
    return WorldLinks(
        hosts=float(sum(one.repeat for one in hosts)),
        largest_share=float(largest),
        intra_class=max(int(link.link_class) for link in links),
        inter_class=int(between),
        intra_bytes_per_s=slowest,
        intra_latency_s=max(link.latency_s for link in links),
        inter_bytes_per_s=inter,
        inter_latency_s=latency_s,
    )


@lru_cache(maxsize=4_096)
def _rate(link: Link, ranks: int) -> float:
    return float(link.bandwidth(ranks, steady=True))
