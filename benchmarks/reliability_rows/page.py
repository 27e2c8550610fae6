"""docs/reliability.md: every promise, what was measured of it, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reliability_rows.row import Result, Row, Verdict

#: Of a machine that does little else, processes that want to run for each core.
IDLE_LOAD = 1.0
_HEAD = """# Reliability

What this project promises of a service in operation, and what was measured of each promise.
Written by

    make bench-reliability                        # every row in full
    make bench-reliability FORM=--fast            # the same rows, small counts
    python benchmarks/reliability.py --only disk  # one row, the others stay as they were

A row runs in a process of its own against real services over HTTP, or is the same test as in
`make test` with a larger count; one that breaks off stops no other. A promise that was not kept
says **missed**; nothing is left out, and a row that was measured with a smaller count than the full
one says so. What each row does stands below the table. Rows marked \\*
measure times, which other work on the machine stretches: the last table says how many processes
wanted to run when a row began (load), on how many cores.
"""


def written_page(rows: Sequence[Row], results: Mapping[str, Result]) -> str:
    """Return the page: every row has its line, whether it was measured or not."""
    lines = [_HEAD, _counted(rows, results), "", "| property | promised | measured | verdict |"]
    lines += ["|---|---|---|---|"]
    lines += [_line(row, results.get(row.name)) for row in rows]
    lines += ["", "## How each row is measured", ""]
    lines += [f"- `{row.name}`: {row.how} ({row.counted})." for row in rows]
    lines += ["", "## When and where", "", "| row | count | took | load / cores | at |"]
    lines += ["|---|---|---|---|---|"]
    lines += [_conditions(results[row.name]) for row in rows if row.name in results]
    return "\n".join(lines) + "\n"


def verdict_of(result: Result | None) -> Verdict:
    """Return the verdict of a row that may not have been measured."""
    return Verdict.NOT_RUN if result is None else result.verdict


def _counted(rows: Sequence[Row], results: Mapping[str, Result]) -> str:
    verdicts = [verdict_of(results.get(row.name)) for row in rows]
    counts = [f"{verdicts.count(one)} {one}" for one in Verdict if one in verdicts]
    return f"Of {len(rows)} promises: {', '.join(counts)}."


def _line(row: Row, result: Result | None) -> str:
    mark = " \\*" if row.is_timed else ""
    measured = "" if result is None else _noted(row, result) + _escaped(result.measured)
    verdict = verdict_of(result)
    shown = str(verdict) if verdict is Verdict.HELD else f"**{verdict}**"
    return f"| {row.title}{mark} | {row.promised} | {measured} | {shown} |"


def _noted(row: Row, result: Result) -> str:
    """Return what keeps a figure from being the one that is promised."""
    notes = []
    if result.count < row.full:
        notes.append(f"{result.count:,} of {row.full:,} {row.counted}")
    if row.is_timed and result.load > IDLE_LOAD * result.cores:
        notes.append(f"busy machine, load {result.load:g}")
    return f"({'; '.join(notes)}) " if notes else ""


def _conditions(result: Result) -> str:
    return (
        f"| `{result.name}` | {result.count:,} | {result.took_s:,.0f} s | "
        f"{result.load:g} / {result.cores} | {result.at} |"
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
