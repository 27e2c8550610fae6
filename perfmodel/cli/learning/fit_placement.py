"""``perfmodel fit-placement``: fit the constants of the placement floor again."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from perfmodel.cli.options import FOLDER, output_options, profiles_option
from perfmodel.cli.output import print_facts, print_json, tell

#: Parts by name; later ones read what earlier ones wrote.
PARTS = (
    "collectives",
    "data_parallel",
    "plans",
    "memory",
    "colocation",
    "feeding",
    "job_types",
    "calibration",
    "scripts",
    "engines",
)

#: Rooms of training that hold the fit of a part, where it is not that of placements.
_ROOMS = {"engines": "engine_fits"}

#: Those that own measurements of several processes teach too.
SEVERAL_PROCESSES = ("collectives", "data_parallel", "colocation", "feeding")


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="PERFMODEL_DATA",
    required=True,
    help="Folder of public measurements. [env: PERFMODEL_DATA]",
)
@profiles_option("of several processes, which count as public ones do, and of jobs without memory")
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
def command(
    data: Path, profiles: Path, parts: tuple[str, ...], out: Path | None, as_json: bool
) -> None:
    """Fit links, plans, memory, sharing, calibration, scripts and engines on public measurements.

    Takes some minutes for each part. Parts rest on each other: after new collectives,
    data_parallel, plans, calibration and scripts have to be fitted again; the last two after
    another trained model as well, whose errors they describe.
    """
    from perfmodel.training.placement_fits.fitted_file import write_fitted

    found = {}
    own = _held(profiles)
    # Jobs that ran out of memory stand beside the steps that were profiled.
    told = {**dict.fromkeys(SEVERAL_PROCESSES, own), "memory": profiles}
    for part in PARTS:
        if part not in (parts or _usual_parts(own)):
            continue
        tell(f"fitting {part}")
        room = _ROOMS.get(part, "placement_fits")
        fit = importlib.import_module(f"perfmodel.training.{room}.fit_{part}").fit
        document = fit(data, told[part]) if part in told else fit(data)
        found[part] = {"file": str(write_fitted(part, document, out)), "rows": document["rows"]}
    if as_json:
        print_json(found)
    else:
        print_facts([(p, f"{f['rows']} rows, {f['file']}") for p, f in found.items()])


def _held(profiles: Path) -> Path | None:
    """Return the folder of own measurements, or None where it holds none."""
    from perfmodel.store.profiles.process_store import ProcessStore

    if ProcessStore(profiles).records():
        return profiles
    tell(f"{profiles} holds no own measurements of several processes; public ones are taken alone")
    return None


def _usual_parts(profiles: Path | None) -> tuple[str, ...]:
    """Return all parts that there are measurements for."""
    from perfmodel.importers.own_profiles import read_own_profiles
    from perfmodel.training.placement_fits.fit_feeding import usable

    if profiles is not None and usable(read_own_profiles(profiles).loaders):
        return PARTS
    return tuple(part for part in PARTS if part != "feeding")
