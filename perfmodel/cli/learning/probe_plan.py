"""``perfmodel probe-plan``: which few measurements on a device would be worth most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import models_option, output_options
from perfmodel.cli.output import duration, percent, print_json, print_table, tell
from perfmodel.cli.subjects import describe_job, read_json
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec
    from perfmodel.graph.job import Job
    from perfmodel.predictors.serving.serving import ServingModel
    from perfmodel.training.probes.probe_candidates import ProbePlan


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
@models_option
@output_options
def command(
    device: str, count: int, modes: tuple[str, ...], jobs: Path | None, models: Path, as_json: bool
) -> None:
    """Name the K workloads whose measurement on DEVICE would shrink the error most.

    What the trained model does not know of the device decides, where one is installed. The first
    call captures the candidates, which takes a minute; their sketches are kept.
    """
    from perfmodel.devices.catalog import Catalog
    from perfmodel.training.probes.probe_candidates import plan_probes
    from perfmodel.types import Mode

    spec = Catalog.default().get(device)
    model = model_for(models, spec)
    plan = plan_probes(
        spec,
        count,
        chooser=model.joint if model else None,
        jobs=listed_jobs(jobs) if jobs else None,
        modes=tuple(Mode(mode) for mode in modes) or tuple(Mode)[::-1],
        progress=tell,
    )
    version = model.version if model else None
    if as_json:
        _print_json(plan, version)
    else:
        _print_table(plan, version)


def model_for(models: Path, spec: AcceleratorSpec) -> ServingModel | None:
    """Return the installed model if its joint predictor answers for a device."""
    from perfmodel.estimator.single.loading import load_model
    from perfmodel.predictors.serving.serving import ServingModel

    model = load_model(models).model
    if isinstance(model, ServingModel) and model.answers_jointly(spec):
        return model
    return None


def listed_jobs(path: Path) -> list[Job]:
    """Read the list of jobs that are chosen from."""
    from perfmodel.requests import parse_job

    listed = read_json(path)
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(f"{path} must hold a JSON list of at least one job.")
    return [parse_job(job, pointer=f"/{number}") for number, job in enumerate(listed)]


def _print_json(plan: ProbePlan, version: str | None) -> None:
    from perfmodel.requests import job_to_dict

    print_json(
        {
            "accelerator": plan.accelerator,
            "model_version": version,
            "candidates": plan.candidates,
            "expected_error_before": plan.error_before,
            "probes": [
                {
                    "job": job_to_dict(probe.job),
                    "placement": f"1x{plan.accelerator}",
                    "expected_error_after": probe.expected_error,
                    "measuring_s": probe.measuring_s,
                }
                for probe in plan.probes
            ],
        }
    )


def _print_table(plan: ProbePlan, version: str | None) -> None:
    rows = [
        [
            str(number),
            describe_job(probe.job),
            duration(probe.measuring_s),
            percent(probe.expected_error),
        ]  # fmt: skip
        for number, probe in enumerate(plan.probes, start=1)
    ]
    title = (
        f"Measure these on {plan.accelerator}; the expected error is "
        f"{percent(plan.error_before)} before, over {plan.candidates} workloads, "
        f"{f'by {version}' if version else 'assumed without a trained model'}"
    )
    columns = ["", "workload", "takes about", "expected error after"]
    print_table(columns, rows, title=title, right="rlrr")
