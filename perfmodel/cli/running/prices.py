"""``perfmodel prices``: what an hour of accelerators costs, a whole list at once.

Files say what providers ask for accelerators and hosts::

    [example-cloud]                  # a provider, by any name
    currency = "EUR"                 # USD unless stated
    source = "example.com/prices"    # where from, and when: for people
    date = 2026-01-01

    [example-cloud.accelerators]     # an hour of one accelerator
    "A100-SXM4-80GB" = 2.5

    [example-cloud.instances]        # an hour of a host, divided among its accelerators
    "p5.48xlarge" = 60.0
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.database import opened, service_or_database
from perfmodel.cli.options import FILE
from perfmodel.cli.output import print_json, print_table
from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, UnknownFieldError, UnknownProviderError
from perfmodel.placement.topology.instances import instance_type

_CURRENCY = re.compile(r"[A-Z]{3}")
_FIELDS = ("currency", "source", "date", "accelerators", "instances")


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceList:
    """What one provider asks.

    Parameters
    ----------
    per_hour : mapping of str to float
        Units of ``currency`` for an hour of one accelerator, by its canonical name.
    currency : str
        ISO 4217.
    """

    provider: str
    currency: str
    per_hour: Mapping[str, float]


def read_price_list(file: Path, provider: str | None, catalog: Catalog) -> PriceList:
    """Read what one provider asks.

    Parameters
    ----------
    provider : str or None
        None: the only one of the file.

    Raises
    ------
    InvalidInputError
        The file cannot be read, names no price, or says of one accelerator two things; or it holds
        several providers and none is named.
    UnknownProviderError, UnknownAcceleratorError, UnknownFieldError
        A name that is not known.
    """
    providers = _toml(file)
    provider = _chosen(provider, providers, file)
    fields = providers[provider]
    if not isinstance(fields, dict):
        raise InvalidInputError(f"{provider} of {file} must be a table; got {fields!r}.")
    for name in fields:
        if name not in _FIELDS:
            raise UnknownFieldError(name, known=_FIELDS, hint=f"It stands in {provider}.")
    currency = fields.get("currency", "USD")
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        raise InvalidInputError(
            f"currency of {provider} is a code of three letters, such as EUR; got {currency!r}."
        )
    return PriceList(
        provider=provider, currency=currency, per_hour=_per_hour(fields, provider, catalog)
    )


def _toml(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidInputError(f"{file} is no TOML: {error}.") from error


def _chosen(provider: str | None, providers: Mapping[str, Any], file: Path) -> str:
    if provider is None:
        if len(providers) != 1:
            names = ", ".join(providers) or "nobody"
            raise InvalidInputError(
                f"{file} says what {names} asks; name one provider with --provider."
            )
        return next(iter(providers))
    if provider not in providers:
        raise UnknownProviderError(provider, known=providers)
    return provider


def _per_hour(fields: Mapping[str, Any], provider: str, catalog: Catalog) -> Mapping[str, float]:
    """Return the prices by canonical name; those of hosts divided by their accelerators."""
    found: dict[str, float] = {}
    stated: dict[str, str] = {}
    for section, read in _SECTIONS.items():
        for name, price in fields.get(section, {}).items():
            accelerator, count = read(name, catalog)
            if accelerator in stated:
                raise InvalidInputError(
                    f"{stated[accelerator]} and {name} of {provider} both say what {accelerator} "
                    "costs; leave one of them out."
                )
            stated[accelerator] = name
            found[accelerator] = _checked(price, name, provider) / count
    if not found:
        raise InvalidInputError(
            f"{provider} names no price; it needs a table 'accelerators' or 'instances'."
        )
    return found


def _checked(price: Any, name: str, provider: str) -> float:
    number = isinstance(price, (int, float)) and not isinstance(price, bool)
    if not number or not 0 < price < float("inf"):
        raise InvalidInputError(
            f"The price of {name} of {provider} must be a number above 0; got {price!r}."
        )
    return float(price)


def _accelerator(name: str, catalog: Catalog) -> tuple[str, int]:
    return catalog.get(name).name, 1


def _instance(name: str, catalog: Catalog) -> tuple[str, int]:
    found = instance_type(name, "")
    if found is None:
        raise InvalidInputError(
            f"{name!r} is no instance type; prices of accelerators stand in 'accelerators'."
        )
    return catalog.get(found.accelerator).name, found.count


_SECTIONS: Mapping[str, Callable[[str, Catalog], tuple[str, int]]] = {
    "accelerators": _accelerator,
    "instances": _instance,
}


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
    with opened(database, reads=True) as connections:
        from perfmodel.store.state.prices import PriceStore

        return [asdict(price) for price in PriceStore(connections).all().values()]


def _tell(service: str, key: str | None, found: PriceList) -> None:
    from perfmodel.client import Client

    with Client(service, api_key=key) as asked:
        for accelerator, per_hour in found.per_hour.items():
            asked.set_price(accelerator, per_hour, currency=found.currency)


def _keep(database: str, found: PriceList) -> None:
    with opened(database) as connections:
        from perfmodel.client.records import Price
        from perfmodel.store.state.prices import PriceStore

        store = PriceStore(connections)
        for accelerator, per_hour in found.per_hour.items():
            store.put(Price(accelerator=accelerator, per_hour=per_hour, currency=found.currency))
