"""``perfmodel plans``: search the parallel plans of a transformer on some hardware."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.prepare import read_model
from perfmodel.cli.options import on_option, question_options
from perfmodel.cli.output import count, duration, memory, print_facts, print_json

if TYPE_CHECKING:
    from perfmodel.placement.plans.plan_search import PlanRanking, RankedPlan


@click.command()
@click.argument("subject", metavar="MODEL", required=False)
@on_option("placement", "8x(8xA100-SXM4-80GB)@8xib-200g.", required=True)
@click.option("--global-batch", type=int, help="Samples of a step. [default: those of the job]")
@click.option("--most", type=click.IntRange(1), default=5, show_default=True, help="Plans shown.")
@question_options
def command(
    subject: str | None,
    placement: str,
    global_batch: int | None,
    most: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Time every sensible plan that fits the hardware, and say why the best is the best.

    MODEL is as for `perfmodel capture`, with --mode training.
    """
    from perfmodel.cli.asking.here import estimator_here
    from perfmodel.placement.topology.parse import parse_placement

    refusal = "plans takes a model, not a request; ask POST /v1/rank."
    job, graph = read_model(subject, settings, refusal=refusal)
    estimator = estimator_here(settings["models"], graph)
    found = estimator.search(job, parse_placement(placement), global_batch=global_batch, most=most)
    if as_json:
        print_json({**asdict(found), "plans": [_plain(plan) for plan in found.plans]})
    else:
        _print(found)


def _plain(plan: RankedPlan) -> dict[str, Any]:
    facts = asdict(plan)
    facts["choice"]["checkpointing"] = plan.choice.checkpointing.name.lower()
    return facts


def _print(found: PlanRanking) -> None:
    from perfmodel.placement.plans.plan_words import plan_words

    for rank, plan in enumerate(found.plans, start=1):
        print_facts(
            [
                (f"plan {rank}", plan_words(plan.choice)),
                ("throughput", f"{count(plan.samples_per_second)} samples/s"),
                ("step time", duration(plan.step_time_s)),
                ("memory", memory(plan.memory_bytes)),
                ("why", plan.reason),
            ]
        )
        click.echo()
    click.echo(f"{found.considered} plans, {found.too_large} of them too large. {found.why_none}")
