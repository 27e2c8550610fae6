"""``perfmodel campaign``: the group of its subcommands."""

from __future__ import annotations

import click

from perfmodel.cli.campaigns.create import create
from perfmodel.cli.campaigns.export import export
from perfmodel.cli.campaigns.look import cancel, results, status
from perfmodel.cli.campaigns.work import work


@click.group()
def command() -> None:
    """Measure workloads with any number of workers, each of them once.

    A campaign is a list of workloads in the database of the service. Workers take them on, one
    after the other, wherever they run and as long as they live; what one is killed over another
    begins again, and nothing that has finished is measured twice.
    """


for _subcommand in (create, work, status, results, cancel, export):
    command.add_command(_subcommand)
