"""``perfmodel plans``: search the parallel plans of a transformer on some hardware."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.prepare import read_model
from perfmodel.cli.options import on_option, question_options
from perfmodel.cli.output import count, duration, memory, print_facts, print_json

if TYPE_CHECKING:
    from perfmodel.placement.plan_steps.plan_cells import PlanChoice
    from perfmodel.placement.plans.plan_search import PlanRanking, RankedPlan
    from perfmodel.placement.topology.topology import Placement


@click.command()
@click.argument("subject", metavar="MODEL", required=False)
@on_option("placement", "8x(8xA100-SXM4-80GB)@8xib-200g.", required=True)
@click.option(
    "--global-batch",
    type=click.IntRange(1),
    help="Samples of a step. [default: the batch size of the job on each accelerator]",
)
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
    estimator, hardware = estimator_here(settings["models"], graph), parse_placement(placement)
    found = estimator.search(job, hardware, global_batch=global_batch, most=most)
    if as_json:
        print_json({**asdict(found), "plans": [_plain(plan) for plan in found.plans]})
    else:
        _print(found, hardware)


def _plain(plan: RankedPlan) -> dict[str, Any]:
    facts = asdict(plan)
    facts["choice"]["checkpointing"] = plan.choice.checkpointing.name.lower()
    return facts


def _options(choice: PlanChoice, hardware: Placement) -> str:
    """Return the options with which ``perfmodel predict`` asks about a plan.

    Empty where the short form cannot say the hardware.
    """
    from perfmodel.placement.topology.parse import format_placement

    where = format_placement(replace(hardware, plan=choice.plan))
    if not isinstance(where, str):
        return ""
    words = [f"--on {shlex.quote(where)}", f"--batch-size {choice.micro_batch}"]
    if choice.micro_batches > 1:
        words.append(f"--accumulation-steps {choice.micro_batches}")
    if choice.checkpointing:
        how = "activation" if choice.checkpointing.name == "FULL" else "selective"
        words.append(f"--{how}-checkpointing")
    return " ".join(words)


def _print(found: PlanRanking, hardware: Placement) -> None:
    from perfmodel.placement.plans.plan_words import plan_words

    for rank, plan in enumerate(found.plans, start=1):
        facts = [
            (f"plan {rank}", plan_words(plan.choice)),
            ("throughput", f"{count(plan.samples_per_second)} samples/s"),
            ("step time", duration(plan.step_time_s)),
            ("memory", memory(plan.memory_bytes)),
            ("why", plan.reason),
        ]
        if options := _options(plan.choice, hardware):
            facts.append(("options", options))
        print_facts(facts)
        click.echo()
    counted = f"{found.considered} plans, {found.too_large} of them too large. {found.why_none}"
    click.echo(counted.rstrip())
