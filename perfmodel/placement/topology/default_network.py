"""What joins hosts where nobody says: what hosts with these accelerators are usually sold with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Network

#: Cards for desks, whose machines have the network of an office.
_DESK = re.compile(r"(RTX-(?!PRO-6000-Server)|GTX-|TITAN|Quadro|RX-|Arc-)")

#: First year of each usual network, newest first, for boards of accelerators that are joined by
#: their own links: an adapter each from DGX A100 on, one or a few before. Most
#: submissions to MLPerf Training that say their network have this one or half of it.
_BOARDS = ((2022, "8xib-400g"), (2020, "8xib-200g"), (0, "ib-100g"))

#: The same for cards in servers and for CPUs.
_SERVERS = ((2020, "eth-100g"), (2018, "eth-25g"), (0, "eth-10g"))

#: Boards with adapters of their own generation, or four accelerators to a host; hosts of four TPUs
#: with the 50 and 100 Gbit/s of each that the documentation of Cloud TPU states.
_OWN: Mapping[str, str] = MappingProxyType(
    {
        "B300-SXM": "8xib-800g",
        "GB200": "4xib-400g",
        "GB300": "4xib-800g",
        "TPU-v5p": "eth-200g",
        "TPU-v6e": "2xeth-200g",
        "TPU-v7x": "2xeth-200g",
    }
)


def default_network(specs: Sequence[AcceleratorSpec]) -> Network:
    """Return the network that hosts with these accelerators usually have; of several the slowest.

    Boards of linked accelerators come with InfiniBand, from 2020 on with an adapter for each;
    servers with cards have Ethernet of their time; desks 10 Gbit/s.

    Parameters
    ----------
    specs : sequence of AcceleratorSpec
        At least one.

    Returns
    -------
    Network
        One that has a name, for the warning which has to be given with it.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> get = Catalog.default().get
    >>> default_network([get("A100-SXM4-80GB")]).name, default_network([get("RTX-4090")]).name
    ('8xib-200g', 'eth-10g')
    """
    found = [named_network(_usual(spec)) for spec in specs]
    return min(found, key=lambda network: network.bandwidth_bytes_per_s)


def _usual(spec: AcceleratorSpec) -> str:
    if spec.name in _OWN:
        return _OWN[spec.name]
    if _DESK.match(spec.name):
        return "eth-10g"
    is_board = spec.form_factor not in ("PCIe", "Laptop") and spec.kind in ("gpu", "npu")
    table = _BOARDS if is_board else _SERVERS
    return next(name for first, name in table if (spec.year or 0) >= first)
