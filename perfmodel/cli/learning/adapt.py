"""``perfmodel adapt``: a trained model takes a few profiles of a device into account."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from perfmodel.cli.models.publishing import open_registry, publish
from perfmodel.cli.options import (
    models_store_option,
    output_options,
    profiles_option,
    store_options,
)
from perfmodel.cli.output import print_json


@click.command()
@profiles_option("to take into account")
@click.option("--device", help="Only records of this accelerator.")
@click.option("--name", default="default", show_default=True, help="Name of the trained model.")
@models_store_option
@output_options
def command(profiles: Path, device: str | None, name: str, models: str, as_json: bool) -> None:
    """Take a few profiles of a device into account, as a new version of a trained model.

    Nothing is trained: what the records say of the efficiency of the device corrects its
    predictions and narrows their intervals. Answers for other devices stay as they are.
    """
    from perfmodel.registry.mirror import local_models
    from perfmodel.store.artifacts import latest
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.adapt import adapt_model, usable_probes

    here = local_models(models, store_options())
    promoted = open_registry(models).history(name).serving
    version = here / name / promoted if promoted else latest(here, name).folder
    probes = usable_probes(ProfileStore(profiles), device)
    made = publish(
        models, lambda out: adapt_model(version, probes.samples, out), why=f"adapted {version.name}"
    )
    counts = Counter(sample.step.accelerator.name for sample in probes.samples)
    if as_json:
        print_json(
            {
                "folder": made.place,
                "serves": made.serves,
                "parent": f"{version.parent.name}/{version.name}",
                "records": dict(sorted(counts.items())),
                "dropped": dict(probes.dropped),
            }
        )
        return
    for accelerator, number in sorted(counts.items()):
        click.echo(f"Took into account: {number} records of {accelerator}.")
    for reason, number in probes.dropped.items():
        click.echo(f"Left out: {number} ({reason}).")
    click.echo(made.sentences)
