"""A placement with its accelerators looked up: hosts, links, and the groups that communicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.placement.checks import check_placement, resolved_plan
from perfmodel.placement.default_network import default_network
from perfmodel.placement.groups import CommGroups, LinkClass, join_groups
from perfmodel.placement.host_link import (
    has_optional_bridge,
    link_of,
    network_reach_bytes_per_s,
)
from perfmodel.placement.link_latency import with_latency
from perfmodel.placement.links import Link
from perfmodel.placement.networks import network_class
from perfmodel.placement.rank_groups import (
    STEADY,
    Dimension,
    LinkDomains,
    neighbour_pairs,
    stride_and_size,
    strided_groups,
)
from perfmodel.placement.topology import Network, Placement, Plan

#: Stride, size and whether the steady form is meant.
_Layout = tuple[int, int, bool]

#: Groups of larger sets are described again each time, so that a Fabric stays small.
_KEPT_ROWS = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """Equal hosts.

    Parameters
    ----------
    accelerator : AcceleratorSpec
    count : int
        Accelerators that the job gets of each.
    repeat : int
    link : Link
        Between them.
    """

    accelerator: AcceleratorSpec
    count: int
    repeat: int
    link: Link


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A placement whose names are looked up; make one with :meth:`of`.

    Parameters
    ----------
    placement : Placement
        As asked for.
    hosts : tuple of Hosts
        One entry for each node entry of the placement.
    network : Network or None
        Between hosts, assumed where the placement states none; None for one host, and for hosts
        that the accelerators' own link joins (a TPU slice, an NVL72 rack).
    plan : Plan
        With ``data`` stated.
    domains : LinkDomains
        What joins the ranks.
    warnings : tuple of str
        What had to be assumed.

    Examples
    --------
    >>> from perfmodel.placement.parse import parse_placement
    >>> fabric = Fabric.of(parse_placement("2x(8xA100-SXM4-80GB)@ib-200g tp=8"))
    >>> fabric.groups(Dimension.TENSOR).hosts.tolist()
    [1.0, 1.0]

    Eight groups of two replicas share the 25 GB/s of a host:

    >>> fabric.groups(Dimension.DATA).inter_bytes_per_s.tolist()[0] / 1e9
    3.125
    """

    placement: Placement
    hosts: tuple[Hosts, ...]
    network: Network | None
    plan: Plan
    domains: LinkDomains
    warnings: tuple[str, ...] = ()
    _known: dict[_Layout, CommGroups] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        placement: Placement,
        catalog: Catalog | None = None,
        *,
        pointer: str = "/placement",
        latencies: Mapping[str, float] | None = None,
    ) -> Fabric:
        """Look up a placement.

        Parameters
        ----------
        placement : Placement
        catalog : Catalog or None
            None means the shipped one.
        pointer : str
            JSON pointer to the placement in the request.
        latencies : mapping of str to float or None
            Seconds of a hop by the name of the link, in place of those of
            :data:`perfmodel.placement.links.LINKS`; None means what was learned from collectives.

        Raises
        ------
        UnknownAcceleratorError
            A name that the catalogue does not hold.
        InvalidPlacementError
            A link that the accelerator has not, or a plan that does not fit the placement.
        """
        check_placement(placement, pointer=pointer)
        hosts = _hosts(placement, catalog or Catalog.default(), pointer, latencies)
        joined = _is_joined(hosts, placement.network)
        network, assumed = _network(placement, hosts, joined)
        return cls(
            placement=placement,
            hosts=hosts,
            network=network,
            plan=resolved_plan(placement, pointer=pointer),
            domains=_domains(_joined(hosts) if joined else hosts, network),
            warnings=(*assumed, *_link_warnings(placement, hosts, joined)),
        )

    @property
    def accelerator_count(self) -> int:
        """Accelerators in all."""
        return self.placement.accelerator_count

    @property
    def host_count(self) -> int:
        """Hosts in all."""
        return self.placement.host_count

    @property
    def kinds(self) -> Mapping[str, int]:
        """Accelerators of each kind, by canonical name, in the placement's order."""
        found: dict[str, int] = {}
        for one in self.hosts:
            name = one.accelerator.name
            found[name] = found.get(name, 0) + one.count * one.repeat
        return MappingProxyType(found)

    @property
    def accelerators(self) -> tuple[AcceleratorSpec, ...]:
        """Each kind of accelerator once, in the order of :attr:`kinds`."""
        return tuple({one.accelerator.name: one.accelerator for one in self.hosts}.values())

    def groups(self, dimension: Dimension, plan: Plan | None = None) -> CommGroups:
        """Return all the groups of a dimension of a plan, talking at the same time.

        Parameters
        ----------
        dimension : Dimension
        plan : Plan or None
            Another plan for the same accelerators; None means the placement's own.

        Returns
        -------
        CommGroups
            One row a group; a single row of one rank for a pipeline of one stage.

        Raises
        ------
        InvalidPlacementError
            The plan does not fit the accelerators.
        """
        chosen = self._chosen(plan)
        key = _layout(dimension, chosen)
        known = self._known.get(key)
        if known is None:
            known = self._described(key, chosen)
            if known.ranks.size <= _KEPT_ROWS:
                self._known[key] = known
        return known

    def slowest_group(self, dimension: Dimension, plan: Plan | None = None) -> CommGroups:
        """Return the group of a dimension whose links are slowest, as one row.

        Parameters
        ----------
        dimension, plan
            As for :meth:`groups`.
        """
        groups = self.groups(dimension, plan)
        inside = np.where(groups.largest_share > 1, 1.0 / groups.intra_bytes_per_s, 0.0)
        cost = np.maximum(inside, 1.0 / groups.inter_bytes_per_s)
        return groups.take(np.array([int(np.argmax(cost))]))

    def slowest_groups(self, dimension: Dimension, plans: Sequence[Plan]) -> CommGroups:
        """Return the slowest group of a dimension for each of many plans, one row a plan.

        Parameters
        ----------
        dimension : Dimension
        plans : sequence of Plan
            At least one.
        """
        rows: dict[_Layout, int] = {}
        slowest: list[CommGroups] = []
        which = []
        for plan in plans:
            chosen = self._chosen(plan)
            key = _layout(dimension, chosen)
            if key not in rows:
                rows[key] = len(slowest)
                slowest.append(self.slowest_group(dimension, chosen))
            which.append(rows[key])
        return join_groups(slowest).take(np.array(which))

    def _chosen(self, plan: Plan | None) -> Plan:
        if plan is None or plan is self.plan:
            return self.plan
        return resolved_plan(self.placement, plan=plan)

    def _described(self, layout: _Layout, plan: Plan) -> CommGroups:
        stride, size, steady = layout
        if size < 0:
            return neighbour_pairs(self.domains, plan)
        return strided_groups(self.domains, stride, size, steady=steady)


