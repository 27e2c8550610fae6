"""``perfmodel campaign work``: measure what waits, on this machine or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.campaigns.campaign_names import found
from perfmodel.cli.database import database_option, opened, url_of
from perfmodel.cli.failures import end_as_with_ctrl_c
from perfmodel.cli.learning.profile import finish
from perfmodel.cli.options import FOLDER, FiniteRange, device_option, models_option, output_options
from perfmodel.cli.output import duration, tell
from perfmodel.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from perfmodel.campaigns.device import CampaignDevice
    from perfmodel.campaigns.events import WorkEvent, WorkReport
    from perfmodel.campaigns.progress import Progress
    from perfmodel.campaigns.work import WorkOptions
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.store.sql.connections import Connections
    from perfmodel.training.probes.probe_plan import ProbeChooser


@click.command()
@click.argument("name", metavar="[CAMPAIGN]", required=False)
@click.option(
    "--out", type=FOLDER, default=Path("profiles"), show_default=True,
    help="Folder of the records.",
)  # fmt: skip
@click.option("--tasks", "most_tasks", type=click.IntRange(1), help="End after so many.")
@click.option(
    "--lease", "lease_s", type=FiniteRange(min=1), default=30.0, show_default=True,
    help="Seconds after which a worker that is not heard of has lost its workload.",
)  # fmt: skip
@device_option
@click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
    help="Where workers run: here, or one on each accelerator of a Ray cluster.",
)  # fmt: skip
@click.option(
    "--address", metavar="HOST:PORT",
    help="Of the Ray cluster. [default: that of the environment, else one of this machine]",
)  # fmt: skip
@models_option
@database_option
@output_options
def work(
    name: str | None,
    out: Path,
    most_tasks: int | None,
    lease_s: float,
    device: str,
    engine: str,
    address: str | None,
    models: Path,
    database: str,
    as_json: bool,
) -> None:
    """Measure what waits, of CAMPAIGN or of all, until nothing is left for the device here.

    Each workload runs in a fresh process, alone on the device. Stop it as you like: with Ctrl-C the
    workload goes back; after a kill another worker begins it again once its lease has run out.
    """
    end_as_with_ctrl_c()
    with opened(database) as connections:
        from perfmodel.store.campaigns import CampaignStore

        campaigns = CampaignStore(connections)
        if name is not None:
            found(campaigns, name)
        options = _options(name, most_tasks, lease_s)
        with ProgressBar() as bar:
            lines = ProgressLines(campaigns, bar)
            if engine == "ray":
                report = _on_ray(url_of(database), out, options, address, lines)
            else:
                report = _here(connections, out, options, device, models, lines)
        if engine == "ray" and name is not None:
            _say_left_over(connections, name)
    finish(report, report.held, out, as_json=as_json)


def _options(name: str | None, most_tasks: int | None, lease_s: float) -> WorkOptions:
    from perfmodel.campaigns.work import WorkOptions

    return WorkOptions(campaign=name, most_tasks=most_tasks, lease_s=lease_s)


def _here(
    connections: Connections,
    out: Path,
    options: WorkOptions,
    device: str,
    models: Path,
    lines: ProgressLines,
) -> WorkReport:
    from perfmodel.campaigns.device import local_device
    from perfmodel.campaigns.work import CampaignWorker
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.store.profiles import ProfileStore

    found_device = local_device(device)
    for note in found_device.notes:
        tell(note)
    worker = CampaignWorker(
        connections,
        ProfileStore(out),
        found_device,
        options,
        on_event=lines.show,
        on_campaign=AdaptiveTurns(CampaignStore(connections), found_device, models).order,
    )
    return worker.run()


def _on_ray(
    database: str, out: Path, options: WorkOptions, address: str | None, lines: ProgressLines
) -> WorkReport:
    from perfmodel.campaigns.clusters.ray_engine import RayEngine

    engine = RayEngine(database=database, folder=out.absolute(), options=options, address=address)
    return engine.run(lines.show)


def _say_left_over(connections: Connections, name: str) -> None:
    from perfmodel.campaigns.clusters.ray_engine import left_over

    for accelerator, number in left_over(connections, name).items():
        tell(f"{number} workloads wait for {accelerator}, which no node of the cluster has.")


class AdaptiveTurns:
    """Gives turns to the tasks that wait, for one device.

    What the installed model does not know of the device decides; without one that answers for it,
    efficiencies of kinds of work do, as in ``perfmodel probe-plan``.

    Parameters
    ----------
    models : Path
        Folder of trained models.
    """

    def __init__(self, campaigns: CampaignStore, device: CampaignDevice, models: Path) -> None:
        self._campaigns = campaigns
        self._device = device
        self._models = models
        self._chooser: ProbeChooser | None = None

    def order(self, campaign: str) -> None:
        """Put the waiting tasks of a campaign in order; where that cannot be done, say why."""
        from perfmodel.errors import MissingExtraError
        from perfmodel.training.probes.campaign_order import order_campaign

        try:
            chooser = self._chooser or self._found()
            self._chooser = chooser
            number = order_campaign(self._campaigns, campaign, self._device, chooser, progress=tell)
        except MissingExtraError as error:
            tell(f"The order stays as it was listed: {error}")
            return
        tell(f"{number} workloads are in the order in which they tell most.")

    def _found(self) -> ProbeChooser:
        from perfmodel.cli.learning.probe_plan import model_for
        from perfmodel.training.probes.device_shares import DeviceShares

        model = model_for(self._models, self._device.spec)
        if model is None or model.joint is None:
            tell("No trained model answers for this device: shares of kinds of work decide.")
            return DeviceShares()
        return model.joint


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
