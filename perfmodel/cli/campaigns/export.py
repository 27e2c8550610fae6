"""``perfmodel campaign export``: what starts workers on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from perfmodel.cli.campaigns.campaign_names import found
from perfmodel.cli.database import database_option, opened, url_of
from perfmodel.cli.options import debug_option, with_options
from perfmodel.cli.output import print_json, tell

_options = with_options(
    click.option(
        "--workers", type=click.IntRange(1, 10_000), default=1, show_default=True,
        help="Workers at the same time.",
    ),
    click.option(
        "--gpus", type=click.IntRange(0), default=0, show_default=True,
        help="GPUs of each worker; it measures on the first. 0: it measures the processor.",
    ),
    database_option, debug_option,
)  # fmt: skip


@click.group()
def export() -> None:
    """Write what starts the workers of a campaign on a cluster."""


@export.command()
@click.argument("name", metavar="CAMPAIGN")
@click.option("--out", default="profiles", show_default=True, help="Folder of the records there.")
@click.option(
    "--option", "options", multiple=True, metavar="OPTION",
    help="Of sbatch, such as --option=--partition=a100. Repeatable.",
)  # fmt: skip
@_options
def slurm(
    name: str, out: str, options: tuple[str, ...], workers: int, gpus: int, database: str
) -> None:
    """Print a job array for sbatch whose elements work on CAMPAIGN.

    The database has to be reachable from the nodes: a PostgreSQL, or an SQLite file if there is one
    node.
    """
    from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers
    from perfmodel.campaigns.clusters.slurm_script import slurm_script

    _check(name, database)
    asked = ClusterWorkers(
        campaign=name, database=_absolute(database), workers=workers, gpus=gpus, out=out
    )
    if workers > 1:
        _say_who_reaches(asked.database)
    click.echo(slurm_script(asked, options=options), nl=False)


@export.command()
@click.argument("name", metavar="CAMPAIGN")
@click.option("--image", required=True, help="Of the containers.")
@click.option("--claim", required=True, help="PersistentVolumeClaim that takes the records.")
@click.option(
    "--secret", default="perfmodel-database", show_default=True,
    help="Secret whose key `url` is the URL of the database.",
)  # fmt: skip
@click.option("--namespace", help="Of the Job.")
@click.option(
    "--gpu-resource", default="nvidia.com/gpu", show_default=True, help="How GPUs are asked for."
)
@click.option(
    "--node-label", "labels", multiple=True, metavar="NAME=VALUE",
    help="Of the nodes that may run it. Repeatable.",
)  # fmt: skip
@_options
def kubernetes(
    name: str,
    image: str,
    claim: str,
    secret: str,
    namespace: str | None,
    gpu_resource: str,
    labels: tuple[str, ...],
    workers: int,
    gpus: int,
    database: str,
) -> None:
    """Print a Job, as JSON for `kubectl apply -f -`, whose pods work on CAMPAIGN."""
    from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers
    from perfmodel.campaigns.clusters.kubernetes_job import KubernetesOptions, kubernetes_job

    _check(name, database)
    asked = ClusterWorkers(
        campaign=name, database=database, workers=workers, gpus=gpus, out="/profiles"
    )
    _say_who_reaches(url_of(database))
    options = KubernetesOptions(
        image=image,
        claim=claim,
        secret=secret,
        namespace=namespace,
        gpu_resource=gpu_resource,
        node_selector=dict(_pair(label) for label in labels),
    )
    print_json(kubernetes_job(asked, options))


def _check(name: str, database: str) -> None:
    with opened(database, reads=True) as connections:
        from perfmodel.store.campaigns import CampaignStore

        found(CampaignStore(connections), name)


def _say_who_reaches(url: str) -> None:
    """Say of a database in a file that workers elsewhere do not have it."""
    if url.startswith("sqlite:"):
        tell(
            f"{url} is a file of this machine: workers on other hosts need "
            "a PostgreSQL, which --database or PERFMODEL_DATABASE names."
        )


def _pair(label: str) -> tuple[str, str]:
    name, sign, value = label.partition("=")
    if not (name and sign):
        raise click.UsageError(f"--node-label is NAME=VALUE; got {label!r}.")
    return name, value


def _absolute(database: str) -> str:
    """Return a URL that means the same on a node, which starts elsewhere."""
    url = url_of(database)
    file = url.removeprefix("sqlite:///")
    return url if file == url else f"sqlite:///{Path(file).absolute()}"