def _layout(dimension: Dimension, plan: Plan) -> _Layout:
    """Return what tells the groups of a dimension and plan from others of the same ranks."""
    if dimension is not Dimension.PIPELINE:
        return (*stride_and_size(plan, dimension), dimension in STEADY)
    if plan.pipeline == 1:
        return (1, 1, False)
    # Pairs are not a stride and a size, so that they must not look like one.
    return (plan.pipeline, -min(plan.virtual_stages, 2), False)


def plan_groups(fabric: Fabric, plans: Sequence[Plan], dimension: Dimension) -> CommGroups:
    """Return :meth:`Fabric.slowest_groups`: one row a plan."""
    return fabric.slowest_groups(dimension, plans)


def _hosts(
    placement: Placement,
    catalog: Catalog,
    pointer: str,
    latencies: Mapping[str, float] | None,
) -> tuple[Hosts, ...]:
    found = []
    for position, node in enumerate(placement.nodes):
        here = f"{pointer}/nodes/{position}"
        try:
            spec = catalog.get(node.accelerator)
        except UnknownAcceleratorError as error:
            error.pointer = f"{here}/accelerator"
            raise
        link = with_latency(link_of(spec, node.link, pointer=f"{here}/link"), latencies)
        found.append(Hosts(accelerator=spec, count=node.count, repeat=node.repeat, link=link))
    return tuple(found)


def _is_joined(hosts: tuple[Hosts, ...], network: Network | None) -> bool:
    """Tell whether the accelerators' own link spans the hosts."""
    first = hosts[0]
    total = sum(one.count * one.repeat for one in hosts)
    alike = all(one.link == first.link and one.accelerator == first.accelerator for one in hosts)
    return network is None and first.link.joins_hosts and alike and total <= first.link.most


def _joined(hosts: tuple[Hosts, ...]) -> tuple[Hosts, ...]:
    total = sum(one.count * one.repeat for one in hosts)
    first = hosts[0]
    return (Hosts(accelerator=first.accelerator, count=total, repeat=1, link=first.link),)


def _network(
    placement: Placement, hosts: tuple[Hosts, ...], joined: bool
) -> tuple[Network | None, tuple[str, ...]]:
    if placement.host_count == 1 or joined:
        return None, ()
    if placement.network is not None:
        return placement.network, ()
    network = default_network([one.accelerator for one in hosts])
    names = ", ".join(dict.fromkeys(one.accelerator.name for one in hosts))
    return network, (
        f"No network between the {placement.host_count} hosts is given; {network.name} is assumed, "
        f"which hosts with {names} usually have. State it as in '@{network.name}'.",
    )


def _link_warnings(placement: Placement, hosts: tuple[Hosts, ...], joined: bool) -> tuple[str, ...]:
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
    return tuple(dict.fromkeys(warnings))


def _domains(hosts: tuple[Hosts, ...], network: Network | None) -> LinkDomains:
    links = [one.link for one in hosts]
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
        reach_bytes_per_s=np.array([_reach(one, network) for one in hosts]),
        network_bytes_per_s=_shared_bytes_per_s(network),
        network_latency_s=0.0 if network is None else network.latency_s,
        network_class=int(LinkClass.NONE if network is None else network_class(network)),
    )


def _reach(hosts: Hosts, network: Network | None) -> float:
    adapter = np.inf if network is None else network.bandwidth_bytes_per_s / network.rails
    return float(min(adapter, network_reach_bytes_per_s(hosts.accelerator)))


def _shared_bytes_per_s(network: Network | None) -> float:
    if network is None:
        return float("inf")
    return network.bandwidth_bytes_per_s / network.oversubscription
