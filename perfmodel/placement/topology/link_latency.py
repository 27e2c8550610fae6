"""Latencies of links as collectives taught them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfmodel.placement.collectives.collective_constants import CollectiveConstants
from perfmodel.placement.topology.links import Link


def with_latency(link: Link, latencies: Mapping[str, float] | None = None) -> Link:
    """Return a link with the learned latency of its name, where there is one.

    Parameters
    ----------
    latencies : mapping of str to float or None
        Seconds of a hop by the name of the link; None means those that were fitted with the model
        of collectives. An empty mapping leaves every link as the catalogue states it, which is
        where a fit has to begin.

    Examples
    --------
    >>> from perfmodel.placement.topology.links import LINKS
    >>> with_latency(LINKS["pcie4"], {"pcie4": 5e-6}).latency_s
    5e-06
    """
    known = CollectiveConstants.fitted().link_latency_s if latencies is None else latencies
    learned = known.get(link.name)
    return link if learned is None else replace(link, latency_s=learned)
