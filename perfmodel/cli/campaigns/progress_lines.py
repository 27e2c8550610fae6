"""Progress of a worker: a bar on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from perfmodel.cli.output import duration, tell

if TYPE_CHECKING:
    from perfmodel.campaigns.events import WorkEvent
    from perfmodel.campaigns.progress import Progress
    from perfmodel.store.campaigns import CampaignStore


class ProgressLines:
    """Shows what a worker says, with how far its campaign is and when it ends.

    Parameters
    ----------
    campaigns : CampaignStore
        Asked after each event for how far the campaign is, other workers' tasks included.
    """

    def __init__(self, campaigns: CampaignStore) -> None:
        self._campaigns = campaigns
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, event: WorkEvent) -> None:
        """Show one event."""
        from perfmodel.campaigns.events import WorkEventKind

        progress = self._progress(event.campaign)
        if event.kind is WorkEventKind.STARTED and self._bar is None:
            return
        line = _line(event, progress)
        if self._bar is None:
            tell(line)
        elif event.kind is WorkEventKind.STARTED:
            self._advance(event, progress)
        else:
            self._bar.console.print(line, highlight=False, markup=False)
            self._advance(event, progress)

    def _advance(self, event: WorkEvent, progress: Progress | None) -> None:
        if progress is None:
            return
        name = event.campaign
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task("", total=progress.total, end="")
        what = "" if event.job is None else event.job.label
        self._bar.update(
            self._tasks[name], completed=progress.ended, description=what, end=_end(progress)
        )

    def _progress(self, name: str) -> Progress | None:
        from perfmodel.campaigns.progress import progress_of

        campaign = self._campaigns.find(name) if name else None
        return None if campaign is None else progress_of(campaign, self._campaigns.counts(name))


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[end]}"),
        console=Console(stderr=True),
    )


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
