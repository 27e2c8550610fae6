"""The gate: a candidate may serve if nothing is found against it, its errors and all else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray
from perfmodel.training.gate.comparison import group_errors, worse
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet, Margins
from perfmodel.training.gate.finding import Decision, Finding, GroupError

#: Devices that are named where many are missing.
_NAMED = 5


def of_itself(candidate: Evidence, serving: Evidence, margins: Margins) -> Iterator[Finding]:
    """Yield what is wrong with a candidate whatever it answers."""
    for path, reason in candidate.damaged.items():
        yield _found("damaged", f"{path}: {reason}")
    if candidate.schema_version != serving.schema_version:
        yield _found(
            "schema",
            f"its columns are of version {candidate.schema_version}, those of this code of "
            f"{serving.schema_version}",
        )
    missing = sorted(serving.devices - candidate.devices)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield _found(
            "labels",
            f"it does not know {', '.join(missing[:_NAMED])}{more}, which serve now: a fit needs "
            "the data that they were learned from as well; without, a quick retraining takes in "
            "what is new",
        )
    for law, count in sorted(candidate.violations.items()):
        if count > serving.violations.get(law, 0):
            yield _found("law", f"{law} is broken {count} times")
    if candidate.golden_rows_off:
        yield _found("golden rows", f"{candidate.golden_rows_off} are not repeated")
    yield from _cost(candidate, serving, margins)


def _cost(candidate: Evidence, serving: Evidence, margins: Margins) -> Iterator[Finding]:
    grown = max(margins.small_bytes, margins.size_times * serving.size_bytes)
    most = min(margins.size_bytes, grown)
    if not candidate.size_bytes <= most:
        yield _found("size", f"{candidate.size_bytes:.3g} bytes, at most {most:.3g}")
    slower_s = max(margins.short_load_s, margins.load_times * serving.load_time_s)
    longest = min(margins.load_time_s, slower_s)
    if not candidate.load_time_s <= longest:
        yield _found("load time", f"{candidate.load_time_s:.3g} s, at most {longest:.3g} s")
    least = margins.answers_share * serving.answers_per_s
    if not candidate.answers_per_s >= least:
        yield _found("speed", f"{candidate.answers_per_s:.4g} answers/s, at least {least:.4g}")


def of_answers(
    judged: JudgingSet, candidate: Evidence, serving: Evidence, margins: Margins
) -> Iterator[Finding]:
    """Yield what is wrong with answers that can be compared: leaks, bias, constancy, intervals."""
    learned = candidate.learned_keys.intersection(judged.keys)
    if learned:
        yield _found("leak", f"it learned from {len(learned)} of the steps", judged.name)
    own, other = candidate.answers[judged.name], serving.answers[judged.name]
    ratio = np.log(own.time_s / judged.measured_s)
    bias = float(np.median(ratio))
    if abs(bias) > margins.bias:
        detail = f"answers are {math.exp(bias):.3g} times what was measured"
        yield _found("scale", detail, judged.name)
    spread, measured = np.std(np.log(own.time_s)), np.std(np.log(judged.measured_s))
    if spread < margins.least_spread * measured:
        detail = f"answers spread by {spread:.3g}, measurements by {measured:.3g}"
        yield _found("constant", detail, judged.name)
    yield from _intervals(judged, own, other, margins)


def not_finite(judged: JudgingSet, answers: Answers | None) -> Finding | None:
    """Return what keeps answers from being compared at all, or None."""
    if answers is None:
        return _found("finite", "there are no answers", judged.name)
    all_s = np.stack([answers.low_s, answers.time_s, answers.high_s])
    steps = len(judged.keys)
    if all_s.shape[1] != steps:
        return _found("finite", f"{all_s.shape[1]} answers for {steps} steps", judged.name)
    in_order = (np.diff(all_s, axis=0) >= 0).all(axis=0)
    wrong = ~((np.isfinite(all_s) & (all_s > 0)).all(axis=0) & in_order)
    if wrong.any():
        count = int(np.count_nonzero(wrong))
        detail = f"{count} answers are no times above 0 inside their intervals"
        return _found("finite", detail, judged.name)
    return None


def _intervals(
    judged: JudgingSet, own: Answers, other: Answers, margins: Margins
) -> Iterator[Finding]:
    inside = (own.low_s <= judged.measured_s) & (judged.measured_s <= own.high_s)
    before = (other.low_s <= judged.measured_s) & (judged.measured_s <= other.high_s)
    devices = np.array(judged.labels["device"])
    groups = {"": np.ones(len(devices), bool)}
    groups |= {f", device {one}": devices == one for one in sorted(set(devices.tolist()))}
    for where, group in groups.items():
        count = int(group.sum())
        if count < margins.least_steps:
            continue
        share = float(inside[group].mean())
        # A device on which the serving version misses as often is no reason to stay with that one.
        least = _least_share(min(margins.coverage, float(before[group].mean())), count, margins)
        if share < least:
            yield _found(
                "coverage",
                f"{share:.3f} of {count} measurements lie inside, at least {least:.3f}",
                judged.name + where,
            )
    width, known = _width(own), _width(other)
    # Intervals that hold too little, as on a device that was not known, are no measure of width.
    holds = float(before.mean()) >= _least_share(margins.coverage, len(before), margins)
    if holds and width > margins.width_times * known:
        detail = f"intervals are {width / known:.3g} times as wide as those that serve"
        yield _found("width", detail, judged.name)


def _least_share(stated: float, count: int, margins: Margins) -> float:
    """Return the share inside from which on too few are no chance: two standard errors."""
    chance = 2 * math.sqrt(margins.coverage * (1 - margins.coverage) / count)
    return stated - margins.coverage_below - chance


def _width(answers: Answers) -> float:
    widths: FloatArray = np.log(answers.high_s / answers.low_s)
    return float(np.median(widths))


def _found(check: str, detail: str, where: str = "") -> Finding:
    return Finding(check=check, where=where, detail=detail)


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
        sets={one.name: len(one.keys) for one in judging_sets},
    )
