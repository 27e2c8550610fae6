"""``perfmodel backup``: one file of all that a service keeps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.options import FILE, output_options, with_options
from perfmodel.cli.output import print_facts, print_json
from perfmodel.errors import MissingExtraError

#: Settings that may hold secrets.
_SECRET = ("PERFMODEL_KEY", "PERFMODEL_MODELS_OPTIONS")

#: Where a service keeps what it remembers: ``database``, ``keys`` and ``audit``.
place_options = with_options(
    click.option(
        "--database",
        envvar="PERFMODEL_DATABASE",
        default="sqlite:///perfmodel.db",
        show_default=True,
        metavar="URL",
        help="Database of the service. [environment: PERFMODEL_DATABASE]",
    ),
    click.option(
        "--keys",
        type=FILE,
        envvar="PERFMODEL_KEYS",
        help="File of its keys. [default: keys.json beside the database]",
    ),
    click.option(
        "--audit",
        type=FILE,
        envvar="PERFMODEL_AUDIT",
        help="Its audit log. [default: audit.jsonl beside the keys]",
    ),
)


@click.command()
@click.argument("archive", type=FILE)
@place_options
@output_options
def command(
    archive: Path, database: str, keys: Path | None, audit: Path | None, as_json: bool
) -> None:
    """Write one file of all that a service keeps: graphs, jobs, observations, prices, keys.

    The service may run, answer and write meanwhile. PostgreSQL is backed up by pg_dump.
    """
    try:
        from perfmodel.store.backups.archive import StatePlaces, back_up
    except ModuleNotFoundError as error:
        raise MissingExtraError("A backup", extra="serve") from error
    manifest = back_up(StatePlaces.of(database, keys, audit), archive, _settings())
    print_manifest(manifest, str(archive), as_json=as_json)


def _settings() -> dict[str, str]:
    """Return the settings of this environment that are no secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PERFMODEL_")
        and name not in _SECRET
        and f"{name}_FILE" not in os.environ
        and "@" not in value
    }


def print_manifest(manifest: Mapping[str, Any], archive: str, *, as_json: bool) -> None:
    """Print what an archive holds."""
    if as_json:
        print_json({"archive": archive, **manifest})
        return
    rows = ", ".join(f"{count} {name}" for name, count in manifest["rows"].items() if count)
    facts = [
        ("archive", archive),
        ("taken", manifest["created_at"]),
        ("schema", str(manifest["schema"])),
        ("rows", rows or "none"),
        ("files", ", ".join(manifest["sha256"])),
        *(("put aside", path) for path in manifest.get("aside", ())),
    ]
    print_facts(facts)
