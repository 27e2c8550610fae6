"""``perfmodel import``: read public measurements as records of our own kinds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.failures import EXIT_FAILED
from perfmodel.cli.options import FILE, FOLDER, job_options, output_options
from perfmodel.cli.output import print_json, print_table, printable
from perfmodel.cli.subjects import job_of
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.importers.published import Imported
    from perfmodel.importers.registry import ImportFormat

#: Of the number of a device at most.
_DIGITS = 9
#: That are printed, the most frequent first.
_REASONS = 25


def read_told_traces(paths: Sequence[Path], told: Mapping[str, Any]) -> Imported:
    """Read traces with what the options say of their job.

    Raises
    ------
    InvalidInputError
        A setting of a job, or a placement, without the model.
    """
    from perfmodel.importers.trace_files import TracedJob, files_in, import_traces
    from perfmodel.placement.topology.parse import parse_placement

    settings = dict(told)
    model = settings.pop("model")
    placement, accelerators = settings.pop("placement"), settings.pop("accelerators")
    if model is None and (placement or any(v not in (None, ()) for v in settings.values())):
        raise InvalidInputError("Say which job ran: --model timm/resnet50, with its settings.")
    return import_traces(
        files_in(paths),
        TracedJob(
            job=None if model is None else job_of({"model": model}, settings),
            placement=None if placement is None else parse_placement(placement),
            **_told_devices(accelerators),
        ),
    )


def _told_devices(stated: Sequence[str]) -> dict[str, Any]:
    """Return what ``--accelerator`` says: of all devices NAME, or NUMBER=NAME of each."""
    from perfmodel.devices.catalog import Catalog

    catalog = Catalog.default()
    if len(stated) == 1 and "=" not in stated[0]:
        return {"accelerator": catalog.get(stated[0])}
    found = {}
    for one in stated:
        number, _, name = one.partition("=")
        if not name or not number.isdecimal() or len(number) > _DIGITS or int(number) in found:
            raise InvalidInputError(
                "--accelerator takes one NAME for all devices of the traces, or NUMBER=NAME once a "
                f"device (0=H100-SXM5-80GB); got {', '.join(map(repr, stated))}."
            )
        found[int(number)] = catalog.get(name)
    return {"accelerators": found}


class ImportCommand(click.Command):
    """The command; its help ends with the formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the formats without importing a reader."""
        from perfmodel.importers.registry import FORMATS

        with formatter.section("Formats"):
            formatter.write_dl([(one.name, one.description) for one in FORMATS.values()])


@click.command("import", cls=ImportCommand)
@click.argument("format_name", metavar="FORMAT")
@click.argument(
    "paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path, exists=True)
)
@click.option(
    "--out", type=FOLDER, help="Folder to write the records to: one Parquet table per kind."
)
@click.option("--replace", is_flag=True, help="Replace records that the folder holds.")
@click.option(
    "--rejected",
    type=FILE,
    help="CSV file to write the rows to that were not understood, with the reasons.",
)
@click.option("--model", help="Of traces: what ran, so that its steps become records.")
@click.option("--on", "placement", metavar="PLACEMENT", help="Of traces: where several ranks ran.")
@click.option(
    "--accelerator",
    "accelerators",
    metavar="[NUMBER=]NAME",
    multiple=True,
    help="Of traces: what their device is, or, once a device, what the one of that number is.",
)
@job_options
@output_options
def command(
    format_name: str,
    paths: tuple[Path, ...],
    out: Path | None,
    replace: bool,
    rejected: Path | None,
    as_json: bool,
    **told: Any,
) -> int:
    """Read public measurements, or traces, as records: steps, kernels, collectives, placements.

    PATH is a table or the folder that holds it; without it the environment variable
    PERFMODEL_DATA names a folder of many formats. Of the format `trace` several files may be
    named; their operators become records, and their steps where the options of a job say which
    job ran:

        perfmodel import trace rank0.json.gz --model timm/resnet50 --batch-size 64 --mode training
    """
    from perfmodel.importers.record_tables import tables_in, write_records, write_rejected
    from perfmodel.importers.registry import import_format

    held = tables_in(out) if out and not replace else []
    if held:
        raise InvalidInputError(
            f"{out} holds records already: {', '.join(file.name for file in held)}. Name another "
            "folder for these, or say --replace."
        )
    chosen = import_format(format_name)
    if chosen.name == "trace" and paths:
        imported = read_told_traces(paths, told)
        where = paths[0] if len(paths) == 1 else Path(f"{len(paths)} files")
    else:
        where = _only_path(paths, chosen, told)
        imported = chosen.read(where)
    summary = _summary(chosen, where, imported)
    holds_any = any(summary["records"].values())
    written = write_records(out, imported) if out and holds_any else {}
    if rejected:
        write_rejected(rejected, imported.rejected)
    summary["notes"] = list(imported.notes)
    summary["written"] = {kind: str(file) for kind, file in written.items()}
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    return 0 if holds_any else EXIT_FAILED


def _only_path(paths: tuple[Path, ...], chosen: ImportFormat, told: Mapping[str, Any]) -> Path:
    given = [name for name, value in told.items() if value not in (None, ())]
    if len(paths) > 1 or given:
        raise InvalidInputError(
            f"The format {chosen.name} is read from one table or folder, and says itself what ran; "
            f"got {len(paths)} paths and the options {', '.join(given) or 'none'}."
        )
    return paths[0] if paths else _usual_path(chosen)


def _usual_path(chosen: ImportFormat) -> Path:
    data = os.environ.get("PERFMODEL_DATA")
    if not data:
        raise InvalidInputError(
            f"No path is given; name the table of {chosen.name} or its folder, or set "
            "PERFMODEL_DATA to a folder of published measurements."
        )
    return chosen.usual_path(Path(data))


def _summary(chosen: ImportFormat, where: Path, imported: Imported) -> dict[str, Any]:
    from perfmodel.importers.record_tables import KINDS, accelerator_of, records_of

    by_kind = {kind: records_of(imported, kind) for kind in KINDS}
    return {
        "format": chosen.name,
        "path": str(where),
        "records": {kind: len(records) for kind, records in by_kind.items()},
        "devices": {
            kind: dict(Counter(map(accelerator_of, records)).most_common())
            for kind, records in by_kind.items()
            if records
        },
        "rejected": dict(Counter(row.reason for row in imported.rejected).most_common()),
    }


def _print(summary: dict[str, Any]) -> None:
    counts = ", ".join(f"{number} {kind}" for kind, number in summary["records"].items() if number)
    click.echo(f"{summary['format']} in {summary['path']}: {counts or 'no records'}.")
    devices = summary["devices"]
    names = dict.fromkeys(name for counted in devices.values() for name in counted)
    rows = [[name, *(str(devices[kind].get(name, "-")) for kind in devices)] for name in names]
    if rows:
        print_table(["accelerator", *devices], rows, right="lrrrr")
    if summary["rejected"]:
        click.echo(f"Left out: {sum(summary['rejected'].values())} rows.")
        reasons = [[str(number), why] for why, number in summary["rejected"].items()]
        print_table(["rows", "reason"], reasons[:_REASONS], right="rl")
        if len(reasons) > _REASONS:
            further = len(reasons) - _REASONS
            click.echo(f"{further} further reasons; --rejected FILE and --json list all.")
    for note in summary["notes"]:
        click.echo(f"Note: {printable(note)}")
    for kind, file in summary["written"].items():
        click.echo(f"Wrote {kind} to {file}.")
