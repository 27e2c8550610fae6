"""``perfmodel explain``: why a prediction is what it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.predict import print_estimate
from perfmodel.cli.asking.prepare import read_question
from perfmodel.cli.options import question_options
from perfmodel.cli.output import duration, percent, print_json, print_table, with_unit

if TYPE_CHECKING:
    from perfmodel.estimator.explanation import Explanation


@click.command()
@click.argument("subject", metavar="MODEL|FILE|-")
@click.option("--on", "placement", metavar="PLACEMENT", help="For example 8xA100-SXM4-80GB.")
@click.option(
    "--most", type=click.IntRange(1, 1_000), default=15, help="Groups of equal operators at most."
)
@question_options
def command(
    subject: str,
    placement: str | None,
    most: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Say why a prediction is what it is.

    Takes what `perfmodel predict` takes:

        perfmodel explain timm/resnet50 --batch-size 64 --mode training --on 8xA100-SXM4-80GB

    Prints the factors from the roofline to the answer, what each class of operators and each
    group of equal operators takes, and the measured steps that lie nearest.
    """
    from perfmodel.estimator import Estimator

    estimator = Estimator.from_folder(settings["models"])
    query, knowing = read_question(estimator, subject, placement, settings)
    found = knowing.explain(query.job, query.placement, query.observations, most=most)
    if as_json:
        print_json(found.to_dict())
        return
    print_estimate(query.job, found.estimate, estimator.problems)
    _print_factors(found)
    _print_classes(found)
    _print_operators(found)
    _print_nearest(found)


def _print_factors(found: Explanation) -> None:
    _print(
        "From the roofline to the answer",
        ("", "factor", "time"),
        (
            (one.name, f"x {one.factor:.3f}" if position else "", duration(one.step_time_s))
            for position, one in enumerate(found.contributions)
        ),
        right="lrr",
    )


def _print_classes(found: Explanation) -> None:
    _print(
        f"Classes of operators, {duration(found.compute_time_s)} on one {_kind(found)}",
        ("class", "calls", "FLOP", "moved", "time", "share"),
        (
            (
                one.name,
                str(one.count),
                with_unit(one.flops, "FLOP"),
                with_unit(one.bytes, "B"),
                duration(one.time_s),
                percent(one.share),
            )
            for one in found.operator_classes
        ),
        right="lrrrrr",
    )


def _print_operators(found: Explanation) -> None:
    _print(
        f"Operators; the ridge of the roofline is at {found.roofline.ridge_intensity:.3g} FLOP/B",
        ("operator", "phase", "writes", "calls", "FLOP/B", "time", "share", "reaches", "bound by"),
        (
            (
                one.name,
                one.phase,
                "x".join(map(str, one.shape)) or "-",
                str(one.count),
                "-" if one.intensity is None else f"{one.intensity:.3g}",
                duration(one.time_s),
                percent(one.time_s / found.compute_time_s),
                with_unit(one.achieved_flops_per_s, "FLOP/s"),
                one.bound,
            )
            for one in found.operators
        ),
        right="lllrrrrrl",
    )


def _print_nearest(found: Explanation) -> None:
    if not found.nearest:
        return
    _print(
        "Nearest measured steps",
        ("workload", "on", "measured", "predicted", "ratio", "distance", "source"),
        (
            (
                near.workload,
                near.accelerator or "-",
                duration(near.measured_s),
                duration(near.predicted_s),
                _ratio(near.measured_over_predicted),
                _ratio(near.distance),
                near.source,
            )
            for near in found.nearest
        ),
        right="llrrrrl",
    )


def _print(
    title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, right: str
) -> None:
    print()
    print_table(columns, rows, title=title, right=right)


def _kind(found: Explanation) -> str:
    return f"{found.roofline.accelerator} ({found.roofline.precision})"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
