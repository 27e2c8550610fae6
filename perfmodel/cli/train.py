"""``perfmodel train``: learn predictors from profiles."""

from __future__ import annotations

from pathlib import Path

import click

from perfmodel.cli.options import models_option, output_options


@click.command()
@click.option(
    "--profiles", type=click.Path(path_type=Path, file_okay=False), default=Path("profiles"),
    show_default=True, help="Folder of the records to learn from.",
)  # fmt: skip
@click.option("--name", default="default", show_default=True, help="Name of the trained model.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same model.")
@models_option
@output_options
def command(profiles: Path, name: str, seed: int, models: Path, as_json: bool) -> None:
    """Learn predictors from profiles and write them below the folder of models."""
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.samples import load_samples
    from perfmodel.training.train import train

    found = load_samples(ProfileStore(profiles))
    folder = train(found.samples, models, name=name, seed=seed, progress=_tell)
    if as_json:
        from perfmodel.cli.output import print_json

        print_json({"folder": str(folder), "samples": len(found.samples)})
    else:
        click.echo(f"Learned from {len(found.samples)} samples. The model is in {folder}.")


def _tell(line: str) -> None:
    click.echo(line, err=True)
