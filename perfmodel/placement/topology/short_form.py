"""The short form of a placement, from text to the long form and back.

::

    placement := group ("+" group)* ("@" network)? (" " option)*
    group     := repeat "x(" host ")" | "(" count ("+" count)* ")x" part | host
    host      := (count times)? part | part (times | ":") count
    times     := "x" | "*" | "×"
    part      := accelerator ("[" link "]")?
    network   := name ("/" oversubscription)? | rate "gbit" ("," latency "us")? ("/" ...)?
    option    := key "=" value | "sp"

Where an accelerator is expected, an instance type of a cloud may stand for a host of its own.
``docs/placements.md`` has examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError, nearest_names
from perfmodel.json_values import shown
from perfmodel.placement.topology.cluster_words import cluster_form
from perfmodel.placement.topology.networks import NETWORKS
from perfmodel.placement.topology.topology import Network, Placement, Plan

HOW = (
    "Write it like '8xA100-SXM4-80GB', '2x(8xH100-SXM5-80GB)@ib-400g tp=8' or '(1+1+4)xT4@eth-10g'."
)

#: Option to field of the long form; a field of the plan unless it is one of the placement.
_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "dp": "data", "tp": "tensor", "pp": "pipeline", "ep": "expert", "cp": "context",
        "zero": "zero_stage", "sp": "sequence_parallel", "schedule": "schedule",
        "vp": "virtual_stages", "replicate": "replicate", "offload": "offload",
        "power": "power_limit_w", "fraction": "fraction",
        "cores": "cpu_cores", "storage": "storage_bytes_per_s",
    }
)  # fmt: skip
_OF_PLACEMENT = ("power_limit_w", "fraction", "cpu_cores", "storage_bytes_per_s")
_FIELDS: Mapping[str, str] = MappingProxyType({field: key for key, field in _OPTIONS.items()})

_TAIL = re.compile(r"(?:\s+(?:[a-z_]+\s*=\s*[^\s=]+|sp))+\s*$", re.IGNORECASE)
_OPTION = re.compile(r"([a-z_]+)\s*=\s*([^\s=]+)|\b(sp)\b", re.IGNORECASE)
_REPEATED = re.compile(r"(\d+)\s*[x*×]\s*\((.*)\)", re.IGNORECASE)
_UNEVEN = re.compile(r"\(([\d\s+]*)\)\s*[x*×]\s*(\S.*)", re.IGNORECASE)
_COUNTED = re.compile(r"(\d+)\s*[x*×]\s*(\S.*)", re.IGNORECASE)
#: "8 A100", "8A100"; a name like 3080Ti is no count.
_COUNT_BEFORE = re.compile(r"(\d{1,2}|[1-9]\d* (?=\S{3}))\s*((?!x)[A-Za-z]\S.*)", re.IGNORECASE)
_TWO_COUNTS = re.compile(r"(\d+)\s*[x*×]\s*(\d+)\s*[x*×]?\s*([A-Za-z].*)", re.IGNORECASE)
#: Names like RTX-3090 end in x and digits too.
_COUNT_LAST = re.compile(
    r"(\S.*?)\s*(?:(?<!rt)(?<!gt)(?<!\br)x\s*|[*×]\s*|:\s*)(\d{1,4})", re.IGNORECASE
)
#: A '+' with nothing to join after it: Xeon Platinum 8480+.
_ENDS_NAME = re.compile(r"\+\s*(?:$|[+\[)])")
_LINKED = re.compile(r"(.*?)\s*\[([^\[\]]*)\]")
#: Of the end of a text, where options are looked for: from each one on all others are tried.
_MOST_OPTIONS = 1_000
_RATE = re.compile(r"([\d.e+]+)\s*gbit(?:\s*,\s*([\d.e+-]+)\s*us)?", re.IGNORECASE)


def read_short_form(text: str, pointer: str = "/placement") -> dict[str, Any]:
    """Turn the short form of a placement into its long form.

    Returns
    -------
    dict
        The long form; numbers are not yet checked.

    Raises
    ------
    InvalidPlacementError
        Text that does not follow the grammar.

    Examples
    --------
    >>> read_short_form("4xT4@eth-10g tp=2")["plan"]
    {'tensor': 2}
    """
    # Long runs of spaces cost the expressions below the square of their length.
    text = " ".join(text.split())
    text = cluster_form(text, pointer) or text
    tail = _TAIL.search(text, max(len(text) - _MOST_OPTIONS, 0))
    head = text[: tail.start()] if tail else text
    body, at, network = head.rpartition("@") if "@" in head else (head, "", "")
    if at and not network.strip():
        raise InvalidPlacementError(
            f"Placement {shown(text)} names no network after its '@'. {HOW}",
            pointer=pointer,
            allowed=tuple(NETWORKS),
        )
    nodes = [node for part in _parts(body) for node in _nodes(part.strip(), text, pointer)]
    long: dict[str, Any] = {"nodes": nodes}
    if at:
        long["network"] = _read_network(network.strip(), pointer)
    return long | _read_options(tail[0] if tail else "", text, pointer)


def _parts(body: str) -> list[str]:
    """Split at each '+' outside parentheses that does not end or belong to a name (8480+)."""
    if "+" not in body or body.strip() in Catalog.default():
        return [body]
    parts, depth = [""], 0
    for place, letter in enumerate(body):
        depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0 and not _ENDS_NAME.match(body, place):
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _nodes(part: str, text: str, pointer: str) -> list[dict[str, Any]]:
    if uneven := _UNEVEN.fullmatch(part):
        counts = [digits.strip() for digits in uneven[1].split("+")]
        if not all(digits.isdigit() for digits in counts):
            raise InvalidPlacementError(
                f"({uneven[1]}) must be whole numbers joined by '+', one a host. {HOW}",
                pointer=pointer,
            )
        return [_node(uneven[2], part, text, pointer, count=_whole(digits)) for digits in counts]
    repeated = _REPEATED.fullmatch(part)
    host = repeated[2].strip() if repeated else part
    more: dict[str, Any] = {"repeat": _whole(repeated[1])} if repeated else {}
    name, count = _counted(host)
    numbers = more if count is None else {"count": count, **more}
    return [_node(name, part, text, pointer, **numbers)]


def _counted(host: str) -> tuple[str, int | None]:
    """Return what a host has and how many; None where no number is stated."""
    first = _COUNTED.fullmatch(host)
    if first and (not first[2].isdigit() or first[2] in Catalog.default()):
        return first[2], _whole(first[1])
    if host in Catalog.default():
        return host, None
    if last := _COUNT_LAST.fullmatch(host):
        return last[1], _whole(last[2])
    if (before := _COUNT_BEFORE.fullmatch(host)) and before[2] in Catalog.default():
        return before[2], _whole(before[1])
    return host, None


def _whole(digits: str) -> int:
    # Cut off where it is far beyond every limit: Python refuses to read thousands of digits.
    return int(digits.lstrip("0")[:12] or 0)


def _node(name: str, part: str, text: str, pointer: str, **numbers: int) -> dict[str, Any]:
    linked = _LINKED.fullmatch(name.strip())
    accelerator = linked[1] if linked else name.strip()
    if not accelerator or _is_slip(accelerator):
        raise InvalidPlacementError(
            f"Placement {shown(text)} has no accelerator where {shown(part)} stands. {_how(part)}",
            pointer=pointer,
        )
    link = {"link": linked[2]} if linked else {}
    return {"accelerator": accelerator, **numbers, **link}


def _how(part: str) -> str:
    """Return how to write what a part of a placement seems to mean."""
    if two := _TWO_COUNTS.fullmatch(part):
        return f"{two[1]} hosts with {two[2]} each are '{two[1]}x({two[2]}x{two[3]})'."
    if "," in part and "(" not in part:
        return f"Hosts are joined by '+', as in {shown('+'.join(map(str.strip, part.split(','))))}."
    return HOW


def _is_slip(name: str) -> bool:
    # "Intel(R) Xeon(R)" is a name; a parenthesis that leads or stays open, a count without a
    # name, a second count and an option without a value are slips.
    return (
        name.count("(") != name.count(")")
        or name.startswith("(")
        or "[" in name
        or "]" in name
        or "=" in name
        or (name.isdigit() and name not in Catalog.default())
        or ("," in name and _is_list(name))
        or name.casefold() in ("gpu", "gpus")
        or bool(re.match(r"\d+\s*x", name, re.IGNORECASE))
        or (name[:1].isdigit() and _counted(name)[1] is not None)
    )


def _is_list(name: str) -> bool:
    """Tell whether a name is several, with commas between them."""
    pieces = [_counted(piece.strip())[0] for piece in name.split(",")]
    return len(pieces) > 1 and all(piece in Catalog.default() for piece in pieces)


def _read_network(text: str, pointer: str) -> str | dict[str, Any]:
    name, slash, divisor = text.partition("/")
    rate = _RATE.fullmatch(name.strip())
    if not slash and not rate:
        return name.strip()
    long: dict[str, Any] = {"name": name.strip()}
    if rate:
        bits = _number(rate[1], "The rate of the network", pointer)
        long = {"bandwidth_bytes_per_s": bits * 1e9 / 8}
        if rate[2]:
            long["latency_s"] = _number(rate[2], "The latency of the network", pointer) / 1e6
    if slash:
        long["oversubscription"] = _number(divisor, "The oversubscription after '/'", pointer)
    return long


def _number(digits: str, what: str, pointer: str) -> float:
    try:
        return float(digits)
    except ValueError as error:
        raise InvalidPlacementError(
            f"{what} must be a number; got {shown(digits.strip())}.", pointer=pointer
        ) from error


def _read_options(tail: str, text: str, pointer: str) -> dict[str, Any]:
    plan: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value, flag in _OPTION.findall(tail):
        field = _field((flag or key).lower(), pointer)
        target = own if field in _OF_PLACEMENT else plan
        if field in target:
            raise InvalidPlacementError(
                f"Placement {shown(text)} states {flag or key} twice. State it once.",
                pointer=pointer,
            )
        target[field] = True if flag else _value(field, value, pointer)
    return {**({"plan": plan} if plan else {}), **own}


def _field(key: str, pointer: str) -> str:
    field = _OPTIONS.get(key) or (key if key in _FIELDS else None)
    if field is None:
        close = nearest_names(key, [*_OPTIONS, *_FIELDS])
        guess = f" Did you mean {' or '.join(repr(n) for n in close)}?" if close else ""
        raise InvalidPlacementError(
            f"A placement has no option {shown(key)}.{guess} Options: {', '.join(_OPTIONS)}.",
            pointer=pointer,
            allowed=tuple(_OPTIONS),
        )
    return field


def _value(field: str, written: str, pointer: str) -> Any:
    if field == "schedule":
        return written.lower()
    if field == "offload":
        return written.lower().split("+")
    if field == "sequence_parallel":
        flags = {"true": True, "1": True, "false": False, "0": False}
        return flags.get(written.lower(), written)
    unit = "w" if field == "power_limit_w" else ""
    number = _number(written.lower().removesuffix(unit), field, pointer)
    is_whole = field not in ("power_limit_w", "fraction", "storage_bytes_per_s")
    return int(number) if is_whole and number.is_integer() else number


def write_short_form(placement: Placement) -> str:
    """Return a placement in the short form, as far as that can say it.

    Returns
    -------
    str
        Canonical spelling. Where the short form cannot say everything (jobs that share the
        accelerators, a network with a name and other numbers) it reads back as another placement.
    """
    groups = []
    runs = groupby(placement.nodes, key=lambda node: (node.accelerator, node.link, node.repeat))
    for (accelerator, link, repeat), nodes in runs:
        part = accelerator if link is None else f"{accelerator}[{link}]"
        counts = [node.count for node in nodes]
        if len(counts) > 1 and repeat == 1:
            groups.append(f"({'+'.join(map(str, counts))})x{part}")
            continue
        hosts = [f"{count}x{part}" if count > 1 else part for count in counts]
        groups += hosts if repeat == 1 else [f"{repeat}x({host})" for host in hosts]
    network = placement.network
    joined = "+".join(groups) + ("" if network is None else f"@{_write_network(network)}")
    return " ".join([joined, *_write_options(placement)])


def _write_network(network: Network) -> str:
    name = network.name
    if name is None:
        bits, latency = network.bandwidth_bytes_per_s * 8 / 1e9, network.latency_s * 1e6
        name = f"{_plain(bits)}gbit,{_plain(latency)}us"
    divisor = network.oversubscription
    return name if divisor == 1 else f"{name}/{_plain(divisor)}"


def _write_options(placement: Placement) -> list[str]:
    plan, default = placement.plan, Plan()
    written = []
    for key, field in _OPTIONS.items():
        if field in _OF_PLACEMENT:
            value, usual = getattr(placement, field), None
        else:
            value, usual = getattr(plan, field), getattr(default, field)
        if value == usual:
            continue
        written.append(key if value is True else f"{key}={_plain(value)}")
    return written


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
