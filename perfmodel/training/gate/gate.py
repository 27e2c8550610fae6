"""The gate: a candidate may serve if nothing is found against it."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.errors import InvalidInputError
from perfmodel.training.gate.checks import not_finite, of_answers, of_itself
from perfmodel.training.gate.comparison import group_errors, worse
from perfmodel.training.gate.evidence import Evidence, JudgingSet, Margins
from perfmodel.training.gate.finding import Decision, Finding, GroupError


def decide(
    candidate: Evidence,
    serving: Evidence,
    judging_sets: Sequence[JudgingSet],
    margins: Margins | None = None,
) -> Decision:
    """Compare a candidate with the version that serves; nothing is read, drawn or remembered.

    Parameters
    ----------
    judging_sets : sequence of JudgingSet
        At least one; the serving version has answers to all.

    Returns
    -------
    Decision
        The same for the same evidence. A candidate that is no better may serve; one that is worse
        in any group by more than the margin, beyond chance, may not.

    Raises
    ------
    InvalidInputError
        There is no judging set, or the serving version cannot be compared with.
    """
    margins = margins or Margins()
    if not judging_sets:
        raise InvalidInputError("A candidate is judged on at least one judging set; got none.")
    findings: list[Finding] = list(of_itself(candidate, serving, margins))
    groups: list[GroupError] = []
    for judged in judging_sets:
        unusable = not_finite(judged, serving.answers.get(judged.name))
        if unusable is not None:
            raise InvalidInputError(
                f"{serving.version} cannot be compared with on {judged.name!r}: {unusable.detail}."
            )
        hindrance = not_finite(judged, candidate.answers.get(judged.name))
        if hindrance is not None:
            findings.append(hindrance)
            continue
        own, other = candidate.answers[judged.name], serving.answers[judged.name]
        compared = group_errors(judged, own, other, margins)
        groups += compared
        findings += worse(compared)
        findings += of_answers(judged, candidate, serving, margins)
    return Decision(
        candidate=candidate.version,
        serving=serving.version,
        findings=tuple(findings),
        groups=tuple(groups),
    )
