"""``perfmodel retrain work``: do the retrainings that wait, on a host of its own if wanted."""

from __future__ import annotations

from typing import Unpack

import click

from perfmodel.cli.database import opened
from perfmodel.cli.failures import end_as_with_ctrl_c
from perfmodel.cli.models.retrain_options import Where, worker_options, workplace, workplace_options
from perfmodel.cli.options import FiniteRange, output_options
from perfmodel.cli.output import print_json, tell


@click.command()
@click.option("--quiet", is_flag=True, help="Say nothing but what goes wrong.")
@click.option("--until-idle", is_flag=True, help="End when nothing waits.")
@click.option(
    "--lease", "lease_s", type=FiniteRange(min=1), default=60.0, show_default=True,
    help="Seconds after which a worker that is not heard of has lost its retraining.",
)  # fmt: skip
@workplace_options
@output_options
def work(
    quiet: bool,
    until_idle: bool,
    lease_s: float,
    memory_gb: float | None,
    as_json: bool,
    **where: Unpack[Where],
) -> None:
    """Do the retrainings that wait, and those that come in, until it is stopped.

    A service does so by itself unless PERFMODEL_RETRAIN_HERE is false; then this does, wherever it
    reaches the database, the store of models and the records.
    """
    from perfmodel.retraining.worker import RetrainingWorker

    end_as_with_ctrl_c()
    place = workplace(where)
    with opened(place.database) as connections:
        worker = RetrainingWorker(
            connections,
            place,
            worker_options(memory_gb, lease_s),
            on_line=(lambda phase, text: None) if quiet else _say,
        )
        done = worker.work(until_idle=until_idle)
    if as_json:
        print_json({"done": done})
    else:
        click.echo(f"{done} retrainings were done.")


def _say(phase: str, text: str) -> None:
    tell(f"{phase}: {text}" if phase else text)
