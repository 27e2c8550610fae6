"""The database of the service, as commands open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import output_options, with_options
from perfmodel.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from perfmodel.store.sql.connections import Connections

#: ``--database``.
database_option = click.option(
    "--database",
    default="sqlite:///perfmodel.db",
    show_default=True,
    envvar="PERFMODEL_DATABASE",
    metavar="URL",
    help="Database of the service, or the file of an SQLite one. Workers on several hosts need a "
    "PostgreSQL. [environment: PERFMODEL_DATABASE]",
)
#: Where a thing is kept: ``service`` with its ``key``, or ``database``; and ``--json``.
service_or_database = with_options(
    click.option(
        "--service", envvar="PERFMODEL_URL", metavar="URL",
        help="Service that is asked; without one, the database is. [environment: PERFMODEL_URL]",
    ),
    click.option(
        "--key", envvar="PERFMODEL_KEY", help="Key of the service. [environment: PERFMODEL_KEY]"
    ),
    database_option, output_options,
)  # fmt: skip


def url_of(database: str) -> str:
    """Return the URL of a database that may be given as a file."""
    return database if "://" in database else f"sqlite:///{database}"


@contextmanager
def opened(database: str, *, reads: bool = False) -> Iterator[Connections]:
    """Open a database and bring it to the newest schema.

    Parameters
    ----------
    reads : bool
        The command looks at what a service keeps: an SQLite file that is not there is not made.

    Raises
    ------
    InvalidInputError
        There is no such file.
    MissingExtraError
        The libraries of the service are absent.
    StoreError
        The database cannot be used.
    """
    try:
        from perfmodel.store.sql.connections import Connections
        from perfmodel.store.sql.migrate import migrate
    except ModuleNotFoundError as error:
        raise MissingExtraError("The database", extra="serve") from error
    connections = Connections(url_of(database))
    try:
        if reads:
            _check_there(url_of(database))
        migrate(connections)
        yield connections
    finally:
        connections.close()


def _check_there(url: str) -> None:
    from sqlalchemy.engine import make_url

    file = make_url(url).database
    if url.startswith("sqlite:") and file and not Path(file).exists():
        raise InvalidInputError(
            f"There is no database {file!r}. Name that of the service with --database or "
            "PERFMODEL_DATABASE; `perfmodel serve` makes it."
        )
