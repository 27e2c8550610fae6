"""``perfmodel fit-placement``: fit the constants of the placement floor again."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from perfmodel.cli.options import FOLDER, output_options
from perfmodel.cli.output import print_facts, print_json, tell

#: Parts by name; later ones read what earlier ones wrote.
PARTS = (
    "collectives",
    "data_parallel",
    "plans",
    "memory",
    "colocation",
    "job_types",
    "calibration",
    "scripts",
)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="PERFMODEL_DATA",
    required=True,
    help="Folder of public measurements. [env: PERFMODEL_DATA]",
)
@click.option(
    "--part",
    "parts",
    type=click.Choice(PARTS),
    multiple=True,
    help="Fit only this one; may be repeated. Default: all, in the order they build on another.",
)
@click.option(
    "--out", type=FOLDER, help="Folder to write to. Default: the constants of this installation."
)
@output_options
def command(data: Path, parts: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Fit links, plans, memory, sharing, calibration and scripts on published measurements.

    Takes some minutes for each part. Parts rest on each other: after new collectives,
    data_parallel, plans, calibration and scripts have to be fitted again.
    """
    from perfmodel.training.placement_fits.fitted_file import write_fitted

    found = {}
    for part in PARTS:
        if parts and part not in parts:
            continue
        tell(f"fitting {part}")
        fit = importlib.import_module(f"perfmodel.training.placement_fits.fit_{part}").fit
        document = fit(data)
        found[part] = {"file": str(write_fitted(part, document, out)), "rows": document["rows"]}
    if as_json:
        print_json(found)
    else:
        print_facts([(p, f"{f['rows']} rows, {f['file']}") for p, f in found.items()])
