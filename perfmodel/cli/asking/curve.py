"""``perfmodel curve``: a job over the number of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perfmodel.cli.asking.answering import answered
from perfmodel.cli.asking.prepare import read_model
from perfmodel.cli.options import answering_options, on_option, question_options
from perfmodel.cli.output import count, duration, percent, print_json

#: What is printed for whether a job fits.
_WORDS = {True: "yes", False: "NO", None: "?"}


@click.command()
@click.argument("subject", metavar="MODEL", required=False)
@on_option("accelerator", "Accelerator, such as A100-SXM4-80GB.", required=True)
@click.option("--most", type=int, default=64, show_default=True, help="Largest count.")
@click.option("--per-host", type=int, default=8, show_default=True, help="Accelerators of a host.")
@click.option("--network", help="Between hosts, such as ib-200g. Default: what such hosts have.")
@click.option("--zero-stage", type=int, default=0, show_default=True, help="What replicas share.")
@question_options
@answering_options
def command(
    subject: str | None,
    accelerator: str,
    most: int,
    per_host: int,
    network: str | None,
    zero_stage: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Predict the throughput of a job on 1, 2, 4, ... accelerators in data parallel.

    MODEL is as for `perfmodel capture`.
    """
    question = {
        "accelerator": accelerator,
        "most": most,
        "accelerators_per_host": per_host,
        "network": network,
        "zero_stage": zero_stage,
    }
    refusal = "curve takes a model, not a request; ask POST /v1/curve."
    job, graph = read_model(subject, settings, refusal=refusal)
    found = answered(settings, lambda who: who.curve(job, question), graph)
    if as_json:
        print_json(found)
    else:
        print_curve(found)


def print_curve(curve: Mapping[str, Any]) -> None:
    """Print a curve for people, as ``POST /v1/curve`` answers it."""
    head = ("count", "samples/s", "interval", "step", "sync", "of ideal")
    click.echo("{:>6}  {:>10}  {:>21}  {:>9}  {:>9}  {:>8}  fits".format(*head))
    for i, number in enumerate(curve["counts"]):
        between = f"{count(curve['low'][i])} to {count(curve['high'][i])}"
        click.echo(
            f"{number:>6}  {count(curve['samples_per_second'][i]):>10}  {between:>21}  "
            f"{duration(curve['step_time_s'][i]):>9}  {duration(curve['sync_time_s'][i]):>9}  "
            f"{percent(curve['efficiency'][i]):>8}  {_WORDS[curve['fits'][i]]}"
        )
    for text in curve["warnings"]:
        click.echo(f"warning: {text}")
