"""``perfmodel probe-plan``: which few measurements on a device would be worth most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import output_options

if TYPE_CHECKING:
    from perfmodel.graph.job import Job
    from perfmodel.training.probe_candidates import ProbePlan


@click.command()
@click.argument("device")
@click.option("-k", "count", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["inference", "training"]),
    help="Only workloads of this mode. Repeatable.",
)
@click.option(
    "--jobs",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="JSON file with a list of jobs to choose from, instead of a set of known models.",
)
@output_options
def command(
    device: str, count: int, modes: tuple[str, ...], jobs: Path | None, as_json: bool
) -> None:
    """Name the K workloads whose measurement on DEVICE would shrink the error most.

    The first call captures the candidates, which takes a minute; their sketches are kept.
    """
    from perfmodel.devices.catalog import Catalog
    from perfmodel.training.probe_candidates import plan_probes
    from perfmodel.types import Mode

    plan = plan_probes(
        Catalog.default().get(device),
        count,
        jobs=_read_jobs(jobs) if jobs else None,
        modes=tuple(Mode(mode) for mode in modes) or tuple(Mode)[::-1],
        progress=lambda line: click.echo(line, err=True),
    )
    if as_json:
        _print_json(plan)
    else:
        _print_table(plan)


def _read_jobs(path: Path) -> list[Job]:
    from perfmodel.cli.subjects import read_json
    from perfmodel.errors import InvalidInputError
    from perfmodel.requests import parse_job

    listed = read_json(path)
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(f"{path} must hold a JSON list of at least one job.")
    return [parse_job(job, pointer=f"/{number}") for number, job in enumerate(listed)]


def _print_json(plan: ProbePlan) -> None:
    from perfmodel.cli.output import print_json
    from perfmodel.requests import job_to_dict

    print_json(
        {
            "accelerator": plan.accelerator,
            "candidates": plan.candidates,
            "expected_error_before": plan.error_before,
            "probes": [
                {
                    "job": job_to_dict(probe.job),
                    "placement": f"1x{plan.accelerator}",
                    "expected_error_after": probe.expected_error,
                }
                for probe in plan.probes
            ],
        }
    )


def _print_table(plan: ProbePlan) -> None:
    from perfmodel.cli.numbers import percent
    from perfmodel.cli.output import print_table
    from perfmodel.cli.subjects import describe_job

    rows = [
        [str(number), describe_job(probe.job), percent(probe.expected_error)]
        for number, probe in enumerate(plan.probes, start=1)
    ]
    title = (
        f"Measure these on {plan.accelerator}; the expected error is "
        f"{percent(plan.error_before)} before, over {plan.candidates} workloads"
    )
    print_table(["", "workload", "expected error after"], rows, title=title, right="rlr")
