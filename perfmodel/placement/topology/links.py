"""Links between the accelerators of one host, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError, nearest_names
from perfmodel.features.arrays import FloatArray


class LinkClass(IntEnum):
    """Kinds of link that behave alike; a learned efficiency belongs to each."""

    NONE = 0
    #: Every accelerator reaches every other at full rate through a switch (HGX, NVL72).
    NVSWITCH = 1
    #: Direct links to some or all neighbours (DGX-1, four A100 on one board).
    NVLINK = 2
    #: Bridges that join accelerators two by two.
    NVLINK_PAIR = 3
    XGMI = 4
    PCIE = 5
    #: Torus of a TPU pod.
    ICI = 6
    #: Remote memory access between hosts: InfiniBand, RoCE, EFA.
    RDMA = 7
    #: TCP over Ethernet.
    ETHERNET = 8
    #: Ranks that compute on the cores of one host: the system copies from one to the other.
    HOST_MEMORY = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """How one accelerator of a host reaches the others.

    Parameters
    ----------
    name : str
        A key of :data:`LINKS`.
    bytes_per_s : float
        Of one accelerator, one direction, over all its links.
    latency_s : float
        Of one hop.
    peers : int
        Neighbours that the rate is spread over; 1 where all of it reaches any one neighbour.
    island : int or None
        Most accelerators that are joined without a detour; None where all of a host are.
    detour_bytes_per_s : float
        Of one accelerator to those outside its island; ``bytes_per_s`` where there are none.
    most : int
        Accelerators of the largest set that is built with it.
    joins_hosts : bool
        Reaches across hosts, as in a TPU slice or an NVL72 rack.
    """

    name: str
    link_class: LinkClass
    bytes_per_s: float
    latency_s: float
    peers: int = 1
    island: int | None = None
    detour_bytes_per_s: float = np.inf
    most: int = 16
    joins_hosts: bool = False

    def bandwidth(self, ranks: npt.ArrayLike, *, steady: bool = False) -> FloatArray:
        """Return the rate of one accelerator within a group of so many on the host.

        As :func:`link_bandwidth`.

        Examples
        --------
        Seven links of 64 GB/s, one to each of seven neighbours: two ranks have one of them.

        >>> LINKS["xgmi4"].bandwidth([2, 8]).tolist()
        [64000000000.0, 448000000000.0]
        """
        return link_bandwidth(
            ranks,
            self.bytes_per_s,
            self.peers,
            np.inf if self.island is None else self.island,
            self.detour_bytes_per_s,
            steady=steady,
        )


#: What a collective does once, whatever the ranks, over one pass of a buffer over the links: three
#: times as much as reductions and gatherings were fitted to, whose buckets have small pieces too.
_DONE_ONCE = 3.0


def link_bandwidth(
    ranks: npt.ArrayLike,
    bytes_per_s: npt.ArrayLike,
    peers: npt.ArrayLike,
    island: npt.ArrayLike,
    detour_bytes_per_s: npt.ArrayLike,
    *,
    steady: bool = False,
) -> FloatArray:
    """Return the rate of one accelerator within groups of so many on a host.

    A mesh gives each neighbour its share of the links, so that few ranks use few of them::

        bandwidth = bytes_per_s * min(1, (n - 1) / peers)                        in an island
                  = bytes_per_s * min(1, (a + (n - 1) / n) / (a + p / (p + 1)))  ... steady
                  = detour_bytes_per_s                                           beyond it

    The steady form, of ``p`` peers, is that of data parallelism: the least that few ranks may have
    without their exchange, whose time goes with ``(c + (n - 1) / n) / bandwidth``, being slower
    than that of all, for any part ``c <= a`` of it that every rank does once. Schedulers grow and
    shrink such jobs by the curve over the count, on which an accelerator must not be worth more
    for being one of many.

    Parameters
    ----------
    ranks : array_like
        Ranks ``n`` of the group on the host, >= 1; one counts as two.
    bytes_per_s, peers, island, detour_bytes_per_s : array_like
        As :class:`Link`; no island is infinite.

    Returns
    -------
    ndarray
        Bytes/s, one direction.
    """
    n = np.maximum(np.asarray(ranks, dtype=np.float64), 2.0)
    fan = np.asarray(peers, dtype=np.float64)
    few, all_of_them = (n - 1.0) / n, fan / (fan + 1.0)
    used = (_DONE_ONCE + few) / (_DONE_ONCE + all_of_them) if steady else (n - 1.0) / fan
    joined = np.asarray(bytes_per_s) * np.minimum(1.0, used)
    detour = np.minimum(np.asarray(detour_bytes_per_s), np.asarray(bytes_per_s))
    return np.asarray(np.where(n <= np.asarray(island), joined, detour), dtype=np.float64)


def pcie_bytes_per_s(generation: float, lanes: int = 16) -> float:
    """Return the rate of a PCIe slot, one direction.

    Generation 3 signals at 8 GT/s with 128 of 130 bits of payload, 0.984 GB/s a lane; each
    further one doubles it. Left out: headers of packets, which an efficiency learns.

    Examples
    --------
    >>> pcie_bytes_per_s(4) / 1e9
    31.5
    """
    return 0.984375e9 * math.exp2(generation - 3) * lanes


# One-way latency of a small message, with the library's share of it. Order of magnitude only,
# recalled from public point-to-point tests; the model of collectives learns its own on top.
_LATENCY_S: Mapping[LinkClass, float] = MappingProxyType(
    {
        LinkClass.NONE: 1e-5,
        LinkClass.NVSWITCH: 2e-6,
        LinkClass.NVLINK: 2e-6,
        LinkClass.NVLINK_PAIR: 2e-6,
        LinkClass.XGMI: 3e-6,
        LinkClass.PCIE: 4e-6,
        LinkClass.ICI: 1e-6,
        LinkClass.HOST_MEMORY: 2e-5,
    }
)


def _links() -> Iterator[Link]:
    yield from _nvlinks()
    yield from _meshes()
    yield from _pcie()
    yield from _tori()
    # Through the memory of the host: down over PCIe and up again, so half of its rate.
    yield _link("none", LinkClass.NONE, pcie_bytes_per_s(4) / 2)
    # A quarter of what a memory channel pair moves: each byte is written and read on either side.
    yield _link("host-memory", LinkClass.HOST_MEMORY, 10e9, most=256)


def _link(name: str, link_class: LinkClass, bytes_per_s: float, **more: int | bool) -> Link:
    return Link(
        name=name,
        link_class=link_class,
        bytes_per_s=bytes_per_s,
        latency_s=_LATENCY_S[link_class],
        **more,  # type: ignore[arg-type]  # whole numbers and flags, by the fields' own names
    )


def _nvlinks() -> Iterator[Link]:
    # Links x rate of one direction: P100 4 x 20, V100 6 x 25, A100 12 x 25, H100 18 x 25 and
    # B200 18 x 50 GB/s (makers' papers on the architectures).
    rates = {1: 80e9, 2: 150e9, 3: 300e9, 4: 450e9, 5: 900e9}
    for generation, rate in rates.items():
        if generation >= 2:  # DGX-2 brought the first switch
            yield _link(f"nvswitch{generation}", LinkClass.NVSWITCH, rate)
        if generation <= 4:
            # The cube of a DGX-1 reaches four neighbours; four on a board reach three.
            peers = 4 if generation <= 2 else 3
            most = 8 if generation <= 2 else 4
            yield _link(f"nvlink{generation}-mesh", LinkClass.NVLINK, rate, peers=peers, most=most)
    # RTX 2080 Ti, RTX 3090 and H100 PCIe; cards with more links state their own rate.
    for generation, rate in {2: 50e9, 3: 56e9, 4: 300e9}.items():
        yield _link(f"nvlink{generation}-bridge", LinkClass.NVLINK_PAIR, rate, island=2)


def _meshes() -> Iterator[Link]:
    # Infinity Fabric between packages, links x rate: MI60 2 x 50, MI100 3 x 46, MI210 3 x 50
    # (hives of four); MI300X 7 x 64 GB/s (all eight).
    yield _link("xgmi1", LinkClass.XGMI, 100e9, peers=2, island=4, most=8)
    yield _link("xgmi2", LinkClass.XGMI, 138e9, peers=3, island=4, most=8)
    yield _link("xgmi3", LinkClass.XGMI, 150e9, peers=3, most=8)
    yield _link("xgmi4", LinkClass.XGMI, 448e9, peers=7, most=8)
    # Others in the form of a direct mesh; the nearest class is the one of Infinity Fabric.
    yield _link("hccs", LinkClass.XGMI, 196e9, peers=7, most=16)
    yield _link("roce-10x100g", LinkClass.XGMI, 125e9, peers=7, most=8)
    yield _link("roce-24x100g", LinkClass.XGMI, 300e9, peers=7, most=8)
    yield _link("roce-24x200g", LinkClass.XGMI, 600e9, peers=7, most=8)
    yield _link("ipu-link", LinkClass.NVLINK, 160e9, peers=2, most=64)


def _pcie() -> Iterator[Link]:
    for generation in (2, 3, 4, 5, 6):
        for lanes, suffix in ((16, ""), (8, "-x8"), (4, "-x4")):
            rate = pcie_bytes_per_s(generation, lanes)
            yield _link(f"pcie{generation}{suffix}", LinkClass.PCIE, rate)


def _tori() -> Iterator[Link]:
    # Rate of one chip over all its links, one direction (makers' tables of each generation, which
    # state both directions together since v5p); a torus of two dimensions has four neighbours, one
    # of three has six. Largest slices.
    generations = {
        "v2": (248e9, 4, 512), "v3": (328e9, 4, 2_048), "v4": (300e9, 6, 4_096),
        "v5e": (200e9, 4, 256), "v5p": (600e9, 6, 8_960), "v6e": (400e9, 4, 256),
        "v7x": (600e9, 6, 9_216),
    }  # fmt: skip
    for generation, (rate, peers, most) in generations.items():
        yield _link(
            f"ici-{generation}", LinkClass.ICI, rate, peers=peers, most=most, joins_hosts=True
        )
    # Rings and tori between the chips of one machine.
    yield _link("neuronlink2", LinkClass.ICI, 192e9, peers=4, most=16)
    yield _link("neuronlink3", LinkClass.ICI, 640e9, peers=4, most=64)


#: Every link by its name, at the rate of the part that is known best by it.
LINKS: Mapping[str, Link] = MappingProxyType({link.name: link for link in _links()})

#: Words that leave the form or the generation to the accelerator.
FAMILIES = ("nvlink", "nvswitch", "xgmi", "pcie", "ici", "neuronlink")

#: ``nvlink3`` is a switch, a mesh or a bridge, as the accelerator's carrier has it.
GENERATIONS = tuple(f"nvlink{generation}" for generation in range(1, 6))


def link_names() -> tuple[str, ...]:
    """Return every name that a host's link may have."""
    return (*GENERATIONS, *LINKS, *FAMILIES)


def check_link_name(name: str, *, pointer: str = "") -> str:
    """Return the name of a link as the catalogue writes it.

    Parameters
    ----------
    name : str
        In any case, blanks around it do not matter.

    Examples
    --------
    >>> check_link_name(" NVLink3 ")
    'nvlink3'
    """
    written = name.strip().lower()
    if written in link_names():
        return written
    close = nearest_names(written, link_names())
    guess = f" Did you mean {' or '.join(repr(n) for n in close)}?" if close else ""
    raise InvalidPlacementError(
        f"Unknown link {name!r}.{guess} Known: {', '.join(link_names())}. Leave it out for what "
        "the accelerator comes with.",
        pointer=pointer,
        allowed=link_names(),
    )
