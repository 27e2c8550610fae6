"""A placement with its accelerators looked up: hosts, links, and the groups that communicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError, UnknownAcceleratorError
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import (
    has_optional_bridge,
    learned_link,
    link_of,
    slot_bytes_per_s,
    with_latency,
)
from perfmodel.placement.fabric.rank_groups import (
    STEADY,
    Dimension,
    LinkDomains,
    neighbour_pairs,
    stride_and_size,
    strided_groups,
)
from perfmodel.placement.fabric.world_group import WorldGroup, world_columns, world_links
from perfmodel.placement.topology.links import Link, LinkClass
from perfmodel.placement.topology.networks import default_network, network_class
from perfmodel.placement.topology.placement_checks import check_placement, resolved_plan
from perfmodel.placement.topology.topology import Network, Placement, Plan


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


#: Stride, size and whether the steady form is meant.
_Layout = tuple[int, int, bool]

#: Groups of larger sets are described again each time, so that a Fabric stays small.
_KEPT_ROWS = 4_096


#: What cards take that no bridge joins.
_BY_SLOT = (LinkClass.PCIE, LinkClass.NONE)


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
    linked : tuple of Hosts
        The hosts as links join their accelerators: slices, where the accelerators' own link spans
        several hosts.
    warnings : tuple of str
        What had to be assumed.

    Examples
    --------
    >>> from perfmodel.placement.topology.parse import parse_placement
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
    linked: tuple[Hosts, ...]
    warnings: tuple[str, ...] = ()
    _known: dict[_Layout, CommGroups] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        placement: Placement,
        catalog: Catalog | None = None,
        *,
        latencies: Mapping[str, float] | None = None,
    ) -> Fabric:
        """Look up a placement.

        Parameters
        ----------
        catalog : Catalog or None
            None means the shipped one.
        latencies : mapping of str to float or None
            Seconds of a hop by the name of the link, in place of those of
            :data:`.links.LINKS`; None means what was learned from collectives.

        Raises
        ------
        UnknownAcceleratorError
            A name that the catalogue does not hold.
        InvalidPlacementError
            A link that the accelerator has not, or a plan that does not fit the placement.
        """
        plan = check_placement(placement)
        known = Catalog.default() if catalog is None else catalog
        hosts, said = _look_up_hosts(placement, known, latencies)
        warnings, linked = tuple(said), hosts
        network = placement.network if placement.host_count > 1 else None
        if placement.host_count > 1 and network is None:
            slices = joined_hosts(hosts) if hosts[0].link.joins_hosts else None
            linked = slices or hosts
            if slices is None or slices[0].repeat > 1:
                network, assumed = assumed_network(hosts, slices)
                warnings = (assumed, *warnings)
        return cls(
            placement=placement,
            hosts=hosts,
            linked=linked,
            network=network,
            plan=plan,
            warnings=warnings,
        )

    @cached_property
    def domains(self) -> LinkDomains:
        """What joins the ranks, as columns."""
        return link_domains(self.linked, self.network)

    @cached_property
    def world_group(self) -> WorldGroup:
        """All accelerators as one group, over its slowest links, as plain numbers."""
        hosts = self.linked
        shapes = [(one.link, one.count, slot_bytes_per_s(one.accelerator)) for one in hosts]
        return WorldGroup(
            float(sum([one.count * one.repeat for one in hosts])),
            float(sum([one.repeat for one in hosts])),
            world_links(tuple(shapes), self.network),
        )

    @cached_property
    def world(self) -> CommGroups:
        """The same as columns of one row: equal to the slowest group of the world."""
        return world_columns([self.world_group])

    @property
    def accelerators(self) -> tuple[AcceleratorSpec, ...]:
        """Each kind of accelerator once, in the order of the placement."""
        return tuple({one.accelerator.name: one.accelerator for one in self.hosts}.values())

    def groups(self, dimension: Dimension, plan: Plan | None = None) -> CommGroups:
        """Return all the groups of a dimension of a plan, talking at the same time.

        Parameters
        ----------
        plan : Plan or None
            Another plan for the same accelerators; None means the placement's own.

        Returns
        -------
        CommGroups
            One row a group; a single row of one rank for a pipeline of one stage.
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
        """Return the one of the :meth:`groups` of a dimension whose links are slowest, as a row."""
        groups = self.groups(dimension, plan)
        inside = np.where(groups.largest_share > 1, 1.0 / groups.intra_bytes_per_s, 0.0)
        cost = np.maximum(inside, 1.0 / groups.inter_bytes_per_s)
        return groups.take(np.array([int(np.argmax(cost))]))

    def slowest_groups(self, dimension: Dimension, plans: Sequence[Plan]) -> CommGroups:
        """Return the slowest group of a dimension for each of many plans, one row a plan.

        Parameters
        ----------
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
        return CommGroups.join(slowest).take(np.array(which))

    def _chosen(self, plan: Plan | None) -> Plan:
        if plan is None or plan is self.plan:
            return self.plan
        return resolved_plan(self.placement, plan=plan)

    def _described(self, layout: _Layout, plan: Plan) -> CommGroups:
        stride, size, steady = layout
        if size < 0:
            return neighbour_pairs(self.domains, plan)
        return strided_groups(self.domains, stride, size, steady=steady)


def _look_up_hosts(
    placement: Placement,
    catalog: Catalog,
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
        here = f"/placement/nodes/{position}"
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
            and has_optional_bridge(spec)
        ):
            way = "the host's memory" if link.name == "none" else link.name
            said[
                f"{spec.name} are taken as joined by {way} alone; where bridges join them write "
                f"the link {spec.link}."
            ] = None
    return tuple(found), said


def _layout(dimension: Dimension, plan: Plan) -> _Layout:
    """Return what tells the groups of a dimension and plan from others of the same ranks."""
    if dimension is not Dimension.PIPELINE:
        return (*stride_and_size(plan, dimension), dimension in STEADY)
    if plan.pipeline == 1:
        return (1, 1, False)
    # Pairs are not a stride and a size, so that they must not look like one.
    return (plan.pipeline, -min(plan.virtual_stages, 2), False)
