"""``perfmodel models``: the trained models of a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.failures import EXIT_FAILED
from perfmodel.cli.options import models_option, output_options
from perfmodel.cli.output import percent, print_json, print_table


@click.command()
@models_option
@output_options
def command(models: Path, as_json: bool) -> None:
    """List the trained models, verify their files, and say which one answers.

    Exits with 4 if a file is damaged.
    """
    from perfmodel.estimator.single.loading import load_model

    found = load_model(models)
    if as_json:
        print_json(
            {
                "folder": str(models),
                "models": [dict(facts) for facts in found.models],
                "problems": list(found.problems),
            }
        )
    else:
        _print(found.models, models)
        for text in found.problems:
            click.echo(f"Problem: {text}", err=True)
    if found.problems:
        click.get_current_context().exit(EXIT_FAILED)


def _print(models: tuple[Mapping[str, Any], ...], folder: Path) -> None:
    if not models:
        print(
            f"No trained model is in {folder}; answers are analytical. `perfmodel train` makes one."
        )
        return
    rows = [
        [
            facts["model"],
            "damaged" if facts["damaged"] else "answers" if facts["serving"] else "sound",
            str(facts.get("created_at", "-")),
            ", ".join(facts.get("devices", ())) or "-",
            _held_out_error(facts),
        ]
        for facts in models
    ]
    print_table(["model", "state", "trained", "devices", "held-out error"], rows)


def _held_out_error(facts: Mapping[str, Any]) -> str:
    """Return the error of the ensemble on families that it had not seen, as training noted it."""
    scores = facts.get("scores", {})
    ensemble = scores.get("predictors", {}).get("ensemble", {})
    return f"{percent(ensemble['mape'])} ({scores['split']})" if "mape" in ensemble else "-"
