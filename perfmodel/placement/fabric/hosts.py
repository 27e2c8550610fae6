"""The hosts of a placement: accelerators and links looked up, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError, UnknownAcceleratorError
from perfmodel.placement.fabric.host_link import (
    has_optional_bridge,
    learned_link,
    link_of,
    slot_bytes_per_s,
    with_latency,
)
from perfmodel.placement.fabric.rank_groups import LinkDomains
from perfmodel.placement.topology.links import Link, LinkClass
from perfmodel.placement.topology.networks import default_network, network_class
from perfmodel.placement.topology.topology import Network, Placement


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


#: What cards take that no bridge joins.
_BY_SLOT = (LinkClass.PCIE, LinkClass.NONE)


def look_up_hosts(
    placement: Placement,
    catalog: Catalog,
    pointer: str,
    latencies: Mapping[str, float] | None,
) -> tuple[tuple[Hosts, ...], dict[str, None]]:
    """Return the hosts of a placement with their accelerators and links looked up.

    Returns
    -------
    hosts : tuple of Hosts
    said : dict
        In its keys what is said of links that were assumed and of hosts that are not built.
    """
    found: list[Hosts] = []
    said: dict[str, None] = {}
    for position, node in enumerate(placement.nodes):
        here = f"{pointer}/nodes/{position}"
        try:
            spec = catalog.get(node.accelerator)
            if latencies is None:
                link = learned_link(spec, node.link)
            else:
                link = with_latency(link_of(spec, node.link), latencies)
        except UnknownAcceleratorError as error:
            error.pointer = f"{here}/accelerator"
            raise
        except InvalidPlacementError as error:
            error.pointer = f"{here}/link"
            raise
        found.append(Hosts(accelerator=spec, count=node.count, repeat=node.repeat, link=link))
        if node.count > link.most:
            hosts_of_8 = f"{-(-node.count // 8)}x(8x{spec.name})"
            said[
                f"{node.count} {spec.name} in one host: {link.name} joins at most {link.most} in "
                f"hosts that are built. For hosts of 8 write '{hosts_of_8}'."
            ] = None
        elif (
            node.count > 1
            and node.link is None
            and link.link_class in _BY_SLOT
            and (has_optional_bridge(spec))
        ):
            way = "the host's memory" if link.name == "none" else link.name
            said[
                f"{spec.name} are taken as joined by {way} alone; where bridges join them write "
                f"the link {spec.link}."
            ] = None
    return tuple(found), said


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
