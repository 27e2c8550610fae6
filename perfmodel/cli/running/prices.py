"""``perfmodel prices``: what an hour of accelerators costs, a whole list at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.database import opened, service_or_database
from perfmodel.cli.options import FILE
from perfmodel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from perfmodel.cli.running.price_list import PriceList


@click.group(invoke_without_command=True)
@service_or_database
@click.pass_context
def command(
    ctx: click.Context, service: str | None, key: str | None, database: str, as_json: bool
) -> None:
    """List what an hour of each accelerator costs; `prices import` takes a list of a provider."""
    if ctx.invoked_subcommand is not None:
        return
    rows = _listed(service, key) if service else _kept(database)
    if as_json:
        print_json({"prices": rows})
    elif not rows:
        print("No prices were set; rankings by cost need some.")
    else:
        print_table(
            ["accelerator", "an hour", "currency"],
            [[row["accelerator"], f"{row['per_hour']:g}", row["currency"]] for row in rows],
        )


@command.command("import")
@click.argument("file", type=FILE)
@click.option("--provider", help="Whose prices of the file. [default: the only one]")
@service_or_database
def import_(
    file: Path,
    provider: str | None,
    service: str | None,
    key: str | None,
    database: str,
    as_json: bool,
) -> None:
    """Set the prices of FILE; those of accelerators that it does not name stay.

    FILE is TOML, docs/running.md says how it is written.
    """
    from perfmodel.cli.running.price_list import read_price_list
    from perfmodel.devices.catalog import Catalog

    found = read_price_list(file, provider, Catalog.default())
    if service:
        _tell(service, key, found)
    else:
        _keep(database, found)
    if as_json:
        print_json(asdict(found))
    else:
        print(f"{len(found.per_hour)} prices of {found.provider} are set, in {found.currency}.")


def _listed(service: str, key: str | None) -> Sequence[dict[str, Any]]:
    from perfmodel.client import Client

    with Client(service, api_key=key) as asked:
        return [asdict(price) for price in asked.prices().prices]


def _kept(database: str) -> Sequence[dict[str, Any]]:
    with opened(database) as connections:
        from perfmodel.store.state.prices import PriceStore

        return [asdict(price) for price in PriceStore(connections).all().values()]


def _tell(service: str, key: str | None, found: PriceList) -> None:
    from perfmodel.client import Client

    with Client(service, api_key=key) as asked:
        for accelerator, per_hour in found.per_hour.items():
            asked.set_price(accelerator, per_hour, currency=found.currency)


def _keep(database: str, found: PriceList) -> None:
    with opened(database) as connections:
        from perfmodel.store.state.prices import Price, PriceStore

        store = PriceStore(connections)
        for accelerator, per_hour in found.per_hour.items():
            store.put(Price(accelerator=accelerator, per_hour=per_hour, currency=found.currency))
