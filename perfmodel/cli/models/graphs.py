"""``perfmodel graphs``: the captured graphs that come with the package, and those of a service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.failures import EXIT_SOME_FAILED
from perfmodel.cli.options import output_options
from perfmodel.cli.output import print_json, print_table, tell
from perfmodel.errors import UnknownModelError

if TYPE_CHECKING:
    from perfmodel.graph.job import Job
    from perfmodel.zoo.shipped.library_folder import LibraryFolder

_folder_option = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where they lie, if not in the package.",
)


@click.group(invoke_without_command=True)
@output_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the models whose graphs come with the package, and answer without PyTorch."""
    if ctx.invoked_subcommand is not None:
        return
    from perfmodel.zoo.shipped.graph_files import GraphFolder

    index = GraphFolder(_folder(None)).index
    names = sorted(row["name"] for row in index["models"].values())
    if as_json:
        print_json({"libraries": index["libraries"], "models": names})
    else:
        print_table(("model",), [(name,) for name in names])


@command.command()
@output_options
@_folder_option
@click.argument("names", nargs=-1)
def build(folder: Path | None, names: Sequence[str], as_json: bool) -> None:
    """Capture what is missing, or was captured by other code; goes on where it was stopped.

    NAMES narrows it to some models.
    """
    with _library(folder) as library:
        for built in library.build(_models(names)):
            absent = f", not {'; '.join(built.missing)}" if built.missing else ""
            tell(f"{built.label}: {built.programs} programs, {built.size_bytes} bytes{absent}")
    there, wanted, size = _totals(_folder(folder))
    if as_json:
        print_json({"models": there, "wanted": wanted, "size_bytes": size})
    else:
        tell(f"{there} of {wanted} models, {size / 2**20:.2f} MiB in {_folder(folder)}.")


@command.command()
@output_options
@_folder_option
@click.option(
    "--batch-sizes", default="7", show_default=True, callback=lambda ctx, param, text: _sizes(text),
    help="With commas between them.",
)  # fmt: skip
@click.argument("names", nargs=-1)
def check(
    folder: Path | None, batch_sizes: Sequence[int], names: Sequence[str], as_json: bool
) -> None:
    """Capture again, and name every graph that is not byte for byte what was shipped."""
    models, found = _models(names), list[str]()
    with _library(folder) as library:
        for model in models:
            for line in library.check(model, batch_sizes):
                found.append(line)
                tell(line)
    if as_json:
        print_json({"models": len(models), "differ": found})
    else:
        tell(f"{len(models)} models compared, {len(found)} programs differ.")
    if found:
        click.get_current_context().exit(EXIT_SOME_FAILED)


@command.command()
@output_options
@click.option(
    "--service", envvar="PERFMODEL_URL", metavar="URL", required=True,
    help="Service that knows it. [environment: PERFMODEL_URL]",
)  # fmt: skip
@click.option("--key", envvar="PERFMODEL_KEY", help="Key of the service. [PERFMODEL_KEY]")
@click.option("--mode", help="What the step does.")
@click.option("--batch-size", type=int, help="Samples of the step.")
@click.option("--tokens-per-sample", type=int, help="0: a sample is no sequence.")
@click.argument("graph")
def correct(service: str, key: str | None, graph: str, as_json: bool, **facts: Any) -> None:
    """Correct what was said when a graph was registered with a service.

    GRAPH is its hash. What is left out stays, and so does the graph itself.
    """
    from perfmodel.client import Client

    with Client(service, api_key=key) as client:
        found = client.correct_graph(graph, **facts)
    if as_json:
        print_json(asdict(found))
    else:
        tell(f"{found.graph}: {found.mode}, {found.batch_size} samples a step.")


def _sizes(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) for size in sizes):
        raise click.BadParameter(f"batch sizes are whole numbers from 1 on; got {text!r}.")
    return [int(size) for size in sizes]


def _folder(folder: Path | None) -> Path:
    from perfmodel.zoo.shipped.shipped_graphs import FOLDER

    return folder or FOLDER


def _models(names: Sequence[str]) -> list[Job]:
    from perfmodel.zoo.shipped.wanted import wanted_models

    wanted = wanted_models()
    if not names:
        return wanted
    labels = sorted({model.label for model in wanted})
    for name in names:
        if name not in labels:
            raise UnknownModelError(name, known=labels, hint="`perfmodel graphs` lists them.")
    return [model for name in names for model in wanted if model.label == name]


def _totals(folder: Path) -> tuple[int, int, int]:
    """Return the models that are there, those that are wanted, and the bytes of all."""
    from perfmodel.zoo.shipped.graph_files import GraphFolder
    from perfmodel.zoo.shipped.wanted import wanted_models

    there, wanted = GraphFolder(folder).index["models"], wanted_models()
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return len(there), len(wanted), size


@contextmanager
def _library(folder: Path | None) -> Iterator[LibraryFolder]:
    """Give the library of a folder, with captures as quick as they can be made."""
    import gc

    from perfmodel.zoo.libraries import import_timm, import_transformers
    from perfmodel.zoo.meta_device import fills_left_out
    from perfmodel.zoo.shipped.library_folder import LibraryFolder, capturing_here

    import_timm()
    import_transformers()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    with fills_left_out():
        yield LibraryFolder(_folder(folder), capturing_here)
