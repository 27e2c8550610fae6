"""Which link joins the accelerators of a host: what is written, or what they come with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.fitted import fitted
from perfmodel.placement.topology.links import (
    LINKS,
    Link,
    LinkClass,
    check_link_name,
    pcie_bytes_per_s,
)

#: Cards that are sold with their bridge, and how many one joins. Other bridges are sold apart
#: and few hosts have them, so that a host has one only where it is written.
_BRIDGED: Mapping[str, int] = MappingProxyType({"H100-NVL-94GB": 2, "H200-NVL": 4})

#: Superchips that one switch joins across the hosts of a rack (NVL72). The rack of 32 GH200 is
#: rare: most of them stand alone.
_RACKS: Mapping[str, int] = MappingProxyType({"GB200": 72, "GB300": 72})

#: GeForce cards since Turing (RTX 20, 30, 40, 50): the driver offers them peer access over their
#: bridge alone, so that over PCIe every byte is written to the host's memory and read again.
#: Professional cards (RTX A4000, RTX 6000 Ada, Quadro) and data-center cards have it.
_GEFORCE = re.compile(r"RTX-[2-5]0\d0(?!\d)(?!-Ada)")

_GENERATION = re.compile(r"(nvlink|nvswitch|xgmi|pcie|neuronlink|ici-v)(\d+)")


def link_of(spec: AcceleratorSpec, name: str | None = None, *, pointer: str = "") -> Link:
    """Return the link of a host's accelerators, at the rate of this accelerator.

    Parameters
    ----------
    name : str or None
        A name of :mod:`.links`; None means what the accelerator comes with:
        its NVLink through a switch (A100 SXM4 and later) or as a mesh (P100, V100), Infinity
        Fabric, the torus of its slice, else PCIe, or the host's memory (``none``) for cards
        that have no access to each other over PCIe. Bridges between cards have to be written,
        but for the parts that are sold with one.

    Raises
    ------
    InvalidPlacementError
        An unknown name, or a link that the accelerator has not.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> a100, card = map(Catalog.default().get, ("A100-SXM4-80GB", "RTX-3090"))
    >>> link_of(a100).name, link_of(card).name, link_of(card, "nvlink").name
    ('nvswitch3', 'none', 'nvlink3-bridge')
    """
    if name is None:
        return _at_rate_of(spec, _own(spec))
    written = check_link_name(name, pointer=pointer)
    if written == "none" or (written == "host-memory" and spec.kind == "cpu"):
        return _through_host(spec)
    found = _meant(spec, written)
    if found is None:
        raise InvalidPlacementError(
            f"{spec.name} has no {written}; its link is {_own(spec)}. Write that, or leave it out.",
            pointer=pointer,
            allowed=_offered(spec),
        )
    return _at_rate_of(spec, found)


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
    known = fitted("collectives")["link_latency_s"] if latencies is None else latencies
    learned = known.get(link.name)
    return link if learned is None else replace(link, latency_s=learned)


@lru_cache(maxsize=4_096)
def learned_link(spec: AcceleratorSpec, name: str | None) -> Link:
    """Return :func:`link_of` a host's accelerators with its learned latency."""
    return with_latency(link_of(spec, name))


def has_peer_access(spec: AcceleratorSpec) -> bool:
    """Tell whether accelerators of a kind copy to each other directly over PCIe.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> cards = map(Catalog.default().get, ("RTX-3090", "RTX-A6000", "GTX-1080Ti"))
    >>> [has_peer_access(card) for card in cards]
    [False, True, True]
    """
    return _GEFORCE.match(spec.name) is None


def has_optional_bridge(spec: AcceleratorSpec) -> bool:
    """Tell whether cards of this kind can be joined by a bridge that is sold apart."""
    return bool(spec.link and spec.link.endswith("-bridge")) and spec.name not in _BRIDGED


def _own(spec: AcceleratorSpec) -> str:
    """Return the key of the link that an accelerator comes with."""
    if spec.kind == "cpu":
        return "host-memory"
    if has_optional_bridge(spec) or spec.link is None:
        return _pcie(spec) or "none"
    return _form(spec, spec.link)


