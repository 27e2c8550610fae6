"""The group of all ranks of equal hosts, in closed form and for many placements at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.placement.topology.groups import CommGroups, LinkClass
from perfmodel.placement.topology.links import Link, link_bandwidth
from perfmodel.placement.topology.networks import network_class
from perfmodel.placement.topology.topology import Network


class HostKind(NamedTuple):
    """What joins the accelerators of equal hosts.

    Parameters
    ----------
    link : Link
        Inside a host.
    network : Network or None
        Between hosts; None for one host.
    reach_bytes_per_s : float
        What one accelerator can send out of its host.
    """

    link: Link
    network: Network | None
    reach_bytes_per_s: float


def world_of_equal_hosts(
    kind: HostKind, counts: npt.ArrayLike, repeats: npt.ArrayLike
) -> CommGroups:
    """Return what :meth:`.fabric.Fabric.slowest_group` says of the world of equal hosts.

    Parameters
    ----------
    kind : HostKind
        With a network where a placement has several hosts.
    counts, repeats : array_like of int, shape (placements,)
        Ranks of a host, and hosts.

    Returns
    -------
    CommGroups
        One row a placement.
    """
    here = np.asarray(counts, dtype=np.float64)
    hosts = np.asarray(repeats, dtype=np.float64)
    several, link, network = hosts > 1, kind.link, kind.network
    island = np.inf if link.island is None else float(link.island)
    inter = np.full(here.shape, np.inf)
    latency_s, between = 0.0, int(LinkClass.NONE)
    if network is not None:
        fair = network.bandwidth_bytes_per_s / network.oversubscription
        inter = np.where(several, np.minimum(fair, here * kind.reach_bytes_per_s), np.inf)
        latency_s, between = network.latency_s, int(network_class(network))
    return CommGroups(
        ranks=here * hosts,
        hosts=hosts,
        largest_share=here,
        smallest_share=here,
        intra_class=np.full(here.shape, int(link.link_class)),
        inter_class=np.where(several, between, 0),
        intra_bytes_per_s=link_bandwidth(
            here, link.bytes_per_s, float(link.peers), island, link.detour_bytes_per_s, steady=True
        ),
        intra_latency_s=np.full(here.shape, link.latency_s),
        inter_bytes_per_s=inter,
        inter_latency_s=np.where(several, latency_s, 0.0),
    )
