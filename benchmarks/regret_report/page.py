"""Write docs/regret.md and its picture from the results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_report.markdown import number, percent, table
from regret_report.picture import picture
from regret_report.results import PolicyResults, Results
from regret_report.scenarios import BESIDE_BLIND, CHOSEN, SHARED, TARGETS
from regret_report.seen_rates import BLIND, NOTHING, ORACLE


def write_page(results: Results, path: Path) -> None:
    """Write the page, and the picture beside it.

    Parameters
    ----------
    path : Path
        ``docs/regret.md``.
    """
    image = path.with_suffix(".svg")
    image.write_text(picture(results.policies))
    path.write_text("\n".join([*_head(results, image.name), *_parts(results)]).rstrip() + "\n")


def _head(results: Results, image: str) -> Iterator[str]:
    facts = results.facts
    yield "# Regret"
    yield ""
    yield (
        f"Written by `{facts['command']}` on {facts['date']} with model {facts['model']}, in "
        f"{facts['minutes']:.0f} minutes in all; not edited by hand."
    )
    yield ""
    yield (
        "What jobs lose when a scheduler plans by predictions: a simulated cluster runs made-up "
        "traces at *measured* rates in rounds of six minutes, while the policy sees another table. "
        "*oracle* is the measured table, *blind* one that prefers no kind of accelerator, scales "
        "linearly and knows no pairs; the others are predictions, with more and more of the table "
        "measured. Measured cells stand in the table as they were measured, and are observations "
        "for the rest."
    )
    yield ""
    yield from _knowledge()
    yield (
        f"Four policies share the time of {_cluster(SHARED)} among jobs of Gavel's table, which "
        "state how many accelerators they take: 70 % one, 10 % two, 15 % four, 5 % eight; those on "
        "one may be paired. "
        f"A trace has {facts['jobs']['shared']} jobs, one an hour, as long as 10^x minutes on the "
        "kind that they run on best, x uniform on 1.5 to 3 for 80 % and on 3 to 4 for the others. "
        f"The fifth chooses kind, count and batch size for jobs of Sia's tables on "
        f"{_cluster(CHOSEN)}: {facts['jobs']['chosen']} jobs, 5.5 an hour, as long as 10^x hours "
        "on one accelerator of the slowest kind, x uniform on 0 to 1.7. Each figure is from "
        f"{facts['traces']} traces. A job that is sent where its memory does not fit loses a round "
        "and is not sent there again; moving a job costs nothing, and where accelerators are does "
        "not count. Files: `benchmarks/cluster_simulation/`."
    )
    yield ""
    yield (
        "**Flattered:** the trained models have not seen these tables, but some constants that are "
        "shipped were fitted to them: what jobs on one accelerator do to each other (Gavel's "
        "pairs), what is known of job types by their names (both tables), how observed steps are "
        "weighed and what scripts take beyond their steps (both, two of eight models aside). Of a "
        "script of which nothing was observed that is two numbers for each kind of accelerator and "
        "five for each of its links; ADR 36 and 51 say what is left of it without the judged job. "
        "What rests on observations is flattered more, most of all jobs that no graph stands for. "
        "A form that holds the tables out is not there: answers take these constants from one "
        "place."
    )
    yield ""
    yield f"![Regret of every policy by what is known]({image})"
    yield ""


def _knowledge() -> Iterator[str]:
    yield (
        "*One cell*: every job type on one V100 (goodput: on one T4, at its initial batch). "
        "*Three placements*: on one V100, one K80 and four V100 (goodput: one and four T4, one "
        "A100, at the initial batch). *All but K80* and the like: every cell on all other kinds."
    )
    yield ""


def _parts(results: Results) -> Iterator[str]:
    yield "## Hours, and what they are of the oracle's"
    yield ""
    yield (
        "Average completion time; for the least makespan, the makespan. Ratios are means over "
        "traces, after +- their standard deviation."
    )
    yield ""
    for policy in results.policies:
        yield f"### {policy.title}"
        yield ""
        if policy.busy:
            busy = percent(float(np.mean(policy.busy)))
            yield f"Under the oracle {busy} of the accelerators are busy."
            yield ""
        yield from table(
            ("the policy sees", "hours", "of the oracle's", "of blind", "to reach"),
            [_row(policy, name) for name in policy.judged_h],
        )
    yield from _repairs(results.repairs)
    yield from _errors(results.errors)


def _row(policy: PolicyResults, name: str) -> list[str]:
    ratio, spread = policy.beside(name)
    blind, blind_spread = policy.beside(name, BLIND)
    return [
        name,
        f"{policy.hours(name).mean():.1f}",
        f"**{ratio:.3f}** +- {spread:.3f}",
        f"{blind:.3f} +- {blind_spread:.3f}",
        _target(name, ratio, blind),
    ]


def _target(name: str, ratio: float, blind: float) -> str:
    if name in BESIDE_BLIND:
        return _judged(f"{BESIDE_BLIND[name]:.2f} of blind", blind <= BESIDE_BLIND[name])
    if name in TARGETS:
        return _judged(f"{TARGETS[name]:.2f} of the oracle's", ratio <= TARGETS[name])
    return "-"


def _judged(aim: str, reached: bool) -> str:
    return f"{aim}: {'reached' if reached else 'missed'}"


def _repairs(repairs: Sequence[PolicyResults]) -> Iterator[str]:
    if not repairs:
        return
    yield "## What costs how much"
    yield ""
    yield (
        "The table with nothing observed, one part of it made right and the rest left as "
        "predicted. Figures are ratios to the oracle's. Jobs without an answer are seen with the "
        "ratio between kinds that the others are predicted to have; the last line of the first "
        "table gives them equal rates on all kinds instead."
    )
    yield ""
    for names, policies in _alike(repairs):
        yield from table(
            ("made right", *(policy.title for policy in policies)),
            [
                [
                    "nothing" if name == NOTHING else name,
                    *(f"{policy.beside(name)[0]:.3f}" for policy in policies),
                ]
                for name in names
            ],
        )


def _alike(repairs: Sequence[PolicyResults]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield policies of which the same parts were made right, with the names of the parts."""
    found: dict[tuple[str, ...], list[PolicyResults]] = {}
    for policy in repairs:
        names = tuple(name for name in policy.judged_h if name not in (ORACLE, BLIND))
        found.setdefault(names, []).append(policy)
    yield from found.items()


