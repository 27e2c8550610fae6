"""What was found against a candidate, and the decision made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
    units : int
        Families, or models of the one family: what moves by itself.
    candidate, serving : float
        Mean ``|ln(T^ / T)|``.
    low, high : float
        Bootstrapped interval of their difference, candidate minus serving.
    margin : float
        How much larger the error of the candidate may be.
    assumed : float
        Chance of training that the interval was given, because the units are too few to show it;
        0 where they were resampled.
    """

    judging_set: str
    dimension: str
    group: str
    steps: int
    units: int
    candidate: float
    serving: float
    low: float
    high: float
    margin: float
    assumed: float

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
    sets : mapping of str to int
        Judging sets, with the number of their steps.
    """

    candidate: str
    serving: str
    findings: tuple[Finding, ...]
    groups: tuple[GroupError, ...]
    sets: Mapping[str, int] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether nothing was found against it."""
        return not self.findings

    def report(self) -> str:
        """Return the decision as Markdown: on how much it rests, reasons, then every group."""
        word = "accepted" if self.accepted else "refused"
        lines = [f"# {self.candidate}: {word}", "", f"Compared with {self.serving} on:", ""]
        lines += [f"- {name}: {steps} steps" for name, steps in self.sets.items()]
        lines += ["", "Found against it:" if self.findings else "Nothing was found against it.", ""]
        lines += [f"- {one.check}{_at(one.where)}: {one.detail}" for one in self.findings]
        lines += _table(self.groups)
        return "\n".join(lines) + "\n"


def _at(where: str) -> str:
    return f" ({where})" if where else ""


def _table(groups: Sequence[GroupError]) -> list[str]:
    rows = [
        f"| {one.where} | {one.steps} | {one.units} | {one.candidate:.3f} | {one.serving:.3f} | "
        f"{one.low:+.3f} to {one.high:+.3f}{' *' if one.assumed else ''} |"
        for one in groups
    ]
    head = [
        "", "| group | steps | units | candidate | serving | difference |",
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    return [*head, *rows, *_footnote(groups)] if rows else []


def _footnote(groups: Sequence[GroupError]) -> list[str]:
    assumed = max(one.assumed for one in groups)
    told = f"With a star: too few units to show the chance of training, {assumed:g} is assumed."
    return ["", told] if assumed else []
