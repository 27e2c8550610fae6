"""``perfmodel campaign status``, ``results`` and ``cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfmodel.cli.campaigns.campaign_names import found
from perfmodel.cli.database import database_option, opened
from perfmodel.cli.options import output_options
from perfmodel.cli.output import count, duration, percent, print_facts, print_json, print_table
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.campaigns.progress import Progress
    from perfmodel.client.records import CampaignReference
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.store.campaigns.campaign_records import Campaign, Task


@click.command()
@click.argument("name", metavar="[CAMPAIGN]", required=False)
@database_option
@output_options
def status(name: str | None, database: str, as_json: bool) -> None:
    """Say how far CAMPAIGN is, when it ends and how its machines drifted; without one, list all."""
    from perfmodel.campaigns.campaign_form import campaign_to_dict

    with opened(database, reads=True) as connections:
        from perfmodel.store.campaigns import CampaignStore, ReferenceStore

        campaigns = CampaignStore(connections)
        if name is None:
            _list(campaigns, as_json=as_json)
            return
        campaign = found(campaigns, name)
        progress = _progress(campaigns, campaign)
        references = ReferenceStore(connections).of_campaign(name)
    if as_json:
        print_json({**campaign_to_dict(campaign, progress), "references": references})
        return
    print_facts(_lines(campaign, progress))
    if references:
        print_table(
            ["machine", "reference", "drift", "measured"],
            [_reference_row(one) for one in references[-20:]],
            right="lrr",
        )


@click.command()
@click.argument("name", metavar="CAMPAIGN")
@click.option(
    "--state", metavar="STATE",
    help="Tasks in this state only: waiting, running, done, failed, set_aside, cancelled.",
)  # fmt: skip
@database_option
@output_options
def results(name: str, state: str | None, database: str, as_json: bool) -> None:
    """Print what was measured of CAMPAIGN, and why what failed did."""
    from perfmodel.campaigns.campaign_form import task_to_dict

    _check_state(state)
    with opened(database, reads=True) as connections:
        from perfmodel.store.campaigns import CampaignStore

        campaigns = CampaignStore(connections)
        found(campaigns, name)
        tasks = [one for one in campaigns.all_tasks(name) if state in (None, one.state.value)]
    if as_json:
        print_json({"campaign": name, "tasks": [task_to_dict(task) for task in tasks]})
        return
    print_table(
        ["workload", "machine", "state", "step", "samples/s", ""],
        [_task_row(task) for task in tasks],
        right="lllrr",
    )


@click.command()
@click.argument("name", metavar="CAMPAIGN")
@database_option
@output_options
def cancel(name: str, database: str, as_json: bool) -> None:
    """End CAMPAIGN: what waits is not begun, what runs is dropped, what has finished stays."""
    with opened(database, reads=True) as connections:
        from perfmodel.store.campaigns import CampaignStore

        campaigns = CampaignStore(connections)
        found(campaigns, name)
        campaigns.cancel(name)
        progress = _progress(campaigns, found(campaigns, name))
    if as_json:
        print_json({"id": name, **progress.to_dict()})
    else:
        said = "It had ended before" if progress.stage == "ended" else "Cancelled"
        click.echo(f"{said}; {progress.done} of {progress.total} workloads were measured.")


def _check_state(state: str | None) -> None:
    from perfmodel.store.campaigns.campaign_records import TaskState

    known = [one.value for one in TaskState]
    if state is not None and state not in known:
        raise InvalidInputError(f"No state {state!r}; known: {', '.join(known)}.", allowed=known)


def _progress(campaigns: CampaignStore, campaign: Campaign) -> Progress:
    from perfmodel.campaigns.progress import progress_of

    return progress_of(campaign, campaigns.counts(campaign.name))


def _list(campaigns: CampaignStore, *, as_json: bool) -> None:
    from perfmodel.campaigns.campaign_form import campaign_to_dict

    listed = [(one, _progress(campaigns, one)) for one in campaigns.page(limit=1_000).items]
    if as_json:
        print_json({"campaigns": [campaign_to_dict(one, progress) for one, progress in listed]})
    elif not listed:
        click.echo("There are no campaigns; `perfmodel campaign create` makes one.")
    else:
        rows = [
            [
                one.name, one.title, progress.stage.value, f"{progress.ended}/{progress.total}",
                str(progress.failed + progress.set_aside), one.created_at[:19],
            ]
            for one, progress in listed
        ]  # fmt: skip
        print_table(["campaign", "title", "", "ended", "failed", "made"], rows, right="lllrr")


def _lines(campaign: Campaign, progress: Progress) -> list[tuple[str, str]]:
    budget = "" if progress.budget_s is None else f" of {duration(progress.budget_s)}"
    ends = "unknown before the first workload"
    if progress.has_ended:
        ends = progress.stage.value
    elif progress.remaining_s is not None:
        ends = f"in {duration(progress.remaining_s)}, {progress.ends_at}"
    states = ("done", "failed", "set_aside", "running", "waiting", "cancelled")
    counted = [f"{getattr(progress, state)} {state.replace('_', ' ')}" for state in states]
    return [
        ("campaign", f"{campaign.name}  {campaign.title}".strip()),
        ("stage", progress.stage.value),
        ("workloads", f"{progress.total}: {', '.join(counted)}"),
        ("noisy by drift", str(progress.doubtful)),
        ("workers", str(progress.workers)),
        ("spent", f"{duration(progress.spent_s)}{budget}"),
        ("ends", ends),
    ]


def _reference_row(reference: CampaignReference) -> list[str]:
    drift = "first" if reference.drift is None else percent(reference.drift)
    shown = drift if reference.good else f"{drift}, past the limit"
    return [
        reference.machine, duration(reference.step_time_s), shown, reference.measured_at[:19]
    ]  # fmt: skip


def _task_row(task: Task) -> list[str]:
    from perfmodel.cli.subjects import describe_job
    from perfmodel.graph.job_form import stated_job

    outcome = task.outcome or {}
    said = task.reason or task.doubt or ("noisy" if outcome.get("noisy") else "")
    return [
        describe_job(stated_job(task.job)), task.machine or task.accelerator,
        task.state.value.replace("_", " "), duration(outcome.get("step_time_s")),
        count(outcome.get("samples_per_second")), said,
    ]  # fmt: skip
