"""``perfmodel restore``: put back what ``perfmodel backup`` wrote."""

from __future__ import annotations

from pathlib import Path

import click

from perfmodel.cli.options import FILE, output_options
from perfmodel.cli.running.backup import place_options, print_manifest
from perfmodel.errors import MissingExtraError


@click.command()
@click.argument("archive", type=FILE)
@place_options
@click.option("--replace", is_flag=True, help="Put files that are there aside.")
@output_options
def command(
    archive: Path,
    database: str,
    keys: Path | None,
    audit: Path | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Put back what `perfmodel backup` wrote; no service may run on these files.

    The archive is checked before the first file is touched. Its settings.json says with which
    settings the service ran; they are not applied.
    """
    try:
        from perfmodel.store.backups.archive import StatePlaces, restore
    except ModuleNotFoundError as error:
        raise MissingExtraError("A restore", extra="serve") from error
    manifest = restore(archive, StatePlaces.of(database, keys, audit), replace=replace)
    print_manifest(manifest, str(archive), as_json=as_json)
