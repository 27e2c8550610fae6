r"""Why residuals changed: the group that explains it best.

Where a detector of one group sees a change, others may see the same, for groups overlap: a slow
card is part of every release that runs on it. Of the scores $z_i$ since the change began, suppose
that those of one group $g$ have the mean $\mu_g$ and all others none. Twice the logarithm of how
much more likely that makes them is

$$ 2 \ln \Lambda_g = \sum_{i \in g} z_i^2 - \sum_{i \in g} (z_i - \mu_g)^2
   = \Big(\sum_{i \in g} z_i\Big)^2 / n_g. $$

A group that holds the cause and more is diluted, one that holds a part of it has fewer: the largest
is the smallest group that explains everything. Jobs are groups here, too: where a single one
explains it, that job was changed, and nothing else has to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfmodel.feedback.residuals import EVERYTHING, LEAST_SCALE, Group, Residual

#: What an explanation has to gain: five standard deviations.
LEAST_GAIN = 25.0
#: Residuals and jobs that a cause shows in, at least.
LEAST_COUNT, LEAST_JOBS = 5, 2
#: Mean residual below which nothing is to be done, in logarithms.
LEAST_SHIFT = 0.05
#: Share of the best gain from which another explanation is told beside it.
NEARLY = 0.8
#: Of groups with the same residuals the first of these is named.
_ORDER = ("job", "accelerator", "software", "job_class", EVERYTHING.kind, "reporter")
#: What may be alarming.
KINDS = _ORDER[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A group that explains a change.

    Parameters
    ----------
    residuals : tuple of Residual
        Of the group, since the change began.
    also : tuple of Group
        Those that explain it nearly as well.
    """

    group: Group
    residuals: tuple[Residual, ...]
    also: tuple[Group, ...]

    @property
    def shift(self) -> float:
        """Mean residual since then, in logarithms; those weigh more whose answer was surer."""
        weights = [max(one.scale, LEAST_SCALE) ** -2 for one in self.residuals]
        pairs = zip(weights, self.residuals, strict=True)
        return sum(weight * one.log_ratio for weight, one in pairs) / sum(weights)


def cause_of(window: Sequence[Residual], alarmed: Group) -> Cause | None:
    """Return what explains that the residuals of a group changed; None where nothing need be done.

    Parameters
    ----------
    window : sequence of Residual
        The newest ones, oldest first, without those that are explained already.
    alarmed : Group
        Whose detector saw the change.
    """
    since = _start([one for one in window if alarmed in one.groups])
    members = _by_group(one for one in window if one.number >= since)
    gains = {group: _gain(own) for group, own in members.items()}
    best = min(gains, key=lambda group: (-round(gains[group], 9), _rank(group)), default=None)
    if best is None or best.kind == "job":
        return None
    nearly = [group for group in gains if gains[group] >= NEARLY * gains[best] and group != best]
    cause = Cause(
        group=best,
        residuals=tuple(members[best]),
        also=tuple(sorted((one for one in nearly if one.kind != "job"), key=_rank)),
    )
    return cause if gains[best] >= LEAST_GAIN and _is_worth_it(cause) else None


def _is_worth_it(cause: Cause) -> bool:
    jobs = {one.job for one in cause.residuals}
    enough = len(cause.residuals) >= LEAST_COUNT and len(jobs) >= LEAST_JOBS
    return enough and abs(cause.shift) >= LEAST_SHIFT


def _start(own: Sequence[Residual]) -> int:
    """Return the number of the residual with which a change most likely began."""
    best, since, total = -1.0, 0, 0.0
    for count, one in enumerate(reversed(own), 1):
        total += one.score
        if total * total / count > best and count > 1:
            best, since = total * total / count, one.number
    return since


def _by_group(residuals: Iterable[Residual]) -> dict[Group, list[Residual]]:
    found: dict[Group, list[Residual]] = {}
    for one in residuals:
        for group in (*one.groups, Group("job", one.job)):
            found.setdefault(group, []).append(one)
    return found


def _gain(own: Sequence[Residual]) -> float:
    total = sum(one.score for one in own)
    return total * total / len(own)


def _rank(group: Group) -> tuple[int, str]:
    return _ORDER.index(group.kind), group.value
