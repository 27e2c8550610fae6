"""How far a campaign is, and when it ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from perfmodel.store.campaigns.campaign_records import Campaign, CampaignState, Counts, TaskState


class Stage(StrEnum):
    """Where a campaign stands."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    SPENT = "spent"
    """Its time is used up, and tasks are left that nobody begins."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a campaign is.

    Parameters
    ----------
    total, waiting, running, done, failed, set_aside, cancelled : int
        Tasks.
    doubtful : int
        Of the done ones: noisy because the machine drifted.
    remaining_s : float or None
        Time until it ends, at the mean time of the tasks measured so far and with the workers it
        has now (one, where it has none); None before the first, seconds.
    ends_at : str or None
        UTC, ISO 8601.
    """

    stage: Stage
    total: int
    waiting: int
    running: int
    done: int
    failed: int
    set_aside: int
    cancelled: int
    doubtful: int
    workers: int
    spent_s: float
    budget_s: float | None
    remaining_s: float | None
    ends_at: str | None

    @property
    def ended(self) -> int:
        """Tasks of which nothing more comes."""
        return self.total - self.waiting - self.running

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of the campaign."""
        return self.stage in (Stage.ENDED, Stage.SPENT, Stage.CANCELLED)

    def to_dict(self) -> dict[str, Any]:
        """Return the progress as plain JSON types."""
        return {**asdict(self), "stage": self.stage.value}


def progress_of(campaign: Campaign, counts: Counts) -> Progress:
    """Say how far a campaign is."""
    stage = _stage(campaign, counts)
    remaining_s = _remaining_s(campaign, counts, stage)
    ends_at = None
    if remaining_s is not None:
        end = datetime.now(UTC) + timedelta(seconds=remaining_s)
        ends_at = end.isoformat(timespec="seconds")
    return Progress(
        stage=stage,
        total=counts.total,
        doubtful=counts.doubtful,
        workers=counts.workers,
        spent_s=campaign.spent_s,
        budget_s=campaign.budget_s,
        remaining_s=remaining_s,
        ends_at=ends_at,
        **{state.value: counts.by_state[state] for state in TaskState},
    )


def _stage(campaign: Campaign, counts: Counts) -> Stage:
    # What had ended before it was cancelled has ended.
    if campaign.state is CampaignState.CANCELLED and counts.by_state[TaskState.CANCELLED]:
        return Stage.CANCELLED
    if counts.by_state[TaskState.RUNNING]:
        return Stage.RUNNING
    if not counts.open:
        return Stage.ENDED
    return Stage.SPENT if campaign.is_spent else Stage.WAITING


def _remaining_s(campaign: Campaign, counts: Counts, stage: Stage) -> float | None:
    if stage in (Stage.ENDED, Stage.SPENT, Stage.CANCELLED):
        return 0.0
    if counts.mean_s is None:
        return None
    left_s = counts.open * counts.mean_s
    if campaign.budget_s is not None:
        left_s = min(left_s, max(0.0, campaign.budget_s - campaign.spent_s))
    return left_s / max(1, counts.workers)
