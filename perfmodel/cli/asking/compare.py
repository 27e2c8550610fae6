"""``perfmodel compare``: accelerators ranked for a job."""

from __future__ import annotations

import re
from typing import Any

import click

from perfmodel.cli.asking.answering import Answers, answered
from perfmodel.cli.asking.prepare import read_model
from perfmodel.cli.failures import EXIT_INPUT, EXIT_SOME_FAILED
from perfmodel.cli.options import answering_options, question_options
from perfmodel.cli.output import count, duration, memory, print_json, print_table
from perfmodel.cli.subjects import describe_job


@click.command()
@click.argument("subject", metavar="MODEL", required=False)
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
@answering_options
def command(
    subject: str | None,
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
    job, graph = read_model(subject, settings, refusal=refusal)

    def ranked(who: Answers) -> list[dict[str, Any]]:
        return sorted(who.compare(job, on or _catalogue(who, kind, count)), key=in_order)

    rows = answered(settings, ranked, graph)
    if as_json:
        print_json(rows[:top])
    else:
        title = describe_job(job, subject if graph else None)
        _print(title, rows[:top], shown_of=len(rows))
    _exit_if_any_failed(rows)


def _catalogue(who: Answers, kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{count}x{name}" if count > 1 else name for name in who.accelerators(kind))


def in_order(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Return where a candidate stands: what fits, or may, the fastest first; errors last."""
    if "error" in row:
        return (True, True, 0.0)
    return (False, row["memory"]["fits"] is False, -row["throughput"]["samples_per_second"])


def _print(title: str, rows: list[dict[str, Any]], *, shown_of: int) -> None:
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
    print_table(columns, cells, title=title, right="rlrrrrl")
    if len(rows) < shown_of:
        print(f"{len(rows)} of {shown_of} shown.")
    for text in joined_warnings(rows):
        print(f"Warning: {text}")


def joined_warnings(rows: list[dict[str, Any]]) -> list[str]:
    """Return the warnings of all rows; those that differ by the accelerator alone as one."""
    said: dict[tuple[str, ...], dict[str, None]] = {}
    for row in rows:
        name = re.sub(r"^\d+x", "", row["placement"])
        alone = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        for text in row.get("warnings", ()):
            said.setdefault(tuple(alone.split(text)), {})[name] = None
    return [_of_all(list(names), parts) for parts, names in said.items()]


def _of_all(names: list[str], parts: tuple[str, ...]) -> str:
    first, *others = parts
    if len(names) > 1:
        others = [re.sub(r"^ has\b", " have", part) for part in others]
    return ", ".join(names).join([first, *others])


def _exit_if_any_failed(rows: list[dict[str, Any]]) -> None:
    failed = sum("error" in row for row in rows)
    if failed:
        everything = failed == len(rows)
        click.get_current_context().exit(EXIT_INPUT if everything else EXIT_SOME_FAILED)
