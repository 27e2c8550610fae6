"""Retrainings as they are told: over HTTP, and by commands that print JSON."""

from __future__ import annotations

from typing import Any

from perfmodel.retraining.run_folder import PHASES, Phase, fraction_before
from perfmodel.store.retraining.retraining_records import Retraining, RetrainingState


def retraining_to_dict(one: Retraining) -> dict[str, Any]:
    """Return a retraining as plain JSON types."""
    return {
        "id": one.name,
        "model": one.model,
        "trigger": one.trigger.value,
        "why": one.why,
        "by": one.caller,
        "settings": dict(one.settings),
        "state": one.state.value,
        "phase": one.phase,
        "phases": phases_of(one),
        "progress": one.progress,
        "fraction": one.fraction,
        "attempts": one.attempts,
        "version": None if one.version is None else f"{one.model}/{one.version}",
        "decision": None if one.decision is None else dict(one.decision),
        "reason": one.reason,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
    }


def phases_of(one: Retraining) -> dict[str, str]:
    """Return how far each phase is: ``"waiting"``, ``"running"`` or ``"done"``."""
    if one.state is RetrainingState.DONE or not one.phase:
        word = "done" if one.state is RetrainingState.DONE else "waiting"
        return {phase.value: word for phase in PHASES}
    now = PHASES.index(Phase(one.phase))
    is_finished = one.fraction > fraction_before(PHASES[now])
    return {
        phase.value: "done"
        if place < now or (place == now and is_finished)
        else "running"
        if place == now and one.state is RetrainingState.RUNNING
        else "waiting"
        for place, phase in enumerate(PHASES)
    }
