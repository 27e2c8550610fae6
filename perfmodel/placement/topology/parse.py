"""Read and write placements: the short form of people and the long form of programs.

``"8xA100-SXM4-80GB"`` is one host with eight, ``"2x(8xH100-SXM5-80GB)@ib-400g"`` two such hosts,
``"8xA100+4xV100"`` two unlike hosts; :mod:`.short_form` has the grammar. The
long form is the JSON object of the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import type_label
from perfmodel.graph.job_form import parse_job
from perfmodel.json_values import as_text
from perfmodel.placement.topology.instances import rented_hosts
from perfmodel.placement.topology.links import check_link_name
from perfmodel.placement.topology.networks import MAX_RAILS, NETWORKS, named_network
from perfmodel.placement.topology.placement_checks import (
    LEAST_FRACTION,
    MAX_ACCELERATORS,
    check_placement,
)
from perfmodel.placement.topology.short_form import HOW, read_short_form, write_short_form
from perfmodel.placement.topology.strict_fields import Fields
from perfmodel.placement.topology.topology import (
    REPLICAS,
    BatchSplit,
    Locality,
    Neighbour,
    Network,
    Node,
    Offload,
    Placement,
    Plan,
    Schedule,
    Sharing,
)

#: What placements do not say of themselves.
_UNWRITTEN = ("read_as", "accelerator_count", "host_count")
#: What plans say only where it says something.
_SAID: Mapping[str, Any] = {"replicate": 1, "offload": []}

#: Jobs that share the accelerators of a placement at most.
MOST_NEIGHBOURS = 64


def read_long_form(value: Mapping[str, Any], pointer: str = "/placement") -> Placement:
    """Read the long form of a placement.

    Examples
    --------
    >>> read_long_form({"nodes": [{"accelerator": "A100", "count": 8}]}).accelerator_count
    8
    """
    fields = Fields(value, pointer, what="placement")
    listed = tuple(_node(Fields(n, p, what="node")) for n, p in fields.items("nodes"))
    if not listed:
        raise InvalidPlacementError(
            "A placement needs at least one node; got none.", pointer=f"{pointer}/nodes"
        )
    rented = rented_hosts(listed, _network(fields), pointer=pointer)
    placement = Placement(
        nodes=rented.nodes,
        network=rented.network,
        plan=_plan(fields.child("plan")),
        shared_with=_neighbours(fields),
        sharing=fields.word("sharing", Sharing, Sharing.MPS),
        power_limit_w=fields.positive("power_limit_w"),
        fraction=fields.positive("fraction", least=LEAST_FRACTION, most=1.0),
        cpu_cores=fields.count("cpu_cores", None),
        storage_bytes_per_s=fields.positive("storage_bytes_per_s"),
        loader_workers=fields.count("loader_workers", None, least=0),
        storage_locality=fields.word("storage_locality", Locality, None),
        read_as=rented.read_as,
    )
    fields.refuse_unknown()
    check_placement(placement, pointer=pointer)
    return placement


def _neighbours(fields: Fields) -> tuple[Neighbour, ...]:
    found = tuple(_neighbour(item, at) for item, at in fields.items("shared_with", ()))
    if len(found) > MOST_NEIGHBOURS:
        raise InvalidPlacementError(
            f"shared_with names {len(found)} jobs; at most {MOST_NEIGHBOURS} share accelerators.",
            pointer=f"{fields.pointer}/shared_with",
        )
    return found


def _neighbour(value: Any, pointer: str) -> Neighbour:
    if isinstance(value, Mapping):
        job = parse_job(value, pointer=pointer)
        return Neighbour(job_type=type_label(job)) if job.job_type else Neighbour(job=job)
    # Nothing that looks like an object written as text is the name of a type.
    if not isinstance(value, str) or not value.strip() or value.startswith("{"):
        raise InvalidPlacementError(
            "An entry of shared_with is a job (an object) or the name of a job type.",
            pointer=pointer,
        )
    return Neighbour(job_type=as_text("The name of a job type", value, pointer))


def _node(fields: Fields) -> Node:
    link = fields.optional_text("link")
    node = Node(
        accelerator=fields.text("accelerator"),
        count=fields.count("count", 1, most=MAX_ACCELERATORS),
        link=None if link is None else check_link_name(link, pointer=f"{fields.pointer}/link"),
        repeat=fields.count("repeat", 1, most=MAX_ACCELERATORS),
    )
    fields.refuse_unknown()
    return node


def _network(fields: Fields) -> Network | None:
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
    latency = inner.positive("latency_s", least=0.0, most=1.0)
    oversubscription = inner.positive("oversubscription", least=1.0, most=1e6)
    rails = inner.count("rails", None, most=MAX_RAILS)
    inner.refuse_unknown()
    base = _named_or_stated(name, bandwidth, rails or 1, inner.pointer)
    return replace(
        base,
        latency_s=base.latency_s if latency is None else latency,
        oversubscription=oversubscription or 1.0,
    )


def _named_or_stated(
    name: str | None, bandwidth: float | None, rails: int, pointer: str
) -> Network:
    if bandwidth is not None:
        # What is stated beats what the name says; the name is kept for its class and for people.
        return Network(bandwidth_bytes_per_s=bandwidth, name=name, rails=rails)
    if name is None:
        raise InvalidPlacementError(
            "A network needs its bandwidth_bytes_per_s or a known name.",
            pointer=f"{pointer}/bandwidth_bytes_per_s",
        )
    counted = name if rails == 1 else f"{rails}x{name}"
    return named_network(counted, pointer=f"{pointer}/name")


def _plan(fields: Fields) -> Plan:
    if not fields:
        return REPLICAS
    plan = Plan(
        data=fields.count("data", None),
        tensor=fields.count("tensor", 1),
        pipeline=fields.count("pipeline", 1),
        expert=fields.count("expert", 1),
        context=fields.count("context", 1),
        zero_stage=fields.count("zero_stage", 0, least=0, most=3),
        sequence_parallel=fields.flag("sequence_parallel"),
        schedule=fields.word("schedule", Schedule, Schedule.ONE_F_ONE_B),
        virtual_stages=fields.count("virtual_stages", 1, most=1_000),
        replicate=fields.count("replicate", 1),
        offload=fields.words("offload", Offload),
        batch_split=fields.word("batch_split", BatchSplit, BatchSplit.EQUAL),
    )
    fields.refuse_unknown()
    return plan


def placement_to_dict(placement: Placement) -> dict[str, Any]:
    """Return the long form as plain JSON values, every field stated but for what says nothing."""
    return {
        **{name: value for name, value in _values(placement).items() if name not in _UNWRITTEN},
        "nodes": [_values(node) for node in placement.nodes],
        "network": placement.network and _values(placement.network),
        "plan": {
            name: value
            for name, value in _values(placement.plan).items()
            if name not in _SAID or value != _SAID[name]
        },
        "shared_with": [
            one.job_type if one.job is None else json.loads(one.key)
            for one in placement.shared_with
        ],
    }


def _values(part: Placement | Node | Network | Plan) -> dict[str, Any]:
    values = ((name, getattr(part, name)) for name in part.__slots__)
    return {name: _as_json(one) for name, one in values}


def _as_json(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    # Of a plan, words of what is offloaded; nodes and neighbours are written by their callers.
    if isinstance(value, tuple) and all(isinstance(one, StrEnum) for one in value):
        return [one.value for one in value]
    return value


__all__ = ["format_placement", "parse_placement", "placement_to_dict"]

#: Longest text that is read as a placement; thousands of unlike hosts fit.
MAX_TEXT = 100_000

#: What schedulers mostly write: hosts in data parallel, joined by '+', under a power limit or none.
#: The grammar says no more of them.
_HOST = r"(?:([1-9]\d{0,5})x)?([A-Za-z][\w.-]*)"
_ONE_HOST = re.compile(f"(){_HOST}", re.ASCII)
_HOSTS = re.compile(rf"([1-9]\d{{0,5}})x\({_HOST}\)", re.ASCII)
_WATTS = re.compile(r"[1-9]\d{0,4}", re.ASCII)
#: A name that may be more than one: a count stands last, or it is one of a host.
_MAY_BE_MORE = re.compile(
    r"x\d{1,4}$|xlarge$|metal$|-\w*gpu-|-hightpu-|-standard-|^n[cdv]\d|^standard|^gpu_|^[dh]gx"
    r"|^[bv]m\.gpu|nvl\d|v\d[a-z]*-\d+$",
    re.I,
)
#: Longer texts are left to the grammar, which counts their hosts.
_AT_A_GLANCE = 2_000


def parse_placement(value: str | Mapping[str, Any], *, pointer: str = "/placement") -> Placement:
    """Read a placement in either form.

    Parameters
    ----------
    value : str or mapping
        Short form, or the long form as decoded from JSON.
    pointer : str
        JSON pointer to the placement in the request; errors point below it, or to the text.

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
    >>> parse_placement("2x(8xA100) tp=8").plan.tensor
    8
    """
    if isinstance(value, str):
        return _plain(value) or _parse_short(value, pointer)
    if isinstance(value, Mapping):
        return read_long_form(value, pointer)
    raise InvalidPlacementError(
        f"A placement is a text or an object, got {type(value).__name__}. {HOW}", pointer=pointer
    )


def _plain(text: str) -> Placement | None:
    """Read the commonest texts at a glance; None for all others, wrong ones among them."""
    if len(text) > _AT_A_GLANCE:
        return None
    joined, limits, watts = text.partition(" power=")
    hosts, at, name = joined.partition("@")
    network = NETWORKS.get(name)
    if (at and network is None) or (limits and not _WATTS.fullmatch(watts)):
        return None
    nodes, accelerators = [], 0
    for part in hosts.split("+"):
        found = _ONE_HOST.fullmatch(part) or _HOSTS.fullmatch(part)
        if found is None or _MAY_BE_MORE.search(found[3]):
            return None
        repeat, count = int(found[1] or 1), int(found[2] or 1)
        accelerators += repeat * count
        nodes.append(Node(accelerator=found[3], count=count, repeat=repeat))
    if accelerators > MAX_ACCELERATORS:
        return None
    limit_w = float(watts) if limits else None
    return Placement(nodes=tuple(nodes), network=network, plan=REPLICAS, power_limit_w=limit_w)


def _parse_short(text: str, pointer: str) -> Placement:
    if len(text) > MAX_TEXT:
        raise InvalidPlacementError(
            f"The text of a placement has at most {MAX_TEXT} characters; got {len(text)}. Write "
            "equal hosts as '64x(8xA100)'.",
            pointer=pointer,
        )
    try:
        return read_long_form(read_short_form(text, pointer), pointer)
    except InvalidPlacementError as error:
        error.pointer = pointer  # a text has no parts in JSON
        raise


def format_placement(placement: Placement) -> str | dict[str, Any]:
    """Write a placement: short where the short form can say it, else long.

    Returns
    -------
    str or dict
        What :func:`parse_placement` reads back as an equal placement.

    Examples
    --------
    >>> format_placement(parse_placement("2 x (8xH100-SXM5-80GB) @ IB-400G"))
    '2x(8xH100-SXM5-80GB)@ib-400g'
    >>> format_placement(parse_placement("(1+1+4) x T4[pcie3]@eth-10g/2 PP=3"))
    '(1+1+4)xT4[pcie3]@eth-10g/2 pp=3'
    """
    short = write_short_form(placement)
    try:
        same = parse_placement(short) == replace(placement, read_as=())
    except InvalidPlacementError:
        same = False
    return short if same else placement_to_dict(placement)
