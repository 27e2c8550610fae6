"""``perfmodel explain``: why a prediction is what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.predict import print_estimate
from perfmodel.cli.asking.prepare import read_question
from perfmodel.cli.options import on_option, question_options
from perfmodel.cli.output import duration, percent, print_json, print_table, with_unit
from perfmodel.cli.subjects import describe_job

if TYPE_CHECKING:
    from perfmodel.estimator.explain.explain import Explanation

#: Heading, side, and the cell of an item.
Column = tuple[str, str, Callable[[Any], str]]


@click.command()
@click.argument("subject", metavar="MODEL|FILE|-", required=False)
@on_option("placement", "For example 8xA100-SXM4-80GB.")
@click.option(
    "--most", type=click.IntRange(1, 1_000), default=15, help="Groups of equal operators at most."
)
@question_options
def command(
    subject: str | None, placement: str | None, most: int, as_json: bool, **settings: Any
) -> None:
    """Say why a prediction is what it is.

    Takes what `perfmodel predict` takes:

        perfmodel explain timm/resnet50 --batch-size 64 --mode training --on 8xA100-SXM4-80GB

    Prints the factors from the roofline to the answer, what each class of operators and each
    group of equal operators takes, and the measured steps that lie nearest.
    """
    from perfmodel.cli.asking.here import estimator_here
    from perfmodel.requests import parse_query

    request, graph = read_question(subject, placement, settings)
    query, estimator = parse_query(request), estimator_here(settings["models"], graph)
    found = estimator.explain(query.job, query.placement, query.observations, most=most)
    if as_json:
        print_json(found.to_dict())
        return
    described = describe_job(query.job, subject if graph else None)
    print_estimate(described, found.estimate.to_dict(), estimator.problems)
    _print(
        "From the roofline to the answer",
        enumerate(found.contributions),
        ("", "l", lambda one: one[1].name),
        ("factor", "r", lambda one: f"x {one[1].factor:.3f}" if one[0] else ""),
        ("time", "r", lambda one: duration(one[1].step_time_s)),
    )
    _print_operators(found)
    if found.nearest:
        _print(
            "Nearest measured steps",
            found.nearest,
            ("workload", "l", lambda near: near.workload),
            ("on", "l", lambda near: near.accelerator or "-"),
            ("measured", "r", lambda near: duration(near.measured_s)),
            ("predicted", "r", lambda near: duration(near.predicted_s)),
            ("ratio", "r", lambda near: _ratio(near.measured_over_predicted)),
            ("distance", "r", lambda near: _ratio(near.distance)),
            ("source", "l", lambda near: near.source),
        )


def _print_operators(found: Explanation) -> None:
    roofline = found.roofline
    _print(
        f"Classes of operators, {duration(found.compute_time_s)} on one {roofline.accelerator} "
        f"({roofline.precision})",
        found.operator_classes,
        ("class", "l", lambda one: one.name),
        ("calls", "r", lambda one: str(one.count)),
        ("FLOP", "r", lambda one: with_unit(one.flops, "FLOP")),
        ("moved", "r", lambda one: with_unit(one.bytes, "B")),
        ("time", "r", lambda one: duration(one.time_s)),
        ("share", "r", lambda one: percent(one.share)),
    )
    _print(
        f"Operators; the ridge of the roofline is at {roofline.ridge_intensity:.3g} FLOP/B",
        found.operators,
        ("operator", "l", lambda one: one.name),
        ("phase", "l", lambda one: one.phase),
        ("writes", "l", lambda one: "x".join(map(str, one.shape)) or "-"),
        ("calls", "r", lambda one: str(one.count)),
        ("FLOP/B", "r", lambda one: _ratio(one.intensity)),
        ("time", "r", lambda one: duration(one.time_s)),
        ("share", "r", lambda one: percent(one.time_s / found.compute_time_s)),
        ("reaches", "r", lambda one: with_unit(one.achieved_flops_per_s, "FLOP/s")),
        ("bound by", "l", lambda one: one.bound),
        ("rests on", "l", lambda one: one.rests_on),
    )


def _print(title: str, items: Iterable[Any], *columns: Column) -> None:
    print()
    rows = [[cell(one) for _, _, cell in columns] for one in items]
    right = "".join(side for _, side, _ in columns)
    print_table([heading for heading, _, _ in columns], rows, title=title, right=right)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
