"""Read and write placements: the short form of people and the long form of programs.

Short form::

    placement := group ("+" group)* ("@" network)?
    group     := (repeat "x(" host ")") | host
    host      := (count "x")? accelerator

``"8xA100-SXM4-80GB"`` is one host with eight, ``"2x(8xH100-SXM5-80GB)@ib-400g"`` two such hosts,
``"8xA100+4xV100"`` two unlike hosts. The long form is the JSON object of the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.fields import Fields
from perfmodel.placement.networks import NETWORKS, named_network
from perfmodel.placement.topology import Network, Node, Placement, Plan

#: More accelerators than any job has; a slip of the finger above it is refused.
MAX_COUNT = 1_000_000

_REPEATED = re.compile(r"(\d+)\s*x\s*\((.*)\)", re.IGNORECASE)
_COUNTED = re.compile(r"(\d+)\s*x\s*(\S.*)", re.IGNORECASE)
_HOW = "Write it like '8xA100-SXM4-80GB' or '2x(8xH100-SXM5-80GB)@ib-400g'."


def parse_placement(value: str | Mapping[str, Any], *, pointer: str = "/placement") -> Placement:
    """Read a placement in either form.

    Parameters
    ----------
    value : str or mapping
        Short form, or the long form as decoded from JSON.
    pointer : str
        JSON pointer to the placement in the request; errors point below it.

    Returns
    -------
    Placement
        Equal for equal content, whichever form it came in. Accelerator names are kept as
        written; the catalogue resolves them.

    Raises
    ------
    InvalidPlacementError
        Nonsense, with the reason.

    Examples
    --------
    >>> parse_placement("2x(8xH100-SXM5-80GB)@ib-400g").accelerator_count
    16
    >>> parse_placement({"nodes": [{"accelerator": "A100"}]}) == parse_placement("A100")
    True
    """
    if isinstance(value, str):
        return _parse_short(value, pointer)
    if isinstance(value, Mapping):
        return _parse_long(value, pointer)
    raise InvalidPlacementError(
        f"A placement is a text or an object, got {type(value).__name__}. {_HOW}", pointer=pointer
    )


def _parse_short(text: str, pointer: str) -> Placement:
    body, at, network = text.rpartition("@") if "@" in text else (text, "", "")
    if at and not network.strip():
        raise InvalidPlacementError(
            f"Placement {text!r} ends with '@' but names no network. {_HOW}",
            pointer=pointer,
            allowed=tuple(NETWORKS),
        )
    nodes = tuple(_parse_group(part.strip(), text, pointer) for part in body.split("+"))
    return Placement(
        nodes=nodes, network=named_network(network, pointer=pointer) if network else None
    )


def _parse_group(part: str, text: str, pointer: str) -> Node:
    repeated = _REPEATED.fullmatch(part)
    repeat = _count(repeated[1], "repeat", pointer) if repeated else 1
    host = repeated[2].strip() if repeated else part
    counted = _COUNTED.fullmatch(host)
    count = _count(counted[1], "count", pointer) if counted else 1
    name = counted[2] if counted else host
    if not name or _nested(name):
        raise InvalidPlacementError(
            f"Placement {text!r} has no accelerator where {part!r} stands. {_HOW}", pointer=pointer
        )
    return Node(accelerator=name, count=count, repeat=repeat)


def _nested(name: str) -> bool:
    # "Intel(R) Xeon(R)" is a name; an unbalanced or leading parenthesis is a slip.
    return (
        name.count("(") != name.count(")")
        or name.startswith("(")
        or bool(re.match(r"\d+\s*x", name, re.IGNORECASE))
    )


def _count(digits: str, word: str, pointer: str) -> int:
    count = int(digits) if len(digits) < 10 else MAX_COUNT + 1
    if not 1 <= count <= MAX_COUNT:
        raise InvalidPlacementError(
            f"{word} must be between 1 and {MAX_COUNT}; got {digits}.", pointer=pointer
        )
    return count


def _parse_long(value: Mapping[str, Any], pointer: str) -> Placement:
    fields = Fields(value, pointer, what="placement")
    placement = Placement(
        nodes=tuple(_parse_node(Fields(n, p, what="node")) for n, p in fields.items("nodes")),
        network=_parse_network(fields),
        plan=_parse_plan(fields.child("plan")),
        shared_with=fields.texts("shared_with"),
        power_limit_w=fields.positive("power_limit_w"),
        fraction=fields.positive("fraction", most=1.0),
        cpu_cores=fields.count("cpu_cores", None),
        storage_bytes_per_s=fields.positive("storage_bytes_per_s"),
    )
    fields.refuse_unknown()
    return placement


def _parse_node(fields: Fields) -> Node:
    node = Node(
        accelerator=fields.text("accelerator"),
        count=fields.count("count", 1) or 1,
        link=fields.optional_text("link"),
        repeat=fields.count("repeat", 1) or 1,
    )
    fields.refuse_unknown()
    return node


def _parse_network(fields: Fields) -> Network | None:
    value = fields.peek("network")
    if value is None or isinstance(value, str):
        name = fields.optional_text("network")
        return None if name is None else named_network(name, pointer=f"{fields.pointer}/network")
    inner = fields.child("network")
    if not inner:
        raise InvalidPlacementError(
            "A network is a name or states its bandwidth_bytes_per_s.", pointer=inner.pointer
        )
    name = inner.optional_text("name")
    bandwidth = inner.positive("bandwidth_bytes_per_s")
    latency = inner.positive("latency_s", least=0.0)
    inner.refuse_unknown()
    known = named_network(name, pointer=f"{inner.pointer}/name") if name and not bandwidth else None
    if bandwidth is None and known is None:
        raise InvalidPlacementError(
            "A network needs its bandwidth_bytes_per_s or a known name.",
            pointer=f"{inner.pointer}/bandwidth_bytes_per_s",
        )
    base = known or Network(bandwidth_bytes_per_s=bandwidth or 0.0, name=name)
    return Network(
        bandwidth_bytes_per_s=base.bandwidth_bytes_per_s,
        latency_s=base.latency_s if latency is None else latency,
        name=base.name,
    )


def _parse_plan(fields: Fields) -> Plan:
    plan = Plan(
        data=fields.count("data", None),
        tensor=fields.count("tensor", 1) or 1,
        pipeline=fields.count("pipeline", 1) or 1,
        expert=fields.count("expert", 1) or 1,
        context=fields.count("context", 1) or 1,
        zero_stage=fields.count("zero_stage", 0, least=0, most=3) or 0,
    )
    fields.refuse_unknown()
    return plan


def format_placement(placement: Placement) -> str | dict[str, Any]:
    """Write a placement: short where the short form can say it, else long.

    Parameters
    ----------
    placement : Placement

    Returns
    -------
    str or dict
        What :func:`parse_placement` reads back as an equal placement.

    Examples
    --------
    >>> format_placement(parse_placement("2 x (8xH100-SXM5-80GB) @ IB-400G"))
    '2x(8xH100-SXM5-80GB)@ib-400g'
    """
    groups = "+".join(_format_node(node) for node in placement.nodes)
    network = placement.network
    short = f"{groups}@{network.name}" if network is not None else groups
    try:
        same = parse_placement(short) == placement
    except InvalidPlacementError:
        same = False
    return short if same else placement_to_dict(placement)


def _format_node(node: Node) -> str:
    host = f"{node.count}x{node.accelerator}" if node.count > 1 else node.accelerator
    return f"{node.repeat}x({host})" if node.repeat > 1 else host


def placement_to_dict(placement: Placement) -> dict[str, Any]:
    """Return the long form as plain JSON values, every field stated.

    Parameters
    ----------
    placement : Placement

    Returns
    -------
    dict
    """
    network, plan = placement.network, placement.plan
    return {
        "nodes": [
            {"accelerator": n.accelerator, "count": n.count, "link": n.link, "repeat": n.repeat}
            for n in placement.nodes
        ],
        "network": network
        and {
            "name": network.name,
            "bandwidth_bytes_per_s": network.bandwidth_bytes_per_s,
            "latency_s": network.latency_s,
        },
        "plan": {
            word: getattr(plan, word)
            for word in ("data", "tensor", "pipeline", "expert", "context", "zero_stage")
        },
        "shared_with": list(placement.shared_with),
        "power_limit_w": placement.power_limit_w,
        "fraction": placement.fraction,
        "cpu_cores": placement.cpu_cores,
        "storage_bytes_per_s": placement.storage_bytes_per_s,
    }
