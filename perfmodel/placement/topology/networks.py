"""Networks between hosts: by name, and what hosts are usually sold with where nobody says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError, nearest_names
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Network

#: One-way latency of a small message between two hosts. Fabrics that move data without the
#: kernel (InfiniBand, Omni-Path, RoCE, Slingshot, EFA) take a few microseconds, TCP over Ethernet
#: some tens.
_LATENCY_S: Mapping[str, float] = MappingProxyType(
    {"ib": 2e-6, "opa": 2e-6, "roce": 4e-6, "slingshot": 3e-6, "efa": 1.5e-5, "eth": 3e-5}
)

#: Line rates of one adapter of each fabric, in Gbit/s.
_RATES_GBIT: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "ib": (56, 100, 200, 400, 800),
        "roce": (25, 50, 100, 200, 400, 800),
        "eth": (1, 10, 25, 40, 50, 100, 200, 400),
        "efa": (100, 200),
        "opa": (100, 400),
        "slingshot": (200, 400),
    }
)

#: Hosts with several adapters that are known by what these carry together: Gbit/s -> adapters.
_TOTALS: Mapping[str, Mapping[int, int]] = MappingProxyType(
    {
        "ib": {1600: 8, 3200: 8, 6400: 8},
        "roce": {1600: 8, 3200: 8, 6400: 8},
        # Instances p4d, trn1, p5.
        "efa": {400: 4, 800: 8, 1600: 16, 3200: 32},
    }
)

#: Latency above which an unnamed network is taken for TCP: the kernel's path takes as long.
_TCP_LATENCY_S = 2e-5

_RAILED = re.compile(r"(\d+)\s*x\s*(.+)", re.IGNORECASE)


def _network(fabric: str, rate_gbit: int, rails: int = 1) -> Network:
    return Network(
        name=f"{fabric}-{rate_gbit}g",
        # Line rate of one direction; 1 Gbit/s = 1e9 / 8 bytes/s.
        bandwidth_bytes_per_s=rate_gbit * 1e9 / 8,
        latency_s=_LATENCY_S[fabric],
        rails=rails,
    )


def _networks() -> Iterator[Network]:
    for fabric, rates in _RATES_GBIT.items():
        yield from (_network(fabric, rate) for rate in rates)
        totals = _TOTALS.get(fabric, {})
        yield from (_network(fabric, rate, rails) for rate, rails in totals.items())


#: Every named network: ``"ib-400g"`` carries 50e9 bytes/s per host and direction.
NETWORKS: Mapping[str, Network] = MappingProxyType(
    {network.name or "": network for network in _networks()}
)


def named_network(name: str, *, pointer: str = "/placement/network") -> Network:
    """Return a network by its name.

    Parameters
    ----------
    name : str
        A key of :data:`NETWORKS`, in any case; ``"8xib-200g"`` is eight adapters a host.

    Examples
    --------
    >>> named_network("ib-400g").bandwidth_bytes_per_s
    50000000000.0
    >>> named_network("8xib-200g").rails
    8
    """
    written = name.strip().lower()
    railed = _RAILED.fullmatch(written)
    if railed:
        return _with_rails(railed[2].strip(), int(railed[1][:9]), pointer)
    known = NETWORKS.get(written)
    if known is None:
        close = nearest_names(name, list(NETWORKS))
        guess = f" Did you mean {' or '.join(repr(n) for n in close)}?" if close else ""
        raise InvalidPlacementError(
            f"Unknown network {name!r}.{guess} Known: {', '.join(NETWORKS)}. Any other is "
            "described by its bandwidth_bytes_per_s and latency_s.",
            pointer=pointer,
            allowed=tuple(NETWORKS),
        )
    return known


#: Adapters that a host may have.
MAX_RAILS = 64


def _with_rails(name: str, rails: int, pointer: str) -> Network:
    one = named_network(name, pointer=pointer)
    if not 1 <= rails <= MAX_RAILS:
        raise InvalidPlacementError(
            f"A host has between 1 and {MAX_RAILS} adapters; got {rails}.", pointer=pointer
        )
    if one.rails > 1:
        raise InvalidPlacementError(
            f"{one.name} counts its {one.rails} adapters already; write it without '{rails}x'.",
            pointer=pointer,
        )
    if rails == 1:
        return one
    total = rails * one.bandwidth_bytes_per_s
    return replace(one, name=f"{rails}x{one.name}", bandwidth_bytes_per_s=total, rails=rails)


def network_class(network: Network) -> LinkClass:
    """Tell how a network behaves: by its name, else by its latency.

    Returns
    -------
    LinkClass
        ``RDMA`` or ``ETHERNET``; an unnamed network is the latter above 20 us, which is what
        the kernel's path takes.

    Examples
    --------
    >>> network_class(named_network("eth-100g")).name, network_class(named_network("efa-400g")).name
    ('ETHERNET', 'RDMA')
    """
    fabric = re.sub(r"^\d+x", "", network.name or "").partition("-")[0].lower()
    if fabric in _LATENCY_S:
        return LinkClass.ETHERNET if fabric == "eth" else LinkClass.RDMA
    return LinkClass.ETHERNET if network.latency_s > _TCP_LATENCY_S else LinkClass.RDMA


#: Cards for desktops, which have the network of an office.
_DESKTOP = re.compile(r"(RTX-(?!PRO-6000-Server)|GTX-|TITAN|Quadro|RX-|Arc-)")

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
    servers with cards have Ethernet of their time; desktops 10 Gbit/s.

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
    if _DESKTOP.match(spec.name):
        return "eth-10g"
    is_board = spec.form_factor not in ("PCIe", "Laptop") and spec.kind in ("gpu", "npu")
    table = _BOARDS if is_board else _SERVERS
    return next(name for first, name in table if (spec.year or 0) >= first)
