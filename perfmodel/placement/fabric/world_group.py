"""The group of all ranks of a placement, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import network_reach_bytes_per_s
from perfmodel.placement.fabric.hosts import Hosts
from perfmodel.placement.topology.links import Link, LinkClass
from perfmodel.placement.topology.networks import network_class
from perfmodel.placement.topology.topology import Network


class WorldLinks(NamedTuple):
    """What joins all ranks of a placement, however many hosts it has.

    Parameters
    ----------
    intra_bytes_per_s, intra_latency_s, inter_bytes_per_s, inter_latency_s : float
        As :class:`.groups.CommGroups`.
    """

    largest_share: float
    intra_class: int
    inter_class: int
    intra_bytes_per_s: float
    intra_latency_s: float
    inter_bytes_per_s: float
    inter_latency_s: float


class WorldGroup(NamedTuple):
    """All ranks of a placement as one group, over its slowest links."""

    ranks: float
    hosts: float
    links: WorldLinks

    @property
    def fullest_host(self) -> WorldGroup:
        """The ranks of the fullest host as a group of their own."""
        links = self.links
        alone = links._replace(
            inter_class=int(LinkClass.NONE), inter_bytes_per_s=math.inf, inter_latency_s=0.0
        )
        return WorldGroup(links.largest_share, 1.0, alone)

    def columns(self, smallest_share: float | None = None) -> CommGroups:
        """Return the group as columns of one row.

        Parameters
        ----------
        smallest_share : float or None
            Ranks on the emptiest host; None: as many as on the fullest.
        """
        links = self.links
        least = links.largest_share if smallest_share is None else smallest_share
        numbers = {"ranks": self.ranks, "hosts": self.hosts, "smallest_share": least}
        return CommGroups(
            **{name: np.array([value]) for name, value in (numbers | links._asdict()).items()}
        )


def world_group(hosts: Sequence[Hosts], network: Network | None) -> WorldGroup:
    """Return what :meth:`.fabric.Fabric.slowest_group` says of the world.

    Parameters
    ----------
    hosts : sequence of Hosts
        Those that are joined by their accelerators' own link count as one.
    network : Network or None
        Between them; None for one host.
    """
    shapes = [(one.link, one.count, network_reach_bytes_per_s(one.accelerator)) for one in hosts]
    return WorldGroup(
        float(sum([one.count * one.repeat for one in hosts])),
        float(sum([one.repeat for one in hosts])),
        _links(tuple(shapes), network),
    )


@lru_cache(maxsize=8_192)
def _links(shapes: tuple[tuple[Link, int, float], ...], network: Network | None) -> WorldLinks:
    """Return the links of hosts by what joins their ranks, how many these are, and their slots."""
    largest = max(count for _, count, _ in shapes)
    talking = [link for link, count, _ in shapes if count > 1] or [link for link, _, _ in shapes]
    # As if every host had as many ranks as the fullest: the steady form of replicas.
    rates = [float(link.bandwidth(largest, steady=True)) for link in talking]
    slowest = min(rates)
    links = [link for link, rate in zip(talking, rates, strict=True) if rate == slowest]
    inter, latency_s, between = math.inf, 0.0, LinkClass.NONE
    if network is not None:
        # What one accelerator can send out of its host: its slot and its adapter.
        adapter = network.bandwidth_bytes_per_s / network.rails
        reach = min(adapter, *[slot for _, _, slot in shapes])
        fair = network.bandwidth_bytes_per_s / network.oversubscription
        inter, latency_s = min(fair, largest * reach), network.latency_s
        between = network_class(network)
    return WorldLinks(
        largest_share=float(largest),
        intra_class=max(int(link.link_class) for link in links),
        inter_class=int(between),
        intra_bytes_per_s=slowest,
        intra_latency_s=max(link.latency_s for link in links),
        inter_bytes_per_s=inter,
        inter_latency_s=latency_s,
    )
