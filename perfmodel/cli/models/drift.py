"""``perfmodel drift``: whether answers still fit what is observed, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from perfmodel.cli.database import opened, service_or_database
from perfmodel.cli.failures import EXIT_FAILED
from perfmodel.cli.output import percent, print_json, print_table
from perfmodel.errors import InvalidInputError


@click.group(invoke_without_command=True)
@click.option("--ended", type=click.IntRange(0, 1_000), default=5, show_default=True,
              help="Alarms that have ended, the newest.")  # fmt: skip
@service_or_database
@click.pass_context
def command(
    ctx: click.Context,
    ended: int,
    service: str | None,
    key: str | None,
    database: str,
    as_json: bool,
) -> None:
    """Say whether answers still fit what is observed, and what to do where they do not.

    Exits with 4 while an alarm is open that nobody acknowledged.
    """
    if ctx.invoked_subcommand is not None:
        return
    found = _asked(service, key, ended) if service else _read(database, ended)
    if as_json:
        print_json(found)
    else:
        _print(found)
    if any(one["state"] == "open" and not one["acknowledged_by"] for one in found["alarms"]):
        ctx.exit(EXIT_FAILED)


@command.command()
@click.argument("alarm")
@click.option("--note", default="", help="Kept with the alarm.")
@click.option("--by", default="command line", show_default=True,
              help="Who knows of it, where no service is asked.")  # fmt: skip
@service_or_database
def acknowledge(
    alarm: str, note: str, by: str, service: str | None, key: str | None, database: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Note that ALARM is known of; it stays open until the residuals are fine again."""
    if service:
        from perfmodel.client import Client

        with Client(service, api_key=key) as client:
            changed = client.acknowledge_alarms(alarm, note=note).acknowledged
    else:
        changed = _acknowledged(database, alarm, by=by, note=note)
    if not changed:
        raise InvalidInputError(f"There is no alarm {alarm!r}; `perfmodel drift` lists them.")
    if as_json:
        print_json({"acknowledged": changed})
    else:
        print(f"{alarm} is known of.")


def _asked(service: str, key: str | None, ended: int) -> dict[str, Any]:
    from perfmodel.client import Client

    with Client(service, api_key=key, timeout_s=30.0) as client:
        return asdict(client.drift(ended=ended))


def _read(database: str, ended: int) -> dict[str, Any]:
    with opened(database, reads=True) as connections:
        from perfmodel.feedback.drift_state import alarm_state, residual_state
        from perfmodel.store.feedback import AlarmStore, ResidualStore

        alarms = alarm_state(AlarmStore(connections), ended=ended)
        return {**residual_state(ResidualStore(connections)), "alarms": alarms, "problems": []}


def _acknowledged(database: str, name: str, *, by: str, note: str) -> int:
    with opened(database, reads=True) as connections:
        from perfmodel.store.feedback import AlarmStore

        return AlarmStore(connections).acknowledge(name, by=by[:64], note=note or None)


def _print(found: Mapping[str, Any]) -> None:
    serving = f" {found['model']} serves." if found["model"] else ""
    print(
        f"{found['compared']} observations compared, {found['left_out']} without an answer, "
        f"{found['waiting']} waiting.{serving}"
    )
    for text in found["problems"]:
        click.echo(f"Problem: {text}", err=True)
    for alarm in found["alarms"]:
        _print_alarm(alarm)
    if not any(alarm["state"] == "open" for alarm in found["alarms"]):
        print("No alarm is open.")
    _table("group", found["groups"], _group_row, ["n", "bias", "error", "inside", "error now"])
    disagreeing = [one for one in found["reporters"] if one["disagrees"]]
    if disagreeing:
        _table("reporter", disagreeing, _reporter_row, ["n", "jobs", "takes", "counts"])


def _print_alarm(alarm: Mapping[str, Any]) -> None:
    state = alarm["state"] if alarm["state"] == "open" else f"ended {alarm['ended_at']}"
    known = f", known to {alarm['acknowledged_by']}" if alarm["acknowledged_by"] else ""
    print(
        f"\n{alarm['id']}  {alarm['kind']} {alarm['value']}: steps take {_factor(alarm['shift'])} "
        f"as long as answered since {alarm['since']} ({state}{known})"
    )
    if alarm["also"]:
        print(f"  or: {', '.join(alarm['also'])}")
    if alarm["state"] == "open":
        for remedy in alarm["remedies"]:
            print(f"  {remedy['action']}: {remedy['why']}\n    {remedy['command']}")


def _table(
    first: str,
    lines: Sequence[Mapping[str, Any]],
    row: Callable[[Mapping[str, Any]], list[str]],
    columns: list[str],
) -> None:
    print_table([first, *columns], [row(one) for one in lines], right="l" + "r" * len(columns))


def _group_row(one: Mapping[str, Any]) -> list[str]:
    now = one["error_now"]
    return [
        f"{one['kind']} {one['value']}", str(one["count"]), f"{one['bias']:+.3f}",
        f"{one['error']:.3f}", percent(one["coverage"]), "-" if now is None else f"{now:.3f}",
    ]  # fmt: skip


def _reporter_row(one: Mapping[str, Any]) -> list[str]:
    counts = f"{one['weight']:.2f}"
    return [one["reporter"], str(one["count"]), str(one["jobs"]), _factor(one["deviation"]), counts]


def _factor(shift: float) -> str:
    return f"{math.exp(shift):.2f} times"
