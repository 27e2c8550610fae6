"""``perfmodel campaign work``: measure what waits, on this machine or on a cluster."""

from __future__ import annotations

import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from perfmodel.cli.campaigns.campaign_database import database_option, found, opened
from perfmodel.cli.campaigns.progress_lines import ProgressLines
from perfmodel.cli.failures import EXIT_FAILED, EXIT_SOME_FAILED
from perfmodel.cli.options import FOLDER, models_option, output_options
from perfmodel.cli.output import duration, print_json

if TYPE_CHECKING:
    from perfmodel.campaigns.events import WorkReport
    from perfmodel.store.sql.connections import Connections


@click.command()
@click.argument("name", metavar="[CAMPAIGN]", required=False)
@click.option(
    "--out", type=FOLDER, default=Path("profiles"), show_default=True,
    help="Folder of the records.",
)  # fmt: skip
@click.option("--tasks", "most_tasks", type=click.IntRange(1), help="End after so many.")
@click.option(
    "--lease", "lease_s", type=click.FloatRange(min=1), default=30.0, show_default=True,
    help="Seconds after which a worker that is not heard of has lost its workload.",
)  # fmt: skip
@models_option
@database_option
@output_options
def work(
    name: str | None,
    out: Path,
    most_tasks: int | None,
    lease_s: float,
    models: Path,
    database: str,
    as_json: bool,
) -> None:
    """Measure what waits, of CAMPAIGN or of all, until nothing is left for the device here.

    Each workload runs in a fresh process, alone on the device. Stop it as you like: with Ctrl-C the
    workload goes back; after a kill another worker begins it again once its lease has run out.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    with opened(database) as connections:
        report = _work(connections, name, out, most_tasks, lease_s, models, as_json=as_json)
    if as_json:
        print_json({**asdict(report), "folder": str(out)})
    else:
        click.echo(
            f"{report.finished} measured, {report.held} held before, {report.failed} failed in "
            f"{duration(report.elapsed_s)}. Records are in {out}."
        )
    if report.failed:
        some = report.finished or report.held
        click.get_current_context().exit(EXIT_SOME_FAILED if some else EXIT_FAILED)


def _work(
    connections: Connections,
    name: str | None,
    out: Path,
    most_tasks: int | None,
    lease_s: float,
    models: Path,
    *,
    as_json: bool,
) -> WorkReport:
    from perfmodel.campaigns.device import this_machine
    from perfmodel.campaigns.work import CampaignWorker, WorkOptions
    from perfmodel.profilers.run import MeasureSettings
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.store.profiles import ProfileStore

    campaigns = CampaignStore(connections)
    if name is not None:
        found(campaigns, name)
    device = this_machine()
    settings = MeasureSettings(threads=device.spec.core_count or 1)
    options = WorkOptions(settings=settings, campaign=name, most_tasks=most_tasks, lease_s=lease_s)
    with ProgressLines(campaigns) as lines:
        worker = CampaignWorker(
            connections, ProfileStore(out), device, options, on_event=lines.show
        )
        return worker.run()


def _interrupt(signal_number: int, frame: Any) -> NoReturn:
    """End as with Ctrl-C: schedulers send SIGTERM before they kill."""
    raise KeyboardInterrupt
