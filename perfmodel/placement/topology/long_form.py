"""The long form of a placement: the JSON object of the query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import Any

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.topology.checks import MAX_ACCELERATORS, check_placement
from perfmodel.placement.topology.fields import Fields
from perfmodel.placement.topology.links import check_link_name
from perfmodel.placement.topology.networks import MAX_RAILS, named_network
from perfmodel.placement.topology.topology import (
    REPLICAS,
    BatchSplit,
    Locality,
    Neighbour,
    Network,
    Node,
    Placement,
    Plan,
    Schedule,
    Sharing,
)


@cache
def _words(kind: type[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


def read_long_form(value: Mapping[str, Any], pointer: str = "/placement") -> Placement:
    """Read the long form of a placement.

    Parameters
    ----------
    value : mapping
        As decoded from JSON.
    pointer : str
        JSON pointer to it in the request.

    Raises
    ------
    InvalidPlacementError
        Nonsense, with the reason.

    Examples
    --------
    >>> read_long_form({"nodes": [{"accelerator": "A100", "count": 8}]}).accelerator_count
    8
    """
    fields = Fields(value, pointer, what="placement")
    placement = Placement(
        nodes=tuple(_node(Fields(n, p, what="node")) for n, p in fields.items("nodes")),
        network=_network(fields),
        plan=_plan(fields.child("plan")),
        shared_with=tuple(_neighbour(item, at) for item, at in _listed(fields, "shared_with")),
        sharing=Sharing(fields.word("sharing", _words(Sharing), Sharing.MPS.value)),
        power_limit_w=fields.positive("power_limit_w"),
        fraction=fields.positive("fraction", most=1.0),
        cpu_cores=fields.count("cpu_cores", None),
        storage_bytes_per_s=fields.positive("storage_bytes_per_s"),
        loader_workers=fields.count("loader_workers", None, least=0),
        storage_locality=_locality(fields),
    )
    fields.refuse_unknown()
    check_placement(placement, pointer=pointer)
    return placement


def _listed(fields: Fields, name: str) -> list[tuple[Any, str]]:
    if fields.peek(name) is None:
        fields.texts(name)
        return []
    return list(fields.items(name))


def _neighbour(value: Any, pointer: str) -> Neighbour:
    if isinstance(value, Mapping):
        return Neighbour(job=parse_job(value, pointer=pointer))
    # Nothing that looks like an object written as text is the name of a type.
    if not isinstance(value, str) or not value.strip() or value.startswith("{"):
        raise InvalidPlacementError(
            "An entry of shared_with is a job (an object) or the name of a job type.",
            pointer=pointer,
        )
    return Neighbour(job_type=value)


def _locality(fields: Fields) -> Locality | None:
    if fields.peek("storage_locality") is None:
        fields.optional_text("storage_locality")
        return None
    return Locality(fields.word("storage_locality", _words(Locality), ""))


def _node(fields: Fields) -> Node:
    link = fields.optional_text("link")
    node = Node(
        accelerator=fields.text("accelerator"),
        count=fields.count("count", 1, most=MAX_ACCELERATORS) or 1,
        link=None if link is None else check_link_name(link, pointer=f"{fields.pointer}/link"),
        repeat=fields.count("repeat", 1, most=MAX_ACCELERATORS) or 1,
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
        tensor=fields.count("tensor", 1) or 1,
        pipeline=fields.count("pipeline", 1) or 1,
        expert=fields.count("expert", 1) or 1,
        context=fields.count("context", 1) or 1,
        zero_stage=fields.count("zero_stage", 0, least=0, most=3) or 0,
        sequence_parallel=fields.flag("sequence_parallel"),
        schedule=Schedule(fields.word("schedule", _words(Schedule), Schedule.ONE_F_ONE_B.value)),
        virtual_stages=fields.count("virtual_stages", 1, most=1_000) or 1,
        batch_split=BatchSplit(
            fields.word("batch_split", _words(BatchSplit), BatchSplit.EQUAL.value)
        ),
    )
    fields.refuse_unknown()
    return plan


def placement_to_dict(placement: Placement) -> dict[str, Any]:
    """Return the long form as plain JSON values, every field stated."""
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
            "oversubscription": network.oversubscription,
            "rails": network.rails,
        },
        "plan": {
            "data": plan.data,
            "tensor": plan.tensor,
            "pipeline": plan.pipeline,
            "expert": plan.expert,
            "context": plan.context,
            "zero_stage": plan.zero_stage,
            "sequence_parallel": plan.sequence_parallel,
            "schedule": plan.schedule.value,
            "virtual_stages": plan.virtual_stages,
            "batch_split": plan.batch_split.value,
        },
        "shared_with": [
            n.job_type if n.job is None else json.loads(n.key) for n in placement.shared_with
        ],
        "sharing": placement.sharing.value,
        "power_limit_w": placement.power_limit_w,
        "fraction": placement.fraction,
        "cpu_cores": placement.cpu_cores,
        "storage_bytes_per_s": placement.storage_bytes_per_s,
        "loader_workers": placement.loader_workers,
        "storage_locality": placement.storage_locality and placement.storage_locality.value,
    }
