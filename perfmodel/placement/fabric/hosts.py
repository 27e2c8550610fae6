"""Hosts of a placement that are looked up, and what joins them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.placement.fabric.host_link import slot_bytes_per_s
from perfmodel.placement.fabric.rank_groups import LinkDomains
from perfmodel.placement.topology.links import Link, LinkClass
from perfmodel.placement.topology.networks import default_network, network_class
from perfmodel.placement.topology.topology import Network


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """Equal hosts.

    Parameters
    ----------
    count : int
        Accelerators that the job gets of each.
    """

    accelerator: AcceleratorSpec
    count: int
    repeat: int
    link: Link


def joined_hosts(hosts: tuple[Hosts, ...]) -> tuple[Hosts, ...] | None:
    """Return the slices that the accelerators' own link makes of hosts; None where it joins none.

    Parameters
    ----------
    hosts : tuple of Hosts
        Without a network between them.
    """
    first = hosts[0]
    total = sum(one.count * one.repeat for one in hosts)
    alike = all(one.link == first.link and one.accelerator == first.accelerator for one in hosts)
    slices = -(-total // first.link.most)
    equal = total % slices == 0 and all(total // slices % one.count == 0 for one in hosts)
    if not (alike and (slices == 1 or equal)):
        return None
    return (replace(first, count=total // slices, repeat=slices),)


def assumed_network(
    hosts: tuple[Hosts, ...], slices: tuple[Hosts, ...] | None
) -> tuple[Network, str]:
    """Return the network that hosts, or the slices that they make, usually have, and say so."""
    network = default_network([one.accelerator for one in hosts])
    names = ", ".join(dict.fromkeys(one.accelerator.name for one in hosts))
    count = sum(one.repeat for one in hosts)
    if slices is None:
        return network, (
            f"No network between the {count} hosts is given; {network.name} is assumed, "
            f"which hosts with {names} usually have. State it as in '@{network.name}'."
        )
    (each,), own = slices, count // slices[0].repeat
    return replace(
        network,
        bandwidth_bytes_per_s=own * network.bandwidth_bytes_per_s,
        rails=own * network.rails,
    ), (
        f"{each.repeat} sets of {each.count} {names} that {each.link.name} joins are "
        f"assumed, with {network.name} of each host between them."
    )


def link_domains(hosts: tuple[Hosts, ...], network: Network | None) -> LinkDomains:
    """Return what joins the ranks, as columns."""
    links = [one.link for one in hosts]
    adapter = np.inf if network is None else network.adapter_bytes_per_s
    reach = [min(adapter, slot_bytes_per_s(one.accelerator)) for one in hosts]
    islands = [np.inf if link.island is None else float(link.island) for link in links]
    return LinkDomains(
        repeats=np.array([one.repeat for one in hosts]),
        sizes=np.array([one.count for one in hosts]),
        link_class=np.array([int(link.link_class) for link in links]),
        link_bytes_per_s=np.array([link.bytes_per_s for link in links]),
        link_latency_s=np.array([link.latency_s for link in links]),
        link_peers=np.array([float(link.peers) for link in links]),
        link_island=np.array(islands),
        link_detour_bytes_per_s=np.array([link.detour_bytes_per_s for link in links]),
        reach_bytes_per_s=np.array(reach, dtype=np.float64),
        network_bytes_per_s=np.inf if network is None else network.shared_bytes_per_s,
        network_latency_s=0.0 if network is None else network.latency_s,
        network_class=int(LinkClass.NONE if network is None else network_class(network)),
    )
