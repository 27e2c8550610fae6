"""``perfmodel curve``: a job over the number of accelerators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.prepare import prepare_model
from perfmodel.cli.options import question_options
from perfmodel.cli.output import count, duration, percent, print_json

if TYPE_CHECKING:
    from perfmodel.estimator.tables.curve import Curve

#: What is printed for whether a job fits.
_WORDS = {True: "yes", False: "NO", None: "?"}


@click.command()
@click.argument("subject", metavar="MODEL")
@click.option("--on", "accelerator", required=True, help="Accelerator, such as A100-SXM4-80GB.")
@click.option("--most", type=int, default=64, show_default=True, help="Largest count.")
@click.option("--per-host", type=int, default=8, show_default=True, help="Accelerators of a host.")
@click.option("--network", help="Between hosts, such as ib-200g. Default: what such hosts have.")
@click.option("--zero-stage", type=int, default=0, show_default=True, help="What replicas share.")
@question_options
def command(
    subject: str,
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
    from perfmodel.estimator.tables.curve import CurveQuestion, doubling_counts
    from perfmodel.placement.topology.networks import named_network

    question = CurveQuestion(
        accelerator=accelerator,
        counts=tuple(doubling_counts(most)),
        per_host=per_host,
        network=None if network is None else named_network(network, pointer="/network"),
        zero_stage=zero_stage,
    )
    refusal = "curve takes a model, not a request; ask POST /v1/curve."
    job, estimator = prepare_model(subject, settings, refusal=refusal)
    found = estimator.curve(job, question)
    if as_json:
        print_json(plain_curve(found))
    else:
        print_curve(found)


#: Columns of numbers in the JSON.
_NUMBERS = (
    "counts", "samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s",
    "efficiency",
)  # fmt: skip


def plain_curve(curve: Curve) -> dict[str, Any]:
    """Return a curve as plain JSON values."""
    columns = {name: getattr(curve, name).tolist() for name in _NUMBERS}
    return {
        "accelerator": curve.accelerator,
        **columns,
        "fits": _fits(curve),
        "basis": [basis.value for basis in curve.basis],
        "model_version": curve.model_version,
        "warnings": list(curve.warnings),
    }


def _fits(curve: Curve) -> list[bool | None]:
    """Tell for each count whether the job fits; None where its memory is not known."""
    each = zip(curve.fits.tolist(), curve.peak_bytes.tolist(), strict=True)
    return [fits if math.isfinite(peak_bytes) else None for fits, peak_bytes in each]


def print_curve(curve: Curve) -> None:
    """Print a curve for people."""
    head = ("count", "samples/s", "interval", "step", "sync", "of ideal")
    click.echo("{:>6}  {:>10}  {:>21}  {:>9}  {:>9}  {:>8}  fits".format(*head))
    fits = [_WORDS[one] for one in _fits(curve)]
    for i, number in enumerate(curve.counts.tolist()):
        between = f"{count(curve.low[i])} to {count(curve.high[i])}"
        click.echo(
            f"{number:>6}  {count(curve.samples_per_second[i]):>10}  {between:>21}  "
            f"{duration(curve.step_time_s[i]):>9}  {duration(curve.sync_time_s[i]):>9}  "
            f"{percent(curve.efficiency[i]):>8}  {fits[i]}"
        )
    for text in curve.warnings:
        click.echo(f"warning: {text}")
