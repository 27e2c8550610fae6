"""Let what was decided take effect in the registry, exactly once however often it is begun."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import DamagedArtifactError, InvalidInputError, OvertakenError
from perfmodel.estimator.single.loading import load_version
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import PROMOTE, PUBLISH, State
from perfmodel.training.gate.finding import Decision

#: Findings that are named where a decision is told in a sentence.
_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was decided about a candidate, as it is kept.

    Parameters
    ----------
    state : State
        What the version shall be: SERVING, SHADOW, CANDIDATE or REFUSED.
    serving : str or None
        The version that it was compared with; None where none served.
    why : str
        In a sentence.
    report : str
        The whole decision as Markdown.
    findings : tuple of mapping
        ``check``, ``where`` and ``detail`` of each.
    """

    accepted: bool
    state: State
    serving: str | None
    why: str
    report: str
    findings: tuple[Mapping[str, Any], ...] = ()
    groups: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types; :func:`verdict_from` reads it."""
        return {
            "accepted": self.accepted, "state": self.state.value, "serving": self.serving,
            "why": self.why, "report": self.report, "findings": [dict(f) for f in self.findings],
            "groups": [dict(g) for g in self.groups],
        }  # fmt: skip


def verdict_from(plain: Mapping[str, Any]) -> Verdict:
    """Read what :meth:`Verdict.to_dict` wrote."""
    listed = {name: tuple(plain[name]) for name in ("findings", "groups")}
    return Verdict(**{**plain, **listed, "state": State(plain["state"])})


def why_of(decision: Decision) -> str:
    """Return a decision in a sentence.

    Examples
    --------
    >>> why_of(Decision(candidate="a", serving="b", findings=(), groups=()))
    'The gate found nothing against it.'
    """
    if decision.accepted:
        return "The gate found nothing against it."
    named = [
        f"{one.check}{f' ({one.where})' if one.where else ''}: {one.detail}"
        for one in decision.findings[:_NAMED]
    ]
    more = len(decision.findings) - len(named)
    return f"The gate refused it: {'; '.join(named)}{f'; and {more} more' if more else ''}."


def is_published(registry: ModelRegistry, name: str, version: str) -> bool:
    """Tell whether a version was published, perhaps by an attempt that was lost since."""
    return any(
        change.version == version and change.action == PUBLISH
        for change in registry.history(name).changes
    )


def is_settled(registry: ModelRegistry, name: str, version: str, verdict: Verdict) -> bool:
    """Tell whether a verdict has taken effect already, whatever became of the version since."""
    action = PROMOTE if verdict.state is State.SERVING else "judge"
    return any(
        change.version == version and change.action == action and change.state is verdict.state
        for change in registry.history(name).changes
    )


def settle(registry: ModelRegistry, name: str, version: str, verdict: Verdict) -> str | None:
    """Let a verdict take effect on a version that is published; again, it does nothing.

    Returns
    -------
    str or None
        Why the version has another state than it shall have; None where it has that.
    """
    if is_settled(registry, name, version, verdict):
        return None
    if verdict.state is not State.SERVING:
        registry.judge(name, version, verdict.state, why=verdict.why)
        return None
    try:
        registry.promote(
            name, version, why=verdict.why, check=lambda: _check(registry, name, version)
        )
    except (OvertakenError, DamagedArtifactError, InvalidInputError) as error:
        return error.message
    return None


def _check(registry: ModelRegistry, name: str, version: str) -> None:
    """Load a version from the store as the service would."""
    with tempfile.TemporaryDirectory() as folder:
        registry.versions.fetch(name, version, Path(folder))
        load_version(Path(folder), f"{name}/{version}")
