"""The one group of pure data parallelism, for many placements or for a curve, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups, join_groups
from perfmodel.placement.fabric.host_link import link_of, network_reach_bytes_per_s, with_latency
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import default_network, network_class
from perfmodel.placement.topology.topology import Network

FloatArray = npt.NDArray[np.float64]


def data_groups(fabrics: Sequence[Fabric]) -> CommGroups:
    """Return the group of all accelerators of each placement, one row a placement.

    Parameters
    ----------
    fabrics : sequence of Fabric
        At least one; their plans do not matter.
    """
    return join_groups([fabric.groups(Dimension.WORLD) for fabric in fabrics])


def scaling_groups(
    spec: AcceleratorSpec,
    counts: npt.ArrayLike,
    per_host: int,
    network: Network | None = None,
    *,
    link: str | None = None,
    latencies: Mapping[str, float] | None = None,
) -> CommGroups:
    """Return the group of all accelerators for each of many counts, hosts filled one by one.

    As :func:`data_groups` of ``n // per_host`` full hosts and one with the rest, but without a
    placement for each.

    Parameters
    ----------
    counts : array_like of int, shape (counts,)
        Accelerators, >= 1.
    per_host : int
        Accelerators of a host, >= 1.
    network : Network or None
        Between hosts; None means what :func:`.default_network.default_network`
        says, or nothing where the accelerators' own link joins the hosts.
    link : str or None
        Inside a host; None means what the accelerator comes with.
    latencies : mapping of str to float or None
        As for :meth:`.fabric.Fabric.of`.

    Returns
    -------
    CommGroups
        One row a count.

    Raises
    ------
    InvalidPlacementError
        A count below 1, or a link that the accelerator has not.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> groups = scaling_groups(Catalog.default().get("H100"), [1, 8, 12], 8)
    >>> groups.hosts.tolist(), groups.smallest_share.tolist()
    ([1.0, 1.0, 2.0], [1.0, 8.0, 4.0])
    """
    ranks = _counted(counts, per_host)
    own = with_latency(link_of(spec, link), latencies)
    hosts = np.ceil(ranks / per_host)
    if network is None and own.joins_hosts:
        hosts = np.where(ranks <= own.most, 1.0, hosts)
    largest = np.where(hosts > 1, float(per_host), ranks)
    return CommGroups(
        ranks=ranks,
        hosts=hosts,
        largest_share=largest,
        smallest_share=ranks - (hosts - 1) * largest,
        intra_class=np.full(ranks.shape, int(own.link_class)),
        intra_bytes_per_s=own.bandwidth(largest, steady=True),
        intra_latency_s=np.full(ranks.shape, own.latency_s),
        **_between(spec, network or default_network([spec]), hosts, largest),
    )


def _counted(counts: npt.ArrayLike, per_host: int) -> FloatArray:
    ranks = np.asarray(counts, dtype=np.float64)
    if per_host < 1 or ranks.size == 0 or ranks.min() < 1:
        raise InvalidPlacementError(
            f"Counts and accelerators of a host must be at least 1; got {per_host} of a host and "
            f"{ranks.min() if ranks.size else 'no counts'}."
        )
    return ranks


def _between(
    spec: AcceleratorSpec, network: Network, hosts: FloatArray, largest: FloatArray
) -> dict[str, npt.NDArray[Any]]:
    """Return what joins the hosts of each group; groups on one host need nothing."""
    is_spread = hosts > 1
    reach = min(network.bandwidth_bytes_per_s / network.rails, network_reach_bytes_per_s(spec))
    shared = network.bandwidth_bytes_per_s / network.oversubscription
    return {
        "inter_class": np.where(is_spread, int(network_class(network)), int(LinkClass.NONE)),
        "inter_bytes_per_s": np.where(is_spread, np.minimum(shared, largest * reach), np.inf),
        "inter_latency_s": np.where(is_spread, network.latency_s, 0.0),
    }
