"""``perfmodel retrain``: learn a model anew, have it judged, and let it serve."""

from __future__ import annotations

import getpass
import socket
import time
from typing import TYPE_CHECKING, Any, Unpack

import click
from click.core import ParameterSource

from perfmodel.cli.database import opened
from perfmodel.cli.failures import EXIT_FAILED, end_as_with_ctrl_c
from perfmodel.cli.models.retrain_look import cancel, list_, log, show
from perfmodel.cli.models.retrain_options import Where, worker_options, workplace, workplace_options
from perfmodel.cli.models.retrain_work import work
from perfmodel.cli.options import members_option, output_options
from perfmodel.cli.output import print_json, tell

if TYPE_CHECKING:
    from perfmodel.retraining.workplace import Workplace
    from perfmodel.store.retraining.retraining_records import Retraining
    from perfmodel.store.sql.connections import Connections

#: How often it is looked whether a retraining that waits can be done, seconds.
_POLL_S = 1.0


@click.group(invoke_without_command=True)
@click.option("--name", default="default", show_default=True, help="Name of the trained model.")
@click.option("--why", default="", help="The reason, kept with what comes of it.")
@click.option(
    "--without",
    multiple=True,
    metavar="SOURCE",
    help="Leave a source out: profiles/T4, campaigns/NAME, timm, observations/REPORTER. "
    "Repeatable.",
)
@click.option(
    "--without-damaged", is_flag=True, help="Leave out files that cannot be read, and name them."
)
@members_option
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is drawn."
)
@click.option(
    "--tune",
    "trials",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Search the settings of each learner in N trials. [default: 0]",
)
@click.option("--no-promote", is_flag=True, help="Let what is judged good enough stay a candidate.")
@click.option("--shadow", is_flag=True, help="Let it answer beside the version that serves first.")
@click.option("--settings", metavar="JSON", help="Further settings, see docs/retraining.md.")
@click.option(
    "--quick",
    is_flag=True,
    help="No fit: the version that serves takes in what was measured since. Seconds.",
)
@click.option("--later", is_flag=True, help="Enter it alone, for whoever works on retrainings.")
@workplace_options
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    why: str,
    without: tuple[str, ...],
    without_damaged: bool,
    members: tuple[str, ...],
    seed: int,
    trials: int,
    no_promote: bool,
    shadow: bool,
    settings: str | None,
    quick: bool,
    later: bool,
    memory_gb: float | None,
    as_json: bool,
    **where: Unpack[Where],
) -> None:
    """Learn a model anew from all that was measured, judge it, and let it serve.

    Takes minutes, at low priority; progress goes to standard error. Stop it as you like: the same
    command goes on from the last finished phase. Exits with 4 where the version was refused.
    """
    if ctx.invoked_subcommand is not None:
        return
    if later:
        _refuse_workplace(ctx)
    end_as_with_ctrl_c()
    stated = _settings(
        settings,
        without,
        without_damaged,
        members,
        seed,
        trials,
        promote=not no_promote,
        shadow=shadow,
        quick=quick,
    )
    place = workplace(where)
    with opened(place.database) as connections:
        found = _entered(connections, name, why, stated)
        if not later:
            found = _done(connections, place, found, memory_gb)
    _show_end(found, as_json=as_json)
    if not found.state.is_open and found.state.value != "done":
        ctx.exit(EXIT_FAILED)


for _sub in (list_, show, log, cancel, work):
    command.add_command(_sub)


def _refuse_workplace(ctx: click.Context) -> None:
    """Refuse to be told where a retraining is done that others do.

    Raises
    ------
    click.UsageError
        An option of :func:`workplace_options`, but for the database in which it is entered.
    """
    where = {"memory_gb", *Where.__annotations__} - {"database"}
    stated = [
        param.opts[0]
        for param in ctx.command.params
        if param.name in where
        and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]
    if stated:
        raise click.UsageError(
            f"--later enters a retraining alone; leave {', '.join(stated)} to `perfmodel retrain "
            "work`, or to the service that does it."
        )


def _settings(
    text: str | None,
    without: tuple[str, ...],
    without_damaged: bool,
    members: tuple[str, ...],
    seed: int,
    trials: int,
    *,
    promote: bool,
    shadow: bool,
    quick: bool,
) -> dict[str, Any]:
    import json

    from perfmodel.errors import InvalidInputError
    from perfmodel.retraining.settings import parse_settings

    try:
        further = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidInputError(f"--settings must be JSON: {error}.") from error
    stated = {
        "without": list(without), "without_damaged": without_damaged, "members": list(members),
        "seed": seed, "tune": trials, "promote": promote, "shadow": shadow,
        "quick": quick,
        **(further if isinstance(further, dict) else {"": further}),
    }  # fmt: skip
    return parse_settings(stated).to_dict()


def _entered(connections: Connections, name: str, why: str, settings: dict[str, Any]) -> Retraining:
    from perfmodel.store.artifacts import check_model_name
    from perfmodel.store.retraining import RetrainingStore

    check_model_name(name)
    caller = f"user {getpass.getuser()} on {socket.gethostname()}"
    found, created = RetrainingStore(connections).start(
        name, why=why, caller=caller, settings=settings
    )
    if not created:
        tell(
            f"Retraining {found.name} of {name} is {found.state.value} already, with settings of "
            "its own; it goes on. `perfmodel retrain cancel` ends it."
        )
    return found


def _done(
    connections: Connections, place: Workplace, found: Retraining, memory_gb: float | None
) -> Retraining:
    """Do a retraining here until it has ended, or watch whoever does it."""
    from perfmodel.retraining.worker import RetrainingWorker
    from perfmodel.store.retraining import RetrainingStore

    store = RetrainingStore(connections)
    worker = RetrainingWorker(
        connections,
        place,
        worker_options(memory_gb),
        on_line=lambda phase, text: tell(f"{phase}: {text}" if phase else text),
    )
    while found.state.is_open:
        if worker.do_one(found.name) is None:
            time.sleep(_POLL_S)
        again = store.find(found.name)
        assert again is not None, "retrainings are never removed"
        found = again
    return found


def _show_end(found: Retraining, *, as_json: bool) -> None:
    from perfmodel.retraining.told import retraining_to_dict

    if as_json:
        print_json(retraining_to_dict(found))
        return
    decision = found.decision or {}
    if decision.get("report"):
        click.echo(decision["report"])
    version = f" {found.model}/{found.version}" if found.version else ""
    reason = f": {found.reason}" if found.reason else ""
    click.echo(f"Retraining {found.name} is {found.state.value}{version}{reason}")
