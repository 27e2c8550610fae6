"""The hosts of a placement: accelerators and links looked up, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.placement.fabric.host_link import (
    has_optional_bridge,
    link_of,
    network_reach_bytes_per_s,
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


def look_up_hosts(
    placement: Placement,
    catalog: Catalog,
    pointer: str,
    latencies: Mapping[str, float] | None,
) -> tuple[Hosts, ...]:
    """Return the hosts of a placement with their accelerators and links looked up."""
    found = []
    for position, node in enumerate(placement.nodes):
        here = f"{pointer}/nodes/{position}"
        try:
            spec = catalog.get(node.accelerator)
        except UnknownAcceleratorError as error:
            error.pointer = f"{here}/accelerator"
            raise
        if latencies is None:
            link = _learned_link(spec, node.link, here)
        else:
            link = with_latency(link_of(spec, node.link, pointer=f"{here}/link"), latencies)
        found.append(Hosts(accelerator=spec, count=node.count, repeat=node.repeat, link=link))
    return tuple(found)


#: Links by accelerator and written name. Specifications cannot be hashed; each is kept with its
#: link, so that no other one takes its identity.
_LEARNED: dict[tuple[int, str | None], tuple[AcceleratorSpec, Link]] = {}
_MOST_LEARNED = 4_096


def _learned_link(spec: AcceleratorSpec, name: str | None, here: str) -> Link:
    known = _LEARNED.get((id(spec), name))
    if known is None:
        if len(_LEARNED) >= _MOST_LEARNED:
            _LEARNED.clear()
        known = spec, with_latency(link_of(spec, name, pointer=f"{here}/link"))
        _LEARNED[id(spec), name] = known
    return known[1]


def are_joined(hosts: tuple[Hosts, ...], network: Network | None) -> bool:
    """Tell whether the accelerators' own link spans the hosts, or whole slices of them."""
    first = hosts[0]
    if network is not None or not first.link.joins_hosts:
        return False
    total = sum(one.count * one.repeat for one in hosts)
    alike = all(one.link == first.link and one.accelerator == first.accelerator for one in hosts)
    slices = -(-total // first.link.most)
    equal = total % slices == 0 and all(total // slices % one.count == 0 for one in hosts)
    return alike and (slices == 1 or equal)


def as_one(hosts: tuple[Hosts, ...]) -> tuple[Hosts, ...]:
    """Return hosts that are joined as the one domain of links that they are, or equal ones."""
    total = sum(one.count * one.repeat for one in hosts)
    first = hosts[0]
    slices = -(-total // first.link.most)
    return (
        Hosts(accelerator=first.accelerator, count=total // slices, repeat=slices, link=first.link),
    )


def network_between(
    placement: Placement, hosts: tuple[Hosts, ...], joined: bool
) -> tuple[Network | None, tuple[str, ...]]:
    """Return the network between hosts, and what is said where it had to be assumed."""
    slices = as_one(hosts)[0] if joined else None
    if placement.host_count == 1 or (slices is not None and slices.repeat == 1):
        return None, ()
    if placement.network is not None:
        return placement.network, ()
    network = default_network([one.accelerator for one in hosts])
    names = ", ".join(dict.fromkeys(one.accelerator.name for one in hosts))
    if slices is not None:
        own = placement.host_count // slices.repeat
        return replace(
            network,
            bandwidth_bytes_per_s=own * network.bandwidth_bytes_per_s,
            rails=own * network.rails,
        ), (
            f"{slices.repeat} sets of {slices.count} {names} that {slices.link.name} joins are "
            f"assumed, with {network.name} of each host between them.",
        )
    return network, (
        f"No network between the {placement.host_count} hosts is given; {network.name} is assumed, "
        f"which hosts with {names} usually have. State it as in '@{network.name}'.",
    )


def link_warnings(placement: Placement, hosts: tuple[Hosts, ...]) -> tuple[str, ...]:
    """Return what is said of links that were assumed and of hosts that are not built."""
    warnings = []
    for one, node in zip(hosts, placement.nodes, strict=True):
        name = one.accelerator.name
        if one.count > one.link.most:
            warnings.append(
                f"{one.count} {name} in one host: {one.link.name} joins at most {one.link.most} "
                f"in hosts that are built. For hosts of 8 write '{-(-one.count // 8)}x(8x{name})'."
            )
        elif node.link is None and one.count > 1 and has_optional_bridge(one.accelerator):
            way = "the host's memory" if one.link.name == "none" else one.link.name
            warnings.append(
                f"{name} are taken as joined by {way} alone; where bridges join them write the "
                f"link {one.accelerator.link}."
            )
    return tuple(dict.fromkeys(warnings)) if warnings else ()


def link_domains(hosts: tuple[Hosts, ...], network: Network | None) -> LinkDomains:
    """Return what joins the ranks, as columns."""
    links = [one.link for one in hosts]
    adapter = np.inf if network is None else network.adapter_bytes_per_s
    reach = [min(adapter, network_reach_bytes_per_s(one.accelerator)) for one in hosts]
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
