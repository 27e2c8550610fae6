"""``perfmodel train-kernels``: learn the times of single kernels from public tables."""

from __future__ import annotations

from pathlib import Path

import click

from perfmodel.cli.models.publishing import publish
from perfmodel.cli.options import models_store_option, output_options
from perfmodel.cli.output import print_json, tell


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="PERFMODEL_DATA",
    required=True,
    help="Folder of public measurements. [env: PERFMODEL_DATA]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same model.")
@models_store_option
@output_options
def command(data: Path, seed: int, models: str, as_json: bool) -> None:
    """Learn the times of single kernels and write a version of the model `kernels`.

    Takes minutes; progress goes to standard error.
    """
    from perfmodel.training.kernels.train_kernels import train_kernels
    from perfmodel.training.samples.public_data import KERNEL_FORMATS, read_formats

    found = read_formats(data, KERNEL_FORMATS)
    for name, imported in found.items():
        tell(f"{name}: {len(imported.kernels)} kernels, {len(imported.rejected)} rows left out.")
    kernels = [kernel for imported in found.values() for kernel in imported.kernels]
    made = publish(
        models,
        lambda out: train_kernels(kernels, out, seed=seed, progress=tell),
        why="trained on kernels",
    )
    if as_json:
        print_json({"folder": made.place, "serves": made.serves, "kernels": len(kernels)})
    else:
        click.echo(f"Learned from {len(kernels)} kernels. {made.sentences}")
