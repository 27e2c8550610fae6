"""Hosts that have a name: instance types of cloud providers, and systems that makers sell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from perfmodel.errors import InvalidPlacementError, nearest_names
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Network, Node

#: What the names of instance types look like, so that names of accelerators are not looked up.
_LOOKS_LIKE = re.compile(
    r"(ml\.|ecs\.)?\w+(-\w+)?\.(\d*xlarge|metal)|(a2|a3|a4|a4x|g2|g4|n1|ct\d\w*)-[a-z]+-\w+"
    r"|(standard[_ -])?n[cdv]\d+[\w -]*|gpu_\d+x_\w+|[dh]gx[ -]?[a-z]{0,2}\d+\w*"
    r"|(bm|vm)\.gpu[\w.-]*|gb\d+[ _-]?nvl\d+",
    re.IGNORECASE | re.ASCII,
)
_LONGEST = 100
#: A part of a pod: of the first kinds the cores are counted, two of which are a chip.
_SLICE = re.compile(
    r"(?:tpu[ _-]?)?v(?:(?P<in_cores>2|3|4|5p)|(?P<in_chips>5e|5litepod|6e))"
    r"-(?P<count>[1-9]\d{0,4})",
    re.IGNORECASE | re.ASCII,
)
_ATTACHED = re.compile(r"n1-", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceType:
    """One host that a provider rents out.

    Parameters
    ----------
    accelerator : str
        Canonical name.
    network : str
        Joins hosts of this type; empty where nothing is recorded.
    """

    name: str
    accelerator: str
    count: int
    network: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RentedHosts:
    """The hosts of a placement with the accelerators that they have.

    Parameters
    ----------
    read_as : tuple of str
        A sentence for each instance type among them.
    """

    nodes: tuple[Node, ...]
    network: Network | None
    read_as: tuple[str, ...] = ()


def rented_hosts(
    nodes: tuple[Node, ...], network: Network | None, *, pointer: str = "/placement"
) -> RentedHosts:
    """Put hosts in the place of instance types, which a node names as if they were accelerators.

    Where all hosts are of one type and nobody says what joins them, they have its network.

    Examples
    --------
    >>> found = rented_hosts((Node(accelerator="p4d.24xlarge", count=2),), None)
    >>> found.nodes[0].count, found.nodes[0].repeat, found.network.name
    (8, 2, 'efa-400g')
    """
    types = [instance_type(node.accelerator, pointer) for node in nodes]
    named = {found.name: found for found in types if found is not None}
    if not named:
        return RentedHosts(nodes=nodes, network=network)
    hosts = tuple(
        node if found is None else _host(node, found)
        for node, found in zip(nodes, types, strict=True)
    )
    only = types[0] if len(named) == 1 and None not in types else None
    if network is None and only and only.network and sum(node.repeat for node in hosts) > 1:
        network = named_network(only.network, pointer=pointer)
    return RentedHosts(nodes=hosts, network=network, read_as=tuple(map(_said, named.values())))


def _host(node: Node, found: InstanceType) -> Node:
    hosts = node.count * node.repeat
    return replace(node, accelerator=found.accelerator, count=found.count, repeat=hosts)


def _said(found: InstanceType) -> str:
    if _SLICE.fullmatch(found.name):
        counted = f"{found.count} chips {found.accelerator}, joined by links of their own"
        return f"{found.name!r} is read as a slice of {counted}."
    joined = f", joined by {found.network}" if found.network else ""
    return (
        f"{found.name!r} is read as a host with {found.count}x{found.accelerator}{joined}, as "
        f"recalled in {catalogue_date()} and not checked since."
    )


def instance_type(name: str, pointer: str = "/placement") -> InstanceType | None:
    """Return the instance type of a name; None for one that does not look like one.

    Raises
    ------
    InvalidPlacementError
        A name that looks like one and is not in the catalogue, or one to which accelerators are
        attached by choice.

    Examples
    --------
    >>> instance_type("p4d.24xlarge").accelerator, instance_type("Standard_ND96asr_v4").count
    ('A100-SXM4-40GB', 8)
    >>> instance_type("v5e-16").count, instance_type("v4-8").count
    (16, 4)
    >>> instance_type("A100-SXM4-80GB") is None
    True
    """
    if part := _SLICE.fullmatch(name):
        return _pod_slice(part)
    if len(name) > _LONGEST or not _LOOKS_LIKE.fullmatch(name):
        return None
    types = instance_types()
    found = types.get(_fold(name))
    if found is not None:
        return found
    if _ATTACHED.match(name):
        raise InvalidPlacementError(
            f"{name!r} has no accelerators of its own: they are attached. Name those, as in "
            "'2xT4'.",
            pointer=pointer,
        )
    known = [one.name for one in types.values()]
    close = nearest_names(name, known)
    guess = f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
    raise InvalidPlacementError(
        f"{name!r} looks like an instance type of a cloud or a system, and is none that is known."
        f"{guess} Otherwise name its accelerators, as in '8xA100-SXM4-80GB'.",
        pointer=pointer,
        allowed=tuple(close),
    )


def _pod_slice(part: re.Match[str]) -> InstanceType:
    kind = (part["in_cores"] or part["in_chips"]).lower().replace("litepod", "e")
    count = int(part["count"])
    chips = max(count // 2, 1) if part["in_cores"] else count
    return InstanceType(name=part[0], accelerator=f"TPU-v{kind}", count=chips, network="")


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Return every instance type by its folded name; read once."""
    types = [
        InstanceType(name=name, accelerator=accelerator, count=count, network=network)
        for provider, rows in _content().items()
        if provider != "source"
        for name, (accelerator, count, network) in rows.items()
    ]
    return {_fold(one.name): one for one in types}


@cache
def catalogue_date() -> str:
    """Return the month as of which the instance types are known."""
    return str(_content()["source"]["date"])


def _content() -> dict[str, dict[str, Any]]:
    text = (resources.files(__package__) / "instances.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _fold(name: str) -> str:
    return re.sub(r"[_ -]", "", re.sub(r"^(standard[_ -]|ml\.)", "", name.casefold()))
