"""``perfmodel curve``: a job over the number of accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.options import dims_option, job_options, models_option, output_options

if TYPE_CHECKING:
    from perfmodel.estimator.curve import Curve


@click.command()
@click.argument("subject", metavar="MODEL")
@click.option("--on", "accelerator", required=True, help="Accelerator, such as A100-SXM4-80GB.")
@click.option("--most", type=int, default=64, show_default=True, help="Largest count.")
@click.option("--per-host", type=int, default=8, show_default=True, help="Accelerators of a host.")
@click.option("--network", help="Between hosts, such as ib-200g. Default: what such hosts have.")
@click.option("--zero-stage", type=int, default=0, show_default=True, help="What replicas share.")
@job_options
@dims_option
@models_option
@output_options
def command(
    subject: str,
    accelerator: str,
    most: int,
    per_host: int,
    network: str | None,
    zero_stage: int,
    dims: tuple[str, ...],
    models: Path,
    as_json: bool,
    **settings: Any,
) -> None:
    """Predict the throughput of a job on 1, 2, 4, ... accelerators in data parallel.

    MODEL is as for `perfmodel capture`.
    """
    from perfmodel.cli.output import print_json
    from perfmodel.cli.questions import prepare_question
    from perfmodel.cli.subjects import read_subject
    from perfmodel.errors import InvalidInputError
    from perfmodel.estimator import Estimator
    from perfmodel.estimator.curve import CurveQuestion, doubling_counts
    from perfmodel.placement.topology.networks import named_network

    question = CurveQuestion(
        accelerator=accelerator,
        counts=tuple(doubling_counts(most)),
        per_host=per_host,
        network=None if network is None else named_network(network, pointer="/network"),
        zero_stage=zero_stage,
    )
    read = read_subject(subject, settings["model_kwargs"])
    if read.request is not None:
        raise InvalidInputError("curve takes a model, not a request; ask POST /v1/curve.")
    job, estimator = prepare_question(Estimator.from_folder(models), read, settings, dims)
    found = estimator.curve(job, question)
    if as_json:
        print_json(_plain(found))
    else:
        _print(found)


def _plain(curve: Curve) -> dict[str, Any]:
    names = ("counts", "samples_per_second", "low", "high", "step_time_s", "efficiency")
    columns = {name: getattr(curve, name).tolist() for name in names}
    return {
        "accelerator": curve.accelerator,
        **columns,
        "fits": curve.fits.tolist(),
        "basis": [basis.value for basis in curve.basis],
        "model_version": curve.model_version,
        "warnings": list(curve.warnings),
    }


def _print(curve: Curve) -> None:
    from perfmodel.cli.numbers import count, duration, percent

    head = ("count", "samples/s", "interval", "step", "of ideal")
    click.echo("{:>6}  {:>10}  {:>21}  {:>9}  {:>8}  fits".format(*head))
    for i, number in enumerate(curve.counts.tolist()):
        between = f"{count(curve.low[i])} to {count(curve.high[i])}"
        click.echo(
            f"{number:>6}  {count(curve.samples_per_second[i]):>10}  {between:>21}  "
            f"{duration(curve.step_time_s[i]):>9}  {percent(curve.efficiency[i]):>8}  "
            f"{'yes' if curve.fits[i] else 'NO'}"
        )
    for text in curve.warnings:
        click.echo(f"warning: {text}")
