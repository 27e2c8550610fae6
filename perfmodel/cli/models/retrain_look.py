"""``perfmodel retrain list``, ``show``, ``log`` and ``cancel``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from perfmodel.cli.database import database_option, opened
from perfmodel.cli.options import output_options
from perfmodel.cli.output import percent, print_facts, print_json, print_table
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.store.retraining import RetrainingStore
    from perfmodel.store.retraining.retraining_records import Retraining
    from perfmodel.store.sql.connections import Connections

_FOLLOW_S = 0.5


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most.")
@database_option
@output_options
def list_(limit: int, database: str, as_json: bool) -> None:
    """List retrainings, newest first."""
    from perfmodel.retraining.told import retraining_to_dict

    with _store(database) as (store, _):
        found = store.page(limit=limit).items
    if as_json:
        print_json({"retrainings": [retraining_to_dict(one) for one in found]})
        return
    rows = [
        [one.name, one.model, one.state.value, one.phase or "-", percent(one.fraction),
         one.version or "-", one.trigger.value, one.created_at]
        for one in found
    ]  # fmt: skip
    print_table(["id", "model", "state", "phase", "done", "version", "by", "entered"], rows)


@click.command()
@click.argument("retraining")
@database_option
@output_options
def show(retraining: str, database: str, as_json: bool) -> None:
    """Show how far RETRAINING is, and what was decided."""
    from perfmodel.retraining.told import retraining_to_dict

    with _store(database) as (store, _):
        found = _found(store, retraining)
    if as_json:
        print_json(retraining_to_dict(found))
        return
    print_facts(
        [
            ("retraining", found.name),
            ("model", found.model),
            ("state", found.state.value),
            ("phase", f"{found.phase or '-'} ({percent(found.fraction)})"),
            ("progress", found.progress or "-"),
            ("attempts", str(found.attempts)),
            ("by", f"{found.caller or '-'} ({found.trigger.value})"),
            ("why", found.why or "-"),
            ("version", found.version or "-"),
            ("reason", found.reason or "-"),
        ]
    )
    if found.decision is not None:
        click.echo(f"\n{found.decision['report']}")


@click.command()
@click.argument("retraining")
@click.option("--follow", is_flag=True, help="Go on until it has ended.")
@database_option
@output_options
def log(retraining: str, follow: bool, database: str, as_json: bool) -> None:
    """Print what RETRAINING has said, on whatever host it runs."""
    from dataclasses import asdict

    from perfmodel.store.retraining import RetrainingLogStore

    with _store(database) as (store, connections):
        found, after = _found(store, retraining), 0
        lines = RetrainingLogStore(connections)
        while True:
            for line in lines.lines(retraining, after=after):
                after = line.number
                if as_json:
                    print_json(asdict(line))
                else:
                    click.echo(f"{line.at}  {line.text}")
            if not (follow and found.state.is_open):
                return
            time.sleep(_FOLLOW_S)
            found = _found(store, retraining)


@click.command()
@click.argument("retraining")
@database_option
@output_options
def cancel(retraining: str, database: str, as_json: bool) -> None:
    """End RETRAINING without a result, wherever it runs."""
    from perfmodel.retraining.told import retraining_to_dict

    with _store(database) as (store, _):
        before = _found(store, retraining)
        if not store.cancel(retraining):
            raise InvalidInputError(
                f"Retraining {retraining} cannot be cancelled: it is {before.state.value}"
                f"{', and its version is being published' if before.state.is_open else ''}."
            )
        found = _found(store, retraining)
    if as_json:
        print_json(retraining_to_dict(found))
    else:
        click.echo(f"Retraining {retraining} is cancelled.")


@contextmanager
def _store(database: str) -> Iterator[tuple[RetrainingStore, Connections]]:
    with opened(database, reads=True) as connections:
        from perfmodel.store.retraining import RetrainingStore

        yield RetrainingStore(connections), connections


def _found(store: RetrainingStore, name: str) -> Retraining:
    found = store.find(name)
    if found is None:
        raise InvalidInputError(
            f"There is no retraining {name!r} in the database; `perfmodel retrain list` lists "
            "those that are."
        )
    return found