def _errors(errors: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    yield "## How wrong the tables are"
    yield ""
    yield (
        "Means of |ln(seen / measured)| over cells: of rates; of the rate on a V100 over that on a "
        "K80; of the rate on several accelerators over that on one; of the share of its rate that "
        "a job keeps beside another."
    )
    yield ""
    yield from _plain_table(errors["sharing"])
    yield (
        "With nothing observed, by family of jobs. Geometric means of seen over measured, beside "
        "the measured V100 over K80."
    )
    yield ""
    yield from _plain_table(errors["families"])
    yield (
        "Of the steps and goodputs of Sia's applications, the best batch size each; and the share "
        "of the goodput that is lost because another batch size is believed to be best."
    )
    yield ""
    yield from _plain_table(errors["goodput"])
    yield (
        "With nothing observed, goodput of the best batch size: on one accelerator of each kind "
        "over that on one of the first, and on the most accelerators of each kind over that on one."
    )
    yield ""
    yield from _plain_table(errors["applications"])


def _plain_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield from table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(_text(one) for one in value)
    return value if isinstance(value, str) else number(value, 2)


def _cluster(accelerators: dict[str, int]) -> str:
    *first, last = (f"{count} {_NAMES[kind]}" for kind, count in accelerators.items())
    return f"{', '.join(first)} and {last}"


_NAMES = {
    "k80": "K80", "v100": "V100", "aws": "T4", "rtx": "RTX 2080 Ti", "azure": "V100", "dgx": "A100",
}  # fmt: skip
