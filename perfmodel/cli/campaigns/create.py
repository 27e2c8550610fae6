"""``perfmodel campaign create``: enter workloads to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.database import database_option, opened
from perfmodel.cli.options import FiniteRange, job_options, output_options
from perfmodel.cli.output import print_json, tell
from perfmodel.cli.subjects import jobs_of, jobs_of_all, parse_json
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.campaigns.policy import CampaignPolicy
    from perfmodel.store.sql.connections import Connections

#: Runs everywhere without a library of models, and long enough to be measured well.
_REFERENCE = "zoo/resnet50-v1.5"
_POLICY = (
    "order", "seed", "budget_s", "reference_every", "drift_limit", "timeout_s",
    "memory_limit_bytes", "threads",
)  # fmt: skip


@click.command()
@click.argument("subjects", nargs=-1, metavar="[FILE|MODEL]...")
@click.option(
    "--from", "source", type=click.Choice(["drift"]),
    help="Instead of FILE or MODEL: the jobs that open alarms doubt, on the accelerators where "
    "they do; a campaign for each of these, in the adaptive order unless --order says another.",
)  # fmt: skip
@click.option("--title", default="", help="For people.")
@click.option(
    "--accelerator", "accelerators", multiple=True, default=("any",), show_default=True,
    metavar="NAME|KIND",
    help="What shall measure each workload: an accelerator, a kind (cpu, gpu) or any. Repeatable: "
    "each is measured once on each.",
)  # fmt: skip
@click.option(
    "--budget", "budget_s", type=FiniteRange(min=0, min_open=True), metavar="SECONDS",
    help="Time of measuring, over all devices, after which no workload is begun.",
)  # fmt: skip
@click.option(
    "--order", type=click.Choice(["listed", "random", "adaptive"]),
    help="Which is begun next; adaptive takes what is expected to tell most. [default: adaptive "
    "with --budget, else listed]",
)  # fmt: skip
@click.option(
    "--for", "cared", metavar="FILE",
    help="List of the jobs that will be asked about the devices, for the adaptive order. "
    "[default: the workloads]",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--reference", default=_REFERENCE, show_default=True, metavar="MODEL|none",
    help="Measured again and again, in batches of 8, to see whether a machine drifts.",
)  # fmt: skip
@click.option(
    "--reference-every", type=click.IntRange(min=1), default=20, show_default=True,
    help="Workloads between two references on a machine.",
)  # fmt: skip
@click.option(
    "--drift-limit", type=FiniteRange(min=0, min_open=True), default=0.1, show_default=True,
    help="Share by which the reference may change; past it what was measured since is noisy.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=1), default=120.0, show_default=True,
    help="Seconds that one workload may take.",
)  # fmt: skip
@click.option(
    "--memory-limit", "memory_limit_bytes", type=FiniteRange(min=1), metavar="BYTES",
    help="Resident memory past which a workload is ended. [default: that of the machine]",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(1), help="CPU threads. [default: all cores]")
@job_options
@database_option
@output_options
def create(
    subjects: tuple[str, ...],
    source: str | None,
    title: str,
    accelerators: tuple[str, ...],
    cared: str | None,
    reference: str,
    database: str,
    as_json: bool,
    **settings: Any,
) -> None:
    """Enter workloads to be measured, and print the name of the campaign.

    FILE is a list of jobs: .jsonl with one job a line, or .toml with grids. MODEL is as for
    `perfmodel capture`, measured with the options below. `perfmodel campaign work` measures them.
    """
    from perfmodel.campaigns.policy import parse_policy, task_job

    if bool(subjects) == bool(source):
        raise InvalidInputError("Say what to measure: FILE or MODEL, or --from drift; one of them.")
    stated = {name: settings.pop(name) for name in _POLICY}
    if reference != "none":
        stated["reference"] = {"model": reference, "batch_size": 8}
    if cared is not None:
        stated["cares_about"] = [_form(job) for job in jobs_of(cared, settings)]
    if source is not None:
        stated["order"] = stated["order"] or "adaptive"
        _create_doubted(database, parse_policy(stated, pointer=""), accelerators, title, as_json)
        return
    policy = parse_policy(stated, pointer="")
    jobs = jobs_of_all(subjects, settings)
    for job in jobs:
        task_job(_form(job), "")
    with opened(database) as connections:
        from perfmodel.campaigns.entering import enter_campaign
        from perfmodel.store.campaigns import CampaignStore

        campaigns = CampaignStore(connections)
        words = _words(accelerators, connections)
        entered = enter_campaign(campaigns, jobs, policy=policy, accelerators=words, title=title)
        total = campaigns.counts(entered.name).total
    if repeated := len(jobs) * len(set(words)) - total:
        tell(f"{repeated} of the listed workloads repeat others; each is measured once.")
    told = {"id": entered.name, "tasks": total, "created": entered.created}
    if as_json:
        print_json(told)
    else:
        _tell(told)


def _create_doubted(
    database: str,
    policy: CampaignPolicy,
    accelerators: tuple[str, ...],
    title: str,
    as_json: bool,
) -> None:
    """Enter a campaign for each accelerator on which open alarms doubt jobs."""
    with opened(database) as connections:
        from perfmodel.campaigns.doubted import doubted_jobs, enter_doubted
        from perfmodel.store.campaigns import CampaignStore
        from perfmodel.store.feedback import AlarmStore
        from perfmodel.store.state.jobs import JobStore

        doubted = doubted_jobs(
            AlarmStore(connections).open_alarms(),
            JobStore(connections),
            accelerators=_words(accelerators, connections),
        )
        if not doubted:
            raise InvalidInputError(
                "No open alarm doubts a job that a worker could measure. `perfmodel drift` lists "
                "the alarms; name FILE or MODEL to measure all the same."
            )
        campaigns = CampaignStore(connections)
        told = [
            {"id": one.name, "tasks": campaigns.counts(one.name).total, "created": one.created}
            for one in enter_doubted(campaigns, doubted, policy=policy, title=title)
        ]
    if as_json:
        print_json({"campaigns": told})
        return
    for one in told:
        _tell(one)


def _words(accelerators: Sequence[str], connections: Connections) -> list[str]:
    """Return what workers answer to, by the catalogue and what the database adds to it."""
    from perfmodel.campaigns.entering import device_words
    from perfmodel.devices.catalog import Catalog
    from perfmodel.devices.codec import spec_from_dict
    from perfmodel.store.state.accelerators import AcceleratorStore

    own = AcceleratorStore(connections).all()
    devices = [spec_from_dict(parse_json(one, source=name)) for name, one in own.devices.items()]
    return device_words(accelerators, Catalog.default().with_own_if_free(devices, own.aliases))


def _tell(campaign: Mapping[str, Any]) -> None:
    name = campaign["id"]
    click.echo(name)
    if campaign["created"]:
        said = f"{campaign['tasks']} workloads wait. `perfmodel campaign work {name}` measures "
        said += "them; run it wherever the database can be reached."
    else:
        said = (
            f"It was made before; `perfmodel campaign status {name}` says how far it is. Another "
        )
        said += "--title makes another one."
    click.echo(said, err=True)


def _form(job: Any) -> dict[str, Any]:
    from perfmodel.graph.job import stated_fields

    return stated_fields(job)
