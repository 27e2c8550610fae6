"""What makes no sense in a placement, whichever form it was written in."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.topology.strict_fields import LEAST_AMOUNT
from perfmodel.placement.topology.topology import REPLICAS, Offload, Placement, Plan, Schedule

#: More accelerators than any job has; a slip of the finger above it is refused.
MAX_ACCELERATORS = 1_000_000

#: Unlike hosts of a placement; equal ones take one entry with a repeat.
MAX_ENTRIES = 10_000

#: The least share of an accelerator that is answered for.
LEAST_FRACTION = 1e-3

_Limits = tuple[str, float, float, str]

#: Least and most of what a network and a placement state, and how that is said.
_OF_NETWORK: tuple[_Limits, ...] = (
    ("bandwidth_bytes_per_s", math.ulp(0.0), sys.float_info.max, "a finite number above 0"),
    ("latency_s", 0.0, sys.float_info.max, "a finite number of at least 0"),
    ("oversubscription", 1.0, sys.float_info.max, "at least 1 (1: none)"),
    ("rails", 1, math.inf, "at least 1"),
)
_OWN: tuple[_Limits, ...] = (
    ("fraction", LEAST_FRACTION, 1.0, f"at least {LEAST_FRACTION:g} and at most 1"),
    *(
        (word, LEAST_AMOUNT, sys.float_info.max, f"a finite number of at least {LEAST_AMOUNT:g}")
        for word in ("power_limit_w", "storage_bytes_per_s", "cpu_cores")
    ),
    ("loader_workers", 0, math.inf, "0 or more"),
)


def check_placement(placement: Placement, *, pointer: str = "/placement") -> Plan:
    """Return the plan of a placement, its ``data`` stated; refuse what makes no sense.

    Raises
    ------
    InvalidPlacementError
        Too many accelerators, a plan that does not fit them, or a number out of its range.
    """
    count = placement.accelerator_count
    if count > MAX_ACCELERATORS:
        raise InvalidPlacementError(
            f"The placement has {count} accelerators; at most "
            f"{MAX_ACCELERATORS} are answered. Check count and repeat.",
            pointer=f"{pointer}/nodes",
        )
    if len(placement.nodes) > MAX_ENTRIES:
        raise InvalidPlacementError(
            f"The placement lists {len(placement.nodes)} hosts one by one; at most {MAX_ENTRIES} "
            "are read. Write equal hosts once, with repeat.",
            pointer=f"{pointer}/nodes",
        )
    plan = resolved_plan(placement, pointer=pointer)
    limited = ((placement.network, f"{pointer}/network", _OF_NETWORK), (placement, pointer, _OWN))
    for stated, here, limits in limited:
        for word, least, most, said in () if stated is None else limits:
            value = getattr(stated, word)
            if value is not None and not least <= value <= most:
                raise _out_of_range(word, said, value, here)
    return plan


def resolved_plan(
    placement: Placement, *, plan: Plan | None = None, pointer: str = "/placement"
) -> Plan:
    """Return a plan with its degree of data parallelism stated.

    Parameters
    ----------
    plan : Plan or None
        None means the placement's own.

    Raises
    ------
    InvalidPlacementError
        Degrees that do not multiply to the accelerators, experts that do not divide the
        replicas, or a schedule without what it needs.

    Examples
    --------
    >>> from perfmodel.placement.topology.topology import Node
    >>> eight = Placement(nodes=(Node(accelerator="A100", count=8),), plan=Plan(tensor=2))
    >>> resolved_plan(eight).data
    4
    """
    chosen = placement.plan if plan is None else plan
    if chosen is REPLICAS or chosen == REPLICAS:
        return Plan(data=placement.accelerator_count)
    here = f"{pointer}/plan"
    for word in ("tensor", "pipeline", "expert", "context", "virtual_stages", "replicate"):
        if getattr(chosen, word) < 1:
            raise _out_of_range(word, "at least 1", getattr(chosen, word), here)
    if chosen.zero_stage not in (0, 1, 2, 3):
        raise _out_of_range("zero_stage", "0, 1, 2 or 3", chosen.zero_stage, here)
    data = _data(chosen, placement.accelerator_count, here)
    _check_experts(chosen, data, here)
    _check_schedule(chosen, here)
    _check_sharding(chosen, data, here)
    return chosen if chosen.data == data else replace(chosen, data=data)


def _data(plan: Plan, count: int, here: str) -> int:
    inner = plan.tensor * plan.pipeline * plan.context
    data, rest = divmod(count, inner)
    if (plan.data is None and not rest) or (plan.data is not None and plan.data * inner == count):
        return data
    degrees = f"tensor {plan.tensor} x pipeline {plan.pipeline} x context {plan.context}"
    if plan.data is None:
        raise InvalidPlacementError(
            f"{degrees} is {inner}, which does not divide the {count} accelerators of the "
            f"placement. Choose degrees whose product divides {count}.",
            pointer=here,
        )
    fitting = f"Set data to {data} or leave it out."
    raise InvalidPlacementError(
        f"The plan's degrees multiply to {plan.data * inner} (data {plan.data} x {degrees}), but "
        f"the placement has {count} accelerators. "
        f"{f'Choose degrees whose product is {count}.' if rest else fitting}",
        pointer=f"{here}/data",
        allowed=() if rest else (str(data),),
    )


def _check_experts(plan: Plan, data: int, here: str) -> None:
    ranks = data * plan.tensor * plan.context
    if data % plan.expert and ranks % plan.expert:
        divisors = tuple(str(n) for n in range(1, min(ranks, 1_000) + 1) if ranks % n == 0)
        raise InvalidPlacementError(
            f"Experts are spread over the {data} data-parallel replicas, or over all {ranks} ranks "
            f"of a pipeline stage, and {plan.expert} divides neither. "
            f"Choose expert among {', '.join(divisors[:20])}.",
            pointer=f"{here}/expert",
            allowed=divisors[:20],
        )


def _check_sharding(plan: Plan, data: int, here: str) -> None:
    """Refuse groups of shards that cannot be, and parameters offloaded that stay on the device."""
    if Offload.PARAMETERS in plan.offload and plan.zero_stage < 3:
        raise InvalidPlacementError(
            "Parameters are offloaded where they are gathered when they are used: at zero_stage 3; "
            f"got {plan.zero_stage}. Set zero_stage to 3, or leave them out of offload.",
            pointer=f"{here}/offload",
        )
    if plan.replicate == 1:
        return
    if not plan.zero_stage:
        raise InvalidPlacementError(
            f"replicate is {plan.replicate}, but at zero_stage 0 every replica holds everything. "
            "Set zero_stage to 1, 2 or 3, or leave replicate out.",
            pointer=f"{here}/replicate",
        )
    if data % plan.replicate or data == plan.replicate:
        fitting = tuple(str(n) for n in range(1, min(data, 1_000)) if data % n == 0)[:20]
        raise InvalidPlacementError(
            f"{data} data-parallel replicas are not cut into {plan.replicate} groups of several. "
            f"Choose replicate among {', '.join(fitting)}.",
            pointer=f"{here}/replicate",
            allowed=fitting,
        )
    if plan.expert > 1:
        raise InvalidPlacementError(
            "Experts that are spread (expert) in groups of shards (replicate) are not answered. "
            "Leave one of them out.",
            pointer=f"{here}/replicate",
        )


def _check_schedule(plan: Plan, here: str) -> None:
    interleaved = plan.schedule is Schedule.INTERLEAVED
    if interleaved and plan.virtual_stages == 1:
        raise InvalidPlacementError(
            "An interleaved pipeline holds at least 2 virtual stages on each accelerator; got 1. "
            "Set virtual_stages to 2 or more, or the schedule to 1f1b.",
            pointer=f"{here}/virtual_stages",
        )
    if not interleaved and plan.virtual_stages > 1:
        raise InvalidPlacementError(
            f"virtual_stages {plan.virtual_stages} belongs to the schedule interleaved; got "
            f"{plan.schedule.value}. Set the schedule to interleaved or leave virtual_stages out.",
            pointer=f"{here}/schedule",
            allowed=(Schedule.INTERLEAVED.value,),
        )
    if interleaved and plan.pipeline == 1:
        raise InvalidPlacementError(
            "The schedule interleaved needs a pipeline of at least 2 stages; got 1. Set pipeline, "
            "or leave the schedule out.",
            pointer=f"{here}/schedule",
        )


def _out_of_range(word: str, wanted: str, value: float, here: str) -> InvalidPlacementError:
    return InvalidPlacementError(f"{word} must be {wanted}; got {value}.", pointer=f"{here}/{word}")
