"""``perfmodel evaluate``: how well predictors answer for families they never saw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import output_options

if TYPE_CHECKING:
    from perfmodel.training.evaluate import Evaluation


@click.command()
@click.option(
    "--profiles", type=click.Path(path_type=Path, file_okay=False), default=Path("profiles"),
    show_default=True, help="Folder of the records to evaluate on.",
)  # fmt: skip
@click.option("--split", default="leave-family-out", show_default=True, help="What is held out.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same scores.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the full report here as Markdown.",
)
@output_options
def command(profiles: Path, split: str, seed: int, report: Path | None, as_json: bool) -> None:
    """Measure how well predictors answer for families they never saw, beside the baselines."""
    from perfmodel.store.profiles import ProfileStore
    from perfmodel.training.evaluate import evaluate
    from perfmodel.training.report import write_report
    from perfmodel.training.samples import load_samples

    found = load_samples(ProfileStore(profiles))
    result = evaluate(found.samples, split=split, seed=seed, progress=_tell)
    if report is not None:
        write_report(result, report, command=f"perfmodel evaluate --report {report}")
    if as_json:
        from perfmodel.cli.output import print_json

        print_json(result.summary())
    else:
        _print(result, report)


def _print(result: Evaluation, report: Path | None) -> None:
    raise NotImplementedError


def _tell(line: str) -> None:
    click.echo(line, err=True)
