"""What was found against a candidate, and the decision made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One reason why a candidate may not serve.

    Parameters
    ----------
    check : str
        ``"error"``, ``"coverage"``, ``"finite"``, ...
    where : str
        Judging set and group: ``"frozen, device T4"``; ``""`` for all of it.
    detail : str
        What was found, with its figures and the margin.
    """

    check: str
    where: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupError:
    """How two versions compare in one group.

    Parameters
    ----------
    candidate, serving : float
        Mean ``|ln(T^ / T)|``.
    low, high : float
        Bootstrapped interval of their difference, candidate minus serving.
    """

    judging_set: str
    dimension: str
    group: str
    steps: int
    candidate: float
    serving: float
    low: float
    high: float

    @property
    def where(self) -> str:
        """Judging set and group."""
        return f"{self.judging_set}, {self.dimension} {self.group}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Whether a candidate may serve.

    Parameters
    ----------
    findings : tuple of Finding
        Why not; empty where it may.
    groups : tuple of GroupError
        Every comparison, as far as the candidate could be compared.
    """

    candidate: str
    serving: str
    findings: tuple[Finding, ...]
    groups: tuple[GroupError, ...]

    @property
    def accepted(self) -> bool:
        """Whether nothing was found against it."""
        return not self.findings

    def report(self) -> str:
        """Return the decision as Markdown: reasons first, then every group."""
        word = "accepted" if self.accepted else "refused"
        lines = [f"# {self.candidate}: {word}", "", f"Compared with {self.serving}.", ""]
        lines += [f"- {one.check}{_at(one.where)}: {one.detail}" for one in self.findings]
        lines += _table(self.groups)
        return "\n".join(lines) + "\n"


def _at(where: str) -> str:
    return f" ({where})" if where else ""


def _table(groups: Sequence[GroupError]) -> list[str]:
    rows = [
        f"| {one.where} | {one.steps} | {one.candidate:.3f} | {one.serving:.3f} | "
        f"{one.low:+.3f} to {one.high:+.3f} |"
        for one in groups
    ]
    head = ["", "| group | steps | candidate | serving | difference |", "|---|---:|---:|---:|---:|"]
    return [*head, *rows] if rows else []