def _form(spec: AcceleratorSpec, link: str) -> str:
    """Return the key of what a link of the catalogue of devices is on this carrier."""
    if re.fullmatch(r"nvlink\d", link) is None:
        return link
    if link >= "nvlink3" or spec.form_factor == "SXM3":
        return link.replace("nvlink", "nvswitch")
    return f"{link}-mesh"


def _pcie(spec: AcceleratorSpec) -> str | None:
    if spec.pcie_generation is None:
        return None
    return f"pcie{spec.pcie_generation:g}{_lanes(spec)}"


def _lanes(spec: AcceleratorSpec) -> str:
    found = re.search(r"-x\d+$", spec.link or "")
    return found[0] if found else ""


def _offered(spec: AcceleratorSpec) -> tuple[str, ...]:
    own = (spec.link, _own(spec), _pcie(spec), "none")
    return tuple(dict.fromkeys(name for name in own if name is not None))


def _meant(spec: AcceleratorSpec, written: str) -> str | None:
    """Return the key that a written name means on this accelerator; None where it has none."""
    if written.startswith("pcie"):
        return _pcie(spec) if written == "pcie" or spec.pcie_generation is None else written
    if spec.link is None or _family(written) != _family(spec.link):
        return None
    told, own = _GENERATION.match(written), _GENERATION.match(spec.link)
    if told and own and told[2] != own[2]:
        return None
    is_card = spec.link.endswith("-bridge")
    if written in LINKS:
        return written if is_card == written.endswith("-bridge") else None
    if written == "nvswitch":
        return None if is_card or not own else f"nvswitch{own[2]}"
    return _form(spec, spec.link)


def _family(name: str) -> str:
    return (
        name.replace("nvswitch", "nvlink")
        .rstrip("0123456789")
        .partition("-")[0]
        .rstrip("0123456789")
    )


def _at_rate_of(spec: AcceleratorSpec, key: str) -> Link:
    if key in ("none", "host-memory"):
        return _through_host(spec)
    link = LINKS.get(key)
    if link is None:
        raise InvalidPlacementError(f"The catalogue gives {spec.name} the unknown link {key!r}.")
    if link.link_class is LinkClass.PCIE:
        # A slot of a newer generation makes no card faster.
        slot = min(link.bytes_per_s, slot_bytes_per_s(spec))
        return replace(link, bytes_per_s=slot) if has_peer_access(spec) else _by_way_of_host(slot)
    island = _BRIDGED.get(spec.name, 2) if link.link_class is LinkClass.NVLINK_PAIR else link.island
    rack = _RACKS.get(spec.name)
    return replace(
        link,
        bytes_per_s=spec.link_bandwidth_bytes_per_s or link.bytes_per_s,
        island=island,
        peers=island - 1 if link.link_class is LinkClass.NVLINK_PAIR and island else link.peers,
        detour_bytes_per_s=slot_bytes_per_s(spec) / (1 if has_peer_access(spec) else 2),
        most=rack or link.most,
        joins_hosts=link.joins_hosts or rack is not None,
    )


@lru_cache(maxsize=4_096)
def slot_bytes_per_s(spec: AcceleratorSpec) -> float:
    """Return what one accelerator can send out of its host: its PCIe slot; infinite without one."""
    if spec.pcie_generation is None:
        return float("inf")
    lanes = int(_lanes(spec).removeprefix("-x") or 16)
    return pcie_bytes_per_s(spec.pcie_generation, lanes)


def _through_host(spec: AcceleratorSpec) -> Link:
    """Return the way through the memory of the host: down and up again, half of the slot each."""
    if spec.kind == "cpu":
        # Ranks share memory: each byte is written and read once, on either side.
        return replace(LINKS["host-memory"], bytes_per_s=spec.bandwidth_bytes_per_s / 4)
    return _by_way_of_host(slot_bytes_per_s(spec))


def _by_way_of_host(slot_bytes_per_s: float) -> Link:
    if slot_bytes_per_s == float("inf"):
        return LINKS["none"]
    return replace(LINKS["none"], bytes_per_s=slot_bytes_per_s / 2)
