"""``perfmodel compare``: accelerators ranked for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.prepare import prepare_model
from perfmodel.cli.failures import EXIT_INPUT, EXIT_SOME_FAILED, problem
from perfmodel.cli.options import question_options
from perfmodel.cli.output import count, duration, memory, print_json, print_table
from perfmodel.cli.subjects import describe_job
from perfmodel.errors import PerfModelError

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator
    from perfmodel.graph.job import Job


@click.command()
@click.argument("subject", metavar="MODEL")
@click.option("--on", "on", multiple=True, metavar="PLACEMENT", help="A candidate. Repeatable.")
@click.option(
    "--kind",
    type=click.Choice(["gpu", "cpu", "tpu", "npu", "all"]),
    default="gpu",
    show_default=True,
    help="Without --on: every accelerator of this kind.",
)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Of each kind.")
@click.option("--top", type=click.IntRange(1), help="Show so many.")
@question_options
def command(
    subject: str,
    on: tuple[str, ...],
    kind: str,
    count: int,
    top: int | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Rank accelerators by the throughput that a job will reach on them.

    MODEL is as for `perfmodel capture`. What the job does not fit into comes last.
    """
    refusal = "compare takes a model, not a request; use perfmodel predict."
    job, estimator = prepare_model(subject, settings, refusal=refusal)
    candidates = on or _catalogue(kind, count)
    rows = _rank(estimator, job, candidates)
    if as_json:
        print_json(rows[:top])
    else:
        _print(job, rows[:top], shown_of=len(rows))
    _exit_if_any_failed(rows)


def _catalogue(kind: str, count: int) -> tuple[str, ...]:
    from perfmodel.devices.catalog import Catalog

    names = [spec.name for spec in Catalog.default() if kind in ("all", spec.kind)]
    return tuple(f"{count}x{name}" if count > 1 else name for name in names)


def _rank(estimator: Estimator, job: Job, candidates: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return one row a candidate: fitting ones by throughput, then the others, then errors."""
    from perfmodel.placement.topology.parse import parse_placement

    prepared = estimator.core.prepare(job)
    rows: list[dict[str, Any]] = []
    for text in candidates:
        try:
            found = estimator.answer(prepared, estimator.core.resolve(parse_placement(text)))
            rows.append({"placement": text, **found.to_dict()})
        except PerfModelError as error:
            rows.append({"placement": text, "error": problem(error)})
    return sorted(rows, key=in_order)


def in_order(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Return where a candidate stands: what fits, or may, the fastest first; errors last."""
    if "error" in row:
        return (True, True, 0.0)
    return (False, row["memory"]["fits"] is False, -row["throughput"]["samples_per_second"])


def _print(job: Job, rows: list[dict[str, Any]], *, shown_of: int) -> None:
    cells = []
    for place, row in enumerate(rows, start=1):
        if "error" in row:
            cells.append(["-", row["placement"], row["error"]["detail"], "", "", "", ""])
            continue
        rate, room = row["throughput"], row["memory"]
        fits = "does not fit" if room["fits"] is False else memory(room["peak_bytes"])
        interval = f"{count(rate['low'])} to {count(rate['high'])}"
        cells.append(
            [str(place), row["placement"], count(rate["samples_per_second"]), interval]
            + [duration(row["step_time_s"]), fits, row["basis"]]
        )
    columns = ["", "placement", "samples/s", "interval", "step time", "memory", "basis"]
    print_table(columns, cells, title=describe_job(job), right="rlrrrrl")
    if len(rows) < shown_of:
        print(f"{len(rows)} of {shown_of} shown.")
    for text in dict.fromkeys(text for row in rows for text in row.get("warnings", ())):
        print(f"Warning: {text}")


def _exit_if_any_failed(rows: list[dict[str, Any]]) -> None:
    failed = sum("error" in row for row in rows)
    if failed:
        everything = failed == len(rows)
        click.get_current_context().exit(EXIT_INPUT if everything else EXIT_SOME_FAILED)
