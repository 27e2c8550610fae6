"""``perfmodel keys``: make, list and revoke the keys of the service."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.options import FILE, output_options, with_options
from perfmodel.cli.output import print_json, print_table
from perfmodel.errors import MissingExtraError

if TYPE_CHECKING:
    from service.access.audit import AuditLog, AuditTable
    from service.access.key_file import KeyFile
    from service.access.key_table import KeyTable
    from service.access.keys import ApiKey

#: Where the keys are, and ``--json``.
_store_options = with_options(
    click.option(
        "--keys",
        "file",
        type=FILE,
        envvar="PERFMODEL_KEYS",
        help="File of the keys. [default: a PostgreSQL database itself, else keys.json beside the "
        "database; environment: PERFMODEL_KEYS]",
    ),
    click.option(
        "--database",
        envvar="PERFMODEL_DATABASE",
        metavar="URL",
        help="Database of the service. [environment: PERFMODEL_DATABASE]",
    ),
    output_options,
)


@click.group()
def command() -> None:
    """Make, list and revoke the keys of the service.

    A key is shown once, when it is made; its hash is all that is kept. A running service takes a
    change into account within a second.
    """


@command.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="[predict|observe|admin]",
    help="What the key may do. Repeatable; admin may do everything.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=float,
    help="Requests a second that it may send. [default: what the service grants everybody]",
)
@_store_options
def create(
    name: str,
    scopes: Sequence[str],
    rate_per_s: float | None,
    file: Path | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Make a key for NAME and print it."""
    from datetime import UTC, datetime

    with _stores(file, database) as (keys, audit):
        from service.access.keys import new_key

        created_at = datetime.now(UTC).isoformat(timespec="seconds")
        token, key = new_key(name, scopes, created_at=created_at, rate_per_s=rate_per_s)
        keys.add(key)
        _note(audit, "create key", key)
    if as_json:
        print_json({"key": token, **_facts(key)})
        return
    click.echo(token)
    click.echo(
        f"Key {key.key_id} of {name} may {' and '.join(sorted(key.scopes))}. It is not shown "
        f"again; its hash is in {keys.place}.",
        err=True,
    )


@command.command("list")
@_store_options
def list_(file: Path | None, database: str | None, as_json: bool) -> None:
    """List the keys, the oldest first."""
    with _stores(file, database) as (keys, _):
        found = keys.all()
    if as_json:
        print_json({"place": keys.place, "keys": [_facts(key) for key in found]})
    elif not found:
        print(f"There are no keys in {keys.place}; the service answers the loopback only.")
    else:
        rows = [
            [
                key.key_id,
                key.name,
                ", ".join(sorted(key.scopes)),
                "-" if key.rate_per_s is None else f"{key.rate_per_s:g}",
                key.created_at,
                key.revoked_at or "-",
            ]
            for key in found
        ]
        print_table(["key", "name", "scopes", "requests/s", "made", "revoked"], rows)


@command.command()
@click.argument("key_id", metavar="KEY")
@_store_options
def revoke(key_id: str, file: Path | None, database: str | None, as_json: bool) -> None:
    """Make KEY worthless; `perfmodel keys list` names them all."""
    with _stores(file, database) as (keys, audit):
        key = keys.revoke(key_id)
        _note(audit, "revoke key", key)
    if as_json:
        print_json(_facts(key))
    else:
        print(f"Key {key.key_id} of {key.name} opens nothing any more.")


@contextmanager
def _stores(
    file: Path | None, database: str | None
) -> Iterator[tuple[KeyFile | KeyTable, AuditLog | AuditTable]]:
    """Open the keys and the audit log of the service that options and environment describe."""
    try:
        from perfmodel.store.state.database import Database
        from service.access.audit import AuditLog
        from service.access.install import audit_file, audit_of, is_shared, keys_file
        from service.access.key_file import KeyFile
        from service.access.key_table import KeyTable
        from service.settings import read_settings
    except ModuleNotFoundError as error:
        raise MissingExtraError("Managing keys", extra="serve") from error
    stated = {"keys": file, "database": database}
    settings = read_settings(**{n: value for n, value in stated.items() if value is not None})
    if settings.keys is None and is_shared(settings.database):
        connections = Database(settings.database).connections
        try:
            yield KeyTable(connections), audit_of(settings, connections)
        finally:
            connections.close()
    else:
        yield KeyFile(keys_file(settings)), AuditLog(audit_file(settings))


def _note(audit: AuditLog | AuditTable, action: str, key: ApiKey) -> None:
    by = f"user {getpass.getuser()}"
    audit.append(action, by=by, key=key.key_id, name=key.name, scopes=sorted(key.scopes))


def _facts(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "rate_per_s": key.rate_per_s,
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }
