"""Say in words what a plan is, and why one is better than another."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.placement.plan_steps.plan_cells import Checkpointing, PlanChoice
from perfmodel.placement.topology.topology import Schedule

_DEGREES = ("data", "tensor", "pipeline", "context", "expert")
_SHARED = {
    1: "optimizer state shared out",
    2: "gradients and optimizer state shared out",
    3: "parameters, gradients and optimizer state shared out",
}
_AGAIN = {Checkpointing.SELECTIVE: "scores recomputed", Checkpointing.FULL: "layers recomputed"}


def plan_words(choice: PlanChoice) -> str:
    """Return a plan in words.

    Examples
    --------
    >>> from perfmodel.placement.topology.topology import Plan
    >>> plan_words(PlanChoice(plan=Plan(data=2, tensor=4, zero_stage=1), micro_batch=1,
    ...                       micro_batches=8))
    'data 2 x tensor 4, 8 micro-batches of 1, optimizer state shared out'
    """
    plan = choice.plan
    degrees = [f"{name} {getattr(plan, name)}" for name in _DEGREES if getattr(plan, name) != 1]
    words = [" x ".join(degrees) or "one accelerator"]
    words.append(f"{choice.micro_batches} micro-batches of {choice.micro_batch}")
    if plan.pipeline > 1 and plan.schedule is Schedule.INTERLEAVED:
        words.append(f"{plan.virtual_stages} chunks a stage")
    if plan.zero_stage:
        words.append(_SHARED[plan.zero_stage])
    if choice.checkpointing in _AGAIN:
        words.append(_AGAIN[choice.checkpointing])
    return ", ".join(words)


def why_best(
    parts: Mapping[str, float], second: tuple[PlanChoice, Mapping[str, float]] | None
) -> str:
    """Return what makes a plan the best.

    Parameters
    ----------
    parts : mapping of str to float
        Seconds by name, and the whole ``"step"``.
    second : tuple or None
        The next best plan of other degrees, with its parts.
    """
    lost = {name: value for name, value in parts.items() if name not in ("computation", "step")}
    shares = [f"{value / parts['step']:.0%} {name}" for name, value in lost.items()]
    text = f"Fastest that fits: of the step {' and '.join(shares)}."
    if second is None:
        return text
    gain = second[1]["step"] / parts["step"] - 1
    cause = _cause(second[1], parts)
    return f"{text} The next, {plan_words(second[0])}, takes {gain:.0%} longer{cause}."


def why_slower(
    choice: PlanChoice,
    parts: Mapping[str, float],
    best: PlanChoice,
    best_parts: Mapping[str, float],
) -> str:
    """Return what a plan loses against the best, by the part that grew most."""
    longer = parts["step"] / best_parts["step"] - 1
    text = f"{longer:.0%} longer than the best{_cause(parts, best_parts)}"
    if choice.checkpointing > best.checkpointing:
        text += f"; to fit the memory, {_AGAIN[choice.checkpointing]}"
    return text + "."


def why_too_large(choice: PlanChoice, needed_bytes: float, room_bytes: float) -> str:
    """Return what the smallest plan lacks."""
    return (
        f"No plan fits: the smallest, {plan_words(choice)}, needs {needed_bytes / 1e9:.1f} GB of "
        f"the {room_bytes / 1e9:.1f} GB that tensors can have on each accelerator. Take more "
        "accelerators or such with more memory, shorter sequences or a smaller batch."
    )


def _cause(parts: Mapping[str, float], best: Mapping[str, float]) -> str:
    grown = {name: parts[name] - best[name] for name in parts if name != "step"}
    name = max(grown, key=lambda one: grown[one])
    if grown[name] <= 0:
        return ""
    return f": {grown[name] / best['step']:.0%} more {name}"
