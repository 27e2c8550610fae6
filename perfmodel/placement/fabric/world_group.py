"""The group of all ranks: of a placement as plain numbers, of many counts as columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import link_of, slot_bytes_per_s, with_latency
from perfmodel.placement.topology.links import Link, LinkClass
from perfmodel.placement.topology.networks import default_network, network_class
from perfmodel.placement.topology.topology import Network


class WorldLinks(NamedTuple):
    """What joins all ranks of a placement, however many hosts it has, as :class:`CommGroups`."""

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


def world_columns(groups: Iterable[WorldGroup]) -> CommGroups:
    """Return groups of all ranks as columns, one row each: equal to the slowest of their worlds."""
    names = ("ranks", "hosts", *WorldLinks._fields)
    rows = [(group.ranks, group.hosts, *group.links) for group in groups]
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return CommGroups(**{name: np.array(column) for name, column in columns})


def world_rows(groups: CommGroups) -> list[WorldGroup]:
    """Return groups of columns one by one, as :func:`world_columns` lays them out."""
    names = ("ranks", "hosts", *WorldLinks._fields)
    shape = np.shape(groups.ranks)
    columns = [np.broadcast_to(getattr(groups, name), shape).tolist() for name in names]
    return [
        WorldGroup(ranks, hosts, WorldLinks(*links))
        for ranks, hosts, *links in zip(*columns, strict=True)
    ]


@lru_cache(maxsize=8_192)
def world_links(shapes: tuple[tuple[Link, int, float], ...], network: Network | None) -> WorldLinks:
    """Return what joins all ranks of some hosts: what :meth:`.fabric.Fabric.slowest_group` says.

    Parameters
    ----------
    shapes : tuple of (Link, int, float)
        Of each host what joins its ranks, how many these are, and the rate of their slots.
    network : Network or None
        Between them; None for one host.
    """
    largest = max(count for _, count, _ in shapes)
    talking = [link for link, count, _ in shapes if count > 1] or [link for link, _, _ in shapes]
    # As if every host had as many ranks as the fullest: the steady form of replicas.
    rates = [float(link.bandwidth(largest, steady=True)) for link in talking]
    slowest = min(rates)
    links = [link for link, rate in zip(talking, rates, strict=True) if rate == slowest]
    inter, latency_s, between = math.inf, 0.0, LinkClass.NONE
    if network is not None:
        # What one accelerator can send out of its host: its slot and its adapter.
        reach = min(network.adapter_bytes_per_s, *[slot for _, _, slot in shapes])
        inter = min(network.shared_bytes_per_s, largest * reach)
        latency_s = network.latency_s
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


def scaling_groups(
    spec: AcceleratorSpec,
    counts: npt.ArrayLike,
    per_host: int,
    network: Network | None = None,
    *,
    link: str | None = None,
    latencies: Mapping[str, float] | None = None,
    steady: bool = True,
) -> CommGroups:
    """Return the group of all accelerators for each of many counts, hosts filled one by one.

    As the groups of all ranks of ``n // per_host`` full hosts and one with the rest, but without a
    placement for each.

    Parameters
    ----------
    counts : array_like of int, shape (counts,)
        Accelerators, >= 1.
    per_host : int
        Accelerators of a host, >= 1.
    network : Network or None
        Between hosts; None means what :func:`.networks.default_network`
        says, or nothing where the accelerators' own link joins the hosts.
    link : str or None
        Inside a host; None means what the accelerator comes with.
    latencies : mapping of str to float or None
        As for :meth:`.fabric.Fabric.of`.
    steady : bool
        Whether few ranks of a mesh have what replicas are taken to have, or the links between them
        alone, as in :func:`.links.link_bandwidth`.

    Raises
    ------
    InvalidPlacementError
        A count below 1, or a link that the accelerator has not.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> groups = scaling_groups(Catalog.default().get("H100"), [1, 8, 12], 8)
    >>> groups.hosts.tolist(), groups.largest_share.tolist()
    ([1.0, 1.0, 2.0], [1.0, 8.0, 8.0])
    """
    ranks = np.asarray(counts, dtype=np.float64)
    if per_host < 1 or ranks.size == 0 or ranks.min() < 1:
        raise InvalidPlacementError(
            f"Counts and accelerators of a host must be at least 1; got {per_host} of a host and "
            f"{ranks.min() if ranks.size else 'no counts'}."
        )
    own = with_latency(link_of(spec, link), latencies)
    hosts = np.ceil(ranks / per_host)
    if network is None and own.joins_hosts:
        hosts = np.where(ranks <= own.most, 1.0, hosts)
    several = hosts > 1
    largest = np.where(several, float(per_host), ranks)
    wire = network or default_network([spec])
    sent = np.minimum(
        wire.shared_bytes_per_s, largest * min(wire.adapter_bytes_per_s, slot_bytes_per_s(spec))
    )
    return CommGroups(
        ranks=ranks,
        hosts=hosts,
        largest_share=largest,
        intra_class=np.full(ranks.shape, int(own.link_class)),
        intra_bytes_per_s=own.bandwidth(largest, steady=steady),
        intra_latency_s=np.full(ranks.shape, own.latency_s),
        inter_class=np.where(several, int(network_class(wire)), int(LinkClass.NONE)),
        inter_bytes_per_s=np.where(several, sent, np.inf),
        inter_latency_s=np.where(several, wire.latency_s, 0.0),
    )
