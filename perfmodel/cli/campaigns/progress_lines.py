"""What a worker says, with how far its campaigns are and when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.cli.output import duration

if TYPE_CHECKING:
    from perfmodel.campaigns.events import WorkEvent
    from perfmodel.campaigns.progress import Progress
    from perfmodel.cli.progress_bar import ProgressBar
    from perfmodel.store.campaigns import CampaignStore


class ProgressLines:
    """Shows what a worker says, with how far its campaign is and when it ends.

    Parameters
    ----------
    campaigns : CampaignStore
        Asked after each event for how far the campaign is, other workers' tasks included.
    """

    def __init__(self, campaigns: CampaignStore, bar: ProgressBar) -> None:
        self._campaigns = campaigns
        self._bar = bar

    def show(self, event: WorkEvent) -> None:
        """Show one event."""
        from perfmodel.campaigns.events import WorkEventKind

        progress = self._progress(event.campaign)
        if event.kind is not WorkEventKind.STARTED:
            self._bar.line(_line(event, progress))
        if progress is not None:
            what = "" if event.job is None else event.job.label
            self._bar.advance(
                what, progress.ended, progress.total, _end(progress), of=event.campaign
            )

    def _progress(self, name: str) -> Progress | None:
        from perfmodel.campaigns.progress import progress_of

        campaign = self._campaigns.find(name) if name else None
        return None if campaign is None else progress_of(campaign, self._campaigns.counts(name))


def _line(event: WorkEvent, progress: Progress | None) -> str:
    place = "" if progress is None else f"[{progress.ended}/{progress.total}] "
    job = event.job
    what = "" if job is None else f"{job.label} {job.mode} batch {job.batch_size} {job.precision}"
    time = "" if event.step_time_s is None else duration(event.step_time_s)
    said = ", ".join(filter(None, (time, "noisy" if event.noisy else "", event.text)))
    kind = event.kind.value.replace("_", " ")
    end = "" if progress is None else f"  ({_end(progress)})"
    return f"{place}{what + ': ' if what else ''}{kind}{', ' if said else ''}{said}{end}"


def _end(progress: Progress) -> str:
    if progress.remaining_s is None or progress.ends_at is None:
        return "end unknown yet"
    if progress.has_ended:
        return progress.stage.value
    return f"{duration(progress.remaining_s)} left, ends {progress.ends_at}"
