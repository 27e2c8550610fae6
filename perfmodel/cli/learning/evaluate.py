"""``perfmodel evaluate``: how well predictors answer for families they never saw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import FILE, members_option, output_options, profiles_option
from perfmodel.cli.output import percent, print_json, print_table, tell

if TYPE_CHECKING:
    from perfmodel.training.validation.evaluate import Evaluation


@click.command()
@profiles_option("to evaluate on")
@click.option(
    "--split",
    "splits",
    multiple=True,
    default=("leave-family-out",),
    show_default=True,
    metavar="[leave-family-out|random]",
    help="What is held out. Repeatable; the first is quoted first.",
)
@members_option
@click.option("--device", help="Only records of this accelerator.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same scores.")
@click.option("--report", type=FILE, help="Write the full report here as Markdown.")
@output_options
def command(
    profiles: Path,
    splits: tuple[str, ...],
    members: tuple[str, ...],
    device: str | None,
    seed: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Measure how well predictors answer for families they never saw, beside the baselines.

    Every sample is answered by predictors that have not learned from its family. Takes minutes;
    progress goes to standard error.
    """
    from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
    from perfmodel.store.profiles.profile_store import ProfileStore
    from perfmodel.training.samples.samples import load_samples
    from perfmodel.training.validation.evaluate import evaluate
    from perfmodel.training.validation.evaluation_report import write_report

    samples = load_samples(ProfileStore(profiles), device=device).samples
    chosen = members or DEFAULT_MEMBERS
    found = [
        evaluate(samples, split=split, members=chosen, seed=seed, progress=tell) for split in splits
    ]
    if report is not None:
        write_report(found[0], report, command=_spelt_out(splits, report), others=found[1:])
    if as_json:
        summaries = [result.summary() for result in found]
        print_json(summaries[0] if len(summaries) == 1 else summaries)
        return
    for result in found:
        _print(result)
    if report is not None:
        print(f"The report is in {report}.")


def _spelt_out(splits: tuple[str, ...], report: Path) -> str:
    """Return the command line that writes a report; stated in it."""
    chosen = "".join(f" --split {split}" for split in splits) if len(splits) > 1 else ""
    return f"perfmodel evaluate{chosen} --report {report}"


def _print(found: Evaluation) -> None:
    title = (
        f"{found.split}: {len(found.samples)} samples of {len(found.families)} families, "
        f"intervals of {percent(found.coverage)}"
    )
    rows = []
    for name in found.predictors:
        scores = found.scores(name)
        by_mode = [percent(found.scores(name, mode=mode).mape) for mode in found.modes]
        rows.append(
            [name, percent(scores.mape), *by_mode, percent(scores.median_ape)]
            + [percent(scores.p90_ape), percent(scores.bias)]
            + ["-" if scores.rank is None else f"{scores.rank:.3f}", percent(scores.coverage)]
        )
    columns = ["predictor", "MAPE", *(f"MAPE {mode}" for mode in found.modes), "median", "90 %"]
    columns += ["bias", "rank corr.", "covered"]
    print_table(columns, rows, title=title, right="l" + "r" * 10)
