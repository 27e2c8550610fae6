"""Networks between hosts, by the names that the short form of a placement uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perfmodel.errors import InvalidPlacementError, nearest_names
from perfmodel.placement.topology import Network

#: One-way latency of a small message between two hosts. Fabrics that move data without the
#: kernel (InfiniBand, RoCE) take a few microseconds, TCP over Ethernet some tens.
_LATENCY_S: Mapping[str, float] = MappingProxyType({"ib": 2e-6, "roce": 4e-6, "eth": 3e-5})

#: Line rates offered for each fabric, in Gbit/s.
_RATES_GBIT: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "ib": (56, 100, 200, 400, 800),
        "roce": (25, 50, 100, 200, 400, 800),
        "eth": (1, 10, 25, 40, 50, 100, 200, 400),
    }
)


def _network(fabric: str, rate_gbit: int) -> Network:
    return Network(
        name=f"{fabric}-{rate_gbit}g",
        # Line rate of one direction; 1 Gbit/s = 1e9 / 8 bytes/s.
        bandwidth_bytes_per_s=rate_gbit * 1e9 / 8,
        latency_s=_LATENCY_S[fabric],
    )


#: Every named network: ``"ib-400g"`` carries 50e9 bytes/s per host and direction.
NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        network.name or "": network
        for fabric, rates in _RATES_GBIT.items()
        for network in (_network(fabric, rate) for rate in rates)
    }
)


def named_network(name: str, *, pointer: str = "/placement/network") -> Network:
    """Return a network by its name.

    Parameters
    ----------
    name : str
        A key of :data:`NETWORKS`, in any case.
    pointer : str
        JSON pointer to the name in the request.

    Returns
    -------
    Network

    Raises
    ------
    InvalidPlacementError
        No network of that name; says which there are.

    Examples
    --------
    >>> named_network("ib-400g").bandwidth_bytes_per_s
    50000000000.0
    """
    known = NETWORKS.get(name.strip().lower())
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
