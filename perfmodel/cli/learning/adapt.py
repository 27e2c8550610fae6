"""``perfmodel adapt``: a trained model takes a few profiles of a device into account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.models.publishing import Published, open_registry, publish
from perfmodel.cli.options import (
    models_store_option,
    output_options,
    profiles_option,
    store_options,
)
from perfmodel.cli.output import print_json
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.features.steps.step import StepSample


@click.command()
@profiles_option("to take into account")
@click.option("--device", help="Only records of this accelerator.")
@click.option("--name", default="default", show_default=True, help="Name of the trained model.")
@models_store_option
@output_options
def command(profiles: Path, device: str | None, name: str, models: str, as_json: bool) -> None:
    """Take a few profiles of a device into account, as a new version of a trained model.

    Nothing is trained: what the records say of the efficiency of the device corrects its
    predictions and their intervals, most of which become narrower and some wider. Answers for other
    devices stay as they are.
    """
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.adapt import usable_probes

    version = serving_version(models, name)
    probes = usable_probes(ProfileStore(profiles), device)
    made, taken, left_out = adapted(models, version, probes.samples)
    counts = Counter(sample.step.accelerator.name for sample in taken)
    dropped = {**probes.dropped, **left_out}
    if as_json:
        print_json(
            {
                "folder": made.place,
                "serves": made.serves,
                "parent": f"{version.parent.name}/{version.name}",
                "records": dict(sorted(counts.items())),
                "dropped": dropped,
            }
        )
        return
    for accelerator, number in sorted(counts.items()):
        click.echo(f"Took into account: {number} records of {accelerator}.")
    for reason, number in dropped.items():
        click.echo(f"Left out: {number} ({reason}).")
    click.echo(made.sentences)


def serving_version(models: str, name: str) -> Path:
    """Return the folder of the version that serves; of one elsewhere, that of its local copy.

    Raises
    ------
    UnknownPredictorError
        There is no model of that name.
    InvalidInputError
        No version of it serves.
    """
    from perfmodel.registry.mirror import local_models
    from perfmodel.store.artifacts import named_version

    registry = open_registry(models)
    here = local_models(models, store_options())
    return registry.versions.fetch(*named_version(registry.serving_reference(name)), here)


def adapted(
    models: str, version: Path, samples: Sequence[StepSample]
) -> tuple[Published, list[StepSample], dict[str, int]]:
    """Publish a version of a model with records of devices taken into account.

    Returns
    -------
    made : Published
    taken : list of StepSample
        The records that it has taken in.
    left_out : dict of str to int
        Why it has not taken others in, with their number.

    Raises
    ------
    InvalidInputError
        It can take none of them in.
    """
    from perfmodel.training.adapt import adapt_model, adaptable, reasons

    taken, left_out = adaptable(version, samples)
    if not taken:
        raise InvalidInputError(
            f"Of these records {version.name} can take none in: {reasons(left_out)}. `perfmodel "
            "train` learns from them."
        )
    made = publish(
        models, lambda out: adapt_model(version, taken, out), why=f"adapted {version.name}"
    )
    return made, taken, left_out
